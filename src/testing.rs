//! What the integration tests and benchmarks need besides the library: internal types, and [`Probe`] for the state of a
//! [`Repl`](crate::Repl). Not part of the public interface; it changes without notice.

#![allow(missing_docs)]

pub use crate::agent::{Agent, FIRST_CHUNK, State, Wait};
pub use crate::base::clock::Moment;
pub use crate::base::id::{MessageId, TerminalId};
pub use crate::domain::draft::Draft;
pub use crate::domain::drafts::DraftSlot;
pub use crate::domain::flow::TurnEnd;
pub use crate::domain::frame::{Color, Frame, Row, Style};
pub use crate::domain::history::History;
pub use crate::domain::http::{HttpHead, HttpRequest};
pub use crate::domain::key::Key;
pub use crate::domain::message::{Body, Message, Reply, Signature};
pub use crate::domain::scrollback::{LineKind, Reader, Scrollback};
pub use crate::domain::stream::{Finish, Piece, StreamEvent};
pub use crate::domain::tool::{ToolCall, ToolDeclaration};
pub use crate::repl::{Device, Probe, RemoteTerminal, Terminal, TerminalMode, TerminalRequest, Timeout, WakeReason};
#[cfg(feature = "coordinator")]
pub use crate::store::RunRow;
pub use crate::store::{Forked, Found, NewAgent, QueueId, QueuedRow};
#[cfg(feature = "coordinator")]
pub use crate::team::coordinator::aggregate::aggregate;
#[cfg(feature = "coordinator")]
pub use crate::team::coordinator::health::{Breaker, Health};
pub use crate::terminal::keys::KeyDecoder;
pub use crate::terminal::screen::{Palette, Screen};

pub mod config {
    pub use crate::cli::config::{Diagnostics, examine};
}

pub mod commands {
    pub use crate::commands::*;
}

pub mod limits {
    pub use crate::domain::limits::MadeBy;
}

pub mod mail {
    pub use crate::domain::mail::LONGEST;
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
    pub use crate::store::{holder, typed_line};
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
