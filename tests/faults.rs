//! Faults by enumeration, as SQLite tests itself: each place where something can fail fails once, one after the other. What
//! must hold each time: nothing panics, other agents are untouched, and the next message is answered.
//!
//! `crashes.rs` does the same with a death at every write.

use std::time::Duration;

use polylogue::config::{RetryPolicy, Settings};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, State};
use crate::support::peer::Peer;
use crate::support::scene::app_with_agents;

/// A response as a server sends it, with text, usage and end.
fn response() -> Vec<u8> {
    let event = |json: &str| {
        let data = format!("data: {json}\n\n");
        format!("{:x}\r\n{data}\r\n", data.len())
    };
    let text = |text: &str| event(&format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#));
    let end = event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let usage = event(r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#);
    let whole = [head.into(), text("one "), text("two"), end, usage, event("[DONE]"), "0\r\n\r\n".into()];
    whole.concat().into_bytes()
}

fn without_retries() -> Settings {
    Settings { retry: RetryPolicy { retries: 0, ..RetryPolicy::default() }, ..Settings::default() }
}

/// What agent 0 has after its response ended behind this many bytes.
fn cut_at(app: &mut Harness, peer: &Peer, bytes: &[u8], is_reset: bool) {
    let before = (app.fingerprint(1), app.log(0).len());
    app.say(0, "question");
    let exchange = app.accept(peer);
    exchange.send(bytes);
    if is_reset {
        exchange.reset();
    } else {
        exchange.hang_up();
    }
    app.turn_until_idle();
    let at = bytes.len();
    assert_eq!(app.fingerprint(1), before.0, "cut at {at}: the other agent has changed");
    let new: Vec<Body> = app.log(0).into_iter().skip(before.1).map(|message| message.body).collect();
    let text: String = new
        .iter()
        .filter_map(|body| if let Body::Assistant(reply) = body { Some(&*reply.text) } else { None })
        .collect();
    let is_error = new.iter().any(|body| matches!(body, Body::Error(_)));
    assert!("one two".starts_with(&text), "cut at {at}: {text:?}");
    assert!(is_error || text == "one two", "cut at {at}: neither an error nor the whole reply: {new:?}");
}

#[test]
fn a_response_that_ends_behind_any_of_its_bytes_concerns_its_agent_only() {
    let response = response();
    let peer = Peer::start();
    let plan = || Plan { settings: without_retries(), size: None, ..Plan::peer(&peer.url()) };
    let mut app = two_agents(plan());
    for at in 0..response.len() {
        // The requests would grow with the conversation.
        if at % 64 == 63 {
            app = two_agents(plan());
        }
        cut_at(&mut app, &peer, &response[..at], at % 2 == 1);
    }
    app.say(0, "question");
    app.accept(&peer).send(&response);
    app.turn_until_idle();
    assert_eq!(app.replies(0).last().map(String::as_str), Some("one two"));
}

fn two_agents(plan: Plan) -> Harness {
    let mut app = Harness::new(plan);
    app.repl.create(Some("other"), None).expect("a second agent");
    app
}

/// A machine that slept: all deadlines are over at once.
#[test]
fn a_clock_that_jumps_by_a_month_in_any_state_leaves_every_agent_able_to_answer() {
    let scripts = [
        "%slow 100\none two three",
        "%hang",
        "%fail network",
        "%fail 429 retry-after=5",
        "%tool wait {\"timeout\": 60}",
        "%tool bash {\"command\":\"true\"}",
        "%think first\n%slow 60\n%think second\n%hang",
    ];
    for script in scripts {
        let mut app = app_with_agents(3, Plan { settings: without_retries(), ..Plan::default() });
        app.say(1, script);
        app.turn();
        app.turn();
        let bystander = app.fingerprint(2);
        for _ in 0..3 {
            app.advance(Duration::from_secs(30 * 24 * 3_600));
            app.turn_until("the end of this moment", |app| app.timeout().after != Some(Duration::ZERO));
        }
        assert_eq!(app.fingerprint(2), bystander, "{script}");
        if app.state(1) == State::AwaitingApproval {
            app.answer(1, false);
        }
        app.ask(1, polylogue::Change::Interrupt);
        app.turn_until_idle();
        app.say(1, "still there");
        app.turn_until_idle();
        assert_eq!(app.replies(1).last().map(String::as_str), Some("still there"), "{script}");
    }
}
