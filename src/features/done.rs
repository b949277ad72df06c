//! `[done] command` and `/done`: when an agent that has changed files says that it is done, a command of the person finds
//! out, such as the tests. A failure goes back to the agent, a few times; then the person decides.
//!
//! ```text
//!   the turn ends, files have changed ──► command, on a thread ──succeeds──► a mark: make test passes
//!                                                │ fails
//!                                                ▼
//!                             a message to the agent, at most `attempts` times, then an error for the person
//! ```

use std::collections::HashMap;

use crate::agent::Role;
use crate::base::clock::Moment;
use crate::base::id::{AgentId, MessageId};
use crate::base::job::{Job, JobThread};
use crate::base::text;
use crate::domain::change::Change;
use crate::domain::chunk::Status;
use crate::domain::flow::{Origin, TurnEnd};
use crate::domain::message::REPORT;
use crate::domain::scrollback::LineKind;
use crate::features::Feature;
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;
use crate::repl::event::Event;
use crate::tools::done::{Checked, check, name_of};

pub const FEATURE: Feature = Feature { component: Some(|| Box::<Done>::default()), ..Feature::new("done") };

/// Lines of the output of a command that has failed.
const MOST_LINES: usize = 40;

#[derive(Default)]
struct Done {
    running: Vec<Run>,
    /// What the files of an agent were when they were checked last: its newest message.
    checked: HashMap<AgentId, MessageId>,
    /// How often a failure went back to an agent since its last success.
    failures: HashMap<AgentId, u32>,
}

/// A command that runs.
struct Run {
    agent: AgentId,
    /// The command, for the person.
    name: String,
    began: Moment,
    thread: JobThread<Checked>,
}

impl Done {
    /// Starts the command if the agent has ended a turn by itself in which it changed files.
    fn on_turn_ended(&mut self, core: &mut Core, id: AgentId) {
        let config = core.config();
        if !config.settings.is_interactive || config.replay.is_some() {
            return;
        }
        let Some(agent) = core.agent(id).filter(|agent| agent.role == Role::Normal) else { return };
        let is_done = agent.status() == Status::Idle && agent.last_end() == Some(TurnEnd::Completed);
        if !is_done || !agent.queue.is_empty() || self.running.iter().any(|run| run.agent == id) {
            return;
        }
        let words = agent.done_command(config);
        if words.is_empty() {
            return;
        }
        let environment = agent.inputs.environment.clone();
        let Ok(newest) = core.store().last_own_message(id) else { return };
        let since = self.checked.insert(id, newest).unwrap_or(MessageId(0));
        let has_changed =
            core.store().file_steps(id, since).is_ok_and(|steps| steps.iter().any(|step| step.is_of_tool()));
        if !has_changed && self.failures.remove(&id).is_some() {
            let text = format!("{} still fails: no file has changed since", name_of(&words));
            core.note(id, LineKind::Error, &text);
        }
        if !has_changed || environment.remote.is_some() {
            return;
        }
        let name = name_of(&words);
        let work = move |job: &Job| check(&words, None, &environment, job);
        match JobThread::spawn("done".into(), work, core.waker()) {
            Ok(thread) => {
                core.note(id, LineKind::Note, &format!("running {name} (Esc stops it)"));
                core.edit(id, |agent| agent.jobs += 1);
                self.running.push(Run { agent: id, name, began: core.now(), thread });
            }
            Err(error) => core.note(id, LineKind::Error, &error.message),
        }
    }

    fn finish(&mut self, core: &mut Core, run: Run, commands: &mut Vec<Command>) {
        let Run { agent, name, began, thread } = run;
        core.edit(agent, |agent| agent.jobs = agent.jobs.saturating_sub(1));
        let took = format!("{:.1} s", (core.now() - began).as_secs_f64());
        let Checked { failure, output } = match thread.collect() {
            Ok(checked) => checked,
            Err(why) => return core.note(agent, LineKind::Warning, &format!("{name} was not run: {why}")),
        };
        let Some(why) = failure else {
            self.failures.remove(&agent);
            core.edit(agent, |agent| agent.report.set_check(&name, false));
            return core.note(agent, LineKind::Note, &format!("{name} passes ({took})"));
        };
        core.edit(agent, |agent| agent.report.set_check(&name, true));
        let most = core.config().done.attempts;
        let count = self.failures.entry(agent).or_default();
        let is_idle = core.agent(agent).is_some_and(|agent| agent.status() == Status::Idle && agent.queue.is_empty());
        if *count >= most || !is_idle {
            self.failures.remove(&agent);
            let text = format!("{name} fails: {why} ({took})\n{}", end_of(&output));
            return core.note(agent, LineKind::Error, &text);
        }
        *count += 1;
        let text = format!("{name} fails: {why} ({took}); attempt {count} of {most} to mend it");
        core.note(agent, LineKind::Warning, &text);
        let text = format!(
            "{REPORT}{name}`: it fails ({why}), so you are not done. {}",
            if output.is_empty() {
                "It printed nothing.".to_owned()
            } else {
                format!("The end of its output:\n\n{}", end_of(&output))
            }
        );
        commands.push(Command { origin: Origin::Internal, agent, change: Change::Submit(text) });
    }
}

impl Component for Done {
    fn on_event(&mut self, event: &Event, core: &mut Core) {
        match event {
            Event::TurnEnded { agent, .. } => self.on_turn_ended(core, *agent),
            // What the last check said is true until files change again.
            Event::TurnStarted { agent, .. } => drop(self.interrupt(core, *agent)),
            Event::FilesChanged { agent } => drop(core.edit(*agent, |agent| agent.report.clear_check())),
            Event::Removed { agent, .. } => {
                self.interrupt(core, *agent);
                self.checked.remove(agent);
                self.failures.remove(agent);
            }
            _ => {}
        }
    }

    fn interrupt(&mut self, core: &mut Core, agent: AgentId) -> bool {
        // Dropping it ends the command.
        let ended = self.running.extract_if(.., |run| run.agent == agent).count();
        if ended > 0 {
            core.edit(agent, |agent| agent.jobs = agent.jobs.saturating_sub(1));
        }
        ended > 0
    }

    fn step(&mut self, core: &mut Core, commands: &mut Vec<Command>) {
        let ended: Vec<Run> = self.running.extract_if(.., |run| run.thread.is_complete()).collect();
        ended.into_iter().for_each(|run| self.finish(core, run, commands));
    }
}

/// The last lines of an output.
fn end_of(output: &str) -> String {
    text::last_lines(output, MOST_LINES).join("\n")
}
