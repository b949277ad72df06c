//! Search over the messages of all agents.

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Probe};
use crate::support::scene::{app_with_agents, assert_shows};

const CTRL_F: &[u8] = b"\x06";

/// Agent 1 was told about the CSRF token, agent 2 about locks.
fn two_subjects() -> Harness {
    let mut app = app_with_agents(3, Plan::default());
    app.say(1, "mind the CSRF token in the cart");
    app.say(2, "what about locks");
    app.turn_until_idle();
    app
}

#[test]
fn words_find_messages_of_all_agents_as_they_are_typed() {
    let mut app = two_subjects();
    app.type_bytes(CTRL_F);
    assert_shows(&mut app, "── search ─");
    app.type_bytes(b"csrf");
    assert_shows(&mut app, "── search ─ 2 in 1 agent");
    assert_shows(&mut app, "mind the CSRF token in the cart");
    app.type_bytes(b" is:prompt");
    assert_shows(&mut app, "── search ─ 1 in 1 agent");
    app.type_bytes(b"\r");
    assert_eq!(app.focus(), 1, "Enter goes to the agent of the only message");
    assert!(!app.screen_text().contains("search ─"));
}

#[test]
fn enter_scrolls_to_the_message() {
    let mut app = app_with_agents(2, Plan::default());
    for n in 0..300 {
        app.say(1, &format!("topic{n} of the conversation"));
        app.turn_until_idle();
    }
    for n in [3, 150, 290, 299] {
        app.switch(0);
        app.enter(&format!("/search topic{n} is:prompt"));
        app.type_bytes(b"\t\r");
        assert_eq!(app.focus(), 1);
        assert_shows(&mut app, &format!("┃ topic{n} of the conversation"));
        let is_shown = |app: &mut Harness, n: usize| app.screen_text().contains(&format!("┃ topic{n} "));
        assert!(n < 299 || is_shown(&mut app, 299), "the end of the conversation fills the screen");
        assert!(n == 299 || !is_shown(&mut app, 299));
        // What is older is there.
        for _ in 0..10 {
            app.type_bytes(b"\x1b[5~");
        }
        assert!(!is_shown(&mut app, n));
        assert!(is_shown(&mut app, n - 3) || (0..n).any(|older| is_shown(&mut app, older)));
        app.type_bytes(b"\x1b[1;5F");
        assert!(is_shown(&mut app, 299));
    }
}

#[test]
fn a_message_of_an_agent_at_work_is_not_scrolled_to() {
    let mut app = two_subjects();
    app.say(1, "begun\n%hang");
    app.turn_until("a reply", |app| app.agent(1).partial_text() == "begun");
    app.enter("/search csrf is:prompt");
    app.type_bytes(b"\t\r");
    assert_eq!(app.focus(), 1);
    assert_shows(&mut app, "at work: PgUp scrolls there");
    assert_shows(&mut app, "begun");
}

#[test]
fn a_message_is_quoted_or_forked_from() {
    let mut app = two_subjects();
    app.type_bytes(b"and?");
    app.enter("\x15/search csrf is:reply");
    app.type_bytes(b"\tq");
    assert_eq!(app.draft(0).expanded(), "> mind the CSRF token in the cart\n");
    app.type_bytes(b"\x03");
    app.enter("/search csrf is:prompt");
    app.type_bytes(b"\tf");
    let child = app.repl.roster().len() - 1;
    assert_eq!((child, app.repl.roster().parent(app.id(child))), (3, Some(app.id(1))));
    assert_eq!(app.focus(), child);
    app.say(child, "more");
    app.turn_until_idle();
    assert_eq!(app.replies(child), ["more"], "the reply after the message is not inherited");
}

#[test]
fn what_was_killed_is_found_and_said_to_be_gone() {
    let mut app = two_subjects();
    let killed = format!("{} (kil", app.id(1).short());
    app.enter_and_confirm("/kill 1");
    app.enter("/search csrf");
    assert_shows(&mut app, &killed);
    app.type_bytes(b"\t\r");
    assert_shows(&mut app, "this agent was killed");
    app.type_bytes(b"f");
    let child = app.repl.roster().len() - 1;
    assert_eq!((child, app.focus()), (2, 2));
    assert_shows(&mut app, "mind the CSRF token in the cart");
}

#[test]
fn a_wrong_filter_and_an_empty_result_are_said() {
    let mut app = two_subjects();
    app.enter("/search is:nonsense");
    assert_shows(&mut app, "is:nonsense is unknown");
    app.type_bytes(b"\x15zebra ");
    assert_shows(&mut app, "nothing found");
    app.type_bytes(b"?\x1ba");
    app.escape();
    for size in [(20, 6), (9, 3), (1, 1)] {
        app.resize(size);
        app.type_bytes(CTRL_F);
        app.type_bytes(b"csrf\t");
        app.escape();
        app.escape();
    }
}

#[test]
fn thousands_of_messages_are_indexed_beside_the_chat_and_found_after_a_restart() {
    let mut app = app_with_agents(1, Plan::default());
    for n in 0..150 {
        app.say(0, &format!("message number{n}"));
        app.turn_until_idle();
    }
    app.enter("/search \"number3\"");
    assert_shows(&mut app, "── search ─ 2 in 1 agent");
    let mut app = app.crash_and_restart();
    app.enter("/search number140 is:reply");
    assert_shows(&mut app, "── search ─ 1 in 1 agent");
}

#[test]
fn what_many_short_runs_have_left_is_indexed_at_the_next_start() {
    let app = app_with_agents(1, Plan::default());
    let bodies = (0..5_000).map(|n| Body::User(format!("left{n} zebra"))).collect();
    app.repl.store().append(app.id(0), bodies, 0).expect("messages");
    let mut app = app.crash_and_restart();
    app.turn();
    app.turn_until("the index is complete", |app| app.timeout().after.is_none());
    app.enter("/search \"left3\"");
    assert_shows(&mut app, "── search ─ 1 in 1 agent");
}

#[test]
fn keys_that_need_what_is_found_wait_for_it() {
    let mut app = two_subjects();
    app.type_bytes(CTRL_F);
    app.type_bytes(b"csrf is:prompt\r");
    assert_eq!(app.focus(), 1, "{}", app.screen_text());
}

/// A search opens the database once more.
#[test]
fn a_search_that_fails_says_why() {
    let mut app = two_subjects();
    let database = app.data().join("polylogue.db");
    std::fs::rename(&database, app.data().join("moved.db")).expect("renamed");
    std::os::unix::fs::symlink("moved.db", &database).expect("a link");
    app.enter("/search csrf");
    assert!(app.screen_text().contains("polylogue.db: is a symbolic link: remove it"), "{}", app.screen_text());
}

#[test]
fn the_same_keys_move_in_what_was_found_as_in_other_lists() {
    let mut app = two_subjects();
    app.type_bytes(CTRL_F);
    app.type_bytes(b"csrf\t");
    let mut marked = |keys: &[u8]| {
        app.type_bytes(keys);
        app.screen_text().lines().position(|line| line.starts_with('>')).expect("a marked row")
    };
    let first = marked(b"");
    assert_eq!([marked(b"j"), marked(b"k"), marked(b"\x1b[F"), marked(b"\x1b[H")].map(|row| row - first), [1, 0, 1, 0]);
}
