//! Very deep and very wide trees of agents: histories are right, every agent is reached, and nothing recurses. Each
//! test runs on a stack in which one frame per ancestor would not fit.

use polylogue::{Change, Fork};
use rusqlite::Connection;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, History, Probe};
use crate::support::size::scaled;

/// Enough for one turn of the loop, too little for a thousand stack frames on top of it.
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

/// A thousand descendants, or a part of them.
fn many() -> usize {
    scaled(1_000, 150)
}

/// [`many`] descendants of agent 0, each with a message of its own; the parent of each is chosen by its number.
fn family(parent_of: fn(usize) -> usize) -> Harness {
    let mut app = Harness::new(Plan::default());
    app.say(0, "word 0");
    app.turn_until_idle();
    for n in 1..=many() {
        let prompt = Some(format!("word {n}"));
        app.ask(parent_of(n), Change::Fork(Fork { prompt, ..Fork::default() }));
        app.turn_until_idle();
    }
    app
}

/// The user messages of the `n`th agent in the store, which are those in memory if its history was loaded.
fn user_texts(app: &Harness, n: usize) -> Vec<String> {
    let texts_in = |history: &History| {
        let text = |body: &Body| if let Body::User(text) = body { Some(text.clone()) } else { None };
        history.conversation().into_iter().filter_map(|message| text(&message.body)).collect::<Vec<_>>()
    };
    let stored = texts_in(&History::from_messages(app.log(n)));
    if let Some(history) = &app.agent(n).inputs.history {
        assert_eq!(texts_in(history), stored);
    }
    stored
}

fn numbered(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("word {n}")).collect()
}

fn focus(app: &mut Harness) -> usize {
    let focus = app.repl.terminal().expect("a terminal").focus;
    app.repl.roster().ids().iter().position(|id| *id == focus).expect("it lives")
}

#[test]
fn a_long_chain_of_forks_has_all_ancestors_is_listed_and_killed_as_a_whole() {
    on_a_small_stack(|| {
        let app = family(|n| n - 1);
        assert_eq!(user_texts(&app, many()), numbered(0..=many()));
        let mut app = app.crash_and_restart();
        assert!(app.agent(many()).inputs.history.is_none(), "it was not loaded");
        app.say(many(), "again");
        app.turn_until_idle();
        assert_eq!(user_texts(&app, many()).len(), many() + 2);
        assert_eq!(user_texts(&app, many() / 2), numbered(0..=many() / 2));

        app.switch(many());
        app.enter("/agents");
        assert!(app.screen_text().contains(&format!("agent {}", many())), "{}", app.screen_text());
        app.type_bytes(&CTRL_UP.repeat(3));
        assert_eq!(focus(&mut app), many() - 3);
        app.type_bytes(CTRL_DOWN);
        assert_eq!(focus(&mut app), many() - 2);

        app.switch(many() / 2);
        app.enter("/kill 1 --cascade");
        assert_eq!((app.repl.roster().len(), focus(&mut app)), (1, 0));
        let app = app.crash_and_restart();
        assert_eq!(app.repl.roster().len(), 1);
        assert_eq!(user_texts(&app, 0), numbered([0]));
    });
}

#[test]
fn in_a_long_chain_with_its_middle_killed_every_agent_has_its_nearest_living_ancestor() {
    let app = family(|n| n - 1);
    let mut app = app.crash_and_restart();
    for _ in 1..many() {
        let agent_id = app.id(1);
        app.ask(0, Change::Kill { agent_id, cascade: false });
    }
    let is_adopted = |app: &Harness| app.repl.roster().parent(app.id(1)) == Some(app.id(0));
    assert!(app.repl.roster().len() == 2 && is_adopted(&app));
    let app = app.crash_and_restart();
    assert!(app.repl.roster().len() == 2 && is_adopted(&app));
    assert_eq!(user_texts(&app, 1), numbered(0..=many()), "the dead are still its past");
}

#[test]
fn many_children_are_listed_reached_and_know_only_their_own() {
    on_a_small_stack(|| {
        let app = family(|_| 0);
        let mut app = app.crash_and_restart();
        for n in [1, many() / 2, many()] {
            assert_eq!(user_texts(&app, n), numbered([0, n]));
        }
        app.type_bytes(CTRL_DOWN);
        assert_eq!(focus(&mut app), many(), "the newest child");
        app.type_bytes(CTRL_RIGHT);
        assert_eq!(focus(&mut app), 1, "around the end");
        app.type_bytes(CTRL_LEFT);
        assert_eq!(focus(&mut app), many());
        app.enter("/agents");
        assert!(app.screen_text().contains(&format!("agent {}", many())), "{}", app.screen_text());
        app.enter(&format!("/switch {}", many() / 2));
        assert_eq!(focus(&mut app), many() / 2);
        app.type_bytes(CTRL_UP);
        assert_eq!(focus(&mut app), 0);
    });
}

/// Fills the log of agent 0 directly in the database.
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
    let mut app = Harness::open(Plan::default(), directory);
    assert!(app.screen_text().contains("line 99999"), "{}", app.screen_text());
    assert!(app.agent(0).inputs.history.is_none(), "a history that was not sent yet is not read");
    assert!(app.agent(0).view.load_before().is_some_and(|oldest| oldest.is_some_and(|id| id.0 > 99_000)));
}
