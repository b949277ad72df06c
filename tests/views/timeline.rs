//! The timeline of a conversation: what happened, and forks, rewinds and undos from any point of it.

use std::fs;

use polylogue::config::Policy;
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::peer::Peer;
use crate::support::scene::{app, assert_shows, converse};

/// An agent that has written two files, one of them twice.
fn worked() -> Harness {
    let mut app =
        Harness::new(Plan { policy: Policy::Yolo, rules: Default::default(), real_time: true, ..Plan::default() });
    let write =
        |path: &str, content: &str| format!("%tool write_file {}", json!({"file_path": path, "content": content}));
    app.say(0, "hello");
    app.turn_until_idle();
    app.say(0, &write("cart", "one\n"));
    app.turn_until_idle();
    app.say(0, &format!("%tool read_file {}\n%next\n{}", json!({"file_path": "cart"}), write("cart", "two\n")));
    app.turn_until_idle();
    app.say(0, &write("list", "three\n"));
    app.turn_until_idle();
    app
}

/// Marks the newest entry that shows this text in its row.
fn mark(app: &mut Harness, text: &str) {
    let is_marked =
        |app: &mut Harness| app.screen_text().lines().any(|line| line.starts_with('>') && line.contains(text));
    for _ in 0..40 {
        if is_marked(app) {
            return;
        }
        app.type_bytes(b"k");
    }
    panic!("{text:?} cannot be marked:\n{}", app.screen_text());
}

fn undone(app: &mut Harness) {
    app.turn_until("the end of the undo", |app| !app.repl.is_undoing());
    app.turn();
}

#[test]
fn everything_that_happened_is_listed_and_unfolds() {
    let mut app = worked();
    app.escape();
    assert!(!app.screen_text().contains("timeline"));
    app.escape();
    assert_shows(&mut app, "agent 0 ─ timeline ─ 12 messages");
    assert_shows(&mut app, "1 file");
    assert_shows(&mut app, "ctx ");
    mark(&mut app, "write_file list");
    assert_shows(&mut app, "files changed from");
    assert_shows(&mut app, "on: list");
    app.type_bytes(b"\r");
    assert_shows(&mut app, "created list (6 bytes)");
    app.type_bytes(b"\r");
    mark(&mut app, "write_file cart");
    assert_shows(&mut app, "on: cart, list");
    app.escape();
    assert!(!app.screen_text().contains("timeline"));
    app.type_bytes(b"\x18t");
    assert_shows(&mut app, "agent 0 ─ timeline ─");
    app.escape();
    app.type_bytes(b"text");
    app.escape();
    app.escape();
    assert!(!app.screen_text().contains("timeline"), "the first Esc cleared the draft");
    for size in [(20, 6), (9, 3), (1, 1)] {
        app.resize(size);
        app.enter("/timeline");
        app.type_bytes(b"kk\rj\r");
        app.type_bytes(b"cc");
        app.escape();
        app.escape();
        app.escape();
        app.type_bytes(b"\x15");
    }
}

#[test]
fn a_child_is_forked_from_a_message_or_begins_with_another_one() {
    let mut app = worked();
    app.enter("/timeline");
    mark(&mut app, "you");
    app.type_bytes(b"\x1b[H");
    mark(&mut app, "hello");
    app.type_bytes(b"f");
    assert_eq!(app.repl.roster().len(), 2);
    assert_eq!(app.kinds(1).iter().filter(|kind| **kind == "user").count(), 1);
    app.switch(0);
    app.enter("/timeline");
    assert_shows(&mut app, "1 fork");
    assert_shows(&mut app, "├─ fork");
    mark(&mut app, "%tool read_file");
    app.type_bytes(b"e");
    assert_eq!((app.focus(), app.repl.roster().len()), (2, 3));
    assert!(app.draft(2).text().contains("two"), "{}", app.draft(2).text());
    assert_eq!(app.kinds(2).iter().filter(|kind| **kind == "user").count(), 2);
    app.switch(0);
    app.enter("/timeline");
    app.type_bytes(b"\x1b[H");
    mark(&mut app, "hello");
    app.type_bytes(b"j");
    assert_shows(&mut app, "├─ fork");
}

