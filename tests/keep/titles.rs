//! Titles that a model makes of the first exchange, in the background.

use polylogue::config::{RetryPolicy, Settings};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::converse;

fn app(peer: &Peer, working_limit: usize) -> Harness {
    let retry = RetryPolicy { retries: Some(0), ..RetryPolicy::default() };
    let settings = Settings { retry, ..Settings::default() };
    let title_model = Some("openai/namer".into());
    Harness::new(Plan { title_model, settings, working_limit, real_time: true, ..Plan::peer(&peer.url()) })
}

/// The request for the title.
fn asked(app: &mut Harness, peer: &Peer) -> Exchange {
    let exchange = app.accept(peer);
    let body = exchange.request().json();
    assert_eq!((body["model"].as_str(), body.get("tools")), (Some("namer"), None), "{body}");
    exchange
}

fn stored(app: &Harness, n: usize) -> Option<String> {
    app.repl.store().agent(app.id(n)).expect("a store").expect("an agent").title
}

#[test]
fn the_title_is_made_of_the_first_exchange_and_its_usage_is_counted() {
    let peer = Peer::start();
    let mut app = app(&peer, 10);
    converse(&mut app, &peer, 0, "why is the build red?", "a test fails");
    let request = asked(&mut app, &peer);
    let said = last_user_text(&request.request().json());
    assert!(said.contains("<user>\nwhy is the build red?\n</user>") && said.contains("a test fails"), "{said}");
    let before = app.agent(0).used.tokens();
    request.stream().text("\"Red build\"\nand more").finish("stop").usage(70, 7).done();
    app.turn_until("the title", |app| stored(app, 0).is_some());
    assert_eq!(stored(&app, 0).as_deref(), Some("Red build"));
    assert_eq!(app.agent(0).used.tokens(), before + 77);
    converse(&mut app, &peer, 0, "and now?", "green");
    let next = app.repl.store().agent(app.id(0)).expect("a store").expect("an agent");
    assert_eq!(next.used.tokens(), app.agent(0).used.tokens());
    assert_eq!(app.repl.roster().busy().len(), 0, "no second title");
}

#[test]
fn after_a_failure_the_title_stays_the_first_words() {
    let peer = Peer::start();
    let mut app = app(&peer, 10);
    converse(&mut app, &peer, 0, "why is the build red?", "a test fails");
    let kinds = app.kinds(0);
    asked(&mut app, &peer).error(500, "server", "broken");
    app.turn_until("the end", |app| app.repl.roster().busy().is_empty());
    assert_eq!((stored(&app, 0), app.kinds(0)), (None, kinds));
    assert!(!app.screen_text().contains("broken"));
    converse(&mut app, &peer, 0, "and now?", "green");
    assert_eq!(app.repl.roster().busy().len(), 0, "it is not tried again");
}

#[test]
fn a_turn_does_not_wait_for_a_title() {
    let peer = Peer::start();
    let mut app = app(&peer, 1);
    converse(&mut app, &peer, 0, "why is the build red?", "a test fails");
    let title = asked(&mut app, &peer);
    app.say(0, "and now?");
    let turn = app.accept(&peer);
    assert_eq!(turn.request().json()["model"], "test");
    title.wait_for_close();
    turn.stream().text("green").finish("stop").done();
    app.turn_until("the reply", |app| app.state(0) == State::Idle);
    assert_eq!(stored(&app, 0), None);
}
