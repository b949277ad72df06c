//! What a session of a host is given, and what it offers.

use super::*;
use crate::support::scene::assert_shows;

#[test]
fn a_host_gets_images_if_it_takes_them_and_otherwise_the_person_is_told() {
    for (behaviour, expected) in [("sees", "blocks: text image text of png"), ("blind", "blocks: text text")] {
        let mut app = app_of(behaviour);
        std::fs::write(app.directory().join("shot.png"), b"\x89PNG\r\n\x1a\n not a whole one").expect("a file");
        app.enter("see @shot.png please");
        app.turn_until("the reply", |app| !app.replies(0).is_empty());
        app.turn_until_idle();
        assert_eq!(app.replies(0), [expected], "{}", app.screen_text());
        let is_told = app.screen_text().contains("blind: shot.png was not sent");
        assert_eq!(is_told, behaviour == "blind", "{}", app.screen_text());
    }
}

#[test]
fn the_commands_of_a_host_are_completed_and_sent_to_it() {
    let mut app = app_of("commands");
    app.enter("/polish a.txt");
    assert_shows(&mut app, "unknown command /polish");
    app.type_bytes(b"\x15");
    app.enter("go");
    app.turn_until_idle();
    app.type_bytes(b"/pol");
    assert_shows(&mut app, "Polish the text");
    app.type_bytes(b"\x15");
    app.enter("/polish a.txt");
    app.turn_until("the reply", |app| app.replies(0).len() == 2);
    assert_eq!(app.replies(0)[1], "got /polish a.txt", "as it was typed");
    app.turn_until_idle();
    app.type_bytes(b"/hel");
    assert!(!app.screen_text().contains("Not this one"), "/help is that of the chat: {}", app.screen_text());
    app.type_bytes(b"\x15");
    app.enter("/model echo/echo");
    app.enter("/polish a.txt");
    assert_shows(&mut app, "unknown command /polish");
}

#[test]
fn a_host_plans_while_its_agent_may_only_read() {
    let mut app = app(Plan { policy: Policy::Plan, ..plan(scripted("modes")) });
    app.enter("go");
    app.turn_until_idle();
    app.enter("/approval ask");
    app.enter("again");
    app.turn_until("the second reply", |app| app.replies(0).len() == 2);
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["mode: plan", "mode: ask"], "a session that is loaded was left in its mode");
}

#[test]
fn a_host_thinks_as_much_as_its_agent_and_is_asked_once_for_what_it_has_not() {
    let mut app = app_of("thinks");
    for (line, count) in
        [("one", 1), ("/thinking high", 1), ("two", 2), ("/thinking low", 2), ("three", 3), ("four", 4)]
    {
        app.enter(line);
        app.turn_until("the reply", |app| app.replies(0).len() == count);
        app.turn_until_idle();
    }
    app.enter("/thinking default");
    app.enter("five");
    app.turn_until("the reply", |app| app.replies(0).len() == 5);
    let thinks = |level: &str| format!("thinks: {level}");
    assert_eq!(app.replies(0), ["default", "high", "high", "high", "default"].map(thinks));
    let notes = app.screen_text().matches("thinks: has no thinking level low: use one of default, high").count();
    assert_eq!(notes, 1, "{}", app.screen_text());
}
