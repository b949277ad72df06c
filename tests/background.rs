//! An agent in the background goes on exactly as one on the screen, and nothing of it reaches another agent: a background
//! agent that freezes, and a callback for the wrong agent, are bugs that an earlier program had.

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, State};
use crate::support::peer::Peer;

#[test]
fn a_reply_that_streams_in_the_background_is_complete_and_shown_with_its_own_agent() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.fork(0);
    app.switch(0);
    app.enter("question for A");
    let exchange = app.accept(&peer);
    exchange.stream();
    exchange.text("first ");
    app.turn_until("the first chunk", |app| app.agent(0).partial_text() == "first ");
    app.switch(1);
    let before = app.log(1);
    exchange.text("second");
    exchange.finish("stop");
    exchange.done();
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["first second"]);
    assert_eq!(app.log(1), before);
    assert!(!app.screen_text().contains("second"));
    app.switch(0);
    assert!(app.screen_text().contains("first second"));
}

#[test]
fn the_tree_distinguishes_streaming_agents_from_those_that_wait_for_the_first_byte() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.fork(0);
    app.say(0, "question for A");
    let exchange = app.accept(&peer);
    exchange.stream();
    app.switch(1);
    app.enter("/agents");
    app.turn_until("a wait", |app| app.screen_text().contains("waiting for the model"));
    exchange.text("first ");
    app.turn_until("the first chunk", |app| app.agent(0).partial_text() == "first ");
    app.enter("/agents");
    app.turn_until("a word", |app| app.screen_text().contains("  replying  "));
    exchange.finish("stop");
    exchange.done();
    app.turn_until_idle();
}

#[test]
fn a_tool_that_ends_in_the_background_leads_on_to_the_answer() {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    app.fork(0);
    app.switch(0);
    app.enter("%tool read_file {\"path\":\"none\"}");
    app.switch(1);
    app.turn_until_idle();
    let kinds: Vec<&str> = app.log(0).iter().map(|message| message.body.kind()).collect();
    assert_eq!(kinds, ["fork", "user", "tool_call", "usage", "tool_result", "assistant", "usage"]);
}

#[test]
fn two_agents_fail_in_one_turn_and_each_shows_its_own_error() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.fork(0);
    app.say(0, "one");
    let first = app.accept(&peer);
    app.say(1, "two");
    let second = app.accept(&peer);
    for exchange in [first, second] {
        exchange.error(400, "invalid_request_error", "this is no good");
    }
    app.turn_until_idle();
    for n in [0, 1] {
        assert_eq!(app.state(n), State::Idle);
        let last = app.log(n).pop().expect("a log").body;
        assert!(matches!(last, Body::Error(message) if message.contains("this is no good")), "{n}");
    }
}

#[test]
fn a_fork_in_the_middle_of_a_reply_leaves_the_reply_in_one_piece_on_the_screen() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.say(0, "question");
    let exchange = app.accept(&peer);
    exchange.stream().text("half of a wo");
    app.turn_until("the first half", |app| app.screen_text().contains("half of a wo"));
    app.enter("/fork");
    app.switch(0);
    exchange.text("rd").finish("stop").done();
    app.turn_until_idle();
    assert!(app.screen_text().contains("half of a word"), "{}", app.screen_text());
}
