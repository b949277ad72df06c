//! Attached terminals.

use polylogue::{Change, Fork, Turn};
use serde_json::json;

use crate::support::client::{Client, Terminal, refusal, serve, turn_until_no_client};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State, Timeout, WakeReason};

const SIZE: (u16, u16) = (80, 24);

fn child(app: &mut Harness, name: &str) {
    app.ask(0, Change::Fork(Fork { name: Some(name.into()), ..Fork::default() }));
}

#[test]
fn keys_are_answered_on_the_attached_screen() {
    let mut app = serve(Plan::default());
    let mut terminal = Terminal::attach(&app, SIZE, json!({}));
    terminal.wait_for_text(&mut app, "── agent 0");
    terminal.type_bytes("grüße 日本 🎉".as_bytes());
    terminal.wait_for_text(&mut app, "> grüße 日本 🎉");
    terminal.type_bytes(b"\r");
    app.turn_until("the answer", |app| app.replies(0) == ["grüße 日本 🎉"]);
    app.turn_until("both are shown", |_| terminal.text().matches("grüße 日本 🎉").count() == 2);
    assert!(terminal.messages.is_empty(), "{:?}", terminal.messages);
}

#[test]
fn each_terminal_has_its_own_agent_and_size() {
    let mut app = serve(Plan::default());
    child(&mut app, "left");
    child(&mut app, "right");
    let mut left = Terminal::attach(&app, (60, 20), json!({"agent": "left"}));
    let mut right = Terminal::attach(&app, (90, 30), json!({"agent": "2"}));
    left.wait_for_text(&mut app, "── left");
    right.wait_for_text(&mut app, "── right");
    app.say(1, "to the left");
    left.wait_for_text(&mut app, "to the left");
    app.turn_until_idle();
    assert!(!right.text().contains("to the left"));
    let list = Client::connect(&app).done(&mut app, "sessions", json!({}));
    let sizes: Vec<_> = (0..2).map(|n| (list[n]["columns"].as_u64(), list[n]["label"].as_str())).collect();
    assert_eq!(sizes, [(Some(60), Some("left")), (Some(90), Some("right"))]);
    assert_eq!((&list[0]["attached"], &list[0]["read_only"]), (&json!(true), &json!(false)));
}

#[test]
fn a_resized_or_cleared_terminal_is_redrawn_completely() {
    let mut app = serve(Plan::default());
    app.say(0, "some words");
    app.turn_until_idle();
    let mut terminal = Terminal::attach(&app, SIZE, json!({}));
    terminal.wait_for_text(&mut app, "some words");
    terminal.resize(40, 10);
    terminal.wait_for_text(&mut app, "some words");
    assert!(terminal.text().lines().all(|line| line.chars().count() <= 40));
    terminal.redraw();
    terminal.wait_for_text(&mut app, "some words");
    terminal.client.ask("size", json!({"columns": 65_535, "rows": 65_535}));
    app.turn_until("a size that no terminal has is bounded", |app| {
        app.repl.terminal().is_some_and(|terminal| terminal.size == (2_000, 1_000))
    });
}

#[test]
fn a_refused_attach_keeps_the_connection_open() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    let (_, message) =
        client.refused(&mut app, "attach", json!({"terminal": {"columns": 80, "rows": 24}, "agent": "nobody"}));
    assert!(message.contains("no agent \"nobody\""), "{message}");
    let (_, message) = client.refused(&mut app, "attach", json!({"terminal": {"columns": 80}}));
    assert!(message.contains("missing field `rows`"), "{message}");
    client.is_served(&mut app);
    assert_eq!(app.repl.terminal_ids(), []);
}

#[test]
fn an_attached_terminal_that_sends_other_requests_gets_errors_and_stays_attached() {
    let mut app = serve(Plan::default());
    let mut terminal = Terminal::attach(&app, SIZE, json!({}));
    terminal.wait_for_text(&mut app, "agent 0");
    for what in ["ps", "stop", "dance"] {
        terminal.client.ask(what, json!({}));
        assert_eq!(refusal(&terminal.next_message(&mut app)).0, "usage");
    }
    terminal.type_bytes(b"still here");
    terminal.wait_for_text(&mut app, "still here");
}

