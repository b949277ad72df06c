//! A chat that goes on without its terminal.

use std::process::ExitStatus;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::Value;

use super::chats::chat;
use super::{App, Server, eventually};
use crate::support::peer::Peer;
use crate::support::pty::{Pty, TerminalLeft, died_of};
use crate::support::scene::{is_running, mark};

/// The process that runs the chat, as the server that it becomes.
fn server_of(chat: &Pty) -> Server {
    assert_ne!(chat.pid(), chat.started(), "a process waits for the one that runs the chat");
    let pid = i32::try_from(chat.pid()).ok().and_then(Pid::from_raw).expect("the id of a process");
    let handle: OwnedFd = pidfd_open(pid, PidfdFlags::empty()).expect("it runs");
    Server { pid, handle }
}

/// Presses the keys, and sees the shell get its terminal back.
fn goes_to_background(app: &mut App, chat: &mut Pty, keys: &str) {
    app.server = Some(server_of(chat));
    chat.send(keys);
    let status: ExitStatus = chat.wait_exit();
    assert_eq!(status.code(), Some(0), "{}", chat.screen_text());
    assert_eq!(chat.terminal_left(), TerminalLeft::CLEAN);
    let text = chat.screen_text().replace('\n', "");
    let process = format!("on in the background (process {})", app.pid().as_raw_nonzero());
    assert!(text.contains(&process) && text.contains("to continue: polylogue"), "{text}");
}

fn status_of(app: &App, name: &str) -> String {
    let lines = app.get(&["ps", "--json"]);
    let agents = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let found = agents.into_iter().find(|agent| agent["name"] == name).expect("the agent");
    found["status"].as_str().expect("text").to_owned()
}

#[test]
fn agents_go_on_in_the_background_and_nothing_is_lost_or_begun_again() {
    let peer = Peer::start();
    let mut app = App::new();
    app.variables.push(("OPENAI_BASE_URL".into(), peer.url()));
    app.variables.push(("POLYLOGUE_MODEL".into(), "openai/test".into()));
    let mut chat = chat(&app, &[]);
    for name in ["idle", "streams", "works", "asks"] {
        chat.send(format!("\x1b0/fork --name {name}\r"));
        chat.wait_for_text(&format!("── {name} "));
    }
    let (tool, question) = (mark(), "echo it-ran-$((40+2))");
    chat.send(format!("/model echo\r%tool bash {{\"command\":\"{question}\"}}\r"));
    chat.wait_for_text("y to run it");
    chat.send(format!("\x1b3/model echo\r%tool bash {{\"command\":\"exec sleep {tool}\"}}\r"));
    chat.wait_for_text(&format!("Run this? bash: exec sleep {tool}"));
    chat.wait_for_text("y to run it");
    chat.send("y");
    let runs = || is_running(&format!("sleep\0{tool}"));
    eventually("the command to run", runs);
    chat.send("\x1b2a question\r");
    let exchange = peer.accept();
    exchange.stream().text("first words");
    chat.wait_for_text("first words");
    chat.send("a draft");
    chat.wait_for_text("> a draft");

    goes_to_background(&mut app, &mut chat, "\x18b");
    let states = ["idle", "streams", "works", "asks"].map(|name| status_of(&app, name));
    assert_eq!(states, ["idle", "running", "running", "awaiting_approval"]);
    assert!(runs(), "the command goes on");
    exchange.text(" and the last ones").finish("stop").done();
    assert_eq!(app.get(&["wait", "streams"]), "idle\n");
    assert!(app.get(&["logs", "streams"]).contains("first words and the last ones"));
    let open: Value = serde_json::from_str(&app.get(&["approvals", "--json"])).expect("one question");
    app.get(&["approve", open["id"].as_str().expect("an id")]);
    assert_eq!(app.get(&["wait", "asks"]), "idle\n");
    assert!(app.get(&["logs", "asks"]).contains("it-ran-42"));
    assert!(peer.try_accept().is_none(), "nothing is sent again");

    let mut again = app.terminal(&["-c"], (100, 24));
    again.wait_for_text("── streams ");
    again.wait_for_text("first words and the last ones");
    again.wait_for_text("> a draft");
    assert!(runs());
    again.send("\x15\x03");
    assert!(again.wait_exit().success());
    app.get(&["stop"]);
    app.server_ends();
    eventually("the end of the command", || !runs());
}

