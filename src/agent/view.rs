//! What a person is shown of one agent, and what they have typed to it. It is kept whether or not anybody looks:
//! bringing an agent to a screen is a change of pointer.

use crate::base::id::MessageId;
use crate::domain::chunk::Chunk;
use crate::domain::draft::Draft;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::{LineKind, Scrollback};
use crate::domain::tool::ToolResult;

/// Lines of a tool's output that are shown; the model is told all of it.
const OUTPUT_LINES: usize = 8;

/// One agent's face.
#[derive(Default)]
pub struct View {
    /// The conversation as text.
    pub scrollback: Scrollback,
    /// What is being typed.
    pub draft: Draft,
    /// Tokens of the last request and its reply: how full the model's context is.
    pub context_tokens: u64,
    /// Older messages than this one are not in the scrollback yet.
    oldest: Option<MessageId>,
    /// Everything that is stored is in the scrollback.
    is_whole: bool,
    was_shown: bool,
    /// The question whose whole text stands in the scrollback.
    spelled_out: Option<u64>,
    is_spinning: bool,
    revision: u64,
}

impl View {
    /// Whether it was on a screen since the program began.
    pub fn was_shown(&self) -> bool {
        self.was_shown
    }

    /// It comes to a screen for the first time, with what was typed before the program ended.
    pub fn show_first(&mut self, typed: &str) {
        self.was_shown = true;
        if self.draft.is_empty() {
            self.draft.set(typed);
        }
        self.touch();
    }

    /// Whether the whole text of a question stands in the scrollback.
    pub fn shows_question_detail(&self, question: u64) -> bool {
        self.spelled_out == Some(question)
    }

    /// Puts the whole text of a question into the scrollback.
    pub fn show_question_detail(&mut self, question: u64, detail: &[String]) {
        self.spelled_out = Some(question);
        self.push(LineKind::ToolOutput, &detail.join("\n"));
    }

    /// A number that changes with everything that could be seen.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Something that can be seen has changed.
    pub fn touch(&mut self) {
        self.revision += 1;
    }

    /// Whether the agent is at work and a person should see that.
    pub fn is_spinning(&self) -> bool {
        self.is_spinning
    }

    /// Shows or hides the sign of work.
    pub fn set_spinner(&mut self, is_spinning: bool) {
        self.is_spinning = is_spinning;
        self.touch();
    }

    /// Adds a whole block.
    fn push(&mut self, kind: LineKind, text: &str) {
        self.scrollback.push(kind, text);
        self.touch();
    }

    /// Adds a whole block that is no part of the conversation: above a reply that is being written, never in it.
    fn insert(&mut self, kind: LineKind, text: &str) {
        self.scrollback.insert(kind, text);
        self.touch();
    }

    /// Adds to the block that is being written.
    fn extend(&mut self, kind: LineKind, text: &str) {
        self.scrollback.extend(kind, text);
        self.touch();
    }

    /// The block that was being written is whole.
    pub(super) fn close(&mut self) {
        self.scrollback.close();
        self.touch();
    }

    /// Shows what happened. What happens beside the reply that is being written stands above it, never in it.
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

    /// A message became part of the log while the agent was in memory: what is older is in the store.
    pub fn note_oldest(&mut self, id: MessageId) {
        self.oldest.get_or_insert(id);
    }

    /// From where older messages are to be read; `None` when there are none.
    pub fn wants_older_than(&self) -> Option<Option<MessageId>> {
        (!self.is_whole).then_some(self.oldest)
    }

    /// Puts older messages above all others. Fewer than `asked` means that there are no more.
    pub fn prepend(&mut self, older: &[Message], asked: usize) {
        self.is_whole = older.len() < asked;
        if let Some(first) = older.first() {
            self.oldest = Some(first.id);
        }
        self.scrollback.prepend(older.iter().flat_map(|message| lines_of(&message.body)).collect());
        self.touch();
    }
}

/// A message as a person reads it.
fn lines_of(body: &Body) -> Vec<(LineKind, String)> {
    Chunk::of_body(body).iter().filter_map(line_of).collect()
}

/// A chunk as a person reads it, if there is anything to read.
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
        // A question, a state and a letter stand elsewhere on the screen.
        Chunk::Question { .. } | Chunk::Status(_) | Chunk::Usage(_) | Chunk::Mail { .. } => None,
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
