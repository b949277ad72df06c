//! Conversations that a person begins: their rows, and those without messages, which are not kept.

use rusqlite::{OptionalExtension as _, params};

use super::agents::execute;
use super::database::Store;
use super::registry::AgentRow;
use crate::base::error::Result;
use crate::base::id::AgentId;

/// The conversations that terminals have begun, as a list of ids; a start removes those that a crash has left unwritten.
const BEGUN: &str = "begun";

/// Nothing was written there: neither a message nor a draft, and no other agent has its conversation.
const UNWRITTEN: &str = "status = 'running' AND archived_at IS NULL AND activity = 'idle' AND name IS NULL
    AND made_by = 0 AND run IS NULL AND NOT is_print_run AND coalesce(fork_message_id, 0) = 0
    AND NOT EXISTS (SELECT 1 FROM messages WHERE agent = ordinal AND kind NOT IN ('clear', 'command'))
    AND NOT EXISTS (SELECT 1 FROM queue WHERE agent = ordinal)
    AND NOT EXISTS (SELECT 1 FROM drafts WHERE agent = ordinal AND content <> '')
    AND NOT EXISTS (SELECT 1 FROM mail WHERE to_uuid = uuid)
    AND NOT EXISTS (SELECT 1 FROM runs WHERE asker = uuid)
    AND NOT EXISTS (SELECT 1 FROM agents AS child WHERE child.parent_uuid = agents.uuid AND child.fork_message_id > 0)";

/// The row of a new conversation. `None`: not set, or as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewConversation {
    pub id: AgentId,
    pub name: Option<String>,
    /// The root, below which it is registered; `None` for the root itself.
    pub parent: Option<AgentId>,
    /// `provider/model`.
    pub endpoint: String,
    pub thinking: Option<String>,
    pub environment: String,
    pub system: Option<String>,
    pub policy: Option<String>,
    pub rules: Option<String>,
    pub parameters: Option<String>,
    pub directory: Option<String>,
    pub is_print_run: bool,
}

impl Store {
    /// Registers a conversation that inherits nothing, and writes no message. For the root, its row is replaced.
    pub(crate) fn begin_conversation(&self, new: &NewConversation, now_ms: i64) -> Result<AgentRow> {
        // Without a fork point it is no child.
        let insert = "INSERT INTO agents (uuid, name, parent_uuid, status, activity, created_at, endpoint, thinking,
                environment, system, policy, rules, parameters, directory, is_print_run, number)
            VALUES (?1, ?2, ?3, 'running', 'idle', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        let update = "UPDATE agents SET name = ?2, parent_uuid = ?3, created_at = ?4, endpoint = ?5, thinking = ?6,
                environment = ?7, system = ?8, policy = ?9, rules = ?10, parameters = ?11, directory = ?12, is_print_run = ?13,
                number = coalesce(number, ?14), done = NULL
            WHERE uuid = ?1";
        let sql = if new.parent.is_some() { insert } else { update };
        self.write(|conn| {
            let values = params![
                new.id,
                new.name,
                new.parent,
                now_ms,
                new.endpoint,
                new.thinking,
                new.environment,
                new.system,
                new.policy,
                new.rules,
                new.parameters,
                new.directory,
                new.is_print_run,
                self.free_number()?,
            ];
            execute(conn.prepare_cached(sql)?, values, new.name.as_deref()).map(drop)
        })?;
        self.expect_agent(new.id)
    }

    /// Whether nothing was written in a conversation.
    pub(crate) fn is_unwritten(&self, agent: AgentId) -> Result<bool> {
        let sql = format!("SELECT 1 FROM agents WHERE uuid = ?1 AND {UNWRITTEN}");
        Ok(self.conn.prepare_cached(&sql)?.exists([agent])?)
    }

    /// The newest conversation of this directory that has only a draft.
    pub(crate) fn drafted_conversation(&self, directory: Option<&str>) -> Result<Option<AgentId>> {
        let is_drafted = UNWRITTEN.replace("NOT EXISTS (SELECT 1 FROM drafts", "EXISTS (SELECT 1 FROM drafts");
        let sql = format!(
            "SELECT uuid FROM agents WHERE {is_drafted} AND (?1 IS directory OR ordinal = 0 AND directory IS NULL)
             ORDER BY ordinal DESC LIMIT 1"
        );
        Ok(self.conn.prepare_cached(&sql)?.query_row([directory], |row| row.get(0)).optional()?)
    }

    /// Notes that a terminal has begun this conversation, until something is written there.
    pub(crate) fn note_begun(&self, agent: AgentId) -> Result<()> {
        let mut begun = self.unwritten_begun()?;
        begun.push(agent);
        let ids: Vec<String> = begun.iter().map(ToString::to_string).collect();
        self.set_meta(BEGUN, &ids.join(" "))
    }

    /// Deletes the conversations that an earlier process has begun and in which nothing was written.
    pub(crate) fn delete_unwritten(&self, now_ms: i64) -> Result<()> {
        let unwritten = self.unwritten_begun()?;
        if !unwritten.is_empty() {
            self.delete(&unwritten, now_ms)?;
        }
        Ok(())
    }

    /// The noted conversations in which nothing was written, without the root.
    fn unwritten_begun(&self) -> Result<Vec<AgentId>> {
        let noted = self.meta(BEGUN)?.unwrap_or_default();
        let mut unwritten = Vec::new();
        for id in noted.split(' ').filter_map(|id| id.parse::<AgentId>().ok()) {
            let is_root = self.agent(id).is_ok_and(|row| row.is_some_and(|row| row.parent.is_none()));
            if !is_root && self.is_unwritten(id)? {
                unwritten.push(id);
            }
        }
        Ok(unwritten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::drafts::DraftSlot;
    use crate::domain::message::Body;

    fn begin(store: &Store, parent: AgentId) -> AgentId {
        let id = AgentId::random();
        let new = NewConversation {
            id,
            name: None,
            parent: Some(parent),
            endpoint: "a/b".into(),
            thinking: None,
            environment: "coding".into(),
            system: None,
            policy: Some("ask".into()),
            rules: None,
            parameters: None,
            directory: Some("/w".into()),
            is_print_run: false,
        };
        store.begin_conversation(&new, 1).unwrap();
        store.note_begun(id).unwrap();
        id
    }

    #[test]
    fn a_start_deletes_only_what_was_begun_and_not_written() {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, Some("x/y"), None, 0).unwrap();
        store.set_thinking(root, Some("high")).unwrap();
        store.append(root, vec![Body::User("of the root".into())], 0).unwrap();
        let [empty, drafted, written, steered] = [(); 4].map(|()| begin(&store, root));
        store.set_draft(drafted, DraftSlot(0), "half", None).unwrap();
        store.append(written, vec![Body::User("hello".into())], 2).unwrap();
        store.append(steered, vec![Body::Command("/model x".into())], 2).unwrap();
        assert_eq!(store.drafted_conversation(Some("/w")).unwrap(), Some(drafted));
        let row = store.agent(empty).unwrap().unwrap();
        assert_eq!((row.endpoint.as_deref(), row.thinking, row.parent), (Some("a/b"), None, Some(root)));
        assert!(row.is_begun && !store.agent(root).unwrap().unwrap().is_begun);
        assert!(store.replay(empty).unwrap().0.is_empty(), "it begins without a message");
        store.delete_unwritten(3).unwrap();
        let left: Vec<AgentId> = store.load_agents().unwrap().agents.iter().map(|row| row.id).collect();
        assert_eq!(left, [root, drafted, written]);
    }
}
