//! Texts and commands in one queue: none is lost, none comes twice, none out of order, whatever happens.

use std::sync::atomic::Ordering;
use std::time::Duration;

use polylogue::agent::State;
use polylogue::domain::flow::Change;
use polylogue::domain::history::History;
use tempfile::TempDir;

use super::{done, waiting};
use crate::support::dice::Dice;
use crate::support::harness::{Harness, Plan};
use crate::support::scene::assert_shows;

/// Agent 0 streams and will not end by itself.
fn streaming() -> Harness {
    let mut house = Harness::new(Plan::default());
    house.enter("first\n!hang");
    house.turn_until("the words", |house| !house.agent(0).partial_text().is_empty());
    house
}

#[test]
fn commands_in_the_queue_are_carried_out_between_the_texts_and_several_in_a_row() {
    let mut house = streaming();
    for line in ["second", "/mark a", "/mark b", "//mark is a command", "/mark c"] {
        house.enter(line);
    }
    assert_eq!(waiting(&house, 0), ["second", "/mark a", "/mark b", "//mark is a command", "/mark c"]);
    assert_shows(&mut house, "/mark c waits its turn: queued as 5");
    assert_shows(&mut house, "queued 2: /mark a");
    assert_shows(&mut house, "and 2 more");
    house.escape();
    house.type_bytes(b"\r");
    house.turn_until_idle();
    let expected = ["first\n!hang", "second", "/mark a", "/mark b", "/mark is a command", "/mark c"];
    assert_eq!(done(&house, 0), expected);
    assert_eq!(waiting(&house, 0), [""; 0]);
}

#[test]
fn a_command_that_fails_stays_where_it_is_and_what_is_behind_it_waits() {
    let mut house = streaming();
    house.enter("/rewind nowhere");
    house.enter("behind it");
    house.escape();
    house.type_bytes(b"\r");
    assert_shows(&mut house, "no mark \"nowhere\"");
    assert_shows(&mut house, "the queue waits at /rewind nowhere");
    assert_eq!((house.state(0), waiting(&house, 0)), (State::Idle, vec!["/rewind nowhere".into(), "behind it".into()]));
    assert_shows(&mut house, "(/queue drop 1, then Enter,");
    let mut house = house.crash_and_restart();
    house.enter("/queue drop 1");
    house.type_bytes(b"\r");
    house.turn_until_idle();
    assert_eq!(done(&house, 0), ["first\n!hang", "behind it"]);
}

/// What the model of agent 0 would be told now, and what after a restart: messages with their ids.
fn told_and_stored(house: &Harness) -> (String, String) {
    let stored = History::from_messages(house.repl.store().replay(house.id(0)).expect("a history").0);
    let known = house.agent(0).talk.history.as_ref().expect("it has spoken");
    (format!("{:?}", known.conversation()), format!("{:?}", stored.conversation()))
}

#[test]
fn a_command_that_is_carried_out_and_cannot_be_committed_has_not_happened() {
    for line in ["/mark b", "/rewind a", "/slice -1:", "/slice summarize::", "/clear"] {
        let mut house = Harness::new(Plan::default());
        house.ask(0, Change::Mark("a".into()));
        house.say(0, "first\n!hang");
        house.ask(0, Change::Enqueue(line.into()));
        house.escape();
        let seen = |house: &Harness| (house.log(0), house.repl.roster().len(), house.agent(0).summaries());
        let (before, told) = (seen(&house), told_and_stored(&house).0);
        house.is_disk_full.store(true, Ordering::Relaxed);
        house.ask(0, Change::Resume);
        assert_eq!((seen(&house), told_and_stored(&house)), (before, (told.clone(), told)), "{line}");
        assert_eq!(waiting(&house, 0), [line]);
        assert_shows(&mut house, &format!("the queue waits at {line}"));

        house.is_disk_full.store(false, Ordering::Relaxed);
        house.ask(0, Change::Resume);
        let (told, stored) = told_and_stored(&house);
        assert_eq!((told, waiting(&house, 0)), (stored, Vec::new()), "{line}");
    }
}

