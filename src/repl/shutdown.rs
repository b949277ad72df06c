//! Ends the loop so that nothing is lost and nothing is left running, and suspends the process.

use std::time::Duration;

use crate::agent::{Agent, Role, State};
use crate::base::clock::Moment;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text::counted;
use crate::repl::Repl;
#[cfg(feature = "coordinator")]
use crate::repl::component::Component as _;
use crate::repl::core::archive::archive_idle;
use crate::repl::core::{Core, begin, drafts, files, limits, remove, unsaved};
use crate::repl::watch::SlowTurns;

/// How long one wait for tools lasts at most, in case the wake of one is lost.
const TOOL_WAIT: Duration = Duration::from_millis(20);

/// How the loop has ended.
#[derive(Default)]
pub(super) struct End {
    /// Why not all that was stored is on the disk.
    not_durable: Option<Error>,
    /// See [`Repl::notes_of_end`].
    pub(super) notes: Vec<String>,
}

impl Repl {
    /// Ends the loop in order: interrupts every turn and stores its partial reply, except those that wait for the answer to
    /// a question, which the next start asks again; cancels tools and waits for their threads
    /// (at most [`Settings::exit_patience`](crate::config::Settings::exit_patience)), and restores the terminal.
    ///
    /// Then waits, as long at most, until all that was stored is on the disk.
    ///
    /// # Errors
    /// The system call that waits for events fails.
    pub fn leave(&mut self) -> Result<()> {
        let start = self.core.now();
        self.server.begin_shutdown();
        #[cfg(feature = "coordinator")]
        self.end_runs(start);
        for id in self.core.roster().ids() {
            for feature in &mut self.features {
                feature.interrupt(&mut self.core, id);
            }
            self.jobs.cancel(&mut self.core, id, true);
            end_turn_of(&mut self.core, id);
        }
        self.apply_effects();
        self.step_components();
        // Messages that waited for resources are drafts again.
        self.send_completed();
        for id in self.core.roster().ids() {
            drafts::save_all(&self.core, id);
        }
        files::free_unsent(&mut self.core);
        self.jobs.close_queue();
        self.features.iter_mut().for_each(|feature| feature.begin_end(&mut self.core));
        self.wait_for_tools(start)?;
        let notes = self.end_components();
        self.process.end.notes.extend(notes);
        unsaved::save_all(&mut self.core);
        limits::save_spent(&mut self.core);
        self.terminals.ids().into_iter().for_each(|id| self.terminals.keep_shown(&mut self.core, id));
        self.send_ways_back();
        archive_idle(&mut self.core);
        self.process.end.not_durable = self.core.store().wait_durable(self.core.config().settings.exit_patience).err();
        self.apply_effects();
        self.terminals.suspend_all();
        self.terminals.print_ends(&mut self.core);
        self.attached().publish();
        self.server.shutdown(&mut self.core)?;
        self.attached().detach_released();
        // Last, so that no terminal shows another conversation in their place.
        let unwritten = self.terminals.take_begun();
        begin::forget_unwritten(&mut self.core, &unwritten);
        Ok(())
    }

    fn end_components(&mut self) -> Vec<String> {
        let (core, components, _) = self.split();
        components.flat_map(|component| component.end(core)).collect()
    }

    /// Which of the agents' messages are lost, or will be after a power cut, in words.
    pub fn loss(&self) -> Option<String> {
        let unsaved = unsaved::count(&self.core);
        let unsaved = (unsaved > 0).then(|| format!("{} could not be stored", counted(unsaved, "message", "messages")));
        unsaved.or_else(|| self.process.end.not_durable.as_ref().map(|error| error.message.clone()))
    }

    /// Notes that a process without a terminal prints when it ends: undos of an earlier process that were completed at the
    /// start, and what no client was left to hear.
    pub(crate) fn notes_of_end(&self) -> &[String] {
        &self.process.end.notes
    }

    /// The turns of the loop that took 5 ms or more, in debug builds and where a trace is written.
    pub fn slow_turns(&self) -> SlowTurns {
        self.trace.slow_turns()
    }

