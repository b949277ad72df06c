//! The models that a server lists: asked for when they are needed, without holding anything else up.

use polylogue::config::ProviderEntry;

use crate::support::harness::{Harness, Plan};
use crate::support::peer::{Exchange, Peer, Refusing};
use crate::support::program::Home;
use crate::support::scene::assert_shows;

const LIST: &str = r#"{"object":"list","data":[
    {"id":"embed-small"},
    {"id":"tiny","max_model_len":2048},
    {"id":"big","context_length":64000,"pricing":{"prompt":"0.0000003","completion":"0.0000012"},
     "supported_parameters":["temperature"]}]}"#;

fn entry(name: &str, url: &str) -> ProviderEntry {
    ProviderEntry { name: name.into(), kind: "openai".into(), base_url: url.into(), ..ProviderEntry::default() }
}

/// An agent that has the first model of the server.
fn unnamed(url: &str) -> Harness {
    let mut plan = Plan::peer(url);
    plan.endpoint.model.clear();
    Harness::new(plan)
}

fn answer_list(exchange: &Exchange) {
    assert_eq!((exchange.request().method.as_str(), exchange.request().path.as_str()), ("GET", "/v1/models"));
    exchange.answer(200, "application/json", LIST);
}

fn converse(app: &mut Harness, peer: &Peer, n: usize) -> serde_json::Value {
    app.say(n, "hello");
    let exchange = app.accept(peer);
    exchange.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    exchange.request().json()
}

#[test]
fn the_models_of_a_server_are_listed_completed_and_found_without_a_provider() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.enter("/model");
    assert_shows(&mut app, "asking the servers");
    answer_list(&app.accept(&peer));
    app.turn_until("the list", |app| app.screen_text().contains("openai/tiny"));
    assert_shows(&mut app, "openai/tiny  (2048 tokens)");
    assert_shows(&mut app, "openai/big  (64000 tokens, about $0.3 in, $1.2 out per million, no tools)");
    app.type_bytes(b"/model openai/ti\t");
    assert_eq!(app.draft(0).text(), "/model openai/tiny");
    app.enter("\x15/model big");
    assert_eq!(app.agent(0).inputs.endpoint.full_name(), "openai/big");
    assert_eq!(app.agent(0).inputs.endpoint.facts.context, Some(64_000));
    assert!(converse(&mut app, &peer, 0)["tools"].is_null(), "the server says that it cannot call tools");
    // Within the hour nothing is asked again.
    app.enter("/model");
    assert_shows(&mut app, "> openai/big");
    assert_eq!(converse(&mut app, &peer, 0)["model"], "big");
}

#[test]
fn an_agent_without_a_model_gets_the_first_one_of_the_server() {
    let peer = Peer::start();
    let mut app = unnamed(&peer.url());
    app.fork(0);
    (0..2).for_each(|n| app.say(n, "hello"));
    answer_list(&app.accept(&peer));
    for _ in 0..2 {
        let exchange = app.accept(&peer);
        assert_eq!(exchange.request().json()["model"], "tiny");
        exchange.stream().text("fine").finish("stop").done();
    }
    app.turn_until_idle();
    app.switch(0);
    assert_shows(&mut app, "using openai/tiny, the first of 3 models of the server");
    assert_eq!(app.agent(0).inputs.endpoint.facts.context, Some(2048));
    // It is stored.
    let app = app.crash_and_restart();
    assert_eq!(app.agent(0).inputs.endpoint.full_name(), "openai/tiny");
}

#[test]
fn a_server_that_is_slow_with_its_list_holds_nothing_up() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.enter("/model");
    let list = app.accept(&peer);
    assert_eq!(converse(&mut app, &peer, 0)["model"], "test");
    answer_list(&list);
    app.turn_until("the list", |app| app.screen_text().contains("openai/tiny"));
}

#[test]
fn a_broken_list_is_said_and_the_others_are_shown() {
    let (peer, other, refusing) = (Peer::start(), Peer::start(), Refusing::start());
    let providers = vec![entry("second", &other.url()), entry("gone", &refusing.url())];
    let mut app = Harness::new(Plan { providers, ..Plan::peer(&peer.url()) });
    app.enter("/model");
    app.accept(&peer).answer(200, "text/html", "<html>hello</html>");
    answer_list(&app.accept(&other));
    app.turn_until("the list", |app| app.screen_text().contains("second/tiny"));
    assert_shows(&mut app, "openai: no list of models: the server's answer is not a list of models");
    assert_shows(&mut app, "gone: no list of models:");
}

