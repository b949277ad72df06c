//! `wait`: answered when an agent is at rest, when it is dead, or when the time is over.

use std::time::Duration;

use polylogue::domain::flow::Change;
use polylogue::repl::WakeReason;
use serde_json::json;

use crate::support::client::{Client, refusal, serve, turn_until_no_client};
use crate::support::harness::Plan;

#[test]
fn who_is_at_rest_already_is_not_waited_for() {
    let mut app = serve(Plan::default());
    assert_eq!(Client::connect(&app).done(&mut app, "wait", json!({"agent": "0"})), json!({"status": "idle"}));
}

#[test]
fn a_wait_ends_when_the_turn_and_all_that_is_queued_behind_it_are_over() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    client.done(&mut app, "send", json!({"agent": "0", "text": "!slow 50\nfirst"}));
    client.done(&mut app, "send", json!({"agent": "0", "text": "!slow 50\nsecond"}));
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
fn a_wait_for_one_who_is_interrupted_tells_so() {
    let mut app = serve(Plan::default());
    app.say(0, "!hang");
    let (mut waiting, mut other) = (Client::connect(&app), Client::connect(&app));
    waiting.ask("wait", json!({"agent": "0"}));
    other.done(&mut app, "interrupt", json!({"agent": "0"}));
    assert_eq!(waiting.read(&mut app), json!({"ok": {"status": "interrupted"}}));
}

#[test]
fn a_wait_for_one_who_dies_or_is_dead_tells_so() {
    let mut app = serve(Plan::default());
    app.ask(0, Change::Fork { prompt: None, name: Some("mortal".into()), model: None });
    let id = app.id(1);
    app.say(1, "!hang");
    let mut client = Client::connect(&app);
    client.ask("wait", json!({"agent": "mortal"}));
    app.turn();
    app.ask(0, Change::Kill { agent_id: id, cascade: false });
    assert_eq!(client.read(&mut app), json!({"ok": {"status": "dead"}}));
    let dead = client.done(&mut app, "wait", json!({"agent": id.to_string()}));
    assert_eq!(dead, json!({"status": "dead"}));
    let (kind, words) = client.refused(&mut app, "wait", json!({"agent": "nobody"}));
    assert!(kind == "usage" && words.contains("nobody"), "{words}");
}

#[test]
fn a_wait_that_takes_too_long_is_told_what_the_agent_does_and_the_agent_goes_on() {
    let mut app = serve(Plan::default());
    app.say(0, "!hang");
    app.turn();
    let mut client = Client::connect(&app);
    client.ask("wait", json!({"agent": "0", "seconds": 2.5}));
    app.turn_until("it is heard", |app| app.timeout().why == WakeReason::Client);
    assert_eq!(app.timeout().after, Some(Duration::from_millis(2_500)));
    app.advance(Duration::from_millis(2_499));
    assert_eq!(client.try_read(), None);
    app.advance(Duration::from_millis(1));
    let (kind, words) = refusal(&client.read(&mut app));
    assert_eq!((kind.as_str(), words.as_str()), ("timeout", "the time is over: agent 0 is running, 0 queued"));
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
fn who_waits_and_leaves_is_forgotten() {
    let mut app = serve(Plan::default());
    app.say(0, "!hang");
    let mut client = Client::connect(&app);
    client.ask("wait", json!({"agent": "0", "seconds": 1}));
    app.turn_until("it is heard", |app| app.timeout().why == WakeReason::Client);
    drop(client);
    turn_until_no_client(&mut app);
    assert_ne!(app.timeout().why, WakeReason::Client);
}
