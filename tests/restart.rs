//! The program crashes in the middle of its work and is started again: what was acknowledged is there, what was cut is
//! marked, and every conversation can go on.

use polylogue::{Change, Status};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, State};
use crate::support::openai::last_user_text;
use crate::support::peer::Peer;
use crate::support::scene::{self, assert_shows, assert_valid};

const ALT_A: &[u8] = b"\x1ba";

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
    let of_b = app.draft(1).expanded();
    app.say(2, "streams");
    let exchange = app.accept(&peer);
    exchange.stream().text("half");
    app.turn_until("the half", |app| app.agent(2).partial_text() == "half");
    app.say(2, "queued");
    app.repl.leave().expect("the program can be left");
    exchange.wait_for_close();
    assert_eq!(app.state(2), State::Idle);

    let mut app = app.crash_and_restart();
    assert_eq!(app.draft(0).text(), "draft of A, with a 字");
    app.switch(1);
    assert_eq!(app.draft(1).expanded(), of_b);
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

#[test]
fn an_interrupted_agent_says_so_in_every_list_and_enter_tries_again() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, &peer);
    app.say(1, "count");
    let streaming = app.accept(&peer);
    streaming.stream().text("one two ");
    app.turn_until("a checkpoint", |app| app.agent(1).partial_text() == "one two ");

    let mut app = app.crash_and_restart().crash_and_restart();
    assert_eq!(app.agent(1).status(), Status::Interrupted, "also after one more start");
    assert_shows(&mut app, "✗agent 1 interrupted");
    app.enter("/agents");
    assert_shows(&mut app, "  interrupted  ");
    app.type_bytes(ALT_A);
    assert_shows(&mut app, "── inbox ─ 1 interrupted ─");
    assert_shows(&mut app, "─ interrupted by the end of the program ─");
    let rows: Vec<String> = app.screen_text().lines().map(str::to_owned).collect();
    assert!(rows.iter().any(|row| row.starts_with(">  1 count") && row.contains("one two")), "{rows:?}");
    assert!(rows.iter().any(|row| row.trim() == "one two"), "the end of its conversation: {rows:?}");
    app.type_bytes(b"\r");
    assert_eq!(app.focus(), 1);
    assert_shows(&mut app, "interrupted: Enter tries again");
    assert!(!app.screen_text().contains("✗agent 1"), "it was shown");

    app.type_bytes(b"\r");
    let next = app.accept(&peer);
    let body = next.request().json();
    assert_valid(&body);
    assert!(!body.to_string().contains("one two"), "the reply is made anew: {body}");
    assert_eq!(last_user_text(&body), "count");
    next.stream().text("three").finish("stop").done();
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    assert_eq!(app.agent(1).status(), Status::Idle);
    app.switch(1);
    app.type_bytes(b"\r");
    assert!(!app.screen_text().contains("Enter tries again") && app.state(1) == State::Idle);
}

#[test]
fn enter_sends_what_is_queued_before_it_tries_an_interrupted_turn_again() {
    let peer = Peer::start();
    let mut app = app_with_agents(1, &peer);
    app.say(0, "count");
    let streaming = app.accept(&peer);
    streaming.stream().text("one ");
    app.turn_until("a checkpoint", |app| app.agent(0).partial_text() == "one ");
    app.say(0, "and the weather?");
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "the queue is paused: Enter sends the first entry");
    app.type_bytes(b"\r");
    let next = app.accept(&peer);
    assert_eq!(last_user_text(&next.request().json()), "and the weather?");
    next.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.agent(0).status(), Status::Idle);
}

#[test]
fn what_is_taken_back_of_a_conversation_is_not_tried_again() {
    let peer = Peer::start();
    let mut app = app_with_agents(1, &peer);
    app.say(0, "count");
    let _waiting = app.accept(&peer);
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "interrupted: Enter tries again");
    app.enter("/clear");
    let mut app = app.crash_and_restart();
    assert_eq!(app.agent(0).status(), Status::Idle);
    app.type_bytes(b"\r");
    assert!(app.state(0) == State::Idle && peer.try_accept().is_none());
}

#[test]
fn tokens_and_costs_in_lists_are_as_before_the_restart() {
    let peer = Peer::start();
    let mut app = app_with_agents(3, &peer);
    for (n, priced) in [(0, true), (0, true), (1, true), (1, false)] {
        app.say(n, "a question");
        let exchange = app.accept(&peer);
        let mut usage = crate::support::openai::usage(100, 20);
        if priced {
            usage["usage"]["cost"] = json!(0.25);
        }
        exchange.stream().text("reply").finish("stop").event(&usage).done();
        app.turn_until_idle();
    }
    let used = |app: &Harness| [0, 1, 2].map(|n| (app.agent(n).used.tokens(), app.agent(n).used.cost));
    let before = used(&app);
    assert_eq!(before, [(240, Some(500_000_000)), (240, None), (0, None)]);
    let mut app = app.crash_and_restart();
    assert_eq!(used(&app), before);
    app.enter("/agents");
    assert_shows(&mut app, "240 tokens  $0.50");
    assert_shows(&mut app, "ctx 120");
    app.say(0, "one more");
    app.accept(&peer).stream().text("reply").finish("stop").usage(1, 1).done();
    app.turn_until_idle();
    assert_eq!((app.agent(0).used.tokens(), app.agent(0).used.cost), (242, None));
    assert_eq!(app.crash_and_restart().agent(0).used.tokens(), 242);
}

#[test]
fn what_finished_and_was_not_seen_is_still_marked_after_a_restart() {
    let peer = Peer::start();
    let mut app = app_with_agents(4, &peer);
    exchange(&mut app, &peer, 0, "shown", "a reply on the screen");
    exchange(&mut app, &peer, 1, "unseen", "a reply that nobody saw");
    exchange(&mut app, &peer, 2, "unseen", "another reply");
    app.say(3, "fails");
    app.accept(&peer).error(401, "invalid_api_key", "wrong key");
    app.turn_until_idle();
    app.switch(2);
    app.switch(0);
    for _ in 0..2 {
        app = app.crash_and_restart();
        assert_shows(&mut app, "✗agent 3 failed ─ ●agent 1 new");
        app.type_bytes(ALT_A);
        assert_shows(&mut app, "── inbox ─ 1 failed ─ 1 finished ─");
        assert_shows(&mut app, "a reply that nobody saw");
        app.escape();
    }
    app.switch(1);
    app.switch(0);
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "✗agent 3 failed");
}
