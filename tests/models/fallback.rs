//! Another model answers where the agent's own cannot.

use std::time::Duration;

use polylogue::config::{Endpoint, ModelFacts, Prices, ProviderEntry, RetryPolicy, Settings};

use crate::support::anthropic::Message;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Probe};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::assert_shows;

const SECOND: &str = "second/small";

/// Retries at once, as often as given.
fn plan(first: &Peer, second: &Peer, retries: u32) -> Plan {
    let retry = RetryPolicy { retries: Some(retries), base: Duration::ZERO, ..RetryPolicy::default() };
    let plan = Plan::peer(&first.url());
    let prices = Prices { input: 1, cached: 1, written: 1, output: 1 };
    let second = ProviderEntry {
        name: "second".into(),
        kind: "anthropic".into(),
        base_url: second.url(),
        models: vec![("small".into(), ModelFacts { prices: Some(prices), ..ModelFacts::default() })],
        // Its own list is not used.
        fallback: vec!["openai/test".into(), SECOND.into()],
        ..ProviderEntry::default()
    };
    Plan {
        endpoint: Endpoint { fallback: vec![SECOND.into()], ..plan.endpoint },
        providers: vec![second],
        settings: Settings { retry, ..Settings::default() },
        ..plan
    }
}

fn answer(exchange: Exchange, text: &str) {
    exchange.stream().text(text).finish("stop").usage(3, 4).done();
}

/// Whether the cost of each reply is known: only the second model has a price.
fn are_priced(app: &Harness) -> Vec<bool> {
    let priced = |body: Body| if let Body::Usage(usage) = body { Some(usage.cost.is_some()) } else { None };
    app.log(0).into_iter().filter_map(|message| priced(message.body)).collect()
}

fn answer_second(exchange: Exchange, text: &str) {
    Message::begin(&exchange).text(text).end("end_turn");
}

#[test]
fn after_the_last_retry_the_turn_goes_on_with_the_next_model_and_the_next_turn_begins_with_the_first() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = Harness::new(plan(&first, &second, 2));
    app.enter("look and answer");
    let exchange = app.accept(&first);
    exchange.stream().text("I look.").tool_call(0, "call-a", "list_dir", "{}").finish("tool_calls").usage(3, 4).done();
    for _ in 0..3 {
        app.accept(&first).error(503, "overloaded", "try later");
    }
    let exchange = app.accept(&second);
    let request = exchange.request().json();
    let sent = request["messages"].to_string();
    assert!(sent.contains("look and answer") && sent.contains("tool_use") && sent.contains("tool_result"), "{sent}");
    assert_eq!(app.agent(0).inputs.endpoint.full_name(), SECOND);
    answer_second(exchange, "found it");
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["I look.", "found it"]);
    assert_eq!(are_priced(&app), [false, true], "the model that answered is credited");
    assert_shows(&mut app, "second/small answers, because openai/test failed:");
    assert_eq!(app.agent(0).inputs.endpoint.full_name(), "openai/test");
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "second/small answers, because openai/test failed:");
    app.enter("again");
    answer(app.accept(&first), "here I am");
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["I look.", "found it", "here I am"]);
    assert_eq!(are_priced(&app), [false, true, false]);
}

#[test]
fn a_new_conversation_during_a_fallback_has_the_usual_model() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = Harness::new(plan(&first, &second, 0));
    app.enter("hello");
    app.accept(&first).error(503, "overloaded", "try later");
    let exchange = app.accept(&second);
    app.enter("/new");
    app.turn_until("a second agent", |app| app.repl.roster().len() == 2);
    assert_eq!(app.agent(0).inputs.endpoint.full_name(), SECOND);
    assert_eq!(app.agent(1).inputs.endpoint.full_name(), "openai/test");
    answer_second(exchange, "me");
    app.turn_until_idle();
}

#[test]
fn a_refused_key_and_a_long_limit_fall_back_without_retries() {
    for status in [401, 429] {
        let (first, second) = (Peer::start(), Peer::start());
        let mut app = Harness::new(plan(&first, &second, 5));
        app.enter("hello");
        let exchange = app.accept(&first);
        match status {
            429 => exchange.head(429, &[("Retry-After", "3600"), ("content-length", "8")]).body("too many"),
            _ => exchange.error(status, "auth", "who are you?"),
        };
        answer_second(app.accept(&second), "me");
        app.turn_until_idle();
        assert_eq!(app.replies(0), ["me"], "{status}");
    }
}

