//! Slips of a person: misspelt options and names, and commands that would end or lose something.

use std::time::Duration;

use polylogue::{Change, MailAct};

use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::internals::{Probe, State};
use crate::support::scene::{app_with_agents, assert_shows};

fn refused(app: &mut Harness, line: &str, expected: &str) {
    app.enter(line);
    assert_shows(app, expected);
    let n = app.focus();
    assert_eq!(app.draft(n).text(), line, "the line is kept");
    app.type_bytes(b"\x15");
}

#[test]
fn a_misspelt_option_is_an_error_and_never_a_message() {
    let mut app = app_with_agents(1, Plan::default());
    refused(&mut app, "/fork --naem x", "did you mean --name?");
    refused(&mut app, "/kill --cascad", "did you mean --cascade?");
    refused(&mut app, "/read-mail 99", "no mail with id 99");
    refused(&mut app, "/delete-mail 99", "no mail");
    assert_eq!((app.repl.roster().len(), app.replies(0).len()), (1, 0));
}

#[cfg(feature = "coordinator")]
#[test]
fn team_help_is_help_and_starts_nobody() {
    let mut app = app_with_agents(1, Plan::default());
    app.enter("/team help");
    assert_shows(&mut app, "strategies: sequential, parallel");
    assert_eq!(app.repl.roster().len(), 1);
}

#[test]
fn a_model_without_its_key_is_refused_with_the_way_to_set_it() {
    let key = polylogue::config::ProviderEntry {
        name: "openai".into(),
        kind: "openai".into(),
        base_url: endpoint("openai", "x", "https://api.openai.com/v1").base_url,
        key: None,
        key_variable: Some("OPENAI_API_KEY".into()),
        ..polylogue::config::ProviderEntry::default()
    };
    let mut app = Harness::new(Plan { providers: vec![key], ..Plan::default() });
    refused(&mut app, "/model openai/x", "no key for openai: export OPENAI_API_KEY");
    assert_eq!(app.agent(0).inputs.endpoint.full_name(), "echo/echo");
}

#[test]
fn a_setting_is_confirmed_in_words() {
    let mut app = app_with_agents(1, Plan::default());
    app.enter("/thinking high");
    assert_shows(&mut app, "thinking: high");
    assert!(!app.screen_text().contains("/thinking high"));
}

#[test]
fn an_agent_at_work_is_killed_when_the_line_is_entered_twice_and_the_screen_says_so() {
    let mut app = app_with_agents(3, Plan::default());
    app.say(2, "%hang");
    app.turn();
    app.switch(1);
    refused(&mut app, "/kill 2", "agent 2 is busy: press Enter again to kill");
    app.enter("/kill 2");
    assert_eq!(app.state(2), State::WaitingForLlm, "another line was typed in between");
    for _ in 0..20 {
        app.advance(Duration::from_millis(30));
        app.type_bytes(b"\r");
    }
    assert_eq!(app.state(2), State::WaitingForLlm, "Enter is held");
    app.advance(Duration::from_millis(300));
    app.type_bytes(b"\r");
    assert_eq!(app.repl.roster().len(), 2);
    assert_shows(&mut app, "agent 2 killed");
    app.enter("/kill 1");
    assert_eq!(app.repl.roster().len(), 1, "an idle one is killed at once");
}

#[test]
fn mail_of_an_unnamed_agent_comes_from_its_number() {
    let mut app = app_with_agents(2, Plan::default());
    let to = app.id(0);
    app.ask(1, Change::Mail(MailAct::Send { to, body: "hello".into() }));
    app.switch(0);
    app.enter("/check-mail");
    assert_shows(&mut app, "unread from agent 1: hello");
    app.enter("/read-mail");
    assert_shows(&mut app, "message 1 from agent 1:");
}
