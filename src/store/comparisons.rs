//! Comparisons that were not ended: one prompt, and who answers it.

use rusqlite::{Connection, Row, params};

use super::database::Store;
use super::row;
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::compare::{Column, Comparison, JUDGE, MOST_COMPARISONS};

impl Store {
    /// Stores a comparison with its columns, and forgets the oldest if there are too many. Returns its number, which
    /// was never used before.
    pub(crate) fn add_comparison(&self, origin: AgentId, prompt: &str, columns: &[Column]) -> Result<u64> {
        self.write(|conn| {
            let sql = "INSERT INTO comparisons (origin, prompt) VALUES (?1, ?2)";
            conn.prepare_cached(sql)?.execute(params![origin, prompt])?;
            let id = conn.last_insert_rowid();
            columns.iter().try_for_each(|column| set_column(conn, id, column))?;
            let old = "SELECT id FROM comparisons ORDER BY id DESC LIMIT -1 OFFSET ?1";
            let most = i64::try_from(MOST_COMPARISONS).unwrap_or(i64::MAX);
            for table in ["compared WHERE comparison", "comparisons WHERE id"] {
                conn.prepare_cached(&format!("DELETE FROM {table} IN ({old})"))?.execute([most])?;
            }
            Ok(u64::try_from(id).unwrap_or_default())
        })
    }

    /// Stores the judge of a comparison in place of an earlier one.
    pub(crate) fn set_judge(&self, number: u64, judge: &Column) -> Result<()> {
        self.write(|conn| set_column(conn, to_i64(number), judge))
    }

    pub(crate) fn drop_column(&self, number: u64, letter: char) -> Result<()> {
        let sql = "DELETE FROM compared WHERE comparison = ?1 AND letter = ?2";
        self.write(|conn| {
            Ok(conn.prepare_cached(sql)?.execute(params![to_i64(number), letter.to_string()]).map(drop)?)
        })
    }

    /// Removes a comparison; its agents stay.
    pub(crate) fn end_comparison(&self, number: u64) -> Result<()> {
        self.write(|conn| {
            conn.prepare_cached("DELETE FROM compared WHERE comparison = ?1")?.execute([to_i64(number)])?;
            Ok(conn.prepare_cached("DELETE FROM comparisons WHERE id = ?1")?.execute([to_i64(number)]).map(drop)?)
        })
    }

    /// The open comparisons that still have an agent, oldest first. A damaged column is left out.
    pub(crate) fn comparisons(&self) -> Result<Vec<Comparison>> {
        let sql =
            "SELECT id, comparisons.origin, comparisons.prompt, letter, agent, label, compared.prompt, after, is_fork
            FROM comparisons JOIN compared ON comparison = id
            WHERE EXISTS (SELECT 1 FROM compared AS other JOIN agents ON uuid = other.agent
                WHERE other.comparison = id AND status = 'running' AND archived_at IS NULL)
            ORDER BY id, letter";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| Ok(read_column(row).ok()))?;
        let mut all: Vec<Comparison> = Vec::new();
        for (number, origin, prompt, column) in rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten() {
            if all.last().is_none_or(|last| last.number != number) {
                all.push(Comparison { number, origin, prompt, columns: Vec::new(), judge: None });
            }
            let Some(last) = all.last_mut() else { continue };
            if column.letter == JUDGE { last.judge = Some(column) } else { last.columns.push(column) }
        }
        all.retain(|comparison| !comparison.columns.is_empty());
        Ok(all)
    }
}

/// Removes everything about a deleted agent, within the caller's transaction.
pub(super) fn forget(conn: &Connection, agent: AgentId) -> Result<()> {
    conn.prepare_cached("DELETE FROM compared WHERE agent = ?1")?.execute([agent])?;
    let sql = "DELETE FROM comparisons WHERE NOT EXISTS (SELECT 1 FROM compared WHERE comparison = id)";
    Ok(conn.prepare_cached(sql)?.execute([]).map(drop)?)
}

fn set_column(conn: &Connection, comparison: i64, column: &Column) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO compared (comparison, letter, agent, label, prompt, after, is_fork)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let Column { letter, agent, label, prompt, after, is_fork } = column;
    let values = params![comparison, letter.to_string(), agent, label, prompt, after.0, is_fork];
    Ok(conn.prepare_cached(sql)?.execute(values).map(drop)?)
}

fn read_column(row: &Row) -> rusqlite::Result<(u64, AgentId, String, Column)> {
    let letter = row::text(row, 3)?.chars().next().unwrap_or(JUDGE);
    let column = Column {
        letter,
        agent: row.get(4)?,
        label: row::text(row, 5)?,
        prompt: row::text(row, 6)?,
        after: MessageId(row.get(7)?),
        is_fork: row.get(8)?,
    };
    Ok((u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default(), row.get(1)?, row::text(row, 2)?, column))
}

fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
