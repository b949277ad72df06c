//! Values that describe what happened and what to do next, passed between layers.

use std::path::PathBuf;
use std::time::Duration;

use crate::base::error::Error;
use crate::base::id::{AgentId, ClientId, TerminalId};
use crate::domain::approval::Policy;
use crate::domain::limits::{LimitName, LimitValue};
use crate::domain::mail::MailId;
use crate::domain::rule::{Rule, Scope};
use crate::domain::slice::SliceSpec;
use crate::domain::thinking::Thinking;

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
    /// Send the line to the model.
    Message(String),
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

/// A change of the state, requested by a user, a client or a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Fork a child that shares the conversation.
    Fork {
        /// The child's first message; without it the child waits for input.
        prompt: Option<String>,
        /// Its name.
        name: Option<String>,
        /// Its model, as `provider/model`; that of the parent by default.
        model: Option<String>,
    },
    /// Fork a child in the environment with this specification.
    Environment(String),
    /// Kill an agent permanently.
    Kill {
        /// The agent.
        agent_id: AgentId,
        /// Kill its descendants too.
        cascade: bool,
    },
    /// Kill all descendants of an agent permanently.
    KillDescendants(AgentId),
    /// Stop the work of an agent and of all its descendants, or of every agent.
    Stop(Option<AgentId>),
    /// Show the limits of an agent, and what counts against them.
    ShowLimits(AgentId),
    /// Set a limit of the tree of an agent.
    Limit {
        /// The agent.
        agent_id: AgentId,
        /// What is limited.
        name: LimitName,
        /// The new limit.
        value: LimitValue,
    },
    /// Set or remove the name.
    Name(Option<String>),
    /// Remove everything so far from the context of the model.
    Clear,
    /// Set a mark.
    Mark(String),
    /// Return to the newest mark with this label, or to the newest of all.
    Rewind(Option<String>),
    /// Fork a child with part of the conversation.
    Slice(SliceSpec),
    /// Start a task for several agents, given the arguments of `/team`.
    Team(String),
    /// Show the current and recent tasks and the health of their members.
    ShowTeam,
    /// Send mail to another agent.
    Send {
        /// The recipient.
        to: AgentId,
        /// The text.
        body: String,
    },
    /// Show a mail message and mark it read; by default the oldest unread one.
    ReadMail(Option<MailId>),
    /// Delete a mail message.
    DeleteMail(MailId),
    /// Show another agent.
    Switch(AgentId),
    /// Send text to the model, or queue it while the agent works.
    Submit(String),
    /// Queue the line of a command.
    Enqueue(String),
    /// Edit the queue.
    EditQueue(QueueEdit),
    /// Use another model, as `provider/model`, from the next request on.
    Model(String),
    /// Change the thinking level from the next request on.
    Thinking(Thinking),
    /// Change what the agent may do without a question. Only a person may.
    Approval(Policy),
    /// Show the rules that hold for this agent.
    ShowRules,
    /// Take back a rule that was given to this agent or session.
    Revoke(Rule),
    /// Set the system prompt, `None` for the default one, from the next request on.
    System(Option<String>),
    /// Copy text to the clipboard of the terminal.
    Copy(String),
    /// Write text to a new file.
    Export {
        /// Relative to the agent's working directory.
        path: PathBuf,
        /// The content.
        text: String,
    },
    /// Run a shell command of a person.
    Shell {
        /// For `sh -c`.
        command: String,
        /// The model gets the output too.
        is_shared: bool,
    },
    /// Append a line to `AGENTS.md`.
    Instruct(String),
    /// Show the replies of the agent as they were written, or drawn again.
    ToggleRaw,
    /// Interrupt the agent.
    Interrupt,
    /// Answer an approval question.
    Answer {
        /// Its number; an answer to a closed question has no effect.
        question: u64,
        /// Whether the tool call may run.
        decision: Decision,
    },
    /// Move the newest queued text back to the draft.
    Unqueue,
    /// Send the oldest queued text of an idle agent.
    Resume,
    /// End the wait for a retry or for a rate limit.
    TryNow,
}

/// The answer to an approval question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The tool call runs.
    Allow,
    /// It runs, and others like it run without a question: the rules of the question are given to this scope.
    Always(Scope),
    /// It does not; the model is told why, if a reason is given.
    Deny(Option<String>),
}

/// A change of an agent's queue. Entries are counted from 0, the next one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueEdit {
    /// Move this entry to the draft.
    TakeBack(usize),
    /// Delete this entry.
    Drop(usize),
    /// Delete all entries.
    Clear,
    /// Move an entry.
    Move {
        /// Its index.
        from: usize,
        /// Its new index.
        to: usize,
    },
}

impl Change {
    /// Whether it writes nothing to the store.
    pub const fn is_read_only_change(&self) -> bool {
        matches!(
            self,
            Self::ShowTeam
                | Self::ShowLimits(_)
                | Self::Switch(_)
                | Self::Interrupt
                | Self::Stop(_)
                | Self::Answer { .. }
                | Self::Approval(_)
                | Self::ShowRules
                | Self::Revoke(_)
                | Self::Copy(_)
                | Self::Export { .. }
                | Self::ToggleRaw
        )
    }

    /// Whether it affects only the terminal that requests it, so that a read-only terminal may do it.
    pub const fn is_local_to_terminal(&self) -> bool {
        matches!(self, Self::Switch(_) | Self::Copy(_) | Self::ShowTeam | Self::ShowLimits(_) | Self::ShowRules)
    }

    /// A stable name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fork { .. } => "fork",
            Self::Environment(_) => "env",
            Self::Kill { .. } => "kill",
            Self::KillDescendants(_) => "kill_descendants",
            Self::Stop(_) => "stop",
            Self::ShowLimits(_) => "show_limits",
            Self::Limit { .. } => "limit",
            Self::Name(_) => "name",
            Self::Clear => "clear",
            Self::Mark(_) => "mark",
            Self::Rewind(_) => "rewind",
            Self::Slice(_) => "slice",
            Self::Team(_) => "team",
            Self::ShowTeam => "show_team",
            Self::Send { .. } => "send",
            Self::ReadMail(_) => "read_mail",
            Self::DeleteMail(_) => "delete_mail",
            Self::Switch(_) => "switch",
            Self::Submit(_) => "submit",
            Self::Enqueue(_) => "enqueue",
            Self::EditQueue(_) => "edit_queue",
            Self::Model(_) => "model",
            Self::Thinking(_) => "thinking",
            Self::Approval(_) => "approval",
            Self::ShowRules => "show_rules",
            Self::Revoke(_) => "revoke",
            Self::System(_) => "system",
            Self::Copy(_) => "copy",
            Self::Export { .. } => "export",
            Self::Shell { .. } => "shell",
            Self::Instruct(_) => "instruct",
            Self::ToggleRaw => "raw",
            Self::Interrupt => "interrupt",
            Self::Answer { .. } => "answer",
            Self::Unqueue => "unqueue",
            Self::Resume => "resume",
            Self::TryNow => "try now",
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
    CheckMail,
    /// Read a mail message, by default the oldest unread one.
    ReadMail(Option<MailId>),
    Wait {
        /// The longest wait.
        timeout: Duration,
        /// Wait until each of these has sent mail, is idle or was killed; if empty, until any mail arrives.
        from: Vec<String>,
    },
    Agents,
}
