//! What an agent may use while it is handled, and what it may ask of the house. Nothing from which another agent, the
//! store or a terminal could be reached.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::agent::State;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::config::Settings;
use crate::domain::flow::AgentOutcome;
use crate::domain::message::Body;
use crate::net::Trust;

/// Ends the loop's wait, from any thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What one call to an agent may use.
pub struct Context<'a> {
    /// The time of this turn.
    pub now: Moment,
    /// The limits.
    pub settings: &'a Settings,
    /// How peers are verified.
    pub trust: &'a Trust,
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
    /// Keep a further piece of a reply that is still streaming.
    Checkpoint {
        /// More of the text.
        text: String,
        /// More of the reasoning.
        thinking: String,
    },
    /// The next request is to be sent, when there is a place.
    Request,
    /// A person has to decide about a call.
    Ask,
    /// Text goes back to the person, who has to send it again.
    ReturnText(String),
    /// The turn has ended; the agent is idle.
    Settled(AgentOutcome),
    /// The state changed; for the trace and the working limit.
    Moved(State, State),
}

impl Effect {
    /// A stable name, for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Persist(_) => "persist",
            Self::Settle(_) => "settle",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Request => "request",
            Self::Ask => "ask",
            Self::ReturnText(_) => "return_text",
            Self::Settled(_) => "settled",
            Self::Moved(..) => "moved",
        }
    }
}

/// What all agents asked for and was not carried out yet, in order.
#[derive(Debug, Default)]
pub struct Outbox(VecDeque<(AgentId, Effect)>);

impl Outbox {
    /// Adds one more, at the end.
    pub fn push(&mut self, agent: AgentId, effect: Effect) {
        self.0.push_back((agent, effect));
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<(AgentId, Effect)> {
        self.0.pop_front()
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all that this agent asked for.
    pub fn forget(&mut self, agent: AgentId) {
        self.0.retain(|(who, _)| *who != agent);
    }
}
