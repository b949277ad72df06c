//! A reply without data for two minutes has stalled, at any point of the reply.

use std::time::Duration;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{State, Wait};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::turn_a_while;

const STALL: Duration = Duration::from_secs(120);
const MOMENT: Duration = Duration::from_micros(1);

fn asked(peer: &Peer) -> (Harness, Exchange) {
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.enter("a question");
    let exchange = app.accept(peer);
    (app, exchange)
}

/// The reply stalls exactly now and not before.
fn stalls(app: &mut Harness) {
    app.advance(STALL - MOMENT);
    assert!(matches!(app.agent(0).wait(), Wait::Transfer));
    app.advance(MOMENT);
    assert!(!matches!(app.agent(0).wait(), Wait::Transfer));
}

#[test]
fn a_server_without_any_response_is_retried() {
    let peer = Peer::start();
    let (mut app, silent) = asked(&peer);
    stalls(&mut app);
    assert!(matches!(app.agent(0).wait(), Wait::Retry { error, .. } if error.message.contains("no data")));
    silent.wait_for_close();
    app.advance(Duration::from_secs(2));
    app.accept(&peer).stream().text("at last").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["at last"]);
}

#[test]
fn headers_count_as_data_and_a_stall_after_them_is_another_one() {
    let peer = Peer::start();
    let (mut app, exchange) = asked(&peer);
    let before = app.agent(0).stalls_at();
    app.advance(STALL - MOMENT);
    exchange.stream();
    app.turn_until("the headers", |app| app.agent(0).stalls_at() > before);
    stalls(&mut app);
    assert!(matches!(app.agent(0).wait(), Wait::Retry { .. }), "nothing was shown");
}

#[test]
fn a_stall_within_text_or_thinking_keeps_the_partial_reply_and_is_not_retried() {
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
        let (mut app, exchange) = asked(&peer);
        send(&exchange);
        app.turn_until("the half", |app| app.screen_text().contains("half"));
        stalls(&mut app);
        assert_eq!(app.state(0), State::Idle);
        assert_eq!(app.kinds(0), ["user", "assistant", "interrupted", "error"]);
        assert!(app.last_error(0).contains("no data from openai/test for 120 s"), "{}", app.last_error(0));
    }
}

#[test]
fn a_stall_within_a_call_is_retried_without_its_pieces() {
    let peer = Peer::start();
    let (mut app, exchange) = asked(&peer);
    let before = app.agent(0).stalls_at();
    app.advance(MOMENT);
    exchange.stream().tool_call(0, "c1", "read_file", "{\"path\":");
    app.turn_until("the piece", |app| app.agent(0).stalls_at() > before);
    turn_a_while(&mut app);
    stalls(&mut app);
    assert!(matches!(app.agent(0).wait(), Wait::Retry { .. }));
    app.advance(Duration::from_secs(2));
    app.accept(&peer).stream().text("no call").finish("stop").done();
    app.turn_until_idle();
    assert_eq!((app.kinds(0), app.replies(0)), (vec!["user", "assistant"], vec!["no call".into()]));
}

#[test]
fn a_server_that_sends_only_comments_is_not_stalled() {
    let peer = Peer::start();
    let (mut app, exchange) = asked(&peer);
    exchange.stream().thinking("hm");
    app.turn_until("a first word", |app| app.screen_text().contains("hm"));
    for _ in 0..5 {
        let before = app.agent(0).stalls_at();
        app.advance(STALL - Duration::from_secs(1));
        exchange.body(": ping\n\n");
        app.turn_until("the ping", |app| app.agent(0).stalls_at() > before);
    }
    exchange.text("here").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["here"]);
    assert!(app.last_error(0).is_empty());
}

#[test]
fn a_reply_that_never_ends_is_aborted_although_data_trickles() {
    let peer = Peer::start();
    let (mut app, exchange) = asked(&peer);
    exchange.stream().text("hm");
    app.turn_until("a first word", |app| app.screen_text().contains("hm"));
    for _ in 0..60 {
        let before = app.agent(0).stalls_at();
        app.advance(Duration::from_secs(60));
        if app.state(0) == State::Idle {
            break;
        }
        exchange.body(": ping\n\n");
        app.turn_until("the ping", |app| app.agent(0).stalls_at() > before);
    }
    assert_eq!(app.state(0), State::Idle);
    assert!(app.last_error(0).contains("no complete reply from openai/test within 3600 s"), "{}", app.last_error(0));
}
