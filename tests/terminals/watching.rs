//! A read-only terminal: it shows any agent, and changes nothing for others.

use std::time::Duration;

use polylogue::Turn;

use super::app_with_lines;
use crate::support::attached::{AttachedTerminal, WATCHING};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::scene::app_with_agents;

const REFUSED: &str = "this terminal is read-only";

/// A read-only terminal at agent 0, and the fingerprints of all agents.
fn watched(app: &mut Harness) -> (AttachedTerminal, Vec<String>) {
    let attached = AttachedTerminal::new(app, (80, 24), 0, WATCHING);
    let agents = app.repl.roster().len();
    (attached, (0..agents).map(|n| app.fingerprint(n)).collect())
}

#[test]
fn nothing_that_is_typed_at_it_changes_anything_for_others() {
    let lines = [
        "a message",
        "/fork",
        "/name other",
        "/kill",
        "/env chat",
        "/mark here",
        "/clear",
        "/slice 0:",
        "/thinking high",
        "/system be brief",
        "/queue clear",
        "/export md out.md",
    ];
    for line in lines {
        let mut app = app_with_agents(2, Plan::default());
        app.say(0, "hello");
        app.turn_until_idle();
        let (mut watcher, before) = watched(&mut app);
        assert_eq!(watcher.enter(&mut app, line), Turn::Continue);
        watcher.assert_sees(&mut app, REFUSED);
        watcher.assert_sees(&mut app, &format!("> {line}"));
        let after: Vec<String> = (0..app.repl.roster().len()).map(|n| app.fingerprint(n)).collect();
        assert_eq!(after, before, "{line}");
        assert!(!app.directory().join("out.md").exists());
        assert_eq!(app.repl.store().input("", 0).expect("inputs"), None, "{line} is no input of the person's");
    }
}

#[test]
fn read_only_commands_work_and_answer_at_that_terminal_alone() {
    let mut app = app_with_agents(2, Plan::default());
    let (mut watcher, before) = watched(&mut app);
    for (line, expected) in [("/agents", "echo/echo"), ("/sessions", "> terminal 2"), ("/usage", "all agents")] {
        watcher.enter(&mut app, line);
        watcher.assert_sees(&mut app, expected);
    }
    watcher.enter(&mut app, "/switch 1");
    assert_eq!((watcher.focus(&mut app), app.focus()), (1, 0));
    watcher.type_bytes(&mut app, b"\x1b[1;5A");
    assert_eq!(watcher.focus(&mut app), 0);
    assert_eq!([app.fingerprint(0), app.fingerprint(1)], *before);
}

#[test]
fn it_neither_stops_nor_answers_nor_takes_the_queue() {
    let mut app = app_with_agents(1, Plan { real_time: true, ..Plan::default() });
    app.say(0, "%tool bash {\"command\":\"true\"}");
    app.turn_until_asked(0);
    app.say(0, "queued");
    let (mut watcher, before) = watched(&mut app);
    watcher.assert_sees(&mut app, "answer at another terminal");
    let appeared = app.clock.now();
    app.turn_until("keys answer", |app| app.clock.now() > appeared + Duration::from_millis(300));
    for key in [&b"y"[..], b"n", b"\x1by", b"\x1bn", b"\x1b[A"] {
        watcher.type_bytes(&mut app, key);
        watcher.assert_sees(&mut app, REFUSED);
    }
    watcher.remote(&mut app).input.push(b'\x1b');
    app.turn_until("Esc is refused", |app| watcher.text(app).contains(REFUSED));
    assert_eq!((app.state(0), app.fingerprint(0)), (State::AwaitingApproval, before[0].clone()));
    app.answer(0, false);
    app.turn_until_idle();
}

#[test]
fn it_sees_what_the_others_type_until_it_types_for_itself() {
    let mut app = app_with_agents(1, Plan::default());
    let (mut watcher, _) = watched(&mut app);
    app.type_bytes(b"theirs");
    watcher.assert_sees(&mut app, "> theirs");
    watcher.type_bytes(&mut app, b"/ag\t");
    watcher.assert_sees(&mut app, "> /agents");
    assert_eq!(app.draft(0).text(), "theirs");
    watcher.type_bytes(&mut app, b"\x15");
    watcher.assert_sees(&mut app, "> theirs");
    watcher.assert_sees(&mut app, "read-only");
    assert!(!app.screen_text().contains("read-only"));
}

#[test]
fn it_scrolls_alone_and_its_position_survives_what_is_written_above_and_below() {
    let mut app = app_with_lines(100);
    let (mut watcher, _) = watched(&mut app);
    let before = app.sent.len();
    watcher.type_bytes(&mut app, b"\x1b[5~\x1b[5~");
    let first_row = watcher.text(&mut app).lines().next().map(str::to_owned);
    assert!(first_row.as_ref().is_some_and(|row| row.contains("line ")), "{first_row:?}");
    assert_eq!(app.sent.len(), before, "the others are drawn nothing");
    app.say(0, "%repeat 50\nmore");
    app.turn_until_idle();
    assert_eq!(watcher.text(&mut app).lines().next().map(str::to_owned), first_row);
    app.type_bytes(b"\x1b[1;5H");
    assert_eq!(watcher.text(&mut app).lines().next().map(str::to_owned), first_row);
    watcher.type_bytes(&mut app, b"\x1b[1;5F");
    watcher.assert_sees(&mut app, "more");
    assert!(app.screen_text().contains("more below"), "the others stay at the top");
}
