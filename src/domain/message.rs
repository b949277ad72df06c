//! One row of an agent's log: what was said, called, answered, cut.

use crate::base::id::MessageId;
use crate::domain::stream::Usage;
use crate::domain::tool::{ToolCall, ToolResult};

/// A message that has its place in the order of all messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its place in the order of all messages of all agents.
    pub id: MessageId,
    /// What it says.
    pub body: Body,
    /// Milliseconds since 1970; for people, never for order.
    pub created_at: i64,
}

/// What a message says. The first group goes to the model, the others are for replay and display.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// An instruction that stands in the conversation itself.
    System(String),
    /// What the person, or a forking parent, said.
    User(String),
    /// What the model answered; its tool calls follow as rows of their own.
    Assistant(Reply),
    /// A call that the model asked for. Calls of one reply follow it directly, in its order.
    ToolCall(ToolCall),
    /// The answer to one call, in the order of the calls.
    ToolResult(ToolResult),

    /// Everything before this is forgotten, inherited or own.
    Clear,
    /// A place to come back to.
    Mark(String),
    /// The conversation goes on from the message with this id; what lies between is forgotten.
    Rewind(MessageId),
    /// A child was forked here (in the parent's log: the child's id; in the child's: the parent's).
    Fork(String),
    /// The turn was cut by a person, an error or a crash; the text says by which.
    Interrupted(String),
    /// The agent was killed.
    AgentKilled,
    /// A command that a person typed, with its reply; never sent to a model.
    Command(String),
    /// What one request cost.
    Usage(Usage),
    /// An error that a person was shown.
    Error(String),
}

/// What a model said in one reply, apart from its tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// The visible text.
    pub text: String,
    /// Reasoning that the provider showed, empty if none.
    pub thinking: String,
    /// The reply was cut before its end and is kept as far as it came.
    pub is_partial: bool,
    /// What its provider wants back unchanged, in the order in which it came.
    pub signatures: Vec<Signature>,
    /// The model that said it, as `provider/model`; empty where that is not known. Signatures go only to it.
    pub by: String,
}

/// A piece of a reply that only the model that made it can read (signed or encrypted reasoning): it goes back to that
/// model unchanged, and to no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Bytes of the reply's text before it.
    pub text: usize,
    /// Calls of the reply before it.
    pub calls: usize,
    /// JSON, in the form of the provider that made it.
    pub json: String,
}

impl Body {
    /// The stable name of the kind, as the store keeps it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::System(_) => "system",
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::Clear => "clear",
            Self::Mark(_) => "mark",
            Self::Rewind(_) => "rewind",
            Self::Fork(_) => "fork",
            Self::Interrupted(_) => "interrupted",
            Self::AgentKilled => "agent_killed",
            Self::Command(_) => "command",
            Self::Usage(_) => "usage",
            Self::Error(_) => "error",
        }
    }

    /// Whether a model is told of it.
    pub const fn is_conversation(&self) -> bool {
        matches!(self, Self::System(_) | Self::User(_) | Self::Assistant(_) | Self::ToolCall(_) | Self::ToolResult(_))
    }
}
