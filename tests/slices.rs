//! `/slice`: a child gets exactly its cut, nothing that happens to its parent reaches it, and a summary that does not
//! come leaves nothing.

mod summaries;

use polylogue::{Change, HistoryEdit};
use rustix::time::{ClockId, clock_gettime};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Probe, Reply, Signature};
use crate::support::peer::Peer;
use crate::support::scene::{
    answer_next, app, assert_refused, assert_shows, converse, reply_with_calls, results_in, roles_and_texts_in,
    texts_in,
};

/// The messages of the agent that are sent to a model, as the store has them.
fn conversation(app: &Harness, n: usize) -> Vec<Body> {
    app.log(n).into_iter().map(|message| message.body).filter(Body::is_conversation).collect()
}

/// Eight messages: `q1 r1`, `do it` with a call, its result and `read`, `q2 r2`.
fn talk(app: &mut Harness, peer: &Peer, n: usize) {
    converse(app, peer, n, "q1", "r1");
    app.say(n, "do it");
    reply_with_calls(&app.accept(peer), &[("read_file", "{\"path\":\"none\"}")]);
    answer_next(app, peer, n, "read");
    converse(app, peer, n, "q2", "r2");
}

#[test]
fn the_child_gets_exactly_the_slice_and_the_parent_is_unchanged() {
    let peer = Peer::start();
    let mut app = app(&peer);
    talk(&mut app, &peer, 0);
    let control = app.fork_named(0, "control");
    app.enter("/slice 0:2, inject:'it''s me', -2:");
    let slice = app.focus();
    assert_eq!((slice, app.repl.roster().len()), (2, 3));
    assert_shows(&mut app, "5 messages from agent 0");
    let messages = roles_and_texts_in(&converse(&mut app, &peer, slice, "go", "gone"));
    let messages: Vec<(&str, &str)> =
        messages.iter().map(|(agent_id, text)| (agent_id.as_str(), text.as_str())).collect();
    let asked = [("user", "q1"), ("assistant", "r1"), ("user", "it's me\n\nq2"), ("assistant", "r2"), ("user", "go")];
    assert_eq!(messages, asked);
    let parent = converse(&mut app, &peer, 0, "the same", "yes");
    assert_eq!(converse(&mut app, &peer, control, "the same", "no"), parent);
}

#[test]
fn a_slice_does_not_change_with_its_ancestors() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "of the root", "its reply");
    app.fork(0);
    app.enter("/mark m");
    talk(&mut app, &peer, 1);
    app.enter("/slice 0:3");
    assert_eq!(app.focus(), 2);
    let before = app.log(2);
    app.ask(1, Change::EditHistory(HistoryEdit::Rewind(Some("m".into()))));
    app.ask(1, Change::EditHistory(HistoryEdit::Clear));
    app.ask(0, Change::EditHistory(HistoryEdit::Clear));
    let agent_id = app.id(1);
    app.ask(0, Change::Kill { agent_id, cascade: false });
    assert_eq!(app.log(1), before, "the slice is the second one now");
    let mut app = app.crash_and_restart();
    assert_eq!(app.log(1), before);
    app.switch(1);
    assert_shows(&mut app, "of the root");
    let texts = texts_in(&converse(&mut app, &peer, 1, "and?", "so"));
    assert_eq!(texts, ["of the root", "its reply", "q1\n\nand?"]);
}

#[test]
fn a_range_between_a_call_and_its_result_includes_both_with_a_note() {
    let peer = Peer::start();
    let mut app = app(&peer);
    talk(&mut app, &peer, 0);
    app.enter("/slice 4:6");
    assert_shows(&mut app, "4:6 became 3:6 to keep calls and results together");
    app.say(1, "go on");
    let exchange = app.accept(&peer);
    assert_eq!(results_in(&exchange.request().json()).len(), 1);
}

#[test]
fn copied_messages_keep_signatures_model_and_partial_flag_and_only_results_are_shortened() {
    let mut app = Harness::new(Plan::default());
    let signatures = vec![Signature { text: 1, calls: 0, json: "{\"signature\":\"c2ln\"}".into() }];
    let reply = |text: &str, is_partial| {
        let (text, thinking, by) = (text.into(), "hm".into(), "one/model".into());
        Body::Assistant(Reply { text, thinking, is_partial, signatures: signatures.clone(), by })
    };
    let long = Body::User("line\n".repeat(500));
    let bodies = vec![long, reply("whole", false), Body::User("on".into()), reply("part", true)];
    app.repl.store().append(app.id(0), bodies.clone(), 0).expect("a log");
    app.enter("/slice compact::");
    assert_eq!(conversation(&app, 1), bodies);
    assert_eq!(conversation(&app, 0), bodies);
}

#[test]
fn an_invalid_spec_is_refused_with_a_caret_under_the_character() {
    let peer = Peer::start();
    let mut app = app(&peer);
    talk(&mut app, &peer, 0);
    for (spec, expected, column) in [
        ("1:2,,", "^ segment expected", 4),
        ("0:1,3:9", "^ there are 8 messages only", 6),
        ("inject:'語語'x", "^ expected a comma or the end", 13),
        ("-1:2", "^ range ends before it begins", 3),
        ("5:5", "^ no messages selected", 0),
    ] {
        let line = format!("/slice {spec}");
        app.enter(&line);
        let screen = app.screen_text();
        let rows: Vec<&str> = screen.lines().collect();
        let caret = rows.iter().position(|row| row.contains(expected)).unwrap_or_else(|| panic!("{spec}\n{screen}"));
        assert_eq!((rows[caret].find('^'), rows[caret - 1]), (Some(column), spec));
        assert_eq!((app.draft(0).text(), app.repl.roster().len()), (line.as_str(), 1));
        app.type_bytes(b"\x15");
    }
    assert_refused(&mut app, "/slice everything", "expected summarize, compact, inject or a range a:b");
}

#[test]
fn messages_are_counted_and_listed_as_slices_count_them() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/slice count");
    assert_shows(&mut app, "0 messages");
    talk(&mut app, &peer, 0);
    let mut app = app.crash_and_restart();
    app.enter("/slice");
    assert_shows(&mut app, "8 messages: 3 from you, 3 replies, 1 call, 1 result");
    assert_shows(&mut app, "inject:'text'              your own text");
    app.enter("/slice list");
    for line in ["0  you    q1", "1  reply  r1", "3  call   read_file", "4  result", "7  reply  r2"] {
        assert_shows(&mut app, line);
    }
    app.type_bytes(b"/slice su\t");
    assert_eq!(app.draft(0).text(), "/slice summarize:0:50%,50%:");
}

#[test]
fn slicing_a_hundred_thousand_messages_is_not_quadratic() {
    let mut app = Harness::new(Plan::default());
    let body = |n: usize| if n.is_multiple_of(2) { Body::User(n.to_string()) } else { Body::Assistant(reply(n)) };
    app.repl.store().append(app.id(0), (0..100_000).map(body).collect(), 0).expect("a log");
    let start = clock_gettime(ClockId::ThreadCPUTime);
    app.enter("/slice :50%,50%:");
    // The time of this thread alone, however many share the machine with it.
    let took = clock_gettime(ClockId::ThreadCPUTime).tv_sec - start.tv_sec;
    assert!(took < 20, "{took} s");
    assert_eq!(app.focus(), 1);
    assert_eq!(conversation(&app, 1), conversation(&app, 0));
    assert_shows(&mut app, "100000 messages from agent 0");
}

fn reply(n: usize) -> Reply {
    Reply { text: n.to_string(), ..Reply::default() }
}
