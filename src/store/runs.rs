//! Runs: tasks that several agents work on. The members' messages are in their own logs; here are task and outcome.

use rusqlite::{OptionalExtension as _, Row, params};
use serde_json::Value;

use super::database::Store;
use super::row;
use crate::base::error::Result;
use crate::base::id::AgentId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun<'a> {
    pub run: &'a str,
    pub origin: AgentId,
    pub task: &'a str,
    /// The order in which the members work.
    pub strategy: &'a str,
    pub aggregation: &'a str,
    /// Whether its members keep running when it has ended; otherwise they are killed, even after a crash.
    pub keeps_members: bool,
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Its name.
    pub run: String,
    /// The task.
    pub task: String,
    /// The order in which the members work.
    pub strategy: String,
    /// How the answers are combined.
    pub aggregation: String,
    /// Milliseconds since 1970.
    pub started_at: i64,
    /// Milliseconds since 1970; `None` while it is running.
    pub ended_at: Option<i64>,
    /// Its outcome, as scripts read it. `None` for an ended run: the process ended before the run did.
    pub outcome: Option<Value>,
}

impl RunRow {
    /// `running`, `completed`, `failed`, `interrupted`, or `cut` if the process ended before the run.
    pub fn state(&self) -> &'static str {
        match &self.outcome {
            None if self.ended_at.is_none() => "running",
            None => "cut",
            Some(outcome) if outcome["success"] == true => "completed",
            Some(outcome) if outcome["interrupted"] == true => "interrupted",
            Some(_) => "failed",
        }
    }
}

#[doc(hidden)]
impl Store {
    pub(crate) fn begin_run(&self, new: &NewRun<'_>, now_ms: i64) -> Result<()> {
        let sql = "INSERT INTO runs (run, asker, task, strategy, aggregation, keeps_members, started_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let NewRun { run, origin, task, strategy, aggregation, keeps_members } = new;
        self.write(|conn| {
            let values = params![run, origin, task, strategy, aggregation, keeps_members, now_ms];
            conn.prepare_cached(sql)?.execute(values)?;
            Ok(())
        })
    }

    /// Records the end and the outcome of a run.
    pub(crate) fn end_run(&self, run: &str, outcome: &Value, now_ms: i64) -> Result<()> {
        let sql = "UPDATE runs SET ended_at = ?2, outcome = ?3 WHERE run = ?1";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute(params![run, now_ms, outcome.to_string()]).map(drop)?))
    }

    /// The run of this name.
    pub fn run(&self, run: &str) -> Result<Option<RunRow>> {
        let sql = "SELECT run, task, strategy, aggregation, started_at, ended_at, outcome FROM runs WHERE run = ?1";
        Ok(self.conn.prepare_cached(sql)?.query_row([run], read).optional()?)
    }

    /// The runs that have not ended, with the agents that began them, the oldest first. At the start of a process,
    /// before [`Store::recover`], these are left over from an earlier one.
    pub(crate) fn open_runs(&self) -> Result<Vec<(AgentId, RunRow)>> {
        let sql = "SELECT run, task, strategy, aggregation, started_at, ended_at, outcome, asker FROM runs
                   WHERE ended_at IS NULL ORDER BY id";
        let mut statement = self.conn.prepare_cached(sql)?;
        // The run of an agent with a damaged uuid belongs to nobody.
        let rows = statement.query_map([], |row| Ok(row.get(7).ok().zip(Some(read(row)?))))?;
        Ok(rows.filter_map(rusqlite::Result::transpose).collect::<rusqlite::Result<_>>()?)
    }

    /// The newest runs, at most `limit`, the newest first.
    pub fn runs(&self, limit: usize) -> Result<Vec<RunRow>> {
        let sql = "SELECT run, task, strategy, aggregation, started_at, ended_at, outcome FROM runs
                   ORDER BY id DESC LIMIT ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let outcome: Option<String> = row.get(6)?;
    Ok(RunRow {
        run: row::text(row, 0)?,
        task: row::text(row, 1)?,
        strategy: row::text(row, 2)?,
        aggregation: row::text(row, 3)?,
        started_at: row.get(4)?,
        ended_at: row.get(5)?,
        // A damaged outcome still means that the run ended.
        outcome: outcome.map(|text| serde_json::from_str(&text).unwrap_or(Value::Null)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::id::MessageId;
    use crate::store::NewAgent;

    fn store_with_root() -> (Store, AgentId) {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 0).unwrap();
        (store, root)
    }

    fn begin(store: &Store, origin: AgentId, run: &str, keeps_members: bool) -> AgentId {
        let new = NewRun { run, origin, task: "say hello", strategy: "parallel", aggregation: "vote", keeps_members };
        store.begin_run(&new, 5).unwrap();
        let id = AgentId::random();
        let fork_point = MessageId(0);
        let member = NewAgent { id, name: None, parent: origin, fork_point, endpoint: None, environment: None };
        store.fork(&member, 0).unwrap();
        store.join_run(id, run).unwrap();
        id
    }

    #[test]
    fn every_state_of_a_run_has_a_name_and_the_newest_is_first() {
        let (store, root) = store_with_root();
        for (run, outcome) in [
            ("good", Some(json!({"success": true, "interrupted": false}))),
            ("bad", Some(json!({"success": false, "interrupted": false}))),
            ("stopped", Some(json!({"success": false, "interrupted": true}))),
            ("open", None),
        ] {
            begin(&store, root, run, false);
            outcome.iter().for_each(|outcome| store.end_run(run, outcome, 7).unwrap());
        }
        let states = |limit| -> Vec<(String, &str)> {
            store.runs(limit).unwrap().into_iter().map(|row| (row.run.clone(), row.state())).collect()
        };
        let all = [("open", "running"), ("stopped", "interrupted"), ("bad", "failed"), ("good", "completed")];
        assert_eq!(states(9), all.map(|(run, state)| (run.to_owned(), state)));
        assert_eq!(states(2).len(), 2);
    }

    #[test]
    fn a_crash_ends_a_run_and_kills_only_the_members_that_it_does_not_keep() {
        let (store, root) = store_with_root();
        let (mortal, keeping, done) =
            (begin(&store, root, "a", false), begin(&store, root, "b", true), begin(&store, root, "c", false));
        store.end_run("c", &json!({"success": true}), 7).unwrap();
        store.begin_turn(mortal, "go".into(), None, 6).unwrap();
        assert_eq!(store.recover(9).unwrap(), [mortal]);
        let is_alive = |id| store.agent(id).unwrap().is_some_and(|row| row.is_running);
        assert_eq!([mortal, keeping, done].map(is_alive), [false, true, true]);
        let states: Vec<&str> = store.runs(9).unwrap().iter().map(RunRow::state).collect();
        assert_eq!(states, ["completed", "cut", "cut"]);
        assert_eq!(store.recover(10).unwrap(), []);
        assert_eq!(store.runs(9).unwrap()[1].ended_at, Some(9));
    }
}
