//! Steps of scenes between agents and a scripted peer: messages and replies, the requests that the peer got, and which
//! processes run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use polylogue::AgentId;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::harness::{Harness, Plan};
use super::openai::last_user_text;
use super::peer::{Exchange, Peer};
use crate::support::internals::{State, Wait};

/// Agent 0 alone, on the screen; tools take real time.
pub fn app(peer: &Peer) -> Harness {
    Harness::new(Plan { real_time: true, ..Plan::peer(&peer.url()) })
}

/// Agent 0, on the screen, and children of it: `count` agents in all.
pub fn app_with_agents(count: usize, plan: Plan) -> Harness {
    let mut app = Harness::new(plan);
    for _ in 1..count {
        app.fork(0);
    }
    app.switch(0);
    app
}

/// This text is on the screen, in one row or wrapped: paths in it have different lengths.
pub fn assert_shows(app: &mut Harness, expected: &str) {
    let screen = app.screen_text();
    let is_shown = screen.contains(expected) || screen.replace("\n  ", " ").contains(expected);
    assert!(is_shown, "{expected:?} is not on the screen:\n{screen}");
}

/// The line is refused with this text, changes nothing, and is in the draft again.
pub fn assert_refused(app: &mut Harness, line: &str, expected: &str) {
    let focus = app.focus();
    let before = app.kinds(focus);
    app.enter(line);
    assert_shows(app, expected);
    assert_eq!((app.kinds(focus), app.draft(focus).text()), (before, line));
    assert_eq!(app.focus(), focus);
    app.type_bytes(b"\x15");
}

/// The arguments of the `bash` tool.
pub fn bash(command: &str) -> String {
    json!({ "command": command }).to_string()
}

/// Sends a message to an agent and answers it; returns the body of the request.
pub fn converse(app: &mut Harness, peer: &Peer, n: usize, text: &str, reply: &str) -> Vec<u8> {
    app.say(n, text);
    answer_next(app, peer, n, reply)
}

/// Answers the next request, which ends the turn of this agent; returns the body of the request.
pub fn answer_next(app: &mut Harness, peer: &Peer, n: usize, reply: &str) -> Vec<u8> {
    let exchange = app.accept(peer);
    exchange.stream().text(reply).finish("stop").done();
    app.turn_until("the reply", |app| app.state(n) == State::Idle);
    assert_eq!(app.replies(n).last().map(String::as_str), Some(reply));
    exchange.request().body.clone()
}

/// The requests whose last user messages are these, in this order, in whatever order they arrive.
pub fn accept_by_text<const N: usize>(app: &mut Harness, peer: &Peer, texts: [&str; N]) -> [Exchange; N] {
    let mut came: Vec<Exchange> = texts.iter().map(|_| app.accept(peer)).collect();
    texts.map(|text| {
        let at = came.iter().position(|exchange| last_user_text(&exchange.request().json()) == text);
        came.swap_remove(at.unwrap_or_else(|| panic!("no request for {text:?}")))
    })
}

/// A reply that calls these tools, with the ids `call-0`, `call-1`, ...
pub fn reply_with_calls(exchange: &Exchange, calls: &[(&str, &str)]) {
    exchange.stream();
    for (at, (name, arguments)) in calls.iter().enumerate() {
        exchange.tool_call(at, &format!("call-{at}"), name, arguments);
    }
    exchange.finish("tool_calls").done();
}

/// The tool results in a request, in its order.
pub fn results_in(request: &Value) -> Vec<(String, String)> {
    let messages = request["messages"].as_array().expect("messages");
    let tools = messages.iter().filter(|message| message["role"] == "tool");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    tools.map(|message| (text(&message["tool_call_id"]), text(&message["content"]))).collect()
}

/// The tool results in the next request, which is answered with this text and ends the turn of that agent.
pub fn results_then(app: &mut Harness, peer: &Peer, n: usize, reply: &str) -> Vec<String> {
    let body: Value = serde_json::from_slice(&answer_next(app, peer, n, reply)).expect("JSON");
    results_in(&body).into_iter().map(|(_, content)| content).collect()
}

