//! Stands where the coordinator was left out of the program: no run ever begins, and nobody plays in one.

use std::fmt;
use std::rc::Rc;

use crate::agent::Effect;
use crate::base::clock::Moment;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::flow::Origin;
use crate::repl::Repl;
use crate::team::coordinator::event::Event;
use crate::team::coordinator::health::Health;
use crate::team::coordinator::member::Member;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::settings::Settings;
use crate::team::coordinator::workflow::Workflow;

/// Names one run. There never is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(());

impl RunId {
    /// The name as it stands in events and in the store.
    pub const fn as_str(&self) -> &str {
        ""
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// All runs: none. Nobody was ever a member.
#[derive(Default)]
pub(super) struct Team {
    health: Health,
}

impl Team {
    pub(super) const fn has_news(&self) -> bool {
        false
    }

    pub(super) const fn deadline(&self) -> Option<Moment> {
        None
    }

    pub(super) const fn needs(&self, _: AgentId) -> bool {
        false
    }

    pub(super) const fn on_begun(&self, _: AgentId, _: Moment) {}

    pub(super) const fn on_removed(&self, _: AgentId, _: Moment) {}

    pub(super) const fn interrupt_runs_of(&self, _: AgentId, _: Moment) {}
}

impl Repl {
    pub(super) const fn play_runs(&mut self) {}

    pub(super) const fn end_all_runs(&mut self) {}

    pub(super) const fn team_words(&self, _: AgentId) -> Option<String> {
        None
    }

    pub(super) fn team_by_person(&mut self, _: AgentId, _: &str) -> Result<()> {
        Err(Error::not_built_in("coordinator"))
    }

    pub(super) fn show_team(&mut self, _: Origin, _: AgentId) -> Result<()> {
        Err(Error::not_built_in("coordinator"))
    }

    pub(super) const fn divert_to_team(&mut self, _: AgentId, effect: Effect) -> Option<Effect> {
        Some(effect)
    }

    /// Sets these members on a task, where the coordinator was not left out.
    ///
    /// # Errors
    /// Always: it was left out.
    pub fn run_task(&mut self, _: AgentId, _: Vec<Member>, _: &str, _: Settings) -> Result<RunId> {
        Err(Error::not_built_in("coordinator"))
    }

    /// The same for a workflow.
    ///
    /// # Errors
    /// Always: it was left out.
    pub fn run_workflow(&mut self, _: AgentId, _: &Workflow, _: &str, _: Settings) -> Result<RunId> {
        Err(Error::not_built_in("coordinator"))
    }

    /// What has happened in a run.
    pub const fn take_events(&mut self, _: &RunId) -> Vec<Event> {
        Vec::new()
    }

    /// What became of a run.
    pub const fn outcome(&self, _: &RunId) -> Option<Rc<Outcome>> {
        None
    }

    /// Which agents play now in a run.
    pub const fn players(&self, _: &RunId) -> Vec<(String, AgentId)> {
        Vec::new()
    }

    /// Ends a run with what there is.
    pub const fn interrupt_run(&mut self, _: &RunId) {}

    /// How members have fared: there were none.
    pub const fn health(&self) -> &Health {
        &self.team.health
    }
}
