//! The text being typed.
//!
//! The cursor is between graphemes. A large paste is stored separately and represented in the text by one private
//! character: it is moved over, deleted and undone as one character, drawn as a marker, and expanded when sent.

mod kill_ring;
mod layout;
mod undo;
pub mod vi;

pub use layout::DraftLayout;

use std::rc::Rc;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::base::text;
use crate::domain::attachment::{references, text_files};
use kill_ring::KillRing;
use undo::{Edit, Undo};

/// A paste of more characters is folded.
const FOLD_CHARS: usize = 1_000;
/// A paste of this many lines or more is folded.
const FOLD_LINES: usize = 10;
/// Recalled text is folded only if it is too large to be drawn at every key.
const FOLD_RECALLED_BYTES: usize = 16 * 1024;

/// The first of the characters that represent pastes (supplementary private use area A).
const FIRST_MARKER: u32 = 0xf_0000;
const LAST_MARKER: u32 = 0xf_fffd;

#[derive(Debug, Clone)]
struct Paste {
    text: Rc<str>,
    /// The text drawn for it. Computed once: counting the lines of ten megabytes at every key would be slow.
    label: Rc<str>,
}

/// The text being typed.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    text: String,
    cursor: usize,
    /// The column that consecutive moves up and down try to keep.
    goal: Option<usize>,
    pastes: Vec<Paste>,
    killed: KillRing,
    undo: Undo,
    /// It is a refused command: what is typed next replaces it, unless it is edited or the cursor is moved first.
    is_refused: bool,
}

impl Draft {
    /// The text as edited: a folded paste is one private character. See [`Draft::expanded`].
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The byte offset of the cursor in [`Draft::text`].
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn expanded(&self) -> String {
        let size = self.text.chars().map(|c| self.pasted(c).map_or(c.len_utf8(), |paste| paste.text.len())).sum();
        let mut whole = String::with_capacity(size);
        for c in self.text.chars() {
            match self.pasted(c) {
                Some(paste) => whole.push_str(&paste.text),
                None => whole.push(c),
            }
        }
        whole
    }

    /// Takes the expanded text and empties the draft. Killed text stays for a later yank.
    pub fn take(&mut self) -> String {
        let whole = self.expanded();
        self.text = String::new();
        self.cursor = 0;
        self.goal = None;
        self.is_refused = false;
        self.undo = Undo::default();
        if !self.killed.contains(is_marker) {
            self.pastes = Vec::new();
        }
        whole
    }

    /// Replaces the text. The cursor moves to the end. Files are folded.
    pub fn set(&mut self, text: &str) {
        self.begin(Edit::Other);
        self.text.clear();
        self.cursor = 0;
        let files = text_files(text);
        let (mut at, typed) = (0, files.first().map_or(text.len(), |file| file.range.start));
        if typed > FOLD_RECALLED_BYTES {
            return self.insert_or_fold(text, true);
        }
        let markers = references(&text[..typed]).into_iter().map(|marker| marker.range);
        for file in markers.chain(files.into_iter().map(|file| file.range)) {
            self.insert_or_fold(&text[at..file.start], false);
            self.insert_or_fold(&text[file.clone()], true);
            at = file.end;
        }
        self.insert_or_fold(&text[at..], text.len() - at > FOLD_RECALLED_BYTES);
    }

    /// Replaces the text by a refused command, which is kept for correction but not stored.
    pub fn set_refused(&mut self, text: &str) {
        self.set(text);
        self.is_refused = true;
    }

    /// Whether it is a refused command that the next input replaces.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The part of it that is stored.
    pub fn to_store(&self) -> String {
        if self.is_refused { String::new() } else { self.expanded() }
    }

    pub fn insert(&mut self, typed: &str) {
        self.replace_refused();
        self.begin(if typed.chars().all(char::is_whitespace) { Edit::Space } else { Edit::Insert });
        self.insert_or_fold(typed, false);
    }

    /// Replaces the text from this offset to the cursor.
    pub fn replace_before_cursor(&mut self, start: usize, text: &str) {
        self.begin(Edit::Other);
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
        self.insert_or_fold(text, false);
    }

    pub fn newline(&mut self) {
        self.insert("\n");
    }

    /// Inserts pasted text at the cursor, folded if it is large.
    pub fn paste(&mut self, pasted: &str) {
        self.replace_refused();
        self.begin(Edit::Other);
        let is_large = pasted.chars().nth(FOLD_CHARS).is_some() || pasted.matches('\n').nth(FOLD_LINES - 1).is_some();
        self.insert_or_fold(pasted, is_large);
    }

    /// Inserts the marker of a file, which is shown without its digest.
    pub fn attach(&mut self, marker: &str) {
        self.replace_refused();
        self.begin(Edit::Other);
        self.insert_or_fold(marker, true);
        self.insert_or_fold(" ", false);
    }

