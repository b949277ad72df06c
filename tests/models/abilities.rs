//! Models that cannot call tools.

use polylogue::config::Settings;
use serde_json::Value;

use crate::support::harness::{Harness, Plan};
use crate::support::peer::Peer;
use crate::support::scene::assert_shows;

#[test]
fn a_model_without_tools_is_sent_none() {
    let peer = Peer::start();
    let mut plan = Plan::peer(&peer.url());
    plan.endpoint.facts.tools = Some(false);
    let mut app = Harness::new(plan);
    app.enter("hello");
    let exchange = app.accept(&peer);
    assert_eq!(exchange.request().json()["tools"], Value::Null);
    exchange.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["fine"]);
}

/// What a server says of a model without tools, with the status (Ollama, OpenRouter).
const REFUSALS: [(u16, &str); 2] = [
    (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
    (
        404,
        "No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai",
    ),
];

#[test]
fn a_model_that_refuses_tools_is_asked_again_without_them_and_not_offered_them_again() {
    for (status, text) in REFUSALS {
        let peer = Peer::start();
        let mut app = Harness::new(Plan::peer(&peer.url()));
        app.fork(0);
        app.switch(0);
        app.enter("hello");
        let refused = app.accept(&peer);
        assert!(refused.request().json()["tools"].is_array());
        refused.error(status, "api_error", text);
        let again = app.accept(&peer);
        assert_eq!(again.request().json()["tools"], Value::Null);
        again.stream().text("fine").finish("stop").done();
        app.turn_until_idle();
        assert_eq!(app.replies(0), ["fine"]);
        assert_shows(&mut app, "the model cannot call tools");
        // Another agent of the same model.
        app.say(1, "hello");
        let other = app.accept(&peer);
        assert_eq!(other.request().json()["tools"], Value::Null);
        other.stream().text("fine").finish("stop").done();
        app.turn_until_idle();
    }
}

#[test]
fn a_model_that_refuses_a_request_without_tools_is_not_asked_again() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.enter("hello");
    for _ in 0..2 {
        app.accept(&peer).error(400, "api_error", REFUSALS[0].1);
    }
    app.turn_until_idle();
    assert!(app.last_error(0).contains("does not support tools"), "{}", app.last_error(0));
}

#[test]
fn a_server_that_was_started_without_tool_calls_is_explained() {
    for (status, text, flag) in [
        (
            400,
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            "start vLLM with",
        ),
        (500, "tools param requires --jinja flag", "start llama-server with --jinja"),
    ] {
        let peer = Peer::start();
        let mut app = Harness::new(Plan::peer(&peer.url()));
        app.enter("hello");
        app.accept(&peer).error(status, "server_error", text);
        app.turn_until_idle();
        let error = app.last_error(0);
        assert!(error.contains(flag) && error.contains("--no-tools"), "{error}");
    }
}

#[test]
fn without_tools_none_are_offered() {
    let peer = Peer::start();
    let settings = Settings { has_tools: false, ..Settings::default() };
    let mut app = Harness::new(Plan { settings, ..Plan::peer(&peer.url()) });
    app.enter("hello");
    let exchange = app.accept(&peer);
    assert_eq!(exchange.request().json()["tools"], Value::Null);
    exchange.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
}
