//! Answers to a question that are typed: the reason of a refusal, another command, other rules.

use polylogue::config::Rules;
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::Peer;
use crate::support::scene::{reply_with_calls, results_in};

/// Agent 0 asks whether it may run a command; the rules refuse `forbidden`.
fn asked(peer: &Peer, command: &str) -> Harness {
    let deny = vec!["bash(forbidden*)".parse().expect("a rule")];
    let rules = Rules { deny, ..Rules::default() };
    let mut app = Harness::new(Plan { real_time: true, rules, ..Plan::peer(&peer.url()) });
    app.enter("do it");
    let call = json!({ "command": command }).to_string();
    reply_with_calls(&app.accept(peer), &[("bash", &call)]);
    app.turn_until_asked(0);
    app
}

/// What the model is told about its only call.
fn result(app: &mut Harness, peer: &Peer) -> String {
    let exchange = app.accept(peer);
    let results = results_in(&exchange.request().json());
    exchange.stream().text("that was it").finish("stop").done();
    app.turn_until_idle();
    results.last().expect("a result").1.clone()
}

fn ran(app: &Harness) -> Option<String> {
    std::fs::read_to_string(app.directory().join("ran")).ok()
}

#[test]
fn r_refuses_with_what_is_typed_then_also_over_a_resize() {
    let peer = Peer::start();
    let mut app = asked(&peer, "echo one > ran");
    app.press_at_question(b"r");
    assert_eq!(app.draft(0).text(), "");
    assert!(app.screen_text().contains("type the reason, then Enter to refuse it"), "{}", app.screen_text());
    app.type_bytes(b"/yes, not");
    app.resize((60, 30));
    app.type_bytes(b" yet\r");
    assert!(result(&mut app, &peer).contains("the user denied this call: /yes, not yet"));
    assert_eq!((ran(&app), app.draft(0).text()), (None, ""));
}

#[test]
fn esc_goes_back_to_the_question_and_alt_r_takes_the_draft_as_the_reason() {
    let peer = Peer::start();
    let mut app = asked(&peer, "echo one > ran");
    app.press_at_question(b"r");
    app.type_bytes(b"\r");
    assert_eq!(app.state(0), State::AwaitingApproval, "there is no reason yet");
    app.type_bytes(b"too early");
    app.escape();
    assert_eq!((app.state(0), app.draft(0).text()), (State::AwaitingApproval, "too early"));
    app.press_at_question(b"\x1br");
    app.type_bytes(b"\r");
    assert!(result(&mut app, &peer).contains("the user denied this call: too early"));
}

#[test]
fn e_changes_the_command_which_is_then_asked_about_and_the_model_is_told() {
    let peer = Peer::start();
    let mut app = asked(&peer, "echo one > ran");
    app.press_at_question(b"e");
    assert_eq!(app.draft(0).text(), "echo one > ran");
    app.type_bytes(b"\x15forbidden thing\r");
    assert_eq!(app.agent(0).question().map(|open| open.number), Some(1), "it is refused by a rule");
    assert!(app.screen_text().contains("bash(forbidden*)"), "{}", app.screen_text());
    assert_eq!(app.draft(0).text(), "forbidden thing", "what was typed is not lost");
    app.type_bytes(b"\x15");
    app.press_at_question(b"e");
    app.type_bytes(b"\x15echo two > ran\r");
    assert_eq!((app.turn_until_asked(0), ran(&app)), (2, None));
    assert!(app.screen_text().contains("Run this? bash: echo two > ran"), "{}", app.screen_text());
    app.press_at_question(b"y");
    let told = result(&mut app, &peer);
    assert_eq!(ran(&app).as_deref(), Some("two\n"));
    assert!(told.contains("[the user changed this call before it ran; it ran as: echo two > ran]"), "{told}");
}

#[test]
fn a_command_that_is_edited_is_asked_about_even_if_it_only_reads() {
    let peer = Peer::start();
    let mut app = asked(&peer, "echo one > ran");
    app.press_at_question(b"e");
    app.type_bytes(b"\x15ls\r");
    assert_eq!(app.turn_until_asked(0), 2);
    app.press_at_question(b"n");
    assert!(result(&mut app, &peer).contains("denied"));
}

#[test]
fn the_text_for_a_file_can_be_edited_and_the_change_is_shown_again() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { real_time: true, ..Plan::peer(&peer.url()) });
    app.enter("write it");
    let call = json!({"file_path": "ran", "content": "one\n"}).to_string();
    reply_with_calls(&app.accept(&peer), &[("write_file", &call)]);
    app.turn_until_asked(0);
    app.press_at_question(b"e");
    assert_eq!(app.draft(0).text(), "one\n");
    app.type_bytes(b"two\r");
    assert_eq!(app.turn_until_asked(0), 2);
    app.press_at_question(b"y");
    result(&mut app, &peer);
    assert_eq!(ran(&app).as_deref(), Some("one\ntwo"));
}

#[test]
fn the_rules_of_always_can_be_edited_before_they_are_given() {
    // Without the grammar of shells no rule is offered for a command.
    if !cfg!(feature = "shell-grammar") {
        return;
    }
    let peer = Peer::start();
    let mut app = asked(&peer, "touch ran");
    app.press_at_question(b"a");
    let shown = app.clock.now() + std::time::Duration::from_millis(300);
    app.turn_until("keys answer", |app| app.clock.now() > shown);
    app.type_bytes(b"e");
    assert!(app.draft(0).text().starts_with("bash("), "{}", app.draft(0).text());
    app.type_bytes(b"\x15bash touch\r");
    assert!(app.screen_text().contains("bash touch"), "{}", app.screen_text());
    app.type_bytes(b"\x15bash(touch *)\r");
    assert_eq!(app.draft(0).text(), "");
    assert!(app.screen_text().contains("  bash(touch *) in sandbox\n"), "{}", app.screen_text());
    let shown = app.clock.now() + std::time::Duration::from_millis(300);
    app.turn_until("keys answer", |app| app.clock.now() > shown);
    app.type_bytes(b"t");
    result(&mut app, &peer);
    assert_eq!(ran(&app).as_deref(), Some(""));
    let rules: Vec<String> = app.agent(0).rules.own.iter().map(|grant| grant.rule.to_string()).collect();
    assert_eq!(rules, ["bash(touch *) in sandbox"]);
}
