//! Agents that have finished, failed or asked since the last frame, and the notification program that gets them.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::agent::{Agent, Role};
use crate::base::id::AgentId;
use crate::base::job::{Job, JobThread};
use crate::domain::chunk::Status;
use crate::team::Roster;

/// Agents that a message names; more are counted.
const MOST_NAMES: usize = 3;

#[derive(Default)]
pub(super) struct Alerts {
    asking: BTreeSet<AgentId>,
    new: Vec<String>,
    /// The notification program.
    program: Option<JobThread<()>>,
}

impl Alerts {
    /// Notes questions that were not there at the last call.
    pub fn update(&mut self, roster: &Roster) {
        if *roster.asking() == self.asking {
            return;
        }
        let new = roster.asking().difference(&self.asking).filter_map(|id| roster.get(*id));
        for agent in new.filter(|agent| agent.role == Role::Normal) {
            let title = agent.question().map(|pending| pending.question.title.as_str()).unwrap_or_default();
            self.new.push(format!("{} asks: {title}", agent.identity.label()));
        }
        self.asking.clone_from(roster.asking());
    }

    /// Notes that a turn has ended.
    pub fn on_turn_ended(&mut self, agent: &Agent) {
        if agent.role == Role::Normal && matches!(agent.status(), Status::Idle | Status::Failed) {
            let how = if agent.has_failed() { "failed" } else { "finished" };
            self.new.push(format!("{} {how}", agent.identity.label()));
        }
    }

    /// A message about what is new, if there is anything.
    pub fn take(&mut self) -> Option<String> {
        let new = std::mem::take(&mut self.new);
        match new.len() {
            0 => None,
            1..=MOST_NAMES => Some(new.join(", ")),
            count => Some(format!("{count} agents have finished or ask")),
        }
    }

    /// Runs the person's program with the message as its last argument, in a thread that waits for it. Only one runs at
    /// a time.
    pub fn run(&mut self, command: &[String], message: &str) {
        let Some((program, arguments)) = command.split_first() else { return };
        if self.program.as_ref().is_some_and(|running| !running.is_complete()) {
            return;
        }
        let mut command = Command::new(program);
        command.args(arguments).arg(message).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let work = move |_: &Job| {
            // It is the person's own program; there is no better place to report its failure to.
            drop(command.status());
            Ok(())
        };
        self.program = JobThread::spawn("notify".into(), work, Arc::new(|| ())).ok();
    }
}
