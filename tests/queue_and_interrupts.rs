//! What is typed while an agent works is never lost, and Esc stops an agent in whatever state it is.

use std::time::Duration;

use polylogue::Change;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Probe, State, Wait};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::app_with_agents;

/// The agent's queue in the store, oldest first.
fn stored_queue(app: &Harness, n: usize) -> Vec<String> {
    let queued = app.repl.store().queued(app.id(n)).expect("the queue can be read");
    queued.into_iter().map(|queued| queued.text).collect()
}

/// The user messages in the log.
fn user_messages(app: &Harness, n: usize) -> Vec<String> {
    let text = |body| if let Body::User(text) = body { Some(text) } else { None };
    app.log(n).into_iter().filter_map(|message| text(message.body)).collect()
}

/// Agent 0 streams, and two texts were entered meanwhile.
fn two_queued(peer: &Peer) -> (Harness, Exchange) {
    let mut app = app_with_agents(1, Plan::peer(&peer.url()));
    app.enter("first");
    let exchange = app.accept(peer);
    exchange.stream().text("so far");
    app.turn_until("the stream", |app| app.agent(0).partial_text() == "so far");
    app.enter("second");
    app.enter("third");
    (app, exchange)
}

#[test]
fn text_entered_while_the_agent_works_is_stored_shown_and_sent_in_order() {
    let peer = Peer::start();
    let (mut app, exchange) = two_queued(&peer);
    assert_eq!(stored_queue(&app, 0), ["second", "third"]);
    let screen = app.screen_text();
    assert!(screen.contains("queued 1: second") && screen.contains("queued 2: third"), "{screen}");
    exchange.finish("stop").done();
    for (text, left) in [("second", 1), ("third", 0)] {
        let exchange = app.accept(&peer);
        let messages = exchange.request().json()["messages"].clone();
        let last = messages.as_array().and_then(|all| all.last().cloned()).expect("a message");
        assert_eq!(last["content"], text);
        assert_eq!(stored_queue(&app, 0).len(), left);
        exchange.stream().text("reply").finish("stop").done();
    }
    app.turn_until_idle();
    assert_eq!(user_messages(&app, 0), ["first", "second", "third"]);
    assert!(!app.screen_text().contains("queued"));
}

#[test]
fn up_on_an_empty_draft_takes_the_newest_queued_text_back() {
    let peer = Peer::start();
    let (mut app, exchange) = two_queued(&peer);
    app.type_bytes(b"\x1b[A");
    assert_eq!(app.draft(0).text(), "third");
    assert_eq!(stored_queue(&app, 0), ["second"]);
    app.enter(" and more");
    assert_eq!(stored_queue(&app, 0), ["second", "third and more"]);
    drop(exchange);
}

#[test]
fn after_an_interrupt_the_queue_waits_until_enter() {
    let peer = Peer::start();
    let (mut app, exchange) = two_queued(&peer);
    app.escape();
    assert_eq!(app.state(0), State::Idle);
    exchange.wait_for_close();
    for _ in 0..5 {
        app.turn();
    }
    assert_eq!((app.state(0), stored_queue(&app, 0).len()), (State::Idle, 2));
    assert!(app.screen_text().contains("the queue is paused"), "{}", app.screen_text());
    app.type_bytes(b"\r");
    let exchange = app.accept(&peer);
    assert_eq!(user_messages(&app, 0), ["first", "second"]);
    exchange.stream().text("reply").finish("stop").done();
    app.accept(&peer).stream().text("reply").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(user_messages(&app, 0), ["first", "second", "third"]);
}

#[test]
fn text_for_an_idle_agent_whose_queue_is_paused_is_queued() {
    let peer = Peer::start();
    let (mut app, _exchange) = two_queued(&peer);
    app.escape();
    app.enter("fourth");
    for _ in 0..3 {
        app.accept(&peer).stream().text("reply").finish("stop").done();
    }
    app.turn_until_idle();
    assert_eq!(user_messages(&app, 0), ["first", "second", "third", "fourth"]);
}

#[test]
fn after_an_error_the_queue_waits_too() {
    let peer = Peer::start();
    let (mut app, exchange) = two_queued(&peer);
    exchange.hang_up();
    app.turn_until_idle();
    assert_eq!(stored_queue(&app, 0), ["second", "third"]);
}

