//! Drafts: unsent text, for each terminal at an agent.

use rusqlite::{Connection, params};

use super::database::Store;
use super::{ids, row};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::drafts::DraftSlot;

#[doc(hidden)]
impl Store {
    /// Stores a draft of the agent, which may replace a message; an empty one is removed.
    pub fn set_draft(&self, agent: AgentId, slot: DraftSlot, text: &str, edited: Option<MessageId>) -> Result<()> {
        self.write(|conn| {
            let ordinal = ids::running(conn, agent)?;
            put(conn, ordinal, slot, text)?;
            let sql = "UPDATE drafts SET edited = ?3 WHERE agent = ?1 AND slot = ?2";
            conn.prepare_cached(sql)?.execute(params![ordinal, slot.0, edited.map(|message| message.0)])?;
            Ok(())
        })
    }

    /// The draft of the agent that replaces a message, and that message.
    pub fn edited_draft(&self, agent: AgentId) -> Result<Option<(DraftSlot, MessageId)>> {
        let ordinal = ids::known(&self.conn, agent)?;
        let sql =
            "SELECT slot, edited FROM drafts WHERE agent = ?1 AND edited IS NOT NULL ORDER BY edited DESC LIMIT 1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([ordinal])?;
        // One that is damaged replaces nothing.
        Ok(rows.next()?.and_then(|row| Some((DraftSlot(row.get(0).ok()?), MessageId(row.get(1).ok()?)))))
    }

    /// The agent's drafts that are not empty.
    pub fn drafts(&self, agent: AgentId) -> Result<Vec<(DraftSlot, String)>> {
        let ordinal = ids::known(&self.conn, agent)?;
        let sql = "SELECT slot, content FROM drafts WHERE agent = ?1 ORDER BY slot";
        let mut statement = self.conn.prepare_cached(sql)?;
        // Drafts with a damaged slot are left out.
        let draft = |row: &rusqlite::Row| Ok(row.get(0).ok().map(DraftSlot).zip(Some(row::text(row, 1)?)));
        let drafts = statement.query_map([ordinal], draft)?;
        Ok(drafts.filter_map(rusqlite::Result::transpose).collect::<rusqlite::Result<_>>()?)
    }
}

/// Stores a draft of the agent with this ordinal, within the caller's transaction; an empty one is removed.
pub(super) fn put(conn: &Connection, agent: i64, slot: DraftSlot, text: &str) -> Result<()> {
    if text.is_empty() {
        let sql = "DELETE FROM drafts WHERE agent = ?1 AND slot = ?2";
        conn.prepare_cached(sql)?.execute(params![agent, slot.0])?;
    } else {
        let sql = "INSERT INTO drafts (agent, slot, content) VALUES (?1, ?2, ?3)
                   ON CONFLICT (agent, slot) DO UPDATE SET content = excluded.content";
        conn.prepare_cached(sql)?.execute(params![agent, slot.0, text])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_draft_leaves_no_row_and_the_others_stay() {
        let store = Store::in_memory().unwrap();
        let agent = AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        let [first, second] = [0, 1].map(DraftSlot);
        store.set_draft(agent, first, "half a thought", None).unwrap();
        store.set_draft(agent, second, "another", None).unwrap();
        store.set_draft(agent, second, "another one", Some(MessageId(7))).unwrap();
        let both = [(first, "half a thought".to_owned()), (second, "another one".to_owned())];
        assert_eq!(store.drafts(agent).unwrap(), both);
        assert_eq!(store.edited_draft(agent).unwrap(), Some((second, MessageId(7))));
        store.set_draft(agent, first, "", None).unwrap();
        assert_eq!(store.drafts(agent).unwrap(), both[1..]);
    }
}
