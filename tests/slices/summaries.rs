//! Summaries in a cut: written by a request of their own while all agents go on; all of them, or no child.

use std::time::Duration;

use polylogue::Change;
use polylogue::config::{RetryPolicy, Settings};
use serde_json::Value;

use super::{conversation, talk};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Probe, State};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{answer_next, app, assert_refused, assert_shows, converse, texts_in, turn_a_while};

/// An app whose failed requests are not sent again, with a conversation of eight messages.
fn without_retries(peer: &Peer) -> Harness {
    let retry = RetryPolicy { retries: Some(0), ..RetryPolicy::default() };
    let settings = Settings { retry, ..Settings::default() };
    let mut app = Harness::new(Plan { settings, ..Plan::peer(&peer.url()) });
    for n in 1..=4 {
        converse(&mut app, peer, 0, &format!("q{n}"), &format!("r{n}"));
    }
    app
}

/// What the server does.
type Play = fn(&Exchange);

/// The person asks for a cut with a summary; the request for it.
fn asked_for(app: &mut Harness, peer: &Peer, spec: &str) -> Exchange {
    app.enter(&format!("/slice {spec}"));
    app.accept(peer)
}

/// There is no child, no agent works, the agent shows no work, and the line is in the draft.
fn assert_nothing_came(app: &mut Harness, agents: usize, line: &str) {
    assert_eq!(app.repl.roster().len(), agents);
    assert_eq!(app.repl.store().load_agents().expect("the agents").agents.len(), agents);
    assert!(app.repl.roster().busy().is_empty() && app.repl.roster().at_work().is_empty());
    assert!(!app.agent(0).view.is_spinning());
    assert_eq!(app.draft(0).text(), line);
    app.type_bytes(b"\x15");
}

#[test]
fn a_summary_is_at_its_position_in_the_child_and_counts_for_its_usage() {
    let peer = Peer::start();
    let mut app = app(&peer);
    talk(&mut app, &peer, 0);
    let before = (conversation(&app, 0), app.agent(0).used.clone());
    let exchange = asked_for(&mut app, &peer, "inject:'before',summarize:0:-2:'the plot',-2:");
    let request = exchange.request().json();
    assert!(request.get("tools").is_none(), "{request}");
    let asked = last_user_text(&request);
    assert!(asked.contains("the plot") && asked.contains("read_file") && asked.contains("r1"), "{asked}");
    assert!(!asked.contains("r2") && !asked.contains("before\n"), "{asked}");
    assert_shows(&mut app, "summary: waiting for test");
    assert_eq!((app.repl.roster().len(), app.state(0)), (1, State::Idle));
    exchange.stream().text("They ").text("met.").finish("stop").usage(100, 7).done();
    app.turn_until("the child", |app| app.repl.roster().len() == 2);
    assert_eq!(app.focus(), 1);
    assert_shows(&mut app, "[Summary of 6 earlier messages, for: the plot]");
    let texts = texts_in(&converse(&mut app, &peer, 1, "go", "gone"));
    let summary = "before\n\n[Summary of 6 earlier messages, for: the plot]\n\nThey met.\n\nq2";
    assert_eq!(texts, [summary, "r2", "go"]);
    assert!(matches!(&app.log(1)[1].body, Body::Usage(usage) if usage.output == 7));
    assert_eq!(app.agent(1).used.input, 100);
    assert_eq!((conversation(&app, 0), app.agent(0).used.clone()), before);
    assert!(!app.agent(0).view.is_spinning());
}

#[test]
fn the_agent_continues_during_a_summary_and_the_slice_is_of_the_request_time() {
    let peer = Peer::start();
    let mut app = without_retries(&peer);
    let summary = asked_for(&mut app, &peer, "summarize::");
    converse(&mut app, &peer, 0, "meanwhile", "as ever");
    app.enter("/clear");
    assert_refused(&mut app, "/slice summarize::", "no messages to summarize");
    app.enter("/slice inject:'x'");
    assert_eq!((app.focus(), app.repl.roster().len()), (1, 2));
    summary.stream().text("short").finish("stop").done();
    app.turn_until("the child", |app| app.repl.roster().len() == 3);
    assert_eq!(app.focus(), 1, "the person is elsewhere and stays there");
    assert_eq!(conversation(&app, 2), [Body::User("[Summary of 8 earlier messages]\n\nshort".into())]);
    app.switch(0);
    assert_shows(&mut app, "the slice is ready: agent 2");
}

