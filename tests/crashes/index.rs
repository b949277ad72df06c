//! The index of the search, in a program that is killed while it writes it.

use std::path::Path;
use std::time::Duration;

use polylogue::Change;
use rusqlite::Connection;

use super::{Scenario, process};
use crate::support::harness::{Harness, Plan, copy_of};
use crate::support::internals::{Body, Probe};
use crate::support::random::Random;

const WORDS: [&str; 8] = ["csrf", "token", "cart", "total", "lines", "store", "wall", "inbox"];
/// Writes among which one is the last.
const WRITES: usize = 800;
const DEATHS: usize = 16;

/// Some words of the list, differently for each number.
fn text(number: usize) -> String {
    let mut random = Random(number as u64 + 1);
    (0..4).map(|_| WORDS[random.below(WORDS.len())]).collect::<Vec<_>>().join(" ")
}

/// Hundreds of messages that are not indexed yet, and some more while they are.
pub const INDEX: Scenario = Scenario {
    name: "index",
    prepare: |app| {
        let bodies = (0..600).map(|number| Body::User(text(number))).collect();
        app.repl.store().append(app.id(0), bodies, 0).expect("messages");
    },
    actions: |run| {
        for number in 600..620 {
            run.ask(0, Change::Submit(text(number)));
            run.until_idle(0);
            for _ in 0..4 {
                run.repl.turn(Some(Duration::ZERO)).expect("the loop turns");
            }
        }
    },
    steps: &[],
};

/// The index up to its mark has for every word what an index that is made now has.
fn assert_is_like_a_fresh_one(directory: &Path) {
    let conn = Connection::open(directory.join("polylogue.db")).expect("a database");
    conn.execute_batch(
        "CREATE VIRTUAL TABLE temp.fresh USING fts5 (content, content = '', contentless_delete = 1);
         INSERT INTO temp.fresh (rowid, content) SELECT id, content FROM messages, search_marks
             WHERE id <= above AND kind IN ('user', 'assistant');
         INSERT INTO search (search) VALUES ('integrity-check');",
    )
    .expect("an index in order");
    let rows = |table: &str, word: &str| -> Vec<i64> {
        let name = table.rsplit('.').next().unwrap_or(table);
        let sql = format!("SELECT rowid FROM {table} WHERE {name} MATCH 'content: ' || ?1 ORDER BY rowid");
        let mut statement = conn.prepare(&sql).expect("the tables of today");
        let rows = statement.query_map([word], |row| row.get(0)).expect("rows");
        rows.collect::<rusqlite::Result<_>>().expect("numbers")
    };
    for word in WORDS {
        assert_eq!(rows("main.search", word), rows("temp.fresh", word), "{word}");
    }
}

#[test]
fn the_index_is_like_a_fresh_one_wherever_the_program_was_killed() {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    (INDEX.prepare)(&mut app);
    let prepared = app.close();
    let mut random = Random(5);
    let mut deaths = 0;
    for _ in 0..DEATHS {
        let directory = copy_of(prepared.path());
        let outcome = process::run_until_death(INDEX.name, directory.path(), 1 + random.below(WRITES));
        deaths += usize::from(!outcome.is_done);
        assert_is_like_a_fresh_one(directory.path());
        let mut app = Harness::open(Plan::default(), directory);
        app.turn();
        app.turn_until("the index is complete", |app| app.timeout().after.is_none());
        let directory = app.close();
        assert_is_like_a_fresh_one(directory.path());
    }
    assert!(deaths > DEATHS / 4, "only {deaths} of {DEATHS} died in the middle");
}
