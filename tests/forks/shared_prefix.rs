//! Forks of a long conversation that are sent at once: a provider has it in its cache when it begins to answer the first.

use std::time::Duration;

use polylogue::{Change, Fork};
use serde_json::Value;

use crate::environments::worktrees::make_repository;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe as _, State, WakeReason};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{answer, assert_shows, converse, is_in_send_queue, origin, texts_in, turn_a_while};

/// Longer than a provider keeps anything.
const LONG_AGO: Duration = Duration::from_secs(10 * 60);

/// Agent 0 has a conversation of this many bytes, which is so old.
fn parent(peer: &Peer, bytes: usize, age: Duration) -> Harness {
    let mut app = Harness::new(Plan::peer(&peer.url()));
    converse(&mut app, peer, 0, &"word ".repeat(bytes / 5), "fine");
    app.advance(age);
    app
}

/// Forks agent 0 for each of these prompts.
fn fork(app: &mut Harness, prompts: &[&str]) {
    for prompt in prompts {
        let fork = Fork { prompt: Some((*prompt).into()), stays: true, ..Fork::default() };
        app.ask(0, Change::Fork(fork));
    }
}

/// This many requests, which arrive now, by their prompts; no other does.
fn arrived(app: &mut Harness, peer: &Peer, count: usize) -> Vec<(String, Exchange)> {
    let mut arrived: Vec<_> = (0..count).map(|_| app.accept(peer)).map(|one| (origin(&one), one)).collect();
    turn_a_while(app);
    assert!(peer.try_accept().is_none());
    arrived.sort_by(|(one, _), (other, _)| one.cmp(other));
    arrived
}

fn prompts(arrived: &[(String, Exchange)]) -> Vec<&str> {
    arrived.iter().map(|(prompt, _)| prompt.as_str()).collect()
}

#[test]
fn the_others_wait_until_the_first_is_answered() {
    let peer = Peer::start();
    let mut app = parent(&peer, 8_000, LONG_AGO);
    fork(&mut app, &["one", "two", "three"]);
    let first = app.accept(&peer);
    assert_eq!((origin(&first).as_str(), arrived(&mut app, &peer, 0).len()), ("one", 0));
    assert!(is_in_send_queue(&app, 2) && is_in_send_queue(&app, 3));
    app.switch(2);
    assert_shows(&mut app, "waiting until another fork is answered");
    // An agent with another conversation does not wait for them.
    app.say(0, "mine");
    assert_eq!(prompts(&arrived(&mut app, &peer, 1)), ["mine"]);
    first.stream();
    // The head alone does not say that the model has read the conversation.
    arrived(&mut app, &peer, 0);
    first.text("I see");
    assert_eq!(prompts(&arrived(&mut app, &peer, 2)), ["three", "two"]);
    // The conversation is in the cache now.
    fork(&mut app, &["four"]);
    assert_eq!(prompts(&arrived(&mut app, &peer, 1)), ["four"]);
}

#[test]
fn nobody_waits_for_a_conversation_that_is_short_or_in_the_cache_already() {
    for (bytes, age) in [(1_000, LONG_AGO), (8_000, Duration::from_secs(60))] {
        let peer = Peer::start();
        let mut app = parent(&peer, bytes, age);
        fork(&mut app, &["one", "two", "three"]);
        assert_eq!(prompts(&arrived(&mut app, &peer, 3)), ["one", "three", "two"], "{bytes} bytes");
    }
}

#[test]
fn a_first_that_fails_or_ends_makes_way_for_the_next() {
    let peer = Peer::start();
    let mut app = parent(&peer, 8_000, LONG_AGO);
    fork(&mut app, &["one", "two", "three"]);
    app.accept(&peer).answer(400, "application/json", "{\"error\":{\"message\":\"no\"}}");
    app.turn_until("the first has failed", |app| app.state(1) == State::Idle);
    let second = app.accept(&peer);
    assert_eq!((origin(&second).as_str(), arrived(&mut app, &peer, 0).len()), ("two", 0));
    let killed = app.id(2);
    app.ask(0, Change::Kill { agent_id: killed, cascade: false });
    assert_eq!(prompts(&arrived(&mut app, &peer, 1)), ["three"]);
}

#[test]
fn a_first_without_an_answer_delays_the_others_for_twenty_seconds() {
    let peer = Peer::start();
    let mut app = parent(&peer, 8_000, LONG_AGO);
    fork(&mut app, &["one", "two", "three"]);
    let _silent = app.accept(&peer);
    arrived(&mut app, &peer, 0);
    let timeout = app.timeout();
    assert_eq!((timeout.after, timeout.why), (Some(Duration::from_secs(20)), WakeReason::Pause));
    app.advance(Duration::from_secs(20));
    assert_eq!(prompts(&arrived(&mut app, &peer, 2)), ["three", "two"]);
}

#[test]
fn a_reply_that_comes_in_one_piece_lets_the_others_go() {
    let peer = Peer::start();
    let mut app = parent(&peer, 8_000, LONG_AGO);
    fork(&mut app, &["one", "two"]);
    answer(&app.accept(&peer));
    assert_eq!(prompts(&arrived(&mut app, &peer, 1)), ["two"]);
    app.turn_until("the first is idle", |app| app.state(1) == State::Idle);
    assert_eq!(app.replies(1), ["fine", "fine"], "of the parent and its own");
}

#[test]
fn a_fork_in_a_worktree_has_the_instructions_of_its_parent_and_is_told_where_it_works() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    make_repository(&app.directory().join("repo"));
    app.enter("/env coding@repo");
    let body = converse(&mut app, &peer, 1, &"word ".repeat(2_000), "fine");
    let instructions_in = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        body["messages"][0]["content"].as_str().expect("a system prompt").to_owned()
    };
    let (instructions, asked) = (instructions_in(&body), texts_in(&body));
    assert!(instructions.contains("/repo."), "{instructions}");
    app.advance(LONG_AGO);
    app.enter("/fork --worktree --stay --name one do one");
    let first = app.accept(&peer);
    app.enter("/fork --worktree --stay --name two do two");
    let texts = texts_in(&first.request().body);
    assert_eq!(instructions_in(&first.request().body), instructions);
    assert_eq!(texts[..2], [asked[0].as_str(), "fine"]);
    let told = "[system] You work in ";
    assert!(
        texts[2].starts_with(told) && texts[2].contains("repo@one from here on") && texts[2].ends_with("do one"),
        "{texts:?}"
    );
    app.turn_until("the other child", |app| app.repl.roster().len() == 4);
    // It waits for what it has in common with the first.
    arrived(&mut app, &peer, 0);
    answer(&first);
    let second = app.accept(&peer);
    let shared =
        |body: &[u8]| body.iter().zip(&first.request().body[..]).take_while(|(one, other)| one == other).count();
    assert!(shared(&second.request().body) > 10_000);
    // Its own children share all of that.
    app.turn_until("the first is idle", |app| app.state(2) == State::Idle);
    app.switch(2);
    app.enter("/fork go on");
    let third = app.accept(&peer);
    let of_child = texts_in(&third.request().body);
    assert_eq!((instructions_in(&third.request().body), &of_child[..3]), (instructions, &texts[..3]));
    assert_eq!(of_child[3..], ["fine", "go on"]);
}
