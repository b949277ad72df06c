//! `logs`: each chunk once and in order, however slowly the client reads.

use polylogue::{Change, Fork};
use serde_json::{Value, json};

use crate::support::client::{Client, serve};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;

/// Text of all chunks of this type.
fn texts(lines: &[Value], kind: &str) -> String {
    lines.iter().filter(|line| line["type"] == kind).filter_map(|line| line["text"].as_str()).collect()
}

/// Reads until an answer that is not a chunk.
fn until_done(client: &mut Client, app: &mut Harness) -> (Vec<Value>, Value) {
    let mut lines = Vec::new();
    loop {
        let line = client.read(app);
        if line.get("ok").is_some() || line.get("error").is_some() {
            return (lines, line);
        }
        lines.push(line);
    }
}

fn logs(app: &mut Harness, fields: Value) -> (Vec<Value>, Value) {
    let mut client = Client::connect(app);
    client.ask("logs", fields);
    until_done(&mut client, app)
}

#[test]
fn logs_begin_with_the_oldest_chunk_and_end_with_the_next_position() {
    let mut app = serve(Plan::default());
    app.say(0, "one two three");
    app.turn_until_idle();
    let (lines, done) = logs(&mut app, json!({"agent": "0"}));
    assert_eq!((texts(&lines, "user"), texts(&lines, "text")), ("one two three".into(), "one two three".into()));
    assert!(lines.iter().all(|line| line["v"] == 1 && line["agent"] == app.id(0).to_string()));
    app.say(0, "four");
    app.turn_until_idle();
    let request = json!({"agent": "0", "from": done["ok"]});
    let (lines, _) = logs(&mut app, request);
    assert_eq!((texts(&lines, "user"), texts(&lines, "text")), ("four".into(), "four".into()));
}

#[test]
fn a_position_of_another_process_is_ignored() {
    let mut app = serve(Plan::default());
    app.say(0, "one two");
    app.turn_until_idle();
    let (_, done) = logs(&mut app, json!({"agent": "0"}));
    let mut app = app.crash_and_restart();
    crate::support::client::open_to_clients(&mut app);
    let request = json!({"agent": "0", "from": done["ok"]});
    let (lines, _) = logs(&mut app, request);
    assert_eq!((texts(&lines, "user"), texts(&lines, "text")), ("one two".into(), "one two".into()));
}

#[test]
fn last_gives_the_newest_messages() {
    let mut app = serve(Plan::default());
    for text in ["one two three", "four five"] {
        app.say(0, text);
        app.turn_until_idle();
    }
    for _ in 0..2 {
        let (all, _) = logs(&mut app, json!({"agent": "0"}));
        for (count, user, text) in [
            (0, "", ""),
            (1, "", "four five"),
            (2, "four five", "four five"),
            (3, "four five", "one two threefour five"),
            (4, "one two threefour five", "one two threefour five"),
            (9, "one two threefour five", "one two threefour five"),
        ] {
            let (lines, _) = logs(&mut app, json!({"agent": "0", "last": count}));
            assert_eq!((texts(&lines, "user"), texts(&lines, "text")), (user.into(), text.into()), "{count}");
            assert_eq!(lines, all[all.len() - lines.len()..], "{count}");
        }
        app = app.crash_and_restart();
        crate::support::client::open_to_clients(&mut app);
    }
}

#[test]
fn invalid_logs_requests_are_refused() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    let (kind, message) = client.refused(&mut app, "logs", json!({"agent": "nobody"}));
    assert!(kind == "usage" && message.contains("nobody"), "{message}");
    let (_, message) =
        client.refused(&mut app, "logs", json!({"agent": "0", "last": 1, "from": {"epoch": "e", "n": 3}}));
    assert!(message.contains("cannot be used together"), "{message}");
    client.is_served(&mut app);
}

#[test]
fn follow_gives_every_chunk_once_and_in_order_until_the_agent_ends() {
    let mut app = serve(Plan::default());
    app.ask(0, Change::Fork(Fork { name: Some("mortal".into()), ..Fork::default() }));
    let mut client = Client::connect(&app);
    client.ask("logs", json!({"agent": "mortal", "follow": true}));
    let mut lines = Vec::new();
    for n in 0..20 {
        app.say(1, &format!("{n} and more"));
        app.turn_until_idle();
        lines.extend(std::iter::from_fn(|| client.try_read()));
    }
    let id = app.id(1);
    app.ask(0, Change::Kill { agent_id: id, cascade: false });
    let (rest, done) = until_done(&mut client, &mut app);
    lines.extend(rest);
    assert!(done["ok"].is_object() || done["ok"].is_null(), "{done}");
    let numbers: Vec<u64> = lines.iter().map(|line| line["n"].as_u64().expect("a number")).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    let expected: String = (0..20).map(|n| format!("{n} and more")).collect();
    assert_eq!((texts(&lines, "user"), texts(&lines, "text")), (expected.clone(), expected));
    assert_eq!(lines.last().expect("chunks")["status"], "dead");
    client.is_served(&mut app);
}

#[test]
fn a_client_that_never_reads_costs_its_agent_nothing_and_gets_the_number_of_missed_chunks() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    client.ask("logs", json!({"agent": "0", "follow": true}));
    // Far more than a ring holds, in pieces and in bytes.
    for _ in 0..2 {
        app.say(0, &format!("%repeat 8000\n{}", "x".repeat(700)));
        app.turn_until_idle();
    }
    assert_eq!((app.replies(0).len(), app.repl.clients()), (2, 1));
    let end = app.agent(0).output.next();
    let (mut next, mut missed) = (None, 0);
    while next != Some(end) {
        let line = client.read(&mut app);
        if let Some(count) = line["missed"].as_u64() {
            missed += count;
            next = next.map(|next: u64| next + count);
            continue;
        }
        let number = line["n"].as_u64().expect("a chunk");
        assert_eq!(number, next.unwrap_or(number), "neither twice nor left out without a word");
        next = Some(number + 1);
    }
    assert!(missed > 1_000, "{missed}");
}

#[test]
fn chunks_after_the_requested_range_do_not_count_as_missed() {
    let mut app = serve(Plan::default());
    app.say(0, &format!("%repeat 8000\n{}", "x".repeat(700)));
    app.turn_until_idle();
    let (begin, end) = (app.agent(0).output.begin(), app.agent(0).output.next());
    let mut client = Client::connect(&app);
    client.ask("logs", json!({"agent": "0"}));
    app.turn_until("it takes no more", |app| app.repl.viewers() == 1 && app.timeout().after.is_none());
    // All that it asked for, and as much again, is dropped before it reads on.
    for _ in 0..3 {
        app.say(0, &format!("%repeat 8000\n{}", "x".repeat(700)));
        app.turn_until_idle();
    }
    assert!(app.agent(0).output.oldest() > end);
    let (lines, done) = until_done(&mut client, &mut app);
    let missed: u64 = lines.iter().filter_map(|line| line["missed"].as_u64()).sum();
    let received = lines.iter().filter(|line| line["n"].is_u64()).count() as u64;
    assert_eq!((done["ok"]["n"].as_u64(), received + missed), (Some(end), end - begin));
}
