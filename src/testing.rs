//! What the integration tests and benchmarks need besides the library: internal types, and [`Probe`] for the state of a
//! [`Repl`](crate::Repl). Not part of the public interface; it changes without notice.

//!
//! # What a callback of an agent cannot do
//!
//! The loop calls an agent with `&mut Agent` and a `Context`, inside of a call that holds all agents. These two programs
//! differ in one word, and only the first compiles:
//!
//! ```
//! # use polylogue::{AgentId, testing::Roster};
//! fn callback(agents: &mut Roster, own: AgentId, other: AgentId) {
//!     agents.with(own, |agent| agent.unread += 1);
//!     agents.with(other, |agent| agent.unread += 1);
//! }
//! ```
//!
//! ```compile_fail
//! # use polylogue::{AgentId, testing::Roster};
//! fn callback(agents: &mut Roster, own: AgentId, other: AgentId) {
//!     agents.with(own, |agent| agents.with(other, |agent| agent.unread += 1));
//! }
//! ```
//!
//! Nor can it keep the agent that it was given for a later call:
//!
//! ```compile_fail
//! # use polylogue::{AgentId, testing::{Agent, Roster}};
//! fn callback<'a>(agents: &'a mut Roster, own: AgentId, other: AgentId) {
//!     let mut kept: Option<&mut Agent> = None;
//!     agents.with(own, |agent| kept = Some(agent));
//! }
//! ```

#![allow(missing_docs)]

pub use crate::agent::{Agent, FIRST_CHUNK, State, Wait};
pub use crate::base::clock::Moment;
pub use crate::base::digest::sha256;
pub use crate::base::id::{MessageId, TerminalId};
pub use crate::domain::called::Found;
pub use crate::domain::draft::Draft;
pub use crate::domain::drafts::DraftSlot;
pub use crate::domain::file_change::{LandMethod, LandRequest, WorktreeExtras};
pub use crate::domain::flow::TurnEnd;
pub use crate::domain::frame::{Color, Frame, Row, Style};
pub use crate::domain::history::History;
pub use crate::domain::http::{HttpHead, HttpRequest};
pub use crate::domain::key::Key;
pub use crate::domain::message::{Body, Message, Reply, Signature};
pub use crate::domain::scrollback::{LineKind, Reader, Scrollback};
pub use crate::domain::stream::{Finish, Piece, StreamEvent};
pub use crate::domain::tool::{ToolCall, ToolDeclaration};
pub use crate::domain::trace::TraceLine;
pub use crate::repl::{Device, Probe, RemoteTerminal, Terminal, TerminalMode, TerminalRequest, Timeout, WakeReason};
pub use crate::replay::{Scenario, Stage};
#[cfg(feature = "coordinator")]
pub use crate::store::RunRow;
pub use crate::store::{Forked, NewAgent, QueueId, QueuedRow};
#[cfg(feature = "coordinator")]
pub use crate::team::coordinator::aggregate::aggregate;
#[cfg(feature = "coordinator")]
pub use crate::team::coordinator::health::{Breaker, Health};
pub use crate::team::{Branches, Roster};
pub use crate::terminal::keys::KeyDecoder;
pub use crate::terminal::screen::{Palette, Screen};

pub mod config {
    pub use crate::cli::config::{Diagnostics, examine};
}

pub mod commands {
    pub use crate::commands::*;
}

pub mod front_matter {
    pub use crate::domain::front_matter::{FrontMatter, split};
}

pub mod limits {
    pub use crate::domain::limits::MadeBy;
}

pub mod mail {
    pub use crate::domain::mail::LONGEST;
}

pub mod mcp {
    pub use crate::domain::tool_schema::{Normal, normalise};
    #[cfg(feature = "mcp")]
    pub use crate::features::mcp::protocol::{Era, Event, Session};
}

pub mod provider {
    pub use crate::provider::*;
}

pub mod sandbox {
    pub use crate::domain::sandbox::{Network, SandboxSettings};
    pub use crate::sandbox::{Level, Places, Plan, Policy, Report, ResourceLimits, Watch};
}

pub mod socket {
    pub use crate::socket::{Listener, connect};
}

pub mod store {
    pub use crate::store::{SyncStep, holder, typed_line};
}

pub mod supervisor {
    pub use crate::tools::supervisor::{FLAG, SANDBOX, WHOLE_ENVIRONMENT};
}

pub mod text {
    pub use crate::base::text::*;
}

pub mod tools {
    pub use crate::tools::*;
}

pub mod tty {
    pub use crate::terminal::tty::{Tty, restore_for_panic};
}

pub mod wire {
    pub use crate::domain::wire::{Request, Response};
}
