//! Every way to leave an attached terminal only detaches it; in the chat's own terminal the same keys still end the chat.

use polylogue::Turn;

use crate::support::attached::{ATTACHED, AttachedTerminal, WATCHING};
use crate::support::harness::Plan;
use crate::support::internals::{Probe, State, TerminalRequest};
use crate::support::scene::{app_with_agents, assert_shows};

#[test]
fn every_way_out_of_an_attached_terminal_detaches_it_at_once_and_all_goes_on() {
    let ways: [&[u8]; 5] = [b"\x03", b"\x04", b"/exit\r", b"/quit\r", b"/detach\r"];
    for mode in [ATTACHED, WATCHING] {
        for way in ways {
            let mut app = app_with_agents(2, Plan::default());
            app.say(0, "%hang");
            app.turn();
            let mut other = AttachedTerminal::new(&mut app, (80, 24), 0, mode);
            other.drawn(&mut app);
            let turn = other.type_bytes(&mut app, way);
            let what = String::from_utf8_lossy(way);
            assert_eq!((turn, app.state(0)), (Turn::Continue, State::WaitingForLlm), "{what:?}");
            assert_eq!(other.terminal(&mut app).take_requests(), [TerminalRequest::Detach], "{what:?}");
            assert_eq!(other.terminal(&mut app).take_requests(), [], "each request is taken once");
            app.repl.detach_device(other.at);
            assert_eq!(app.repl.terminal_ids().len(), 1);
            app.type_bytes(b"\x1b1");
            assert_eq!(app.focus(), 1, "the other terminal goes on");
        }
    }
}

#[test]
fn a_terminal_that_is_let_go_is_neither_read_nor_drawn_any_more() {
    let mut app = app_with_agents(1, Plan::default());
    let mut other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    other.type_bytes(&mut app, b"\x03and more\r");
    other.drawn(&mut app);
    app.say(0, "hello");
    app.turn_until_idle();
    assert_eq!((app.replies(0), other.drawn(&mut app)), (vec!["hello".into()], 0));
    other.remote(&mut app).input.extend_from_slice(b"late");
    assert_eq!(app.timeout().after, None);
}

#[test]
fn ctrl_c_at_the_terminal_of_the_chat_still_warns_and_then_leaves() {
    let mut app = app_with_agents(1, Plan::default());
    AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    app.say(0, "%hang");
    app.turn();
    assert_eq!(app.type_bytes(b"\x03"), Turn::Continue);
    assert_shows(&mut app, "press again within 2 s");
    assert_eq!(app.type_bytes(b"\x03"), Turn::Exit);
}

#[test]
fn exit_at_the_terminal_of_the_chat_asks_if_others_are_attached() {
    let mut app = app_with_agents(1, Plan::default());
    AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    assert_eq!(app.enter("/exit"), Turn::Continue);
    assert_shows(&mut app, "1 other terminal is attached: press Enter again to exit there too");
    assert_eq!(app.draft(0).text(), "/exit");
    app.type_bytes(b"\x15");
    assert_eq!(app.enter_and_confirm("/exit"), Turn::Exit);
}

#[test]
fn exit_at_the_terminal_of_the_chat_names_the_agents_that_are_busy() {
    let mut app = app_with_agents(2, Plan::default());
    app.say(1, "%hang");
    app.turn();
    assert_eq!(app.enter("/exit"), Turn::Continue);
    assert_shows(&mut app, "agent 1 is busy: press Enter again to exit and end this");
    assert_eq!((app.state(1), app.draft(0).text()), (State::WaitingForLlm, "/exit"));
    app.type_bytes(b"\x15");
    assert_eq!(app.enter_and_confirm("/exit"), Turn::Exit);
}

#[test]
fn detach_is_refused_where_the_chat_would_end_and_names_the_way() {
    let mut app = app_with_agents(1, Plan::default());
    assert_eq!(app.enter("/detach"), Turn::Continue);
    assert_shows(&mut app, "polylogue serve");
    assert_eq!(app.draft(0).text(), "/detach");
}

#[test]
fn ctrl_z_at_an_attached_terminal_asks_its_owner_and_redraw_draws_it_whole() {
    let mut app = app_with_agents(1, Plan::default());
    let mut other = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    let whole = other.drawn(&mut app);
    other.type_bytes(&mut app, b"\x1a");
    assert_eq!(other.terminal(&mut app).take_requests(), [TerminalRequest::Suspend]);
    assert_eq!(other.drawn(&mut app), 0);
    other.terminal(&mut app).redraw();
    app.turn();
    assert!(other.drawn(&mut app) >= whole / 2, "the whole frame is drawn again");
    other.type_bytes(&mut app, b"x");
    assert_eq!(other.draft(&mut app), "x");
}

#[test]
fn a_draft_is_kept_when_its_terminal_goes_even_if_the_program_crashes_then() {
    let mut app = app_with_agents(2, Plan::default());
    let other = AttachedTerminal::new(&mut app, (80, 24), 1, ATTACHED);
    other.type_bytes(&mut app, b"half a thou");
    app.repl.detach_device(other.at);
    let mut app = app.crash_and_restart();
    app.switch(1);
    assert_shows(&mut app, "> half a thou");
}

#[test]
fn a_hundred_terminals_come_and_go_and_leave_nothing_behind() {
    let mut app = app_with_agents(2, Plan::default());
    app.say(0, "%repeat 200\nwords");
    app.turn_until_idle();
    let before = format!("{:?}", app.agent(0).view.scrollback).len();
    for n in 0..100 {
        let attached =
            AttachedTerminal::new(&mut app, (20 + n, 5 + n / 2), 0, if n % 2 == 0 { ATTACHED } else { WATCHING });
        attached.type_bytes(&mut app, b"\x1b[5~\x1b[5~");
        attached.type_bytes(&mut app, b"\x1b[1;5F");
        attached.type_bytes(&mut app, b"\x1b[5~");
        app.repl.detach_device(attached.at);
    }
    app.type_bytes(b"\x1b[1;5F");
    assert_eq!(app.repl.terminal_ids().len(), 1);
    let after = format!("{:?}", app.agent(0).view.scrollback).len();
    assert!(after < before + 4096, "{before} characters of positions and rows became {after}");
}
