//! Several terminals at one loop: each shows the agent of its choice in its own size, and gets only what concerns it.

mod answers;
mod asking;
mod drafts;
mod inline;
mod leaving;
mod watching;

use std::time::Duration;

use polylogue::{Change, Clock, Config, Repl, Store};
use tempfile::TempDir;

use crate::support::attached::{ATTACHED, AttachedTerminal, WATCHING};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Device, Probe, State, TerminalMode, WakeReason};
use crate::support::random::Random;
use crate::support::scene::{app_with_agents, assert_shows};

/// Every terminal shows what it would show if it were drawn again.
fn assert_all_true(app: &mut Harness, terminals: &mut [AttachedTerminal]) {
    for attached in terminals {
        let shown = attached.text(app);
        assert_eq!(shown, attached.text_drawn_anew(app), "{}", attached.at);
    }
}

/// A reply of agent 0 to scroll through.
fn app_with_lines(count: usize) -> Harness {
    let mut app = app_with_agents(1, Plan::default());
    let text: Vec<String> = (0..count).map(|n| format!("line {n:03}")).collect();
    app.say(0, &text.join("\n"));
    app.turn_until_idle();
    app
}

#[test]
fn two_terminals_look_at_two_agents_and_what_is_typed_at_one_is_typed_to_its_own() {
    let mut app = app_with_agents(2, Plan::default());
    let mut other = AttachedTerminal::new(&mut app, (60, 20), 1, ATTACHED);
    app.enter("to the first");
    other.enter(&mut app, "to the second");
    app.turn_until_idle();
    assert_eq!((app.replies(0), app.replies(1).last()), (vec!["to the first".into()], Some(&"to the second".into())));
    assert_shows(&mut app, "to the first");
    other.assert_sees(&mut app, "to the second");
    other.assert_does_not_see(&mut app, "to the first");
    assert_eq!((app.focus(), other.focus(&mut app)), (0, 1));
}

#[test]
fn two_terminals_at_one_agent_show_every_change_of_its_text_at_their_size() {
    let mut app = app_with_agents(1, Plan { size: Some((100, 40)), ..Plan::default() });
    let mut small = AttachedTerminal::new(&mut app, (30, 9), 0, ATTACHED);
    app.enter("one two");
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["one two"]);
    small.assert_sees(&mut app, "  one two");
    small.resize(&mut app, (90, 33));
    small.assert_sees(&mut app, "many agents in one terminal");
    app.say(0, "%repeat 40\nagain");
    app.turn_until_idle();
    assert_all_true(&mut app, &mut [small]);
}

#[test]
fn a_terminal_whose_screen_does_not_change_is_sent_nothing() {
    let mut app = app_with_agents(2, Plan::default());
    let mut same = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    let mut other = AttachedTerminal::new(&mut app, (80, 24), 1, ATTACHED);
    for attached in [&mut same, &mut other] {
        attached.drawn(&mut app);
    }
    app.type_bytes(b"typed");
    assert_eq!([same.drawn(&mut app), other.drawn(&mut app)], [0, 0]);
    // The error for a refused line is shown at the terminal that entered it only.
    other.enter(&mut app, "/nonsense");
    assert_eq!(same.drawn(&mut app), 0);
    assert!(other.drawn(&mut app) > 0);
}

#[test]
fn notices_stand_only_where_they_were_asked_for() {
    let mut app = app_with_agents(1, Plan::default());
    let mut other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    other.enter(&mut app, "/nonsense");
    other.assert_sees(&mut app, "unknown command /nonsense");
    assert!(!app.screen_text().contains("unknown command /nonsense"));
    other.type_bytes(&mut app, b"\x15/f\t");
    other.assert_sees(&mut app, "/fork");
    app.say(0, "%hang");
    other.type_bytes(&mut app, b"\x15");
    other.enter(&mut app, "/mark later");
    other.assert_sees(&mut app, "/mark later: queued at position 1");
    assert!(!app.screen_text().contains("queued at position"));
    other.type_bytes(&mut app, b"\x1b[1;5A");
    other.assert_sees(&mut app, "no agent in that direction");
    assert!(!app.screen_text().contains("in that direction"));
    // A key removes only the note at its own terminal.
    app.type_bytes(b"x\x7f");
    other.assert_sees(&mut app, "no agent in that direction");
}

#[test]
fn a_text_is_copied_at_the_terminal_that_asked() {
    let mut app = app_with_agents(1, Plan::default());
    app.say(0, "hello");
    app.turn_until_idle();
    let other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    let before = app.sent.len();
    other.enter(&mut app, "/copy");
    let copied = |bytes: &[u8]| bytes.windows(5).any(|five| five == b"\x1b]52;");
    assert!(copied(&other.remote(&mut app).output));
    assert!(!copied(&app.sent[before..]));
}

