//! What a person is asked before a call runs.

use std::ops::Range;
use std::path::Path;

use super::atomic_write::Snapshot;
use super::locate::Located;
use super::{NetworkRequest, PathVerdict, WaysToAllow, visible};
use crate::domain::diff::DiffColors;
use crate::domain::frame::{Style, StyledLine};

/// The text for the user before a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// A summary in one line, also shown in lists of calls.
    pub title: String,
    /// The exact command, or the path and the change. Control and direction characters are escaped.
    pub detail: Vec<String>,
    /// The first lines of the detail that are the command and stand out; 0: all of them do.
    pub command_lines: usize,
    /// Which lines of the detail are those of a diff.
    pub diffs: Vec<Range<usize>>,
    /// The file or directory that the call is about.
    pub file: Option<Located>,
    /// The state of the file that the shown change applies to; in another state it is not changed.
    pub snapshot: Option<Snapshot>,
    /// The texts around it.
    pub answers: Answers,
    /// The hosts that the call names.
    pub network: Option<NetworkRequest>,
    /// Ways to let calls like this one run without a question.
    pub ways: WaysToAllow,
}

/// Begins the line of a question that says why it is asked.
const ASKS_BECAUSE: &str = "asks because: ";

impl Question {
    /// Whether it asks for values rather than for a permission.
    pub fn wants_values(&self) -> bool {
        self.answers.ask.is_empty()
    }

    /// Adds the lines of a diff to the detail.
    pub fn add_diff(&mut self, lines: Vec<String>) {
        let begin = self.detail.len();
        self.detail.extend(lines);
        self.diffs.push(begin..self.detail.len());
    }

    /// The colours of the code in each diff.
    pub fn diff_colors(&self) -> Vec<DiffColors> {
        let path = self.file.as_ref().map(|file| file.path.clone()).unwrap_or_default();
        self.diffs.iter().map(|range| DiffColors::of(&path, &self.detail[range.clone()])).collect()
    }

    /// The detail as it is drawn.
    pub fn lines(&self, colors: &[DiffColors]) -> Vec<StyledLine> {
        let stands_out = |at| self.command_lines == 0 || at < self.command_lines;
        let style = |at| if stands_out(at) { Style::BOLD } else { Style::default() };
        let plain = |lines: Range<usize>| lines.map(|at| StyledLine::of(self.detail[at].as_str(), style(at)));
        let mut lines = Vec::new();
        let mut at = 0;
        for (range, colors) in self.diffs.iter().zip(colors) {
            lines.extend(plain(at..range.start));
            lines.extend(colors.draw(&self.detail[range.clone()]));
            at = range.end;
        }
        lines.extend(plain(at..self.detail.len()));
        lines
    }

    /// Adds why it is asked, for a person.
    pub fn add_reason(&mut self, reason: &str) {
        self.detail.push(format!("{ASKS_BECAUSE}{}", visible(reason)));
    }

    /// The reason for the question, if it is known.
    pub fn reason(&self) -> Option<&str> {
        self.detail.last()?.strip_prefix(ASKS_BECAUSE)
    }
}

/// The texts around a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// Before the title.
    pub ask: &'static str,
    /// The effect of the key for yes.
    pub yes: &'static str,
    /// The effect of the key for no.
    pub no: &'static str,
}

impl Answers {
    /// For a call that is about to run.
    pub const RUN: Self = Self { ask: "Run this? ", yes: "run it", no: "refuse it" };
}

impl Question {
    /// A question that does not depend on the content of a file.
    pub fn new(title: String, detail: Vec<String>) -> Self {
        Self {
            title,
            detail,
            command_lines: 0,
            diffs: Vec::new(),
            file: None,
            snapshot: None,
            answers: Answers::RUN,
            network: None,
            ways: WaysToAllow::default(),
        }
    }

    /// A question about reading. Only a path outside of the workspace is shown in full.
    pub(super) fn to_read(title: String, file: Located) -> Self {
        let detail = match &file.verdict {
            PathVerdict::AskOutside(directory) => {
                let scope = if *directory == file.path { "" } else { " and everything else below its directory" };
                vec![visible(&file.path.to_string_lossy()), format!("yes allows this agent to read it{scope}")]
            }
            _ => Vec::new(),
        };
        Self { file: Some(file), ..Self::new(title, detail) }
    }

    /// The canonical path that the call is about.
    pub(super) fn path(&self) -> &Path {
        self.file.as_ref().map_or(Path::new(""), |file| &file.path)
    }
}
