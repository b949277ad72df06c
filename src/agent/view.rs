//! The scrollback and the drafts of one agent. They are updated whether or not a terminal shows the agent, so that
//! switching to it costs nothing.

mod aside;
mod outcome;
mod stored;

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::clock::{Moment, time_of_day};
use crate::base::id::MessageId;
use crate::base::text;
use crate::domain::chunk::Chunk;
use crate::domain::drafts::Drafts;
use crate::domain::message::{Body, Message, TEAM_RESULT, is_report, replaced_mark};
use crate::domain::scrollback::{LineKind, Scrollback};
use crate::domain::stream::Usage;
use crate::domain::todo::Todo;
use crate::domain::tool::ToolResult;
pub use aside::Aside;
use aside::Asides;
use outcome::{FileCall, TODO, outcome};

/// Whose words were shown last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Person,
    /// Polylogue itself, to the model.
    Program,
    Agent,
}

/// What is shown about a turn when it ends.
struct Turn {
    started: Moment,
    now: Moment,
    /// When it started, in milliseconds since 1970.
    unix_ms: i64,
    used: Used,
    thinks_since: Option<Moment>,
    file_calls: Vec<FileCall>,
}

impl Turn {
    fn unix_now(&self) -> i64 {
        self.unix_ms + i64::try_from((self.now - self.started).as_millis()).unwrap_or(0)
    }
}

#[derive(Default)]
pub struct View {
    pub scrollback: Scrollback,
    pub drafts: Drafts,
    /// A shell command of the person runs.
    pub has_command: bool,
    /// A message of the person waits for resources of MCP servers.
    pub is_reading: bool,
    /// The newest list of tasks of the model; `None` if it is not known.
    todo: Option<Todo>,
    speaker: Option<Speaker>,
    turn: Option<Box<Turn>>,
    oldest: Option<MessageId>,
    /// The newest stored message.
    newest: Option<MessageId>,
    notes: VecDeque<Note>,
    asides: Asides,
    /// All stored messages are in the scrollback.
    is_whole: bool,
    was_shown: bool,
    is_spinning: bool,
    revision: u64,
    streamed: u64,
}

/// A note that is not stored.
struct Note {
    /// The message that it follows.
    behind: Option<MessageId>,
    kind: LineKind,
    text: String,
    /// It is not in the scrollback, because all lines were forgotten.
    is_missing: bool,
}

/// The newest notes that are kept, and how many bytes they may have together.
const NOTES: usize = 100;
const NOTE_BYTES: usize = 1 << 20;

impl View {
    /// Whether it was shown since the program started.
    pub fn was_shown(&self) -> bool {
        self.was_shown
    }

    /// Called when it is first shown.
    pub fn show_first(&mut self) {
        self.was_shown = true;
        self.touch();
    }

    /// Whether no message is shown, not even an inherited one.
    pub fn is_empty(&self) -> bool {
        self.is_whole && self.newest.is_none() && self.speaker.is_none() && self.turn.is_none()
    }

    /// A number that changes with every visible change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many of the changes were pieces of streamed text; not each of them needs a frame.
    pub fn streamed(&self) -> u64 {
        self.streamed
    }

    pub fn touch(&mut self) {
        self.revision += 1;
    }

    pub fn is_spinning(&self) -> bool {
        self.is_spinning
    }

    pub fn set_spinner(&mut self, is_spinning: bool) {
        self.is_spinning = is_spinning;
        self.touch();
    }

    /// The notes put above replies after the first `seen`, oldest first.
    pub fn asides_after(&self, seen: u64) -> impl DoubleEndedIterator<Item = &Aside> {
        self.asides.after(seen)
    }

    /// How many notes were put above replies so far.
    pub fn asides_count(&self) -> u64 {
        self.asides.count()
    }

    /// Unfolds what is folded, or folds it again.
    pub fn toggle_folds(&mut self) {
        self.scrollback.toggle_folds();
        self.touch();
    }

    /// Forgets all lines: the stored messages are read again, with replies as they were written or drawn.
    pub fn toggle_raw(&mut self) {
        self.empty(!self.scrollback.is_raw());
    }

