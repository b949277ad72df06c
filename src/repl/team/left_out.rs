//! What the loop calls where the feature `coordinator` was left out: there are no runs and no members.

use crate::agent::Effect;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::config::Settings;
use crate::repl::Repl;

#[derive(Default)]
pub(super) struct Team(());

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

    pub(super) const fn settings_of(&self, _: AgentId, usual: Settings) -> Settings {
        usual
    }

    pub(super) const fn on_begun(&self, _: AgentId, _: Moment) {}

    pub(super) const fn on_buried(&self, _: AgentId, _: Moment) {}

    pub(super) const fn interrupt_runs_of(&self, _: AgentId, _: Moment) {}
}

impl Repl {
    pub(super) const fn play_runs(&mut self) {}

    pub(super) const fn end_all_runs(&mut self) {}

    pub(super) const fn team_words(&self, _: AgentId) -> Option<String> {
        None
    }

    pub(super) const fn divert_to_team(&mut self, _: AgentId, effect: Effect) -> Option<Effect> {
        Some(effect)
    }
}
