//! Attaching and detaching terminals while agents work.

use std::time::Duration;

use rustix::process::Signal;

use super::{App, eventually};
use crate::support::openai;
use crate::support::peer::{Exchange, Peer};
use crate::support::pty::{Pty, TerminalLeft, died_of};
use crate::support::scene::{is_running, mark};

/// Puts the text in as a paste and sends it.
fn say(pty: &mut Pty, text: &str) {
    pty.send(format!("\x1b[200~{text}\x1b[201~\r"));
}

/// A child of this name that was asked something, and its request. The terminal shows it.
fn child(pty: &mut Pty, peer: &Peer, name: &str) -> Exchange {
    pty.send(format!("/fork --name {name}\r"));
    pty.wait_for_text(&format!("── {name} "));
    say(pty, &format!("a question to {name}"));
    peer.accept()
}

#[test]
fn agents_continue_when_their_terminal_is_killed_and_another_of_another_size_attaches() {
    let peer = Peer::start();
    let app = App::served_with(&peer.url());
    let mut first = app.attach(&[], (80, 24));
    let names = ["ann", "bob", "cid"];
    let streams: Vec<Exchange> = names.iter().map(|name| child(&mut first, &peer, name)).collect();
    for (stream, name) in streams.iter().zip(names) {
        stream.stream().text(&format!("first words of {name} "));
    }
    first.wait_for_text("first words of cid");
    first.kill(Signal::KILL);
    assert!(died_of(first.wait_exit(), Signal::KILL));
    for (stream, name) in streams.iter().zip(names) {
        stream.text(&format!("unseen words of {name} "));
    }

    let mut second = app.attach(&["cid"], (100, 30));
    second.wait_for_text("┃ a question to cid");
    second.wait_for_text("first words of cid unseen words of cid");
    for (stream, name) in streams.iter().zip(names) {
        stream.text(&format!("last words of {name}")).finish("stop").done();
    }
    second.wait_for_text("first words of cid unseen words of cid last words of cid");
    for name in ["ann", "bob"] {
        second.send(format!("/switch {name}\r"));
        second.wait_for_text(&format!("first words of {name} unseen words of {name} last words of {name}"));
    }
    assert_eq!(app.get(&["wait", "ann"]), "idle\n");
}

#[test]
fn two_terminals_show_different_agents_and_a_third_is_read_only() {
    let app = App::served();
    let mut one = app.attach(&["0"], (80, 24));
    one.send("/fork --name bea\r");
    one.wait_for_text("── bea ");
    let mut other = app.attach(&["0"], (60, 20));
    other.wait_for_text("── agent 0 ");
    let mut watching = app.attach(&["bea", "--read-only"], (70, 22));
    watching.wait_for_text("── bea ");
    say(&mut one, "to bea");
    say(&mut other, "to the root");
    one.wait_for_answer("to bea", "to bea");
    other.wait_for_answer("to the root", "to the root");
    watching.wait_for_answer("to bea", "to bea");
    assert!(!one.screen_text().contains("to the root") && !other.screen_text().contains("to bea"));
    say(&mut watching, "not to be sent");
    watching.wait_for_text("this terminal is read-only");
    assert!(!app.get(&["logs", "bea"]).contains("not to be sent"));
    assert_eq!(app.get(&["sessions", "--json"]).lines().count(), 3);
}

#[test]
fn ctrl_c_detaches_restores_the_terminal_and_prints_how_to_continue() {
    let peer = Peer::start();
    let app = App::served_with(&peer.url());
    let mut pty = app.attach(&[], (80, 24));
    let stream = child(&mut pty, &peer, "ann");
    stream.stream().text("words ");
    pty.wait_for_text("words");
    pty.send("\x03");
    assert_eq!(pty.wait_exit().code(), Some(0));
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
    let screen = pty.screen_text();
    assert!(
        screen.contains("detached: 2 agents keep running; to continue: polylogue"),
        "the way back is printed once:\n{screen}"
    );
    assert_eq!(screen.matches("polylogue").count(), 1, "the way back is printed once:\n{screen}");
    stream.text("to the end").finish("stop").done();
    assert_eq!(app.get(&["wait", "ann"]), "idle\n");
    assert!(app.get(&["logs", "ann"]).contains("words to the end"));
}

#[test]
fn signals_and_a_hang_up_detach_and_restore_the_terminal() {
    let app = App::served();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut pty = app.attach(&[], (80, 24));
        pty.kill(signal);
        assert_eq!(pty.wait_exit().code(), Some(0), "{signal:?}");
        assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN, "{signal:?}");
    }
    let mut closed = app.attach(&[], (80, 24));
    assert_eq!(closed.hang_up().code(), Some(0));
    app.get(&["ps"]);
}

