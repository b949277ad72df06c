//! Mail between agents. A message enters a conversation only when its recipient reads it.

use crate::base::id::AgentId;

/// The id of a mail message. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct MailId(pub i64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub id: MailId,
    pub from: AgentId,
    pub body: String,
    /// Milliseconds since 1970.
    pub created_at: i64,
    pub is_read: bool,
}

/// The longest message, in bytes.
pub const LONGEST: usize = 1 << 20;
