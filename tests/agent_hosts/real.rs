//! This program as a host of itself: a conversation, a fork, a restart.

use super::*;

/// This program's server for editors, with the built-in model.
pub fn host() -> AgentHost {
    let data = TempDir::new().expect("a directory").keep();
    let words = [
        env!("CARGO_BIN_EXE_polylogue"),
        "acp",
        "--model",
        "echo",
        "--data-dir",
        data.to_str().expect("UTF-8"),
        "--dangerously-no-sandbox",
    ];
    AgentHost {
        name: "self".into(),
        command: words.map(str::to_owned).into(),
        write: vec![data],
        ..AgentHost::default()
    }
}

fn converse(app: &mut Harness, text: &str) -> String {
    app.say(0, text);
    app.turn_until_idle();
    app.replies(0).pop().expect("a reply")
}

fn plan() -> Plan {
    Plan { has_sandbox: false, ..super::plan(host()) }
}

#[test]
fn a_session_remembers_the_conversation_also_after_a_restart() {
    let mut app = app(plan());
    assert_eq!(converse(&mut app, "one"), "one", "the host gets the message alone");
    assert_eq!(converse(&mut app, "two"), "two", "and no transcript of what it knows");
    let mut app = app.crash_and_restart();
    assert_eq!(converse(&mut app, "three"), "three", "the session was loaded");
}

#[test]
fn what_others_have_written_is_told() {
    let mut app = app(plan());
    assert_eq!(converse(&mut app, "one"), "one");
    app.enter("/model echo/echo");
    assert_eq!(converse(&mut app, "two"), "two");
    app.enter("/model acp/self");
    let told = converse(&mut app, "three");
    assert!(told.contains("<user>\ntwo\n</user>\n<assistant>\ntwo\n</assistant>") && told.ends_with("three"), "{told}");
    assert!(!told.contains("<user>\none"), "{told}");
}

#[test]
fn a_fork_and_a_cleared_conversation_have_sessions_of_their_own() {
    let mut app = app(plan());
    converse(&mut app, "one");
    let child = app.fork_named(0, "child");
    app.say(child, "two");
    app.turn_until_idle();
    let told = app.replies(child).pop().expect("a reply");
    assert!(told.contains("<user>\none\n</user>") && told.ends_with("two"), "{told}");
    assert_eq!(converse(&mut app, "three"), "three", "the parent's session goes on");
    app.switch(0);
    app.enter_and_confirm("/clear");
    assert_eq!(converse(&mut app, "four"), "four");
}

#[test]
fn a_call_runs_once_it_is_allowed_and_not_if_it_is_refused() {
    let mut app = app(plan());
    for (key, file, is_made) in [(b"y", "yes.txt", true), (b"n", "no.txt", false)] {
        app.enter(&format!("%tool bash {{\"command\":\"touch {file}\"}}"));
        app.turn_until_asked(0);
        assert!(app.screen_text().contains(&format!("touch {file}")), "{}", app.screen_text());
        app.press_at_question(key);
        app.turn_until_idle();
        assert_eq!(app.directory().join(file).exists(), is_made, "{}", app.screen_text());
    }
}

#[test]
fn an_edit_is_shown_as_a_diff_before_it_is_made() {
    let mut app = app(plan());
    std::fs::write(app.directory().join("a.txt"), "old\n").expect("a file");
    app.say(0, "%tool read_file {\"file_path\":\"a.txt\"}\n%next\n%tool edit_file {\"file_path\":\"a.txt\",\"old_string\":\"old\",\"new_string\":\"new\"}");
    app.turn_until_asked(0);
    let screen = app.screen_text();
    assert!(screen.contains("-old") && screen.contains("+new"), "{screen}");
    app.press_at_question(b"y");
    app.turn_until_idle();
    assert_eq!(std::fs::read_to_string(app.directory().join("a.txt")).expect("a file"), "new\n");
}
