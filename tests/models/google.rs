//! Gemini from end to end: thoughts, calls, results and signatures, and every way to cut a turn. The peer looks at each
//! request as the strictest models do.

use polylogue::config::{Endpoint, Secret};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::internals::{State, Wait};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{bash, interrupt_command};

/// Agent 0 alone, on the screen, with a model that demands signatures; tools take real time.
fn app(peer: &Peer) -> Harness {
    let (key, url) = (Some(Secret::new("AIza-only-in-its-header")), format!("http://{}/v1beta", peer.address()));
    let endpoint = Endpoint { key, ..endpoint("google", "gemini-3.8-flash", &url) };
    Harness::new(Plan { endpoint, real_time: true, ..Plan::default() })
}

/// One chunk with these parts.
fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}], "modelVersion": "m"})
}

/// The last chunk of a reply.
fn stop() -> Value {
    json!({
        "candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 40, "candidatesTokenCount": 5, "thoughtsTokenCount": 7},
    })
}

/// A reply of these parts, from beginning to end.
fn reply(exchange: &Exchange, content: Value) {
    exchange.stream().event(&parts(content)).event(&stop()).end();
}

/// The parts of a reply with a thought and two calls, of which the first is signed.
fn look_and_run(command: &str) -> Value {
    json!([
        {"text": "I look first.", "thought": true},
        {"text": "Let me see."},
        {"functionCall": {"id": "k1", "name": "read_file", "args": {"path": "notes"}}, "thoughtSignature": "c2lnbmVk"},
        {"functionCall": {"id": "k2", "name": "bash", "args": serde_json::from_str::<Value>(&bash(command)).unwrap()}},
    ])
}

/// What the request says, content by content.
fn contents(exchange: &Exchange) -> Vec<Value> {
    exchange.request().json()["contents"].as_array().expect("contents").clone()
}

/// The person says something else, and the model, which gets a valid request, answers.
fn go_on(app: &mut Harness, peer: &Peer) -> Vec<Value> {
    app.enter("and now?");
    let exchange = app.accept(peer);
    let contents = contents(&exchange);
    let last = contents.last().and_then(|last| last["parts"][0]["text"].as_str());
    assert!(last.is_some_and(|text| text.ends_with("and now?")), "{contents:#?}");
    reply(&exchange, json!([{"text": "all is well"}]));
    app.turn_until_idle();
    assert_eq!(app.replies(0).last().map(String::as_str), Some("all is well"));
    contents
}

#[test]
fn thoughts_are_shown_calls_are_run_and_the_signature_goes_back_on_its_part() {
    let peer = Peer::start();
    let mut app = app(&peer);
    std::fs::write(app.directory().join("notes"), "buy milk").expect("a file");
    app.enter("what is to do?");
    let first = app.accept(&peer);
    assert_eq!(first.request().path, "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse");
    assert_eq!(first.request().header("x-goog-api-key"), Some("AIza-only-in-its-header"));
    assert!(first.request().json()["tools"][0]["functionDeclarations"].as_array().is_some_and(|all| all.len() > 3));
    reply(&first, look_and_run("echo ran-$((20+3))"));
    app.turn_until_asked(0);
    app.type_bytes(b"\x0f");
    assert!(app.screen_text().contains("I look first."), "{}", app.screen_text());
    app.press_at_question(b"y");

    let second = app.accept(&peer);
    let contents = contents(&second);
    assert_eq!(contents.len(), 3);
    let parts = &contents[1]["parts"];
    assert_eq!(parts[0], json!({"text": "Let me see."}));
    assert_eq!(parts[1]["thoughtSignature"], "c2lnbmVk");
    assert_eq!(parts[1]["functionCall"], json!({"id": "k1", "name": "read_file", "args": {"path": "notes"}}));
    assert_eq!(parts[2].get("thoughtSignature"), None);
    let answers = &contents[2]["parts"];
    assert!(
        answers[0]["functionResponse"]["response"]["output"].as_str().is_some_and(|text| text.contains("buy milk"))
    );
    assert!(answers[1]["functionResponse"]["response"]["output"].as_str().is_some_and(|text| text.contains("ran-23")));
    reply(&second, json!([{"text": "Milk."}, {"text": "", "thoughtSignature": "bGFzdA=="}]));
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["Let me see.", "Milk."]);
    assert_eq!((app.agent(0).used.input, app.agent(0).used.output), (80, 24));

    let after = go_on(&mut app, &peer);
    assert_eq!(after[..3], contents[..], "the earlier contents stay as they were");
    assert_eq!(after[3]["parts"], json!([{"text": "Milk."}, {"text": "", "thoughtSignature": "bGFzdA=="}]));
}

