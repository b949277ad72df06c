//! Texts and commands in one queue: none is lost, none comes twice, none out of order, whatever happens.

use std::sync::atomic::Ordering;
use std::time::Duration;

use polylogue::{Change, HistoryEdit, QueueEdit};
use tempfile::TempDir;

use super::{done, waiting};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{History, Probe, State};
use crate::support::random::Random;
use crate::support::scene::assert_shows;

/// Agent 0 streams and will not end by itself.
fn streaming() -> Harness {
    let mut app = Harness::new(Plan::default());
    app.enter("first\n%hang");
    app.turn_until("the text", |app| !app.agent(0).partial_text().is_empty());
    app
}

#[test]
fn queued_commands_run_in_order_between_texts() {
    let mut app = streaming();
    for line in ["second", "/mark a", "/mark b", "//mark is a command", "/mark c"] {
        app.enter(line);
    }
    assert_eq!(waiting(&app, 0), ["second", "/mark a", "/mark b", "//mark is a command", "/mark c"]);
    assert_shows(&mut app, "/mark c: queued at position 5");
    assert_shows(&mut app, "queued 2: /mark a");
    assert_shows(&mut app, "and 2 more");
    app.escape();
    app.type_bytes(b"\r");
    app.turn_until_idle();
    let expected = ["first\n%hang", "second", "/mark a", "/mark b", "/mark is a command", "/mark c"];
    assert_eq!(done(&app, 0), expected);
    assert_eq!(waiting(&app, 0), [""; 0]);
}

#[test]
fn a_failed_queued_command_stays_and_blocks_the_queue() {
    let mut app = streaming();
    app.enter("/rewind nowhere");
    app.enter("after it");
    app.escape();
    app.type_bytes(b"\r");
    assert_shows(&mut app, "no mark \"nowhere\"");
    assert_shows(&mut app, "the queue is paused at /rewind nowhere");
    assert_eq!((app.state(0), waiting(&app, 0)), (State::Idle, vec!["/rewind nowhere".into(), "after it".into()]));
    assert_shows(&mut app, ": /queue drop 1, then Enter");
    let mut app = app.crash_and_restart();
    app.enter("/queue drop 1");
    app.type_bytes(b"\r");
    app.turn_until_idle();
    assert_eq!(done(&app, 0), ["first\n%hang", "after it"]);
}

/// What would be sent to the model of agent 0 now, and what after a restart: messages with their ids.
fn histories(app: &Harness) -> (String, String) {
    let stored = History::from_messages(app.repl.store().replay(app.id(0)).expect("a history").0);
    let known = app.agent(0).inputs.history.as_ref().expect("it has spoken");
    (format!("{:?}", known.conversation()), format!("{:?}", stored.conversation()))
}

#[test]
fn a_queued_command_that_cannot_be_committed_has_no_effect() {
    for line in ["/mark b", "/rewind a", "/slice -1:", "/slice summarize::", "/clear"] {
        let mut app = Harness::new(Plan::default());
        app.ask(0, Change::EditHistory(HistoryEdit::Mark("a".into())));
        app.say(0, "first\n%hang");
        app.ask(0, Change::Enqueue(line.into()));
        app.escape();
        let seen = |app: &Harness| (app.log(0), app.repl.roster().len(), app.agent(0).summaries());
        let (before, converse) = (seen(&app), histories(&app).0);
        app.is_disk_full.store(true, Ordering::Relaxed);
        app.ask(0, Change::EditQueue(QueueEdit::Resume));
        assert_eq!((seen(&app), histories(&app)), (before, (converse.clone(), converse)), "{line}");
        assert_eq!(waiting(&app, 0), [line]);
        assert_shows(&mut app, &format!("the queue is paused at {line}"));

        app.is_disk_full.store(false, Ordering::Relaxed);
        app.ask(0, Change::EditQueue(QueueEdit::Resume));
        let (converse, stored) = histories(&app);
        assert_eq!((converse, waiting(&app, 0)), (stored, Vec::new()), "{line}");
    }
}

#[test]
fn an_invalid_command_is_refused_before_it_is_queued() {
    let mut app = streaming();
    app.enter("/clear everything");
    assert_shows(&mut app, "/clear undo");
    assert_eq!(app.draft(0).text(), "/clear everything");
    assert_eq!(waiting(&app, 0), [""; 0]);
}