#[test]
fn without_a_list_an_agent_without_a_model_fails_with_what_to_do_and_asks_again() {
    let peer = Peer::start();
    let mut app = unnamed(&peer.url());
    app.enter("hello");
    app.accept(&peer).answer(404, "application/json", "{}");
    app.turn_until_idle();
    let error = app.last_error(0);
    assert!(error.contains("no model of openai is chosen") && error.contains("-m openai/MODEL"), "{error}");
    app.say(0, "again");
    app.accept(&peer).answer(200, "application/json", "{\"data\":[]}");
    app.turn_until_idle();
    assert!(app.last_error(0).contains("lists no models"), "{}", app.last_error(0));
}

#[test]
fn a_run_with_nothing_but_a_base_url_uses_the_first_model_and_says_so() {
    let peer = Peer::start();
    let home = Home {
        variables: vec![("OPENAI_BASE_URL".into(), peer.url()), ("POLYLOGUE_MODEL".into(), String::new())],
        ..Home::new()
    };
    let program = home.start(&["-p", "hello"]);
    answer_list(&peer.accept());
    let exchange = peer.accept();
    assert_eq!(exchange.request().json()["model"], "tiny");
    exchange.stream().text("fine").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "fine\n"), "{output:?}");
    assert!(output.err.contains("using openai/tiny, the first of 3 models"), "{output:?}");
}

/// An agent with a named model of which nothing is known.
fn looking_up(peer: &Peer) -> Harness {
    Harness::new(Plan { looks_up_models: true, ..Plan::peer(&peer.url()) })
}

/// The first message: the list is asked for beside it, and does not hold it up.
fn first_message(app: &mut Harness, peer: &Peer, list: &str) {
    app.enter("hello");
    let (one, other) = (app.accept(peer), app.accept(peer));
    let (asked, chat) = if one.request().method == "GET" { (one, other) } else { (other, one) };
    chat.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.agent(0).inputs.endpoint.facts.context, None);
    assert_eq!(asked.request().path, "/v1/models");
    asked.answer(200, "application/json", list);
}

#[test]
fn the_context_of_a_named_model_is_looked_up_once_beside_its_first_request() {
    let peer = Peer::start();
    let mut app = looking_up(&peer);
    app.fork(0);
    app.switch(0);
    let list = r#"{"data":[{"id":"test","owned_by":"llamacpp","meta":{"n_ctx":64000,"n_ctx_train":128000}}]}"#;
    first_message(&mut app, &peer, list);
    app.turn_until("the context", |app| app.agent(0).inputs.endpoint.facts.context == Some(64000));
    assert_eq!(app.agent(1).inputs.endpoint.facts.context, Some(64000));
    (0..2).for_each(|n| drop(converse(&mut app, &peer, n)));
    assert!(peer.try_accept().is_none());
}

#[test]
fn ollama_and_older_servers_of_llama_cpp_are_asked_for_what_their_list_does_not_tell() {
    for (owner, path, details) in [
        ("llamacpp", "/props", r#"{"default_generation_settings":{"n_ctx":2048}}"#),
        ("library", "/api/show", r#"{"parameters":"num_ctx 2048","model_info":{"llama.context_length":8192}}"#),
    ] {
        let peer = Peer::start();
        let mut app = looking_up(&peer);
        let list = format!(r#"{{"data":[{{"id":"test","owned_by":"{owner}","meta":{{"n_ctx_train":8192}}}}]}}"#);
        first_message(&mut app, &peer, &list);
        let asked = app.accept(&peer);
        assert_eq!(asked.request().path, path);
        if asked.request().method == "POST" {
            assert_eq!(asked.request().json()["model"], "test");
        }
        asked.answer(200, "application/json", details);
        app.turn_until("the context", |app| app.agent(0).inputs.endpoint.facts.context == Some(2048));
    }
}

#[test]
fn a_context_that_is_known_is_not_looked_up() {
    let peer = Peer::start();
    let mut plan = Plan { looks_up_models: true, ..Plan::peer(&peer.url()) };
    plan.endpoint.facts.context = Some(64_000);
    let mut app = Harness::new(plan);
    converse(&mut app, &peer, 0);
    assert_eq!(peer.connections(), 1);
}

#[test]
fn the_next_run_knows_a_listed_context_before_its_first_request() {
    let peer = Peer::start();
    let mut app = unnamed(&peer.url());
    app.say(0, "hello");
    answer_list(&app.accept(&peer));
    app.accept(&peer).stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    app = app.crash_and_restart();
    assert_eq!(app.agent(0).inputs.endpoint.full_name(), "openai/tiny");
    assert_eq!(app.agent(0).inputs.endpoint.facts.context, Some(2048));
    // What the server lists now counts.
    app.enter("/model");
    app.accept(&peer).answer(200, "application/json", r#"{"data":[{"id":"tiny","max_model_len":4096}]}"#);
    app.turn_until("the list", |app| app.agent(0).inputs.endpoint.facts.context == Some(4096));
    app = app.crash_and_restart();
    assert_eq!(app.agent(0).inputs.endpoint.facts.context, Some(4096));
}