#[test]
fn a_conversation_is_rewound_and_the_message_is_in_the_draft_again() {
    let mut app = worked();
    app.enter("/timeline");
    mark(&mut app, "%tool read_file");
    app.type_bytes(b"w");
    assert!(app.draft(0).text().contains("%tool read_file"));
    let known = app.agent(0).inputs.history.as_ref().expect("a history").conversation().len();
    app.type_bytes(b"\x03");
    app.say(0, "again");
    app.turn_until_idle();
    let then = app.agent(0).inputs.history.as_ref().expect("a history").conversation().len();
    assert_eq!((known, then), (6, 8));
    app.enter("/timeline");
    assert_shows(&mut app, "rewound to message");
}

#[test]
fn files_are_brought_back_to_before_a_message_and_compared_between_two() {
    let mut app = worked();
    let top = app.directory();
    app.enter("/timeline");
    mark(&mut app, "write_file list");
    app.type_bytes(b"c");
    assert_shows(&mut app, "comparing from");
    mark(&mut app, "read_file");
    app.type_bytes(b"c");
    assert_shows(&mut app, "/cart  +1 -1 lines");
    assert_shows(&mut app, "+two");
    assert!(!app.screen_text().contains("+three"), "{}", app.screen_text());
    app.escape();
    app.type_bytes(b"u");
    undone(&mut app);
    assert_eq!(fs::read_to_string(top.join("cart")).unwrap(), "one\n");
    assert!(!top.join("list").exists());
    assert_shows(&mut app, "2 files brought back to before message");
    app.enter("/timeline");
    assert_shows(&mut app, "undone");
    app.escape();
    app.enter("/diff");
    app.turn_until("compared", |app| app.screen_text().contains("agent 0 has changed 1 file"));
    assert_shows(&mut app, "+one");
}

#[test]
fn a_reply_is_seen_while_it_streams_and_a_running_tool_cannot_be_forked_from() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "hello", "hi there");
    app.say(0, "go on");
    let exchange = app.accept(&peer);
    exchange.stream().text("first words");
    app.turn_until("the reply so far", |app| app.agent(0).partial_text() == "first words");
    app.enter("/timeline");
    assert_shows(&mut app, "first words");
    exchange.text(" and more");
    app.turn_until("more on the screen", |app| app.screen_text().contains("first words and more"));
    app.type_bytes(b"k");
    exchange.finish("stop").done();
    app.turn_until("the end", |app| app.state(0) == State::Idle);
    app.turn();
    assert_shows(&mut app, "first words and more");
    let row = app.screen_text().lines().find(|line| line.starts_with('>')).map(str::to_owned);
    assert!(row.is_some_and(|row| row.contains("hi there")), "the mark stays at its message");
}

/// Keys beyond the end of a text were counted, and as many keys back did nothing.
#[test]
fn a_text_that_was_scrolled_beyond_its_end_moves_back_at_the_first_key() {
    let mut app = Harness::new(Plan::default());
    let lines: Vec<String> = (0..60).map(|n| format!("line {n}")).collect();
    app.say(0, &lines.join("\n"));
    app.turn_until_idle();
    app.enter("/timeline");
    app.type_bytes(b"\x1b[H\r");
    assert_shows(&mut app, "line 0");
    app.type_bytes(&b"\x1b[B".repeat(100));
    assert_shows(&mut app, "line 59");
    assert!(!app.screen_text().contains("line 58"), "{}", app.screen_text());
    app.type_bytes(b"\x1b[A");
    assert_shows(&mut app, "line 58");
    app.resize((30, 12));
    app.turn();
    assert_shows(&mut app, "line 58");
}
