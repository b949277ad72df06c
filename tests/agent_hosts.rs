//! Other agent programs as models: this program's own server of the protocol, and scripted ones.

use std::time::Duration;

use polylogue::config::{AgentHost, Endpoint, Policy, ProviderEntry, Rules};
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::internals::{Body, State};
use crate::support::write_executable;

mod faults;
mod files;
mod mcp_server;
mod real;
mod sandbox;
mod session;
mod tools;

/// The program of a scripted host, in this workspace.
const PROGRAM: &str = "host.sh";

/// A host with the name of its behaviour.
fn scripted(behaviour: &str) -> AgentHost {
    let command = ["sh", "-c", &format!("exec ./{PROGRAM} {behaviour}")].map(str::to_owned).into();
    AgentHost { name: behaviour.into(), command, ..AgentHost::default() }
}

/// Agents whose model is this host.
fn plan(host: AgentHost) -> Plan {
    let model = Endpoint { provider: "acp".into(), ..endpoint("acp", &host.name, "") };
    let providers = vec![ProviderEntry {
        name: "echo".into(),
        kind: "echo".into(),
        models: vec![("echo".into(), Default::default())],
        ..ProviderEntry::default()
    }];
    Plan { endpoint: model, hosts: vec![host], providers, real_time: true, ..Plan::default() }
}

fn app_of(behaviour: &str) -> Harness {
    app(plan(scripted(behaviour)))
}

fn app(plan: Plan) -> Harness {
    let app = Harness::new(plan);
    write_executable(&app.directory().join(PROGRAM), include_bytes!("agent_hosts/host.sh"));
    app
}

/// The calls of an agent and their results, in the order of the log.
fn calls(app: &Harness) -> Vec<String> {
    let told = |body: &Body| match body {
        Body::ToolCall(call) => Some(format!("{} {}", call.id, call.name)),
        Body::ToolResult(result) => Some(format!("{} = {}", result.call_id, result.content.trim())),
        _ => None,
    };
    app.log(0).iter().filter_map(|message| told(&message.body)).collect()
}

#[test]
fn calls_beside_each_other_are_shown_asked_about_and_answered_as_they_come() {
    let mut app = app_of("parallel");
    app.enter("go");
    app.turn_until_asked(0);
    let screen = app.screen_text();
    assert!(screen.contains("touch two"), "{screen}");
    assert!(!screen.contains("Between"), "the reply goes on after its calls: {screen}");
    app.press_at_question(b"y");
    app.turn_until_idle();
    let plan_result = "plan-1-1 = [x] look\n[>] go";
    assert_eq!(
        calls(&app),
        ["one bash", "two bash", "plan-1-1 todo", "one = one", "two = two: yes", plan_result],
        "{}",
        app.screen_text()
    );
    assert_eq!(app.replies(0), ["I begin. ", "Between. The end."]);
    assert_eq!(app.agent(0).used.tokens(), 10);
}

#[test]
fn a_question_that_no_tool_of_ours_corresponds_to_is_asked_by_its_title() {
    for (key, answered) in [(b"y", "yes"), (b"n", "no")] {
        let mut app = app_of("asks");
        app.enter("go");
        app.turn_until_asked(0);
        let screen = app.screen_text();
        assert!(screen.contains("Open the door") && screen.contains("left"), "{screen}");
        app.press_at_question(key);
        app.turn_until_idle();
        assert_eq!(app.replies(0).last(), Some(&format!("door: {answered}")));
    }
}

#[test]
fn policies_and_rules_answer_a_host() {
    let rules = |allow: &[&str], deny: &[&str]| {
        let parse = |rules: &[&str]| rules.iter().map(|rule| rule.parse().expect("a rule")).collect();
        Rules { allow: parse(allow), deny: parse(deny), ..Rules::default() }
    };
    for (behaviour, policy, rules, expected) in [
        ("parallel", Policy::Yolo, rules(&[], &[]), "two = two: yes"),
        ("parallel", Policy::Never, rules(&[], &[]), "two = two: no"),
        ("parallel", Policy::Plan, rules(&[], &[]), "two = two: no"),
        ("parallel", Policy::Ask, rules(&["bash(touch *)"], &[]), "two = two: yes"),
        ("parallel", Policy::Yolo, rules(&[], &["bash(touch *)"]), "two = two: no"),
        ("files", Policy::Yolo, rules(&[], &[]), "both = yes"),
        ("files", Policy::Yolo, rules(&[], &["edit(secret/**)"]), "both = no"),
        ("asks", Policy::Yolo, rules(&[], &[]), "other = yes"),
        ("asks", Policy::Never, rules(&[], &[]), "other = no"),
        ("asks", Policy::Plan, rules(&[], &[]), "other = no"),
    ] {
        let mut app = app(Plan { policy, rules, ..plan(scripted(behaviour)) });
        app.enter("go");
        app.turn_until_idle();
        assert!(calls(&app).iter().any(|call| call == expected), "{behaviour} {policy}: {:?}", calls(&app));
    }
}

/// Answers the question of the host `asks`, up to its reply.
fn allow_the_door(app: &mut Harness) {
    app.turn_until_asked(0);
    app.press_at_question(b"y");
    app.turn_until_idle();
    assert_eq!(app.replies(0).last().map(String::as_str), Some("door: yes"));
}

#[test]
fn esc_at_a_question_cancels_the_turn_and_the_host() {
    let mut app = app_of("asks");
    app.enter("go");
    app.turn_until_asked(0);
    app.escape();
    app.turn_until_idle();
    app.enter("again");
    allow_the_door(&mut app);
}

#[test]
fn a_message_in_the_same_moment_as_esc_is_answered() {
    let mut app = app_of("asks");
    app.enter("go");
    app.turn_until_asked(0);
    let id = app.id(0);
    app.repl.interrupt(id).expect("it is interrupted");
    app.repl.send(id, "again").expect("a message");
    app.turn_until("another question", |app| app.kinds(0).iter().filter(|kind| **kind == "user").count() == 2);
    allow_the_door(&mut app);
}

#[test]
fn a_cancelled_turn_ends_and_the_next_message_is_answered() {
    let mut app = app_of("waits");
    for count in 1..=2 {
        app.enter("go");
        app.turn_until("the text", |app| app.screen_text().matches("I am here").count() == count);
        app.escape();
        app.turn_until_idle();
    }
    assert_eq!(app.partial_replies(0), ["I am here", "I am here"]);
}

#[test]
fn one_process_serves_all_agents_of_a_directory_and_ends_with_the_last() {
    // The program of this test may be invisible in the sandbox.
    let mut app = app(Plan { has_sandbox: false, ..plan(real::host()) });
    app.enter("one");
    app.turn_until_idle();
    let child = app.fork_named(0, "child");
    app.say(child, "two");
    app.turn_until_idle();
    assert!(app.replies(child).last().is_some_and(|reply| reply.ends_with("two")), "{:?}", app.replies(child));
    app.switch(child);
    let screen = app.screen_text();
    assert!(!screen[screen.find("forked").expect("the fork")..].contains("starting "), "a second process: {screen}");
}