#[test]
fn a_killed_server_leaves_a_restored_terminal_and_a_message() {
    let mut app = App::served();
    let mut pty = app.attach(&[], (120, 24));
    app.signal(Signal::KILL);
    assert_eq!(pty.wait_exit().code(), Some(1));
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
    assert!(pty.screen_text().contains("the server has ended"), "{}", pty.screen_text());
    app.server_ends();
}

#[test]
fn a_stopped_server_detaches_every_terminal_with_a_message() {
    let mut app = App::served();
    let mut ptys = [app.attach(&[], (80, 24)), app.attach(&["--read-only"], (90, 20))];
    app.get(&["stop"]);
    for pty in &mut ptys {
        assert_eq!(pty.wait_exit().code(), Some(0));
        assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
        assert!(pty.screen_text().contains("the server has ended"), "{}", pty.screen_text());
    }
    app.server_ends();
}

#[test]
fn ctrl_z_restores_the_terminal_and_a_continued_process_redraws_for_the_new_size() {
    let app = App::served();
    let mut pty = app.attach(&[], (80, 24));
    say(&mut pty, "before");
    pty.wait_for_answer("before", "before");
    pty.send("\x1a");
    eventually("it to be stopped", || state(&pty) == 'T');
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
    pty.resize(50, 12);
    pty.kill(Signal::CONT);
    pty.wait_for(vt100::Screen::alternate_screen, "the screen to be taken again");
    pty.wait_for(
        |screen| screen.rows(0, 50).nth(9).is_some_and(|row| row.starts_with("── agent 0") && row.ends_with('─')),
        "the separator in its new row",
    );
    say(&mut pty, "after");
    pty.wait_for_answer("after", "after");
}

#[test]
fn a_resized_terminal_is_redrawn_at_once() {
    let app = App::served();
    let mut pty = app.attach(&[], (80, 24));
    pty.resize(40, 10);
    pty.wait_for(
        |screen| screen.rows(0, 40).nth(7).is_some_and(|row| row.starts_with("── agent 0") && row.ends_with('─')),
        "the separator in its new row",
    );
}

#[test]
fn a_paste_of_ten_megabytes_arrives_complete() {
    let peer = Peer::start();
    let app = App::served_with(&peer.url());
    let mut pty = app.attach(&[], (80, 24));
    let text: String = (0..500_000).map(|line| format!("line {line} of a paste\n")).collect();
    assert!(text.len() > 10_000_000);
    say(&mut pty, &format!("{text}the end"));
    let exchange = peer.accept();
    let received = openai::last_user_text(&exchange.request().json());
    assert!(received == format!("{text}the end"), "{} of {} bytes came", received.len(), text.len());
    exchange.stream().text("got it").finish("stop").done();
    pty.wait_for_text("  got it");
}

#[test]
fn a_terminal_that_reads_nothing_blocks_no_agent_and_catches_up() {
    let app = App::served();
    let mut slow = app.attach(&["0"], (80, 24));
    // The terminal is not read from here on.
    app.get(&["tell", "0", &format!("%slow 0\n%repeat 20000\nmany words {}", "x".repeat(50))]);
    assert_eq!(app.get(&["wait", "0", "--timeout", "60"]), "idle\n");
    app.get(&["tell", "0", "and now?"]);
    assert_eq!(app.get(&["wait", "0", "--timeout", "60"]), "idle\n");
    slow.wait_for_answer("and now?", "and now?");
}

#[test]
fn an_idle_terminal_causes_no_wake_ups() {
    let app = App::served();
    let mut pty = app.attach(&[], (80, 24));
    say(&mut pty, "hello");
    pty.wait_for_answer("hello", "hello");
    let mut last = u64::MAX;
    // Until what is to be done after the answer is done: kept, drawn, and a connection let go.
    eventually("both to sleep", || {
        let before = std::mem::replace(&mut last, wake_ups(&pty, &app));
        pty.bytes_within(Duration::from_millis(300));
        before == last
    });
    let bytes = pty.bytes_within(Duration::from_secs(2));
    assert_eq!((bytes, wake_ups(&pty, &app) - last), (0, 0), "bytes written and wake-ups of both");
}

/// How often client and server were put on a processor so far.
fn wake_ups(pty: &Pty, app: &App) -> u64 {
    let of = |process: String| {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it is alive").flatten();
        let count = |task: std::fs::DirEntry| {
            // A thread of the store may have ended since the list was read.
            let schedstat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            Some(
                schedstat.split_whitespace().nth(2).and_then(|count| count.parse::<u64>().ok()).expect("three numbers"),
            )
        };
        tasks.filter_map(count).sum::<u64>()
    };
    of(pty.pid().to_string()) + of(app.pid().to_string())
}

