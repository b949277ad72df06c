//! Letters between agents. Nothing of them enters a conversation until the addressee reads them.

use crate::base::id::AgentId;

/// Names one letter; grows, is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct MailId(pub i64);

/// One letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// Its name.
    pub id: MailId,
    /// Who wrote it.
    pub from: AgentId,
    /// What it says, byte for byte.
    pub body: String,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// The addressee has read it.
    pub is_read: bool,
}

/// The longest letter, in bytes.
pub const LONGEST: usize = 1 << 20;