#[test]
fn a_cancelled_fork_returns_the_typed_line() {
    let mut app = streaming();
    app.enter("//etc is a directory");
    app.enter("/clear");
    app.type_bytes(b"\x1b[A");
    assert_eq!(app.draft(0).text(), "/clear");
    let mut app = app.crash_and_restart();
    assert_eq!(app.draft(0).text(), "/clear", "taken back and kept, in one step");
    app.type_bytes(b"\x15");
    app.type_bytes(b"\x1b[A");
    assert_eq!(app.draft(0).text(), "//etc is a directory");
    assert_eq!(waiting(&app, 0), [""; 0]);
}

#[test]
fn the_queue_can_be_listed_edited_and_reordered_across_a_restart() {
    let mut app = streaming();
    for line in ["one", "two", "three", "/mark four", "five"] {
        app.enter(line);
    }
    app.enter("/queue");
    assert_shows(&mut app, "4   /mark four");
    app.enter("/queue first 4");
    app.enter("/queue up 4");
    assert_eq!(waiting(&app, 0), ["/mark four", "one", "three", "two", "five"]);
    app.enter("/queue drop 2");
    assert_shows(&mut app, "deleted: one");
    app.enter("/queue edit 2");
    assert_eq!(app.draft(0).text(), "three");
    app.type_bytes(b"\x15");
    let mut app = app.crash_and_restart();
    assert_eq!(waiting(&app, 0), ["/mark four", "two", "five"]);
    for (line, expected) in [("/queue edit 4", "no entry \"4\" in a queue of 3 entries"), ("/queue drop 0", "no entry")]
    {
        app.enter(&format!("\x15{line}"));
        assert_shows(&mut app, expected);
    }
    app.enter("\x15/queue clear");
    assert_shows(&mut app, "3 entries deleted");
    assert_eq!(waiting(&app, 0), [""; 0]);
    assert_eq!(waiting(&app.crash_and_restart(), 0), [""; 0]);
}

#[test]
fn a_wait_for_an_agent_ends_when_its_queue_is_cleared() {
    let mut app = streaming();
    app.enter("more");
    app.ask(0, Change::Interrupt);
    let waits = app.fork_named(0, "waits");
    let first = app.id(0);
    app.say(waits, &format!("%tool wait {{\"from\":\"{first}\"}}"));
    app.turn_until("the wait", |app| app.state(waits) == State::ExecutingTool);
    app.enter("/queue clear");
    app.turn_until("it goes on", |app| app.state(waits) == State::Idle);
}

#[test]
fn a_hundred_lines_survive_an_interrupt_a_restart_and_a_kill_of_another() {
    let mut app = streaming();
    let mut lines: Vec<String> =
        (0..100).map(|n| if n % 7 == 3 { format!("/mark {n}") } else { format!("text {n}") }).collect();
    for line in &lines {
        app.enter(line);
    }
    app.fork_named(0, "other");
    app.say(1, "%hang");
    app.say(1, "of another");
    app.escape();
    let mut app = app.crash_and_restart();
    assert_eq!(waiting(&app, 0), lines);
    let other = app.id(1);
    app.ask(0, Change::Kill { agent_id: other, cascade: false });
    app.enter("/queue edit 50");
    lines.remove(49);
    app.enter(" changed");
    lines.push("text 49 changed".into());
    app.turn_until_idle();
    let mut expected = vec!["first\n%hang".to_owned()];
    expected.extend(lines);
    assert_eq!(done(&app, 0), expected);
}

#[test]
fn sent_text_is_not_in_the_draft_after_a_crash() {
    let mut app = Harness::new(Plan::default());
    app.fork(0);
    app.switch(0);
    for line in ["a message", "%hang", "queued", "/mark queued", "/name x"] {
        // What is typed is kept when another agent comes to the screen.
        app.type_bytes(line.as_bytes());
        app.switch(1);
        app.switch(0);
        assert_eq!(app.stored_draft(0), line);
        app.enter("");
        app.turn();
        assert_eq!(app.stored_draft(0), "", "{line}");
    }
    assert_eq!(app.crash_and_restart().draft(0).text(), "");
}

