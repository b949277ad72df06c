//! Hosts that fail, lie, flood or do not end: the agent gets an error, and others are undisturbed.

use super::*;

fn error_of(app: &mut Harness) -> String {
    app.enter("go");
    app.turn_until("an error", |app| app.state(0) == State::Idle && app.kinds(0).contains(&"error"));
    app.last_error(0)
}

#[test]
fn what_a_host_cannot_do_is_said() {
    for (behaviour, expected) in [
        ("old", "old: uses version 0 of the Agent Client Protocol, 1 is needed: update it"),
        ("missing", "missing: ended with exit code 1: cannot find module left-pad"),
        ("dies", "dies: ended with exit code 9: out of memory"),
        (
            "auth",
            "auth: Authentication required: log in with the program itself first, outside of polylogue (run login)",
        ),
    ] {
        let mut app = app_of(behaviour);
        let error = error_of(&mut app);
        assert!(error.starts_with(expected), "{behaviour}: {error}");
    }
}

#[test]
fn a_program_that_is_not_there_is_named_with_how_to_install_it() {
    let missing = AgentHost {
        name: "none".into(),
        command: vec!["no-such-agent".into()],
        install: Some("npm install -g no-such-agent"),
        ..AgentHost::default()
    };
    let error = error_of(&mut app(plan(missing)));
    assert!(error.contains("no-such-agent: it is not in PATH"), "{error}");
    assert!(error.ends_with("install it with npm install -g no-such-agent"), "{error}");
    let mut app = app(plan(scripted("asks")));
    app.enter("/model acp/other");
    let error = error_of(&mut app);
    assert!(
        error.starts_with("unknown host \"other\": add [hosts.other] to config.toml, or use one of asks"),
        "{error}"
    );
}

#[test]
fn a_host_that_has_died_is_started_again_for_the_next_message() {
    let mut app = app_of("dies");
    error_of(&mut app);
    assert_eq!(app.partial_replies(0), ["half"]);
    app.enter("once more");
    app.turn_until("the second end", |app| app.partial_replies(0).len() == 2);
}

#[test]
fn garbage_is_left_out_and_foreign_requests_are_refused() {
    let mut app = app_of("garbage");
    app.enter("go");
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["fine"]);
}

#[test]
fn a_flood_ends_the_host() {
    let error = error_of(&mut app_of("flood"));
    assert!(error.starts_with("flood: said more than 16 MiB in one turn"), "{error}");
}

/// The host does not end the turn that was cancelled.
fn app_with_cancelled_turn() -> Harness {
    let mut app = app(Plan { real_time: false, ..plan(scripted("stubborn")) });
    app.enter("go");
    app.turn_until("the text", |app| app.screen_text().contains("I am here"));
    app.escape();
    app.turn_until_idle();
    app
}

#[test]
fn a_turn_that_is_not_ended_after_esc_ends_the_host() {
    let mut app = app_with_cancelled_turn();
    app.turn();
    app.advance(Duration::from_secs(11));
    app.enter("once more");
    app.turn_until("another process", |app| app.screen_text().matches("I am here").count() == 2);
}

#[test]
fn a_message_that_waits_for_a_turn_that_does_not_end_gets_an_error() {
    let mut app = app_with_cancelled_turn();
    app.enter("once more");
    app.turn();
    app.advance(Duration::from_secs(11));
    app.turn_until("an error", |app| app.kinds(0).contains(&"error"));
    assert_eq!(app.last_error(0), "stubborn: did not stop within 10 s after Esc, and was ended");
}

#[test]
fn a_host_that_does_not_answer_is_given_up() {
    let mut app = app(Plan { real_time: false, ..plan(scripted("mute")) });
    app.enter("go");
    app.turn_until("an error", |app| {
        app.advance(Duration::from_secs(2));
        app.kinds(0).contains(&"error")
    });
    assert_eq!(app.last_error(0), "mute: no answer within 60 s: run its command in a shell to see why");
}
