//! A reply of which no byte comes for two minutes has stalled: by the loop's own deadline, wherever in the reply it is.

use std::time::Duration;

use polylogue::agent::{State, Wait};

use crate::support::harness::{Harness, Plan};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::let_pass;

const STALL: Duration = Duration::from_secs(120);
const MOMENT: Duration = Duration::from_micros(1);

fn asked(peer: &Peer) -> (Harness, Exchange) {
    let mut house = Harness::new(Plan::peer(&peer.url()));
    house.enter("a question");
    let exchange = house.accept(peer);
    (house, exchange)
}

/// The reply stalls exactly now and not before.
fn stalls(house: &mut Harness) {
    house.advance(STALL - MOMENT);
    assert!(matches!(house.agent(0).wait(), Wait::Transfer));
    house.advance(MOMENT);
    assert!(!matches!(house.agent(0).wait(), Wait::Transfer));
}

#[test]
fn a_server_that_says_nothing_at_all_is_asked_again() {
    let peer = Peer::start();
    let (mut house, silent) = asked(&peer);
    stalls(&mut house);
    assert!(matches!(house.agent(0).wait(), Wait::Retry { error, .. } if error.message.contains("no byte")));
    silent.wait_for_close();
    house.advance(Duration::from_secs(2));
    house.accept(&peer).stream().text("at last").finish("stop").done();
    house.turn_until_idle();
    assert_eq!(house.replies(0), ["at last"]);
}

#[test]
fn headers_are_bytes_too_and_a_silence_behind_them_is_a_stall_of_its_own() {
    let peer = Peer::start();
    let (mut house, exchange) = asked(&peer);
    let before = house.agent(0).stalls_at();
    house.advance(STALL - MOMENT);
    exchange.stream();
    house.turn_until("the headers", |house| house.agent(0).stalls_at() > before);
    stalls(&mut house);
    assert!(matches!(house.agent(0).wait(), Wait::Retry { .. }), "nothing was shown");
}

#[test]
fn a_silence_in_the_middle_of_text_or_thinking_keeps_what_was_shown_and_is_not_tried_again() {
    let sent: [fn(&Exchange); 2] = [
        |one| {
            one.stream().text("half");
        },
        |one| {
            one.stream().thinking("half");
        },
    ];
    for send in sent {
        let peer = Peer::start();
        let (mut house, exchange) = asked(&peer);
        send(&exchange);
        house.turn_until("the half", |house| house.screen_text().contains("half"));
        stalls(&mut house);
        assert_eq!(house.state(0), State::Idle);
        assert_eq!(house.kinds(0), ["user", "assistant", "interrupted", "error"]);
        assert!(house.last_error(0).contains("no byte from openai/test for 120 s"), "{}", house.last_error(0));
    }
}

#[test]
fn a_silence_in_the_middle_of_a_call_is_tried_again_and_the_pieces_are_forgotten() {
    let peer = Peer::start();
    let (mut house, exchange) = asked(&peer);
    let before = house.agent(0).stalls_at();
    house.advance(MOMENT);
    exchange.stream().tool_call(0, "c1", "read_file", "{\"path\":");
    house.turn_until("the piece", |house| house.agent(0).stalls_at() > before);
    let_pass(&mut house);
    stalls(&mut house);
    assert!(matches!(house.agent(0).wait(), Wait::Retry { .. }));
    house.advance(Duration::from_secs(2));
    house.accept(&peer).stream().text("no call").finish("stop").done();
    house.turn_until_idle();
    assert_eq!((house.kinds(0), house.replies(0)), (vec!["user", "assistant"], vec!["no call".into()]));
}

#[test]
fn a_server_that_only_says_that_it_lives_is_not_stalled() {
    let peer = Peer::start();
    let (mut house, exchange) = asked(&peer);
    exchange.stream().thinking("hm");
    house.turn_until("a first word", |house| house.screen_text().contains("hm"));
    for _ in 0..5 {
        let before = house.agent(0).stalls_at();
        house.advance(STALL - Duration::from_secs(1));
        exchange.body(": ping\n\n");
        house.turn_until("the ping", |house| house.agent(0).stalls_at() > before);
    }
    exchange.text("here").finish("stop").done();
    house.turn_until_idle();
    assert_eq!(house.replies(0), ["here"]);
    assert!(house.last_error(0).is_empty());
}