#[test]
fn signatures_survive_a_restart() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("go");
    reply(&app.accept(&peer), json!([{"text": "yes", "thoughtSignature": "c2lnbmVk"}]));
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    let after = go_on(&mut app, &peer);
    assert_eq!(after[1]["parts"], json!([{"text": "yes", "thoughtSignature": "c2lnbmVk"}]));
}

#[test]
fn after_an_interrupt_in_thinking_or_in_text_the_next_request_is_valid() {
    for piece in [json!([{"text": "hm", "thought": true}]), json!([{"text": "so far", "thoughtSignature": "c2lnbmVk"}])]
    {
        let peer = Peer::start();
        let mut app = app(&peer);
        app.enter("go");
        let exchange = app.accept(&peer);
        exchange.stream().event(&parts(piece.clone()));
        app.turn_until("the piece", |app| {
            let screen = app.screen_text();
            screen.contains("hm") || screen.contains("so far")
        });
        app.escape();
        assert_eq!(app.state(0), State::Idle);
        exchange.wait_for_close();
        go_on(&mut app, &peer);
    }
}

#[test]
fn after_an_interrupt_a_streamed_call_is_not_sent() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("go");
    let exchange = app.accept(&peer);
    exchange.stream().event(&parts(look_and_run("true")));
    app.turn_until("the text", |app| app.screen_text().contains("Let me see."));
    app.escape();
    let after = go_on(&mut app, &peer);
    assert_eq!(after[1]["parts"], json!([{"text": "Let me see."}]));
}

#[test]
fn after_an_interrupt_at_a_question_or_in_a_running_tool_every_call_is_answered() {
    for is_running in [false, true] {
        let peer = Peer::start();
        let mut app = app(&peer);
        app.enter("go");
        reply(&app.accept(&peer), look_and_run("touch up; sleep 60"));
        interrupt_command(&mut app, is_running);
        let after = go_on(&mut app, &peer);
        assert_eq!(after[2]["parts"].as_array().map(Vec::len), Some(2), "{after:#?}");
        assert!(after[2]["parts"][1]["functionResponse"]["response"]["error"].is_string(), "{after:#?}");
    }
}

#[test]
fn after_an_error_in_the_middle_the_partial_reply_is_kept_and_the_next_request_is_valid() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("go");
    let exchange = app.accept(&peer);
    let overloaded = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    exchange.stream().event(&parts(json!([{"text": "so far"}]))).event(&overloaded).end();
    app.turn_until_idle();
    assert_eq!(app.partial_replies(0), ["so far"]);
    go_on(&mut app, &peer);
}

#[test]
fn an_exhausted_quota_is_waited_for_as_long_as_the_body_asks() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("go");
    let details = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}]);
    let error = json!({"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED", "details": details}});
    app.accept(&peer).answer(429, "application/json", error.to_string());
    app.turn_until("a wait", |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
    let Wait::Retry { error, .. } = app.agent(0).wait() else { panic!("it waits") };
    assert_eq!(error.retry_after, Some(2));
    let exchange = app.accept(&peer);
    reply(&exchange, json!([{"text": "at last"}]));
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["at last"]);
}

#[test]
fn a_wrong_key_returns_the_text_and_names_the_reason() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("my words");
    let error = json!({"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
        "details": [{"reason": "API_KEY_INVALID"}]}});
    app.accept(&peer).answer(400, "application/json", error.to_string());
    app.turn_until_idle();
    assert_eq!(app.draft(0).text(), "my words");
    assert!(app.last_error(0).contains("rejected the credentials"), "{}", app.last_error(0));
}
