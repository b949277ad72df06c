//! A run in an event loop of its own.

use std::os::fd::RawFd;
use std::time::Duration;

use serde_json::Value;

use super::report::Report;
use super::session::Host;
use crate::base::error::Result;
use crate::repl::{Repl, RunId, Turn};
use crate::team::coordinator::member::Member;
use crate::team::coordinator::plan::{Plan, Work};

pub struct LocalHost {
    repl: Repl,
    run: RunId,
}

impl LocalHost {
    /// A member without a model uses the configured one, even if the root agent uses another.
    ///
    /// # Errors
    /// The plan is invalid, or the store is read-only.
    pub fn begin(mut repl: Repl, plan: Plan, model: &str) -> Result<Self> {
        let root = repl.roster().nth(0).expect("there is at least agent 0");
        let is_default = repl.roster().get(root).is_some_and(|root| root.inputs.endpoint.full_name() == model);
        let set_model = |member: &mut Member| {
            if !is_default && member.model.is_none() {
                member.model = Some(model.to_owned());
            }
        };
        let run = match plan.work {
            Work::Members(mut members) => {
                members.iter_mut().for_each(set_model);
                repl.run_task(root, members, &plan.task, plan.settings)?
            }
            Work::Workflow(mut workflow) => {
                workflow.steps.iter_mut().map(|step| &mut step.member).for_each(set_model);
                repl.run_workflow(root, &workflow, &plan.task, plan.settings)?
            }
        };
        Ok(Self { repl, run })
    }
}

impl Host for LocalHost {
    fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.repl.watch_external(fd, readable, writable)
    }

    fn take_ready(&mut self) -> Vec<RawFd> {
        self.repl.take_external_ready().into_iter().map(|(fd, _)| fd).collect()
    }

    fn turn(&mut self, limit: Option<Duration>, report: &mut Report) -> Result<Turn> {
        let turn = self.repl.turn(limit)?;
        for (agent_id, title) in self.repl.refuse_questions() {
            report.streams.note_refused_call(&format!("{title} (of {})", self.repl.roster().label_of(agent_id)));
        }
        for event in self.repl.take_events(&self.run) {
            report.on_event(&event.json(self.run.as_str()));
        }
        Ok(turn)
    }

    fn interrupt(&mut self) {
        self.repl.interrupt_run(&self.run);
    }

    fn limit_reached(&self) -> Option<String> {
        self.repl.limit_reached()
    }

    fn outcome(&self) -> Option<Value> {
        self.repl.outcome(&self.run).map(|outcome| outcome.json())
    }

    fn leave(&mut self) -> Result<Option<String>> {
        self.repl.leave()?;
        Ok(self.repl.loss())
    }
}
