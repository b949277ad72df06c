//! Mail between agents. It is stored until it is deleted, even after its sender was killed.

use rusqlite::{Row, params};

use super::database::Store;
use super::error::store_error;
use super::{ids, row};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::mail::{LONGEST, Mail, MailId};

const COLUMNS: &str = "id, from_uuid, body, created_at, read_at IS NOT NULL";

#[doc(hidden)]
impl Store {
    /// Stores mail for a running agent.
    pub(crate) fn deliver(&self, from: AgentId, to: AgentId, body: &str, now_ms: i64) -> Result<MailId> {
        if body.trim().is_empty() {
            return Err(Error::usage("the message is empty; give its text"));
        }
        if body.len() > LONGEST {
            return Err(Error::usage(format!("the message is too long: {} bytes (at most {LONGEST})", body.len())));
        }
        self.write(|conn| {
            ids::running(conn, to)?;
            let sql = "INSERT INTO mail (from_uuid, to_uuid, body, created_at) VALUES (?1, ?2, ?3, ?4)";
            conn.prepare_cached(sql)?.execute(params![from, to, body, now_ms])?;
            Ok(MailId(conn.last_insert_rowid()))
        })
    }

    /// An agent's mail, or only that of one sender: the oldest unread first, then read mail.
    pub fn mail(&self, to: AgentId, from: Option<AgentId>) -> Result<Vec<Mail>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM mail WHERE to_uuid = ?1 AND (?2 IS NULL OR from_uuid = ?2)
             ORDER BY read_at IS NOT NULL, id"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![to, from])?;
        let mut mail = Vec::new();
        while let Some(row) = rows.next()? {
            mail.push(mail_of(row)?);
        }
        Ok(mail)
    }

    /// One message, by its id or else the oldest unread. `None` if there is none.
    pub(crate) fn find_mail(&self, to: AgentId, id: Option<MailId>) -> Result<Option<Mail>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM mail WHERE to_uuid = ?1 AND id =
                 coalesce(?2, (SELECT min(id) FROM mail WHERE to_uuid = ?1 AND read_at IS NULL))"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![to, id.map(|id| id.0)])?;
        rows.next()?.map(mail_of).transpose()
    }

    /// Returns one message, by its id or else the oldest unread, and marks it as read. `None` if there is none.
    pub fn read_mail(&self, to: AgentId, id: Option<MailId>, now_ms: i64) -> Result<Option<Mail>> {
        self.write(|conn| {
            let sql = format!(
                "UPDATE mail SET read_at = coalesce(read_at, ?3) WHERE to_uuid = ?1 AND id =
                     coalesce(?2, (SELECT min(id) FROM mail WHERE to_uuid = ?1 AND read_at IS NULL))
                 RETURNING {COLUMNS}"
            );
            let mut statement = conn.prepare_cached(&sql)?;
            let mut rows = statement.query(params![to, id.map(|id| id.0), now_ms])?;
            rows.next()?.map(mail_of).transpose()
        })
    }

    /// The senders of an agent's unread mail.
    pub(crate) fn unread_senders(&self, to: AgentId) -> Result<Vec<AgentId>> {
        let sql = "SELECT DISTINCT from_uuid FROM mail WHERE to_uuid = ?1 AND read_at IS NULL";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([to], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(crate) fn delete_mail(&self, to: AgentId, id: MailId) -> Result<()> {
        let sql = "DELETE FROM mail WHERE to_uuid = ?1 AND id = ?2";
        self.write(|conn| match conn.prepare_cached(sql)?.execute(params![to, id.0])? {
            0 => Err(store_error(format!("no mail with id {}: /check-mail lists all", id.0))),
            _ => Ok(()),
        })
    }

    /// The number of an agent's unread messages.
    pub(crate) fn count_unread(&self, to: AgentId) -> Result<usize> {
        let sql = "SELECT count(*) FROM mail WHERE to_uuid = ?1 AND read_at IS NULL";
        Ok(self.conn.prepare_cached(sql)?.query_row([to], |row| row.get::<_, u32>(0))? as usize)
    }

    /// The number of unread messages of each running agent that has any.
    pub(crate) fn unread_mail(&self) -> Result<Vec<(AgentId, usize)>> {
        let sql = "SELECT to_uuid, count(*) FROM mail JOIN agents ON uuid = to_uuid
                   WHERE read_at IS NULL AND status = 'running' GROUP BY to_uuid";
        let mut statement = self.conn.prepare_cached(sql)?;
        // Damaged rows are reported when the registry is loaded.
        let rows = statement.query_map([], |row| Ok(row.get(0).ok().zip(row.get::<_, u32>(1).ok())))?;
        let counted = rows.filter_map(|row| row.map(|row| row.map(|(id, count)| (id, count as usize))).transpose());
        Ok(counted.collect::<rusqlite::Result<_>>()?)
    }
}

fn mail_of(row: &Row) -> Result<Mail> {
    let id = MailId(row.get(0)?);
    let read = || -> rusqlite::Result<Mail> {
        Ok(Mail {
            id,
            from: row.get(1)?,
            body: row::text(row, 2)?,
            created_at: row.get(3).unwrap_or(0),
            is_read: row.get(4)?,
        })
    };
    read().map_err(|error| store_error(format!("mail {0} is damaged: /delete-mail {0} deletes it ({error})", id.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    fn two() -> (Store, AgentId, AgentId) {
        let store = Store::in_memory().unwrap();
        let (root, child) = (AgentId::random(), AgentId::random());
        store.create_root(root, None, None, 0).unwrap();
        let new = crate::store::NewAgent {
            id: child,
            name: None,
            parent: root,
            fork_point: crate::base::id::MessageId(0),
            endpoint: None,
            environment: None,
        };
        store.fork(&new, 0).unwrap();
        (store, root, child)
    }

    #[test]
    fn the_oldest_unread_mail_is_read_next_and_any_by_its_id() {
        let (store, root, child) = two();
        let first = store.deliver(root, child, "one\0\u{1b}[2J\n", 1).unwrap();
        let second = store.deliver(child, child, "two", 2).unwrap();
        assert_eq!(store.unread_mail().unwrap(), [(child, 2)]);
        assert_eq!(store.read_mail(child, Some(second), 3).unwrap().unwrap().body, "two");
        assert_eq!(store.read_mail(child, None, 3).unwrap().unwrap().body, "one\0\u{1b}[2J\n");
        assert_eq!(store.read_mail(child, None, 3).unwrap(), None);
        assert_eq!(store.read_mail(child, Some(first), 4).unwrap().unwrap().id, first);
        assert_eq!(store.read_mail(root, Some(first), 4).unwrap(), None, "it is not mail of the root");
        assert_eq!(store.mail(child, Some(root)).unwrap().len(), 1);
        store.delete_mail(child, first).unwrap();
        assert!(store.delete_mail(child, first).is_err());
    }

    #[test]
    fn a_killed_agent_gets_no_mail_but_what_it_sent_is_kept() {
        let (store, root, child) = two();
        store.deliver(child, root, "farewell", 1).unwrap();
        store.kill(&[child], 2).unwrap();
        assert!(store.deliver(root, child, "are you there?", 3).is_err());
        assert_eq!(store.mail(root, None).unwrap().len(), 1);
    }

    #[test]
    fn mail_is_neither_blank_nor_longer_than_a_mebibyte() {
        let (store, root, _) = two();
        assert_eq!(store.deliver(root, root, " \n", 1).unwrap_err().kind, ErrorKind::Usage);
        assert!(store.deliver(root, root, &"x".repeat(LONGEST), 1).is_ok());
        assert_eq!(store.deliver(root, root, &"x".repeat(LONGEST + 1), 1).unwrap_err().kind, ErrorKind::Usage);
    }
}
