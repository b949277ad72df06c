//! The table `meta`: single values by name.

use rusqlite::{OptionalExtension as _, params};

use super::database::Store;
use crate::base::error::Result;

impl Store {
    pub(super) fn meta(&self, key: &str) -> Result<Option<String>> {
        let sql = "SELECT value FROM meta WHERE key = ?1";
        Ok(self.conn.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()?)
    }

    pub(super) fn set_meta(&self, key: &str, value: &str) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute(params![key, value]).map(drop)?))
    }

    /// Notes that something was done. False if it was noted before.
    pub(crate) fn note_once(&self, what: &str) -> Result<bool> {
        let sql = "INSERT OR IGNORE INTO meta (key, value) VALUES (?1, '')";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute([what])? > 0))
    }

    pub(super) fn delete_meta(&self, key: &str) -> Result<()> {
        let sql = "DELETE FROM meta WHERE key = ?1";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute([key]).map(drop)?))
    }

    /// The rows whose keys begin with these words and a blank: what follows, and the value. Rows that are no texts are left
    /// out.
    pub(super) fn meta_of(&self, words: &str) -> Result<Vec<(String, String)>> {
        // `!` is the character after the blank.
        let sql = "SELECT substr(key, length(?1) + 2), value FROM meta WHERE key > ?1 || ' ' AND key < ?1 || '!'";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([words], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.flatten().collect())
    }
}
