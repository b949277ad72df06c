//! The history of inputs of each project (directory), each text once per project.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::database::Store;
use super::row;
use crate::base::error::Result;

const INPUTS: i64 = 10_000;

/// Old inputs are removed once in this many inserts, because counting them costs more than keeping a few too many.
const TRIM_EVERY: i64 = 100;

/// The number of characters of an input that a search compares and a list shows.
const EXCERPT_CHARS: i64 = 1_000;

/// An input in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRow {
    /// Finds the whole text.
    pub id: i64,
    /// The text, or its beginning.
    pub excerpt: String,
}

/// Inputs of other projects that were not entered in project `?1`, each once.
const OF_OTHERS: &str = "project <> ?1 AND typeof(content) = 'text' AND NOT EXISTS (
    SELECT 1 FROM entered AS same
    WHERE same.content = entered.content AND (same.project = ?1 OR same.id > entered.id))";

#[doc(hidden)]
impl Store {
    /// Adds an input to the history of a project as the newest one, and removes the same text from earlier, and all but
    /// about 10,000. Empty inputs are ignored.
    pub(crate) fn remember_input(&self, project: &str, text: &str) -> Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        self.write(|conn| {
            let of_project = params![project, text];
            conn.prepare_cached("DELETE FROM entered WHERE project = ?1 AND content = ?2")?.execute(of_project)?;
            conn.prepare_cached("INSERT INTO entered (project, content) VALUES (?1, ?2)")?.execute(of_project)?;
            if conn.last_insert_rowid() % TRIM_EVERY == 0 { trim(conn) } else { Ok(()) }
        })
    }

    /// The input before `newer` others: those of the project first, then those of other projects, each newest first. Rows
    /// that are no text are skipped.
    pub fn input(&self, project: &str, newer: usize) -> Result<Option<String>> {
        let newer = i64::try_from(newer).unwrap_or(i64::MAX);
        let sql = "SELECT count(*) FROM entered WHERE project = ?1 AND typeof(content) = 'text'";
        let own: i64 = self.conn.prepare_cached(sql)?.query_row([project], |row| row.get(0))?;
        let (condition, newer) =
            if newer < own { ("project = ?1 AND typeof(content) = 'text'", newer) } else { (OF_OTHERS, newer - own) };
        let sql = format!("SELECT content FROM entered WHERE {condition} ORDER BY id DESC LIMIT 1 OFFSET ?2");
        let mut statement = self.conn.prepare_cached(&sql)?;
        Ok(statement.query_row(params![project, newer], |row| row::text(row, 0)).optional()?)
    }

    /// All inputs in the order of [`Store::input`], for a search.
    pub fn inputs(&self, project: &str) -> Result<Vec<InputRow>> {
        let mut found = Vec::new();
        for condition in ["project = ?1 AND typeof(content) = 'text'", OF_OTHERS] {
            let sql = format!("SELECT id, substr(content, 1, ?2) FROM entered WHERE {condition} ORDER BY id DESC");
            let mut statement = self.conn.prepare_cached(&sql)?;
            let rows = statement.query_map(params![project, EXCERPT_CHARS], |row| {
                Ok(InputRow { id: row.get(0)?, excerpt: row::text(row, 1)? })
            })?;
            rows.into_iter().try_for_each(|row| row.map(|row| found.push(row)))?;
        }
        Ok(found)
    }

    /// The whole text of an input.
    pub fn whole_input(&self, id: i64) -> Result<Option<String>> {
        let mut statement = self.conn.prepare_cached("SELECT content FROM entered WHERE id = ?1")?;
        Ok(statement.query_row([id], |row| row::text(row, 0)).optional()?)
    }
}

fn trim(conn: &Connection) -> Result<()> {
    let sql = "DELETE FROM entered WHERE id <= (SELECT id FROM entered ORDER BY id DESC LIMIT 1 OFFSET ?1)";
    conn.prepare_cached(sql)?.execute([INPUTS])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(store: &Store, project: &str) -> Vec<String> {
        (0..).map_while(|newer| store.input(project, newer).unwrap()).collect()
    }

    #[test]
    fn inputs_come_back_newest_first_once_each_and_about_ten_thousand_are_kept() {
        let store = Store::in_memory().unwrap();
        store
            .write(|_| (0..10_250).try_for_each(|number| store.remember_input("/p", &format!("input {number}"))))
            .unwrap();
        store.remember_input("/p", "input 10000").unwrap();
        store.remember_input("/p", " ").unwrap();
        let newest: Vec<String> = (0..2).filter_map(|newer| store.input("/p", newer).unwrap()).collect();
        assert_eq!(newest, ["input 10000", "input 10249"]);
        let stored: i64 = store.conn.query_row("SELECT count(*) FROM entered", [], |row| row.get(0)).unwrap();
        assert!((10_000..10_000 + TRIM_EVERY).contains(&stored), "{stored}");
    }

    #[test]
    fn the_inputs_of_the_project_come_first_and_rows_without_text_are_skipped() {
        let store = Store::in_memory().unwrap();
        for (project, text) in [("/a", "one"), ("/b", "two"), ("/c", "one"), ("/b", "three"), ("/c", "three")] {
            store.remember_input(project, text).unwrap();
        }
        store.conn.execute("INSERT INTO entered (project, content) VALUES ('/b', x'ff00')", []).unwrap();
        assert_eq!(listed(&store, "/b"), ["three", "two", "one"]);
        assert_eq!(listed(&store, "/a"), ["one", "three", "two"]);
        assert_eq!(listed(&store, "/new"), ["three", "one", "two"]);
        let rows = store.inputs("/a").unwrap();
        let excerpts: Vec<&str> = rows.iter().map(|row| row.excerpt.as_str()).collect();
        assert_eq!(excerpts, ["one", "three", "two"]);
        assert_eq!(store.whole_input(rows[0].id).unwrap().as_deref(), Some("one"));
    }
}
