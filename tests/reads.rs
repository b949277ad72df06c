//! When the sockets of streaming replies are read: at once, or together while pieces come often.

use std::time::Duration;

use polylogue::config::Settings;
use polylogue::testing::WakeReason;

use crate::support::harness::{Harness, Plan};
use crate::support::peer::{Exchange, Peer};

const INTERVAL: Duration = Duration::from_millis(35);

/// Agents 0 to 2 with a reply each that has begun half a second ago, and no deadline but those of the replies.
fn three_streams(peer: &Peer) -> (Harness, Vec<Exchange>) {
    let settings = Settings { checkpoint_every: Duration::from_secs(60), ..Settings::default() };
    let mut app = Harness::new(Plan { read_interval: INTERVAL, settings, ..Plan::peer(&peer.url()) });
    app.fork(0);
    app.fork(0);
    let mut replies = Vec::new();
    for n in 0..3 {
        app.say(n, "go");
        let reply = app.accept(peer);
        reply.stream().text("begun");
        replies.push(reply);
        until_read(&mut app, n, "begun");
    }
    app.advance(Duration::from_millis(500));
    (app, replies)
}

/// Turns without moving the clock until this is the reply of an agent so far.
fn until_read(app: &mut Harness, n: usize, text: &str) {
    app.turn_until(text, |app| app.agent(n).partial_text() == text);
}

/// Two pieces: the first is read at once, because it comes alone, the second makes the socket wait.
fn make_wait(app: &mut Harness, reply: &Exchange) {
    reply.text("1");
    until_read(app, 0, "begun1");
    assert_ne!(app.timeout().why, WakeReason::Reads);
    reply.text("2");
    until_read(app, 0, "begun12");
    let timeout = app.timeout();
    assert_eq!((timeout.after, timeout.why), (Some(INTERVAL), WakeReason::Reads));
}

#[test]
fn pieces_that_come_often_are_read_together_in_one_turn() {
    let peer = Peer::start();
    let (mut app, replies) = three_streams(&peer);
    make_wait(&mut app, &replies[0]);
    replies[0].text("3").text("4").wait_until_arrived();
    replies[1].text("5");
    until_read(&mut app, 1, "begun5");
    replies[1].text("6").wait_until_arrived();
    replies[2].text("7");
    until_read(&mut app, 2, "begun7");
    let read = |app: &Harness| [0, 1, 2].map(|n| app.agent(n).partial_text().to_owned());
    assert_eq!(read(&app), ["begun12", "begun5", "begun7"]);
    // Timers of libcurl may have moved the clock.
    let timeout = app.timeout();
    assert_eq!(timeout.why, WakeReason::Reads);
    app.advance(timeout.after.expect("a deadline") - Duration::from_millis(1));
    assert_eq!(read(&app), ["begun12", "begun5", "begun7"]);
    app.advance(Duration::from_millis(1));
    assert_eq!(read(&app), ["begun1234", "begun56", "begun7"]);
    assert_eq!(app.timeout().after, Some(INTERVAL), "those that streamed go on waiting");
    app.advance(INTERVAL);
    assert_ne!(app.timeout().why, WakeReason::Reads, "nothing came, and nobody waits any more");
    replies[0].text("8");
    until_read(&mut app, 0, "begun12348");
}

#[test]
fn a_reply_that_has_just_begun_is_read_at_once_however_often_pieces_come() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { read_interval: INTERVAL, ..Plan::peer(&peer.url()) });
    app.say(0, "go");
    let reply = app.accept(&peer);
    reply.stream();
    for at in 1..=5 {
        reply.text(".");
        until_read(&mut app, 0, &".".repeat(at));
        assert_ne!(app.timeout().why, WakeReason::Reads);
    }
}

#[test]
fn a_large_piece_is_read_at_once() {
    let peer = Peer::start();
    let (mut app, replies) = three_streams(&peer);
    let large = "x".repeat(5_000);
    let mut expected = "begun".to_owned();
    for _ in 0..4 {
        replies[0].text(&large);
        expected += &large;
        app.turn_until("a large piece", |app| app.agent(0).partial_text() == expected);
    }
}

#[test]
fn after_a_reply_whose_socket_waited_the_connection_is_used_again() {
    let peer = Peer::start();
    let (mut app, replies) = three_streams(&peer);
    make_wait(&mut app, &replies[0]);
    replies[0].finish("stop").done().wait_until_arrived();
    replies[1].text("5");
    until_read(&mut app, 1, "begun5");
    app.advance(INTERVAL);
    app.turn_until("the end", |app| app.agent(0).partial_text().is_empty());
    app.say(0, "again");
    assert_eq!(app.accept(&peer).connection(), replies[0].connection());
}

#[test]
fn an_interrupt_does_not_wait_for_a_common_read() {
    let peer = Peer::start();
    let (mut app, replies) = three_streams(&peer);
    make_wait(&mut app, &replies[0]);
    app.switch(0);
    app.escape();
    assert_eq!(app.partial_replies(0), ["begun12"]);
    app.advance(INTERVAL);
    app.say(0, "again");
    app.accept(&peer).stream().text("new");
    until_read(&mut app, 0, "new");
}
