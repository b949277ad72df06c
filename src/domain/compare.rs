//! One prompt for several agents, whose answers are compared.

use crate::base::id::{AgentId, MessageId};

/// The letter of the column of a judge.
pub const JUDGE: char = ' ';
/// Comparisons that are kept; the oldest is forgotten first.
pub const MOST_COMPARISONS: usize = 32;

/// A prompt, and who answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Never given to another.
    pub number: u64,
    /// The agent at which the prompt was typed.
    pub origin: AgentId,
    pub prompt: String,
    pub columns: Vec<Column>,
    /// The agent that chooses the best answer.
    pub judge: Option<Column>,
}

/// An answer. Its letter never changes and is never given to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub letter: char,
    pub agent: AgentId,
    /// The model or the agent.
    pub label: String,
    /// The prompt as it is stored: the first such message after `after` begins the answer.
    pub prompt: String,
    pub after: MessageId,
    /// The agent was forked for this comparison.
    pub is_fork: bool,
}

/// To whom a prompt goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskTargets {
    /// These agents.
    Agents(Vec<AgentId>),
    /// A fork of this agent for each of these models, as `provider/model`.
    Models(Vec<String>),
}

/// Starts a comparison or acts on its answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompareChange {
    /// Send a prompt to several agents, whose answers are compared.
    Ask {
        /// To whom.
        targets: AskTargets,
        /// The text.
        prompt: String,
    },
    /// Do something with compared answers.
    Act {
        /// The number of the comparison.
        number: u64,
        /// What is done.
        act: CompareAct,
    },
}

/// An action on compared answers. A column is named by its letter.
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