#[test]
fn each_model_is_tried_once_and_then_the_turn_fails() {
    let (first, second) = (Peer::start(), Peer::start());
    let plan = plan(&first, &second, 0);
    let names = ["nobody/x", "openai/test", SECOND, SECOND];
    let fallback = names.map(str::to_owned).to_vec();
    let mut app = Harness::new(Plan { endpoint: Endpoint { fallback, ..plan.endpoint }, ..plan });
    app.enter("hello");
    app.accept(&first).error(503, "overloaded", "first is full");
    app.accept(&second).error(529, "overloaded_error", "second is full");
    app.turn_until_idle();
    assert!(app.last_error(0).contains("second is full"), "{}", app.last_error(0));
    assert!(first.try_accept().is_none() && second.try_accept().is_none());
    assert_eq!(app.agent(0).inputs.endpoint.full_name(), "openai/test");
}

#[test]
fn a_reply_that_was_shown_in_part_is_not_begun_again_elsewhere() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = Harness::new(plan(&first, &second, 0));
    app.enter("hello");
    let exchange = app.accept(&first);
    exchange.stream().text("half of");
    app.turn_until("the text", |app| app.agent(0).partial_text() == "half of");
    exchange.hang_up();
    app.turn_until_idle();
    assert_eq!(app.partial_replies(0), ["half of"]);
    assert!(second.try_accept().is_none());
}

/// The last text that was sent; one that has no answer precedes it in the same message.
fn asked(exchange: &Exchange) -> String {
    let request = exchange.request().json();
    let last = request["messages"].as_array().and_then(|all| all.last().cloned()).expect("a message");
    let content = &last["content"];
    let text = content.as_str().or(content[0]["text"].as_str()).expect("a text");
    text.rsplit("\n\n").next().unwrap_or_default().to_owned()
}

#[test]
fn a_message_that_waits_in_a_paused_queue_is_sent_by_no_model_until_the_person_resumes_it() {
    // The turn is interrupted while the second model answers, or that fails too.
    for is_interrupted in [true, false] {
        let (first, second) = (Peer::start(), Peer::start());
        let mut app = Harness::new(plan(&first, &second, 0));
        app.enter("hello");
        let exchange = app.accept(&first);
        app.enter("later");
        exchange.error(503, "overloaded", "try later");
        let exchange = app.accept(&second);
        assert_eq!(asked(&exchange), "hello", "the turn goes on, the queue does not");
        if is_interrupted {
            exchange.stream();
            app.escape();
        } else {
            exchange.error(529, "overloaded_error", "second is full");
        }
        app.turn_until_idle();
        assert_shows(&mut app, "the queue is paused");
        app.advance(Duration::from_secs(600));
        let mut app = app.crash_and_restart();
        assert_eq!(app.agent(0).queue.len(), 1);
        assert!(first.try_accept().is_none() && second.try_accept().is_none());
        // A message to another agent, whose model falls back, resumes no queue but its own.
        app.fork(0);
        app.say(1, "aside");
        app.accept(&first).error(503, "overloaded", "try later");
        let exchange = app.accept(&second);
        assert_eq!(asked(&exchange), "aside");
        answer_second(exchange, "me");
        app.turn_until_idle();
        assert_eq!(app.agent(0).queue.len(), 1);
        app.ask(0, polylogue::Change::EditQueue(polylogue::QueueEdit::Resume));
        let exchange = app.accept(&first);
        assert_eq!(asked(&exchange), "later", "the next turn begins with the agent's own model");
        answer(exchange, "now");
        app.turn_until_idle();
        assert!(second.try_accept().is_none());
    }
}

#[test]
fn a_fork_during_the_turn_has_the_model_that_was_chosen() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = Harness::new(plan(&first, &second, 0));
    app.enter("hello");
    app.accept(&first).error(503, "overloaded", "full");
    let exchange = app.accept(&second);
    app.fork(0);
    assert_eq!(app.agent(1).inputs.endpoint.full_name(), "openai/test");
    answer_second(exchange, "me");
    app.turn_until_idle();
}

#[test]
fn a_provider_has_a_stall_timeout_of_its_own() {
    let peer = Peer::start();
    let plan = plan(&peer, &peer, 0);
    let stall_timeout = Some(Duration::from_secs(7));
    let mut app =
        Harness::new(Plan { endpoint: Endpoint { stall_timeout, fallback: Vec::new(), ..plan.endpoint }, ..plan });
    app.enter("hello");
    let _silent = app.accept(&peer);
    app.advance(Duration::from_secs(6));
    assert!(app.agent(0).is_under_way());
    app.advance(Duration::from_secs(1));
    app.turn_until_idle();
    assert!(app.last_error(0).contains("no data from openai/test for 7 s"), "{}", app.last_error(0));
}
