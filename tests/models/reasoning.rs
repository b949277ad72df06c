//! Reasoning that servers of Chat Completions require back: in the field in which it came, to its model alone.

use polylogue::config::{ProviderEntry, SendReasoning};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::{Exchange, Peer};

fn plan(first: &Peer, second: &Peer) -> Plan {
    let entry =
        ProviderEntry { name: "second".into(), kind: "openai".into(), base_url: second.url(), ..Default::default() };
    Plan { providers: vec![entry], real_time: true, ..Plan::peer(&first.url()) }
}

/// The replies in a request.
fn replies_in(exchange: &Exchange) -> Vec<Value> {
    let body = exchange.request().json();
    let rows = body["messages"].as_array().expect("messages").iter();
    rows.filter(|row| row["role"] == "assistant").cloned().collect()
}

/// The values of a field in the replies of a request.
fn sent(exchange: &Exchange, field: &str) -> Vec<Value> {
    replies_in(exchange).iter().map(|row| row[field].clone()).collect()
}

fn call(exchange: &Exchange, thinking: &str, id: &str) {
    exchange.stream().thinking(thinking).tool_call(0, id, "read_file", "{\"file_path\":\"a\"}");
    exchange.finish("tool_calls").done();
}

fn end(app: &mut Harness, exchange: &Exchange, thinking: &str) {
    exchange.stream().thinking(thinking).text("done").finish("stop").done();
    app.turn_until_idle();
}

/// DeepSeek: "For turns that do perform tool calls, the `reasoning_content` must be fully passed back in all subsequent
/// requests."
#[test]
fn reasoning_content_goes_back_with_the_replies_of_a_turn_with_calls() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = Harness::new(plan(&first, &second));
    app.enter("plain");
    let plain = app.accept(&first);
    end(&mut app, &plain, "not needed again");
    app.enter("with a call");
    call(&app.accept(&first), "I look.", "a");
    let next = app.accept(&first);
    assert_eq!(sent(&next, "reasoning_content"), [Value::Null, "I look.".into()]);
    end(&mut app, &next, "I know.");
    let expected = [Value::Null, "I look.".into(), "I know.".into()];

    let mut app = app.crash_and_restart();
    app.enter("after a restart");
    let restarted = app.accept(&first);
    assert_eq!(sent(&restarted, "reasoning_content"), expected);
    end(&mut app, &restarted, "");

    app.fork(0);
    app.say(1, "in a fork");
    let forked = app.accept(&first);
    assert_eq!(sent(&forked, "reasoning_content")[..3], expected);
    end(&mut app, &forked, "");
}

#[test]
fn another_provider_gets_no_reasoning_and_the_first_one_gets_its_own_again() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = Harness::new(plan(&first, &second));
    app.enter("one");
    call(&app.accept(&first), "mine", "a");
    app.turn_until("the next request", |app| app.agent(0).state() == State::WaitingForLlm);
    let next = app.accept(&first);
    end(&mut app, &next, "");
    app.enter("/model second/small");
    app.enter("two");
    let other = app.accept(&second);
    assert!(replies_in(&other).iter().all(|row| row.get("reasoning_content").is_none()), "{:?}", replies_in(&other));
    call(&other, "theirs", "b");
    let other = app.accept(&second);
    assert_eq!(sent(&other, "reasoning_content")[2], "theirs");
    assert!(!String::from_utf8_lossy(&other.request().body).contains("mine"));
    end(&mut app, &other, "");
    app.enter("/model openai/test");
    app.enter("three");
    let back = app.accept(&first);
    // The reply of the other model has none, and this one requires some.
    assert_eq!(sent(&back, "reasoning_content"), ["mine", "", "", ""], "{:?}", replies_in(&back));
    end(&mut app, &back, "");
}

#[test]
fn a_server_that_requires_reasoning_gets_it_also_with_calls_of_other_models() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut plan = plan(&first, &second);
    plan.providers[0].send_reasoning = SendReasoning::ReasoningContent;
    let mut app = Harness::new(plan);
    app.enter("one");
    call(&app.accept(&first), "mine", "a");
    let next = app.accept(&first);
    end(&mut app, &next, "");
    app.enter("/model second/small");
    app.enter("two");
    let other = app.accept(&second);
    assert_eq!(sent(&other, "reasoning_content"), ["", ""]);
    end(&mut app, &other, "");
}

#[test]
fn nothing_goes_back_where_that_is_switched_off() {
    let peer = Peer::start();
    let mut plan = Plan::peer(&peer.url());
    plan.endpoint.send_reasoning = SendReasoning::Off;
    let mut app = Harness::new(plan);
    app.enter("one");
    call(&app.accept(&peer), "mine", "a");
    let next = app.accept(&peer);
    assert!(!String::from_utf8_lossy(&next.request().body).contains("mine"));
    end(&mut app, &next, "");
}

/// The bytes that LiteLLM sent.
fn recorded(case: &str) -> Vec<u8> {
    std::fs::read(format!("{}/fixtures/sse/openai/{case}.sse", env!("CARGO_MANIFEST_DIR"))).expect("a fixture")
}

#[test]
fn thinking_blocks_of_a_gateway_go_back_unchanged_with_every_reply() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { real_time: true, ..Plan::peer(&peer.url()) });
    app.enter("one");
    let exchange = app.accept(&peer);
    exchange.answer(200, "text/event-stream", recorded("litellm-claude-redacted"));
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["Yes."]);
    let blocks = json!([
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3"},
        {"type": "thinking", "thinking": "And so.", "signature": "EqoBCkgIARAB"},
    ]);
    let mut app = app.crash_and_restart();
    app.enter("two");
    let exchange = app.accept(&peer);
    assert_eq!(sent(&exchange, "thinking_blocks"), std::slice::from_ref(&blocks));
    exchange.answer(200, "text/event-stream", recorded("litellm-claude-thinking-and-calls"));
    let exchange = app.accept(&peer);
    let of_round = json!([
        {"type": "thinking", "thinking": "One.", "signature": "AAAA1"},
        {"type": "thinking", "thinking": "Two.", "signature": "BBBB2"},
    ]);
    assert_eq!(sent(&exchange, "thinking_blocks"), [blocks, of_round]);
    end(&mut app, &exchange, "");
}

#[test]
fn the_signature_of_a_google_model_goes_back_with_its_call() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    for (case, field) in
        [("call-signature-google", "extra_content"), ("litellm-gemini-parallel-calls", "provider_specific_fields")]
    {
        app.enter("go");
        app.accept(&peer).answer(200, "text/event-stream", recorded(case));
        let exchange = app.accept(&peer);
        let reply = replies_in(&exchange).pop().expect("a reply");
        let signed: Vec<bool> = reply["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| call[field].to_string().contains("c2ln"))
            .collect();
        assert_eq!((signed[0], signed[1..].contains(&true)), (true, false), "{case}: {reply}");
        end(&mut app, &exchange, "");
    }
}

#[test]
fn text_between_think_tags_is_shown_as_thinking_and_not_sent_back() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.enter("one");
    app.accept(&peer).answer(200, "text/event-stream", recorded("think-tags"));
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["Yes."]);
    app.enter("two");
    let exchange = app.accept(&peer);
    let body = String::from_utf8_lossy(&exchange.request().body).into_owned();
    assert!(body.contains("Yes.") && !body.contains("Hm.") && !body.contains("think>"), "{body}");
    end(&mut app, &exchange, "");
}