#[test]
fn a_queue_survives_a_crash_and_is_sent_on_request() {
    let peer = Peer::start();
    let (app, _exchange) = two_queued(&peer);
    let mut app = app.crash_and_restart();
    assert_eq!(app.state(0), State::Idle);
    assert!(app.screen_text().contains("queued 1: second"), "{}", app.screen_text());
    app.type_bytes(b"\r");
    app.accept(&peer).stream().text("reply").finish("stop").done();
    app.accept(&peer).stream().text("reply").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(user_messages(&app, 0), ["first", "second", "third"]);
    assert_eq!(stored_queue(&app, 0), [""; 0]);
}

/// After an interrupt: idle, nothing awaited, and a further message is answered.
fn is_really_idle(app: &mut Harness, n: usize) {
    assert_eq!((app.state(n), app.agent(n).question()), (State::Idle, None));
    assert!(matches!(app.agent(n).wait(), Wait::Nothing) && !app.agent(n).has_live_tool());
    assert!(!app.agent(n).holds_slot() && !app.agent(n).view.is_spinning());
    assert_eq!(app.place(n), None, "it has left the send queue");
}

#[test]
fn esc_stops_a_request_without_an_answer_and_closes_its_socket() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, Plan::peer(&peer.url()));
    app.enter("a question");
    let exchange = app.accept(&peer);
    app.escape();
    is_really_idle(&mut app, 0);
    exchange.wait_for_close();
    assert_eq!(app.kinds(0)[1..], ["user", "interrupted"]);
}

#[test]
fn esc_stops_a_stream_and_keeps_and_marks_what_came() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, Plan::peer(&peer.url()));
    app.enter("a question");
    let exchange = app.accept(&peer);
    exchange.stream().text("so far");
    app.turn_until("the stream", |app| app.agent(0).partial_text() == "so far");
    app.escape();
    is_really_idle(&mut app, 0);
    exchange.wait_for_close();
    assert_eq!(app.partial_replies(0), ["so far"]);
    let screen = app.screen_text();
    assert!(screen.contains("so far") && screen.contains("- interrupted"), "{screen}");
}

#[test]
fn keys_that_come_in_one_read_act_one_after_the_other() {
    let peer = Peer::start();
    let mut app = app_with_agents(1, Plan::peer(&peer.url()));
    app.enter("a question");
    let exchange = app.accept(&peer);
    exchange.stream().text("so far");
    app.turn_until("the stream", |app| app.agent(0).partial_text() == "so far");
    // Esc as the kitty keyboard protocol sends it: no waiting between it and what follows.
    app.type_bytes(b"\x1b[27uanother\r");
    let next = app.accept(&peer);
    assert_eq!(app.kinds(0), ["user", "assistant", "interrupted", "user"]);
    let messages = next.request().json()["messages"].clone();
    assert_eq!((&messages[2]["content"], &messages[3]["content"]), (&"so far".into(), &"another".into()));
}

#[test]
fn esc_stops_the_wait_for_a_retry() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, Plan::peer(&peer.url()));
    app.enter("a question");
    app.accept(&peer).head(429, &[("retry-after", "60"), ("content-length", "0")]);
    app.turn_until("a retry", |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
    app.escape();
    is_really_idle(&mut app, 0);
    app.advance(Duration::from_secs(100));
    assert_eq!(app.state(0), State::Idle);
    assert!(peer.try_accept().is_none());
}

#[test]
fn esc_stops_the_wait_for_a_slot_and_leaves_the_send_queue() {
    let mut app = app_with_agents(3, Plan { working_limit: 1, ..Plan::default() });
    app.say(1, "%hang");
    app.enter("waits");
    app.say(2, "waits after it");
    app.escape();
    is_really_idle(&mut app, 0);
    app.enter("waits again");
    assert_eq!(app.place(2), Some(0), "an agent that left the queue returns to its end");
    app.ask(1, Change::Interrupt);
    app.turn_until_idle();
    assert_eq!((app.replies(2), app.replies(0)), (vec!["waits after it".into()], vec!["waits again".into()]));
}