/// Role and text of the messages in a request, without the system prompt.
pub fn roles_and_texts_in(body: &[u8]) -> Vec<(String, String)> {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let messages = body["messages"].as_array().expect("messages");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let shown = messages.iter().filter(|message| message["role"] != "system");
    shown.map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

/// The texts of the messages in a request, without the system prompt.
pub fn texts_in(body: &[u8]) -> Vec<String> {
    roles_and_texts_in(body).into_iter().map(|(_, text)| text).collect()
}

/// Some turns, in which whatever is under way would happen.
pub fn turn_a_while(app: &mut Harness) {
    for _ in 0..10 {
        app.turn_within(Duration::from_millis(5));
    }
}

/// What strict servers require: the system prompt first, user and assistant in turn, every call answered directly after
/// its reply, no result without a call, and the last message not the assistant's.
pub fn assert_valid(body: &Value) {
    let messages = body["messages"].as_array().expect("messages");
    let mut open: Vec<&str> = Vec::new();
    let mut last = "";
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().expect("a role");
        assert_eq!(at == 0, role == "system", "{messages:#?}");
        if role == "tool" {
            let id = message["tool_call_id"].as_str().expect("an id");
            let index = open.iter().position(|call| *call == id).expect("a result has a call");
            open.remove(index);
        } else {
            assert!(open.is_empty(), "calls without results before {at}: {messages:#?}");
            assert_ne!(last, role, "{messages:#?}");
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            open = calls.filter_map(|call| call["id"].as_str()).collect();
        }
        last = role;
    }
    assert!(open.is_empty() && last != "assistant", "{messages:#?}");
}

/// A number of seconds for `sleep` that no other process on this machine has in its command line, not even when the suite
/// runs twice at the same time; none is a prefix of another.
pub fn mark() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("86400.{:07}{:04}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a process runs that has this text in its command line (proc(5)).
pub fn is_running(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("a Linux").filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(word))
}

/// Interrupts a call of agent 0 for `touch up; ...`, while it waits for approval or while it is running.
pub fn interrupt_command(app: &mut Harness, is_running: bool) {
    app.turn_until_asked(0);
    if is_running {
        app.press_at_question(b"y");
        let up = app.directory().join("up");
        app.turn_until("the command runs", |_| up.exists());
    }
    app.escape();
    app.turn_until_idle();
}

/// The text to which a request asks for a reply; in tests it says which agent sent it.
pub fn origin(exchange: &Exchange) -> String {
    last_user_text(&exchange.request().json())
}

/// Ends an exchange with a short reply.
pub fn answer(exchange: &Exchange) {
    exchange.stream().text("fine").finish("stop").done();
}

/// Whether the `n`th agent waits to send its request.
pub fn is_in_send_queue(app: &Harness, n: usize) -> bool {
    app.state(n) == State::WaitingForLlm && matches!(app.agent(n).wait(), Wait::Slot)
}

/// A chat that finds so many children of agent 0 in its store, made by a model.
pub fn with_children(many: usize) -> Harness {
    let app = Harness::new(Plan::default());
    let root = app.id(0).to_string();
    let directory = app.close();
    let conn = Connection::open(directory.path().join("polylogue.db")).expect("the database");
    conn.execute_batch("BEGIN").expect("a transaction");
    for n in 1..=i64::try_from(many).expect("a number") {
        let mut bytes = [7; 16];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        let sql =
            "INSERT INTO agents (ordinal, uuid, parent_uuid, fork_message_id, status, activity, created_at, made_by)
            VALUES (?1, ?2, ?3, 0, 'running', 'idle', 0, 2)";
        let id = AgentId::from_bytes(bytes).to_string();
        conn.prepare_cached(sql).and_then(|mut insert| insert.execute((n, id, &root))).expect("a row");
    }
    conn.execute_batch("COMMIT").expect("a commit");
    drop(conn);
    Harness::open(Plan::default(), directory)
}
