//! Hunks that Space has marked, and what is done with them: all at once, in all files.

use std::ops::Range;
use std::path::PathBuf;

use super::view::ReviewView;
use crate::domain::change::{Change, FileJob};
use crate::domain::diff::{FileDiff, FileHunks, hunk};
use crate::repl::terminals::views::ViewAct;

impl ReviewView {
    /// The mark of a hunk that may have moved; `None` if it has changed.
    pub(super) fn mark_again(&self, (path, lines): (PathBuf, Vec<String>)) -> Option<(PathBuf, Vec<String>)> {
        let file = self.files.iter().find(|file| file.path == path)?;
        let hunks: Vec<&[String]> = file.hunks().into_iter().map(|hunk| &file.lines[hunk]).collect();
        let mut moved = hunks.iter().filter(|hunk| body_of(hunk) == body_of(&lines));
        let found = match hunks.iter().any(|hunk| **hunk == lines[..]) {
            true => return Some((path, lines)),
            false => moved.next().filter(|_| moved.next().is_none())?,
        };
        Some((path, found.to_vec()))
    }

    /// Whether Space has marked this hunk.
    pub fn is_marked(&self, file: &FileDiff, hunk: &Range<usize>) -> bool {
        self.marked.iter().any(|(path, lines)| *path == file.path && file.lines[hunk.clone()] == lines[..])
    }

    /// Marks the hunk, or takes the mark away, and goes to the next one.
    pub(super) fn mark_hunk(&mut self) {
        let Some(hunk) = self.hunks().get(self.hunk).cloned() else { return };
        self.mark(&[hunk]);
        self.next_hunk();
    }

    /// Marks hunks of the file; if all of them are, takes the marks away.
    pub(super) fn mark(&mut self, hunks: &[Range<usize>]) {
        let Some(file) = self.file() else { return };
        let is_all = hunks.iter().all(|hunk| self.is_marked(file, hunk));
        let picked: Vec<_> = hunks.iter().map(|hunk| (file.path.clone(), file.lines[hunk.clone()].to_vec())).collect();
        self.marked.retain(|marked| !picked.contains(marked));
        if !is_all {
            self.marked.extend(picked);
        }
    }

    /// The files with the hunks that `x` and `c` are about: the marked ones, or the one at which the view is.
    pub(super) fn picked(&self) -> Vec<(&FileDiff, Vec<usize>)> {
        if self.marked.is_empty() {
            let here = self.file().filter(|file| !file.lines.is_empty());
            return here.map(|file| (file, vec![self.hunk])).into_iter().collect();
        }
        let marked = |file: &FileDiff| {
            let hunks = file.hunks().into_iter().enumerate();
            hunks.filter(|(_, hunk)| self.is_marked(file, hunk)).map(|(at, _)| at).collect::<Vec<usize>>()
        };
        self.files.iter().map(|file| (file, marked(file))).filter(|(_, hunks)| !hunks.is_empty()).collect()
    }

    pub(super) fn revert_hunks(&self) -> ViewAct {
        let picked = self.picked();
        if picked.is_empty() {
            return ViewAct::Notice("this file has no hunk to revert; J and K show other files");
        }
        if self.drawn.get() != self.revision {
            return ViewAct::Notice("the changes were read again: look at the hunk, then press x");
        }
        let root = self.changes.as_ref().and_then(|changes| changes.as_ref().ok()?.root.clone());
        let root = root.unwrap_or_default();
        let hunks = picked.into_iter().map(|(file, hunks)| FileHunks {
            path: root.join(&file.path),
            file: file.clone(),
            hunks,
        });
        let change = FileJob::RevertHunks { agent: self.agent, hunks: hunks.collect() };
        ViewAct::Changes(vec![(self.agent, Change::Files(change))])
    }
}

/// The lines of a hunk, without the one that says where it is.
pub(super) fn body_of(lines: &[String]) -> &[String] {
    let has_place = lines.first().is_some_and(|line| hunk(line).is_some());
    &lines[usize::from(has_place)..]
}
