//! `attach`: a terminal at the other end of a connection, with the same program on it.

use polylogue::agent::State;
use polylogue::domain::flow::Change;
use polylogue::repl::{Timeout, Turn, Why};
use serde_json::json;

use crate::support::caller::{Caller, Terminal, refusal, serve, turn_until_alone};
use crate::support::harness::{Harness, Plan};

const SIZE: (u16, u16) = (80, 24);

fn child(house: &mut Harness, name: &str) {
    house.ask(0, Change::Fork { prompt: None, name: Some(name.into()), model: None });
}

#[test]
fn what_is_typed_far_away_is_answered_on_the_screen_there() {
    let mut house = serve(Plan::default());
    let mut terminal = Terminal::attach(&house, SIZE, json!({}));
    terminal.sees(&mut house, "── agent 0");
    terminal.type_bytes("grüße 日本 🎉".as_bytes());
    terminal.sees(&mut house, "> grüße 日本 🎉");
    terminal.type_bytes(b"\r");
    house.turn_until("the answer", |house| house.replies(0) == ["grüße 日本 🎉"]);
    house.turn_until("both stand there", |_| terminal.text().matches("grüße 日本 🎉").count() == 2);
    assert!(terminal.told.is_empty(), "{:?}", terminal.told);
}

#[test]
fn each_terminal_has_its_own_agent_and_size() {
    let mut house = serve(Plan::default());
    child(&mut house, "left");
    child(&mut house, "right");
    let mut left = Terminal::attach(&house, (60, 20), json!({"who": "left"}));
    let mut right = Terminal::attach(&house, (90, 30), json!({"who": "2"}));
    left.sees(&mut house, "── left");
    right.sees(&mut house, "── right");
    house.say(1, "to the left");
    left.sees(&mut house, "to the left");
    house.turn_until_idle();
    assert!(!right.text().contains("to the left"));
    let list = Caller::knock(&house).done(&mut house, "sessions", json!({}));
    let sizes: Vec<_> = (0..2).map(|n| (list[n]["columns"].as_u64(), list[n]["label"].as_str())).collect();
    assert_eq!(sizes, [(Some(60), Some("left")), (Some(90), Some("right"))]);
    assert_eq!((&list[0]["attached"], &list[0]["read_only"]), (&json!(true), &json!(false)));
}

#[test]
fn a_terminal_that_is_resized_or_has_lost_its_picture_is_drawn_whole() {
    let mut house = serve(Plan::default());
    house.say(0, "some words");
    house.turn_until_idle();
    let mut terminal = Terminal::attach(&house, SIZE, json!({}));
    terminal.sees(&mut house, "some words");
    terminal.resize(40, 10);
    terminal.sees(&mut house, "some words");
    assert!(terminal.text().lines().all(|line| line.chars().count() <= 40));
    terminal.redraw();
    terminal.sees(&mut house, "some words");
    terminal.caller.ask("size", json!({"columns": 65_535, "rows": 65_535}));
    house.turn_until("a size that no terminal has is bounded", |house| {
        house.repl.seat().is_some_and(|seat| seat.size == (2_000, 1_000))
    });
}

#[test]
fn what_cannot_be_attached_is_refused_and_the_connection_goes_on() {
    let mut house = serve(Plan::default());
    let mut caller = Caller::knock(&house);
    let (_, words) = caller.refused(&mut house, "attach", json!({"columns": 80, "rows": 24, "who": "nobody"}));
    assert!(words.contains("no agent \"nobody\""), "{words}");
    let (_, words) = caller.refused(&mut house, "attach", json!({"columns": 80}));
    assert!(words.contains("\"rows\" is missing"), "{words}");
    caller.is_served(&mut house);
    assert_eq!(house.repl.seat_ids(), []);
}

#[test]
fn a_terminal_is_told_what_it_cannot_ask_for_and_stays() {
    let mut house = serve(Plan::default());
    let mut terminal = Terminal::attach(&house, SIZE, json!({}));
    terminal.sees(&mut house, "agent 0");
    for what in ["ps", "stop", "dance"] {
        terminal.caller.ask(what, json!({}));
        assert_eq!(refusal(&terminal.is_told(&mut house)).0, "usage");
    }
    terminal.type_bytes(b"still here");
    terminal.sees(&mut house, "still here");
}

