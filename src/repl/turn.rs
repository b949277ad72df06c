//! One turn of the loop, step by step. Every agent is served in every turn, whether it is on a screen or not.

use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::time::Duration;

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::scrollback::LineKind;
use crate::reactor::{Ready, Signal, Signals, Source};
use crate::repl::component::Command;
use crate::repl::core::Core;
use crate::repl::core::activity::{set_watched, waits_for};
use crate::repl::core::archive::archive_idle;
use crate::repl::core::{limits, reads, take_due, unsaved};
use crate::repl::timeout::TOOL_POLL;
use crate::repl::{Repl, Terminal, Turn};

/// Bounds both the agents with a due deadline and those with leftover work that are served in one turn. The next turn
/// begins with the remaining ones.
const AGENTS_PER_TURN: usize = 128;
const REQUESTS_PER_TURN: usize = 64;
const SIGINT: i32 = rustix::process::Signal::INT.as_raw();

impl Repl {
    /// Calls [`Repl::turn`] until the loop is to end or fails, then [`Repl::leave`].
    ///
    /// # Errors
    /// The system call that waits for events fails.
    pub fn run(&mut self) -> Result<()> {
        let outcome = loop {
            match self.turn(None) {
                Ok(Turn::Continue) => {}
                Ok(Turn::Exit) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let left = self.leave();
        outcome.and(left)
    }

    /// One turn of the loop: waits for events, at most as long as `limit` and the next deadline, and lets every agent and
    /// component handle what concerns it.
    ///
    /// # Errors
    /// The system call that waits for events fails. A failure of one agent is reported in its output.
    pub fn turn(&mut self, limit: Option<Duration>) -> Result<Turn> {
        self.trace.prepare();
        self.setup_interests()?;
        let timeout = self.compute_timeout();
        self.trace.step("timeout");
        let wait = self.trace.has_turns().then(|| (self.core.reactor().watched(), self.time_limits()));
        let mut ready = Vec::new();
        self.core.reactor().wait(timeout.within(limit), &mut ready)?;
        reads::add_due(&mut self.core, &mut ready)?;
        self.trace.begin(&timeout, wait, &ready);
        self.embedding.external.on_ready(&ready);
        self.finish_editor();
        self.finish_paste();
        self.trace.step("editor");
        let is_ending = self.handle_signals(&ready)? == Turn::Exit
            || self.read_ready(&ready)? == Turn::Exit
            || self.handle_input()? == Turn::Exit;
        self.trace.step("input");
        if is_ending {
            return Ok(self.end_turn(Turn::Exit));
        }
        self.note_watched();
        self.handle_ready(&ready);
        self.step_components();
        self.send_completed();
        self.trace.step("resources");
        self.process.retention.step(&mut self.core, &self.terminals);
        self.trace.step("retention");
        self.dispatch();
        self.trace.step("dispatch");
        self.publish();
        Ok(self.end_turn(Turn::Continue))
    }

    /// Updates which agents a person watches: at a terminal, or at a client that answers questions. Who waits for a
    /// summary watches the agent that writes it.
    fn note_watched(&mut self) {
        let Self { core, terminals, server, .. } = self;
        set_watched(core, terminals.watched().chain(server.attended()));
    }

    /// Lets every agent handle its input, and applies the effects.
    fn handle_ready(&mut self, ready: &[Ready]) {
        let served = drive_connections(&mut self.core, ready);
        self.trace.step("sockets");
        self.core.reap();
        archive_idle(&mut self.core);
        self.continue_kills();
        self.trace.step("archive");
        self.serve_agents(served, ready);
        reads::rearm(&mut self.core);
        self.trace.step("agents");
        self.apply_effects();
        self.trace.step("effects");
    }

    /// Shows and stores new output.
    fn publish(&mut self) {
        self.embedding.callbacks.run(&mut self.core);
        self.trace.step("callbacks");
        unsaved::save_due(&mut self.core);
        self.trace.step("save");
        self.render();
        self.trace.step("render");
        self.end_detached();
        self.attached().publish();
        self.leave_when_idle();
        self.send_followed();
        limits::save_spent(&mut self.core);
        self.trace.step("publish");
    }

    /// Registers the signals and the descriptors of the components. libcurl's sockets are registered by its callbacks.
    fn setup_interests(&mut self) -> Result<()> {
        if let Some(signals) = &self.process.signals
            && !self.core.reactor().is_watched(Source::Signals)
        {
            self.core.reactor().watch(Source::Signals, signals.fd(), true, false)?;
        }
        let (core, mut components, _) = self.split();
        components.try_for_each(|component| component.watch(core.reactor()))
    }

    fn handle_signals(&mut self, ready: &[Ready]) -> Result<Turn> {
        if !ready.iter().any(|item| item.source == Source::Signals) {
            return Ok(Turn::Continue);
        }
        let signals = self.process.signals.as_mut().map(Signals::take).unwrap_or_default();
        self.core.reactor().rearm(Source::Signals)?;
        for signal in signals {
            match signal {
                // Ctrl+C in an editor is for the editor.
                Signal::Terminate(number) if number == SIGINT && self.programs.editor.is_some() => {}
                Signal::Terminate(_) => return Ok(Turn::Exit),
                // A server outlives the terminal from which it was started; a chat has one.
                Signal::Hangup if self.server.is_listening() && !self.terminals.has_local() => {}
                Signal::Hangup if self.terminals.is_at_shell() && self.can_go_on() => self.leave_local()?,
                Signal::Hangup => return Ok(Turn::Exit),
                Signal::Suspend => self.suspend()?,
                Signal::Resized => {
                    self.terminals.iter_mut().filter(|terminal| terminal.is_local()).for_each(Terminal::measure)
                }
                Signal::Resume => self.terminals.resume_all()?,
            }
        }
        Ok(Turn::Continue)
    }

    /// Lets every component read its descriptors, then handles the requests of clients.
    fn read_ready(&mut self, ready: &[Ready]) -> Result<Turn> {
        self.trace.step("signals");
        let (core, components, trace) = self.split();
        for component in components {
            component.on_ready(ready, core)?;
            trace.step_of(|| component.name());
        }
        let turn = self.handle_requests();
        self.trace.step("requests");
        Ok(turn)
    }

    fn serve_agents(&mut self, served: BTreeSet<AgentId>, ready: &[Ready]) {
        for id in self.agents_with_work(served, ready) {
            let notes = self.core.with_agent(id, |agent, context| {
                agent.absorb_stream(context);
                agent.poll_tools(context);
                agent.check_deadlines(context);
                agent.poll_background(context)
            });
            notes.into_iter().flatten().for_each(|note| self.core.note(id, LineKind::Note, &note));
        }
    }

    /// The agents that libcurl served, with leftover work, and, if a tool may be done, with a tool thread.
    /// In the order of the roster.
    fn agents_with_work(&mut self, served: BTreeSet<AgentId>, ready: &[Ready]) -> Vec<AgentId> {
        let is_woken = ready.iter().any(|item| item.source == Source::Waker);
        let due = take_due(&mut self.core, AGENTS_PER_TURN, is_woken, TOOL_POLL);
        let agents: BTreeSet<AgentId> = served.into_iter().chain(due).collect();
        self.core.roster().in_order(agents)
    }

    /// Lets every component do a bounded amount of its own work, and applies the changes that it returns.
    pub(super) fn step_components(&mut self) {
        let mut commands = Vec::new();
        let (core, components, trace) = self.split();
        for component in components {
            component.step(core, &mut commands);
            trace.step_of(|| component.name());
        }
        self.apply_effects();
        for Command { origin, agent, change } in commands {
            self.apply_or_notify(origin, agent, change);
            self.apply_effects();
        }
    }

    /// Sends a bounded number of requests; the next turn sends the others.
    pub(super) fn dispatch(&mut self) {
        for _ in 0..REQUESTS_PER_TURN {
            if !self.dispatcher.send_next(&mut self.core, self.terminals.focused()) {
                return;
            }
            self.apply_effects();
        }
    }

    /// Draws the terminals whose visible state has changed.
    pub(super) fn render(&mut self) {
        let drawn = self.terminals.render(&mut self.core);
        self.trace.focus(self.terminals.focus_by_terminal());
        self.trace.rendered(drawn);
    }

    /// Syncs the commits of the turn, and writes the turn to the trace, which ends if that fails. Errors are shown at
    /// the agents on a screen.
    fn end_turn(&mut self, turn: Turn) -> Turn {
        let core = &self.core;
        core.store().sync_soon(core.roster().at_work().is_empty());
        self.trace.waits(|| {
            let busy = core.roster().busy().iter().chain(core.roster().asking());
            busy.filter_map(|agent| Some((*agent, waits_for(core, *agent)?))).collect()
        });
        let mut failed: Vec<String> =
            self.core.store().take_sync_news().into_iter().map(|error| error.message).collect();
        failed.extend(self.trace.end());
        for message in failed {
            let focused: BTreeSet<AgentId> = self.terminals.focused().collect();
            for agent in focused {
                self.core.note(agent, LineKind::Error, &message);
            }
            self.render();
        }
        turn
    }
}

/// Drives the connections whose sockets are ready or whose timer is due. Returns their agents.
fn drive_connections(core: &mut Core, ready: &[Ready]) -> BTreeSet<AgentId> {
    let now = core.now();
    let mut agents = BTreeSet::new();
    let mut sockets: Vec<(AgentId, RawFd, &Ready)> = ready
        .iter()
        .filter_map(|item| match item.source {
            Source::Socket(id, fd) => Some((id, fd, item)),
            _ => None,
        })
        .collect();
    sockets.sort_by_cached_key(|(id, ..)| core.roster().place(*id));
    for (id, fd, item) in sockets {
        core.with_agent(id, |agent, context| {
            agent.connection().on_socket(fd, item.readiness, context.network, now);
        });
        reads::note_served(core, id, item.source);
        agents.insert(id);
    }
    let due = core.roster().due(now, AGENTS_PER_TURN);
    for id in core.roster().in_order(due) {
        core.with_agent(id, |agent, context| {
            if agent.connection().timer().is_some_and(|at| at <= now) {
                agent.connection().on_timer(context.network, now);
            }
        });
        agents.insert(id);
    }
    agents
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Instant;

    use super::*;
    use crate::base::clock::Clock;
    use crate::domain::change::{Change, Fork};
    use crate::domain::config::Config;
    use crate::domain::endpoint::Endpoint;
    use crate::domain::flow::Origin;
    use crate::store::Store;

    fn repl_in(directory: &std::path::Path) -> Repl {
        let config = Config {
            data_directory: Some(directory.into()),
            working_directory: directory.into(),
            supervisor: directory.into(),
            ..Config::default()
        };
        let store = Store::open(directory).unwrap();
        Repl::open(config, store, Clock::system()).unwrap()
    }

    #[test]
    fn the_end_of_a_tool_is_noticed_although_its_wake_was_lost() {
        let directory = tempfile::tempdir().unwrap();
        let mut repl = repl_in(directory.path());
        crate::repl::core::lose_wakes(&mut repl.core);
        let id = repl.core.roster().nth(0).unwrap();
        repl.apply(id, Change::Submit("%tool read_file {\"path\":\"none\"}".into())).unwrap();
        let start = Instant::now();
        while !repl.core.roster().busy().is_empty() {
            repl.turn(Some(Duration::from_secs(20))).unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(10), "noticed only when the limit of the turn was over");
    }

    #[test]
    fn effects_of_the_last_request_of_a_turn_are_applied_in_that_turn() {
        let directory = tempfile::tempdir().unwrap();
        let mut repl = repl_in(directory.path());
        let root = repl.core.roster().nth(0).unwrap();
        let unknown_provider = Rc::new(Endpoint { kind: "nonsense".into(), ..Endpoint::echo() });
        repl.core.edit(root, |agent| agent.inputs.endpoint = unknown_provider);
        for _ in 0..70 {
            repl.apply(root, Change::Fork(Fork::default())).unwrap();
        }
        for id in repl.core.roster().ids() {
            repl.apply_change(Origin::Internal, id, Change::Submit("hello".into())).unwrap();
        }
        repl.dispatch();
        assert_eq!(repl.core.roster().busy().len(), 7, "the others failed at once");
        assert!(repl.core.take_effect().is_none());
    }
}
