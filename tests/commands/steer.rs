//! Another model, another amount of thinking, other instructions: from the next request on, and nothing of one provider
//! ever reaches another.

use polylogue::config::{Endpoint, ModelFacts, Prices, ProviderEntry, Secret, Thinking};
use polylogue::{Change, Fork, Setting};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{assert_refused, assert_shows, converse};

const KEY: &str = "sk-of-the-first-0123456789";

/// Agent 0 talks to the first, with a key and a header; the second has neither, and prices.
fn app(first: &Peer, second: &Peer) -> Harness {
    Harness::new(plan(first, second))
}

fn plan(first: &Peer, second: &Peer) -> Plan {
    let mut plan = Plan::peer(&first.url());
    plan.endpoint.key = Some(Secret::new(KEY));
    plan.endpoint.key_variable = Some("OPENAI_API_KEY".into());
    plan.endpoint.headers = vec![("X-Of-First".into(), "a secret of the first".into())];
    let prices = Some(Prices { input: 1_000_000_000, cached: 0, written: 0, output: 2_000_000_000 });
    let facts = ModelFacts { context: Some(1000), prices, ..ModelFacts::default() };
    plan.providers = vec![ProviderEntry {
        name: "second".into(),
        kind: "openai".into(),
        base_url: second.url(),
        models: vec![("small".into(), facts), ("large".into(), ModelFacts::default())],
        ..ProviderEntry::default()
    }];
    plan
}

/// Head and body of a request as one text.
fn all_of(exchange: &Exchange) -> String {
    let request = exchange.request();
    format!("{} {:?} {}", request.path, request.headers, String::from_utf8_lossy(&request.body))
}

#[test]
fn nothing_of_the_first_provider_reaches_the_second() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(&first, &second);
    app.enter("/thinking high");
    app.enter("a question");
    let exchange = app.accept(&first);
    let sent = all_of(&exchange);
    assert!(sent.contains(KEY) && sent.contains("a secret of the first") && sent.contains("\"high\""), "{sent}");
    exchange.stream().thinking("a thought").text("an answer").finish("stop").done();
    app.turn_until_idle();
    app.enter("/thinking default");
    app.enter("/model second/large");
    app.enter("another");
    let exchange = app.accept(&second);
    let sent = all_of(&exchange);
    for secret in [KEY, "X-Of-First", "a secret of the first", &first.address().to_string(), "reasoning", "a thought"] {
        assert!(!sent.to_lowercase().contains(&secret.to_lowercase()), "{secret}: {sent}");
    }
    assert!(sent.contains("an answer") && exchange.request().json()["model"] == "large", "{sent}");
    assert!(first.try_accept().is_none());
    exchange.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    app.enter("and now?");
    let exchange = app.accept(&second);
    assert!(!all_of(&exchange).contains(KEY) && exchange.request().json()["model"] == "large");
}

#[test]
fn the_thinking_level_is_the_same_after_a_restart() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(&first, &second);
    app.enter("/model echo/echo");
    app.enter("/thinking 2000");
    app.enter("/fork --model second/small");
    app.switch(0);
    app.enter("/fork");
    app.enter("/thinking default");
    let amounts = |app: &Harness| [0, 1, 2].map(|n| app.agent(n).inputs.thinking);
    let before = [Thinking::Budget(2000), Thinking::Unspecified, Thinking::Unspecified];
    assert_eq!(amounts(&app), before);
    let directory = app.close();
    let plan = Plan { thinking: Thinking::Low, ..plan(&first, &second) };
    assert_eq!(amounts(&Harness::open(plan, directory)), before);
}

#[test]
fn a_default_thinking_level_that_the_model_does_not_accept_is_not_sent() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(&first, &second);
    app.enter("/fork --model second/small");
    let directory = app.close();
    let plan = Plan { thinking: Thinking::Budget(2000), endpoint: Endpoint::echo(), ..plan(&first, &second) };
    let app = Harness::open(plan, directory);
    assert_eq!(app.agent(1).inputs.thinking, Thinking::Unspecified);
}

#[test]
fn a_thinking_level_that_the_new_model_does_not_accept_is_dropped_with_a_note() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(&first, &second);
    app.enter("/model echo/echo");
    app.enter("/thinking 2000");
    assert_eq!(app.agent(0).inputs.thinking, Thinking::Budget(2000));
    app.enter("/model second/small");
    assert_shows(&mut app, "with thinking default: it does not support thinking 2000");
    app.enter("go");
    let exchange = app.accept(&second);
    assert!(exchange.request().json().get("reasoning_effort").is_none(), "{}", all_of(&exchange));
    assert_refused(&mut app, "/thinking 2000", "not a number of tokens");
    let mut app = app.crash_and_restart();
    assert_eq!(app.agent(0).inputs.thinking, Thinking::Unspecified);
    app.enter("\x15/model echo/echo");
    app.enter("/thinking 2000");
    app.enter("/fork --model second/small");
    assert_eq!(app.agent(1).inputs.thinking, Thinking::Unspecified, "a child's model may take less than its parent's");
    assert_eq!(app.crash_and_restart().agent(1).inputs.thinking, Thinking::Unspecified);
}

#[test]
fn default_thinking_set_by_the_user_overrides_the_configuration_after_a_restart() {
    let mut app = Harness::new(Plan { thinking: Thinking::High, ..Plan::default() });
    app.fork(0);
    app.enter("/thinking default");
    app.fork(1);
    let thinking = |app: &Harness| [0, 1, 2].map(|n| app.agent(n).inputs.thinking);
    let expected = [Thinking::High, Thinking::Unspecified, Thinking::Unspecified];
    assert_eq!(thinking(&app), expected);
    assert_eq!(thinking(&app.crash_and_restart()), expected);
}

