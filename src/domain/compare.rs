//! One prompt for several agents, whose answers are compared.

use crate::base::id::AgentId;

/// To whom a prompt goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskTargets {
    /// These agents.
    Agents(Vec<AgentId>),
    /// A fork of this agent for each of these models, as `provider/model`.
    Models(Vec<String>),
}

/// What is done with compared answers. A column is named by its letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareAct {
    /// Go on with this agent; the other forks are archived.
    GoOn(char),
    /// Fork a child of this agent that gets the other answers; the other forks are archived.
    Merge(char),
    /// Have a judge choose.
    Vote,
    /// Leave a column out; a fork is archived.
    Drop(char),
}
