//! The decoded events of a streamed reply.

use crate::base::error::Error;

/// One event of a streamed reply.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// More text.
    Text(String),
    /// More reasoning.
    Thinking(String),
    /// Opaque data that is sent back to the same model unchanged, as JSON in the provider's format. It belongs before the
    /// text and calls that follow it.
    Signature(String),
    /// More of a tool call. Events with the same `index` belong to one call.
    ToolCall {
        /// The number of the call within this reply, from 0 in the order of first appearance.
        index: usize,
        /// The provider's id, in the first event of the call only; may be empty.
        id: String,
        /// The tool's name, in the first event of the call only.
        name: String,
        /// More of the JSON text of the arguments.
        arguments: String,
    },
    /// The usage of the request so far; replaces an earlier one.
    Usage(Usage),
    /// The model has stopped. Usage may still follow.
    Finish(Finish),
    /// The reply failed. This is the last event.
    Error(Error),
    /// The reply is complete. This is the last event.
    Done,
}

impl StreamEvent {
    /// A stable name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Thinking(_) => "thinking",
            Self::Signature(_) => "signature",
            Self::ToolCall { .. } => "tool_call",
            Self::Usage(_) => "usage",
            Self::Finish(_) => "finish",
            Self::Error(_) => "error",
            Self::Done => "done",
        }
    }

    /// Bytes of text or arguments that it carries.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) | Self::Thinking(text) => text.len(),
            Self::ToolCall { arguments, .. } => arguments.len(),
            Self::Signature(_) | Self::Usage(_) | Self::Finish(_) | Self::Error(_) | Self::Done => 0,
        }
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The reply is finished.
    Stop,
    /// The model requests tool calls.
    ToolCalls,
    /// The length limit cut off the reply: none of its tool calls may be run.
    Length,
    /// The provider's content filter cut off the reply.
    ContentFilter,
}

/// A part of a reply that is stored before the reply is complete.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Piece {
    /// More text.
    pub text: String,
    /// More reasoning.
    pub thinking: String,
    /// The usage of the request so far; replaces that of earlier pieces.
    pub usage: Option<Usage>,
}

/// Tokens of one request, as the provider counts them.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input: u64,
    /// Those of `input` that came from the provider's cache.
    pub cached: u64,
    /// The part of `input` that was written to the provider's cache.
    pub written: u64,
    /// Tokens of the reply, reasoning included.
    pub output: u64,
    /// The part of `output` that was used for reasoning, as far as the provider reports it.
    #[serde(default)]
    pub reasoning: u64,
    /// The cost in billionths of a US dollar, reported by the provider or computed from configured prices; `None` if unknown.
    pub cost: Option<u64>,
    /// The model as `provider/model`; empty in sums and in rows of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
}

impl Usage {
    /// Tokens of requests and replies together.
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Adds the usage of another request. The sum of costs is known only if both are.
    pub fn add(&mut self, other: &Self) {
        self.cost = match (self.tokens(), self.cost, other.cost) {
            (0, _, cost) => cost,
            (_, Some(before), Some(more)) => Some(before + more),
            _ => None,
        };
        self.input += other.input;
        self.cached += other.cached;
        self.written += other.written;
        self.output += other.output;
        self.reasoning += other.reasoning;
    }
}
