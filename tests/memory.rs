//! `/mark`, `/rewind` and `/clear`, checked in the request bodies.

use polylogue::{Change, HistoryEdit};

use crate::support::harness::Harness;
use crate::support::internals::State;
use crate::support::peer::Peer;
use crate::support::scene::{app, assert_refused, assert_shows, bash, converse, reply_with_calls, texts_in};

/// Sends this message of the agent on the screen, which is answered; returns the request.
fn ask(app: &mut Harness, peer: &Peer, text: &str) -> Vec<String> {
    texts_in(&ask_for_bytes(app, peer, text))
}

fn ask_for_bytes(app: &mut Harness, peer: &Peer, text: &str) -> Vec<u8> {
    let focus = app.focus();
    converse(app, peer, focus, text, "yes")
}

#[test]
fn a_rewind_forgets_what_came_after_the_mark_to_the_byte_also_after_a_restart() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "one");
    app.enter("/mark");
    let expected = ask_for_bytes(&mut app, &peer, "two");
    ask(&mut app, &peer, "three");
    app.enter("/rewind");
    assert_eq!(ask_for_bytes(&mut app, &peer, "two"), expected);
    app.enter("/rewind");
    assert_eq!(ask_for_bytes(&mut app, &peer, "two"), expected, "a mark can be gone back to again");
    app.enter("/rewind");
    let mut app = app.crash_and_restart();
    assert_eq!(ask_for_bytes(&mut app, &peer, "two"), expected);
    app.enter("/rewind");
    assert_eq!(ask_for_bytes(&mut app, &peer, "two"), expected, "marks are there after a restart");
}

#[test]
fn a_rewind_goes_to_the_newest_mark_of_its_label_and_forgets_the_marks_behind_it() {
    let peer = Peer::start();
    let mut app = app(&peer);
    for (mark, text) in [("here", "one"), ("there", "two"), ("here", "three"), ("a long label", "four")] {
        app.enter(&format!("/mark {mark}"));
        ask(&mut app, &peer, text);
    }
    app.enter("/rewind here");
    assert_eq!(ask(&mut app, &peer, "a"), ["one", "yes", "two", "yes", "a"]);
    assert_refused(&mut app, "/rewind a long label", "no mark \"a long label\" to rewind to");
    app.enter("/rewind there");
    assert_eq!(ask(&mut app, &peer, "b"), ["one", "yes", "b"]);
    app.enter("/rewind here");
    assert_eq!(ask(&mut app, &peer, "c"), ["c"]);
}

#[test]
fn without_a_mark_there_is_nothing_to_go_back_to() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "one");
    assert_refused(&mut app, "/rewind", "no mark to rewind to: /mark sets one");
    app.enter("/mark here");
    assert_refused(&mut app, "/rewind there", "no mark \"there\" to rewind to");
    app.enter("/clear");
    assert_refused(&mut app, "/rewind here", "no mark \"here\" to rewind to");
    assert_eq!(ask(&mut app, &peer, "two"), ["two"]);
}

#[test]
fn a_clear_forgets_everything_also_after_a_restart_and_in_children_made_later() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let first = ask_for_bytes(&mut app, &peer, "one");
    ask(&mut app, &peer, "two");
    app.enter("/clear");
    assert_eq!(ask_for_bytes(&mut app, &peer, "one"), first);
    app.enter("/clear");
    app.fork_named(0, "child");
    let mut app = app.crash_and_restart();
    assert_eq!(ask_for_bytes(&mut app, &peer, "one"), first);
    app.switch(1);
    assert_eq!(ask_for_bytes(&mut app, &peer, "one"), first);
    assert_refused(&mut app, "/clear all", "/clear undo takes the last /clear back");
}

#[test]
fn a_clear_does_not_empty_the_screen_and_reports_what_it_did() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "something to scroll back to");
    app.enter("/clear");
    for expected in ["something to scroll back to", "no longer sees the messages above"] {
        assert!(app.screen_text().contains(expected), "{}", app.screen_text());
    }
}

#[test]
fn clear_undo_brings_back_what_was_before_and_keeps_what_came_after_also_after_a_restart() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "one");
    app.enter("/mark here");
    app.enter("/clear");
    assert_shows(&mut app, "/clear undo brings them back");
    assert_eq!(ask(&mut app, &peer, "two"), ["two"]);
    app.enter("/clear undo");
    assert_shows(&mut app, "the model sees the earlier messages again");
    assert_eq!(ask(&mut app, &peer, "three"), ["one", "yes", "two", "yes", "three"]);
    app.enter("/clear");
    let mut app = app.crash_and_restart();
    assert!(!app.screen_text().contains("  one"));
    app.enter("/clear undo");
    for expected in ["┃ three", "clear undone"] {
        assert_shows(&mut app, expected);
    }
    assert_eq!(ask(&mut app, &peer, "four"), ["one", "yes", "two", "yes", "three", "yes", "four"]);
    let mut app = app.crash_and_restart();
    app.enter("/rewind here");
    assert_eq!(ask(&mut app, &peer, "five"), ["one", "yes", "five"], "the mark before it counts again");
    assert_refused(&mut app, "/clear undo", "nothing to undo");
}

#[test]
fn each_clear_undo_takes_back_one_clear_and_a_child_that_of_its_own_only() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "one");
    app.enter("/clear");
    ask(&mut app, &peer, "two");
    app.enter("/clear");
    app.fork_named(0, "child");
    app.switch(1);
    assert_refused(&mut app, "/clear undo", "nothing to undo");
    ask(&mut app, &peer, "three");
    app.enter("/clear");
    app.enter("/clear undo");
    assert_eq!(ask(&mut app, &peer, "four"), ["three", "yes", "four"]);
    app.switch(0);
    app.enter("/clear undo");
    assert_eq!(ask(&mut app, &peer, "five"), ["two", "yes", "five"]);
    let mut app = app.crash_and_restart();
    app.enter("/clear undo");
    assert_eq!(ask(&mut app, &peer, "six"), ["one", "yes", "two", "yes", "five", "yes", "six"]);
    app.switch(1);
    assert_eq!(
        ask(&mut app, &peer, "seven"),
        ["three", "yes", "four", "yes", "seven"],
        "nothing changed for the child"
    );
}

