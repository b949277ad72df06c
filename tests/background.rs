//! An agent that is not on the screen goes on exactly as one that is, and nothing of it lands anywhere else: the two
//! bugs of the ancestor, the frozen background agent and the callback for the wrong one.

use polylogue::agent::State;
use polylogue::domain::message::Body;

use crate::support::harness::{Harness, Plan};
use crate::support::peer::Peer;

#[test]
fn a_reply_that_streams_in_the_background_is_whole_and_in_its_own_place() {
    let peer = Peer::start();
    let mut house = Harness::new(Plan::peer(&peer.url()));
    house.fork(0);
    house.switch(0);
    house.enter("question for A");
    let exchange = house.accept(&peer);
    exchange.stream();
    exchange.text("first ");
    house.turn_until("the first chunk", |house| house.agent(0).partial_text() == "first ");
    house.switch(1);
    let before = house.log(1);
    exchange.text("second");
    exchange.finish("stop");
    exchange.done();
    house.turn_until_idle();
    assert_eq!(house.replies(0), ["first second"]);
    assert_eq!(house.log(1), before);
    assert!(!house.screen_text().contains("second"));
    house.switch(0);
    assert!(house.screen_text().contains("first second"));
}

#[test]
fn the_tree_tells_who_writes_from_who_waits_for_the_first_word() {
    let peer = Peer::start();
    let mut house = Harness::new(Plan::peer(&peer.url()));
    house.fork(0);
    house.say(0, "question for A");
    let exchange = house.accept(&peer);
    exchange.stream();
    house.switch(1);
    house.enter("/agents");
    house.turn_until("a wait", |house| house.screen_text().contains("waiting for the model"));
    exchange.text("first ");
    house.turn_until("the first chunk", |house| house.agent(0).partial_text() == "first ");
    house.enter("/agents");
    house.turn_until("a word", |house| house.screen_text().contains("  writing  "));
    exchange.finish("stop");
    exchange.done();
    house.turn_until_idle();
}

#[test]
fn a_tool_that_ends_in_the_background_leads_on_to_the_answer() {
    let mut house = Harness::new(Plan { real_time: true, ..Plan::default() });
    house.fork(0);
    house.switch(0);
    house.enter("!tool read_file {\"path\":\"none\"}");
    house.switch(1);
    house.turn_until_idle();
    let kinds: Vec<&str> = house.log(0).iter().map(|message| message.body.kind()).collect();
    assert_eq!(kinds, ["fork", "user", "tool_call", "usage", "tool_result", "assistant", "usage"]);
}

#[test]
fn two_agents_fail_in_one_turn_and_each_is_told_of_its_own() {
    let peer = Peer::start();
    let mut house = Harness::new(Plan::peer(&peer.url()));
    house.fork(0);
    house.say(0, "one");
    let first = house.accept(&peer);
    house.say(1, "two");
    let second = house.accept(&peer);
    for exchange in [first, second] {
        exchange.error(400, "invalid_request_error", "this is no good");
    }
    house.turn_until_idle();
    for n in [0, 1] {
        assert_eq!(house.state(n), State::Idle);
        let last = house.log(n).pop().expect("a log").body;
        assert!(matches!(last, Body::Error(words) if words.contains("this is no good")), "{n}");
    }
}

#[test]
fn a_fork_in_the_middle_of_a_reply_leaves_the_reply_in_one_piece_on_the_screen() {
    let peer = Peer::start();
    let mut house = Harness::new(Plan::peer(&peer.url()));
    house.say(0, "question");
    let exchange = house.accept(&peer);
    exchange.stream().text("half of a wo");
    house.turn_until("the first half", |house| house.screen_text().contains("half of a wo"));
    house.enter("/fork");
    house.switch(0);
    exchange.text("rd").finish("stop").done();
    house.turn_until_idle();
    assert!(house.screen_text().contains("half of a word"), "{}", house.screen_text());
}
