//! What a provider's bytes mean, in the order in which they arrive.

use crate::base::error::Error;

/// One piece of a streamed reply.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// More of the visible text.
    Text(String),
    /// More of the reasoning.
    Thinking(String),
    /// A piece that goes back to the same model unchanged, as JSON in the provider's own form. It belongs before the text
    /// and the calls that come after it.
    Signature(String),
    /// More of one tool call. Pieces with the same `index` belong together and come in order.
    ToolCall {
        /// Which call of this reply, counted by the decoder from 0 in the order of first appearance.
        index: usize,
        /// The provider's id, with the first piece only; empty later or where the provider gives none.
        id: String,
        /// The tool's name, with the first piece only; empty later.
        name: String,
        /// More of the JSON text of the arguments.
        arguments: String,
    },
    /// What the request cost so far; a later one replaces an earlier one.
    Usage(Usage),
    /// The model stopped, and why. Usage may still follow.
    Finish(Finish),
    /// The reply failed; nothing follows.
    Error(Error),
    /// The reply is whole; nothing follows.
    Done,
}

impl StreamEvent {
    /// A stable name, for the trace.
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
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Thinking(text) => text.len(),
            Self::ToolCall { arguments, .. } => arguments.len(),
            Self::Signature(_) | Self::Usage(_) | Self::Finish(_) | Self::Error(_) | Self::Done => 0,
        }
    }

    /// Whether it carries no text and no arguments.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It had said all it wanted.
    Stop,
    /// It wants tools to be run.
    ToolCalls,
    /// The reply was cut at the length limit: no call of it may be executed.
    Length,
    /// The provider's content filter cut it.
    ContentFilter,
}

/// Tokens of one request, as the provider counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input: u64,
    /// Those of `input` that came from the provider's cache.
    pub cached: u64,
    /// Those of `input` that were written to the provider's cache.
    pub written: u64,
    /// Tokens of the reply, reasoning included.
    pub output: u64,
    /// What it cost, in billionths of a US dollar: as the provider says, else by the configured prices; `None` where
    /// neither is known.
    pub cost: Option<u64>,
}

impl Usage {
    /// Adds another request's. The cost of several is known only if that of each is.
    pub fn add(&mut self, other: Self) {
        self.cost = match (self.input + self.output, self.cost, other.cost) {
            (0, _, cost) => cost,
            (_, Some(before), Some(more)) => Some(before + more),
            _ => None,
        };
        self.input += other.input;
        self.cached += other.cached;
        self.written += other.written;
        self.output += other.output;
    }
}
