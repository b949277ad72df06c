//! Identifiers of agents, messages, terminals and clients.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Names one attached terminal. Counted from 1 in the order of attaching, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TerminalId(pub u64);

impl fmt::Display for TerminalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "terminal {}", self.0)
    }
}

/// Names one client of the server. Counted from 1 in the order of connecting, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// Names one agent for ever: 16 random bytes (UUID v4), written as 22 characters of base64url without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId([u8; 16]);

impl AgentId {
    /// A fresh identifier.
    pub fn random() -> Self {
        Self(*uuid::Uuid::new_v4().as_bytes())
    }

    /// An identifier with known bytes, for tests and for reading what was stored.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The first 6 characters: enough to tell agents apart on a screen.
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

/// The text is not 22 characters of base64url.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidId;

/// The position of a message in the order of all messages of all agents. Grows, is never reused; 0 is before everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MessageId(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_22_characters_and_reads_back() {
        for _ in 0..100 {
            let id = AgentId::random();
            assert_eq!(id.to_string().len(), 22);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "abc", "====", "ÄÖÜ", &"A".repeat(23)] {
            assert_eq!(text.parse::<AgentId>(), Err(InvalidId), "{text:?}");
        }
    }
}
