//! Another provider's model while the agent waits for something at the old one, or while a request is on its way there:
//! what the old provider says counts for the old provider, and nothing of it holds up the new one.

use std::time::Duration;

use polylogue::agent::{State, Wait};
use polylogue::domain::endpoint::{Endpoint, ProviderEntry};
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{house_of, let_pass, mark, runs};

const LIMITED: &[(&str, &str)] = &[("retry-after", "30"), ("content-length", "0")];

/// So many agents who talk to the first; the second is there, too.
fn house(count: usize, first: &Peer, second: &Peer) -> Harness {
    house_of(count, plan(first, second))
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
    house_of(count, Plan { endpoint, real_time: true, ..plan })
}

fn asker(exchange: &Exchange) -> String {
    last_user_text(&exchange.request().json())
}

fn answer(exchange: &Exchange) {
    exchange.stream().text("fine").finish("stop").done();
}

fn is_in_line(house: &Harness, n: usize) -> bool {
    house.state(n) == State::WaitingForLlm && matches!(house.agent(n).wait(), Wait::Place)
}

#[test]
fn a_limit_pauses_the_provider_that_was_asked_and_who_left_it_asks_the_new_one_at_once() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut house = house(3, &first, &second);
    house.say(0, "from 0");
    let limited = house.accept(&first);
    house.enter("/model second/small");
    limited.head(429, LIMITED);
    let again = house.accept(&second);
    assert_eq!((asker(&again), house.agent(0).retries()), ("from 0".into(), 0));
    house.say(1, "from 1");
    house.switch(2);
    house.enter("/model second/small");
    house.say(2, "from 2");
    answer(&again);
    answer(&house.accept(&second));
    house.turn_until("the second goes on", |house| house.state(0) == State::Idle && house.state(2) == State::Idle);
    assert!(is_in_line(&house, 1) && first.try_accept().is_none());
    house.advance(Duration::from_secs(30));
    answer(&house.accept(&first));
    house.turn_until_idle();
}

#[test]
fn a_wait_that_the_old_provider_wanted_ends_with_a_model_of_another_and_not_with_one_of_its_own() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut house = house(1, &first, &second);
    house.say(0, "from 0");
    house.accept(&first).head(429, LIMITED);
    house.turn_until("a retry", |house| matches!(house.agent(0).wait(), Wait::Retry { .. }));
    house.enter("/model openai/other");
    assert!(matches!(house.agent(0).wait(), Wait::Retry { .. }));
    house.enter("/model second/small");
    answer(&house.accept(&second));
    house.turn_until_idle();
    assert!(first.try_accept().is_none());
}

#[test]
fn who_stands_in_a_paused_line_goes_on_with_a_model_of_another_provider() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut house = house(2, &first, &second);
    house.say(1, "from 1");
    house.accept(&first).head(429, LIMITED);
    house.turn_until("a retry", |house| matches!(house.agent(1).wait(), Wait::Retry { .. }));
    house.say(0, "from 0");
    let_pass(&mut house);
    assert!(is_in_line(&house, 0));
    house.enter("/model second/small");
    assert_eq!(asker(&house.accept(&second)), "from 0");
}

#[test]
fn the_answer_to_who_was_tried_lets_the_others_follow_although_it_has_another_model_by_then() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut house = house(3, &first, &second);
    house.say(2, "from 2");
    house.accept(&first).head(429, LIMITED);
    house.turn_until("a retry", |house| matches!(house.agent(2).wait(), Wait::Retry { .. }));
    house.say(0, "from 0");
    house.say(1, "from 1");
    house.advance(Duration::from_secs(30));
    let tried = house.accept(&first);
    assert_eq!(asker(&tried), "from 0");
    house.enter("/model second/small");
    tried.stream().text("half ");
    answer(&house.accept(&first));
    answer(&house.accept(&first));
    tried.text("and half").finish("stop").done();
    house.turn_until_idle();
}

#[test]
fn who_waits_for_a_key_asks_another_provider_at_once_and_the_command_ends() {
    let (first, second) = (Peer::start(), Peer::start());
    let mark = mark();
    let mut house = with_key_command(1, &first, &second, &format!("sleep {mark}"));
    house.say(0, "from 0");
    house.turn_until("the command", |_| runs(&mark));
    house.enter("/model second/small");
    let exchange = house.accept(&second);
    assert!(exchange.request().header("authorization").is_none());
    house.turn_until("the end of the command", |_| !runs(&mark));
    answer(&exchange);
    house.turn_until_idle();
}

#[test]
fn a_key_that_is_refused_meanwhile_is_forgotten_for_the_provider_that_refused_it() {
    let (first, second, directory) = (Peer::start(), Peer::start(), TempDir::new().expect("a directory"));
    let command = format!("cd '{}'; echo >> runs; echo key-$(wc -l < runs)", directory.path().display());
    let mut house = with_key_command(2, &first, &second, &command);
    house.say(0, "from 0");
    let refused = house.accept(&first);
    house.enter("/model second/small");
    refused.error(401, "expired", "the token has expired");
    let exchange = house.accept(&second);
    assert!(exchange.request().header("authorization").is_none());
    answer(&exchange);
    house.turn_until_idle();
    assert!(house.last_error(0).is_empty(), "{}", house.last_error(0));
    house.say(1, "from 1");
    assert_eq!(house.accept(&first).request().header("authorization"), Some("Bearer key-2"));
}