#[test]
fn a_slice_begins_with_a_clear_that_cannot_be_undone() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "one");
    ask(&mut app, &peer, "two");
    app.enter("/slice 2:");
    app.switch(1);
    assert_refused(&mut app, "/clear undo", "nothing to undo");
}

#[test]
fn a_child_knows_no_mark_of_its_parent_and_its_own_are_its_own() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "one");
    app.enter("/mark here");
    ask(&mut app, &peer, "two");
    app.enter("/fork --name child");
    assert_refused(&mut app, "/rewind", "no mark");
    assert_refused(&mut app, "/rewind here", "no mark");
    app.enter("/mark here");
    let expected = ask_for_bytes(&mut app, &peer, "three");
    app.enter("/rewind here");
    assert_eq!(ask_for_bytes(&mut app, &peer, "three"), expected);
    let mut app = app.crash_and_restart();
    assert_eq!(app.focus(), 0);
    app.enter("/rewind here");
    assert_eq!(ask(&mut app, &peer, "four"), ["one", "yes", "four"]);
    app.switch(1);
    app.enter("/rewind");
    assert_eq!(ask_for_bytes(&mut app, &peer, "three"), expected);
}

#[test]
fn a_clear_in_a_child_cuts_off_all_its_ancestors_for_it_alone() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "of the root");
    for (name, text) in [("child", "of the child"), ("cut", "of the cut"), ("last", "of the last")] {
        app.enter(&format!("/fork --name {name}"));
        if name == "cut" {
            app.enter("/clear");
        }
        ask(&mut app, &peer, text);
    }
    let mut expected = vec!["of the cut", "yes", "of the last", "yes"];
    let mut above = vec!["of the root", "yes", "of the child", "yes"];
    let mut app = Some(app);
    for text in ["before", "after the restart"] {
        let mut now = app.take().expect("an open program").crash_and_restart();
        for (name, list) in [("last", &mut expected), ("child", &mut above)] {
            now.switch(now.n(name));
            list.push(text);
            assert_eq!(ask(&mut now, &peer, text), *list, "{name}");
            list.push("yes");
        }
        app = Some(now);
    }
}

#[test]
fn a_rewind_in_a_parent_is_inherited_by_children_made_after_it_and_by_no_other() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "one");
    app.enter("/mark");
    ask(&mut app, &peer, "two");
    app.fork_named(0, "before");
    app.enter("/rewind");
    app.fork_named(0, "after");
    let mut app = app.crash_and_restart();
    for (name, expected) in [("before", vec!["one", "yes", "two", "yes", "go"]), ("after", vec!["one", "yes", "go"])] {
        app.switch(app.n(name));
        assert_eq!(ask(&mut app, &peer, "go"), expected, "{name}");
    }
}

/// Each of these would change the conversation in the middle of a turn: typed, it waits its turn; else it is refused.
fn assert_busy(app: &mut Harness) {
    let (id, before) = (app.id(0), app.kinds(0));
    for line in ["/mark there", "/rewind here", "/rewind", "/clear"] {
        app.enter(line);
        assert_shows(app, &format!("{line}: queued at position 1"));
        app.type_bytes(b"\x1b[A");
        assert_eq!(app.draft(0).text(), line);
        app.type_bytes(b"\x15");
    }
    for change in [
        Change::EditHistory(HistoryEdit::Mark("there".into())),
        Change::EditHistory(HistoryEdit::Rewind(None)),
        Change::EditHistory(HistoryEdit::Clear),
    ] {
        let refused = app.repl.apply(id, change).expect_err("it is busy");
        assert!(refused.message.contains("agent 0 is busy: wait, or press Esc to interrupt it"), "{refused}");
    }
    assert_eq!(app.kinds(0), before);
}

#[test]
fn clear_and_mark_are_refused_while_the_agent_is_busy() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/mark here");
    app.say(0, "do it");
    let request = app.accept(&peer);
    assert_busy(&mut app);
    request.stream().text("half");
    app.turn_until("the half", |app| app.agent(0).partial_text() == "half");
    assert_busy(&mut app);
    request.tool_call(0, "call", "bash", &bash("true")).finish("tool_calls").done();
    app.turn_until_asked(0);
    assert_busy(&mut app);
    app.escape();
    assert_eq!(app.state(0), State::Idle);
    app.enter("/rewind here");
    assert_eq!(ask(&mut app, &peer, "again"), ["again"]);
}

#[test]
fn a_rewind_behind_an_interrupted_round_of_tools_leaves_no_call_without_its_result() {
    let peer = Peer::start();
    let mut app = app(&peer);
    ask(&mut app, &peer, "one");
    app.say(0, "do it");
    reply_with_calls(&app.accept(&peer), &[("wait", "{}")]);
    app.turn_until("it waits", |app| app.state(0) == State::ExecutingTool);
    app.ask(0, Change::Interrupt);
    app.enter("/mark");
    ask(&mut app, &peer, "two");
    app.enter("/rewind");
    let body = ask_for_bytes(&mut app, &peer, "three");
    crate::support::scene::assert_valid(&serde_json::from_slice(&body).expect("JSON"));
    assert_eq!(texts_in(&body)[..3], ["one", "yes", "do it"]);
    assert!(!texts_in(&body).contains(&"two".to_owned()));
}