#[test]
fn a_queue_that_version_1_wrote_is_sent() {
    let directory = TempDir::new().expect("a directory");
    let database = rusqlite::Connection::open(directory.path().join("polylogue.db")).expect("a database");
    database.execute_batch(include_str!("../../fixtures/store/v1.sql")).expect("the old schema");
    drop(database);
    let mut app = Harness::open(Plan::default(), directory);
    assert_eq!(waiting(&app, 0), ["and then this"]);
    app.type_bytes(b"\x15");
    app.type_bytes(b"\r");
    app.turn_until_idle();
    assert_eq!(done(&app, 0).last().map(String::as_str), Some("and then this"));
    assert_eq!(app.replies(0).last().map(String::as_str), Some("and then this"));
}

/// What a queue is, in its simplest form.
#[derive(Default)]
struct Twin {
    is_busy: bool,
    /// Its last turn was interrupted.
    is_cut: bool,
    queue: Vec<String>,
    done: Vec<String>,
}

impl Twin {
    fn enter(&mut self, line: String) {
        self.queue.push(line);
        self.go_on();
    }

    fn go_on(&mut self) {
        while !self.is_busy && !self.queue.is_empty() {
            let line = self.queue.remove(0);
            self.is_busy = !line.starts_with("/mark");
            self.is_cut &= !self.is_busy;
            self.done.push(line);
        }
    }

    fn cut(&mut self) {
        self.is_busy = false;
    }
}

/// The text of a turn that lasts until the clock is moved on.
fn text(n: usize) -> String {
    format!("text {n}\n%slow 1000\nmore")
}

fn end_turn(app: &mut Harness, twin: &mut Twin) {
    if twin.is_busy {
        twin.cut();
        twin.go_on();
    }
    let turn = app.agent(0).turn_message();
    while turn.is_some() && app.agent(0).turn_message() == turn {
        app.advance(Duration::from_millis(500));
    }
}

fn a_step(mut app: Harness, twin: &mut Twin, random: &mut Random, n: usize) -> Harness {
    let index = random.below(twin.queue.len().max(1));
    let has_queue = !twin.queue.is_empty();
    let kind = random.below(14);
    match kind {
        0..=5 => {
            let line = if kind < 4 { text(n) } else { format!("/mark {n}") };
            app.enter(&line);
            twin.enter(line);
        }
        6..=7 => {
            end_turn(&mut app, twin);
        }
        8 | 10 => {
            twin.is_cut |= twin.is_busy;
            twin.cut();
            if kind == 8 {
                app.escape();
                // Twice in a row it opens the timeline.
                app.type_bytes(b" \x7f");
            } else {
                app = app.crash_and_restart();
            }
        }
        // Without a queue, Enter would continue the turn that was cut.
        9 if has_queue || !twin.is_cut => {
            twin.go_on();
            app.type_bytes(b"\r");
        }
        11 if has_queue => {
            let line = twin.queue.remove(index);
            twin.enter(line);
            app.enter(&format!("/queue edit {}", index + 1));
            app.enter("");
        }
        12 if has_queue => {
            twin.queue.remove(index);
            app.enter(&format!("/queue drop {}", index + 1));
        }
        13 if has_queue => {
            let (verb, to) = if n.is_multiple_of(2) { ("up", index.saturating_sub(1)) } else { ("first", 0) };
            let line = twin.queue.remove(index);
            twin.queue.insert(to, line);
            app.enter(&format!("/queue {verb} {}", index + 1));
        }
        _ => {}
    }
    app
}

#[test]
fn random_queue_operations_match_a_list() {
    for seed in 1..=6 {
        let (mut random, mut twin) = (Random(seed * 7919), Twin::default());
        let mut app = Harness::new(Plan::default());
        for n in 0..120 {
            app = a_step(app, &mut twin, &mut random, n);
            let where_it_is = format!("seed {seed}, step {n}");
            assert_eq!(waiting(&app, 0), twin.queue, "{where_it_is}");
            assert_eq!(app.state(0) != State::Idle, twin.is_busy, "{where_it_is}");
            assert_eq!(done(&app, 0), twin.done, "{where_it_is}");
        }
        assert!(twin.done.len() > 20, "seed {seed} has hardly done anything: {}", twin.done.len());
    }
}
