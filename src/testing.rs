//! What the integration tests and benchmarks need besides the library: internal types, and [`Probe`] for the state of a
//! [`Repl`]. Not part of the public interface; it changes without notice.

#![allow(missing_docs)]

use crate::base::clock::Clock;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::config::Config;
use crate::repl::Repl;
use crate::store::Store;
use crate::team::Roster;

pub use crate::agent::{Agent, FIRST_CHUNK, State, Wait};
pub use crate::base::clock::Moment;
pub use crate::base::id::{MessageId, TerminalId};
pub use crate::domain::draft::Draft;
pub use crate::domain::frame::{Color, Frame, Row, Style};
pub use crate::domain::history::History;
pub use crate::domain::http::{HttpHead, HttpRequest};
pub use crate::domain::key::Key;
pub use crate::domain::message::{Body, Message, Reply, Signature};
pub use crate::domain::scrollback::{LineKind, Reader, Scrollback};
pub use crate::domain::stream::{Finish, StreamEvent};
pub use crate::domain::tool::{ToolCall, ToolDeclaration};
pub use crate::repl::{Device, RemoteTerminal, Terminal, TerminalMode, TerminalRequest, Timeout, WakeReason};
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

pub mod mail {
    pub use crate::domain::mail::LONGEST;
}

pub mod provider {
    pub use crate::provider::*;
}

pub mod socket {
    pub use crate::socket::{Listener, connect};
}

pub mod store {
    pub use crate::store::{holder, typed_line};
}

pub mod supervisor {
    pub use crate::tools::supervisor::{FLAG, WHOLE_ENVIRONMENT};
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

/// The internal state of a [`Repl`].
pub trait Probe: Sized {
    /// [`Repl::open`] with a terminal that shows the root.
    fn open_at(config: Config, store: Store, clock: Clock, device: Option<Device>) -> Result<Self>;
    fn roster(&self) -> &Roster;
    fn store(&self) -> &Store;
    /// How long the next turn waits, and for what.
    fn compute_timeout(&self) -> Timeout;
    /// How many viewers are attached.
    fn viewers(&self) -> usize;
    /// How many clients are connected.
    fn clients(&self) -> usize;
    fn attach_device(&mut self, device: Device, focus: AgentId, mode: TerminalMode) -> TerminalId;
    fn detach_device(&mut self, at: TerminalId);
    fn terminal(&mut self) -> Option<&mut Terminal>;
    fn terminal_at(&mut self, at: TerminalId) -> Option<&mut Terminal>;
    fn terminal_ids(&self) -> Vec<TerminalId>;
    #[cfg(feature = "coordinator")]
    fn health(&self) -> &Health;
}

impl Probe for Repl {
    fn open_at(config: Config, store: Store, clock: Clock, device: Option<Device>) -> Result<Self> {
        Repl::open_at(config, store, clock, device)
    }

    fn roster(&self) -> &Roster {
        Repl::roster(self)
    }

    fn store(&self) -> &Store {
        Repl::store(self)
    }

    fn compute_timeout(&self) -> Timeout {
        Repl::compute_timeout(self)
    }

    fn viewers(&self) -> usize {
        Repl::viewers(self)
    }

    fn clients(&self) -> usize {
        Repl::clients(self)
    }

    fn attach_device(&mut self, device: Device, focus: AgentId, mode: TerminalMode) -> TerminalId {
        Repl::attach_device(self, device, focus, mode)
    }

    fn detach_device(&mut self, at: TerminalId) {
        Repl::detach_device(self, at)
    }

    fn terminal(&mut self) -> Option<&mut Terminal> {
        Repl::terminal(self)
    }

    fn terminal_at(&mut self, at: TerminalId) -> Option<&mut Terminal> {
        Repl::terminal_at(self, at)
    }

    fn terminal_ids(&self) -> Vec<TerminalId> {
        Repl::terminal_ids(self)
    }

    #[cfg(feature = "coordinator")]
    fn health(&self) -> &Health {
        Repl::health(self)
    }
}
