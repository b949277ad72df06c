//! Conversations with a Messages server. The peer validates every request by the rules of that API, so each test in
//! which a reply is cut ends with one more request.

use polylogue::config::{Endpoint, Secret};
use serde_json::{Value, json};

use crate::support::anthropic::Message;
use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::internals::{Probe, State};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{assert_shows, bash, interrupt_command};

/// Agent 0 with this model; tools take real time.
fn app(peer: &Peer, model: &str) -> Harness {
    let key = Some(Secret::new("sk-ant-test"));
    let endpoint = Endpoint { key, ..endpoint("anthropic", model, &peer.url()) };
    Harness::new(Plan { endpoint, real_time: true, ..Plan::default() })
}

/// Agent 0 with a thinking level that was set before a restart.
fn app_with_thinking(peer: &Peer, model: &str, thinking: &str) -> Harness {
    let app = app(peer, model);
    app.repl.store().set_thinking(app.id(0), Some(thinking)).expect("it is stored");
    app.crash_and_restart()
}

/// The content of a message without the marks of the cache.
fn content(request: &Value, index: usize) -> Value {
    let mut content = request["messages"][index]["content"].clone();
    for block in content.as_array_mut().expect("a list of blocks") {
        block.as_object_mut().expect("a block").remove("cache_control");
    }
    content
}

/// The next request, which is answered with a short text that ends the turn.
fn last_request(app: &mut Harness, peer: &Peer) -> Value {
    let exchange = app.accept(peer);
    Message::begin(&exchange).text("that was it").end("end_turn");
    app.turn_until_idle();
    assert_eq!(app.replies(0).last().map(String::as_str), Some("that was it"));
    exchange.request().json()
}

/// What is asked next is answered, in a valid request; its messages.
fn goes_on(app: &mut Harness, peer: &Peer) -> Value {
    assert_eq!(app.state(0), State::Idle);
    app.enter("go on");
    last_request(app, peer)
}

fn thought(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

/// The first request of a turn, which is being answered.
fn asked(app: &mut Harness, peer: &Peer) -> Exchange {
    app.enter("do it");
    app.accept(peer)
}

#[test]
fn thinking_goes_back_signed_and_unchanged_before_the_call_that_it_led_to() {
    let peer = Peer::start();
    let mut app = app_with_thinking(&peer, "claude-haiku-4-5", "medium");
    let exchange = asked(&mut app, &peer);
    assert_eq!(exchange.request().header("x-api-key"), Some("sk-ant-test"));
    assert_eq!(exchange.request().header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(exchange.request().json()["thinking"]["type"], "enabled");

    let message = Message::begin(&exchange);
    message.thinking("Let me \"look\".", "c2ln+/=").text("I look.").call("toolu_1", "bash", &bash("echo a-$((20+3))"));
    message.end("tool_use");
    app.turn_until_asked(0);
    app.type_bytes(b"\x0f");
    assert_shows(&mut app, "Let me \"look\".");
    app.press_at_question(b"y");

    let request = last_request(&mut app, &peer);
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "echo a-$((20+3))"}});
    let reply = [thought("Let me \"look\".", "c2ln+/="), json!({"type": "text", "text": "I look."}), call];
    assert_eq!(content(&request, 1), Value::from(reply.to_vec()));
    let result = content(&request, 2)[0].clone();
    assert_eq!((&result["tool_use_id"], &result["type"]), (&"toolu_1".into(), &"tool_result".into()));
    assert!(result["content"].as_str().is_some_and(|content| content.contains("a-23")), "{result}");
    assert_eq!(request["thinking"]["type"], "enabled", "a round that began with thinking goes on with it");
}

#[test]
fn reasoning_survives_a_restart() {
    let peer = Peer::start();
    let mut app = app_with_thinking(&peer, "claude-haiku-4-5", "low");
    let exchange = asked(&mut app, &peer);
    Message::begin(&exchange).thinking("", "c2ln").text("Done.").end("end_turn");
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    let request = goes_on(&mut app, &peer);
    assert_eq!(content(&request, 1), json!([thought("", "c2ln"), {"type": "text", "text": "Done."}]));
}

