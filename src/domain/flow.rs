//! Values that describe what happened and what to do next, passed between layers.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::base::error::Error;
use crate::base::id::{AgentId, ClientId, MessageId, TerminalId};
use crate::domain::approval::Policy;
use crate::domain::choices::Choices;
use crate::domain::compare::{AskTargets, CompareAct};
use crate::domain::file_change::{LandRequest, UndoRequest};
use crate::domain::limits::{LimitName, LimitValue};
use crate::domain::mail::MailId;
use crate::domain::parameters::ParameterName;
use crate::domain::rule::{Rule, Scope};
use crate::domain::slice::SliceSpec;
use crate::domain::thinking::Thinking;
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
    /// As `NewState` without a note, at an agent other than the one that the command was typed to.
    NewStateAt(AgentId, Change),
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

/// A view over many agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewName {
    /// What needs the person.
    Inbox,
    /// The agents as live tiles.
    Wall,
    /// Messages that contain some words.
    Search,
    /// Answers to one prompt, side by side.
    Compare,
    /// Everything that happened in a conversation.
    Timeline,
    /// All conversations, to choose one.
    Picker,
    /// A provider, its key and a model.
    Setup,
}

/// A child to fork.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fork {
    /// Its first message; without it the child waits for input.
    pub prompt: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its model, as `provider/model`; that of the parent by default.
    pub model: Option<String>,
    /// The name of its definition.
    pub definition: Option<String>,
    /// The child of a busy agent inherits the message that is being answered too, when the tools of the reply are done.
    pub includes_current: bool,
    /// The screen stays at this agent.
    pub stays: bool,
}

/// A prompt of an MCP server, as a person asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptRequest {
    /// The name of the server.
    pub server: String,
    /// The name that the server gave the prompt.
    pub name: String,
    /// Its arguments, which are texts.
    pub arguments: Map<String, Value>,
    /// What was typed.
    pub line: String,
}

