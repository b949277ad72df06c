//! What `Core` did, delivered to every component afterwards.
//!
//! An event requests nothing and expects no answer. Positions in an agent's output travel with it, so that it does not
//! matter when it is delivered.

use std::path::PathBuf;

use serde_json::Value;

use crate::base::error::Result;
use crate::base::id::{AgentId, ClientId, TerminalId};
use crate::domain::drafts::DraftSlot;
use crate::domain::flow::Origin;
use crate::domain::mcp::ClientServer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An agent was created as a child of `parent`.
    Spawned {
        parent: AgentId,
        child: AgentId,
        origin: Origin,
        is_announced: bool,
        /// No terminal follows it.
        stays: bool,
    },
    /// An agent was removed from memory: killed, closed, or done.
    Removed {
        agent: AgentId,
        adopter: Option<AgentId>,
        /// The adopter is not its parent, and works in another directory.
        is_elsewhere: bool,
        worktree: Option<PathBuf>,
        /// Texts that were typed to it and are not stored any more, with their owners.
        drafts: Vec<(DraftSlot, String)>,
    },
    /// The agent's work was interrupted, or, if it was idle, the work that is done for it.
    Interrupted {
        agent: AgentId,
        was_idle: bool,
    },
    /// A turn begins with the chunk of this number.
    TurnStarted {
        agent: AgentId,
        origin: Origin,
        chunk: u64,
    },
    /// A turn ended before the chunk of this number.
    TurnEnded {
        agent: AgentId,
        chunk: u64,
    },
    /// The agent's request is on its way to the provider.
    RequestSent {
        agent: AgentId,
    },
    /// Something was added to or taken from the agent's queue.
    QueueChanged {
        agent: AgentId,
    },
    /// A tool of the agent has changed files, or its work was landed.
    FilesChanged {
        agent: AgentId,
    },
    /// A limit was set or raised.
    LimitChanged,
    MailArrived {
        agent: AgentId,
    },
    /// Someone is about to choose a model.
    ModelsWanted,
    /// A request of a client has ended, with this outcome.
    ClientJobEnded {
        client: ClientId,
        outcome: Result<JobResult>,
    },
    /// A task that a terminal asked for has ended: what was noted about it.
    JobReported {
        terminal: TerminalId,
        text: String,
    },
    /// A client receives the commands of an agent, which has these servers of tools as long as it does.
    CommandsBegun {
        client: ClientId,
        agent: AgentId,
        servers: Vec<ClientServer>,
    },
    /// A client no longer receives the commands of an agent, and the servers that it has declared for it end.
    CommandsEnded {
        client: ClientId,
    },
    /// Something happened in the run of a client, described by an object.
    #[cfg(feature = "coordinator")]
    ClientRunWent {
        client: ClientId,
        event: Value,
    },
    /// The run of a client has ended, with this outcome.
    #[cfg(feature = "coordinator")]
    ClientRunEnded {
        client: ClientId,
        outcome: Value,
    },
    /// The person stopped all agents, or a part of them: nothing is resumed for a client.
    Stopped,
}

/// What a job returns to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult {
    pub text: String,
    /// The same for programs; null if there is only the text.
    pub data: Value,
}

impl From<String> for JobResult {
    fn from(text: String) -> Self {
        Self { text, data: Value::Null }
    }
}
