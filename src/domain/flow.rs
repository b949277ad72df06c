//! Values that describe what happened and what to do next, passed between layers.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::base::error::Error;
use crate::base::id::{AgentId, ClientId, TerminalId};
use crate::domain::change::Change;
use crate::domain::mail::MailId;
use crate::domain::todo::Todo;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputResult {
    /// Exit the program, or detach the terminal from a program that goes on without it.
    Exit,
    /// Detach this terminal; an error if the program would exit.
    Detach,
    /// Show all commands and keys.
    Help,
    /// Nothing changes; the text is shown.
    Continue(Option<String>),
    /// Apply a change, then show the note.
    NewState(Change, Option<String>),
    /// Apply a change at another agent than the one that the command was typed to; a client also gets the value.
    NewStateAt(AgentId, Change, Option<Value>),
    /// Return this value to a client; nothing changes.
    Data(Value),
    /// Send the line to the model.
    Message(String),
    /// Carry out a call of this tool with these arguments, which the program of a client makes; the client gets the result.
    ToolCall(String, String),
}

/// Where a change came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Terminal(TerminalId),
    Client(ClientId),
    /// A model: the agent that called a tool, or that works for it.
    Agent(AgentId),
    /// The program that hosts the loop.
    Library,
    Internal,
}

impl Origin {
    pub const fn terminal(self) -> Option<TerminalId> {
        if let Self::Terminal(id) = self { Some(id) } else { None }
    }
}

/// How an agent's turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOutcome {
    Completed,
    Interrupted {
        /// A part of the reply is stored.
        partial: bool,
    },
    /// The program was exited in order during the turn.
    Exited,
    Error(Error),
}

/// How the last turn of an agent ended, for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnEnd {
    /// By itself.
    Completed,
    /// With an error.
    Failed,
    /// By a person, or because the program ended.
    Interrupted,
}

impl TurnEnd {
    /// As it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// The end of this name.
    pub fn find(name: &str) -> Option<Self> {
        [Self::Completed, Self::Failed, Self::Interrupted].into_iter().find(|end| end.name() == name)
    }
}

impl AgentOutcome {
    /// The end of the turn, for lists.
    pub const fn end(&self) -> TurnEnd {
        match self {
            Self::Completed => TurnEnd::Completed,
            Self::Interrupted { .. } | Self::Exited => TurnEnd::Interrupted,
            Self::Error(_) => TurnEnd::Failed,
        }
    }
}

/// A request of a model through a tool. Agents are given by name or id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolRequest {
    /// Fork a child that starts with this prompt.
    Fork {
        prompt: String,
        name: Option<String>,
        /// Its model, as `provider/model`.
        model: Option<String>,
        /// The name of its definition.
        definition: Option<String>,
    },
    Kill {
        agent_id: String,
        /// Kill its descendants too.
        cascade: bool,
    },
    SendMail {
        /// Name or id of the recipient.
        to: String,
        body: String,
    },
    /// Read a mail message, by default the oldest unread one.
    ReadMail(Option<MailId>),
    Wait {
        /// The longest wait.
        timeout: Duration,
        /// Wait until each of these has sent mail, is idle or was killed; if empty, until any mail arrives.
        from: Vec<String>,
    },
    /// Run a command that only reads, given as words.
    Run(Vec<String>),
    /// Call a tool of an MCP server, or start the server.
    Mcp {
        server: String,
        tool: String,
        /// The call starts the server, to which the person has consented under this sandbox, in words.
        sandbox: Option<String>,
        arguments: Map<String, Value>,
    },
    /// A call of a feature's tool.
    Feature { tool: &'static str, arguments: Value },
    /// Replace the list of tasks.
    Todo(Todo),
    /// Read the new output of a background command, at its end if it comes within `wait`.
    BashOutput {
        id: String,
        /// A regular expression that lines have to match.
        filter: Option<String>,
        wait: Duration,
    },
    /// End a background command.
    BashKill { id: String },
}