#[test]
fn a_fork_moves_only_the_terminal_that_asked_and_only_if_it_still_looks_there() {
    let mut app = app_with_agents(1, Plan::default());
    app.say(0, "hello");
    app.turn_until_idle();
    let other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    let third = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    other.enter(&mut app, "/fork --name kid");
    let kid = app.n("kid");
    assert_eq!((app.focus(), other.focus(&mut app), third.focus(&mut app)), (0, kid, 0));
    third.enter(&mut app, "/slice 0:");
    assert_eq!((app.focus(), other.focus(&mut app), third.focus(&mut app)), (0, kid, 2));
    third.enter(&mut app, "/env chat");
    assert_eq!((app.focus(), other.focus(&mut app), third.focus(&mut app)), (0, kid, 3));
}

#[test]
fn a_parked_or_queued_fork_moves_only_the_terminal_that_asked_if_it_is_still_there() {
    for (is_gone, line) in [
        (false, "/fork --include-current --name kid"),
        (true, "/fork --include-current --name kid"),
        (false, "/slice 0:"),
        (true, "/slice 0:"),
    ] {
        let mut app = app_with_agents(1, Plan { real_time: true, ..Plan::default() });
        app.say(0, "%tool bash {\"command\":\"true\"}");
        app.turn_until_asked(0);
        let other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
        let third = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
        other.enter(&mut app, line);
        assert_eq!(app.repl.roster().len(), 1, "{line} waits");
        if is_gone {
            app.repl.detach_device(other.at);
        }
        app.answer(0, true);
        app.turn_until("the child", |app| app.repl.roster().len() == 2);
        assert_eq!((app.focus(), third.focus(&mut app)), (0, 0), "{line}");
        if !is_gone {
            assert_eq!(other.focus(&mut app), 1, "{line}");
        }
    }
}

#[test]
fn a_kill_moves_every_terminal_that_showed_the_killed_agent_and_no_other() {
    let mut app = app_with_agents(1, Plan::default());
    let a = app.fork_named(0, "a");
    let b = app.fork_named(a, "b");
    let c = app.fork_named(0, "c");
    let mut at_a = AttachedTerminal::new(&mut app, (80, 24), a, ATTACHED);
    let mut at_b = AttachedTerminal::new(&mut app, (40, 12), b, WATCHING);
    let at_c = AttachedTerminal::new(&mut app, (80, 24), c, ATTACHED);
    at_a.type_bytes(&mut app, b"unsent");
    app.enter_and_confirm("/kill a --cascade");
    let c = app.n("c");
    assert_eq!((at_a.focus(&mut app), at_b.focus(&mut app), at_c.focus(&mut app)), (0, 0, c));
    for attached in [&mut at_a, &mut at_b] {
        attached.assert_sees(&mut app, "a and 1 descendant killed");
    }
    assert_all_true(&mut app, &mut [at_a, at_b, at_c]);
}

#[test]
fn a_small_terminal_keeps_its_position_while_a_large_one_shows_the_end() {
    let mut app = app_with_lines(100);
    let mut small = AttachedTerminal::new(&mut app, (40, 12), 0, ATTACHED);
    small.type_bytes(&mut app, b"\x1b[5~");
    let before = small.text(&mut app);
    assert!(before.contains("more below") && !before.contains("line 099"), "{before}");
    // Drawing at another size, which shows the end, moves nothing.
    for _ in 0..3 {
        app.type_bytes(b"x");
        assert_shows(&mut app, "line 099");
        small.assert_sees(&mut app, "more below");
    }
    small.type_bytes(&mut app, b"\x15");
    assert_eq!(small.text(&mut app), before);
    // Up at the large terminal begins at what that shows, and moves both.
    app.type_bytes(b"\x1b[5~");
    assert!(!app.screen_text().contains("line 099"));
    assert_ne!(small.text(&mut app), before);
    app.type_bytes(b"\x1b[1;5F");
    assert_shows(&mut app, "line 099");
    small.assert_sees(&mut app, "line 099");
}

#[test]
fn a_view_that_all_terminals_have_at_its_end_follows_the_text_again() {
    let mut app = app_with_lines(12);
    let mut small = AttachedTerminal::new(&mut app, (40, 12), 0, ATTACHED);
    small.type_bytes(&mut app, b"\x1b[5~");
    small.assert_sees(&mut app, "more below");
    small.resize(&mut app, (40, 40));
    app.say(0, "%repeat 60\nmore");
    app.turn_until_idle();
    small.assert_does_not_see(&mut app, "more below");
    assert!(!app.screen_text().contains("more below"));
}

