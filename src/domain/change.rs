//! Changes of the state: what a user, a client, a tool or a component wants to be different. `repl::apply` carries them out.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::base::id::{AgentId, MessageId};
use crate::domain::approval::Policy;
use crate::domain::choices::Choices;
use crate::domain::compare::CompareChange;
use crate::domain::diff::FileHunks;
use crate::domain::file_change::{LandMany, LandRequest, UndoRequest};
use crate::domain::limits::{LimitName, LimitValue};
use crate::domain::mail::MailId;
use crate::domain::parameters::ParameterName;
use crate::domain::rule::{Rule, Scope};
use crate::domain::slice::SliceSpec;
use crate::domain::thinking::Thinking;

/// A change of the state, requested by a user, a client or a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Fork a child that shares the conversation.
    Fork(Fork),
    /// Fork a child with the conversation up to a message, which is in the log of `agent`.
    ForkAt {
        /// The agent, which may have been killed.
        agent: AgentId,
        /// The last message that the child inherits; 0: none.
        message: MessageId,
        /// Put into the draft of the child, which is shown then.
        text: Option<String>,
    },
    /// Create an agent that inherits nothing, and show it.
    New {
        /// Its first message.
        prompt: Option<String>,
        /// Its name.
        name: Option<String>,
        /// Its model, as `provider/model`; as conversations begin here by default.
        model: Option<String>,
    },
    /// Submit a text to another agent.
    Tell {
        /// The agent.
        to: AgentId,
        /// The text.
        text: String,
    },
    /// Compare the answers of several agents.
    #[doc(hidden)]
    Compare(CompareChange),
    /// Start a task for several agents.
    Team(TeamStart),
    /// Kill an agent permanently.
    Kill {
        /// The agent.
        agent_id: AgentId,
        /// Kill its descendants too.
        cascade: bool,
    },
    /// Kill all descendants of an agent permanently.
    KillDescendants(AgentId),
    /// Archive agents, or bring one back.
    Archive(ArchiveAct),
    /// Delete an agent, listed, archived or killed, with its conversation.
    Delete(AgentId),
    /// Stop the work of an agent and of all its descendants, or of every agent.
    Stop(Option<AgentId>),
    /// Set something of an agent.
    Setting(Setting),
    /// Change what the model is sent of the conversation, at once or when the queue reaches it.
    EditHistory(HistoryEdit),
    /// Send, read or delete mail.
    Mail(MailAct),
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
    /// Copy text to the clipboard of the terminal.
    Copy(String),
    /// Read or write many files, which takes its time.
    Files(FileJob),
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
    /// Try the last turn of an agent again, which failed or was interrupted, from its last complete point.
    Retry,
    /// End the wait for a retry or for a rate limit.
    TryNow,
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
    /// The child begins with an empty conversation.
    pub inherits_nothing: bool,
    /// The child of a busy agent inherits the message that is being answered too, when the tools of the reply are done.
    pub includes_current: bool,
    /// The screen stays at this agent.
    pub stays: bool,
    /// Where the child works; where its parent does by default.
    pub place: Option<ForkPlace>,
}

/// Where a child works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkPlace {
    /// In the environment with this specification.
    Environment(String),
    /// In a new git worktree of the repository in which its parent works.
    NewWorktree,
}

/// A task for several agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TeamStart {
    /// Given the arguments of `/team`.
    Task(String),
    /// A review of the changes of the working tree, against this branch or commit.
    Review(Option<String>),
}

/// A change of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveAct {
    /// Archive an agent.
    Archive(AgentId),
    /// Archive an agent and all below it, each as soon as it is idle.
    ArchiveWhenIdle(AgentId),
    /// Archive the members of a task that has ended, except for those that are in use.
    ArchiveMembers(Vec<AgentId>),
    /// Bring an archived agent back.
    Unarchive(AgentId),
}

/// A setting of an agent; those of requests apply from the next request on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Set or remove the name.
    Name(Option<String>),
    /// Use another model, as `provider/model`.
    Model(String),
    /// The thinking level.
    Thinking(Thinking),
    /// A parameter of requests; without a value it is removed.
    Parameter(ParameterName, Option<Value>),
    /// What the agent may do without a question. Only a person may set it.
    Approval(Policy),
    /// Take back a rule that was given to this agent or session.
    Revoke(Rule),
    /// The system prompt, `None` for the default one.
    System(Option<String>),
    /// The shell command that says whether the agent is done: empty for none, `None` for the configured one. Only a person
    /// may set it.
    Done(Option<String>),
    /// What the options of a command line say. Only for a person.
    #[doc(hidden)]
    Choices(Box<Choices>),
    /// A limit of the tree of an agent.
    Limit {
        /// The agent.
        agent_id: AgentId,
        /// What is limited.
        name: LimitName,
        /// The new limit.
        value: LimitValue,
    },
}

/// A change of a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailAct {
    /// Send mail to another agent.
    Send {
        /// The recipient.
        to: AgentId,
        /// The text.
        body: String,
    },
    /// Show a message and mark it read; by default the oldest unread one.
    Read(Option<MailId>),
    /// Delete a message.
    Delete(MailId),
}

