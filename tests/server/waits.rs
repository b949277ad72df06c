//! `wait`: answered when the agent is at rest or dead, or after the timeout.

use std::time::Duration;

use polylogue::{Change, Fork};
use serde_json::json;

use crate::support::client::{Client, refusal, serve, turn_until_no_client};
use crate::support::harness::Plan;
use crate::support::internals::{Probe, WakeReason};

#[test]
fn waiting_for_an_idle_agent_returns_at_once() {
    let mut app = serve(Plan::default());
    assert_eq!(Client::connect(&app).done(&mut app, "wait", json!({"agent": "0"})), json!({"status": "idle"}));
}

#[test]
fn a_wait_ends_when_the_turn_and_the_queue_are_done() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    client.done(&mut app, "send", json!({"agent": "0", "text": "%slow 50\nfirst"}));
    client.done(&mut app, "send", json!({"agent": "0", "text": "%slow 50\nsecond"}));
    client.ask("wait", json!({"agent": "0"}));
    app.turn();
    assert_eq!(app.timeout().after, Some(Duration::from_millis(50)), "the wait itself needs nothing");
    app.advance(Duration::from_millis(50));
    app.turn_until("the second turn", |app| app.replies(0).len() == 1 && app.agent(0).queue.is_empty());
    assert_eq!(client.try_read(), None, "the second is under way");
    app.advance(Duration::from_millis(50));
    assert_eq!(client.read(&mut app), json!({"ok": {"status": "idle"}}));
    assert_eq!(app.replies(0), ["first", "second"]);
}

#[test]
fn a_wait_reports_an_interrupted_agent() {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
    let (mut waiting, mut other) = (Client::connect(&app), Client::connect(&app));
    waiting.ask("wait", json!({"agent": "0"}));
    other.done(&mut app, "run", json!({"agent": "0", "argv": ["interrupt"]}));
    assert_eq!(waiting.read(&mut app), json!({"ok": {"status": "interrupted"}}));
}

#[test]
fn a_wait_does_not_wait_for_a_queue_that_waits_for_a_person() {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
    app.say(0, "later");
    let (mut waiting, mut other) = (Client::connect(&app), Client::connect(&app));
    waiting.ask("wait", json!({"agent": "0"}));
    other.done(&mut app, "run", json!({"agent": "0", "argv": ["interrupt"]}));
    assert_eq!(waiting.read(&mut app), json!({"ok": {"status": "interrupted"}}));
    assert_eq!(app.agent(0).queue.len(), 1);
}

#[test]
fn a_wait_reports_a_dead_agent() {
    let mut app = serve(Plan::default());
    app.ask(0, Change::Fork(Fork { name: Some("mortal".into()), ..Fork::default() }));
    let id = app.id(1);
    app.say(1, "%hang");
    let mut client = Client::connect(&app);
    client.ask("wait", json!({"agent": "mortal"}));
    app.turn();
    app.ask(0, Change::Kill { agent_id: id, cascade: false });
    assert_eq!(client.read(&mut app), json!({"ok": {"status": "dead"}}));
    let dead = client.done(&mut app, "wait", json!({"agent": id.to_string()}));
    assert_eq!(dead, json!({"status": "dead"}));
    let (kind, message) = client.refused(&mut app, "wait", json!({"agent": "nobody"}));
    assert!(kind == "usage" && message.contains("nobody"), "{message}");
}

#[test]
fn a_wait_that_times_out_reports_the_status_and_leaves_the_agent_alone() {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
    app.turn();
    let mut client = Client::connect(&app);
    client.ask("wait", json!({"agent": "0", "seconds": 2.5}));
    app.turn_until("the request is read", |app| app.timeout().why == WakeReason::Client);
    assert_eq!(app.timeout().after, Some(Duration::from_millis(2_500)));
    app.advance(Duration::from_millis(2_499));
    assert_eq!(client.try_read(), None);
    app.advance(Duration::from_millis(1));
    let (kind, message) = refusal(&client.read(&mut app));
    assert_eq!((kind.as_str(), message.as_str()), ("timeout", "timed out: agent 0 is running, 0 queued"));
    assert_eq!(app.repl.roster().busy().len(), 1);
    let (kind, _) = client.refused(&mut app, "wait", json!({"agent": "0", "seconds": 0}));
    assert_eq!(kind, "timeout");
    // More than can be counted is as good as for ever.
    client.ask("wait", json!({"agent": "0", "seconds": 1e300}));
    app.turn();
    app.advance(Duration::from_secs(1_000_000));
    assert_eq!(client.try_read(), None);
}

#[test]
fn the_wait_of_a_client_that_left_is_dropped() {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
    let mut client = Client::connect(&app);
    client.ask("wait", json!({"agent": "0", "seconds": 1}));
    app.turn_until("the request is read", |app| app.timeout().why == WakeReason::Client);
    drop(client);
    turn_until_no_client(&mut app);
    assert_ne!(app.timeout().why, WakeReason::Client);
}
