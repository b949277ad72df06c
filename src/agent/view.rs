//! The scrollback and the draft of one agent. They are updated whether or not a terminal shows the agent, so that
//! switching to it costs nothing.

use crate::base::id::MessageId;
use crate::domain::chunk::Chunk;
use crate::domain::draft::Draft;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::{LineKind, Scrollback};
use crate::domain::tool::ToolResult;

/// Lines of a tool's output that are shown; the model gets all of it.
const OUTPUT_LINES: usize = 8;

#[derive(Default)]
pub struct View {
    pub scrollback: Scrollback,
    pub draft: Draft,
    /// A shell command of the person runs.
    pub has_command: bool,
    /// Tokens of the last request and its reply: how full the context is.
    pub context_tokens: u64,
    oldest: Option<MessageId>,
    /// All stored messages are in the scrollback.
    is_whole: bool,
    was_shown: bool,
    is_spinning: bool,
    revision: u64,
}

impl View {
    /// Whether it was shown since the program started.
    pub fn was_shown(&self) -> bool {
        self.was_shown
    }

    /// Called when it is first shown, with the stored draft.
    pub fn show_first(&mut self, draft: &str) {
        self.was_shown = true;
        if self.draft.is_empty() {
            self.draft.set(draft);
        }
        self.touch();
    }

    /// A number that changes with every visible change.
    pub fn revision(&self) -> u64 {
        self.revision
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

    fn push(&mut self, kind: LineKind, text: &str) {
        self.scrollback.push(kind, text);
        self.touch();
    }

    /// Adds a block above the reply that is being streamed.
    fn insert(&mut self, kind: LineKind, text: &str) {
        self.scrollback.insert(kind, text);
        self.touch();
    }

    /// Appends to the open block.
    fn extend(&mut self, kind: LineKind, text: &str) {
        self.scrollback.extend(kind, text);
        self.touch();
    }

    /// Ends the open block.
    pub(super) fn close(&mut self) {
        self.scrollback.close();
        self.touch();
    }

    /// Shows a chunk. One that is not part of the streamed reply (`is_aside`) goes above it.
    pub(super) fn on_chunk(&mut self, chunk: &Chunk, is_aside: bool) {
        match chunk {
            Chunk::Text(text) => self.extend(LineKind::Assistant, text),
            Chunk::Thinking(text) => self.extend(LineKind::Thinking, text),
            _ => match line_of(chunk) {
                Some((kind, text)) if is_aside => self.insert(kind, &text),
                Some((kind, text)) => self.push(kind, &text),
                None => self.touch(),
            },
        }
    }

    /// A message was logged; older ones than the first of them are only in the store.
    pub fn note_oldest(&mut self, id: MessageId) {
        self.oldest.get_or_insert(id);
    }

    /// Before which message (`Some(None)`: before the end) older ones are to be loaded; `None` if there are none.
    pub fn wants_older_than(&self) -> Option<Option<MessageId>> {
        (!self.is_whole).then_some(self.oldest)
    }

    /// Puts older messages above all others. Fewer than `requested` means that there are no more.
    pub fn prepend(&mut self, older: &[Message], requested: usize) {
        self.is_whole = older.len() < requested;
        if let Some(first) = older.first() {
            self.oldest = Some(first.id);
        }
        self.scrollback.prepend(older.iter().flat_map(|message| lines_of(&message.body)).collect());
        self.touch();
    }
}

fn lines_of(body: &Body) -> Vec<(LineKind, String)> {
    Chunk::of_body(body).iter().filter_map(line_of).collect()
}

/// A chunk as a block of the scrollback, if it is shown there.
fn line_of(chunk: &Chunk) -> Option<(LineKind, String)> {
    match chunk {
        Chunk::User(text) => Some((LineKind::Person, text.clone())),
        Chunk::Text(text) => Some((LineKind::Assistant, text.clone())),
        Chunk::Thinking(text) => Some((LineKind::Thinking, text.clone())),
        Chunk::ToolCall { title, .. } => Some((LineKind::ToolCall, title.clone())),
        Chunk::ToolResult(result) => Some((LineKind::ToolOutput, summary(result))),
        Chunk::Note(text) => Some((LineKind::Note, text.clone())),
        Chunk::Mark(text) => Some((LineKind::Mark, text.clone())),
        Chunk::Error { message, .. } => Some((LineKind::Error, message.clone())),
        // These are shown elsewhere on the screen.
        Chunk::Question { .. } | Chunk::Status(_) | Chunk::Usage(_) | Chunk::Finish { .. } | Chunk::Mail { .. } => None,
    }
}

fn summary(result: &ToolResult) -> String {
    let mut lines: Vec<&str> = result.content.trim_end().lines().collect();
    let hidden = lines.len().saturating_sub(OUTPUT_LINES);
    if hidden > 1 {
        lines.truncate(OUTPUT_LINES);
    }
    let mut text = lines.join("\n");
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if hidden > 1 {
        text.push_str(&format!("\n… {hidden} more lines"));
    }
    if result.duration.as_millis() >= 1000 {
        text.push_str(&format!("\n({:.1} s)", result.duration.as_secs_f64()));
    }
    text
}