#[test]
fn who_lets_go_is_told_how_to_come_back_and_comes_back_to_the_same_agent() {
    let mut house = serve(Plan::default());
    child(&mut house, "worker");
    house.say(1, "!hang");
    let mut terminal = Terminal::attach(&house, SIZE, json!({"who": "worker"}));
    terminal.sees(&mut house, "── worker");
    for way_out in [&b"/detach\r"[..], b"/exit\r", b"\x03", b"\x04"] {
        let mut terminal = Terminal::attach(&house, SIZE, json!({}));
        terminal.sees(&mut house, "── worker");
        terminal.type_bytes(way_out);
        let end = terminal.is_told(&mut house);
        assert_eq!(end, json!({"end": "detached: 2 agents go on"}));
        assert!(terminal.caller.hear_out(&mut house).is_empty());
        assert_eq!((house.repl.seat_ids().len(), house.state(1)), (1, State::WaitingForLlm));
    }
}

#[test]
fn a_terminal_that_is_lost_leaves_its_draft_and_its_place() {
    let mut house = serve(Plan::default());
    child(&mut house, "worker");
    let mut terminal = Terminal::attach(&house, SIZE, json!({"who": "worker"}));
    terminal.type_bytes(b"half a thought");
    terminal.sees(&mut house, "> half a thought");
    drop(terminal);
    turn_until_alone(&mut house);
    assert_eq!(house.repl.seat_ids(), []);
    let mut terminal = Terminal::attach(&house, (50, 15), json!({}));
    terminal.sees(&mut house, "── worker");
    terminal.sees(&mut house, "> half a thought");
    // The agent dies while nobody looks: the next one comes to the eldest.
    drop(terminal);
    turn_until_alone(&mut house);
    let id = house.id(1);
    house.ask(0, Change::Kill { who: id, cascade: false });
    Terminal::attach(&house, SIZE, json!({})).sees(&mut house, "── agent 0");
}

#[test]
fn who_only_watches_changes_nothing() {
    let mut house = serve(Plan::default());
    let mut watcher = Terminal::attach(&house, SIZE, json!({"read_only": true}));
    watcher.sees(&mut house, "agent 0");
    watcher.type_bytes(b"hello\r");
    watcher.sees(&mut house, "read-only");
    assert_eq!(house.kinds(0), Vec::<&str>::new());
    house.say(0, "seen by all");
    watcher.sees(&mut house, "seen by all");
    watcher.type_bytes(b"\x03");
    assert!(watcher.is_told(&mut house)["end"].is_string());
}

#[test]
fn who_stops_its_process_is_asked_to_and_is_drawn_anew_when_it_goes_on() {
    let mut house = serve(Plan::default());
    let mut terminal = Terminal::attach(&house, SIZE, json!({}));
    terminal.sees(&mut house, "agent 0");
    terminal.type_bytes(b"\x1a");
    assert_eq!(terminal.is_told(&mut house), json!({"suspend": true}));
    house.say(0, "meanwhile");
    house.turn_until_idle();
    terminal.redraw();
    terminal.sees(&mut house, "meanwhile");
}

#[test]
fn a_terminal_that_takes_nothing_misses_frames_is_heard_and_then_sees_the_newest() {
    let mut house = serve(Plan::default());
    let mut terminal = Terminal::attach(&house, (200, 60), json!({}));
    terminal.sees(&mut house, "agent 0");
    // Nobody reads from here on, until the socket is full and long after.
    let takes_more =
        |house: &mut Harness| house.repl.seat().and_then(|seat| seat.remote()).is_some_and(|one| one.takes_more);
    let (mut round, mut vain) = (0, 0);
    while vain < 20 {
        house.say(0, &format!("!repeat 60\n{round}-{}", "wörd".repeat(40)));
        house.turn_until_idle();
        round += 1;
        vain += usize::from(!takes_more(&mut house));
        assert!(round < 2_000, "the terminal takes everything");
    }
    assert_eq!(house.timeout(), Timeout { after: None, why: Why::Nothing }, "the loop does not draw for nobody");
    house.say(0, "!hang");
    terminal.type_bytes(b"\x1b");
    house.turn_until("Esc is heard", |house| house.timeout().why == Why::Keys);
    house.advance(std::time::Duration::from_millis(30));
    assert_eq!(house.state(0), State::Idle);
    terminal.sees(&mut house, "interrupted");
    assert!(takes_more(&mut house));
    terminal.redraw();
    terminal.sees(&mut house, &format!("{}-wörd", round - 1));
}

