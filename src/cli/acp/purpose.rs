//! What the connections of this program to the loop are for.

use std::path::PathBuf;

use serde_json::Value;

use crate::domain::mcp::ClientServer;

/// The purpose of a connection. `id` is that of a request of the editor.
#[derive(Debug, Clone, PartialEq)]
pub enum Purpose {
    /// A session is created, with these MCP servers of the editor.
    New { id: Value, servers: Vec<ClientServer> },
    /// Before it begins, its server is asked for its models.
    Models { id: Value, agent: Value, servers: Vec<ClientServer> },
    /// Loading a session, perhaps with its conversation for the editor.
    TakeUp { id: Value, session: String, cwd: String, is_replayed: bool, servers: Vec<ClientServer> },
    /// Its conversation so far.
    Replay { id: Value, session: String },
    /// Its conversation from now on.
    Follow { session: String },
    /// Its commands; the servers of the editor last as long as this connection.
    Commands { session: String },
    /// An image of its prompt is stored.
    Image { session: String },
    /// Its prompt is running.
    Turn { session: String },
    /// Its title, options and use of the context after a turn.
    Refresh { session: String },
    /// An option is set; the editor is told all options, or nothing if it knows modes only.
    SetOption { id: Value, session: String, is_mode: bool },
    /// An option was set, and the agent is asked what it has now.
    ReadOptions { id: Value, session: String, is_mode: bool },
    /// A conversation is deleted.
    Delete { id: Value, session: String, step: Deletion },
    /// The conversations, perhaps only those of one directory, are listed from this one on.
    List { id: Value, directory: Option<PathBuf>, start: usize },
    /// The open questions of all agents.
    Questions,
    /// An answer to the question with this id.
    Answer { question: String },
    /// The response is not awaited.
    Aside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    Finding,
    /// What was running in it ends.
    AwaitingRest,
    Deleting,
}

impl Purpose {
    /// Whether the connection stays open until it is closed.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Follow { .. } | Self::Commands { .. } | Self::Questions)
    }
}
