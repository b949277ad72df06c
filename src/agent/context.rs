//! What a call to an agent may use, and the effects that it requests. Neither gives access to another agent, the
//! store or a terminal.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use crate::agent::State;
use crate::base::clock::Moment;
use crate::base::error::Error;
use crate::base::id::AgentId;
use crate::base::job::Wake;
use crate::domain::config::Settings;
use crate::domain::file_change::FileStep;
use crate::domain::flow::{AgentOutcome, ToolRequest};
use crate::domain::message::Body;
use crate::domain::rule::Grant;
use crate::domain::stream::{Piece, StreamEvent, Usage};
use crate::domain::tool::{ToolCall, ToolResult};
use crate::net::Network;
use crate::provider::host::HostPrompt;

pub struct Context<'a> {
    /// The time at which this turn of the loop began.
    pub now: Moment,
    pub settings: &'a Settings,
    /// A person is looking at the agent, so a reply that broke off is not replaced.
    pub is_watched: bool,
    /// The time of the clock, in milliseconds since 1970.
    pub unix_ms: i64,
    /// The rules that were given to all agents until the program exits.
    pub session_rules: &'a [Grant],
    pub network: &'a Network,
    /// Handed to tool threads.
    pub wake: &'a Wake,
    pub outbox: &'a mut Outbox,
}

/// What an agent asks the loop to do. Applied in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append to the log and add the stored messages to the conversation.
    Persist(Vec<Body>),
    /// Like `Persist`, and the reply supersedes its checkpoints.
    Settle(Vec<Body>),
    /// Like `Settle`, and the turn ends.
    Finish(Vec<Body>),
    /// Store the next part of a reply that is still streaming.
    Checkpoint(Piece),
    /// Send the next request as soon as there is a slot.
    Request,
    /// Ask the host, whose component delivers the events of the reply.
    Prompt(Box<HostPrompt>),
    /// Whether the host may carry out the call about which it has asked.
    HostAnswered { call: String, allowed: bool },
    /// The result of a call that the host has made to one of our tools.
    OurToolResult(ToolResult),
    /// The provider limits requests: no agent may send one to it before `until`, and this process as much later.
    Limited { provider: String, until: Moment, spread: Duration, reason: String },
    /// The provider has accepted the request. It would refuse others until this moment.
    Accepted { provider: String, exhausted_until: Option<Moment> },
    /// The provider has reported the context length of a model, in tokens.
    ContextLearned { model: String, limit: u64 },
    /// This model, given by its full name, refused a request because of its tools; it is sent again without them.
    ToolsRefused(String),
    /// The provider refused the key printed by this run of the key command; the request waits for another one.
    KeyRefused { provider: String, run: u64 },
    /// A call waits for a person. Append the results of the calls before it.
    Question(Vec<Body>),
    /// A call was refused because the user may not be asked; text for the user.
    Refused(String),
    /// The person has answered the question that the loop asked about this call.
    Decided { call: String, allowed: bool },
    /// The person has answered what a server asked while it carries out this call.
    Elicited { call: String, response: Value },
    /// The loop has to carry out the tool call with this id and pass the result to the agent.
    ToolRequest(String, ToolRequest),
    /// A tool call has changed these files.
    FilesChanged(Box<FileStep>),
    /// The deadline of a waiting tool call has passed; the loop has to answer it now.
    WaitOver(String),
    /// The model cannot answer: another one shall, or the turn ends with this error.
    FallBack(Error),
    /// Put this unsent text back into the draft.
    ReturnText(String),
    /// The turn has ended and the agent is idle.
    Settled(AgentOutcome),
    /// For the trace and the limit of working agents.
    StateChanged(State, State),
}

impl Effect {
    /// A stable name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Persist(_) => "persist",
            Self::Settle(_) => "settle",
            Self::Finish(_) => "finish",
            Self::Checkpoint(_) => "checkpoint",
            Self::Request => "request",
            Self::Prompt(_) => "prompt",
            Self::HostAnswered { .. } => "host_answered",
            Self::OurToolResult(_) => "our_tool_result",
            Self::Limited { .. } => "limited",
            Self::Accepted { .. } => "accepted",
            Self::ContextLearned { .. } => "context_learned",
            Self::ToolsRefused(_) => "tools_refused",
            Self::KeyRefused { .. } => "key_refused",
            Self::Question(_) => "question",
            Self::Refused(_) => "refused",
            Self::Decided { .. } => "decided",
            Self::Elicited { .. } => "elicited",
            Self::ToolRequest(..) => "tool_request",
            Self::FilesChanged(_) => "files_changed",
            Self::WaitOver(_) => "wait_over",
            Self::FallBack(_) => "fall_back",
            Self::ReturnText(_) => "return_text",
            Self::Settled(_) => "settled",
            Self::StateChanged(..) => "state_changed",
        }
    }
}