/// Work with files that is done beside the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileJob {
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
    /// Land the worktrees of several agents, one after another.
    LandMany(LandMany),
    /// Revert hunks of a change.
    RevertHunks {
        /// The agent that made the change.
        agent: AgentId,
        /// In one file or several.
        #[doc(hidden)]
        hunks: Vec<FileHunks>,
    },
    /// Throw the work in the worktree of an agent away, and the agent with it.
    Discard(AgentId),
    /// Write the conversation to a file.
    Export {
        /// Relative to the agent's working directory.
        path: PathBuf,
        /// How it is written.
        format: ExportFormat,
        /// A file that exists is replaced.
        replaces: bool,
    },
}

/// The format of an exported conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// For readers.
    Markdown,
    /// All that is stored.
    Json,
    /// An Agent Trajectory Interchange Format document, with the agents that it forked.
    Atif,
}

impl ExportFormat {
    /// All formats, with the words that name them.
    pub const ALL: [(&'static str, Self); 3] = [("md", Self::Markdown), ("json", Self::Json), ("atif", Self::Atif)];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
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
    /// What an agent has changed.
    Review,
    /// All conversations, to choose one.
    Picker,
    /// A provider, its key and a model.
    Setup,
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
    /// The same, and from now on the rules of the question are refused to the agent.
    DenyAlways(Option<String>),
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
    /// Send the oldest entry of an idle agent.
    Resume,
    /// Move an entry.
    Move {
        /// Its index.
        from: usize,
        /// Its new index.
        to: usize,
    },
}

impl Change {
    /// Fork a child in the environment with this specification, when the tools of a reply are done.
    pub fn environment(spec: impl Into<String>) -> Self {
        let place = Some(ForkPlace::Environment(spec.into()));
        Self::Fork(Fork { includes_current: true, place, ..Fork::default() })
    }

    /// Whether it writes nothing to the store.
    pub const fn is_read_only_change(&self) -> bool {
        matches!(
            self,
            Self::Switch(_)
                | Self::Show(_)
                | Self::Interrupt
                | Self::Stop(_)
                | Self::Answer { .. }
                | Self::Setting(Setting::Approval(_) | Setting::Revoke(_))
                | Self::Copy(_)
                | Self::Files(FileJob::Export { .. })
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
                | Self::Files(_)
                | Self::Fork(Fork { place: Some(_), .. })
                | Self::Copy(_)
                | Self::Show(Shown::View(ViewName::Setup))
        )
    }

    /// A stable name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fork(Fork { place: Some(ForkPlace::Environment(_)), .. }) => "env",
            Self::Fork(_) => "fork",
            Self::ForkAt { text: None, .. } => "fork_at",
            Self::ForkAt { text: Some(_), .. } => "edit_fork",
            Self::New { .. } => "new",
            Self::Tell { .. } => "tell",
            Self::Compare(CompareChange::Ask { .. }) => "ask",
            Self::Compare(CompareChange::Act { .. }) => "compare",
            Self::Team(TeamStart::Task(_)) => "team",
            Self::Team(TeamStart::Review(_)) => "review",
            Self::Kill { .. } => "kill",
            Self::KillDescendants(_) => "kill_descendants",
            Self::Archive(ArchiveAct::Archive(_) | ArchiveAct::ArchiveWhenIdle(_)) => "archive",
            Self::Archive(ArchiveAct::ArchiveMembers(_)) => "archive members",
            Self::Archive(ArchiveAct::Unarchive(_)) => "unarchive",
            Self::Delete(_) => "delete",
            Self::Stop(_) => "stop",
            Self::Setting(setting) => setting.name(),
            Self::EditHistory(edit) => edit.name(),
            Self::Mail(MailAct::Send { .. }) => "send",
            Self::Mail(MailAct::Read(_)) => "read_mail",
            Self::Mail(MailAct::Delete(_)) => "delete_mail",
            Self::Switch(_) => "switch",
            Self::Show(shown) => shown.name(),
            Self::Submit(_) => "submit",
            Self::ServerPrompt(_) => "server_prompt",
            Self::Enqueue(_) => "enqueue",
            Self::EditQueue(QueueEdit::TakeBackNewest) => "unqueue",
            Self::EditQueue(QueueEdit::Resume) => "resume",
            Self::EditQueue(_) => "edit_queue",
            Self::Copy(_) => "copy",
            Self::Files(FileJob::Undo { .. }) => "undo",
            Self::Files(FileJob::Land { .. }) => "land",
            Self::Files(FileJob::LandMany(_)) => "land_many",
            Self::Files(FileJob::RevertHunks { .. }) => "revert_hunks",
            Self::Files(FileJob::Discard(_)) => "discard",
            Self::Files(FileJob::Export { .. }) => "export",
            Self::Shell { .. } => "shell",
            Self::Instruct(_) => "instruct",
            Self::ToggleRaw => "raw",
            Self::Interrupt => "interrupt",
            Self::Answer { .. } => "answer",
            Self::Retry => "retry",
            Self::TryNow => "retry_now",
        }
    }
}

impl Setting {
    /// A stable name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Name(_) => "name",
            Self::Model(_) => "model",
            Self::Thinking(_) => "thinking",
            Self::Parameter(..) => "set",
            Self::Approval(_) => "approval",
            Self::Revoke(_) => "revoke",
            Self::System(_) => "system",
            Self::Done(_) => "done",
            Self::Choices(_) => "choose",
            Self::Limit { .. } => "limit",
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