#[test]
fn an_interrupt_in_text_or_thinking_or_arguments_leaves_a_conversation_that_goes_on() {
    // What the server says, what is seen of it, and how many blocks of it are kept.
    type Cut = (fn(&Message), &'static str, usize);
    let cuts: [Cut; 5] = [
        (|m| _ = m.open_text("I was ab"), "I was ab", 1),
        (|m| _ = m.open_thinking("Let me"), "Let me", 0),
        (|m| _ = m.thinking("Yes.", "c2ln").open_text("I was ab"), "I was ab", 2),
        (|m| _ = m.thinking("Yes.", "c2ln").open_call("toolu_1", "bash", "{\"comm"), "Yes.", 0),
        (|m| _ = m.thinking("Yes.", "c2ln").text("I look.").open_call("toolu_1", "bash", "{\"c"), "I look.", 2),
    ];
    for (model, thinking) in [("claude-haiku-4-5", "high"), ("claude-opus-5", "low"), ("claude-opus-4-6", "2048")] {
        for (cut, seen, blocks) in cuts {
            let peer = Peer::start();
            let mut app = app_with_thinking(&peer, model, thinking);
            let exchange = asked(&mut app, &peer);
            cut(&Message::begin(&exchange));
            app.turn_until("the text is shown", |app| app.screen_text().contains(seen));
            app.escape();
            app.turn_until_idle();
            let request = goes_on(&mut app, &peer);
            let reply = &request["messages"].as_array().expect("messages")[1..];
            let kept = reply.first().and_then(|message| message["content"].as_array()).map_or(0, Vec::len);
            assert_eq!(kept, blocks, "{model}, {seen}: {request:#}");
        }
    }
}

#[test]
fn an_interrupt_of_a_running_tool_or_of_its_question_answers_every_call() {
    for is_running in [true, false] {
        let peer = Peer::start();
        let mut app = app_with_thinking(&peer, "claude-haiku-4-5", "high");
        let exchange = asked(&mut app, &peer);
        let message = Message::begin(&exchange);
        message.thinking("Yes.", "c2ln").call("toolu_1", "bash", &bash("touch up; sleep 60"));
        message.call("toolu_2", "bash", &bash("true")).end("tool_use");
        interrupt_command(&mut app, is_running);
        let request = goes_on(&mut app, &peer);
        let answers = content(&request, 2);
        let kinds: Vec<_> = answers.as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["tool_result", "tool_result", "text"], "{request:#}");
        assert_eq!((&answers[0]["is_error"], &answers[1]["is_error"]), (&true.into(), &true.into()));
    }
}

#[test]
fn an_error_within_a_reply_keeps_the_partial_text() {
    let peer = Peer::start();
    let mut app = app_with_thinking(&peer, "claude-haiku-4-5", "high");
    let exchange = asked(&mut app, &peer);
    Message::begin(&exchange).thinking("Yes.", "c2ln").open_text("I was ab").fail("overloaded_error", "Overloaded");
    app.turn_until_idle();
    assert!(app.last_error(0).contains("Overloaded"), "{}", app.last_error(0));
    let request = goes_on(&mut app, &peer);
    assert_eq!(content(&request, 1), json!([thought("Yes.", "c2ln"), {"type": "text", "text": "I was ab"}]));
}

#[test]
fn signatures_of_a_failed_attempt_are_not_sent() {
    let peer = Peer::start();
    let mut app = app_with_thinking(&peer, "claude-opus-5", "high");
    let exchange = asked(&mut app, &peer);
    Message::begin(&exchange).thinking("", "Zmlyc3Q=").fail("overloaded_error", "Overloaded");
    let exchange = app.accept(&peer);
    Message::begin(&exchange).thinking("", "c2Vjb25k").text("Done.").end("end_turn");
    app.turn_until_idle();
    let request = goes_on(&mut app, &peer);
    assert_eq!(content(&request, 1), json!([thought("", "c2Vjb25k"), {"type": "text", "text": "Done."}]));
}

#[test]
fn the_request_of_a_child_has_the_cached_prefix_of_its_parent() {
    let peer = Peer::start();
    let mut app = app(&peer, "claude-sonnet-5");
    let exchange = asked(&mut app, &peer);
    Message::begin(&exchange).thinking("Yes.", "c2ln").text("Done.").end("end_turn");
    app.turn_until_idle();
    app.enter("and then?");
    let parent = String::from_utf8(app.accept(&peer).request().body.clone()).expect("JSON is text");
    app.fork(0);
    app.enter("what a child asks");
    let child = String::from_utf8(app.accept(&peer).request().body.clone()).expect("JSON is text");

    let mark = ",\"cache_control\":{\"type\":\"ephemeral\"}";
    let prefix = &parent[..parent.rfind(mark).expect("a mark") - "\"and then?\"".len()];
    assert!(prefix.contains("Done.") && !prefix.ends_with(mark));
    assert!(child.starts_with(prefix), "{child}\n{prefix}");
    assert_eq!(child.matches(mark).count(), 3, "the tools, the newest message, and where the request before ended");
}
