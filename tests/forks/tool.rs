//! The `fork` tool: what its children inherit, when they start, and the result of a call that fails.

use polylogue::config::Rules;
use serde_json::json;

use super::{calls, shared};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{
    accept_by_text, app, assert_shows, assert_valid, bash, converse, reply_with_calls, results_in, results_then,
    texts_in, turn_a_while,
};

fn fork_call(name: &str, prompt: &str) -> String {
    json!({"name": name, "prompt": prompt}).to_string()
}

#[test]
fn a_fork_tool_in_the_first_turn_of_all_inherits_nothing_also_after_a_restart() {
    let peer = Peer::start();
    let mut app = app(&peer);
    calls(&mut app, &peer, 0, &[("fork", &fork_call("scout", "look around"))]);
    let [_, child] = accept_by_text(&mut app, &peer, ["do it", "look around"]);
    assert_eq!(texts_in(&child.request().body), ["look around"]);
    let mut app = app.crash_and_restart();
    let scout = app.n("scout");
    assert_eq!(texts_in(&converse(&mut app, &peer, scout, "again", "yes")), ["look around\n\nagain"]);
}

#[test]
fn a_fork_call_is_shown_after_a_restart_as_it_was_before() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let arguments = json!({"name": "scout", "task": "look around"}).to_string();
    calls(&mut app, &peer, 0, &[("fork", &arguments)]);
    accept_by_text(&mut app, &peer, ["do it", "look around"]);
    assert_shows(&mut app, "fork scout: look around");
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "fork scout: look around");
    assert!(!app.screen_text().contains('{'), "{}", app.screen_text());
}

#[test]
fn a_fork_call_beside_other_calls_starts_the_child_at_once_with_no_open_call() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "an old question", "an old reply");
    std::fs::write(app.directory().join("file"), "its content").expect("a file");
    let (read, fork) = (json!({"path": "file"}).to_string(), fork_call("scout", "look around"));
    calls(&mut app, &peer, 0, &[("read_file", &read), ("fork", &fork), ("bash", &bash("echo done"))]);
    let child = app.accept(&peer);
    app.turn_until_asked(0);
    assert_eq!(app.state(0), State::AwaitingApproval, "the child has not waited for the person");
    assert_eq!(texts_in(&child.request().body), ["an old question", "an old reply", "look around"]);
    app.answer(0, true);
    let results = results_then(&mut app, &peer, 0, "all done");
    assert!(results[0].contains("its content") && results[2].contains("done"), "{results:?}");
    let forked = serde_json::from_str::<serde_json::Value>(&results[1]).expect("JSON");
    let scout = app.id(app.n("scout")).to_string();
    assert_eq!((forked["id"].as_str(), forked["name"].as_str()), (Some(scout.as_str()), Some("scout")));
}

/// Three children of one reply, and the parent's own next request.
fn three_at_once(app: &mut Harness, peer: &Peer) -> [Exchange; 4] {
    let wanted = ["a", "b", "c"].map(|name| fork_call(name, &format!("task {name}")));
    let calls_wanted: Vec<(&str, &str)> = wanted.iter().map(|arguments| ("fork", arguments.as_str())).collect();
    calls(app, peer, 0, &calls_wanted);
    accept_by_text(app, peer, ["task a", "task b", "task c", "do it"])
}

#[test]
fn three_fork_calls_of_one_reply_are_carried_out_in_order_and_each_child_knows_what_was_before_the_order() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "an old question", "an old reply");
    let before = app.focus();
    let [a, b, c, parent] = three_at_once(&mut app, &peer);
    assert_eq!(["a", "b", "c"].map(|name| app.n(name)), [1, 2, 3], "in the order of the calls");
    assert_eq!(app.focus(), before, "a tool leaves the screen alone");
    for (child, task) in [(a, "task a"), (b, "task b"), (c, "task c")] {
        assert_valid(&child.request().json());
        assert_eq!(texts_in(&child.request().body), ["an old question", "an old reply", task]);
        child.stream().text(task).finish("stop").done();
    }
    assert_valid(&parent.request().json());
    let results = results_in(&parent.request().json());
    assert_eq!(results.len(), 3);
    assert!(results.iter().zip(["a", "b", "c"]).all(|((_, converse), name)| converse.contains(&format!("\"{name}\""))));
    parent.stream().text("all started").finish("stop").done();
    app.turn_until_idle();

    let mut app = app.crash_and_restart();
    for (name, task) in [("a", "task a"), ("c", "task c")] {
        let n = app.n(name);
        let body = converse(&mut app, &peer, n, "and?", "well");
        assert_eq!(texts_in(&body), ["an old question", "an old reply", task, task, "and?"]);
    }
}