#[test]
fn esc_stops_a_tool_and_answers_its_call() {
    let mut app = app_with_agents(2, Plan { real_time: true, ..Plan::default() });
    app.enter("%tool bash {\"command\":\"sleep 60\"}");
    app.answer(0, true);
    app.escape();
    app.turn_until_idle();
    is_really_idle(&mut app, 0);
    assert_eq!(app.kinds(0)[1..], ["user", "tool_call", "usage", "tool_result", "interrupted"]);
}

#[test]
fn esc_at_a_question_answers_the_call_and_runs_nothing() {
    let mut app = app_with_agents(2, Plan::default());
    app.enter("%tool bash {\"command\":\"touch it-ran\"}");
    app.turn_until_asked(0);
    app.escape();
    is_really_idle(&mut app, 0);
    assert!(!app.directory().join("it-ran").exists());
}

#[test]
fn an_agent_in_the_background_is_interrupted_in_every_state_and_no_other() {
    for prompt in ["%hang", "words\n%hang", "%fail 429 retry-after=60", "%tool bash {\"command\":\"sleep 60\"}"] {
        let mut app = app_with_agents(3, Plan { real_time: true, ..Plan::default() });
        app.say(2, "%hang");
        app.say(1, prompt);
        app.turn();
        if prompt.starts_with("%tool") {
            app.answer(1, true);
        }
        let (on_screen, other) = (app.fingerprint(0), app.fingerprint(2));
        app.ask(1, Change::Interrupt);
        app.turn_until("it is idle", |app| app.state(1) == State::Idle);
        is_really_idle(&mut app, 1);
        assert_eq!((app.fingerprint(0), app.fingerprint(2)), (on_screen, other), "{prompt}");
    }
}

#[test]
fn an_interrupt_of_an_idle_agent_leaves_nothing_behind() {
    let mut app = app_with_agents(2, Plan::default());
    let before = (app.fingerprint(0), app.fingerprint(1));
    app.ask(0, Change::Interrupt);
    app.ask(1, Change::Interrupt);
    app.escape();
    assert_eq!((app.fingerprint(0), app.fingerprint(1)), before);
    app.enter("and now?");
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["and now?"]);
}

/// The agents that have a slot.
fn at_work(app: &Harness) -> Vec<usize> {
    (0..app.repl.roster().len()).filter(|n| app.agent(*n).holds_slot()).collect()
}

#[test]
fn of_five_agents_two_may_work_and_the_others_come_in_order() {
    let mut app = app_with_agents(5, Plan { working_limit: 2, ..Plan::default() });
    for n in [3, 1, 4, 0, 2] {
        app.say(n, "words\n%hang");
    }
    let mut expected = vec![3, 1, 4, 0, 2];
    while !expected.is_empty() {
        app.turn();
        let mut two: Vec<usize> = expected.iter().take(2).copied().collect();
        two.sort_unstable();
        assert_eq!(at_work(&app), two);
        app.ask(expected.remove(0), Change::Interrupt);
    }
    assert_eq!(at_work(&app), [0; 0]);
}

#[test]
fn an_agent_that_waits_for_a_retry_gives_its_slot_to_the_next_at_once() {
    let mut app = app_with_agents(2, Plan { working_limit: 1, ..Plan::default() });
    app.say(0, "%fail network");
    app.say(1, "words\n%hang");
    assert_eq!(at_work(&app), [0]);
    app.turn();
    assert!(matches!(app.agent(0).wait(), Wait::Retry { .. }));
    assert_eq!(at_work(&app), [1], "a free slot is used at once");
    app.advance(Duration::from_secs(7));
    assert!(matches!(app.agent(0).wait(), Wait::Slot), "an agent that comes back waits like all others");
}

#[test]
fn an_agent_that_awaits_approval_gives_its_slot_to_the_next() {
    let mut app = app_with_agents(2, Plan { working_limit: 1, ..Plan::default() });
    app.say(0, "%tool bash {\"command\":\"true\"}");
    app.say(1, "words\n%hang");
    app.turn_until_asked(0);
    app.turn();
    assert_eq!(at_work(&app), [1]);
}
