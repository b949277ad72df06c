//! Another provider's model while the agent waits for something at the old one, or while a request is on its way there:
//! what the old provider says counts for the old provider, and nothing of it holds up the new one.

use std::time::Duration;

use polylogue::config::{Endpoint, ProviderEntry};
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{State, Wait};
use crate::support::peer::Peer;
use crate::support::scene::{answer, app_with_agents, is_in_send_queue, is_running, mark, origin, turn_a_while};

const LIMITED: &[(&str, &str)] = &[("retry-after", "30"), ("content-length", "0")];

/// So many agents who talk to the first; the second is there, too.
fn app(count: usize, first: &Peer, second: &Peer) -> Harness {
    app_with_agents(count, plan(first, second))
}

fn plan(first: &Peer, second: &Peer) -> Plan {
    let entry =
        ProviderEntry { name: "second".into(), kind: "openai".into(), base_url: second.url(), ..Default::default() };
    Plan { providers: vec![entry], ..Plan::peer(&first.url()) }
}

/// The same, where a shell command prints the key of the first.
fn with_key_command(count: usize, first: &Peer, second: &Peer, command: &str) -> Harness {
    let plan = plan(first, second);
    let endpoint = Endpoint { key_command: Some(command.into()), ..plan.endpoint };
    app_with_agents(count, Plan { endpoint, real_time: true, ..plan })
}

#[test]
fn a_limit_pauses_only_its_provider() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(3, &first, &second);
    app.say(0, "from 0");
    let limited = app.accept(&first);
    app.enter("/model second/small");
    limited.head(429, LIMITED);
    let again = app.accept(&second);
    assert_eq!((origin(&again), app.agent(0).retries()), ("from 0".into(), 0));
    app.say(1, "from 1");
    app.switch(2);
    app.enter("/model second/small");
    app.say(2, "from 2");
    answer(&again);
    answer(&app.accept(&second));
    app.turn_until("the second goes on", |app| app.state(0) == State::Idle && app.state(2) == State::Idle);
    assert!(is_in_send_queue(&app, 1) && first.try_accept().is_none());
    app.advance(Duration::from_secs(30));
    answer(&app.accept(&first));
    app.turn_until_idle();
}

#[test]
fn a_wait_for_a_provider_ends_with_a_model_of_another_provider_only() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(1, &first, &second);
    app.say(0, "from 0");
    app.accept(&first).head(429, LIMITED);
    app.turn_until("a retry", |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
    app.enter("/model openai/other");
    assert!(matches!(app.agent(0).wait(), Wait::Retry { .. }));
    app.enter("/model second/small");
    answer(&app.accept(&second));
    app.turn_until_idle();
    assert!(first.try_accept().is_none());
}

#[test]
fn an_agent_queued_at_a_paused_provider_continues_with_another_provider() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(2, &first, &second);
    app.say(1, "from 1");
    app.accept(&first).head(429, LIMITED);
    app.turn_until("a retry", |app| matches!(app.agent(1).wait(), Wait::Retry { .. }));
    app.say(0, "from 0");
    turn_a_while(&mut app);
    assert!(is_in_send_queue(&app, 0));
    app.enter("/model second/small");
    assert_eq!(origin(&app.accept(&second)), "from 0");
}

#[test]
fn the_response_to_the_probe_releases_the_others_even_if_its_agent_changed_the_model() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut app = app(3, &first, &second);
    app.say(2, "from 2");
    app.accept(&first).head(429, LIMITED);
    app.turn_until("a retry", |app| matches!(app.agent(2).wait(), Wait::Retry { .. }));
    app.say(0, "from 0");
    app.say(1, "from 1");
    app.advance(Duration::from_secs(30));
    let tried = app.accept(&first);
    assert_eq!(origin(&tried), "from 0");
    app.enter("/model second/small");
    tried.stream().text("half ");
    answer(&app.accept(&first));
    answer(&app.accept(&first));
    tried.text("and half").finish("stop").done();
    app.turn_until_idle();
}

#[test]
fn an_agent_that_waits_for_a_key_can_change_the_provider_and_the_command_ends() {
    let (first, second) = (Peer::start(), Peer::start());
    let mark = mark();
    let mut app = with_key_command(1, &first, &second, &format!("sleep {mark}"));
    app.say(0, "from 0");
    app.turn_until("the command", |_| is_running(&mark));
    app.enter("/model second/small");
    let exchange = app.accept(&second);
    assert!(exchange.request().header("authorization").is_none());
    app.turn_until("the end of the command", |_| !is_running(&mark));
    answer(&exchange);
    app.turn_until_idle();
}

#[test]
fn a_key_refused_meanwhile_is_discarded_for_its_provider() {
    let (first, second, directory) = (Peer::start(), Peer::start(), TempDir::new().expect("a directory"));
    let command = format!("cd '{}'; echo >> runs; echo key-$(wc -l < runs)", directory.path().display());
    let mut app = with_key_command(2, &first, &second, &command);
    app.say(0, "from 0");
    let refused = app.accept(&first);
    app.enter("/model second/small");
    refused.error(401, "expired", "the token has expired");
    let exchange = app.accept(&second);
    assert!(exchange.request().header("authorization").is_none());
    answer(&exchange);
    app.turn_until_idle();
    assert!(app.last_error(0).is_empty(), "{}", app.last_error(0));
    app.say(1, "from 1");
    assert_eq!(app.accept(&first).request().header("authorization"), Some("Bearer key-2"));
}