    /// Forgets all lines: the stored messages are read again.
    pub fn forget_lines(&mut self) {
        self.empty(self.scrollback.is_raw());
    }

    fn empty(&mut self, is_raw: bool) {
        self.scrollback = self.scrollback.without_lines(is_raw);
        (self.oldest, self.is_whole, self.speaker) = (None, false, None);
        self.notes.iter_mut().for_each(|note| note.is_missing = true);
        self.asides.forget();
        self.touch();
    }

    fn push(&mut self, kind: LineKind, text: &str) {
        self.scrollback.push(kind, text);
        self.touch();
    }

    /// Ends the open block.
    pub(super) fn close(&mut self) {
        self.scrollback.close();
        self.touch();
    }

    /// A turn begins: the moment, and the same in milliseconds since 1970.
    pub(super) fn begin_turn(&mut self, now: Moment, unix_ms: i64) {
        self.turn = Some(Box::new(Turn {
            started: now,
            now,
            unix_ms,
            used: Used::default(),
            thinks_since: None,
            file_calls: Vec::new(),
        }));
    }

    /// Sets the time of what follows.
    pub(super) fn set_time(&mut self, now: Moment) {
        self.turn.iter_mut().for_each(|turn| turn.now = now);
    }

    /// The turn is over: how long it took and what it used.
    pub(super) fn end_turn(&mut self) {
        self.close();
        self.scrollback.forget_calls();
        if let Some(turn) = self.turn.take().filter(|_| self.speaker == Some(Speaker::Agent)) {
            self.push(LineKind::TurnEnd, &turn_end(Some(turn.now - turn.started), turn.used, turn.unix_now()));
        }
        self.speaker = None;
    }

    /// Shows a chunk. One that is not part of the streamed reply (`is_aside`) goes above it. `name` is the name of the agent
    /// and of its model.
    pub(super) fn on_chunk(&mut self, chunk: &Chunk, is_aside: bool, name: impl FnOnce() -> (String, String)) {
        self.touch();
        self.streamed += u64::from(matches!(chunk, Chunk::Text(_) | Chunk::Thinking(_)));
        let time = self.turn.as_ref().map(|turn| turn.unix_now());
        self.speaker = speak(&mut self.scrollback, self.speaker, chunk, time, name);
        match (chunk, self.turn.as_mut()) {
            (Chunk::Thinking(text), turn) => {
                let elapsed = turn.map(|turn| turn.now - *turn.thinks_since.get_or_insert(turn.now));
                self.scrollback.extend_thinking(text, elapsed);
                return;
            }
            (Chunk::ToolCall { id, name, arguments, .. }, Some(turn)) => {
                turn.file_calls.extend(FileCall::of(id, name, arguments));
            }
            (Chunk::ToolResult(result), Some(turn)) => {
                let file = FileCall::take(&mut turn.file_calls, &result.call_id);
                return show_result(&mut self.scrollback, result, file.as_ref());
            }
            (Chunk::Usage(usage), Some(turn)) => turn.used.add(usage),
            (_, turn) => turn.into_iter().for_each(|turn| turn.thinks_since = None),
        }
        if let Some(aside) = show(&mut self.scrollback, chunk, is_aside) {
            self.asides.add(aside);
        }
    }

    /// The newest list of tasks of the model, as far as messages were read.
    pub fn todo(&self) -> Option<&Todo> {
        self.todo.as_ref()
    }

    /// Messages were added to the conversation.
    pub(super) fn note_todo(&mut self, messages: &[Message]) {
        self.todo = newest_todo(messages).or(self.todo.take());
    }

    /// Messages were logged; older ones than the first of them are only in the store.
    pub fn note_logged(&mut self, first: MessageId, last: MessageId) {
        self.oldest.get_or_insert(first);
        self.newest = Some(last);
    }

    /// Shows a note that is not stored, above the streamed reply.
    pub fn add_note(&mut self, kind: LineKind, text: &str) {
        self.keep_note(kind, text);
        self.touch();
        self.turn.iter_mut().for_each(|turn| turn.thinks_since = None);
        if let Some(lines) = self.scrollback.insert(kind, text) {
            self.asides.add(Aside::new(kind, text, lines));
        }
    }