#[test]
fn a_command_that_cannot_be_meant_is_refused_before_it_is_queued() {
    let mut house = streaming();
    house.enter("/clear everything");
    assert_shows(&mut house, "takes nothing behind it");
    assert_eq!(house.agent(0).view.draft.text(), "/clear everything");
    assert_eq!(waiting(&house, 0), [""; 0]);
}

#[test]
fn what_is_taken_back_is_the_line_that_was_typed() {
    let mut house = streaming();
    house.enter("//etc is a directory");
    house.enter("/clear");
    house.type_bytes(b"\x1b[A");
    assert_eq!(house.agent(0).view.draft.text(), "/clear");
    let mut house = house.crash_and_restart();
    assert_eq!(house.agent(0).view.draft.text(), "/clear", "taken back and kept, in one step");
    house.type_bytes(b"\x15");
    house.type_bytes(b"\x1b[A");
    assert_eq!(house.agent(0).view.draft.text(), "//etc is a directory");
    assert_eq!(waiting(&house, 0), [""; 0]);
}

#[test]
fn the_queue_is_listed_edited_and_put_into_another_order_which_survives() {
    let mut house = streaming();
    for line in ["one", "two", "three", "/mark four", "five"] {
        house.enter(line);
    }
    house.enter("/queue");
    assert_shows(&mut house, "4   /mark four");
    house.enter("/queue first 4");
    house.enter("/queue up 4");
    assert_eq!(waiting(&house, 0), ["/mark four", "one", "three", "two", "five"]);
    house.enter("/queue drop 2");
    assert_shows(&mut house, "thrown away: one");
    house.enter("/queue edit 2");
    assert_eq!(house.agent(0).view.draft.text(), "three");
    house.type_bytes(b"\x15");
    let mut house = house.crash_and_restart();
    assert_eq!(waiting(&house, 0), ["/mark four", "two", "five"]);
    for (line, words) in [("/queue edit 4", "\"4\" is no place in a queue of 3"), ("/queue drop 0", "is no place")] {
        house.enter(&format!("\x15{line}"));
        assert_shows(&mut house, words);
    }
    house.enter("\x15/queue clear");
    assert_shows(&mut house, "3 entries thrown away");
    assert_eq!(waiting(&house, 0), [""; 0]);
    assert_eq!(waiting(&house.crash_and_restart(), 0), [""; 0]);
}

#[test]
fn who_waits_for_an_agent_to_rest_goes_on_when_its_queue_is_cleared() {
    let mut house = streaming();
    house.enter("more");
    house.ask(0, Change::Interrupt);
    let waits = house.fork_named(0, "waits");
    let first = house.id(0);
    house.say(waits, &format!("!tool wait {{\"from\":\"{first}\"}}"));
    house.turn_until("the wait", |house| house.state(waits) == State::ExecutingTool);
    house.enter("/queue clear");
    house.turn_until("it goes on", |house| house.state(waits) == State::Idle);
}

#[test]
fn a_hundred_lines_survive_an_interrupt_a_restart_and_a_kill_of_another() {
    let mut house = streaming();
    let mut lines: Vec<String> =
        (0..100).map(|n| if n % 7 == 3 { format!("/mark {n}") } else { format!("text {n}") }).collect();
    for line in &lines {
        house.enter(line);
    }
    house.fork_named(0, "other");
    house.say(1, "!hang");
    house.say(1, "of another");
    house.escape();
    let mut house = house.crash_and_restart();
    assert_eq!(waiting(&house, 0), lines);
    let other = house.id(1);
    house.ask(0, Change::Kill { who: other, cascade: false });
    house.enter("/queue edit 50");
    lines.remove(49);
    house.enter(" changed");
    lines.push("text 49 changed".into());
    house.turn_until_idle();
    let mut expected = vec!["first\n!hang".to_owned()];
    expected.extend(lines);
    assert_eq!(done(&house, 0), expected);
}

