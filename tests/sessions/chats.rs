//! A chat in its own terminal, which other terminals and scripts use as they use a server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::{App, Response, eventually};
use crate::support::peer::Peer;
use crate::support::pty::{Pty, TerminalLeft, died_of};

/// A chat that shows its prompt and answers at its socket.
pub(super) fn chat(app: &App, args: &[&str]) -> Pty {
    let mut chat = app.terminal(args, (100, 24));
    chat.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    let socket = app.path().join("server/socket");
    eventually("it answers at its socket", || socket.exists());
    chat
}

fn agents(app: &App) -> Vec<Value> {
    app.get(&["ps", "--json"]).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn scripts_use_the_agents_of_a_chat() {
    let app = App::new();
    let mut chat = chat(&app, &[]);
    app.get(&["tell", "0", "from", "a", "script"]);
    assert_eq!(app.get(&["wait", "0"]), "idle\n");
    chat.wait_for_answer("from a script", "from a script");
    assert!(app.get(&["logs", "0"]).ends_with("> from a script\nfrom a script\n"));
    assert!(app.get(&["ps"]).contains("idle"));
    let sessions: Value = serde_json::from_str(&app.get(&["sessions", "--json"])).expect("one terminal");
    assert_eq!(sessions["columns"], 100);
    app.get(&["tell", "0", "%tool bash {\"command\":\"echo it-ran-$((40+2))\"}"]);
    chat.wait_for_text("y to run it");
    let open: Value = serde_json::from_str(&app.get(&["approvals", "--json"])).expect("one question");
    app.get(&["approve", open["id"].as_str().expect("an id")]);
    assert_eq!(app.get(&["wait", "0"]), "idle\n");
    assert!(app.get(&["logs", "0"]).contains("it-ran-42"));
    chat.leave();
    assert!(!app.path().join("server/socket").exists(), "the chat removes it");
}

#[test]
fn who_waits_for_an_agent_that_asks_is_told() {
    let app = App::new();
    let mut chat = chat(&app, &[]);
    let waiting = || {
        let mut command = app.command(&["wait", "0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    let told = |waiting: &mut Child| {
        let mut line = String::new();
        BufReader::new(waiting.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert!(
            line.starts_with("polylogue: agent 0 asks: bash: echo $((1+1))") && line.contains("; polylogue approve "),
            "{line}"
        );
    };
    app.get(&["tell", "0", "%tool bash {\"command\":\"echo $((1+1))\"}"]);
    let mut first = waiting();
    told(&mut first);
    // Also where the question was asked before.
    let mut second = waiting();
    told(&mut second);
    let open: Value = serde_json::from_str(&app.get(&["approvals", "--json"])).expect("one question");
    app.get(&["approve", open["id"].as_str().expect("an id")]);
    for waiting in [first, second] {
        let output = Response::of(waiting.wait_with_output().expect("it ends"));
        assert_eq!((output.code, output.out.as_str()), (Some(0), "idle\n"));
    }
    chat.leave();
}

#[test]
fn twenty_runs_at_once_use_the_chat() {
    let app = App::new();
    let mut chat = chat(&app, &[]);
    let start = |n: usize| {
        let mut command = app.command(&["-p", &format!("run {n}")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    let runs: Vec<Child> = (0..20).map(start).collect();
    chat.send("typed meanwhile\r");
    for (n, run) in runs.into_iter().enumerate() {
        let output = Response::of(run.wait_with_output().expect("it ends"));
        assert_eq!((output.code, output.out), (Some(0), format!("run {n}\n")), "{}", output.err);
    }
    chat.wait_for_answer("typed meanwhile", "typed meanwhile");
    assert_eq!(app.get(&["ps", "--all", "--json"]).lines().count(), 21);
    chat.leave();
}

#[cfg(feature = "coordinator")]
#[test]
fn teams_work_beside_the_chat() {
    let app = App::new();
    let mut chat = chat(&app, &[]);
    let output = app.run(&["multi-agent", "run", "--count", "2", "hello"]);
    assert_eq!((output.code, &*output.out), (Some(0), "hello\n---\nhello\n"), "{}", output.err);
    let asks = "%tool bash {\"command\":\"touch made\"}\n%next\nwell";
    let output = app.run(&["multi-agent", "run", "--count", "1", asks]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.err.contains("refused a tool call that needs approval"), "{}", output.err);
    assert!(!app.workspace.path().join("made").exists());
    assert_eq!(agents(&app).len(), 1, "only the agent of the chat is left");
    chat.send("typed\r");
    chat.wait_for_answer("typed", "typed");
    chat.leave();
}

#[test]
fn a_second_terminal_attaches_to_the_chat_with_its_own_conversation_and_leaves_it_running() {
    let app = App::new();
    let mut chat = chat(&app, &[]);
    let mut second = app.terminal(&[], (80, 30));
    second.wait_for_text("── agent 1 ");
    second.send("typed at the second\r");
    second.wait_for_answer("typed at the second", "typed at the second");
    assert!(!chat.screen_text().contains("typed at the second"));
    assert!(app.get(&["logs", "1"]).contains("typed at the second"));
    assert_eq!(app.get(&["sessions", "--json"]).lines().count(), 2);
    second.send("\x03");
    assert!(second.wait_exit().success());
    assert_eq!(second.terminal_left(), TerminalLeft::CLEAN);
    chat.send("still here\r");
    chat.wait_for_answer("still here", "still here");
    chat.leave();
}

#[test]
fn two_chats_started_at_once_are_one_chat_with_two_terminals() {
    for _ in 0..5 {
        let app = App::new();
        let mut both = [app.terminal(&[], (80, 24)), app.terminal(&[], (80, 24))];
        for terminal in &mut both {
            terminal.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
        }
        eventually("both are listed", || app.get(&["sessions", "--json"]).lines().count() == 2);
        app.get(&["stop"]);
        for terminal in &mut both {
            assert!(terminal.wait_exit().success(), "{}", terminal.screen_text());
        }
    }
}

#[test]
fn stop_ends_the_chat_in_order() {
    let app = App::new();
    let mut chat = chat(&app, &["words"]);
    chat.wait_for_answer("words", "words");
    app.get(&["stop"]);
    assert!(chat.wait_exit().success());
    assert_eq!(chat.terminal_left(), TerminalLeft::CLEAN);
    assert!(app.get(&["logs", "0"]).contains("> words\nwords\n"));
}

#[test]
fn a_chat_ends_when_its_terminal_is_closed() {
    let app = App::new();
    let mut chat = chat(&app, &["words"]);
    chat.wait_for_answer("words", "words");
    chat.hang_up();
    assert!(app.get(&["logs", "0"]).contains("> words\nwords\n"));
    assert_eq!(app.run(&["tell", "0", "x"]).code, Some(1));
}

#[test]
fn a_chat_killed_while_scripts_use_it_loses_nothing_that_was_said() {
    let peer = Peer::start();
    let mut app = App::new();
    app.variables.push(("OPENAI_BASE_URL".into(), peer.url()));
    app.variables.push(("POLYLOGUE_MODEL".into(), "openai/test".into()));
    let mut first = chat(&app, &[]);
    let mut second = app.attach(&[], (80, 24));
    first.send("a question\r");
    let exchange = peer.accept();
    exchange.stream().text("half of the answer");
    second.wait_for_text("half of the answer");
    let mut run = app.command(&["-p", "a run"]);
    let run = run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let other = peer.accept();
    app.get(&["tell", "0", "queued"]);
    first.kill(Signal::KILL);
    assert!(died_of(first.wait_exit(), Signal::KILL));
    let output = Response::of(run.wait_with_output().expect("it ends"));
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.err.contains("the server has ended"), "{output:?}");
    assert_eq!(second.wait_exit().code(), Some(1));
    assert_eq!(second.terminal_left(), TerminalLeft::CLEAN);
    drop((exchange, other));
    let mut again = chat(&app, &["-r", "0"]);
    again.wait_for_text("half of the answer");
    again.wait_for_text("2 turns were interrupted");
    again.wait_for_text("queued");
    assert!(agents(&app).iter().any(|agent| agent["queued"] == 1), "{:?}", agents(&app));
    again.leave();
}

#[test]
fn a_second_server_beside_a_chat_is_refused() {
    let app = App::new();
    let mut chat = chat(&app, &[]);
    let output = app.run(&["serve", "--background"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.err.contains("already serves") && output.err.contains("polylogue attach"), "{output:?}");
    assert!(app.path().join("server/socket").exists());
    chat.leave();
}

#[test]
fn a_chat_waits_for_a_run_that_holds_the_data_directory() {
    let peer = Peer::start();
    let mut app = App::new();
    app.variables.push(("OPENAI_BASE_URL".into(), peer.url()));
    let mut command = app.command(&["-p", "-m", "openai/test", "hello"]);
    let run = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it runs");
    let exchange = peer.accept();
    let mut chat = app.terminal(&[], (100, 24));
    chat.wait_for_text("waiting for process");
    exchange.stream().text("done").finish("stop").done();
    assert_eq!(Response::of(run.wait_with_output().expect("it ends")).out, "done\n");
    chat.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    chat.leave();
}