#[test]
fn detaching_gives_a_reason_and_the_next_terminal_shows_the_same_agent() {
    let mut app = serve(Plan::default());
    child(&mut app, "worker");
    app.say(1, "%hang");
    let mut terminal = Terminal::attach(&app, SIZE, json!({"agent": "worker"}));
    terminal.wait_for_text(&mut app, "── worker");
    for way_out in [&b"/detach\r"[..], b"/exit\r", b"\x03", b"\x04"] {
        let mut terminal = Terminal::attach(&app, SIZE, json!({}));
        terminal.wait_for_text(&mut app, "── worker");
        terminal.type_bytes(way_out);
        assert_eq!(terminal.next_message(&mut app), json!({"back": " -c"}));
        let end = terminal.next_message(&mut app);
        assert_eq!(end, json!({"end": "detached: 2 agents keep running"}));
        assert!(terminal.client.read_to_end(&mut app).is_empty());
        assert_eq!((app.repl.terminal_ids().len(), app.state(1)), (1, State::WaitingForLlm));
    }
}

#[test]
fn a_lost_terminal_leaves_its_draft_and_its_agent_to_the_next() {
    let mut app = serve(Plan::default());
    child(&mut app, "worker");
    let mut terminal = Terminal::attach(&app, SIZE, json!({"agent": "worker"}));
    terminal.type_bytes(b"half a thought");
    terminal.wait_for_text(&mut app, "> half a thought");
    drop(terminal);
    turn_until_no_client(&mut app);
    assert_eq!(app.repl.terminal_ids(), []);
    let mut terminal = Terminal::attach(&app, (50, 15), json!({}));
    terminal.wait_for_text(&mut app, "── worker");
    terminal.wait_for_text(&mut app, "> half a thought");
    // The agent dies while no terminal shows it: the next one comes to the eldest.
    drop(terminal);
    turn_until_no_client(&mut app);
    let id = app.id(1);
    app.ask(0, Change::Kill { agent_id: id, cascade: false });
    Terminal::attach(&app, SIZE, json!({})).wait_for_text(&mut app, "── agent 0");
}

#[test]
fn a_read_only_terminal_changes_nothing() {
    let mut app = serve(Plan::default());
    let mut watcher = Terminal::attach(&app, SIZE, json!({"read_only": true}));
    watcher.wait_for_text(&mut app, "agent 0");
    watcher.type_bytes(b"hello\r");
    watcher.wait_for_text(&mut app, "read-only");
    assert_eq!(app.kinds(0), Vec::<&str>::new());
    app.say(0, "seen by all");
    watcher.wait_for_text(&mut app, "seen by all");
    // The first Ctrl+C clears the refused line.
    watcher.type_bytes(b"\x03\x03");
    assert!(watcher.next_message(&mut app)["back"].is_string());
    assert!(watcher.next_message(&mut app)["end"].is_string());
}

#[test]
fn ctrl_z_suspends_the_client_and_a_continued_one_is_redrawn() {
    let mut app = serve(Plan::default());
    let mut terminal = Terminal::attach(&app, SIZE, json!({}));
    terminal.wait_for_text(&mut app, "agent 0");
    terminal.type_bytes(b"\x1a");
    assert_eq!(terminal.next_message(&mut app), json!({"suspend": {}}));
    app.say(0, "meanwhile");
    app.turn_until_idle();
    terminal.redraw();
    terminal.wait_for_text(&mut app, "meanwhile");
}

#[test]
fn a_terminal_that_reads_nothing_misses_frames_but_its_keys_work() {
    let mut app = serve(Plan::default());
    let mut terminal = Terminal::attach(&app, (200, 60), json!({}));
    terminal.wait_for_text(&mut app, "agent 0");
    // The client does not read from here on, until the socket is full and long after.
    let takes_more = |app: &mut Harness| {
        app.repl.terminal().and_then(|terminal| terminal.remote()).is_some_and(|one| one.takes_more)
    };
    let (mut round, mut vain) = (0, 0);
    while vain < 20 {
        app.say(0, &format!("%repeat 60\n{round}-{}", "wörd".repeat(40)));
        app.turn_until_idle();
        round += 1;
        vain += usize::from(!takes_more(&mut app));
        assert!(round < 2_000, "the terminal takes everything");
    }
    // What is left to do is the index of the search: nothing is drawn for a terminal that takes nothing.
    let nothing = Timeout { after: None, why: WakeReason::Nothing };
    app.turn_until("the loop waits", |app| app.timeout() == nothing);
    app.say(0, "%hang");
    terminal.type_bytes(b"\x1b");
    app.turn_until("Esc is read", |app| app.timeout().why == WakeReason::Keys);
    app.advance(std::time::Duration::from_millis(30));
    assert_eq!(app.state(0), State::Idle);
    terminal.wait_for_text(&mut app, "interrupted");
    assert!(takes_more(&mut app));
    terminal.redraw();
    terminal.wait_for_text(&mut app, &format!("{}-wörd", round - 1));
}

