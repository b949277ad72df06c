//! The interface between the loop and its components.
//!
//! A component owns its state and acts on agents through the [`Core`] that it is lent. Components do not know each
//! other: one learns what another did from an [`Event`], and requests changes from the loop with a [`Command`].

use crate::agent::Effect;
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::change::Change;
use crate::domain::flow::{Origin, ToolRequest};
use crate::domain::mcp::McpTool;
use crate::reactor::{Reactor, Ready};
use crate::repl::core::Core;
use crate::repl::event::Event;
use crate::repl::timeout::WakeReason;

/// The result of [`Repl::turn`](crate::repl::Repl::turn).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The loop goes on.
    Continue,
    /// The loop is to end: call [`Repl::leave`](crate::repl::Repl::leave).
    Exit,
}

/// A change that the loop is to carry out for a component.
#[derive(Debug)]
pub struct Command {
    pub origin: Origin,
    pub agent: AgentId,
    pub change: Change,
}

/// A message of a person that a component has held back.
#[derive(Debug)]
pub struct HeldText {
    pub origin: Origin,
    pub agent: AgentId,
    pub outcome: TextOutcome,
}

/// What becomes of a message that was held back.
#[derive(Debug)]
#[cfg_attr(not(feature = "mcp"), allow(dead_code))]
pub enum TextOutcome {
    /// It is complete.
    Send(String),
    /// It is shown in the draft first.
    Draft(String),
    /// This line goes back into the draft.
    Failed { line: String, why: String },
}

/// The state of a server of tools.
#[derive(Debug, Clone)]
pub struct ServerReport {
    pub name: String,
    pub tools: Vec<McpTool>,
    /// Why it does not work.
    pub failure: Option<String>,
}

pub trait Component {
    /// The name of its type, for the trace.
    fn name(&self) -> &'static str {
        let path = std::any::type_name::<Self>();
        path.rsplit("::").next().unwrap_or(path)
    }

    /// Registers the component's own descriptors, before each wait.
    fn watch(&mut self, _: &mut Reactor) -> Result<()> {
        Ok(())
    }

    /// Reads the available data of its descriptors; nothing is acted on yet.
    fn on_ready(&mut self, _: &[Ready], _: &mut Core) -> Result<()> {
        Ok(())
    }

    fn on_event(&mut self, _: &Event, _: &mut Core) {}

    /// Carries out an agent's effect, if it belongs to this component. Returns any other.
    fn on_effect(&mut self, _: &mut Core, _: AgentId, effect: Effect) -> Option<Effect> {
        Some(effect)
    }

    /// Carries out a tool call, if it belongs to this component, and answers it now or later. Returns any other.
    fn on_call(&mut self, _: &mut Core, _: AgentId, _: &str, request: ToolRequest) -> Option<ToolRequest> {
        Some(request)
    }

    /// Carries out a change, if it belongs to this component. Returns any other.
    fn on_change(&mut self, _: &mut Core, _: Origin, _: AgentId, change: Change) -> Result<Option<Change>> {
        Ok(Some(change))
    }

    /// Whether an agent's request has to wait for this component, which later makes the request again or sends it.
    fn holds_request(&mut self, _: &mut Core, _: AgentId) -> bool {
        false
    }

    /// Whether a message of a person has to wait for what it names. [`Component::take_completed`] returns it later.
    ///
    /// # Errors
    /// What the message names cannot be had.
    fn holds_text(&mut self, _: &mut Core, _: (Origin, AgentId), _: &str) -> Result<bool> {
        Ok(false)
    }

    /// The messages that were held back until now.
    fn take_completed(&mut self) -> Vec<HeldText> {
        Vec::new()
    }

    /// The servers of tools that it has used.
    fn servers(&self) -> Vec<ServerReport> {
        Vec::new()
    }

    /// Esc: ends what this component does for the person at this agent. Returns whether there was anything.
    fn interrupt(&mut self, _: &mut Core, _: AgentId) -> bool {
        false
    }

    /// A bounded amount of the component's own work, once a turn.
    fn step(&mut self, _: &mut Core, _: &mut Vec<Command>) {}

    /// Whether the next turn must not wait.
    fn has_work(&self, _: &Core) -> bool {
        false
    }

    /// When the next wait must end at the latest, and why.
    fn deadline(&self, _: &Core) -> Option<(Moment, WakeReason)> {
        None
    }

    /// The program ends: begins to end what was started.
    fn begin_end(&mut self, _: &mut Core) {}

    /// Whether the end of the program waits for it, as long as the configuration allows.
    fn has_to_end(&self) -> bool {
        false
    }

    /// Ends what the program no longer waits for. Returns a note about each.
    fn end(&mut self, _: &mut Core) -> Vec<String> {
        Vec::new()
    }
}
