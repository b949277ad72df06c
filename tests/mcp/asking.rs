//! Questions of servers to the person.

use polylogue::config::{Policy, Rules};
use polylogue::{Change, Decision};

use super::{app_under, app_with, in_one_line, result_of, server};
use crate::support::harness::Harness;
use crate::support::peer::Peer;
use crate::support::scene::{reply_with_calls, results_in};

/// Has the model call the tool of this server, up to the server's question.
fn ask(app: &mut Harness, peer: &Peer, behaviour: &str) -> String {
    app.enter("do it");
    reply_with_calls(&app.accept(peer), &[(&format!("mcp__{behaviour}__first"), "{}")]);
    app.turn_until_asked(0);
    in_one_line(&app.screen_text())
}

fn result(app: &mut Harness, peer: &Peer) -> String {
    let next = app.accept(peer);
    next.stream().text("done").finish("stop").done();
    app.turn_until_idle();
    results_in(&next.request().json()).last().expect("a result").1.clone()
}

#[test]
fn a_form_is_shown_with_its_types_edited_and_sent_only_when_it_is_complete() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("elicits")]);
    let shown = ask(&mut app, &peer, "elicits");
    for part in
        ["the MCP server elicits asks you", "Who are you?", "age = 30 (a whole number)", "name = (text, required)"]
    {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    app.press_at_question(b"y");
    app.turn_until("it is asked again", |app| app.screen_text().contains("name is required"));
    let number = app.turn_until_asked(0);
    let edit = |app: &mut Harness, text: &str| {
        let change = Change::Answer { question: number_of(app), decision: Decision::Edit(text.into()) };
        app.repl.apply(app.id(0), change)
    };
    assert!(edit(&mut app, "age = old").unwrap_err().message.contains("age: expected a whole number"));
    edit(&mut app, "age = 36\nname = Ada").expect("an edit");
    let shown = in_one_line(&app.screen_text());
    assert!(shown.contains("name = Ada") && shown.contains("age = 36"), "{shown}");
    assert!(number_of(&app) > number, "it is a new question");
    app.press_at_question(b"y");
    assert_eq!(result(&mut app, &peer), "hello Ada");
    ask(&mut app, &peer, "elicits");
    app.press_at_question(b"n");
    assert_eq!(result(&mut app, &peer), "declined");
}

fn number_of(app: &Harness) -> u64 {
    app.agent(0).question().expect("a question").number
}

#[test]
fn a_url_is_shown_whole_and_only_the_person_opens_it() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("opens")]);
    let shown = ask(&mut app, &peer, "opens");
    for part in ["opens asks you to open a URL", "https://example.org/login?session=1", "polylogue does not open it"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    app.press_at_question(b"y");
    assert_eq!(result(&mut app, &peer), "opened");
}

#[test]
fn where_nobody_may_be_asked_the_answer_is_no() {
    let peer = Peer::start();
    let rules = || Rules { allow: vec!["mcp(*)".parse().expect("a rule")], ..Rules::default() };
    let mut never = app_under(&peer, vec![server("elicits")], rules(), Policy::Never);
    assert_eq!(result_of(&mut never, &peer, "mcp__elicits__first"), "declined");
}

#[test]
fn answers_go_back_with_the_state_of_the_server_one_after_the_other() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("requires")]);
    assert!(ask(&mut app, &peer, "requires").contains("One?"));
    app.press_at_question(b"y");
    app.turn_until("the second question", |app| app.screen_text().contains("Two?"));
    app.press_at_question(b"n");
    assert_eq!(result(&mut app, &peer), "both");
}

#[test]
fn a_server_that_ends_closes_its_question() {
    let peer = Peer::start();
    let mut app = app_with(&peer, vec![server("leaves")]);
    ask(&mut app, &peer, "leaves");
    std::fs::write(app.directory().join("leave"), "").expect("a file");
    assert!(result(&mut app, &peer).contains("ended with exit code 7"));
    assert!(app.agent(0).question().is_none());
}