#[test]
fn what_was_sent_does_not_stand_in_the_draft_after_a_crash() {
    let mut house = Harness::new(Plan::default());
    house.fork(0);
    house.switch(0);
    for line in ["a message", "!hang", "queued", "/mark queued", "/name x"] {
        // What is typed is kept when another agent comes to the screen.
        house.type_bytes(line.as_bytes());
        house.switch(1);
        house.switch(0);
        assert_eq!(house.repl.store().draft(house.id(0)).expect("a draft"), line);
        house.enter("");
        house.turn();
        assert_eq!(house.repl.store().draft(house.id(0)).expect("a draft"), "", "{line}");
    }
    assert_eq!(house.crash_and_restart().agent(0).view.draft.text(), "");
}

#[test]
fn a_queue_that_version_1_wrote_is_sent() {
    let directory = TempDir::new().expect("a directory");
    let database = rusqlite::Connection::open(directory.path().join("polylogue.db")).expect("a database");
    database.execute_batch(include_str!("../../fixtures/store/v1.sql")).expect("the old schema");
    drop(database);
    let mut house = Harness::open(Plan::default(), directory);
    assert_eq!(waiting(&house, 0), ["and then this"]);
    house.type_bytes(b"\x15");
    house.type_bytes(b"\r");
    house.turn_until_idle();
    assert_eq!(done(&house, 0).last().map(String::as_str), Some("and then this"));
    assert_eq!(house.replies(0).last().map(String::as_str), Some("and then this"));
}

/// What a queue is, in its simplest form.
#[derive(Default)]
struct Twin {
    is_busy: bool,
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
            self.done.push(line);
        }
    }

    fn cut(&mut self) {
        self.is_busy = false;
    }
}

/// The text of a turn that lasts until the clock is moved on.
fn text(n: usize) -> String {
    format!("text {n}\n!slow 1000\nmore")
}

fn a_step(house: Harness, twin: &mut Twin, dice: &mut Dice, n: usize) -> Harness {
    let mut house = house;
    let place = dice.below(twin.queue.len().max(1));
    let has_queue = !twin.queue.is_empty();
    match dice.below(14) {
        0..=3 => {
            twin.enter(text(n));
            house.enter(&text(n));
        }
        4..=5 => {
            twin.enter(format!("/mark {n}"));
            house.enter(&format!("/mark {n}"));
        }
        6..=7 => {
            if twin.is_busy {
                twin.cut();
                twin.go_on();
            }
            let turn = house.agent(0).turn_message();
            while turn.is_some() && house.agent(0).turn_message() == turn {
                house.advance(Duration::from_millis(500));
            }
        }
        8 => {
            twin.cut();
            house.escape();
        }
        9 => {
            twin.go_on();
            house.type_bytes(b"\r");
        }
        10 => {
            twin.cut();
            house = house.crash_and_restart();
        }
        11 if has_queue => {
            let line = twin.queue.remove(place);
            twin.enter(line);
            house.enter(&format!("/queue edit {}", place + 1));
            house.enter("");
        }
        12 if has_queue => {
            twin.queue.remove(place);
            house.enter(&format!("/queue drop {}", place + 1));
        }
        13 if has_queue => {
            let (verb, to) = if n.is_multiple_of(2) { ("up", place.saturating_sub(1)) } else { ("first", 0) };
            let line = twin.queue.remove(place);
            twin.queue.insert(to, line);
            house.enter(&format!("/queue {verb} {}", place + 1));
        }
        _ => {}
    }
    house
}

#[test]
fn every_sequence_of_what_can_happen_to_a_queue_leaves_what_a_list_would() {
    for seed in 1..=6 {
        let (mut dice, mut twin) = (Dice(seed * 7919), Twin::default());
        let mut house = Harness::new(Plan::default());
        for n in 0..120 {
            house = a_step(house, &mut twin, &mut dice, n);
            let where_it_is = format!("seed {seed}, step {n}");
            assert_eq!(waiting(&house, 0), twin.queue, "{where_it_is}");
            assert_eq!(house.state(0) != State::Idle, twin.is_busy, "{where_it_is}");
            assert_eq!(done(&house, 0), twin.done, "{where_it_is}");
        }
        assert!(twin.done.len() > 20, "seed {seed} has hardly done anything: {}", twin.done.len());
    }
}
