//! The program crashes in the middle of its work and is started again: what was acknowledged is there, what was cut is
//! marked, and every conversation can go on.

use polylogue::{Change, Status};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, State};
use crate::support::peer::Peer;
use crate::support::scene::{self, assert_valid};

fn app_with_agents(count: usize, peer: &Peer) -> Harness {
    scene::app_with_agents(count, Plan { real_time: true, ..Plan::peer(&peer.url()) })
}

/// A message and its reply; the request that the server got.
fn exchange(app: &mut Harness, peer: &Peer, n: usize, text: &str, reply: &str) -> Value {
    app.say(n, text);
    let exchange = app.accept(peer);
    exchange.stream().text(reply).finish("stop").done();
    app.turn_until("the reply", |app| app.state(n) == State::Idle);
    exchange.request().json()
}

#[test]
fn a_crash_in_every_state_at_once_loses_nothing_that_was_acknowledged() {
    let peer = Peer::start();
    let mut app = app_with_agents(6, &peer);
    exchange(&mut app, &peer, 0, "an old question", "an old reply");
    let [waits, streams, asks, is_running] = [1, 2, 3, 4];
    app.say(waits, "waits for bytes");
    let _waiting = app.accept(&peer);
    app.say(asks, "asks");
    let asking = app.accept(&peer);
    asking.stream().text("let me look").tool_call(0, "call-a", "bash", "{\"command\":\"true\"}");
    asking.finish("tool_calls").done();
    app.turn_until_asked(asks);
    app.say(is_running, "runs");
    let running = app.accept(&peer);
    running.stream().tool_call(0, "call-b", "bash", "{\"command\":\"sleep 60\"}");
    running.tool_call(1, "call-c", "read_file", "{\"path\":\"x\"}").finish("tool_calls").done();
    app.answer(is_running, true);
    app.say(streams, "streams");
    let streaming = app.accept(&peer);
    streaming.stream().text("half of ");
    // The first piece is stored at once; only what arrived since the last checkpoint may be missing.
    app.turn_until("a checkpoint", |app| app.agent(streams).partial_text() == "half of ");
    let finished = app.log(0);

    let mut app = app.crash_and_restart();
    assert!((0..6).all(|n| (app.state(n) == State::Idle) != (n == asks)));
    assert_eq!(app.agent(asks).status(), Status::AwaitingApproval, "it is asked again");
    assert_eq!(app.log(0), finished);
    assert_eq!(app.partial_replies(streams), ["half of "]);
    assert_eq!(
        app.log(5).len(),
        app.kinds(5).iter().filter(|kind| **kind == "fork").count(),
        "the idle one is as it was"
    );
    let own = |n: usize| app.kinds(n).into_iter().filter(|kind| *kind != "fork").collect::<Vec<_>>();
    assert_eq!(own(waits), ["user", "interrupted"]);
    assert_eq!(own(streams), ["user", "assistant", "interrupted"]);
    assert_eq!(own(asks), ["user", "assistant", "tool_call"]);
    assert_eq!(own(is_running), ["user", "tool_call", "tool_call", "tool_result", "tool_result", "interrupted"]);
    assert!(app.screen_text().contains("3 turns were interrupted"), "{}", app.screen_text());
    app.ask(asks, Change::Interrupt);
    for n in 0..6 {
        let body = exchange(&mut app, &peer, n, "go on", "gladly");
        assert_valid(&body);
    }
}

#[test]
fn a_second_crash_finds_nothing_more_to_close() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, &peer);
    app.say(1, "a question");
    let streaming = app.accept(&peer);
    streaming.stream().text("half of ");
    app.turn_until("a checkpoint", |app| !app.agent(1).partial_text().is_empty());
    let app = app.crash_and_restart();
    let once = app.log(1);
    assert_eq!(app.crash_and_restart().log(1), once);
}

/// The messages of a request without the system prompt, as the bytes that were sent.
fn messages_of(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().expect("messages");
    messages.iter().map(Value::to_string).collect()
}

#[test]
fn a_child_has_the_conversation_of_its_parent_until_the_fork_and_then_its_own_also_after_a_crash() {
    let peer = Peer::start();
    let mut app = app_with_agents(1, &peer);
    exchange(&mut app, &peer, 0, "before", "reply before");
    app.fork(0);
    let parent = exchange(&mut app, &peer, 0, "only the parent's", "reply to the parent");
    let child = exchange(&mut app, &peer, 1, "only the child's", "reply to the child");
    let (parent, child) = (messages_of(&parent), messages_of(&child));
    assert_eq!(child[..3], parent[..3]);
    assert_eq!((child.len(), parent.len()), (4, 4));
    app.fork(1);
    let mut app = app.crash_and_restart();
    let grandchild = messages_of(&exchange(&mut app, &peer, 2, "the grandchild's", "reply"));
    assert_eq!(grandchild[..4], child[..]);
    assert_eq!(grandchild.len(), 6);
    let child_again = messages_of(&exchange(&mut app, &peer, 1, "once more", "reply"));
    assert_eq!(child_again[..5], grandchild[..5]);
    assert!(!child_again.concat().contains("the grandchild's") && !child_again.concat().contains("only the parent's"));
}