#[test]
fn a_configured_level_that_the_new_model_does_not_accept_stays_dropped_after_a_restart() {
    let second = Peer::start();
    let mut plan = Plan { thinking: Thinking::Budget(2000), ..Plan::default() };
    plan.providers = vec![ProviderEntry {
        name: "second".into(),
        kind: "openai".into(),
        base_url: second.url(),
        ..ProviderEntry::default()
    }];
    let mut app = Harness::new(plan);
    app.enter("/fork --model second/small");
    app.switch(0);
    app.enter("/model second/small");
    let mut app = app.crash_and_restart();
    assert_eq!([0, 1].map(|n| app.agent(n).inputs.thinking), [Thinking::Unspecified; 2]);
    app.enter("go");
    assert!(app.accept(&second).request().json().get("reasoning_effort").is_none());
}

#[test]
fn a_model_change_during_a_reply_applies_to_the_next_request_and_keeps_the_price_of_the_reply() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(&first, &second);
    app.enter("/model second/small");
    app.enter("one");
    let exchange = app.accept(&second);
    exchange.stream().text("so far");
    app.turn_until("the stream", |app| app.agent(0).partial_text() == "so far");
    app.enter("/model openai/test");
    app.enter("two");
    exchange.text(" and on").finish("stop").usage(100, 10).done();
    let next = app.accept(&first);
    assert!(all_of(&next).contains("so far and on") && next.request().json()["model"] == "test");
    // 100 tokens at a thousandth of a dollar, 10 at two thousandths.
    app.enter("/usage");
    assert_shows(&mut app, "this agent  1 counted request, 100 tokens in (0 cached), 10 out, $0.12");
    next.stream().text("x").finish("stop").done();
    app.turn_until_idle();
}

#[test]
fn the_list_of_models_marks_the_current_one() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(&first, &second);
    app.enter("/model");
    for peer in [&first, &second] {
        app.accept(peer).answer(404, "application/json", "{}");
    }
    app.turn_until("the list", |app| app.screen_text().contains("NAME for any other"));
    for expected in ["> openai/test", "  second/small", "  second/large", "  echo/echo", "second/NAME for any other"] {
        assert_shows(&mut app, expected);
    }
    assert!(!app.screen_text().contains(KEY));
    app.enter("/model second/unheard-of");
    assert_eq!(app.agent(0).inputs.endpoint.full_name(), "second/unheard-of");
    assert_refused(&mut app, "/model third/x", "unknown provider \"third\"");
}

#[test]
fn a_system_prompt_is_sent_inherited_and_stored() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    let system = |body: &[u8]| {
        let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        body["messages"][0]["content"].as_str().expect("a text").to_owned()
    };
    let usual = system(&converse(&mut app, &peer, 0, "one", "fine"));
    app.enter("/system talk like a pirate");
    assert_eq!(system(&converse(&mut app, &peer, 0, "two", "fine")), "talk like a pirate");
    app.ask(0, Change::Fork(Fork::default()));
    let mut app = app.crash_and_restart();
    assert_eq!(system(&converse(&mut app, &peer, 1, "three", "fine")), "talk like a pirate");
    app.enter("/system --default");
    assert_eq!(system(&converse(&mut app, &peer, 0, "four", "fine")), usual);
    assert_eq!(system(&converse(&mut app, &peer, 1, "five", "fine")), "talk like a pirate");
    let long = "x".repeat(256 * 1024 + 1);
    let id = app.id(0);
    let refused = app.repl.apply(id, Change::Setting(Setting::System(Some(long)))).unwrap_err();
    assert!(refused.message.contains("256 KiB at most"), "{refused}");
}

#[test]
fn usage_is_known_after_a_restart_for_one_and_all_agents() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(&first, &second);
    app.enter("/model second/small");
    app.enter("one");
    app.accept(&second).stream().text("x").finish("stop").usage(400, 50).done();
    app.turn_until_idle();
    app.fork(0);
    app.enter("two");
    app.accept(&second).stream().text("x").finish("stop").usage(100, 0).done();
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    app.enter("/usage");
    assert_shows(&mut app, "this agent  1 counted request, 400 tokens in (0 cached), 50 out, $0.50");
    assert_shows(&mut app, "all agents  2 counted requests, 500 tokens in (0 cached), 50 out, $0.60");
    assert_shows(&mut app, "context     450 of 1000 tokens (45 %)");
}

#[test]
fn errors_for_long_conversations_and_wrong_keys_name_the_remedy() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(&first, &second);
    app.enter("a question");
    let body = "This model's maximum context length is 10 tokens.";
    app.accept(&first).error(400, "context_length_exceeded", body);
    app.turn_until_idle();
    let error = app.last_error(0);
    assert!(error.contains("tools are most of that: use --no-tools"), "{error}");
    assert_eq!((app.kinds(0)[0], app.draft(0).text()), ("user", "a question"), "the message is the draft again");
    app.type_bytes(b"\x15");
    app.enter("again");
    app.accept(&first).error(401, "invalid_api_key", "no");
    app.turn_until("idle", |app| app.state(0) == State::Idle);
    let error = app.last_error(0);
    assert!(error.contains("OPENAI_API_KEY") && error.contains("/model"), "{error}");
    assert_eq!(app.draft(0).text(), "again");
}

#[test]
fn returned_text_that_begins_with_a_slash_is_as_typed() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.enter("//etc/hosts");
    app.accept(&peer).error(401, "invalid_api_key", "no");
    app.turn_until_idle();
    assert_eq!(app.draft(0).text(), "//etc/hosts");
}
