//! What a person is shown of one agent, and what they have typed to it. It is kept whether or not anybody looks:
//! bringing an agent to a screen is a change of pointer.

use crate::base::id::MessageId;
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

    /// Puts the whole text of a question into the scrollback, unless it stands there already. Whether it was put there.
    pub fn spell_out(&mut self, question: u64, detail: &[String]) -> bool {
        if self.spelled_out.replace(question) == Some(question) {
            return false;
        }
        self.push(LineKind::ToolOutput, &detail.join("\n"));
        true
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
    pub fn push(&mut self, kind: LineKind, text: &str) {
        self.scrollback.push(kind, text);
        self.touch();
    }

    /// Adds a whole block that is no part of the conversation: above a reply that is being written, never in it.
    pub fn insert(&mut self, kind: LineKind, text: &str) {
        self.scrollback.insert(kind, text);
        self.touch();
    }

    /// Adds to the block that is being written.
    pub fn extend(&mut self, kind: LineKind, text: &str) {
        self.scrollback.extend(kind, text);
        self.touch();
    }

    /// The block that was being written is whole.
    pub fn close(&mut self) {
        self.scrollback.close();
        self.touch();
    }

    /// Adds a message as it happens: above a reply that is being written, as in the log.
    pub fn show(&mut self, body: &Body) {
        for (kind, text) in lines_of(body) {
            self.insert(kind, &text);
        }
    }

    /// Adds what a tool answered, shortened.
    pub fn show_result(&mut self, result: &ToolResult) {
        self.push(LineKind::ToolOutput, &summary(result));
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
    match body {
        Body::System(text) => vec![(LineKind::Note, text.clone())],
        Body::User(text) => vec![(LineKind::Person, text.clone())],
        Body::Assistant(reply) => [(LineKind::Thinking, &reply.thinking), (LineKind::Assistant, &reply.text)]
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(kind, text)| (kind, text.clone()))
            .collect(),
        Body::ToolCall(call) => vec![(LineKind::ToolCall, title_of(&call.name, &call.arguments))],
        Body::ToolResult(result) => vec![(LineKind::ToolOutput, summary(result))],
        Body::Clear => vec![(LineKind::Mark, "cleared: what is above is no longer told to the model".into())],
        Body::Mark(label) => vec![(LineKind::Mark, format!("mark {label}"))],
        Body::Rewind(_) => vec![(LineKind::Mark, "rewound".into())],
        // In a parent's log the id is the child's, in a child's log the parent's.
        Body::Fork(other) => vec![(LineKind::Mark, format!("fork, {}", other.get(..6).unwrap_or(other)))],
        Body::Interrupted(why) => vec![(LineKind::Mark, why.clone())],
        Body::AgentKilled => vec![(LineKind::Mark, "killed".into())],
        Body::Command(text) => vec![(LineKind::Note, text.clone())],
        Body::Usage(_) => Vec::new(),
        Body::Error(words) => vec![(LineKind::Error, words.clone())],
    }
}

/// A stored call in one line: the tool checks and words live calls, but an old call may name a tool that is gone.
fn title_of(name: &str, arguments: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    let main = ["command", "path"].iter().find_map(|key| value.get(key)?.as_str());
    format!("{name}: {}", main.unwrap_or(arguments))
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
