//! Context lengths learned from servers, in errors or in their lists of models, for later runs.

use rusqlite::params;

use super::database::Store;
use crate::base::error::Result;

/// Where a server reported the context length of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    InError,
    InList,
}

impl Told {
    const ALL: [Self; 2] = [Self::InError, Self::InList];

    /// Begins the keys of `meta` that belong to this module; the name of the model and the URL of its server follow.
    const fn prefix(self) -> &'static str {
        match self {
            Self::InError => "context ",
            Self::InList => "listed context ",
        }
    }
}

/// A context length that the server at `base_url` reported for a model, at a time in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LearnedContext {
    /// With its provider.
    pub model: String,
    pub base_url: String,
    pub told: Told,
    pub limit: u64,
    pub at: i64,
}

impl Store {
    /// Replaces the context length of this model at this server.
    pub(crate) fn keep_context(&self, learned: &LearnedContext) -> Result<()> {
        let LearnedContext { model, base_url, told, limit, at } = learned;
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        let row = (format!("{}{model} {base_url}", told.prefix()), format!("{limit} {at}"));
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute(params![row.0, row.1]).map(drop)?))
    }

    /// All stored context lengths. Rows that cannot be read are left out.
    pub(crate) fn kept_contexts(&self) -> Result<Vec<LearnedContext>> {
        // `!` is the character after the blank.
        let sql = "SELECT key, value FROM meta WHERE key >= ?1 AND key < rtrim(?1) || '!'";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut kept = Vec::new();
        for told in Told::ALL {
            let pair = |row: &rusqlite::Row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            let rows = statement.query_map([told.prefix()], pair)?;
            kept.extend(rows.flatten().filter_map(|(key, value)| parse(told, &key, &value)));
        }
        Ok(kept)
    }
}

fn parse(told: Told, key: &str, value: &str) -> Option<LearnedContext> {
    let (model, base_url) = key.strip_prefix(told.prefix())?.rsplit_once(' ')?;
    let (limit, at) = value.split_once(' ')?;
    Some(LearnedContext {
        model: model.into(),
        base_url: base_url.into(),
        told,
        limit: limit.parse().ok()?,
        at: at.parse().ok()?,
    })
}