#[test]
fn a_fork_tool_behind_a_persons_fork_in_the_same_turn_still_inherits_only_what_was_before_the_turn() {
    let peer = Peer::start();
    let mut app = app(&peer);
    converse(&mut app, &peer, 0, "an old question", "an old reply");
    app.say(0, "the open question");
    let open = app.accept(&peer);
    app.enter("/fork --name by-person");
    reply_with_calls(&open, &[("fork", &fork_call("by-model", "look around"))]);
    let [parent, child] = accept_by_text(&mut app, &peer, ["the open question", "look around"]);
    assert_eq!(texts_in(&child.request().body), ["an old question", "an old reply", "look around"]);
    assert_valid(&parent.request().json());
    child.stream().text("looked").finish("stop").done();
    parent.stream().text("done").finish("stop").done();
    app.turn_until_idle();
    let live = converse(&mut app, &peer, 0, "and now?", "well");
    let mut app = app.crash_and_restart();
    let again = converse(&mut app, &peer, 0, "and then?", "well");
    assert!(again.starts_with(&live[..shared(&live, &again)]) && texts_in(&again).len() == texts_in(&live).len() + 2);
}

#[test]
fn a_fork_call_that_fails_is_answered_with_the_reason_and_creates_no_agent() {
    let peer = Peer::start();
    let rules = Rules { allow: vec!["fork(nowhere/*)".parse().expect("a rule")], ..Rules::default() };
    let mut app = Harness::new(Plan { real_time: true, rules, ..Plan::peer(&peer.url()) });
    app.fork_named(0, "scout");
    let no_model = json!({"prompt": "go", "model": "nowhere/x"}).to_string();
    let wanted = [
        (fork_call("scout", "go"), "another running agent is called `scout`"),
        (no_model, "unknown provider"),
        (fork_call("12", "go"), "invalid name"),
        (fork_call("fine", " "), "`prompt` must not be empty"),
        (json!({"name": "fine"}).to_string(), "prompt"),
    ];
    let listed: Vec<(&str, &str)> = wanted.iter().map(|(arguments, _)| ("fork", arguments.as_str())).collect();
    calls(&mut app, &peer, 0, &listed);
    let results = results_then(&mut app, &peer, 0, "a pity");
    for (converse, (arguments, expected)) in results.iter().zip(&wanted) {
        assert!(converse.contains(expected), "{arguments}: {converse}");
    }
    assert_eq!((results.len(), app.repl.roster().len()), (wanted.len(), 2));
    assert!(app.tool_results(0).iter().all(|result| result.is_error));
}

#[test]
fn a_fork_to_another_provider_asks_before_the_conversation_goes_there() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let elsewhere = json!({"prompt": "go", "model": "nowhere/x"}).to_string();
    calls(&mut app, &peer, 0, &[("fork", &elsewhere)]);
    app.turn_until_asked(0);
    app.answer(0, false);
    let results = results_then(&mut app, &peer, 0, "a pity");
    assert!(results[0].contains("denied"), "{results:?}");
    assert_eq!(app.repl.roster().len(), 1);
}

#[test]
fn a_name_may_be_taken_by_the_first_of_two_fork_calls_of_one_reply() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let (first, second) = (fork_call("scout", "task one"), fork_call("scout", "task two"));
    calls(&mut app, &peer, 0, &[("fork", &first), ("fork", &second)]);
    let [_child, parent] = accept_by_text(&mut app, &peer, ["task one", "do it"]);
    let results = results_in(&parent.request().json());
    assert!(results[1].1.contains("another running agent is called"), "{results:?}");
    assert_eq!(app.repl.roster().len(), 2);
}

#[test]
fn children_of_the_fork_tool_wait_for_a_slot_like_other_agents() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { real_time: true, working_limit: 1, ..Plan::peer(&peer.url()) });
    calls(&mut app, &peer, 0, &[("fork", &fork_call("a", "task a")), ("fork", &fork_call("b", "task b"))]);
    for task in ["task a", "task b", "do it"] {
        let one = app.accept(&peer);
        assert_eq!(texts_in(&one.request().body)[0], task);
        turn_a_while(&mut app);
        assert!(peer.try_accept().is_none(), "one slot, one request");
        one.stream().text("done").finish("stop").done();
    }
    app.turn_until_idle();
}