    /// Keeps a note that is not stored, for when the conversation is laid out again.
    fn keep_note(&mut self, kind: LineKind, text: &str) {
        let mut bytes = text.len() + self.notes.iter().map(|note| note.text.len()).sum::<usize>();
        while self.notes.len() == NOTES || bytes > NOTE_BYTES {
            let Some(oldest) = self.notes.pop_front() else { return };
            bytes -= oldest.text.len();
        }
        self.notes.push_back(Note { behind: self.newest, kind, text: text.to_owned(), is_missing: false });
    }

    /// Before which message (`Some(None)`: before the end) older ones are to be loaded; `None` if there are none.
    pub fn load_before(&self) -> Option<Option<MessageId>> {
        (!self.is_whole).then_some(self.oldest)
    }

    /// Puts older messages of the agent of this name above all others. Fewer than `requested` means that there are no more.
    pub fn prepend(&mut self, older: &[Message], requested: usize, of: (&str, MessageId)) {
        self.is_whole = older.len() < requested;
        if let Some(first) = older.first() {
            self.oldest = Some(first.id);
        }
        if self.newest.is_none() {
            // Notes so far follow what is stored.
            self.newest = older.last().map(|last| last.id);
            self.notes.iter_mut().for_each(|note| note.behind = self.newest);
        }
        self.todo = self.todo.take().or_else(|| newest_todo(older));
        let mut front = self.scrollback.without_lines(self.scrollback.is_raw());
        if self.is_whole {
            stored::add_missing(&mut front, &mut self.notes, None);
        }
        let next = self.scrollback.begins_with();
        self.scrollback.prepend(stored::lines_of(front, older, &mut self.notes, of, next));
        self.touch();
    }
}

/// The list of tasks after these messages, if they contain one. Removing that part of the conversation removes the
/// list.
fn newest_todo(messages: &[Message]) -> Option<Todo> {
    messages.iter().rev().find_map(|message| match &message.body {
        Body::ToolResult(result) if result.name == TODO && !result.is_error => Some(Todo::parse(&result.content)),
        Body::Clear | Body::Rewind(_) => Some(Todo::default()),
        _ => None,
    })
}

/// Shows who speaks, if the speaker has changed.
fn speak(
    scrollback: &mut Scrollback,
    before: Option<Speaker>,
    chunk: &Chunk,
    time: Option<i64>,
    name: impl FnOnce() -> (String, String),
) -> Option<Speaker> {
    let speaker = match chunk {
        Chunk::User(text) if is_report(text) => Speaker::Program,
        Chunk::User(_) => Speaker::Person,
        Chunk::Text(text) | Chunk::Thinking(text) if text.trim().is_empty() => return before,
        Chunk::Text(_) | Chunk::Thinking(_) | Chunk::ToolCall { .. } => Speaker::Agent,
        _ => return before,
    };
    if before == Some(speaker) {
        return before;
    }
    let time = time.map(time_of_day).unwrap_or_default();
    match speaker {
        Speaker::Person => scrollback.push_line(LineKind::PersonName, "you", &format!("  {time}")),
        Speaker::Program => scrollback.push_line(LineKind::PersonName, "polylogue", &format!("  {time}")),
        Speaker::Agent => {
            let (name, model) = name();
            scrollback.push_line(LineKind::AgentName, &name, &format!("{model}  {time}"));
        }
    }
    Some(speaker)
}

/// The parts of the result of a team task: what became of it, and the answer, which a model wrote.
fn team_answer(text: &str) -> Option<(&str, &str)> {
    let (about, answer) = text.strip_prefix(TEAM_RESULT).and_then(|_| text.split_once("\n\n"))?;
    about.lines().skip(1).all(|line| line.starts_with("- ")).then_some((about, answer))
}

