//! Ids of agents, messages, terminals and clients.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of an attached terminal, counted from 1 in the order of attaching, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TerminalId(pub u64);

impl fmt::Display for TerminalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "terminal {}", self.0)
    }
}

/// The number of a client of the server, counted from 1 in the order of connecting, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// The id of an agent: 16 bytes, random (UUID v4) or chosen by a program that starts it, written as 22 characters of base64url
/// without padding. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId([u8; 16]);

/// The length of a UUID with hyphens, as which ids are read too (RFC 9562).
const UUID_LENGTH: usize = 36;

/// By agent.
pub type AgentMap<T> = HashMap<AgentId, T, BuildHasherDefault<IdHasher>>;

/// Ids are random already, or numbered in a replay.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks_exact(8) {
            self.0 ^= part.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
    }

    /// Only the length of the array.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        // The golden ratio, which spreads small numbers over all bits.
        self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

thread_local! {
    /// The next id of this thread, in a replay.
    static NUMBERED: Cell<Option<u128>> = const { Cell::new(None) };
}

/// While this value exists, new ids of this thread are numbered instead of random. Agents are served in the order of their
/// ids, so that two runs of a replay are equal.
pub struct NumberedIds(());

impl NumberedIds {
    /// Begins with number 1.
    pub fn begin() -> Self {
        NUMBERED.set(Some(1));
        Self(())
    }
}

impl Drop for NumberedIds {
    fn drop(&mut self) {
        NUMBERED.set(None);
    }
}

impl AgentId {
    /// A new id. Its text never begins with a hyphen: a command line would read it as an option.
    pub fn random() -> Self {
        if let Some(number) = NUMBERED.get() {
            NUMBERED.set(Some(number + 1));
            return Self(number.to_be_bytes());
        }
        loop {
            let id = Self(*uuid::Uuid::new_v4().as_bytes());
            if !id.to_string().starts_with('-') {
                return id;
            }
        }
    }

    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The id as a UUID, which is read as the same id.
    pub fn to_uuid(&self) -> String {
        uuid::Uuid::from_bytes(self.0).to_string()
    }

    /// The first 6 characters, for display.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(6);
        text
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentId({self})")
    }
}

impl FromStr for AgentId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if let (UUID_LENGTH, Ok(id)) = (text.len(), uuid::Uuid::parse_str(text)) {
            return Ok(Self(id.into_bytes()));
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidId)?;
        Ok(Self(bytes.try_into().map_err(|_| InvalidId)?))
    }
}

impl Serialize for AgentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AgentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|_| serde::de::Error::custom("malformed agent id"))
    }
}

/// The text is neither 22 characters of base64url nor a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidId;

/// The id of a message, in the order of all messages of all agents. Never reused; 0 is before the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MessageId(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_22_characters_and_reads_back() {
        for _ in 0..1_000 {
            let text = AgentId::random().to_string();
            assert_eq!(text.len(), 22);
            assert!(!text.starts_with('-'), "{text}");
            assert_eq!(text.parse::<AgentId>().map(|id| id.to_string()), Ok(text));
        }
    }

    #[test]
    fn invalid_ids_are_refused() {
        for text in ["", "abc", "====", "ÄÖÜ", &"A".repeat(23)] {
            assert_eq!(text.parse::<AgentId>(), Err(InvalidId), "{text:?}");
        }
    }
}
