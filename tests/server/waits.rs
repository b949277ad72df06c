//! `wait`: answered when an agent is at rest, when it is dead, or when the time is over.

use std::time::Duration;

use polylogue::domain::flow::Change;
use polylogue::repl::Why;
use serde_json::json;

use crate::support::caller::{Caller, refusal, serve, turn_until_alone};
use crate::support::harness::Plan;

#[test]
fn who_is_at_rest_already_is_not_waited_for() {
    let mut house = serve(Plan::default());
    assert_eq!(Caller::knock(&house).done(&mut house, "wait", json!({"who": "0"})), json!({"status": "idle"}));
}

#[test]
fn a_wait_ends_when_the_turn_and_all_that_is_queued_behind_it_are_over() {
    let mut house = serve(Plan::default());
    let mut caller = Caller::knock(&house);
    caller.done(&mut house, "send", json!({"who": "0", "text": "!slow 50\nfirst"}));
    caller.done(&mut house, "send", json!({"who": "0", "text": "!slow 50\nsecond"}));
    caller.ask("wait", json!({"who": "0"}));
    house.turn();
    assert_eq!(house.timeout().after, Some(Duration::from_millis(50)), "the wait itself needs nothing");
    house.advance(Duration::from_millis(50));
    house.turn_until("the second turn", |house| house.replies(0).len() == 1 && house.agent(0).queue.is_empty());
    assert_eq!(caller.heard(), None, "the second is under way");
    house.advance(Duration::from_millis(50));
    assert_eq!(caller.hear(&mut house), json!({"ok": {"status": "idle"}}));
    assert_eq!(house.replies(0), ["first", "second"]);
}

#[test]
fn a_wait_for_one_who_is_interrupted_tells_so() {
    let mut house = serve(Plan::default());
    house.say(0, "!hang");
    let (mut waiting, mut other) = (Caller::knock(&house), Caller::knock(&house));
    waiting.ask("wait", json!({"who": "0"}));
    other.done(&mut house, "interrupt", json!({"who": "0"}));
    assert_eq!(waiting.hear(&mut house), json!({"ok": {"status": "interrupted"}}));
}

#[test]
fn a_wait_for_one_who_dies_or_is_dead_tells_so() {
    let mut house = serve(Plan::default());
    house.ask(0, Change::Fork { prompt: None, name: Some("mortal".into()), model: None });
    let id = house.id(1);
    house.say(1, "!hang");
    let mut caller = Caller::knock(&house);
    caller.ask("wait", json!({"who": "mortal"}));
    house.turn();
    house.ask(0, Change::Kill { who: id, cascade: false });
    assert_eq!(caller.hear(&mut house), json!({"ok": {"status": "dead"}}));
    let dead = caller.done(&mut house, "wait", json!({"who": id.to_string()}));
    assert_eq!(dead, json!({"status": "dead"}));
    let (kind, words) = caller.refused(&mut house, "wait", json!({"who": "nobody"}));
    assert!(kind == "usage" && words.contains("nobody"), "{words}");
}

#[test]
fn a_wait_that_takes_too_long_is_told_what_the_agent_does_and_the_agent_goes_on() {
    let mut house = serve(Plan::default());
    house.say(0, "!hang");
    house.turn();
    let mut caller = Caller::knock(&house);
    caller.ask("wait", json!({"who": "0", "seconds": 2.5}));
    house.turn_until("it is heard", |house| house.timeout().why == Why::Client);
    assert_eq!(house.timeout().after, Some(Duration::from_millis(2_500)));
    house.advance(Duration::from_millis(2_499));
    assert_eq!(caller.heard(), None);
    house.advance(Duration::from_millis(1));
    let (kind, words) = refusal(&caller.hear(&mut house));
    assert_eq!((kind.as_str(), words.as_str()), ("timeout", "the time is over: agent 0 is running, 0 queued"));
    assert_eq!(house.repl.roster().busy().len(), 1);
    let (kind, _) = caller.refused(&mut house, "wait", json!({"who": "0", "seconds": 0}));
    assert_eq!(kind, "timeout");
    // More than can be counted is as good as for ever.
    caller.ask("wait", json!({"who": "0", "seconds": 1e300}));
    house.turn();
    house.advance(Duration::from_secs(1_000_000));
    assert_eq!(caller.heard(), None);
}

#[test]
fn who_waits_and_leaves_is_forgotten() {
    let mut house = serve(Plan::default());
    house.say(0, "!hang");
    let mut caller = Caller::knock(&house);
    caller.ask("wait", json!({"who": "0", "seconds": 1}));
    house.turn_until("it is heard", |house| house.timeout().why == Why::Client);
    drop(caller);
    turn_until_alone(&mut house);
    assert_ne!(house.timeout().why, Why::Client);
}