    /// Removes a refused command, because something else is typed.
    fn replace_refused(&mut self) {
        if self.is_refused {
            self.begin(Edit::Other);
            self.text.clear();
            self.cursor = 0;
        }
    }

    fn insert_or_fold(&mut self, text: &str, fold: bool) {
        let marker = u32::try_from(self.pastes.len()).ok().and_then(|number| char::from_u32(FIRST_MARKER + number));
        // Text that contains the private characters is folded too, so that they are preserved.
        let fold = fold || text.chars().any(is_marker);
        match marker.filter(|&c| fold && is_marker(c)) {
            Some(marker) => {
                let label = layout::label(self.pastes.len() + 1, text);
                self.pastes.push(Paste { text: Rc::from(text), label: Rc::from(label) });
                self.insert_at_cursor(marker.encode_utf8(&mut [0; 4]));
            }
            None if text.chars().any(is_marker) => {
                let clean: String = text.chars().filter(|&c| !is_marker(c)).collect();
                self.insert_at_cursor(&clean);
            }
            None => self.insert_at_cursor(text),
        }
    }

    fn insert_at_cursor(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    /// Deletes the grapheme to the left. False if there is none.
    pub fn backspace(&mut self) -> bool {
        self.delete_to(before(&self.text, self.cursor), Edit::Delete)
    }

    /// Deletes the grapheme to the right. False if there is none.
    pub fn delete(&mut self) -> bool {
        self.delete_to(after(&self.text, self.cursor), Edit::Delete)
    }

    /// Moves one grapheme to the left. False at the start.
    pub fn left(&mut self) -> bool {
        self.go(before(&self.text, self.cursor))
    }

    /// Moves one grapheme to the right. False at the end.
    pub fn right(&mut self) -> bool {
        self.go(after(&self.text, self.cursor))
    }

    /// Moves to the start of the word to the left. False at the start of the text.
    pub fn word_left(&mut self) -> bool {
        self.go(word_start(&self.text[..self.cursor], is_word))
    }

    /// Moves to the end of the word to the right. False at the end of the text.
    pub fn word_right(&mut self) -> bool {
        self.go(self.cursor + word_end(&self.text[self.cursor..]))
    }

    /// Moves to the start of the line. False if the cursor is there.
    pub fn home(&mut self) -> bool {
        self.go(self.line_start())
    }

    /// Moves to the end of the line. False if the cursor is there.
    pub fn end(&mut self) -> bool {
        self.go(self.line_end())
    }

    /// Moves to the line above, close to the column. False in the first line.
    pub fn up(&mut self) -> bool {
        self.is_refused = false;
        let Some(end) = self.line_start().checked_sub(1) else { return false };
        let start = line_start(&self.text, end);
        self.go_to_line(start, end);
        true
    }

    /// Moves to the line below, close to the column. False in the last line.
    pub fn down(&mut self) -> bool {
        self.is_refused = false;
        let start = self.line_end() + 1;
        if start > self.text.len() {
            return false;
        }
        self.go_to_line(start, line_end(&self.text, start));
        true
    }

    fn go_to_line(&mut self, start: usize, end: usize) {
        let here = &self.text[self.line_start()..self.cursor];
        let goal = self.goal.unwrap_or_else(|| text::width(here));
        let reached = text::truncate(&self.text[start..end], goal).len();
        self.go(start + reached);
        self.goal = Some(goal);
    }

    /// Kills to the end of the line, or the line break if the cursor is there. False at the end of the text.
    pub fn kill_to_end(&mut self) -> bool {
        let end = self.line_end();
        self.kill_to(if end == self.cursor { after(&self.text, end) } else { end })
    }

    /// Kills to the start of the line. False if the cursor is there.
    pub fn kill_to_start(&mut self) -> bool {
        self.kill_to(self.line_start())
    }

    /// Kills back to the previous space (Ctrl+W). False at the start of the text.
    pub fn kill_word_back(&mut self) -> bool {
        self.kill_to(word_start(&self.text[..self.cursor], |c| !c.is_whitespace()))
    }

    /// Kills back to where [`Draft::word_left`] moves (Alt+Backspace). False at the start of the text.
    pub fn kill_word_left(&mut self) -> bool {
        self.kill_to(word_start(&self.text[..self.cursor], is_word))
    }

    /// Kills to the end of the word to the right (Alt+D). False at the end of the text.
    pub fn kill_word_forward(&mut self) -> bool {
        self.kill_to(self.cursor + word_end(&self.text[self.cursor..]))
    }

    /// Inserts the text killed last. False if there is none.
    pub fn yank(&mut self) -> bool {
        let Some(killed) = self.killed.newest() else { return false };
        self.yank_text(&killed, 0);
        true
    }

    /// Right after a yank: replaces what it inserted with the text killed before. False after any other key.
    pub fn yank_older(&mut self) -> bool {
        let Some((at, newer, older)) = self.killed.older() else { return false };
        self.begin(Edit::Other);
        self.text.replace_range(at.clone(), "");
        self.cursor = at.start;
        self.yank_text(&older, newer);
        true
    }

    fn yank_text(&mut self, killed: &str, newer: usize) {
        self.begin(Edit::Other);
        let start = self.cursor;
        self.insert_at_cursor(killed);
        self.killed.note_yank(start..self.cursor, newer);
    }

    /// Undoes the last group of edits: a typed word, consecutive deletions, a paste. False if there is none.
    pub fn undo(&mut self) -> bool {
        let Some(before) = self.undo.undo(&self.text, self.cursor) else { return false };
        self.restore(before)
    }

    /// Repeats what was undone last, if nothing was edited since. False otherwise.
    pub fn redo(&mut self) -> bool {
        let Some(after) = self.undo.redo(&self.text, self.cursor) else { return false };
        self.restore(after)
    }

    fn restore(&mut self, (text, cursor): (String, usize)) -> bool {
        self.text = text;
        self.cursor = cursor;
        self.goal = None;
        self.is_refused = false;
        self.killed.forget_yank();
        true
    }

    /// Consecutive kills are yanked together, in the order of the text.
    fn kill_to(&mut self, to: usize) -> bool {
        if to == self.cursor {
            return false;
        }
        if !self.undo.continues(Edit::Kill) {
            self.killed.begin();
        }
        let (start, end) = (to.min(self.cursor), to.max(self.cursor));
        self.killed.add(&self.text[start..end], to < self.cursor);
        self.delete_to(to, Edit::Kill)
    }

    /// Kills a part of the text; the cursor moves to its start.
    fn kill_range(&mut self, start: usize, end: usize) {
        self.go(start);
        self.killed.begin();
        self.killed.add(&self.text[start..end], false);
        self.delete_to(end, Edit::Other);
    }

    /// Keeps a part of the text for a yank.
    fn copy_range(&mut self, start: usize, end: usize) {
        self.killed.begin();
        self.killed.add(&self.text[start..end], false);
    }

    fn delete_to(&mut self, to: usize, edit: Edit) -> bool {
        if to == self.cursor {
            return false;
        }
        self.begin(edit);
        let (start, end) = (to.min(self.cursor), to.max(self.cursor));
        self.text.replace_range(start..end, "");
        self.cursor = start;
        true
    }

    fn go(&mut self, to: usize) -> bool {
        let moved = to != self.cursor;
        self.cursor = to;
        self.goal = None;
        self.is_refused = false;
        self.killed.forget_yank();
        self.undo.end_group();
        moved
    }

    /// Has to be called before every change of the text.
    fn begin(&mut self, edit: Edit) {
        self.goal = None;
        self.is_refused = false;
        self.killed.forget_yank();
        self.undo.before(edit, &self.text, self.cursor);
    }

    fn line_start(&self) -> usize {
        line_start(&self.text, self.cursor)
    }

    fn line_end(&self) -> usize {
        line_end(&self.text, self.cursor)
    }

    fn pasted(&self, c: char) -> Option<&Paste> {
        let number = u32::from(c).checked_sub(FIRST_MARKER)?;
        self.pastes.get(usize::try_from(number).ok()?)
    }
}

fn is_marker(c: char) -> bool {
    (FIRST_MARKER..=LAST_MARKER).contains(&u32::from(c))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || is_marker(c)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |length| at + length)
}