    /// Interrupts all runs. Each step brings them nearer to their end; with 100 members two are needed.
    #[cfg(feature = "coordinator")]
    fn end_runs(&mut self, now: Moment) {
        self.coordinator.shutdown(now);
        while self.coordinator.has_work(&self.core) {
            self.step_components();
        }
    }

    fn wait_for_tools(&mut self, start: Moment) -> Result<()> {
        let patience = self.core.config().settings.exit_patience;
        while remove::has_tool_threads(&self.core) || self.split().1.any(|component| component.has_to_end()) {
            let waited = self.core.now() - start;
            if waited >= patience {
                break;
            }
            self.core.reactor().wait(Some((patience - waited).min(TOOL_WAIT)), &mut Vec::new())?;
            for id in self.core.roster().with_live_tools().clone() {
                self.core.with_agent(id, |agent, context| agent.poll_tools(context));
            }
            self.core.reap();
            self.step_components();
            self.apply_effects();
        }
        Ok(())
    }

    /// Restores the terminal and stops, with the whole process group: otherwise a parent that waits for us would keep
    /// the terminal. Returns when SIGCONT has arrived; deadlines are moved by the time in between. With other terminals
    /// this process goes on: it ignores the signal that stops the rest of its group.
    pub(super) fn suspend(&mut self) -> Result<()> {
        if self.process.signals.is_none() || self.terminals.is_at_shell() {
            return Ok(());
        }
        self.terminals.suspend_all();
        if let Some(note) = self.what_stops() {
            self.terminals.iter_mut().for_each(|terminal| terminal.print_line(&note));
        }
        if self.goes_on_for_others() {
            self.terminals.leave_to_shell(&mut self.core);
            // The second reaches the process that waits for this one also where no shell would continue the group.
            let waiting = rustix::process::getppid();
            let stopped = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).and_then(|()| {
                waiting.map_or(Ok(()), |waiting| rustix::process::kill_process(waiting, rustix::process::Signal::STOP))
            });
            return stopped.map_err(|error| std::io::Error::from(error).into());
        }
        let stop = || rustix::process::kill_current_process_group(rustix::process::Signal::STOP);
        self.core.clock().stop_during(stop).map_err(std::io::Error::from)?;
        self.terminals.resume_all()
    }

    fn goes_on_for_others(&self) -> bool {
        self.can_go_on() && self.terminals.ids().len() > 1
    }

    /// The work that pauses while the process is stopped, as a line for the person.
    fn what_stops(&self) -> Option<String> {
        let (busy, others) = (self.core.roster().busy().len(), self.terminals.ids().len().saturating_sub(1));
        if self.goes_on_for_others() {
            let others = counted(others, "other terminal", "other terminals");
            return Some(format!("polylogue goes on for {others}; fg comes back here\n"));
        }
        let busy = (busy > 0).then(|| counted(busy, "agent at work", "agents at work"));
        let others = (others > 0).then(|| counted(others, "other terminal", "other terminals"));
        let stopped: Vec<String> = busy.into_iter().chain(others).collect();
        let way = if self.can_go_on() { "; after fg, /background lets them go on without this terminal" } else { "" };
        (!stopped.is_empty()).then(|| format!("polylogue is stopped, with {}{way}\n", stopped.join(" and ")))
    }
}

/// Ends the background commands of an agent and its turn, or leaves its question for the next start. Members are done with
/// their run.
fn end_turn_of(core: &mut Core, id: AgentId) {
    let is_asked_again = |agent: &Agent| agent.question().is_some() && agent.role == Role::Normal;
    if core.agent(id).is_some_and(is_asked_again) {
        limits::count_work(core, id, State::AwaitingApproval, State::Idle);
        let running = core.with_agent(id, |agent, _| agent.exit_asking());
        remove::drain(core, running.unwrap_or_default());
    } else {
        core.with_agent(id, Agent::exit);
    }
    let background = core.with_agent(id, |agent, _| agent.end_background());
    remove::drain(core, background.unwrap_or_default());
}