#[test]
fn a_hundred_terminals_come_and_go_while_an_agent_streams_and_leave_nothing_behind() {
    let mut house = serve(Plan::default());
    house.say(0, "!slow 1\n!repeat 5000\nword");
    for n in 0..100 {
        let mut terminal = Terminal::attach(&house, SIZE, json!({"read_only": n % 3 == 0}));
        let mut follower = Caller::knock(&house);
        follower.ask("logs", json!({"who": "0", "follow": true, "last": 10}));
        terminal.sees(&mut house, "word");
        assert!(follower.hear(&mut house)["n"].is_u64());
        house.advance(std::time::Duration::from_millis(1));
        if n % 2 == 0 {
            terminal.type_bytes(b"\x03");
            house.turn_until("the end", |_| {
                terminal.look();
                terminal.caller.has_ended
            });
        }
        drop((terminal, follower));
        turn_until_alone(&mut house);
        assert_eq!((house.repl.seat_ids(), house.repl.viewers()), (vec![], 0));
    }
    assert_eq!(house.state(0), State::WaitingForLlm);
}

#[test]
fn terminals_that_look_at_a_quiet_house_do_not_wake_it() {
    let mut house = serve(Plan::default());
    let mut terminals: Vec<Terminal> = (0..3).map(|_| Terminal::attach(&house, SIZE, json!({}))).collect();
    terminals.iter_mut().for_each(|terminal| terminal.sees(&mut house, "agent 0"));
    house.turn_until("nothing is left to do", |house| house.timeout().after.is_none());
    for _ in 0..5 {
        house.turn();
        assert_eq!(house.timeout(), Timeout { after: None, why: Why::Nothing });
    }
}

#[test]
fn when_the_server_ends_its_terminals_are_told_how_to_go_on() {
    let mut house = serve(Plan::default());
    let mut terminals: Vec<Terminal> = (0..2).map(|_| Terminal::attach(&house, SIZE, json!({}))).collect();
    terminals.iter_mut().for_each(|terminal| terminal.sees(&mut house, "agent 0"));
    terminals[0].type_bytes(b"not sent");
    terminals[1].sees(&mut house, "not sent");
    let mut stops = Caller::knock(&house);
    stops.ask("stop", json!({}));
    assert_eq!(house.turn(), Turn::Exit);
    house.repl.leave().expect("it leaves");
    for terminal in &mut terminals {
        terminal.look();
        let end = terminal.told.pop().expect("a last word");
        assert_eq!(end, json!({"end": "the server has ended: 1 agent is kept"}));
    }
    let mut house = Harness::open(Plan::default(), house.close());
    assert!(house.screen_text().contains("> not sent"), "the draft is kept");
}

#[test]
fn who_stops_its_process_and_reads_nothing_is_asked_once_when_it_reads() {
    let mut house = serve(Plan::default());
    let mut terminal = Terminal::attach(&house, (200, 60), json!({}));
    terminal.sees(&mut house, "agent 0");
    let mut round = 0;
    let takes_more =
        |house: &mut Harness| house.repl.seat().and_then(|seat| seat.remote()).is_some_and(|one| one.takes_more);
    while takes_more(&mut house) {
        house.say(0, &format!("!repeat 60\n{round}-{}", "word".repeat(40)));
        house.turn_until_idle();
        round += 1;
    }
    for _ in 0..5 {
        terminal.type_bytes(&b"\x1a".repeat(100));
        house.turn();
    }
    house.turn_until("it is heard", |house| house.timeout().after.is_none());
    house.turn_until("all is read", |house| {
        terminal.look();
        house.timeout().after.is_none() && takes_more(house)
    });
    terminal.redraw();
    terminal.sees(&mut house, "agent 0");
    assert_eq!(terminal.told, [json!({"suspend": true})]);
}
