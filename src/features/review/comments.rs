//! Comments on hunks, which go to the agent as one message.

use std::ops::Range;
use std::path::PathBuf;

use super::marks::body_of;
use super::view::{Asked, ReviewView};
use crate::domain::change::Change;
use crate::domain::diff::FileDiff;
use crate::repl::core::Core;
use crate::repl::terminals::views::ViewAct;

/// A comment on a hunk.
pub(super) struct Comment {
    pub path: PathBuf,
    /// The line in the file that the hunk begins to change.
    pub line: usize,
    /// The lines of the hunk.
    pub lines: Vec<String>,
    pub text: String,
}

impl ReviewView {
    /// A comment is about what was on the screen when it was begun.
    pub(super) fn begin_comment(&mut self) -> ViewAct {
        let picked = self.picked();
        let comment = |(file, hunks): &(&FileDiff, Vec<usize>)| {
            let all = file.hunks();
            let lines = hunks.iter().filter_map(|hunk| all.get(*hunk));
            let comment = |lines: &Range<usize>| Comment {
                path: file.path.clone(),
                line: file.first_changed(lines),
                lines: file.lines[lines.clone()].to_vec(),
                text: String::new(),
            };
            lines.map(comment).collect::<Vec<Comment>>()
        };
        let comments: Vec<Comment> = picked.iter().flat_map(comment).collect();
        let place = match &comments[..] {
            [] => return ViewAct::Done,
            [Comment { path, line, .. }] => format!("{}:{line}", path.display()),
            comments => format!("{} hunks", comments.len()),
        };
        self.asked = Some(Asked::Comments(comments));
        ViewAct::Ask { title: format!("comment on {place} (Enter adds it, Esc cancels)"), text: String::new() }
    }

    /// All comments as one message to the agent.
    pub(super) fn send_comments(&mut self, core: &Core) -> ViewAct {
        if core.agent(self.agent).is_none() {
            return ViewAct::Notice("this agent has ended and gets no comments; ] shows another");
        }
        if self.comments.is_empty() {
            return ViewAct::Notice("no comments: c comments the marked hunk");
        }
        let comments = std::mem::take(&mut self.comments);
        let texts = comments.iter().map(|comment| {
            let (path, lines) = (comment.path.display(), comment.lines.join("\n"));
            let now = if self.has_hunk(comment) { "" } else { " (these lines have been changed or reverted since)" };
            format!("{path}:{}: {}{now}\n```diff\n{lines}\n```", comment.line, comment.text)
        });
        let text = format!("Comments on your changes:\n\n{}", texts.collect::<Vec<_>>().join("\n\n"));
        ViewAct::Told((self.agent, Change::Submit(text)), "sent to the agent")
    }

    /// Whether the hunk of a comment is still there, where it was or elsewhere in the file.
    fn has_hunk(&self, comment: &Comment) -> bool {
        let mut files = self.files.iter().filter(|file| file.path == comment.path);
        files.any(|file| file.hunks().into_iter().any(|hunk| body_of(&file.lines[hunk]) == body_of(&comment.lines)))
    }
}
