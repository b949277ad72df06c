//! The numbered chunks that an agent has produced and received. Viewers read them by number; a chunk is stored here before
//! it is shown anywhere.

use crate::agent::Agent;
use crate::base::id::MessageId;
use crate::base::ring::{Limits, Ring};
use crate::domain::chunk::Chunk;
use crate::domain::message::Message;
use crate::domain::scrollback::LineKind;

/// How much output of an agent is stored for viewers that attach later.
pub const OUTPUT_LIMITS: Limits = Limits { records: 10_000, bytes: 10_000_000 };
/// The number of the first chunk of a process; the numbers below are for older chunks, loaded from the store.
pub const FIRST_CHUNK: u64 = OUTPUT_LIMITS.records as u64;

#[derive(Debug)]
pub struct Output {
    ring: Ring,
    /// The number of the oldest chunk that was ever held.
    begin: u64,
    /// Chunks of earlier processes were loaded as far as they fit.
    is_filled: bool,
    /// The oldest message held; older ones are only in the store.
    since: Option<MessageId>,
}

impl Agent {
    /// Adds a note that is not stored, and shows it above the reply being streamed.
    pub fn emit_note(&mut self, kind: LineKind, text: &str) {
        let chunk = match kind {
            LineKind::Error => Chunk::Error { kind: "internal".into(), message: text.to_owned() },
            LineKind::Mark => Chunk::Mark(text.to_owned()),
            _ => Chunk::Note(text.to_owned()),
        };
        self.output.push(&chunk);
        self.view.add_note(kind, text);
    }
}

impl Default for Output {
    fn default() -> Self {
        Self { ring: Ring::new(OUTPUT_LIMITS, FIRST_CHUNK), begin: FIRST_CHUNK, is_filled: false, since: None }
    }
}

impl Output {
    /// The number of the oldest chunk held.
    pub fn oldest(&self) -> u64 {
        self.ring.first()
    }

    /// The number of the oldest chunk that was ever held; those from here to [`Output::oldest`] were dropped.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    pub fn next(&self) -> u64 {
        self.ring.next()
    }

    /// The chunk with this number, if it is still held, and its size in bytes.
    pub fn get(&self, number: u64) -> Option<(Chunk, usize)> {
        let (tag, content) = self.ring.get(number)?;
        let length = content.len();
        Some((Chunk::decode(tag, content)?, length))
    }

    /// The chunks that are held, each with its number, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = (u64, Chunk)> {
        let numbers = (self.oldest()..self.next()).rev();
        numbers.filter_map(|number| self.get(number).map(|(chunk, _)| (number, chunk)))
    }

    /// The first line of the last reply or error; empty if there is none.
    pub fn last_line(&self) -> String {
        let mut chunks = self
            .newest()
            .map(|(_, chunk)| chunk)
            .skip_while(|chunk| !matches!(chunk, Chunk::Text(_) | Chunk::Error { .. }));
        let mut parts = match chunks.next() {
            Some(Chunk::Text(text)) => vec![text],
            Some(Chunk::Error { message, .. }) => return message,
            _ => Vec::new(),
        };
        parts.extend(chunks.map_while(|chunk| if let Chunk::Text(text) = chunk { Some(text) } else { None }));
        parts.reverse();
        let reply = parts.concat();
        reply.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
    }

    /// The message before which older ones are to be loaded (`Some(None)`: from the end); `None` if none are. Once
    /// chunks were dropped nothing older is loaded: there would be a gap that viewers cannot detect.
    pub fn load_before(&self) -> Option<Option<MessageId>> {
        (!self.is_filled && self.begin == self.ring.first()).then_some(self.since)
    }

    /// Puts older messages in front, given oldest first, as far as they fit. `is_all`: the store has no older ones.
    pub fn fill(&mut self, older: &[Message], is_all: bool) {
        let mut chunks = older.iter().rev().flat_map(|message| Chunk::of_body(&message.body).into_iter().rev());
        let is_full = chunks.any(|chunk| {
            let (tag, content) = chunk.encode();
            !self.ring.push_front(tag, &content)
        });
        self.is_filled = is_all || is_full;
        self.begin = self.ring.first();
        self.since = older.first().map(|message| message.id).or(self.since);
    }

    /// A message was logged; older ones than the first of them are only in the store.
    pub(super) fn note_oldest(&mut self, id: MessageId) {
        self.since.get_or_insert(id);
    }

    /// Appends a chunk and numbers it.
    pub(crate) fn push(&mut self, chunk: &Chunk) {
        let (tag, content) = chunk.encode();
        self.ring.push(tag, &content);
    }
}