#[test]
fn a_tool_process_outlives_the_terminal_but_not_the_server() {
    let mut app = App::served();
    let mut pty = app.attach(&["0"], (80, 24));
    // The command cannot tell its number: in the sandbox it has another one.
    let mark = mark();
    say(&mut pty, &format!("%tool bash {{\"command\":\"exec sleep {mark}\"}}"));
    pty.wait_for_text("y to run it");
    pty.send("y");
    let runs = || is_running(&format!("sleep\0{mark}"));
    eventually("the command to run", runs);
    pty.kill(Signal::KILL);
    pty.wait_exit();
    assert!(app.get(&["ps"]).contains("running"));
    app.get(&["stop"]);
    app.server_ends();
    eventually("the end of the command", || !runs());
}

/// The state in which the kernel has the client: `T` is stopped.
fn state(pty: &Pty) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pty.pid())).expect("it is alive");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in parentheses");
    rest.chars().next().expect("a state")
}

#[test]
fn the_editor_of_the_client_gets_its_terminal_and_the_draft_while_agents_go_on() {
    let peer = Peer::start();
    let mut app = App::served_with(&peer.url());
    let scripts = tempfile::tempdir().expect("a directory");
    let here = scripts.path().display();
    let text = format!(
        "echo editing $(cat \"$1\")\nmkfifo {here}/go\ncat {here}/go\n[ -e {here}/fails ] && exit 3\n\
         printf 'two\\nlines\\n' > \"$1\"\n"
    );
    std::fs::write(scripts.path().join("editor"), text).expect("a script");
    let editor = format!("sh {here}/editor");
    app.variables.push(("VISUAL".into(), editor));
    let mut pty = app.attach(&[], (80, 24));
    say(&mut pty, "a question");
    let stream = peer.accept();
    stream.stream().text("first words");
    pty.wait_for_text("first words");
    pty.send("half typed\x07");
    pty.wait_for_text("editing half typed");
    stream.text(" and last words").finish("stop").done();
    let go = scripts.path().join("go");
    eventually("the pipe", || go.exists());
    crate::support::write_to_pipe(&go, "");
    pty.wait_for_text("first words and last words");
    pty.wait_for_text("> two");
    pty.send("!");
    pty.wait_for_text("  lines!");

    std::fs::remove_file(&go).expect("the pipe");
    std::fs::write(scripts.path().join("fails"), "").expect("a file");
    pty.send("\x18\x05");
    pty.wait_for_text("editing two lines!");
    eventually("the pipe", || go.exists());
    crate::support::write_to_pipe(&go, "");
    pty.wait_for_text("the draft is unchanged");
    pty.wait_for_text("  lines!");
}

#[test]
fn the_client_reads_the_clipboard() {
    let peer = Peer::start();
    let mut app = App::served_with(&peer.url());
    let helpers = tempfile::tempdir().expect("a directory");
    let script = b"#!/bin/sh\nprintf '\\211PNG\\r\\n\\032\\n not a whole one'\n";
    crate::support::write_executable(&helpers.path().join("wl-paste"), script);
    // Only where the terminal is.
    app.variables.push(("PATH".into(), format!("{}:/usr/bin:/bin", helpers.path().display())));
    app.variables.push(("WAYLAND_DISPLAY".into(), "wayland-test".into()));
    let mut pty = app.attach(&[], (80, 24));
    pty.send("\x16");
    pty.wait_for_text("> [image: clipboard.png, 1 KB]");
    pty.send("what is it?\r");
    let exchange = peer.accept();
    let sent = exchange.request().json()["messages"].to_string();
    assert!(sent.contains("data:image/png;base64,iVBORw0K") && sent.contains("what is it?"), "{sent}");
    exchange.stream().text("a shot").finish("stop").done();
    pty.wait_for_text("a shot");
    std::fs::remove_file(helpers.path().join("wl-paste")).expect("it was there");
    pty.send("\x16");
    pty.wait_for_text("no program that reads images from the clipboard");
}

#[test]
fn the_pager_of_the_client_shows_the_whole_question() {
    let mut app = App::served();
    let directory = tempfile::tempdir().expect("a directory");
    let go = directory.path().join("go");
    let script = format!("echo paged\ncat \"$1\"\nmkfifo {0}\ncat {0}\n", go.display());
    std::fs::write(directory.path().join("pager"), script).expect("a script");
    app.variables.push(("PAGER".into(), format!("sh {}/pager", directory.path().display())));
    let mut pty = app.attach(&[], (80, 24));
    say(&mut pty, "%tool bash {\"command\":\"touch this\"}");
    pty.wait_for_text("y to run it");
    pty.send("v");
    pty.wait_for_text("paged");
    pty.wait_for_text("Run this? bash: touch this");
    eventually("the pipe", || go.exists());
    crate::support::write_to_pipe(&go, "");
    pty.wait_for_text("y to run it");
    pty.send("r");
    pty.wait_for_text("type the reason");
    pty.send("not now\r");
    pty.wait_for_text("denied");
}
