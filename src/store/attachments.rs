//! Files that messages refer to, by SHA-256 in hexadecimal.

use rusqlite::{OptionalExtension as _, params};

use super::database::Store;
use crate::base::error::Result;

impl Store {
    /// Stores a file, unless it is stored already.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(crate) fn put_attachment(&self, digest: &str, media_type: &str, bytes: &[u8]) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO attachments (digest, media_type, bytes) VALUES (?1, ?2, ?3)";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute(params![digest, media_type, bytes]).map(drop)?))
    }

    /// The type and the bytes of the file whose digest begins so.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(crate) fn attachment(&self, digest: &str) -> Result<Option<(String, Vec<u8>)>> {
        let sql = "SELECT media_type, bytes FROM attachments WHERE digest >= ?1 AND digest < ?1 || 'g' LIMIT 1";
        let mut statement = self.conn.prepare_cached(sql)?;
        Ok(statement.query_row([digest], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }
}
