//! `/slice`: a child is told exactly its cut, nothing that happens to its parent reaches it, and a summary that does not
//! come leaves nothing.

mod summaries;

use polylogue::domain::flow::Change;
use polylogue::domain::message::{Body, Reply, Seal};
use rustix::time::{ClockId, clock_gettime};

use crate::support::harness::{Harness, Plan};
use crate::support::peer::Peer;
use crate::support::scene::{
    answered, assert_refused, assert_shows, house, reply_with_calls, results_in, texts_in, told, words_in,
};

/// The messages of the agent that a model is told, as the store has them.
fn conversation(house: &Harness, n: usize) -> Vec<Body> {
    house.log(n).into_iter().map(|message| message.body).filter(Body::is_conversation).collect()
}

/// Eight messages: `q1 r1`, `do it` with a call, its result and `read`, `q2 r2`.
fn talk(house: &mut Harness, peer: &Peer, n: usize) {
    told(house, peer, n, "q1", "r1");
    house.say(n, "do it");
    reply_with_calls(&house.accept(peer), &[("read_file", "{\"path\":\"none\"}")]);
    answered(house, peer, n, "read");
    told(house, peer, n, "q2", "r2");
}

#[test]
fn the_child_is_told_exactly_the_cut_and_the_parent_what_it_would_have_been() {
    let peer = Peer::start();
    let mut house = house(&peer);
    talk(&mut house, &peer, 0);
    let control = house.fork_named(0, "control");
    house.enter("/slice 0:2, inject:'it''s me', -2:");
    let slice = house.focus();
    assert_eq!((slice, house.repl.roster().len()), (2, 3));
    assert_shows(&mut house, "5 messages from agent 0");
    let words = words_in(&told(&mut house, &peer, slice, "go", "gone"));
    let words: Vec<(&str, &str)> = words.iter().map(|(who, text)| (who.as_str(), text.as_str())).collect();
    let asked = [("user", "q1"), ("assistant", "r1"), ("user", "it's me\n\nq2"), ("assistant", "r2"), ("user", "go")];
    assert_eq!(words, asked);
    let parent = told(&mut house, &peer, 0, "the same", "yes");
    assert_eq!(told(&mut house, &peer, control, "the same", "no"), parent);
}

#[test]
fn whatever_becomes_of_its_ancestors_a_slice_is_what_it_was() {
    let peer = Peer::start();
    let mut house = house(&peer);
    told(&mut house, &peer, 0, "of the root", "its reply");
    house.fork(0);
    house.enter("/mark m");
    talk(&mut house, &peer, 1);
    house.enter("/slice 0:3");
    assert_eq!(house.focus(), 2);
    let before = house.log(2);
    house.ask(1, Change::Rewind(Some("m".into())));
    house.ask(1, Change::Clear);
    house.ask(0, Change::Clear);
    let who = house.id(1);
    house.ask(0, Change::Kill { who, cascade: false });
    assert_eq!(house.log(1), before, "the slice is the second one now");
    let mut house = house.crash_and_restart();
    assert_eq!(house.log(1), before);
    house.switch(1);
    assert_shows(&mut house, "of the root");
    let texts = texts_in(&told(&mut house, &peer, 1, "and?", "so"));
    assert_eq!(texts, ["of the root", "its reply", "q1\n\nand?"]);
}

#[test]
fn a_cut_between_a_call_and_its_result_takes_both_and_says_so() {
    let peer = Peer::start();
    let mut house = house(&peer);
    talk(&mut house, &peer, 0);
    house.enter("/slice 4:6");
    assert_shows(&mut house, "4:6 became 3:6: calls and their results stay together");
    house.say(1, "go on");
    let exchange = house.accept(&peer);
    assert_eq!(results_in(&exchange.request().json()).len(), 1);
}

#[test]
fn what_is_copied_keeps_its_seals_its_author_and_that_it_was_cut_and_only_results_are_made_short() {
    let mut house = Harness::new(Plan::default());
    let seals = vec![Seal { text: 1, calls: 0, json: "{\"signature\":\"c2ln\"}".into() }];
    let reply = |text: &str, is_partial| {
        let (text, thinking, by) = (text.into(), "hm".into(), "one/model".into());
        Body::Assistant(Reply { text, thinking, is_partial, seals: seals.clone(), by })
    };
    let long = Body::User("line\n".repeat(500));
    let bodies = vec![long, reply("whole", false), Body::User("on".into()), reply("part", true)];
    house.repl.store().append(house.id(0), bodies.clone(), 0).expect("a log");
    house.enter("/slice compact::");
    assert_eq!(conversation(&house, 1), bodies);
    assert_eq!(conversation(&house, 0), bodies);
}

#[test]
fn a_spec_that_cannot_be_followed_is_refused_under_the_character() {
    let peer = Peer::start();
    let mut house = house(&peer);
    talk(&mut house, &peer, 0);
    for (spec, words, place) in [
        ("1:2,,", "^ a segment is missing here", 4),
        ("0:1,3:9", "^ there are 8 messages", 6),
        ("inject:'語語'x", "^ a comma or the end belongs here", 13),
        ("-1:2", "^ the range ends before it begins", 3),
        ("5:5", "^ this cut has no message at all", 0),
    ] {
        let line = format!("/slice {spec}");
        house.enter(&line);
        let screen = house.screen_text();
        let rows: Vec<&str> = screen.lines().collect();
        let caret = rows.iter().position(|row| row.contains(words)).unwrap_or_else(|| panic!("{spec}\n{screen}"));
        assert_eq!((rows[caret].find('^'), rows[caret - 1]), (Some(place), spec));
        assert_eq!((house.agent(0).view.draft.text(), house.repl.roster().len()), (line.as_str(), 1));
        house.type_bytes(b"\x15");
    }
    assert_refused(&mut house, "/slice everything", "only summarize, compact and inject can stand here");
}

#[test]
fn the_messages_are_counted_and_listed_as_a_cut_counts_them() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.enter("/slice count");
    assert_shows(&mut house, "0 messages");
    talk(&mut house, &peer, 0);
    let mut house = house.crash_and_restart();
    house.enter("/slice");
    assert_shows(&mut house, "8 messages: 3 of yours, 3 replies, 1 call, 1 result");
    assert_shows(&mut house, "inject:'text'              a text of your own");
    house.enter("/slice list");
    for line in ["0  you    q1", "1  reply  r1", "3  call   read_file", "4  result", "7  reply  r2"] {
        assert_shows(&mut house, line);
    }
    house.type_bytes(b"/slice su\t");
    assert_eq!(house.agent(0).view.draft.text(), "/slice summarize:0:50%,50%:");
}

#[test]
fn a_hundred_thousand_messages_are_cut_without_quadratic_work() {
    let mut house = Harness::new(Plan::default());
    let said = |n: usize| if n.is_multiple_of(2) { Body::User(n.to_string()) } else { Body::Assistant(reply(n)) };
    house.repl.store().append(house.id(0), (0..100_000).map(said).collect(), 0).expect("a log");
    let start = clock_gettime(ClockId::ThreadCPUTime);
    house.enter("/slice :50%,50%:");
    // The time of this thread alone, however many share the machine with it.
    let took = clock_gettime(ClockId::ThreadCPUTime).tv_sec - start.tv_sec;
    assert!(took < 20, "{took} s");
    assert_eq!(house.focus(), 1);
    assert_eq!(conversation(&house, 1), conversation(&house, 0));
    assert_shows(&mut house, "100000 messages from agent 0");
}

fn reply(n: usize) -> Reply {
    Reply { text: n.to_string(), ..Reply::default() }
}
