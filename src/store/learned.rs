//! Context lengths that servers told in errors, for later runs.

use rusqlite::params;

use super::database::Store;
use crate::base::error::Result;

/// Begins the keys of `meta` that belong to this module; the name of the model and the URL of its server follow.
const PREFIX: &str = "context ";

/// A context length that the server at `base_url` told of a model, at a time in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LearnedContext {
    /// With its provider.
    pub model: String,
    pub base_url: String,
    pub limit: u64,
    pub at: i64,
}

impl Store {
    /// Keeps what a server told, in place of what it told of that model before.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(crate) fn keep_context(&self, learned: &LearnedContext) -> Result<()> {
        let LearnedContext { model, base_url, limit, at } = learned;
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        let row = (format!("{PREFIX}{model} {base_url}"), format!("{limit} {at}"));
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute(params![row.0, row.1]).map(drop)?))
    }

    /// Everything that was kept. Rows that cannot be read are left out.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(crate) fn kept_contexts(&self) -> Result<Vec<LearnedContext>> {
        let sql = "SELECT key, value FROM meta WHERE key >= ?1 AND key < 'context!'";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([PREFIX], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        Ok(rows.flatten().filter_map(|(key, value)| parse(&key, &value)).collect())
    }
}

fn parse(key: &str, value: &str) -> Option<LearnedContext> {
    let (model, base_url) = key.strip_prefix(PREFIX)?.rsplit_once(' ')?;
    let (limit, at) = value.split_once(' ')?;
    Some(LearnedContext {
        model: model.into(),
        base_url: base_url.into(),
        limit: limit.parse().ok()?,
        at: at.parse().ok()?,
    })
}
