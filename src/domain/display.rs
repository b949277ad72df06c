//! Settings of the screen around the conversation.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::theme::{Depth, ThemeSettings};

/// The settings of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplaySettings {
    /// The fields of the status line, from the left. On a narrow terminal the last ones are left out.
    pub status: Vec<StatusField>,
    /// The colours.
    pub theme: ThemeSettings,
    /// Whether the title of the window says what the agent does.
    pub title: bool,
    /// Whether the bell rings when an agent finishes or asks and the terminal has no focus.
    pub bell: bool,
    /// Whether the terminal shows a notification then.
    pub notify: bool,
    /// Whether the window's icon shows progress, and the terminal is told what each agent does.
    pub progress: bool,
    /// A program that is run then, and its arguments; the text is the last one.
    pub notify_command: Vec<String>,
    /// Whether the mouse scrolls and selects.
    pub mouse: bool,
    /// What stays on the shell's screen at exit: `screens`, `all` or `none`.
    pub exit_print: &'static str,
    /// Line mode: text is printed once, without control sequences.
    pub plain: bool,
    /// Finished lines go into the terminal's own scrollback instead of the alternate screen.
    pub inline: bool,
    /// Minimum time before a frame that only shows more streamed text.
    pub frame_interval: Duration,
    /// The person's home directory, which is shown as `~`.
    pub home: Option<PathBuf>,
}

impl Default for DisplaySettings {
    fn default() -> Self {
        Self {
            status: StatusField::ALL.map(|(field, ..)| field).into(),
            theme: ThemeSettings::default(),
            title: true,
            bell: true,
            notify: true,
            progress: true,
            notify_command: Vec::new(),
            mouse: true,
            exit_print: EXIT_PRINTS[0],
            plain: false,
            inline: false,
            frame_interval: Duration::ZERO,
            home: None,
        }
    }
}

/// A part of the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusField {
    Directory,
    Branch,
    Approval,
    Model,
    Thinking,
    Context,
    Cost,
    Environment,
    Tokens,
    Connection,
}

impl StatusField {
    /// All fields in their usual order, with the names that a person types and what they show.
    pub const ALL: [(Self, &'static str, &'static str); 10] = [
        (Self::Directory, "directory", "Working directory"),
        (Self::Branch, "branch", "Branch of its git repository"),
        (Self::Approval, "approval", "What the agent may do without a question"),
        (Self::Model, "model", "Model, with its provider where another one has it too"),
        (Self::Thinking, "thinking", "Thinking level, if one is set"),
        (Self::Context, "context", "How much of the model's context is used; ~ while a part of it is an estimate"),
        (Self::Cost, "cost", "Cost of the agent and those below it, and the rest of its limit of dollars"),
        (Self::Environment, "environment", "Environment, if it is not the default one"),
        (Self::Tokens, "tokens", "Tokens used since the program started"),
        (Self::Connection, "connection", "Says where the agents run in a server"),
    ];

    /// The field of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other, _)| *other == name).map(|(field, ..)| *field)
    }

    /// The name that a person types.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(field, ..)| *field == self).map_or("", |(_, name, _)| name)
    }
}

/// What a terminal can do besides showing frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Abilities {
    /// It runs in tmux, which passes some sequences on only in a sequence of its own.
    #[serde(skip)]
    pub is_in_tmux: bool,
    /// It has no control sequences, or a screen reader reads it: line mode.
    pub is_plain: bool,
    /// Uses its scrollback: no alternate screen.
    #[serde(skip)]
    pub is_inline: bool,
    /// It wraps its rows again when its width changes.
    #[serde(skip)]
    pub reflows: bool,
    pub depth: Depth,
    pub has_title: bool,
    /// It has links (OSC 8), or ignores them.
    pub has_links: bool,
    /// It answers queries.
    pub has_replies: bool,
    /// It shows progress (OSC 9;4).
    pub has_progress: bool,
    pub notification: Notification,
}

/// The sequence for a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notification {
    #[default]
    None,
    Osc9,
    Osc777,
}

/// What the icon of the window shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Progress {
    #[default]
    None,
    /// Agents work.
    Working,
    /// An agent waits for an answer.
    Asks,
}

/// What one agent does, or the program as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusReport {
    /// Empty for the program.
    pub id: String,
    pub activity: Activity,
    /// How many per cent of its list of tasks are done.
    pub percent: Option<usize>,
    pub title: String,
    pub message: String,
}

/// What a report says that is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    Idle,
    Working,
    Done,
    Failed,
    /// It waits for a permission.
    AsksPermission,
    /// It waits for another answer.
    AsksQuestion,
}

/// How much of the conversation stays on the shell's screen at exit.
pub const EXIT_PRINTS: [&str; 3] = ["screens", "all", "none"];