#[test]
fn several_summaries_arrive_in_any_order_and_are_inserted_in_place() {
    let peer = Peer::start();
    let mut app = without_retries(&peer);
    let one = asked_for(&mut app, &peer, "summarize:0:2,2:3,summarize:4:6");
    let other = app.accept(&peer);
    assert_refused(&mut app, "/slice summarize::", "another slice is waiting for its summaries");
    for exchange in [other, one] {
        assert_eq!(app.repl.roster().len(), 1);
        let asked = last_user_text(&exchange.request().json());
        let text = if asked.contains("q1") { "the first" } else { "the second" };
        exchange.stream().text(text).finish("stop").done();
        turn_a_while(&mut app);
    }
    app.turn_until("the child", |app| app.repl.roster().len() == 2);
    let heading = "[Summary of 2 earlier messages]\n\n";
    let [first, second] = ["the first", "the second"].map(|text| Body::User(format!("{heading}{text}")));
    assert_eq!(conversation(&app, 1), [first, Body::User("q2".into()), second]);
}

#[test]
fn a_failed_empty_or_incomplete_summary_leaves_no_child_and_returns_the_line() {
    let peer = Peer::start();
    let mut app = without_retries(&peer);
    let script: [(Play, &str); 4] = [
        (|it| _ = it.error(500, "server_error", "out of order"), "out of order"),
        (|it| _ = it.stream().text("half of").finish("length").done(), "cut at the length limit"),
        (|it| _ = it.stream().text("  ").finish("stop").done(), "a summary is empty"),
        (|it| it.stream().text("half").hang_up(), "no slice was made"),
    ];
    for (play, text) in script {
        let exchange = asked_for(&mut app, &peer, "summarize:0:4,4:");
        play(&exchange);
        app.turn_until("the failure", |app| app.agent(0).summaries() == 0);
        assert_shows(&mut app, text);
        assert_nothing_came(&mut app, 1, "/slice summarize:0:4,4:");
    }
    let kinds = app.kinds(0);
    assert_eq!(kinds, ["user", "assistant"].repeat(4), "nothing of it is in the log");
}

#[test]
fn one_failed_summary_ends_the_others_and_their_usage_counts_for_the_agent() {
    let peer = Peer::start();
    let mut app = without_retries(&peer);
    app.enter("/slice summarize:0:2,summarize:2:4,summarize:4:6");
    let [paid, failed, open] = [(); 3].map(|()| app.accept(&peer));
    paid.stream().text("fine").finish("stop").usage(50, 5).done();
    app.turn_until("the first", |app| app.agent(0).summaries() == 2);
    failed.error(500, "server_error", "out of order");
    app.turn_until("the failure", |app| app.agent(0).summaries() == 0);
    open.wait_for_close();
    assert_nothing_came(&mut app, 1, "/slice summarize:0:2,summarize:2:4,summarize:4:6");
    assert!(matches!(app.log(0).last().map(|last| last.body.clone()), Some(Body::Usage(usage)) if usage.input == 50));
    assert_eq!(app.agent(0).used.input, 50);
}

#[test]
fn an_overloaded_server_is_retried_and_the_wait_is_shown() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    converse(&mut app, &peer, 0, "q1", "r1");
    let exchange = asked_for(&mut app, &peer, "summarize::");
    exchange.error(503, "overloaded", "too many");
    app.turn_until("the wait", |app| app.screen_text().contains("summary: retrying in"));
    app.advance(Duration::from_secs(2));
    app.accept(&peer).stream().text("short").finish("stop").done();
    app.turn_until("the child", |app| app.repl.roster().len() == 2);
}

#[test]
fn a_summary_without_data_stalls() {
    let peer = Peer::start();
    let mut app = without_retries(&peer);
    let exchange = asked_for(&mut app, &peer, "summarize::");
    app.advance(Duration::from_secs(121));
    assert_shows(&mut app, "no data from openai/test for 120 s");
    exchange.wait_for_close();
    assert_nothing_came(&mut app, 1, "/slice summarize::");
}