#[test]
fn a_hundred_terminals_attach_and_leave_during_a_stream_without_a_leak() {
    let mut app = serve(Plan::default());
    app.say(0, "%slow 1\n%repeat 5000\nword");
    for n in 0..100 {
        let mut terminal = Terminal::attach(&app, SIZE, json!({"read_only": n % 3 == 0}));
        let mut follower = Client::connect(&app);
        follower.ask("logs", json!({"agent": "0", "follow": true, "last": 10}));
        terminal.wait_for_text(&mut app, "word");
        assert!(follower.read(&mut app)["n"].is_u64());
        app.advance(std::time::Duration::from_millis(1));
        if n % 2 == 0 {
            terminal.type_bytes(b"\x03");
            app.turn_until("the end", |_| {
                terminal.look();
                terminal.client.has_ended
            });
        }
        drop((terminal, follower));
        turn_until_no_client(&mut app);
        assert_eq!((app.repl.terminal_ids(), app.repl.viewers()), (vec![], 0));
    }
    assert_eq!(app.state(0), State::WaitingForLlm);
}

#[test]
fn terminals_that_show_idle_agents_do_not_wake_the_loop() {
    let mut app = serve(Plan::default());
    let mut terminals: Vec<Terminal> = (0..3).map(|_| Terminal::attach(&app, SIZE, json!({}))).collect();
    terminals.iter_mut().for_each(|terminal| terminal.wait_for_text(&mut app, "agent 0"));
    app.turn_until("nothing is left to do", |app| app.timeout().after.is_none());
    for _ in 0..5 {
        app.turn();
        assert_eq!(app.timeout(), Timeout { after: None, why: WakeReason::Nothing });
    }
}

#[test]
fn a_server_that_ends_gives_its_terminals_the_reason() {
    let mut app = serve(Plan::default());
    let mut terminals: Vec<Terminal> = (0..2).map(|_| Terminal::attach(&app, SIZE, json!({}))).collect();
    terminals.iter_mut().for_each(|terminal| terminal.wait_for_text(&mut app, "agent 0"));
    terminals[0].type_bytes(b"not sent");
    terminals[0].wait_for_text(&mut app, "not sent");
    let mut stops = Client::connect(&app);
    stops.ask("stop", json!({}));
    assert_eq!(app.turn(), Turn::Exit);
    app.repl.leave().expect("it leaves");
    for terminal in &mut terminals {
        terminal.look();
        let end = terminal.messages.pop().expect("a last word");
        assert_eq!(end, json!({"end": "the server has ended: 1 agent is saved"}));
    }
    let mut app = Harness::open(Plan::default(), app.close());
    assert!(app.screen_text().contains("> not sent"), "the draft is kept");
}

#[test]
fn a_suspend_request_is_sent_once_when_the_client_reads_again() {
    let mut app = serve(Plan::default());
    let mut terminal = Terminal::attach(&app, (200, 60), json!({}));
    terminal.wait_for_text(&mut app, "agent 0");
    let mut round = 0;
    let takes_more = |app: &mut Harness| {
        app.repl.terminal().and_then(|terminal| terminal.remote()).is_some_and(|one| one.takes_more)
    };
    while takes_more(&mut app) {
        app.say(0, &format!("%repeat 60\n{round}-{}", "word".repeat(40)));
        app.turn_until_idle();
        round += 1;
    }
    for _ in 0..5 {
        terminal.type_bytes(&b"\x1a".repeat(100));
        app.turn();
    }
    app.turn_until("the request is read", |app| app.timeout().after.is_none());
    app.turn_until("all is read", |app| {
        terminal.look();
        app.timeout().after.is_none() && takes_more(app)
    });
    terminal.redraw();
    terminal.wait_for_text(&mut app, "agent 0");
    assert_eq!(terminal.messages, [json!({"suspend": {}})]);
}
