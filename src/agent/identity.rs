//! Who an agent is.

use std::rc::Rc;

use crate::base::id::{AgentId, MessageId};
use crate::domain::called::label;
use crate::domain::limits::MadeBy;

/// Only the name ever changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub id: AgentId,
    /// The order of creation, from 0.
    pub ordinal: i64,
    /// As it is stored.
    pub number: Option<i64>,
    pub name: Option<String>,
    /// The agent that forked it; `None` for agent 0.
    pub parent: Option<AgentId>,
    /// The last message of the parent that it inherited.
    pub fork_point: MessageId,
    /// It was started as a new conversation, not forked.
    pub is_begun: bool,
    /// Milliseconds since 1970.
    pub created_at: i64,
    pub made_by: MadeBy,
    /// It was made for one `--print` run.
    pub is_print_run: bool,
    /// The team task that it was made for.
    pub team_run: Option<Rc<str>>,
}

impl Identity {
    /// Whether a person sees a parent. A new conversation is stored below the root but shows none.
    pub fn has_parent(&self) -> bool {
        self.parent.is_some() && !self.is_begun
    }

    /// The number by which people call it, if it has one: agents of `--print` runs and of teams have none.
    pub fn number(&self) -> Option<i64> {
        self.number.filter(|_| !self.is_print_run && self.team_run.is_none())
    }

    /// The number for a column of numbers.
    pub fn digits(&self) -> String {
        self.number().map(|number| number.to_string()).unwrap_or_default()
    }

    /// One word that names it in commands: the name, the number, or else the beginning of the id.
    pub fn word(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.number().map_or_else(|| self.id.short(), |number| number.to_string()))
    }

    pub fn label(&self) -> String {
        label(self.name.as_deref(), self.number(), self.id)
    }
}