#[test]
fn the_bytes_of_a_request_begin_with_the_bytes_of_the_one_before_also_after_a_crash() {
    let peer = Peer::start();
    let mut app = app_with_agents(1, &peer);
    let prefix = |body: &[u8]| {
        let text = String::from_utf8(body.to_vec()).expect("JSON is text");
        text.split_once(",{\"role\":\"user\",\"content\":\"latest")
            .map(|(before, _)| before.to_owned())
            .expect("a message")
    };
    let mut before = String::new();
    for round in 0..4 {
        app.say(0, &format!("latest {round}"));
        let exchange = app.accept(&peer);
        let body = String::from_utf8(exchange.request().body.clone()).expect("JSON is text");
        assert!(body.starts_with(&before), "round {round}");
        before = prefix(&exchange.request().body);
        exchange.stream().text("reply").finish("stop").done();
        app.turn_until_idle();
        app = app.crash_and_restart();
    }
}

#[test]
fn drafts_and_queues_are_restored_after_an_ordinary_exit() {
    let peer = Peer::start();
    let mut app = app_with_agents(3, &peer);
    app.type_bytes("draft of A, with a 字".as_bytes());
    app.switch(1);
    app.type_bytes(b"draft of B\n\x1b[200~one\ntwo\nthree\x1b[201~");
    let of_b = app.agent(1).view.draft.expanded();
    app.say(2, "streams");
    let exchange = app.accept(&peer);
    exchange.stream().text("half");
    app.turn_until("the half", |app| app.agent(2).partial_text() == "half");
    app.say(2, "queued");
    app.repl.leave().expect("the program can be left");
    exchange.wait_for_close();
    assert_eq!(app.state(2), State::Idle);

    let mut app = app.crash_and_restart();
    assert_eq!(app.agent(0).view.draft.text(), "draft of A, with a 字");
    app.switch(1);
    assert_eq!(app.agent(1).view.draft.expanded(), of_b);
    assert_eq!(app.partial_replies(2), ["half"]);
    let queued: Vec<&str> = app.agent(2).queue.iter().map(|queued| queued.text.as_str()).collect();
    assert_eq!(queued, ["queued"]);
    assert!(!app.screen_text().contains("interrupted when the program ended"), "leaving in order is no crash");
}

#[test]
fn a_turn_that_the_exit_of_the_program_ends_is_stored_as_exited() {
    let peer = Peer::start();
    let mut app = app_with_agents(3, &peer);
    app.say(0, "streams");
    let streaming = app.accept(&peer);
    streaming.stream().text("half of ");
    app.turn_until("the half", |app| app.agent(0).partial_text() == "half of ");
    app.say(1, "asks");
    let asking = app.accept(&peer);
    asking.stream().tool_call(0, "call-a", "bash", "{\"command\":\"true\"}").finish("tool_calls").done();
    app.turn_until_asked(1);
    app.say(2, "is interrupted before");
    let _interrupted = app.accept(&peer);
    app.ask(2, Change::Interrupt);
    app.repl.leave().expect("the program exits");

    let mut app = app.crash_and_restart();
    let own = |app: &Harness, n: usize| app.kinds(n).into_iter().filter(|kind| *kind != "fork").collect::<Vec<_>>();
    assert_eq!(own(&app, 0), ["user", "assistant", "exited"]);
    assert_eq!(own(&app, 1), ["user", "tool_call"], "its question is asked again");
    assert_eq!(own(&app, 2), ["user", "interrupted"]);
    assert_eq!(app.partial_replies(0), ["half of "]);
    app.switch(0);
    app.turn_until("the log", |app| app.screen_text().contains("polylogue exited during this turn"));
    assert_eq!(app.repl.status(app.id(1)).unwrap(), Status::AwaitingApproval);
    app.ask(1, Change::Interrupt);
    for n in 0..3 {
        assert_valid(&exchange(&mut app, &peer, n, "go on", "gladly"));
    }
}

#[test]
fn leaving_stops_every_tool_and_answers_every_call() {
    let peer = Peer::start();
    let mut app = app_with_agents(3, &peer);
    for n in 0..3 {
        app.say(n, "run it");
        let exchange = app.accept(&peer);
        let command = json!({"command": "trap '' TERM; sleep 60"}).to_string();
        exchange.stream().tool_call(0, "call", "bash", &command).finish("tool_calls").done();
        app.answer(n, true);
        assert_eq!(app.state(n), State::ExecutingTool);
    }
    app.repl.leave().expect("the program can be left");
    for n in 0..3 {
        assert!(!app.agent(n).has_live_tool());
        let last: Vec<Body> = app.log(n).into_iter().rev().take(2).map(|message| message.body).collect();
        assert!(matches!(&last[..], [Body::Exited, Body::ToolResult(_)]), "{last:?}");
    }
    let mut app = app.crash_and_restart();
    for n in 0..3 {
        assert_valid(&exchange(&mut app, &peer, n, "go on", "gladly"));
    }
}
