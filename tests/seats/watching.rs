//! A terminal that only watches: it looks where it wants, and nobody else can tell that it is there.

use polylogue::agent::State;
use polylogue::repl::Turn;

use super::house_with_lines;
use crate::support::harness::{Harness, Plan};
use crate::support::scene::house_of;
use crate::support::sitter::{Sitter, WATCHING};

const REFUSED: &str = "this terminal is read-only";

/// A watcher at agent 0, and everything of the agents that it could have disturbed.
fn watched(house: &mut Harness) -> (Sitter, Vec<String>) {
    let sitter = Sitter::new(house, (80, 24), 0, WATCHING);
    let agents = house.repl.roster().len();
    (sitter, (0..agents).map(|n| house.fingerprint(n)).collect())
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
        let mut house = house_of(2, Plan::default());
        house.say(0, "hello");
        house.turn_until_idle();
        let (mut watcher, before) = watched(&mut house);
        assert_eq!(watcher.enter(&mut house, line), Turn::Continue);
        watcher.sees(&mut house, REFUSED);
        watcher.sees(&mut house, &format!("> {line}"));
        let after: Vec<String> = (0..house.repl.roster().len()).map(|n| house.fingerprint(n)).collect();
        assert_eq!(after, before, "{line}");
        assert!(!house.directory().join("out.md").exists());
        assert_eq!(house.repl.store().input(0).expect("inputs"), None, "{line} is no input of the person's");
    }
}

#[test]
fn what_only_looks_works_and_is_told_at_it_alone() {
    let mut house = house_of(2, Plan::default());
    let (mut watcher, before) = watched(&mut house);
    for (line, words) in [("/agents", "echo/echo"), ("/sessions", "> terminal 2"), ("/usage", "all agents")] {
        watcher.enter(&mut house, line);
        watcher.sees(&mut house, words);
    }
    watcher.enter(&mut house, "/switch 1");
    assert_eq!((watcher.focus(&mut house), house.focus()), (1, 0));
    watcher.type_bytes(&mut house, b"\x1b[1;5A");
    assert_eq!(watcher.focus(&mut house), 0);
    assert_eq!([house.fingerprint(0), house.fingerprint(1)], *before);
}

#[test]
fn it_neither_stops_nor_answers_nor_takes_the_queue() {
    let mut house = house_of(1, Plan { real_time: true, ..Plan::default() });
    house.say(0, "!tool bash {\"command\":\"true\"}");
    house.turn_until_asked(0);
    house.say(0, "queued");
    let (mut watcher, before) = watched(&mut house);
    watcher.sees(&mut house, "it is answered at another terminal");
    for key in [&b"y"[..], b"n", b"\x1by", b"\x1bn", b"\x1b[A"] {
        watcher.type_bytes(&mut house, key);
        watcher.sees(&mut house, REFUSED);
    }
    watcher.remote(&mut house).input.push(b'\x1b');
    house.turn_until("Esc is refused", |house| watcher.text(house).contains(REFUSED));
    assert_eq!((house.state(0), house.fingerprint(0)), (State::AwaitingApproval, before[0].clone()));
    house.answer(0, false);
    house.turn_until_idle();
}

#[test]
fn it_sees_what_the_others_type_until_it_types_for_itself() {
    let mut house = house_of(1, Plan::default());
    let (mut watcher, _) = watched(&mut house);
    house.type_bytes(b"theirs");
    watcher.sees(&mut house, "> theirs");
    watcher.type_bytes(&mut house, b"/ag\t");
    watcher.sees(&mut house, "> /agents");
    assert_eq!(house.agent(0).view.draft.text(), "theirs");
    watcher.type_bytes(&mut house, b"\x15");
    watcher.sees(&mut house, "> theirs");
    watcher.sees(&mut house, "read-only");
    assert!(!house.screen_text().contains("read-only"));
}

#[test]
fn it_scrolls_alone_and_its_place_survives_what_is_written_above_and_below() {
    let mut house = house_with_lines(100);
    let (mut watcher, _) = watched(&mut house);
    let before = house.sent.len();
    watcher.type_bytes(&mut house, b"\x1b[5~\x1b[5~");
    let first_row = watcher.text(&mut house).lines().next().map(str::to_owned);
    assert!(first_row.as_ref().is_some_and(|row| row.contains("line ")), "{first_row:?}");
    assert_eq!(house.sent.len(), before, "the others are drawn nothing");
    house.say(0, "!repeat 50\nmore");
    house.turn_until_idle();
    assert_eq!(watcher.text(&mut house).lines().next().map(str::to_owned), first_row);
    house.type_bytes(b"\x1b[1;5H");
    assert_eq!(watcher.text(&mut house).lines().next().map(str::to_owned), first_row);
    watcher.type_bytes(&mut house, b"\x1b[1;5F");
    watcher.sees(&mut house, "more");
    assert!(house.screen_text().contains("there is more below"), "the others stay at the top");
}
