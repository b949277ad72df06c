//! The messages of an agent's log.

use crate::base::error::ErrorKind;
use crate::base::id::{AgentId, MessageId};
use crate::domain::chunk::REPLY_INCOMPLETE;
use crate::domain::compaction::Compaction;
use crate::domain::stream::Usage;
use crate::domain::tool::{ToolCall, ToolResult};

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its position in the order of all messages of all agents.
    pub id: MessageId,
    pub body: Body,
    /// Milliseconds since 1970, for display only: the order is that of the ids.
    pub created_at: i64,
}

/// Begins the text of a [`Body::System`] with the result of a team task: lines that begin with `- ` follow, and after a
/// blank line the answer.
pub const TEAM_RESULT: &str = "team ";

/// The content of a message. The first group is sent to the model, the others are for replay and display.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// An instruction within the conversation.
    System(String),
    /// A message of the user, or of the parent that forked the agent.
    User(String),
    /// A reply of the model; its tool calls follow as messages of their own.
    Assistant(Reply),
    /// A tool call of the reply before it; the calls of one reply follow it directly, in order.
    ToolCall(ToolCall),
    /// The result of a tool call, in the order of the calls.
    ToolResult(ToolResult),

    /// The conversation before this, own and inherited, is removed.
    Clear,
    /// The `clear` with this id no longer counts: the messages before it are known again.
    ClearUndone(MessageId),
    /// The model gets a summary instead of a part of the conversation.
    Compaction(Box<Compaction>),
    /// The `compaction` with this id no longer counts: the model gets the summarised messages again.
    CompactionUndone(MessageId),
    /// A mark that `/rewind` can return to.
    Mark(String),
    /// The conversation continues after the message with this id; those in between are removed.
    Rewind(MessageId),
    /// A fork: in the parent's log the child's id and name, in the child's log the parent's id and `from` its name. Earlier
    /// versions stored the id alone.
    Fork(String),
    /// The partial reply before this is not part of the conversation: the model was asked again. The text says why.
    Replaced(String),
    /// The turn ended early; the text says why.
    Interrupted(String),
    /// The turn ended because the program was exited in order.
    Exited,
    AgentKilled,
    /// A typed command with its output; never sent to a model.
    Command(String),
    Usage(Usage),
    Error(String),
}

/// A reply of a model without its tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    pub text: String,
    /// The reasoning shown by the provider; empty if none.
    pub thinking: String,
    /// The reply ended early and is incomplete.
    pub is_partial: bool,
    /// Opaque data that the provider expects back unchanged, in order.
    pub signatures: Vec<Signature>,
    /// The model as `provider/model`, empty if unknown. Signatures are sent back to this model only.
    pub by: String,
}

/// A part of a reply that only its model can read (signed or encrypted reasoning). It is sent back to that model unchanged
/// and to no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Bytes of the reply's text before this.
    pub text: usize,
    /// Tool calls of the reply before this.
    pub calls: usize,
    /// JSON in the provider's format.
    pub json: String,
}

/// Begins a message to the model in which polylogue reports something.
pub const REPORT: &str = "polylogue ran `";

/// Whether polylogue wrote this message of the user.
pub fn is_report(text: &str) -> bool {
    text.starts_with(REPORT) && text.contains("`: it fails (")
}

/// In a [`Body::Fork`] before the name of an agent that shares no history.
pub const STARTED: &str = "started ";

/// The text for a [`Body::Fork`]: `forked build`, or in the child `forked from agent 0`; `started` where no history is
/// shared. Rows of early versions have only an id.
pub fn fork_mark(stored: &str) -> String {
    match stored.split_once(' ') {
        None => format!("forked {}", stored.get(..6).unwrap_or(stored)),
        Some((_, name)) if name.starts_with(STARTED) => name.to_owned(),
        Some((_, name)) => format!("forked {name}"),
    }
}

/// The other agent of a [`Body::Fork`].
pub fn forked_agent(stored: &str) -> Option<AgentId> {
    stored.split(' ').next()?.parse().ok()
}

/// Whether a [`Body::Fork`] is that of the child's log.
pub fn is_of_child(stored: &str) -> bool {
    let name = stored.split_once(' ').map_or("", |(_, name)| name);
    name.starts_with("from ") || name.strip_prefix(STARTED).is_some_and(|rest| rest.starts_with("by "))
}

/// The text for a [`Body::Replaced`].
pub fn replaced_mark(why: &str) -> String {
    format!("reply incomplete, replaced by the next one: {why}")
}

impl Body {
    /// The stable name of the kind, as stored.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::System(_) => "system",
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::Clear => "clear",
            Self::ClearUndone(_) => "clear_undone",
            Self::Compaction(_) => "compaction",
            Self::CompactionUndone(_) => "compaction_undone",
            Self::Mark(_) => "mark",
            Self::Rewind(_) => "rewind",
            Self::Fork(_) => "fork",
            Self::Replaced(_) => "replaced",
            Self::Interrupted(_) => "interrupted",
            Self::Exited => "exited",
            Self::AgentKilled => "agent_killed",
            Self::Command(_) => "command",
            Self::Usage(_) => "usage",
            Self::Error(_) => "error",
        }
    }

    /// What a mark in the log says to a reader; `None` for other messages.
    pub fn mark_text(&self) -> Option<String> {
        Some(match self {
            Self::Clear => "cleared: the model no longer sees the messages above".into(),
            Self::ClearUndone(_) => "clear undone: the model sees the earlier messages again".into(),
            Self::CompactionUndone(_) => "compaction undone: the model sees the earlier messages again".into(),
            Self::Mark(label) => format!("mark {label}"),
            Self::Rewind(_) => "rewound: the model no longer sees the last messages".into(),
            Self::Fork(other) => fork_mark(other),
            // Where a reply broke off, the kind of the error is stored, whose message follows.
            Self::Interrupted(why) if ErrorKind::PROVIDER_KINDS.iter().any(|kind| kind.name() == why) => {
                REPLY_INCOMPLETE.into()
            }
            Self::Interrupted(why) => why.clone(),
            Self::Exited => "polylogue exited during this turn".into(),
            Self::AgentKilled => "killed".into(),
            _ => return None,
        })
    }

    /// Whether it takes back earlier messages.
    pub const fn undoes_turn(&self) -> bool {
        matches!(self, Self::Clear | Self::Rewind(_))
    }

    /// Whether it is sent to the model.
    pub const fn is_conversation(&self) -> bool {
        matches!(self, Self::System(_) | Self::User(_) | Self::Assistant(_) | Self::ToolCall(_) | Self::ToolResult(_))
    }
}
