//! Hooks: programs that are told about sessions, messages, tool calls and the end of turns, and may object. Their input and
//! output have the form of Claude Code.

use std::path::PathBuf;
use std::time::Duration;

use crate::domain::skill::Author;

/// The time limit of a hook that sets none.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookEvent {
    /// Before the first request of an agent in this process.
    SessionStart,
    /// Before a message of a person is sent to the model.
    UserPrompt,
    /// Before a tool call is asked about and carried out.
    PreTool,
    /// Before a person is asked about a tool call.
    PermissionRequest,
    /// After a tool call, before the model gets its result.
    PostTool,
    /// When the model of an agent that a person started ends its turn.
    Stop,
    /// The same for an agent that another agent started.
    SubagentStop,
    /// Before the older part of a conversation is summarised.
    PreCompact,
    /// When an agent asks, has finished or failed.
    Notify,
}

impl HookEvent {
    /// All events, each with its name in the configuration, and the name that hooks get.
    pub const ALL: [(Self, &'static str, &'static str); 9] = [
        (Self::SessionStart, "session_start", "SessionStart"),
        (Self::UserPrompt, "user_prompt", "UserPromptSubmit"),
        (Self::PreTool, "pre_tool", "PreToolUse"),
        (Self::PermissionRequest, "permission_request", "PermissionRequest"),
        (Self::PostTool, "post_tool", "PostToolUse"),
        (Self::Stop, "stop", "Stop"),
        (Self::SubagentStop, "subagent_stop", "SubagentStop"),
        (Self::PreCompact, "pre_compact", "PreCompact"),
        (Self::Notify, "notify", "Notification"),
    ];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(event, ..)| *event == self).map_or("", |(_, name, _)| name)
    }

    /// The name that hooks get.
    pub fn wire_name(self) -> &'static str {
        Self::ALL.iter().find(|(event, ..)| *event == self).map_or("", |(_, _, name)| name)
    }
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// When it runs.
    pub event: HookEvent,
    /// A regular expression that has to match the whole name of the tool; for events without one, the `source`, `trigger` or
    /// `notification_type` that the hook is told. Empty: all.
    pub matcher: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Then it is ended, and has failed.
    pub timeout: Duration,
    /// If it fails, the call is refused.
    pub is_required: bool,
    /// Whose it is. One of a project can only deny, ask and add context.
    pub author: Author,
    /// It comes from a file of Claude Code, and gets its names of tools.
    pub has_claude_names: bool,
    /// Where it is defined.
    pub source: String,
    /// The project directory that it comes from; it applies to agents that work there or below, and in worktrees of it.
    pub project: Option<PathBuf>,
    /// The files of the project that the command names.
    pub scripts: Vec<HookScript>,
}

/// A file that the command of a project's hook names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookScript {
    /// Below the directory of the project.
    pub path: PathBuf,
    /// SHA-256 of the contents that the person has trusted, in hexadecimal; `None`: never trusted.
    pub digest: Option<String>,
}

impl Hook {
    /// For lists and notes.
    pub fn label(&self) -> String {
        format!("hook {} ({})", self.event.name(), self.source)
    }
}

/// The names of tools in Claude Code, for matchers and for hooks that come from there.
const CLAUDE_NAMES: &[(&str, &str)] = &[
    ("bash", "Bash"),
    ("bash_output", "BashOutput"),
    ("bash_kill", "KillShell"),
    ("read_file", "Read"),
    ("write_file", "Write"),
    ("edit_file", "Edit"),
    ("multi_edit", "MultiEdit"),
    ("glob", "Glob"),
    ("grep", "Grep"),
    ("list_dir", "LS"),
    ("web_fetch", "WebFetch"),
    ("todo", "TodoWrite"),
    ("skill", "Skill"),
    ("fork", "Task"),
];

/// The name of a tool in Claude Code; unknown tools keep their name.
pub fn claude_name(tool: &str) -> &str {
    CLAUDE_NAMES.iter().find(|(own, _)| *own == tool).map_or(tool, |(_, name)| name)
}

/// Our name of a tool of Claude Code, if there is such a tool.
pub fn own_name(claude: &str) -> Option<&'static str> {
    CLAUDE_NAMES.iter().find(|(_, name)| *name == claude).map(|(own, _)| *own)
}