/// A change of the state, requested by a user, a client or a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Fork a child that shares the conversation.
    Fork(Fork),
    /// Create an agent that inherits nothing, and show it.
    New {
        /// Its first message.
        prompt: Option<String>,
        /// Its name.
        name: Option<String>,
        /// Its model, as `provider/model`; as conversations begin here by default.
        model: Option<String>,
    },
    /// Change what the options of a command line say. Only for a person.
    #[doc(hidden)]
    Choose(Box<Choices>),
    /// Send a prompt to several agents, whose answers are compared.
    Ask {
        /// To whom.
        targets: AskTargets,
        /// The text.
        prompt: String,
    },
    /// Do something with compared answers.
    Compare {
        /// The number of the comparison.
        number: u64,
        /// What is done.
        act: CompareAct,
    },
    /// Submit a text to another agent.
    Tell {
        /// The agent.
        to: AgentId,
        /// The text.
        text: String,
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
    /// Hide an agent from lists until it is brought back.
    Archive(AgentId),
    /// Archive the members of a task that has ended, except for those that are in use.
    ArchiveMembers(Vec<AgentId>),
    /// Bring an archived agent back.
    Unarchive(AgentId),
    /// Delete an agent, listed, archived or killed, with its conversation.
    Delete(AgentId),
    /// Kill all descendants of an agent permanently.
    KillDescendants(AgentId),
    /// Stop the work of an agent and of all its descendants, or of every agent.
    Stop(Option<AgentId>),
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
    /// Change what the model is sent of the conversation, at once or when the queue reaches it.
    EditHistory(HistoryEdit),
    /// Start a task for several agents, given the arguments of `/team`.
    Team(String),
    /// Start a task that reviews the changes of the working tree, against this branch or commit.
    Review(Option<String>),
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
    /// Show something else at the terminal.
    Show(Shown),
    /// Send text to the model, or queue it while the agent works.
    Submit(String),
    /// Have an MCP server make a prompt, which is sent or put into the draft.
    ServerPrompt(PromptRequest),
    /// Queue the line of a command.
    Enqueue(String),
    /// Edit the queue.
    EditQueue(QueueEdit),
    /// Use another model, as `provider/model`, from the next request on.
    Model(String),
    /// Change the thinking level from the next request on.
    Thinking(Thinking),
    /// Set a parameter from the next request on; without a value, remove it.
    Set(ParameterName, Option<Value>),
    /// Change what the agent may do without a question. Only a person may.
    Approval(Policy),
    /// Take back a rule that was given to this agent or session.
    Revoke(Rule),
    /// Set the system prompt, `None` for the default one, from the next request on.
    System(Option<String>),
    /// Copy text to the clipboard of the terminal.
    Copy(String),
    /// Write the conversation to a new file.
    Export {
        /// Relative to the agent's working directory.
        path: PathBuf,
        /// As JSON instead of Markdown.
        is_json: bool,
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
    /// Send the oldest queued text of an idle agent.
    Resume,
    /// Try the last turn of an agent again, which failed or was interrupted, from its last complete point.
    Retry,
    /// End the wait for a retry or for a rate limit.
    TryNow,
    /// Bring back the files that the tools of an agent changed.
    Undo {
        /// The agent, which may have been killed.
        agent: AgentId,
        /// How far.
        request: UndoRequest,
    },
    /// Bring the work in the worktree of an agent to the branch that it left.
    Land {
        /// The agent, which may have been killed.
        agent: AgentId,
        /// How.
        request: LandRequest,
    },
    /// Fork a child with the conversation up to this message, and put a text into its draft.
    EditFork {
        /// The last message that the child inherits.
        after: MessageId,
        /// The text.
        text: String,
    },
    /// Fork a child with the conversation up to this message, which is in the log of `agent`.
    ForkAt {
        /// The agent, which may have been killed.
        agent: AgentId,
        /// The last message that the child inherits.
        message: MessageId,
    },
}

/// A change of the history of an agent, which may wait in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryEdit {
    /// Remove everything so far from the context of the model.
    Clear,
    /// The newest `Clear` counts no more.
    UndoClear,
    /// Send a summary of the older messages to the model instead of them, written for this goal.
    Compact(Option<String>),
    /// The newest `Compact` counts no more.
    UndoCompact,
    /// Set a mark.
    Mark(String),
    /// Return to the newest mark with this label, or to the newest of all.
    Rewind(Option<String>),
    /// Remove everything after this message from the conversation.
    RewindTo {
        /// The last message that stays.
        after: MessageId,
        /// Put into the draft.
        text: Option<String>,
    },
    /// Fork a child with part of the conversation.
    Slice(SliceSpec),
}

/// A view that a terminal shows on request; nothing is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// The limits of an agent, and what counts against them.
    Limits(AgentId),
    /// The current and recent tasks and the health of their members.
    Team,
    /// The models of all servers, which are asked for them if they are not known.
    Models,
    /// The rules that hold for this agent.
    Rules,
    /// This view.
    View(ViewName),
    /// The messages that match this query.
    Search(String),
    /// An agent from this message of its log on.
    Message {
        /// The agent.
        agent: AgentId,
        /// The message.
        message: MessageId,
    },
    /// What the tools of an agent changed in files.
    Diff(AgentId),
}

/// The answer to an approval question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The tool call runs.
    Allow,
    /// It runs, although the person did not read all that was asked; that is noted.
    AllowUnread,
    /// It runs, and others like it run without a question: the rules of the question are given to this scope.
    Always(Scope),
    /// It runs, and these rules, which a person wrote, are given to this scope.
    Rules(Scope, Vec<Rule>),
    /// The command or the text of the call is changed to this, and the question is asked about it.
    Edit(String),
    /// It does not run; the model is told the reason, if there is one.
    Deny(Option<String>),
}