/// Adds a chunk to the scrollback, if it is shown there. Returns a note that was put above a reply.
fn show(scrollback: &mut Scrollback, chunk: &Chunk, is_aside: bool) -> Option<Aside> {
    let replaced;
    let (kind, text) = match chunk {
        Chunk::Text(text) => (LineKind::Assistant, text),
        Chunk::Thinking(text) => (LineKind::Thinking, text),
        Chunk::ToolCall { id, title, .. } => {
            scrollback.begin_call(id, title);
            return None;
        }
        Chunk::ToolResult(result) => {
            show_result(scrollback, result, None);
            return None;
        }
        Chunk::User(text) => (LineKind::Person, text),
        Chunk::Note(text) => (LineKind::Note, text),
        Chunk::Mark(text) => (LineKind::Mark, text),
        Chunk::Replaced(why) => {
            replaced = replaced_mark(why);
            (LineKind::Mark, &replaced)
        }
        Chunk::Error { message, .. } => (LineKind::Error, message),
        // These are shown elsewhere on the screen.
        Chunk::Question { .. } | Chunk::Status(_) | Chunk::Usage(_) | Chunk::Finish { .. } | Chunk::Mail { .. } => {
            return None;
        }
    };
    if kind == LineKind::Note
        && let Some((about, answer)) = team_answer(text)
    {
        scrollback.push(kind, about);
        scrollback.push(LineKind::Assistant, answer);
        return None;
    }
    match kind {
        LineKind::Assistant => scrollback.extend(kind, text),
        LineKind::Thinking => scrollback.extend_thinking(text, None),
        LineKind::Person => scrollback.push_message(text),
        _ if is_aside => return scrollback.insert(kind, text).map(|lines| Aside::new(kind, text, lines)),
        _ => scrollback.push(kind, text),
    }
    None
}

fn show_result(scrollback: &mut Scrollback, result: &ToolResult, file: Option<&FileCall>) {
    scrollback.end_call(&result.call_id, &result.name, &outcome(result, file));
}

/// What the requests of a turn used.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    tokens: u64,
    cost: u64,
    /// The cost of some of them is not known.
    is_partial: bool,
}

impl Used {
    fn add(&mut self, usage: &Usage) {
        self.tokens = self.tokens.saturating_add(usage.tokens());
        self.cost = self.cost.saturating_add(usage.cost.unwrap_or_default());
        self.is_partial |= usage.cost.is_none();
    }

    fn cost(self) -> Option<String> {
        let at_least = if self.is_partial { "at least " } else { "" };
        (self.cost > 0).then(|| format!("{at_least}${}", text::dollars(self.cost)))
    }
}

/// `12 s, 3,210 tokens, $0.012, 09:12`.
fn turn_end(duration: Option<Duration>, used: Used, unix_ms: i64) -> String {
    let duration = duration.map(|duration| match duration.as_secs() {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    });
    let tokens = (used.tokens > 0).then(|| format!("{} tokens", text::with_commas(used.tokens)));
    let parts: Vec<String> =
        duration.into_iter().chain(tokens).chain(used.cost()).chain([time_of_day(unix_ms)]).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::scrollback::Reader;

    #[test]
    fn the_answer_of_a_team_is_drawn_as_what_a_model_writes() {
        let shown = |text: &str| -> Vec<(LineKind, String)> {
            let mut scrollback = Scrollback::default();
            show(&mut scrollback, &Chunk::Note(text.into()), false);
            let rows = scrollback.visible(Reader::End, 60, 20).into_iter().filter(|row| !row.text.is_empty());
            rows.map(|row| (row.kind, row.text)).collect()
        };
        let note = |text: &str| (LineKind::Note, text.to_owned());
        let whole = shown("team r1: 2 of 2 members answered in 1.0 s, 9 tokens\n- task: why\n\n# Because\n\nof **it**");
        assert_eq!(whole[..2], [note("team r1: 2 of 2 members answered in 1.0 s, 9 tokens"), note("- task: why")]);
        assert_eq!(whole[2..], [(LineKind::Assistant, "Because".into()), (LineKind::Assistant, "of it".into())]);
        assert_eq!(shown("team work\nis all\n\n**that** counts").last(), Some(&note("**that** counts")));
    }
}