#[test]
fn a_slow_terminal_misses_frames_and_then_gets_the_newest() {
    let mut app = app_with_agents(1, Plan::default());
    let mut slow = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    slow.drawn(&mut app);
    slow.remote(&mut app).takes_more = false;
    for n in 0..50 {
        app.say(0, &format!("word {n:02}"));
        app.turn_until_idle();
    }
    assert_eq!(slow.drawn(&mut app), 0);
    assert_shows(&mut app, "word 49");
    // The messages are enough for a batch of the search index.
    app.turn_until("nothing is done for a terminal that takes nothing", |app| app.timeout().after.is_none());
    slow.remote(&mut app).takes_more = true;
    assert_eq!(app.timeout().after, Some(Duration::ZERO));
    app.turn();
    slow.assert_sees(&mut app, "word 49");
    let frame = slow.text_drawn_anew(&mut app);
    assert_eq!(slow.text(&mut app), frame);
    app.turn();
    assert_eq!((slow.drawn(&mut app), app.timeout().after), (0, None));
}

#[test]
fn three_terminals_that_show_idle_agents_never_wake_the_loop() {
    let mut app = app_with_agents(2, Plan::default());
    let mut others = [(80, 24), (33, 11)].map(|size| AttachedTerminal::new(&mut app, size, 1, ATTACHED));
    for _ in 0..3 {
        app.turn();
        assert_eq!(app.timeout().after, None);
    }
    for other in &mut others {
        other.drawn(&mut app);
    }
    app.turn();
    assert_eq!(others.each_mut().map(|other| other.drawn(&mut app)), [0, 0]);
}

#[test]
fn the_spinner_moves_on_every_terminal_that_shows_it_and_does_not_wake_the_loop_for_others() {
    let mut app = app_with_agents(2, Plan::default());
    let mut working = AttachedTerminal::new(&mut app, (50, 12), 1, ATTACHED);
    app.say(1, "%hang");
    app.turn();
    working.drawn(&mut app);
    let step = app.timeout().after.expect("a sign of work");
    let before = app.sent.len();
    app.advance(step);
    assert!(working.drawn(&mut app) > 0);
    assert_eq!(app.sent.len(), before, "the first terminal shows an idle agent");
    assert_eq!(app.timeout().why, WakeReason::Spinner);
    app.repl.detach_device(working.at);
    assert_ne!(app.timeout().why, WakeReason::Spinner, "no terminal shows it");
}

#[test]
fn a_question_answered_at_one_terminal_disappears_at_the_other() {
    let mut app = app_with_agents(1, Plan { real_time: true, ..Plan::default() });
    let mut other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    let mut tiny = AttachedTerminal::new(&mut app, (19, 6), 0, ATTACHED);
    app.say(0, "%tool bash {\"command\":\"echo asked\"}");
    app.turn_until_asked(0);
    app.turn();
    other.assert_sees(&mut app, "Run this?");
    tiny.assert_sees(&mut app, "enlarge to answer");
    // A question cannot be answered where it is not shown.
    tiny.type_bytes(&mut app, b"y");
    assert_eq!((app.state(0), tiny.draft(&mut app).as_str()), (State::AwaitingApproval, "y"));
    tiny.type_bytes(&mut app, b"\x7f");
    app.turn_until("keys answer", |app| other.text(app).contains("y to run it"));
    other.type_bytes(&mut app, b"y");
    app.turn_until_idle();
    other.assert_does_not_see(&mut app, "Run this?");
    assert!(!app.screen_text().contains("Run this?"));
    assert!(app.tool_results(0)[0].content.contains("asked"));
}

#[test]
fn each_terminal_shows_a_long_question_in_its_own_pages() {
    let mut app = app_with_agents(1, Plan { real_time: true, size: Some((100, 60)), ..Plan::default() });
    let mut small = AttachedTerminal::new(&mut app, (40, 12), 0, ATTACHED);
    let command: Vec<String> = (0..20).map(|n| format!("echo part-{n}")).collect();
    let arguments = serde_json::json!({ "command": command.join("\n") });
    app.say(0, &format!("%tool bash {arguments}"));
    app.turn_until_asked(0);
    app.turn_until("keys answer", |app| app.screen_text().contains("y to run it"));
    app.turn_until("keys read on", |app| small.text(app).contains("y to read on"));
    small.assert_sees(&mut app, "more lines: PgDn shows them");
    small.type_bytes(&mut app, b"y");
    assert_eq!(app.state(0), State::AwaitingApproval, "not seen whole here");
    small.assert_sees(&mut app, "echo part-3");
    assert_all_true(&mut app, &mut [small]);
    app.type_bytes(b"y");
    app.turn_until_idle();
    assert!(app.tool_results(0)[0].content.contains("part-19"));
}

