//! The program is killed at every single write of a scenario, one death per run, and started again: it finds either
//! the whole of each step or nothing of it, and everything that was acknowledged.
//!
//! Each death is a real one: a copy of this binary opens a copy of a prepared directory, plays the scenario, and
//! sends itself SIGKILL at its `n`th write. A write is a changed row, while its transaction is open, and the moment right
//! before a commit; so there is a death between any two. `n` grows until the scenario ends without a death.

mod index;
mod process;
mod scenarios;

use std::path::Path;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan, copy_of};
use process::Run;

/// Something that the program does, and every state that may be left of it.
struct Scenario {
    /// Names it across processes.
    name: &'static str,
    prepare: fn(&mut Harness),
    actions: fn(&mut Run),
    /// All agents after a restart, one line each, for each step; first as it was before.
    steps: &'static [&'static [&'static str]],
}

/// More writes than any scenario has.
const ENDLESS: usize = 200;

/// All agents as one line each: name or number, whether it lives, its log (texts of messages that are not long, kinds of all else), then what is
/// queued, typed and in the box.
const AGENTS_AS_TEXT: &str = "SELECT coalesce(name, ordinal) || ' ' || status || ':' ||
    coalesce((SELECT ' ' || group_concat(CASE kind WHEN 'user' THEN iif(length(content) > 1000, 'long', content) WHEN 'assistant' THEN
            CASE WHEN data LIKE '%\"is_partial\":true%' THEN 'part' ELSE 'reply' END ELSE kind END, ' ' ORDER BY id)
        FROM messages WHERE agent = ordinal), '') ||
    coalesce((SELECT ', queued ' || group_concat(content, ' ' ORDER BY id) FROM queue WHERE agent = ordinal), '') ||
    coalesce((SELECT ', typed ' || content FROM drafts WHERE agent = ordinal), '') ||
    coalesce((SELECT ', box ' || group_concat(body || iif(read_at IS NULL, '', ' (read)'), ' ' ORDER BY id)
        FROM mail WHERE to_uuid = uuid), '') ||
    iif(activity = 'running', ', busy', '') || iif(asking, ', asks', '')
    FROM agents ORDER BY ordinal";

fn agents_as_text(directory: &Path) -> Vec<String> {
    let conn = Connection::open(directory.join("polylogue.db")).expect("a database");
    let mut statement = conn.prepare(AGENTS_AS_TEXT).expect("the tables of today");
    let lines = statement.query_map([], |row| row.get(0)).expect("rows");
    lines.collect::<rusqlite::Result<_>>().expect("lines")
}

/// The number of the step that a restart finds after the death.
fn step_after(scenario: &Scenario, directory: TempDir, death: usize) -> usize {
    let app = Harness::open(Plan::default(), directory);
    let found = agents_as_text(app.data());
    let step = scenario.steps.iter().position(|step| found == *step);
    step.unwrap_or_else(|| panic!("{}: an incomplete step after a death at write {death}: {found:#?}", scenario.name))
}

/// Kills the scenario at each of its writes. Each death is one of another process: how often its loop turned while it waited
/// for a thread, and so what it had written of the index by then, is its own, and the step that is found may be an earlier one
/// than after the death before.
fn kill_at_every_write(scenario: &Scenario) {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    (scenario.prepare)(&mut app);
    let prepared = app.close();
    for death in 1..=ENDLESS {
        let directory = copy_of(prepared.path());
        let outcome = process::run_until_death(scenario.name, directory.path(), death);
        let step = step_after(scenario, directory, death);
        assert!(step >= outcome.acknowledged, "{}: step {step} of {outcome:?} at write {death}", scenario.name);
        assert!(death > 1 || step == 0, "{}: the first write alone is nothing yet", scenario.name);
        if outcome.is_done {
            let end = (scenario.steps.len() - 1, true);
            assert_eq!((step, death > 3), end, "{}: {outcome:?} at {death}", scenario.name);
            return;
        }
    }
    panic!("{}: it writes without end", scenario.name);
}
