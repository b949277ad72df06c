//! The conversations that a person can resume, and their titles.

use rusqlite::{OptionalExtension as _, Row, params};

use super::database::Store;
use super::numbers::NUMBERED;
use super::row;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::called::label;

/// The newest agents, among which conversations are searched.
const MAX_AGENTS: usize = 20_000;

/// A conversation in a list to choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub agent: AgentId,
    /// The number by which people call it, if it has one.
    pub number: Option<i64>,
    pub name: Option<String>,
    /// The title, or else the beginning of what the user said first.
    pub said: String,
    /// The time of the last message, in milliseconds since 1970.
    pub last_at: i64,
    /// Where the agent works; `None`: where the program was started.
    pub directory: Option<String>,
    /// `provider/model`.
    pub endpoint: Option<String>,
    pub is_archived: bool,
    /// It was made for one `--print` run.
    pub is_print_run: bool,
    /// What its requests have cost, in billionths of a dollar, where prices are known.
    pub cost: Option<u64>,
}

impl Conversation {
    pub fn label(&self) -> String {
        label(self.name.as_deref(), self.number, self.agent)
    }
}

impl Store {
    /// The conversations that a person can resume, archived ones too, the most recently used one first. Conversations
    /// without messages and archived members of teams are left out.
    pub(crate) fn conversations(&self) -> Result<Vec<Conversation>> {
        let sql = format!(
            "SELECT uuid, iif({NUMBERED}, number, NULL), name,
                coalesce(title, said, ''),
                coalesce((SELECT created_at FROM messages WHERE agent = ordinal ORDER BY id DESC LIMIT 1), created_at) AS at,
                directory, endpoint, archived_at IS NOT NULL, is_print_run, used_cost
            FROM (SELECT * FROM agents WHERE status = 'running' AND (run IS NULL OR archived_at IS NULL)
                ORDER BY ordinal DESC LIMIT ?1)
            WHERE name IS NOT NULL OR coalesce(fork_message_id, 0) > 0
                OR EXISTS (SELECT 1 FROM messages WHERE agent = ordinal AND kind NOT IN ('clear', 'fork'))
                OR EXISTS (SELECT 1 FROM queue WHERE agent = ordinal)
                OR EXISTS (SELECT 1 FROM drafts WHERE agent = ordinal AND content <> '')
            ORDER BY at DESC, ordinal DESC"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        // A damaged row has no conversation to resume; the start says which it is.
        let found =
            statement.query_map([i64::try_from(MAX_AGENTS).unwrap_or(i64::MAX)], |row| Ok(conversation(row).ok()))?;
        Ok(found.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// The beginnings of the first messages of the user and of the model, if the conversation has no others and no
    /// title.
    pub(crate) fn untitled_exchange(&self, agent: AgentId) -> Result<Option<(String, String)>> {
        let of_kind = |kind: &str| {
            format!(
                "(SELECT substr(content, 1, 2000) FROM messages
            WHERE agent = ordinal AND kind = '{kind}' AND content <> '' ORDER BY id DESC LIMIT 1)"
            )
        };
        let sql = format!(
            "SELECT {}, {} FROM agents WHERE uuid = ?1 AND title IS NULL
                AND (SELECT count(*) FROM (SELECT 1 FROM messages WHERE agent = ordinal AND kind = 'user' LIMIT 2)) = 1",
            of_kind("user"),
            of_kind("assistant")
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        Ok(statement.query_row([agent], |row| Ok((row::text(row, 0)?, row::text(row, 1)?))).optional()?)
    }

    /// Sets the title of a conversation.
    pub(crate) fn set_title(&self, agent: AgentId, title: &str) -> Result<()> {
        let sql = "UPDATE agents SET title = ?2 WHERE uuid = ?1 AND status = 'running'";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute(params![agent, title]).map(drop)?))
    }
}

fn conversation(row: &Row) -> rusqlite::Result<Conversation> {
    let cost: Option<i64> = row.get(9)?;
    Ok(Conversation {
        agent: row.get(0)?,
        number: row.get(1)?,
        name: row.get(2)?,
        said: row::text(row, 3)?,
        last_at: row.get(4)?,
        directory: row.get(5)?,
        endpoint: row.get(6)?,
        is_archived: row.get(7)?,
        is_print_run: row.get(8)?,
        cost: cost.and_then(|cost| u64::try_from(cost).ok()),
    })
}