#[test]
fn sessions_lists_every_terminal_and_tells_which_is_ones_own() {
    let mut app = app_with_agents(2, Plan::default());
    let name = app.agent(1).identity.label();
    let mut other = AttachedTerminal::new(&mut app, (70, 30), 1, ATTACHED);
    AttachedTerminal::new(&mut app, (33, 11), 0, WATCHING);
    other.enter(&mut app, "/sessions");
    other.assert_sees(&mut app, "  terminal 1  80x24  for 0 s  at agent 0");
    other.assert_sees(&mut app, &format!("> terminal 2  70x30  for 0 s  at {name}"));
    other.assert_sees(&mut app, "  terminal 3  33x11  for 0 s  at agent 0  read-only");
    app.repl.detach_device(other.at);
    let next = AttachedTerminal::new(&mut app, (70, 30), 1, ATTACHED);
    assert_eq!(next.at.0, 4, "a number is never used again");
}

#[test]
fn a_storm_of_keys_at_five_terminals_leaves_each_with_what_it_should_show() {
    let sizes = [(80, 24), (120, 50), (20, 8), (40, 5), (2, 2)];
    let keys: [&[u8]; 16] = [
        b"\x1b0",
        b"\x1b1",
        b"\x1b2",
        b"\x1b3",
        b"\x1b[1;5A",
        b"\x1b[1;5B",
        b"\x1b[1;5C",
        b"\x1b[5~",
        b"\x1b[6~",
        b"\x1b[1;5H",
        b"\x1b[1;5F",
        b"some words",
        b"\x15",
        b"text\r",
        b"/fork\r",
        b"/kill\r",
    ];
    for seed in 1..=6 {
        let mut random = Random(seed * 7919);
        let mut app = app_with_agents(4, Plan::default());
        for n in 0..4 {
            app.say(n, "%repeat 30\nlong enough to be scrolled through on every terminal");
        }
        let mode = |n: usize| if n == 1 { WATCHING } else { ATTACHED };
        let mut terminals: Vec<AttachedTerminal> =
            (0..5).map(|n| AttachedTerminal::new(&mut app, sizes[n], n % 4, mode(n))).collect();
        for _ in 0..120 {
            let agent_id = random.below(terminals.len());
            let key = keys[random.below(keys.len())];
            terminals[agent_id].type_bytes(&mut app, key);
            if random.below(12) == 0 {
                let size = sizes[random.below(sizes.len())];
                terminals[agent_id].resize(&mut app, size);
            }
            for attached in &terminals {
                attached.focus(&mut app);
            }
        }
        app.turn_until_idle();
        assert_all_true(&mut app, &mut terminals);
    }
}

#[test]
fn a_terminal_attaches_at_the_named_agent_or_at_the_oldest_if_that_is_gone() {
    let mut app = app_with_agents(2, Plan::default());
    let gone = app.id(1);
    app.ask(0, Change::Kill { agent_id: gone, cascade: false });
    let device = Device::Remote(Default::default());
    let at = app.repl.attach_device(device, gone, TerminalMode::default());
    let eldest = app.id(0);
    assert_eq!(app.repl.terminal_at(at).expect("it is there").focus, eldest);
}

#[test]
fn a_program_that_hosts_the_loop_is_not_refused_because_the_first_terminal_only_watches() {
    let mut app = app_with_agents(2, Plan { size: None, ..Plan::default() });
    let watcher = AttachedTerminal::new(&mut app, (80, 24), 0, WATCHING);
    app.say(0, "hello");
    app.switch(1);
    app.turn_until_idle();
    assert_eq!((app.replies(0), watcher.focus(&mut app)), (vec!["hello".into()], 0));
    let other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    app.switch(1);
    assert_eq!((watcher.focus(&mut app), other.focus(&mut app)), (0, 1));
}

#[test]
fn a_trace_tells_at_which_terminal_a_change_was_asked_for() {
    let directory = TempDir::new().expect("a directory");
    let trace = directory.path().join("trace");
    let plan = Plan::default();
    let config = Config { trace: Some(trace.clone()), ..plan.config(directory.path()) };
    let store = Store::open(directory.path()).expect("a store");
    let clock = Clock::manual();
    let mut repl = Repl::open(config, store, clock).expect("an open program");
    let root = repl.roster().nth(0).expect("agent 0");
    let terminals = [1, 2].map(|_| repl.attach_device(Device::Remote(Default::default()), root, ATTACHED));
    repl.terminal_at(terminals[1]).and_then(|terminal| terminal.remote()).expect("a terminal").input.extend(b"hello\r");
    repl.turn(Some(Duration::ZERO)).expect("a turn");
    let trace_text = std::fs::read_to_string(&trace).expect("a trace");
    assert!(trace_text.contains("\"terminal\":2,\"change\":\"submit\""), "{trace_text}");
}