#[test]
fn esc_and_interrupt_on_the_idle_agent_cancel_its_slice_and_on_a_busy_one_stop_only_its_turn() {
    let peer = Peer::start();
    let mut app = without_retries(&peer);
    for cancel in [|app: &mut Harness| app.escape(), |app: &mut Harness| _ = app.enter("/interrupt")] {
        let exchange = asked_for(&mut app, &peer, "summarize::");
        exchange.stream().text("half of");
        turn_a_while(&mut app);
        cancel(&mut app);
        exchange.wait_for_close();
        assert_shows(&mut app, "no slice was made: cancelled");
        assert_nothing_came(&mut app, 1, "/slice summarize::");
    }
    let summary = asked_for(&mut app, &peer, "summarize::");
    app.say(0, "a long one");
    let turn = app.accept(&peer);
    app.escape();
    turn.wait_for_close();
    assert!(!summary.is_closed_by_client());
    summary.stream().text("short").finish("stop").done();
    app.turn_until("the child", |app| app.repl.roster().len() == 2);
}

#[test]
fn killing_the_agent_cancels_its_slice() {
    let peer = Peer::start();
    let mut app = without_retries(&peer);
    app.fork(0);
    let exchange = asked_for(&mut app, &peer, "summarize::");
    app.enter("/kill");
    exchange.wait_for_close();
    exchange.stream().text("too late").finish("stop").done();
    turn_a_while(&mut app);
    assert_nothing_came(&mut app, 1, "");
}

#[test]
fn after_a_restart_nothing_is_left_of_a_summary() {
    let peer = Peer::start();
    let mut app = without_retries(&peer);
    let exchange = asked_for(&mut app, &peer, "summarize::");
    exchange.stream().text("half of");
    turn_a_while(&mut app);
    let before = app.log(0);
    let mut app = app.crash_and_restart();
    turn_a_while(&mut app);
    assert_eq!(app.log(0), before);
    assert_nothing_came(&mut app, 1, "");
    assert!(peer.try_accept().is_none());
}

#[test]
fn a_summary_waits_for_a_slot_and_its_agent_is_hidden() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { working_limit: 1, ..Plan::peer(&peer.url()) });
    converse(&mut app, &peer, 0, "q1", "r1");
    app.fork(0);
    app.say(1, "a long one");
    let long = app.accept(&peer);
    app.switch(0);
    app.enter("/slice summarize::");
    assert_shows(&mut app, "waiting for a slot: 0 ahead");
    app.enter("/agents");
    assert_shows(&mut app, "waiting for a summary");
    assert_refused(&mut app, "/switch summary for agent 0", "no agent");
    assert_eq!((app.repl.roster().len(), app.repl.roster().iter().count()), (2, 2));
    assert!(peer.try_accept().is_none());
    long.stream().text("done").finish("stop").done();
    app.accept(&peer).stream().text("short").finish("stop").done();
    app.turn_until("the child", |app| app.repl.roster().len() == 3);
    assert_eq!(app.focus(), 2);
}

#[test]
fn the_built_in_model_can_be_asked_for_a_summary_too() {
    let mut app = Harness::new(Plan::default());
    app.enter("hello");
    app.turn_until_idle();
    app.enter("/slice summarize::,-1:");
    app.turn_until("the child", |app| app.repl.roster().len() == 2);
    let Body::User(summary) = &conversation(&app, 1)[0] else { panic!("a summary") };
    assert!(summary.starts_with("[Summary of 2 earlier messages]\n\n") && summary.contains("hello"), "{summary}");
}

#[test]
fn a_slice_with_a_summary_can_be_cut_again() {
    let peer = Peer::start();
    let mut app = without_retries(&peer);
    asked_for(&mut app, &peer, "summarize:0:-2,-2:").stream().text("short").finish("stop").done();
    app.turn_until("the child", |app| app.repl.roster().len() == 2);
    app.enter("/slice :1");
    app.say(2, "go");
    let body: Value = serde_json::from_slice(&answer_next(&mut app, &peer, 2, "gone")).expect("JSON");
    assert_eq!(last_user_text(&body), "[Summary of 6 earlier messages]\n\nshort\n\ngo");
}

#[test]
fn the_screen_stays_if_forks_are_not_followed() {
    let mut app = Harness::new(Plan { follows_forks: false, ..Plan::default() });
    app.enter("hello");
    app.turn_until_idle();
    app.enter("/slice :");
    assert_eq!(app.focus(), 0);
    assert_shows(&mut app, "the slice is ready: agent 1");
    app.ask(1, Change::Switch(app.id(1)));
    assert_shows(&mut app, "2 messages from agent 0");
}
