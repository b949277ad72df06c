//! A client of the socket that goes away before, in the middle of or behind any of its requests or of their answers, or
//! that sends a request twice.

use std::io::Read as _;

use polylogue::Turn;
use serde_json::{Value, json};

use crate::support::client::{Client, request, serve, turn_until_no_client};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe as _;
use crate::support::size::stride;

/// What goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The client leaves when so many bytes of it were sent.
    Sent(usize),
    /// The client leaves when so many bytes of its answer were read.
    Read(usize),
    Twice,
}

/// The requests of the conversation. Agent 0 asks whether a call may run.
fn conversation(question: &Value) -> Vec<String> {
    let with = |what: &str, fields: Value| request(what, fields);
    vec![
        with("ps", json!({})),
        with("new", json!({"name": "w"})),
        with("send", json!({"agent": "w", "text": "sent to w"})),
        with("wait", json!({"agent": "w", "seconds": 5})),
        with("logs", json!({"agent": "w"})),
        with("run", json!({"agent": null, "argv": ["mail", "--send=mail to w", "--", "w"]})),
        with("turn", json!({"agent": "w", "text": "turn of w"})),
        with("sessions", json!({})),
        with("answer", json!({"id": question, "allow": false})),
        with("show", json!({"agent": "w"})),
        with("run", json!({"agent": "w", "argv": ["interrupt"]})),
        with("archive", json!({"agent": "w"})),
        with("run", json!({"agent": null, "argv": ["unarchive", "w"]})),
        with("run", json!({"agent": "w", "argv": ["kill"]})),
        with("status", json!({})),
    ]
}

/// Agent 0 asks, and agent 1 is not concerned.
fn app() -> (Harness, Value) {
    let mut app = serve(Plan::default());
    app.repl.create(Some("other"), None).expect("an agent");
    app.say(0, "%tool bash {\"command\":\"true\"}");
    app.turn_until_asked(0);
    let question = Client::open_questions(&mut app)[0]["id"].take();
    turn_until_no_client(&mut app);
    (app, question)
}

/// Reads lines up to the answer.
fn answer(app: &mut Harness, client: &mut Client) -> Value {
    loop {
        let line = client.read(app);
        if line.get("ok").is_some() || line.get("error").is_some() {
            return line;
        }
    }
}

/// How the server has answered the requests, each with its number; there is no answer that the client did not wait for.
fn play(app: &mut Harness, lines: &[String], at: usize, fault: Fault) -> Vec<(usize, Value)> {
    let mut client = Client::connect(app);
    let mut answers = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let line = format!("{line}\n");
        match fault {
            Fault::Sent(bytes) if number == at => {
                client.write(&line.as_bytes()[..bytes]);
                app.turn();
                client = Client::connect(app);
            }
            Fault::Read(bytes) if number == at => {
                client.write(&line);
                let mut read = Vec::new();
                app.turn_until("a part of the answer", |_| {
                    let mut portion = vec![0; bytes - read.len()];
                    let count = client.stream.read(&mut portion).unwrap_or(0);
                    read.extend_from_slice(&portion[..count]);
                    // Some answers are shorter.
                    read.len() == bytes || read.ends_with(b"\n")
                });
                client = Client::connect(app);
            }
            _ => {
                let times = if number == at && fault == Fault::Twice { 2 } else { 1 };
                (0..times).for_each(|_| client.write(&line));
                answers.extend((0..times).map(|_| (number, answer(app, &mut client))));
            }
        }
    }
    answers
}

fn check(lines: &[String], at: usize, fault: Fault) {
    let (mut app, question) = app();
    let lines: Vec<String> =
        lines.iter().map(|line| line.replace("QUESTION", question.as_str().expect("an id"))).collect();
    let other = app.fingerprint(1);
    let answers = play(&mut app, &lines, at, fault);
    let what = format!("{fault:?} of {}", lines[at]);
    app.turn_until("all is done", |app| app.repl.roster().at_work().is_empty());
    // What was acknowledged is stored, and what has an id happened once.
    let texts = stored_texts(&app);
    for (text, number) in [("sent to w", 2), ("turn of w", 6)] {
        let count = texts.iter().filter(|stored| *stored == text).count();
        let most = if fault == Fault::Twice && at == number { 2 } else { 1 };
        let is_acknowledged = answers.iter().any(|(of, answer)| *of == number && answer.get("ok").is_some());
        assert!(count <= most && (count > 0 || !is_acknowledged), "{what}: {text:?} is stored {count} times");
    }
    let made = stored_agents(&app).iter().filter(|name| *name == "w").count();
    assert!(made <= 1, "{what}: {made} agents of one name");
    let results = app.tool_results(0);
    assert!(results.len() <= 1, "{what}: {results:?}");
    if fault == Fault::Twice && at == 8 {
        let refused = &answers[9].1;
        assert!(refused["error"]["text"].as_str().is_some_and(|text| text.contains("no open question")), "{refused}");
    }
    let mail = app.repl.store().mail(app.id(1), None).expect("mail");
    assert!(mail.is_empty() && app.fingerprint(1) == other, "{what}: another agent has changed");
    let mut client = Client::connect(&app);
    client.is_served(&mut app);
    client.done(&mut app, "send", json!({"agent": "1", "text": "still there"}));
    app.turn_until("the reply", |app| app.replies(1).last().is_some_and(|reply| reply == "still there"));
    assert_eq!(app.turn(), Turn::Continue);
    drop(client);
    turn_until_no_client(&mut app);
}

fn database(app: &Harness) -> rusqlite::Connection {
    rusqlite::Connection::open(app.data().join("polylogue.db")).expect("a database")
}

fn column(app: &Harness, sql: &str) -> Vec<String> {
    let conn = database(app);
    let mut statement = conn.prepare(sql).expect("the tables of today");
    statement.query_map([], |row| row.get(0)).expect("rows").collect::<rusqlite::Result<_>>().expect("texts")
}

fn stored_texts(app: &Harness) -> Vec<String> {
    column(app, "SELECT content FROM messages WHERE kind = 'user'")
}

fn stored_agents(app: &Harness) -> Vec<String> {
    column(app, "SELECT name FROM agents WHERE name IS NOT NULL")
}

fn lines() -> Vec<String> {
    conversation(&json!("QUESTION"))
}

#[test]
fn a_client_that_leaves_within_any_request_has_made_it_or_not() {
    let lines = lines();
    let places: Vec<(usize, usize)> =
        lines.iter().enumerate().flat_map(|(at, line)| (0..=line.len() + 1).map(move |bytes| (at, bytes))).collect();
    for (at, bytes) in places.into_iter().step_by(stride(83)) {
        // The id of the question is longer than what is in its place.
        check(&lines, at, Fault::Sent(bytes));
    }
}

#[test]
fn a_client_that_leaves_within_any_answer_leaves_the_server_to_others() {
    let lines = lines();
    for at in (0..lines.len()).step_by(stride(4)) {
        for bytes in [0, 1, 5, 17] {
            check(&lines, at, Fault::Read(bytes));
        }
    }
}

#[test]
fn a_request_that_comes_twice_has_no_second_effect_where_an_id_tells() {
    let lines = lines();
    for at in (0..lines.len()).step_by(stride(2)) {
        check(&lines, at, Fault::Twice);
    }
}
