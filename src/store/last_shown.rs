//! The agent that a terminal showed last, for each directory in which terminals were opened.

use rusqlite::{OptionalExtension as _, params};

use super::database::Store;
use crate::base::error::Result;
use crate::base::id::AgentId;

/// Whether there is something to continue: more than a newly created agent.
const IS_BEGUN: &str = "(shown.name IS NOT NULL OR coalesce(shown.fork_message_id, 0) > 0
    OR EXISTS (SELECT 1 FROM messages WHERE messages.agent = shown.ordinal AND kind NOT IN ('clear', 'fork'))
    OR EXISTS (SELECT 1 FROM queue WHERE queue.agent = shown.ordinal)
    OR EXISTS (SELECT 1 FROM runs WHERE runs.asker = shown.uuid)
    OR EXISTS (SELECT 1 FROM drafts WHERE drafts.agent = shown.ordinal AND content <> ''))";

/// Whether a person has sent a text to another agent of this directory since then.
const IS_OUTDATED: &str = "EXISTS (SELECT 1 FROM messages CROSS JOIN agents AS other ON other.ordinal = messages.agent
    WHERE messages.id > last_shown.message AND kind = 'user' AND other.ordinal <> shown.ordinal
        AND other.status = 'running' AND other.made_by = 0 AND other.run IS NULL AND NOT other.is_print_run
        AND other.archived_at IS NULL AND other.directory IS last_shown.directory)";

#[doc(hidden)]
impl Store {
    /// A terminal that was opened in this directory shows this agent.
    pub(crate) fn set_last_shown(&self, directory: &str, agent: AgentId) -> Result<()> {
        // Replaced rather than updated: the newest row has the greatest id.
        let sql = "INSERT OR REPLACE INTO last_shown (directory, agent, message)
                   VALUES (?1, ?2, (SELECT coalesce(max(id), 0) FROM messages))";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute(params![directory, agent]).map(drop)?))
    }

    /// The agent that a terminal showed last, wherever it was opened.
    pub(crate) fn last_shown(&self) -> Result<Option<AgentId>> {
        let sql = "SELECT uuid FROM last_shown JOIN agents AS shown ON uuid = agent
                   WHERE status = 'running' AND archived_at IS NULL ORDER BY last_shown.id DESC LIMIT 1";
        Ok(self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?)
    }

    /// The conversation that a terminal opened in this directory showed last, unless it is empty or a person has since sent a
    /// text to another agent of this directory; and the newest message of a person there, or 0. Never a
    /// `--print` run or a member of a team.
    pub(crate) fn shown_conversation(&self, directory: &str) -> Result<Option<(AgentId, i64)>> {
        let sql = format!(
            "SELECT uuid, coalesce((SELECT messages.id FROM messages WHERE messages.agent = shown.ordinal AND kind = 'user'
                                    ORDER BY messages.id DESC LIMIT 1), 0)
             FROM last_shown JOIN agents AS shown ON uuid = last_shown.agent
             WHERE last_shown.directory = ?1 AND status = 'running' AND archived_at IS NULL
                 AND NOT is_print_run AND run IS NULL AND {IS_BEGUN} AND NOT {IS_OUTDATED}"
        );
        self.conversation_in(&sql, directory)
    }

    /// The conversation of a person in this directory with the newest text of theirs, and that. Never a `--print` run or a
    /// member of a team.
    pub(crate) fn addressed_conversation(&self, directory: &str) -> Result<Option<(AgentId, i64)>> {
        // Searches backwards from the newest message, which ends after one turn in most cases.
        let sql = "SELECT uuid, messages.id FROM messages CROSS JOIN agents ON agents.ordinal = messages.agent
            WHERE kind = 'user' AND status = 'running' AND archived_at IS NULL AND NOT is_print_run
                AND made_by = 0 AND run IS NULL AND (directory IS NULL OR directory = ?1)
            ORDER BY messages.id DESC LIMIT 1";
        self.conversation_in(sql, directory)
    }

    fn conversation_in(&self, sql: &str, directory: &str) -> Result<Option<(AgentId, i64)>> {
        let read = |row: &rusqlite::Row| Ok((row.get(0)?, row.get(1)?));
        Ok(self.conn.prepare_cached(sql)?.query_row([directory], read).optional()?)
    }
}
