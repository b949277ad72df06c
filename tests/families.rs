//! Very deep, very wide and very old families: histories are right, everything is reached, and nothing recurses. Each
//! test runs on a stack in which one frame per ancestor would not fit.

use polylogue::domain::flow::Change;
use polylogue::domain::history::History;
use polylogue::domain::message::Body;
use rusqlite::Connection;

use crate::support::harness::{Harness, Plan};

const MANY: usize = 1_000;
/// Enough for one turn of the loop, too little for a thousand frames of any size worth the name on top of it.
const STACK: usize = 192 * 1024;
const CTRL_UP: &[u8] = b"\x1b[1;5A";
const CTRL_DOWN: &[u8] = b"\x1b[1;5B";
const CTRL_RIGHT: &[u8] = b"\x1b[1;5C";
const CTRL_LEFT: &[u8] = b"\x1b[1;5D";

fn on_a_small_stack(test: fn()) {
    let thread = std::thread::Builder::new().name("small".into()).stack_size(STACK);
    let outcome = thread.spawn(test).expect("a thread").join();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// `MANY` descendants of agent 0, the parent of each chosen by its number, each with a word of its own.
fn family(parent_of: fn(usize) -> usize) -> Harness {
    let mut house = Harness::new(Plan::default());
    house.say(0, "word 0");
    house.turn_until_idle();
    for n in 1..=MANY {
        let prompt = Some(format!("word {n}"));
        house.ask(parent_of(n), Change::Fork { prompt, name: None, model: None });
        house.turn_until_idle();
    }
    house
}

/// What the `n`th agent's person said, as the store has it, and as memory does, if it was read.
fn said(house: &Harness, n: usize) -> Vec<String> {
    let told = |history: &History| {
        let text = |body: &Body| if let Body::User(text) = body { Some(text.clone()) } else { None };
        history.conversation().into_iter().filter_map(|message| text(&message.body)).collect::<Vec<_>>()
    };
    let stored = told(&History::from_messages(house.log(n)));
    if let Some(history) = &house.agent(n).talk.history {
        assert_eq!(told(history), stored);
    }
    stored
}

fn words(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("word {n}")).collect()
}

fn focus(house: &mut Harness) -> usize {
    let focus = house.repl.seat().expect("a terminal").focus;
    house.repl.roster().ids().iter().position(|id| *id == focus).expect("it lives")
}

#[test]
fn a_chain_of_a_thousand_forks_knows_all_its_ancestors_is_walked_and_dies_as_a_whole() {
    on_a_small_stack(|| {
        let house = family(|n| n - 1);
        assert_eq!(said(&house, MANY), words(0..=MANY));
        let mut house = house.crash_and_restart();
        assert!(house.agent(MANY).talk.history.is_none(), "nobody has looked at it");
        house.say(MANY, "again");
        house.turn_until_idle();
        assert_eq!(said(&house, MANY).len(), MANY + 2);
        assert_eq!(said(&house, MANY / 2), words(0..=MANY / 2));

        house.switch(MANY);
        house.enter("/agents");
        assert!(house.screen_text().contains(&format!("agent {MANY}")), "{}", house.screen_text());
        house.type_bytes(&CTRL_UP.repeat(3));
        assert_eq!(focus(&mut house), MANY - 3);
        house.type_bytes(CTRL_DOWN);
        assert_eq!(focus(&mut house), MANY - 2);

        house.switch(MANY / 2);
        house.enter("/kill 1 --cascade");
        assert_eq!((house.repl.roster().len(), focus(&mut house)), (1, 0));
        let house = house.crash_and_restart();
        assert_eq!(house.repl.roster().len(), 1);
        assert_eq!(said(&house, 0), words([0]));
    });
}

#[test]
fn in_a_chain_of_a_thousand_whose_middle_has_died_everybody_has_the_nearest_living_parent() {
    let house = family(|n| n - 1);
    let mut house = house.crash_and_restart();
    for _ in 1..MANY {
        let who = house.id(1);
        house.ask(0, Change::Kill { who, cascade: false });
    }
    let is_adopted = |house: &Harness| house.repl.roster().parent(house.id(1)) == Some(house.id(0));
    assert!(house.repl.roster().len() == 2 && is_adopted(&house));
    let house = house.crash_and_restart();
    assert!(house.repl.roster().len() == 2 && is_adopted(&house));
    assert_eq!(said(&house, 1), words(0..=MANY), "the dead are still its past");
}

#[test]
fn a_thousand_children_are_listed_reached_and_know_only_their_own() {
    on_a_small_stack(|| {
        let house = family(|_| 0);
        let mut house = house.crash_and_restart();
        for n in [1, MANY / 2, MANY] {
            assert_eq!(said(&house, n), words([0, n]));
        }
        house.type_bytes(CTRL_DOWN);
        assert_eq!(focus(&mut house), MANY, "the newest child");
        house.type_bytes(CTRL_RIGHT);
        assert_eq!(focus(&mut house), 1, "around the end");
        house.type_bytes(CTRL_LEFT);
        assert_eq!(focus(&mut house), MANY);
        house.enter("/agents");
        assert!(house.screen_text().contains(&format!("agent {MANY}")), "{}", house.screen_text());
        house.enter(&format!("/switch {}", MANY / 2));
        assert_eq!(focus(&mut house), MANY / 2);
        house.type_bytes(CTRL_UP);
        assert_eq!(focus(&mut house), 0);
    });
}

/// Fills the log of agent 0 behind the program's back.
fn fill(directory: &std::path::Path, messages: usize) {
    let mut conn = Connection::open(directory.join("polylogue.db")).expect("a database");
    let transaction = conn.transaction().expect("a transaction");
    let row = "INSERT INTO messages (agent, kind, content, created_at) VALUES (0, ?1, ?2, 0)";
    for n in 0..messages {
        let kind = if n % 2 == 0 { "user" } else { "assistant" };
        transaction.prepare_cached(row).expect("the table").execute((kind, format!("line {n}"))).expect("a row");
    }
    transaction.commit().expect("a commit");
}

#[test]
fn a_start_with_a_hundred_thousand_messages_reads_a_screenful() {
    let directory = Harness::new(Plan::default()).close();
    fill(directory.path(), 100_000);
    let mut house = Harness::open(Plan::default(), directory);
    assert!(house.screen_text().contains("line 99999"), "{}", house.screen_text());
    assert!(house.agent(0).talk.history.is_none(), "what no model was told yet is not read");
    assert!(house.agent(0).view.wants_older_than().is_some_and(|oldest| oldest.is_some_and(|id| id.0 > 99_000)));
}