/// The start of the grapheme to the left. A paste is always a grapheme of its own.
fn before(text: &str, at: usize) -> usize {
    let Some(grapheme) = text[..at].graphemes(true).next_back() else { return 0 };
    let length = match grapheme.char_indices().rev().find(|&(_, c)| is_marker(c)) {
        Some((marker, c)) if marker + c.len_utf8() < grapheme.len() => grapheme.len() - marker - c.len_utf8(),
        Some((marker, _)) => grapheme.len() - marker,
        None => grapheme.len(),
    };
    at - length
}

/// The end of the grapheme to the right. A paste is always a grapheme of its own.
fn after(text: &str, at: usize) -> usize {
    let Some(grapheme) = text[at..].graphemes(true).next() else { return text.len() };
    let length = match grapheme.char_indices().find(|&(_, c)| is_marker(c)) {
        Some((0, c)) => c.len_utf8(),
        Some((marker, _)) => marker,
        None => grapheme.len(),
    };
    at + length
}

fn word_start(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    let word = text.trim_end_matches(|c| !is_part(c));
    word.rfind(|c| !is_part(c)).map_or(0, |gap| gap + word[gap..].chars().next().map_or(0, char::len_utf8))
}

fn word_end(text: &str) -> usize {
    let start = text.find(is_word).unwrap_or(text.len());
    text[start..].find(|c| !is_word(c)).map_or(text.len(), |length| start + length)
}

#[cfg(test)]
mod tests;
