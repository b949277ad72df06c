//! Letters between agents: pulled, never pushed. They survive restarts and the death of who wrote them.

use rusqlite::{Row, params};

use super::{Store, agents, refusal, row};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::mail::{LONGEST, Mail, MailId};

const COLUMNS: &str = "id, from_uuid, body, created_at, read_at IS NOT NULL";

impl Store {
    /// Puts a letter into a living agent's box.
    ///
    /// # Errors
    /// The addressee does not live, the letter is empty or over 1 MiB, or the database cannot be written.
    pub fn deliver(&self, from: AgentId, to: AgentId, body: &str, now_ms: i64) -> Result<MailId> {
        if body.trim().is_empty() {
            return Err(Error::new(ErrorKind::Usage, "the letter is empty: say what it is to tell"));
        }
        if body.len() > LONGEST {
            let words = format!("the letter has {} bytes, but at most {LONGEST} are carried", body.len());
            return Err(Error::new(ErrorKind::Usage, words));
        }
        self.write(|conn| {
            agents::running(conn, to)?;
            let sql = "INSERT INTO mail (from_uuid, to_uuid, body, created_at) VALUES (?1, ?2, ?3, ?4)";
            conn.prepare_cached(sql)?.execute(params![from, to, body, now_ms])?;
            Ok(MailId(conn.last_insert_rowid()))
        })
    }

    /// An agent's letters, oldest unread first, then the read ones; perhaps only those of one sender.
    ///
    /// # Errors
    /// The database cannot be read, or a letter in it; the words say which, and how to be rid of it.
    pub fn mail(&self, to: AgentId, from: Option<AgentId>) -> Result<Vec<Mail>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM mail WHERE to_uuid = ?1 AND (?2 IS NULL OR from_uuid = ?2)
             ORDER BY read_at IS NOT NULL, id"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![to, from])?;
        let mut letters = Vec::new();
        while let Some(row) = rows.next()? {
            letters.push(letter(row)?);
        }
        Ok(letters)
    }

    /// Hands a letter to its addressee and marks it read: this one, or the oldest unread. `None`: there is no such.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn read_mail(&self, to: AgentId, id: Option<MailId>, now_ms: i64) -> Result<Option<Mail>> {
        self.write(|conn| {
            let sql = format!(
                "UPDATE mail SET read_at = coalesce(read_at, ?3) WHERE to_uuid = ?1 AND id =
                     coalesce(?2, (SELECT min(id) FROM mail WHERE to_uuid = ?1 AND read_at IS NULL))
                 RETURNING {COLUMNS}"
            );
            let mut statement = conn.prepare_cached(&sql)?;
            let mut rows = statement.query(params![to, id.map(|id| id.0), now_ms])?;
            rows.next()?.map(letter).transpose()
        })
    }

    /// Who has written to this agent and was not read.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn unread_senders(&self, to: AgentId) -> Result<Vec<AgentId>> {
        let sql = "SELECT DISTINCT from_uuid FROM mail WHERE to_uuid = ?1 AND read_at IS NULL";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([to], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Throws a letter away.
    ///
    /// # Errors
    /// The agent has no such letter, or the database cannot be written.
    pub fn delete_mail(&self, to: AgentId, id: MailId) -> Result<()> {
        let sql = "DELETE FROM mail WHERE to_uuid = ?1 AND id = ?2";
        let removed = self.conn.prepare_cached(sql)?.execute(params![to, id.0])?;
        if removed == 0 { Err(refusal("there is no such letter: /check-mail lists them")) } else { Ok(()) }
    }

    /// How many unread letters an agent has.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn count_unread(&self, to: AgentId) -> Result<usize> {
        let sql = "SELECT count(*) FROM mail WHERE to_uuid = ?1 AND read_at IS NULL";
        Ok(self.conn.prepare_cached(sql)?.query_row([to], |row| row.get::<_, u32>(0))? as usize)
    }

    /// How many unread letters each living agent has, those without any left out.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn unread_mail(&self) -> Result<Vec<(AgentId, usize)>> {
        let sql = "SELECT to_uuid, count(*) FROM mail JOIN agents ON uuid = to_uuid
                   WHERE read_at IS NULL AND status = 'running' GROUP BY to_uuid";
        let mut statement = self.conn.prepare_cached(sql)?;
        // Whoever has a damaged row is missed elsewhere, and said to be.
        let rows = statement.query_map([], |row| Ok(row.get(0).ok().zip(row.get::<_, u32>(1).ok())))?;
        let counted = rows.filter_map(|row| row.map(|row| row.map(|(id, count)| (id, count as usize))).transpose());
        Ok(counted.collect::<rusqlite::Result<_>>()?)
    }
}

fn letter(row: &Row) -> Result<Mail> {
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
    read().map_err(|error| refusal(format!("letter {0} is damaged: /delete-mail {0} throws it away ({error})", id.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (Store, AgentId, AgentId) {
        let store = Store::in_memory().unwrap();
        let (root, child) = (AgentId::random(), AgentId::random());
        store.create_root(root, None, None, 0).unwrap();
        let new = super::super::NewAgent {
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
    fn the_oldest_unread_letter_is_read_next_and_any_by_its_id() {
        let (store, root, child) = two();
        let first = store.deliver(root, child, "one\0\u{1b}[2J\n", 1).unwrap();
        let second = store.deliver(child, child, "two", 2).unwrap();
        assert_eq!(store.unread_mail().unwrap(), [(child, 2)]);
        assert_eq!(store.read_mail(child, Some(second), 3).unwrap().unwrap().body, "two");
        assert_eq!(store.read_mail(child, None, 3).unwrap().unwrap().body, "one\0\u{1b}[2J\n");
        assert_eq!(store.read_mail(child, None, 3).unwrap(), None);
        assert_eq!(store.read_mail(child, Some(first), 4).unwrap().unwrap().id, first);
        assert_eq!(store.read_mail(root, Some(first), 4).unwrap(), None, "it is not the root's letter");
        assert_eq!(store.mail(child, Some(root)).unwrap().len(), 1);
        store.delete_mail(child, first).unwrap();
        assert!(store.delete_mail(child, first).is_err());
    }

    #[test]
    fn the_dead_get_no_letters_but_theirs_are_kept() {
        let (store, root, child) = two();
        store.deliver(child, root, "farewell", 1).unwrap();
        store.kill(&[child], 2).unwrap();
        assert!(store.deliver(root, child, "are you there?", 3).is_err());
        assert_eq!(store.mail(root, None).unwrap().len(), 1);
    }

    #[test]
    fn a_letter_has_at_least_a_word_and_at_most_a_mebibyte() {
        let (store, root, _) = two();
        assert_eq!(store.deliver(root, root, " \n", 1).unwrap_err().kind, ErrorKind::Usage);
        assert!(store.deliver(root, root, &"x".repeat(LONGEST), 1).is_ok());
        assert_eq!(store.deliver(root, root, &"x".repeat(LONGEST + 1), 1).unwrap_err().kind, ErrorKind::Usage);
    }
}