/// The effects of all agents that were not applied yet, oldest first.
#[derive(Debug, Default)]
pub struct Outbox {
    effects: VecDeque<(AgentId, Effect)>,
    /// How many effects were put in, and how many of them were taken out.
    pushed: u64,
    popped: u64,
    /// What was delivered to agents, if that is traced, each with the number of effects that were put in before.
    traced: Option<VecDeque<(u64, TracedEvent)>>,
    /// What was delivered to agents, if the session is recorded.
    recorded: Option<Vec<(AgentId, RecordedEvent)>>,
}

/// Something delivered to an agent, for the record of a session.
#[derive(Debug)]
pub enum RecordedEvent {
    /// The head of a response that is no error.
    Head,
    Stream(StreamEvent),
    /// The request has failed, with this status of HTTP if there was a response.
    Failed {
        status: Option<u16>,
        error: Error,
    },
    /// A tool thread carries out this call, with the arguments as the tool understands them.
    ToolStarted {
        call: ToolCall,
        /// A person has allowed it.
        is_asked: bool,
    },
    /// A tool thread has ended.
    Tool(ToolResult),
}

/// The kind of [`TracedEvent`] of tools that were looked at and still run.
pub const UNFINISHED: &str = "unfinished";

/// Something delivered to an agent: its kind and its size in bytes.
pub type TracedEvent = (AgentId, &'static str, usize);

impl Outbox {
    pub fn forget(&mut self, agent: AgentId) {
        let before = self.effects.len();
        self.effects.retain(|(agent_id, _)| *agent_id != agent);
        self.popped += (before - self.effects.len()) as u64;
    }

    /// What an agent wants to store of the tokens of its requests.
    pub fn usage_of(&self, agent: AgentId) -> impl Iterator<Item = &Usage> {
        let own = self.effects.iter().filter(move |(agent_id, _)| *agent_id == agent);
        let bodies = own.filter_map(|(_, effect)| match effect {
            Effect::Persist(bodies) | Effect::Settle(bodies) | Effect::Finish(bodies) => Some(bodies),
            _ => None,
        });
        bodies.flatten().filter_map(|body| if let Body::Usage(usage) = body { Some(usage) } else { None })
    }

    pub fn push(&mut self, agent: AgentId, effect: Effect) {
        self.pushed += 1;
        self.effects.push_back((agent, effect));
    }

    pub fn pop(&mut self) -> Option<(AgentId, Effect)> {
        let oldest = self.effects.pop_front();
        self.popped += u64::from(oldest.is_some());
        oldest
    }

    /// The oldest effect, if it is a checkpoint.
    pub fn pop_checkpoint(&mut self) -> Option<(AgentId, Effect)> {
        let is_checkpoint = matches!(self.effects.front(), Some((_, Effect::Checkpoint(_))));
        is_checkpoint.then(|| self.pop())?
    }

    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// From now on records what is delivered to agents.
    pub fn start_tracing(&mut self) {
        self.traced = Some(VecDeque::new());
    }

    pub(super) fn trace_event(&mut self, agent: AgentId, what: &'static str, bytes: usize) {
        if let Some(traced) = &mut self.traced {
            traced.push_back((self.pushed, (agent, what, bytes)));
        }
    }

    /// From now on keeps what is delivered to agents.
    pub fn start_recording(&mut self) {
        self.recorded = Some(Vec::new());
    }

    pub(super) fn record_event(&mut self, agent: AgentId, event: impl FnOnce() -> RecordedEvent) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push((agent, event()));
        }
    }

    /// Takes what was kept since the last call.
    pub fn take_recorded(&mut self) -> Vec<(AgentId, RecordedEvent)> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes what was recorded since the last call, up to the oldest effect. Checkpoints that follow each other are applied
    /// together.
    pub fn take_traced(&mut self) -> Vec<TracedEvent> {
        let Some(traced) = &mut self.traced else { return Vec::new() };
        let is_checkpoint = |(_, effect): &&(AgentId, Effect)| matches!(effect, Effect::Checkpoint(_));
        let checkpoints = self.effects.iter().take_while(is_checkpoint).count() as u64;
        let oldest = self.popped + checkpoints.saturating_sub(1);
        let until = traced.partition_point(|(before, _)| *before <= oldest);
        traced.drain(..until).map(|(_, event)| event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Context;

    /// Never called: it stops compiling when callbacks are given something else. Whoever adds a field has to show that
    /// it reaches no other agent, no store and no terminal.
    #[allow(dead_code)]
    fn all_that_a_callback_is_given(context: Context<'_>) {
        let Context {
            now: _,
            settings: _,
            is_watched: _,
            unix_ms: _,
            session_rules: _,
            network: _,
            wake: _,
            outbox: _,
        } = context;
    }
}
