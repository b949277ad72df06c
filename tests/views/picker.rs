//! `polylogue -r` and `/resume`: the conversation to go on with is chosen in a list.

use polylogue::{ArchiveAct, Change};
use rustix::process::Signal;

use crate::support::attached::AttachedTerminal;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::program::{Home, PROGRAM, texts};
use crate::support::pty::{Pty, TerminalLeft};
use crate::support::scene::app_with_agents;

const SIZE: (u16, u16) = (80, 24);

/// Agents 0 to 3, of which the last three have talked about something; agent 2 is archived.
fn app() -> Harness {
    let mut app = app_with_agents(4, Plan::default());
    for (n, text) in [(1, "mend the cart"), (2, "paint the fence"), (3, "count the carts")] {
        app.say(n, text);
        app.turn_until_idle();
        app.advance(std::time::Duration::from_secs(60));
    }
    let archive = Change::Archive(ArchiveAct::Archive(app.id(2)));
    app.ask(0, archive);
    app
}

fn focus(app: &mut Harness, terminal: &AttachedTerminal) -> String {
    let focus = terminal.terminal(app).focus;
    app.repl.roster().label_of(focus)
}

#[test]
fn what_is_typed_filters_the_list_and_enter_opens_the_marked_conversation() {
    let mut app = app();
    let mut picker = AttachedTerminal::picker(&mut app, SIZE, None);
    let text = picker.text(&mut app);
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is not in\n{text}"));
    assert!(at(">   3 ") < at("paint the fence") && at("paint the fence") < at("mend the cart"), "{text}");
    assert_eq!(text.matches("archived").count(), 1, "{text}");
    picker.type_bytes(&mut app, b"cart");
    assert!(!picker.text(&mut app).contains("fence"));
    picker.type_bytes(&mut app, b"\x1b[B\r");
    assert_eq!(focus(&mut app, &picker), "agent 1");
    assert!(picker.text(&mut app).contains("┃ mend the cart"));
}

#[test]
fn an_archived_conversation_comes_back_and_gets_the_prompt() {
    let mut app = app();
    let picker = AttachedTerminal::picker(&mut app, SIZE, Some("and the gate"));
    picker.type_bytes(&mut app, b"fence\r");
    assert_eq!(focus(&mut app, &picker), "agent 2");
    app.turn_until_idle();
    let n = (0..4).find(|n| app.agent(*n).identity.ordinal == 2).expect("it is back");
    assert_eq!(app.replies(n).last().map(String::as_str), Some("and the gate"));
    assert!(app.repl.store().archived_agents().expect("a list").agents.is_empty());
}

#[test]
fn escape_and_ctrl_c_leave_and_change_nothing() {
    for leave in [&b"\x1b"[..], b"\x03"] {
        let mut app = app();
        let before = app.transactions();
        let picker = AttachedTerminal::picker(&mut app, SIZE, Some("not sent"));
        picker.type_bytes(&mut app, b"\x1bwfence");
        picker.type_bytes(&mut app, leave);
        app.advance(std::time::Duration::from_millis(30));
        assert!(picker.terminal(&mut app).is_detached());
        assert_eq!(app.transactions(), before);
    }
}

#[test]
fn in_a_chat_escape_and_ctrl_c_close_the_list_and_enter_goes_to_a_conversation() {
    let mut app = app();
    for is_escape in [true, false] {
        app.enter("/resume");
        app.type_bytes(b"fence");
        let text = app.screen_text();
        assert!(text.contains("── resume ─ 1 of ") && text.contains("Esc closes"), "{text}");
        if is_escape {
            app.escape();
        } else {
            app.type_bytes(b"\x03");
        }
        app.turn();
        assert!(!app.screen_text().contains("── resume ─"), "{}", app.screen_text());
        assert_eq!(app.focus(), 0);
        assert_eq!(app.repl.store().archived_agents().expect("a list").agents.len(), 1);
    }
    app.enter("/resume");
    app.type_bytes(b"cart\x1b[B\r");
    assert_eq!(app.focus(), 1);
    assert!(app.screen_text().contains("┃ mend the cart"), "{}", app.screen_text());
    app.enter("/resume");
    app.type_bytes(b"fence\r");
    app.turn();
    assert!(app.screen_text().contains("┃ paint the fence"), "{}", app.screen_text());
    assert!(app.repl.store().archived_agents().expect("a list").agents.is_empty(), "it is back");
    app.enter("and the gate");
    app.turn_until_idle();
    let n = (0..4).find(|n| app.agent(*n).identity.ordinal == 2).expect("it is there");
    assert_eq!(app.replies(n).last().map(String::as_str), Some("and the gate"));
}

#[test]
fn the_list_follows_agents_that_come_and_go() {
    let mut app = app();
    let mut picker = AttachedTerminal::picker(&mut app, SIZE, None);
    picker.type_bytes(&mut app, b"\x1b[B\x1b[B");
    assert!(picker.text(&mut app).contains(">   1 "));
    let kill = Change::Kill { agent_id: app.id(2), cascade: false };
    app.ask(0, kill);
    app.turn();
    let text = picker.text(&mut app);
    assert!(!text.contains("count the carts") && text.contains(">   1 "), "{text}");
}

#[test]
fn tab_goes_round_in_the_list() {
    let mut app = app();
    let mut picker = AttachedTerminal::picker(&mut app, SIZE, None);
    let mut marked = |app: &mut Harness, keys: &[u8]| {
        picker.type_bytes(app, keys);
        picker.text(app).lines().find(|line| line.starts_with('>')).expect("a marked row").to_owned()
    };
    let first = marked(&mut app, b"");
    let last = marked(&mut app, b"\x1b[Z");
    assert_ne!(first, last);
    assert_eq!(marked(&mut app, b"\x1b[B"), last, "Down stays at the end");
    assert_eq!(marked(&mut app, b"\t"), first);
}

#[test]
fn the_program_shows_the_list_alone_and_beside_a_chat_and_says_what_to_do_without_a_terminal() {
    let home = Home::new();
    for prompt in ["the first one", "the second one"] {
        assert_eq!(home.run(&["-p", prompt]).code, 0);
    }
    let (path, data) = (home.directory.path().to_str().expect("UTF-8"), home.data());
    let envs = [("HOME", path), ("LANG", "C.UTF-8"), ("POLYLOGUE_DATA_DIR", data.to_str().expect("UTF-8"))];
    let start = |args: &[&str]| {
        let mut pty = Pty::spawn(PROGRAM, args, &envs, (100, 30));
        pty.wait_for_text("archived -p");
        pty
    };
    let agents = home.agents();
    let mut left = start(&["-r"]);
    left.send("\x1b");
    assert!(left.wait_exit().success());
    assert_eq!((left.terminal_left(), home.agents()), (TerminalLeft::CLEAN, agents));
    let mut chat = start(&["and more", "-r"]);
    chat.send("first\r");
    chat.wait_until(|pty| pty.screen_text().matches("and more").count() == 2, "the answer");
    chat.wait_for_text("── agent 1 ");
    let mut beside = start(&["-r"]);
    beside.send("second\r");
    beside.wait_for_text("── agent 2 ");
    beside.leave();
    chat.kill(Signal::TERM);
    chat.wait_exit();
    assert_eq!(texts(&home.log(1)), ["the first one", "the first one", "and more", "and more"]);
    let response = home.shell("setsid -w \"$0\" -r");
    assert!(response.err.contains("polylogue -r NAME") && response.err.contains("polylogue ps"), "{}", response.err);
}
