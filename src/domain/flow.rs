//! What every layer returns: what happened, and what is to happen next. No flag is set here and read elsewhere.

use crate::base::error::Error;
use crate::base::id::AgentId;

/// What came of one line that a person entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputResult {
    /// Leave the program.
    Exit,
    /// Nothing changes; perhaps something is to be said.
    Continue(Option<String>),
    /// The house is to change; the note is shown when it has.
    NewState(Change, Option<String>),
    /// The line is for the model.
    Message(String),
}

/// How an agent's turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOutcome {
    /// The model has said what it wanted.
    Completed,
    /// A person cut the turn; `partial` tells whether something of the reply is kept.
    Interrupted {
        /// Some of the reply is kept.
        partial: bool,
    },
    /// The program is left.
    Exited,
    /// The turn failed.
    Error(Error),
}

/// What a person or a tool asks of the house. Only `apply` carries it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A child of the agent, with its history.
    Fork {
        /// The child's first own message, sent at once; without it the child waits for input.
        prompt: Option<String>,
        /// Its name.
        name: Option<String>,
    },
    /// Another agent on the screen.
    Switch(AgentId),
    /// Text for the model; queued while the agent works.
    Submit(String),
    /// Stop what the agent does.
    Interrupt,
    /// The answer to the question with this number.
    Answer {
        /// Which question; an answer to one that is gone changes nothing.
        question: u64,
        /// Whether the call may run.
        allowed: bool,
    },
    /// Take the newest queued text back into the draft.
    Unqueue,
    /// Send the oldest queued text of an idle agent.
    Resume,
}

impl Change {
    /// A stable name, for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fork { .. } => "fork",
            Self::Switch(_) => "switch",
            Self::Submit(_) => "submit",
            Self::Interrupt => "interrupt",
            Self::Answer { .. } => "answer",
            Self::Unqueue => "unqueue",
            Self::Resume => "resume",
        }
    }
}
