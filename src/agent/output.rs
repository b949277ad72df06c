//! What an agent has produced and received, numbered, for whoever looks: the ring and nothing of who reads it. A chunk is in
//! here before anybody sees it.

use crate::base::id::MessageId;
use crate::base::ring::{Limits, Ring};
use crate::domain::chunk::Chunk;
use crate::domain::message::Message;

/// What an agent keeps for those who look later.
pub const OUTPUT_LIMITS: Limits = Limits { records: 10_000, bytes: 10_000_000 };
/// The number of the first chunk of a process. So many older ones fit before it: those that only the store has.
pub const FIRST_CHUNK: u64 = OUTPUT_LIMITS.records as u64;

/// One agent's chunks.
#[derive(Debug)]
pub struct Output {
    ring: Ring,
    /// The number of the oldest chunk that was ever in here.
    begin: u64,
    /// What the store has of the time before this process stands in front, as far as it fits.
    is_filled: bool,
    /// The first message of this process: what is older is only in the store.
    since: Option<MessageId>,
}

impl Default for Output {
    fn default() -> Self {
        Self { ring: Ring::new(OUTPUT_LIMITS, FIRST_CHUNK), begin: FIRST_CHUNK, is_filled: false, since: None }
    }
}

impl Output {
    /// The number of the oldest chunk that is kept.
    pub fn oldest(&self) -> u64 {
        self.ring.first()
    }

    /// The number of the oldest chunk that was ever kept: those from here to the oldest were dropped.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// The number that the next chunk will have.
    pub fn next(&self) -> u64 {
        self.ring.next()
    }

    /// The chunk with this number, if it is still there, and how many bytes it takes.
    pub fn get(&self, number: u64) -> Option<(Chunk, usize)> {
        let (tag, content) = self.ring.get(number)?;
        let length = content.len();
        Some((Chunk::decode(tag, content)?, length))
    }

    /// Before which message (`None`: before the end) stored ones are to be put in front; `None` when none are. Where
    /// something was dropped already, what is older than that is past: it would follow a gap that nobody could tell.
    pub fn wants_older_than(&self) -> Option<Option<MessageId>> {
        (!self.is_filled && self.begin == self.ring.first()).then_some(self.since)
    }

    /// Puts the messages before these in front, given from old to new; the newest that fit. `is_all`: there are no older
    /// ones.
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

    /// A message became part of the log while the agent was in memory.
    pub(super) fn note_oldest(&mut self, id: MessageId) {
        self.since.get_or_insert(id);
    }

    /// Adds a chunk: it has its number from now on.
    pub(crate) fn push(&mut self, chunk: &Chunk) {
        let (tag, content) = chunk.encode();
        self.ring.push(tag, &content);
    }
}
