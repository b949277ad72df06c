//! What an agent may use while it is handled, and what it may ask of the house. Nothing from which another agent, the
//! store or a terminal could be reached.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::agent::State;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::config::Settings;
use crate::domain::flow::{AgentOutcome, ToolRequest};
use crate::domain::message::Body;
use crate::net::Network;

/// Ends the loop's wait, from any thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What one call to an agent may use.
pub struct Context<'a> {
    /// The time of this turn.
    pub now: Moment,
    /// The limits.
    pub settings: &'a Settings,
    /// What all connections share.
    pub network: &'a Network,
    /// For tool threads.
    pub wake: &'a Wake,
    /// Where the agent puts what it asks for.
    pub outbox: &'a mut Outbox,
}

/// What an agent asks of the house. Carried out in order, once per turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write to the log, and tell the agent what was written.
    Persist(Vec<Body>),
    /// The same, and the checkpoints of the reply are superseded.
    Settle(Vec<Body>),
    /// The same, and the agent is idle from then on.
    Finish(Vec<Body>),
    /// Keep a further piece of a reply that is still streaming.
    Checkpoint {
        /// More of the text.
        text: String,
        /// More of the reasoning.
        thinking: String,
    },
    /// The next request is to be sent, when there is a place.
    Request,
    /// The provider refuses for now: nobody is to send it anything before this moment.
    Limited {
        /// Which provider.
        provider: String,
        /// That moment.
        until: Moment,
        /// What the provider said.
        reason: String,
    },
    /// This provider has let the request in.
    Accepted(String),
    /// The provider refused the key that this run of the key command has printed: the request waits for another one.
    KeyRefused {
        /// Which provider.
        provider: String,
        /// Which run.
        run: u64,
    },
    /// A person has to decide about a call.
    Question,
    /// The house is to carry out the call with this id, and to answer it.
    ToolRequest(String, ToolRequest),
    /// The time that a call was to wait is over: it is to be answered with what there is.
    WaitOver(String),
    /// Text goes back to the person, who has to send it again.
    ReturnText(String),
    /// The turn has ended; the agent is idle.
    Settled(AgentOutcome),
    /// The state changed; for the trace and the working limit.
    StateChanged(State, State),
}

impl Effect {
    /// A stable name, for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Persist(_) => "persist",
            Self::Settle(_) => "settle",
            Self::Finish(_) => "finish",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Request => "request",
            Self::Limited { .. } => "limited",
            Self::Accepted(_) => "answered",
            Self::KeyRefused { .. } => "key_refused",
            Self::Question => "question",
            Self::ToolRequest(..) => "tool_request",
            Self::WaitOver(_) => "wait_over",
            Self::ReturnText(_) => "return_text",
            Self::Settled(_) => "settled",
            Self::StateChanged(..) => "moved",
        }
    }
}

/// What all agents asked for and was not carried out yet, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    effects: VecDeque<(AgentId, Effect)>,
    /// What agents were told in this turn, if anybody wants to know.
    traced: Option<Vec<TracedEvent>>,
}

/// An agent was told something: which agent, what, and how many bytes of text that was.
pub type TracedEvent = (AgentId, &'static str, usize);

impl Outbox {
    /// Forgets all that this agent asked for.
    pub fn forget(&mut self, agent: AgentId) {
        self.effects.retain(|(agent_id, _)| *agent_id != agent);
    }

    /// Adds one more, at the end.
    pub fn push(&mut self, agent: AgentId, effect: Effect) {
        self.effects.push_back((agent, effect));
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<(AgentId, Effect)> {
        self.effects.pop_front()
    }

    /// The oldest, if it is a checkpoint.
    pub fn pop_checkpoint(&mut self) -> Option<(AgentId, Effect)> {
        let is_one = matches!(self.effects.front(), Some((_, Effect::Checkpoint { .. })));
        is_one.then(|| self.effects.pop_front())?
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// From now on what agents are told is kept, until it is taken.
    pub fn start_tracing(&mut self) {
        self.traced = Some(Vec::new());
    }

    /// An agent was told something.
    pub(super) fn trace_event(&mut self, agent: AgentId, what: &'static str, bytes: usize) {
        if let Some(traced) = &mut self.traced {
            traced.push((agent, what, bytes));
        }
    }

    /// What agents were told since the last call. Empties.
    pub fn take_traced(&mut self) -> Vec<TracedEvent> {
        self.traced.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