/// A change of an agent's queue. Entries are counted from 0, the next one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueEdit {
    /// Move this entry to the draft.
    TakeBack(usize),
    /// Move the newest entry to the draft, if there is one.
    TakeBackNewest,
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
            Self::Switch(_)
                | Self::Show(_)
                | Self::Interrupt
                | Self::Stop(_)
                | Self::Answer { .. }
                | Self::Approval(_)
                | Self::Revoke(_)
                | Self::Copy(_)
                | Self::Export { .. }
                | Self::ToggleRaw
        )
    }

    /// Whether it affects only the terminal that requests it, so that a read-only terminal may do it.
    pub const fn is_local_to_terminal(&self) -> bool {
        matches!(self, Self::Switch(_) | Self::Show(_) | Self::Copy(_))
    }

    /// Whether it reads or changes files, or runs programs, beyond what an agent is asked to do.
    pub const fn reaches_outside(&self) -> bool {
        matches!(
            self,
            Self::Shell { .. }
                | Self::Instruct(_)
                | Self::Export { .. }
                | Self::Environment(_)
                | Self::Land { .. }
                | Self::Undo { .. }
                | Self::Copy(_)
        )
    }

    /// A stable name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fork(_) => "fork",
            Self::New { .. } => "new",
            Self::Choose(_) => "choose",
            Self::Ask { .. } => "ask",
            Self::Compare { .. } => "compare",
            Self::Tell { .. } => "tell",
            Self::Environment(_) => "env",
            Self::Kill { .. } => "kill",
            Self::Archive(_) => "archive",
            Self::ArchiveMembers(_) => "archive members",
            Self::Unarchive(_) => "unarchive",
            Self::Delete(_) => "delete",
            Self::KillDescendants(_) => "kill_descendants",
            Self::Stop(_) => "stop",
            Self::Limit { .. } => "limit",
            Self::Name(_) => "name",
            Self::Team(_) => "team",
            Self::Review(_) => "review",
            Self::Send { .. } => "send",
            Self::ReadMail(_) => "read_mail",
            Self::DeleteMail(_) => "delete_mail",
            Self::Switch(_) => "switch",
            Self::Show(shown) => shown.name(),
            Self::EditHistory(edit) => edit.name(),
            Self::ForkAt { .. } => "fork_at",
            Self::Undo { .. } => "undo",
            Self::Land { .. } => "land",
            Self::EditFork { .. } => "edit_fork",
            Self::Submit(_) => "submit",
            Self::ServerPrompt(_) => "server_prompt",
            Self::Enqueue(_) => "enqueue",
            Self::EditQueue(QueueEdit::TakeBackNewest) => "unqueue",
            Self::EditQueue(_) => "edit_queue",
            Self::Model(_) => "model",
            Self::Thinking(_) => "thinking",
            Self::Set(..) => "set",
            Self::Approval(_) => "approval",
            Self::Revoke(_) => "revoke",
            Self::System(_) => "system",
            Self::Copy(_) => "copy",
            Self::Export { .. } => "export",
            Self::Shell { .. } => "shell",
            Self::Instruct(_) => "instruct",
            Self::ToggleRaw => "raw",
            Self::Interrupt => "interrupt",
            Self::Answer { .. } => "answer",
            Self::Resume => "resume",
            Self::Retry => "retry",
            Self::TryNow => "retry_now",
        }
    }
}

impl HistoryEdit {
    /// A stable name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::UndoClear => "clear undo",
            Self::Compact(_) => "compact",
            Self::UndoCompact => "compact undo",
            Self::Mark(_) => "mark",
            Self::Rewind(_) => "rewind",
            Self::RewindTo { .. } => "rewind_to",
            Self::Slice(_) => "slice",
        }
    }
}

impl Shown {
    /// A stable name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Limits(_) => "show_limits",
            Self::Team => "show_team",
            Self::Models => "show_models",
            Self::Rules => "show_rules",
            Self::View(_) => "show_view",
            Self::Search(_) => "search",
            Self::Message { .. } => "show_message",
            Self::Diff(_) => "show_diff",
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
    /// Call a tool of an MCP server, or start the server.
    Mcp {
        server: String,
        tool: String,
        /// The call starts the server, to which the person has consented under this sandbox, in words.
        sandbox: Option<String>,
        arguments: Map<String, Value>,
    },
    /// Fetch a page of the web.
    WebFetch {
        url: String,
        timeout: Duration,
    },
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
    BashKill {
        id: String,
    },
}