#[test]
fn a_chat_in_the_background_does_not_notice_that_its_terminal_is_closed() {
    let mut app = App::new();
    let mut chat = chat(&app, &["words"]);
    chat.wait_for_answer("words", "words");
    goes_to_background(&mut app, &mut chat, "/background\r");
    drop(chat);
    app.get(&["tell", "0", "more words"]);
    assert_eq!(app.get(&["wait", "0"]), "idle\n");
    app.signal(Signal::HUP);
    let sessions = app.get(&["sessions", "--json"]);
    assert_eq!(sessions.trim(), "");
    app.get(&["stop"]);
    app.server_ends();
    assert!(app.get(&["logs", "0"]).contains("> more words\nmore words\n"));
}

#[test]
fn leaving_while_agents_work_or_others_are_attached_offers_the_background() {
    let mut app = App::new();
    let mut chat = chat(&app, &["words\n%hang"]);
    chat.wait_for_text("  words\n");
    chat.send("\x04");
    chat.wait_for_text("is busy: press again within 2 s to leave; Ctrl+X B goes on in the background");
    chat.send("\x1b");
    chat.wait_for_text("interrupted");
    let mut second = app.attach(&[], (80, 24));
    chat.send("\x04");
    chat.wait_for_text("1 other terminal is attached: press again within 2 s to leave; Ctrl+X B goes on");
    goes_to_background(&mut app, &mut chat, "\x18b");
    second.send("still attached\r");
    second.wait_for_answer("still attached", "still attached");
    app.get(&["stop"]);
    assert!(second.wait_exit().success());
    app.server_ends();
}

#[test]
fn signals_to_the_process_that_waits_reach_the_chat_and_its_end_is_that_of_the_chat() {
    for (signal, words) in [(Signal::TERM, "one"), (Signal::HUP, "two"), (Signal::INT, "three")] {
        let app = App::new();
        let mut chat = chat(&app, &[words]);
        chat.wait_for_answer(words, words);
        chat.kill_started(signal);
        assert_eq!(chat.wait_exit().code(), Some(0), "{signal:?}");
        assert_eq!(chat.terminal_left(), TerminalLeft::CLEAN);
        assert!(app.get(&["logs", "0"]).contains(words));
    }
    let mut app = App::new();
    let mut killed = chat(&app, &[]);
    app.server = Some(server_of(&killed));
    killed.kill(Signal::KILL);
    assert!(died_of(killed.wait_exit(), Signal::KILL), "the shell sees how the chat ended");
    assert_eq!(killed.terminal_left(), TerminalLeft::CLEAN);
    let text = killed.screen_text();
    assert!(
        text.contains(
            "polylogue: the process that ran the agents was ended by SIGKILL; to continue: polylogue --data-dir"
        ),
        "{text}"
    );
    app.server_ends();
    let mut killed = chat(&app, &[]);
    app.server = Some(server_of(&killed));
    killed.kill_started(Signal::KILL);
    assert!(died_of(killed.wait_exit(), Signal::KILL));
    app.server_ends();
}

#[test]
fn a_chat_that_no_one_could_attach_to_does_not_go_on() {
    let app = App::new();
    let mut chat = app.terminal(&["--ephemeral"], (160, 24));
    chat.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    assert_eq!(chat.pid(), chat.started(), "one process is enough");
    chat.send("/background\r");
    chat.wait_for_text("this chat ends with its terminal");
    chat.send("\x15");
    chat.leave();
}

#[test]
fn ctrl_z_at_one_terminal_stops_no_other() {
    let app = App::new();
    let mut first = chat(&app, &[]);
    let mut other = app.terminal(&[], (100, 24));
    other.wait_for_text("── agent 1 ");
    first.send("typed before");
    first.wait_for_text("> typed before");
    first.send("\x1a");
    first.wait_for_text("polylogue goes on for 1 other terminal; fg comes back here");
    assert_eq!(first.terminal_left(), TerminalLeft::CLEAN);
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", first.started())).expect("it lives");
    eventually("the process that the shell waits for is stopped", || stat().contains(") T "));
    other.send("hello there\r");
    other.wait_for_answer("hello there", "hello there");
    first.kill(Signal::CONT);
    first.wait_for(vt100::Screen::alternate_screen, "the screen to be taken again");
    first.wait_for_text("> typed before");
    first.send(" and after\r");
    first.wait_for_answer("typed before and after", "typed before and after");
    other.leave();
    first.leave();
}
