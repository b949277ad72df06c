//! `/export` to files and `/copy` to the clipboard.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use serde_json::Value;

use crate::support::harness::{Harness, Plan};
use crate::support::scene::{assert_refused, assert_shows};

/// A talk with a call whose result holds a fence.
fn a_talk() -> Harness {
    let mut app = Harness::new(Plan { real_time: true, size: Some((100, 40)), ..Plan::default() });
    app.enter("a question");
    app.turn_until_idle();
    app.enter("%tool bash {\"command\":\"printf '````\\\\nx\\\\n'\"}");
    app.answer(0, true);
    app.turn_until_idle();
    app.enter("/mark here");
    app.enter("/clear");
    app
}

#[test]
fn export_writes_markdown_readable_by_the_owner_and_never_overwrites() {
    let mut app = a_talk();
    app.enter("/export md out.md");
    app.turn_until("the file", |app| app.screen_text().contains("messages to out.md"));
    let file = app.directory().join("out.md");
    let text = std::fs::read_to_string(&file).expect("a file");
    for expected in [
        "# agent 0",
        "## You\n\na question",
        "## echo/echo\n\n",
        "**Call: bash**\n\n`````json\n{",
        "`````\n````\nx\n",
        "*mark here*",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    std::fs::write(&file, "mine").expect("written");
    fails(&mut app, "/export md out.md", "out.md exists: choose another file");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "mine");
    fails(&mut app, "/export md no/such/place.md", "cannot write");
}

/// The error comes from the thread, and the line is there to be edited.
fn fails(app: &mut Harness, line: &str, expected: &str) {
    app.enter(line);
    app.turn_until(expected, |app| app.screen_text().contains(expected));
    assert_eq!(app.draft(0).text(), line);
    app.type_bytes(b"\x15");
}

#[test]
fn the_end_of_the_program_waits_for_an_export() {
    let mut app = a_talk();
    app.enter("/export md out.md");
    app.repl.leave().expect("the program can be left");
    let text = std::fs::read_to_string(app.directory().join("out.md")).expect("a file");
    assert!(text.contains("a question"), "{text}");
}

#[test]
fn export_writes_json_with_every_kind() {
    let mut app = a_talk();
    app.enter("/export json");
    app.turn_until("the file", |app| app.screen_text().contains("messages to agent-0-"));
    let mut files = std::fs::read_dir(app.directory()).expect("a directory").flatten().map(|entry| entry.path());
    let file = files.find(|path| path.extension().is_some_and(|end| end == "json")).expect("a file");
    let whole: Value = serde_json::from_slice(&std::fs::read(file).expect("a file")).expect("JSON");
    let kinds: Vec<&str> =
        whole["messages"].as_array().expect("a list").iter().filter_map(|m| m["kind"].as_str()).collect();
    let expected = ["user", "assistant", "usage", "user", "tool_call", "usage", "tool_result", "assistant", "usage"];
    assert_eq!(kinds, [&expected[..], &["mark", "clear"]].concat());
    assert_eq!(whole["messages"][0]["text"], "a question");
    assert_eq!(whole["messages"][1]["by"], "echo/echo");
}

#[test]
fn a_trajectory_marks_what_a_fork_has_inherited() {
    let mut app = Harness::new(Plan { real_time: true, size: Some((100, 40)), ..Plan::default() });
    app.enter("a question");
    app.turn_until_idle();
    app.enter("/fork look");
    app.turn_until_idle();
    app.enter("/export atif out.json");
    app.turn_until("the file", |app| app.screen_text().contains("messages to out.json"));
    let whole: Value =
        serde_json::from_slice(&std::fs::read(app.directory().join("out.json")).expect("a file")).expect("JSON");
    let steps = whole["steps"].as_array().expect("steps").iter();
    let steps: Vec<(bool, &str)> =
        steps.map(|step| (step["is_copied_context"] == true, step["message"].as_str().unwrap_or_default())).collect();
    let expected =
        [(true, "a question"), (true, "a question"), (false, "forked from agent 0"), (false, "look"), (false, "look")];
    assert_eq!(steps, expected, "{whole:#}");
    assert_eq!(whole["agent"]["extra"]["label"], "agent 1");
}

/// The last text that was copied to the clipboard with an escape sequence.
fn copied(app: &mut Harness) -> String {
    app.screen_text();
    let sent = String::from_utf8_lossy(&app.sent).into_owned();
    let from = sent.rfind("\x1b]52;c;").expect("a clipboard") + "\x1b]52;c;".len();
    let to = sent[from..].find('\x07').expect("an end") + from;
    let bytes = base64::engine::general_purpose::STANDARD.decode(&sent[from..to]).expect("base64");
    String::from_utf8(bytes).expect("a text")
}

#[test]
fn replies_are_copied_by_number_and_code_alone() {
    let mut app = Harness::new(Plan::default());
    for text in ["first ü", "before\n```rust\nlet x;\n```\nafter", "last"] {
        app.enter(text);
        app.turn_until_idle();
    }
    for (line, text) in [("/copy", "last"), ("/copy 3", "first ü"), ("/copy code", "let x;")] {
        app.enter(line);
        assert_eq!(copied(&mut app), text, "{line}");
    }
    assert_shows(&mut app, "copied 6 characters");
    assert_refused(&mut app, "/copy 4", "no such reply to copy");
    assert_refused(&mut app, "/copy 0", "a number from 1");
}

#[test]
fn a_reply_too_large_for_the_terminal_is_refused_with_advice() {
    let mut app = Harness::new(Plan::default());
    app.enter(&format!("%repeat 8\n{}", "x".repeat(10_000)));
    app.turn_until_idle();
    assert_refused(&mut app, "/copy", "too long for the clipboard");
}
