//! The path policy as a person meets it: which reads ask, what an answer allows, and what a swap under a question does.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;

/// A script for the model: each of these calls in a reply of its own, then an answer.
fn script(calls: &[(&str, Value)]) -> String {
    let calls: Vec<String> = calls.iter().map(|(tool, arguments)| format!("%tool {tool} {arguments}")).collect();
    format!("{}\n%next\ndone", calls.join("\n%next\n"))
}

fn read(path: impl AsRef<Path>) -> (&'static str, Value) {
    ("read_file", json!({"file_path": path.as_ref()}))
}

/// An agent with the tools that read, bound to a directory, and another directory.
fn app_bound_to_a_directory() -> (Harness, TempDir) {
    let (mut app, beside) = (Harness::new(Plan { size: Some((120, 40)), ..Plan::default() }), TempDir::new());
    let beside = beside.expect("a directory");
    fs::create_dir_all(app.directory().join("bound")).expect("a directory");
    fs::create_dir_all(beside.path().join("deep")).expect("a directory");
    fs::write(app.directory().join("bound/own"), "this is its own\n").expect("a file");
    for file in ["one", "two", "deep/three"] {
        fs::write(beside.path().join(file), format!("this is {file}\n")).expect("a file");
    }
    app.enter("/env readonly@bound");
    (app, beside)
}

fn contents(app: &Harness, n: usize) -> Vec<String> {
    app.tool_results(n).into_iter().map(|result| result.content).collect()
}

/// `read_file` read what it liked from a "readonly" environment bound to another directory.
#[test]
fn an_agent_bound_to_a_directory_asks_before_it_reads_outside_of_it() {
    let (mut app, beside) = app_bound_to_a_directory();
    app.say(1, &script(&[read("own"), read(beside.path().join("one"))]));
    app.turn_until_asked(1);
    assert_eq!(contents(&app, 1).len(), 1, "its own file was free");
    app.turn();
    let screen = app.screen_text();
    assert!(screen.contains("outside of the workspace") && screen.contains("/one\n"), "{screen}");
    app.press_at_question(b"n");
    app.turn_until_idle();
    assert_eq!(contents(&app, 1)[1], "the user denied this call");
}

#[test]
fn a_directory_is_asked_for_once_and_by_each_agent() {
    let (mut app, beside) = app_bound_to_a_directory();
    let at = |name: &str| beside.path().join(name);
    let search = ("grep", json!({"pattern": "is", "path": beside.path()}));
    app.say(1, &script(&[read(at("one")), read(at("two")), read(at("deep/three")), search]));
    app.answer(1, true);
    app.turn_until_idle();
    let results = contents(&app, 1);
    assert_eq!(results.len(), 4);
    assert!(results[0].contains("is one") && results[2].contains("is deep/three"), "{results:?}");
    let other = app.fork_named(1, "other");
    app.say(other, &script(&[read(at("one"))]));
    app.answer(other, false);
    app.turn_until_idle();
}

#[test]
fn what_does_not_exist_or_is_denied_is_not_asked_for() {
    let (mut app, beside) = app_bound_to_a_directory();
    let database = app.data().join("polylogue.db");
    app.say(1, &script(&[read(beside.path().join("none")), read(&database), read("/proc/self/environ")]));
    app.turn_until_idle();
    let results = contents(&app, 1);
    assert!(results[0].ends_with("/none: does not exist"), "{results:?}");
    assert!(results[1].contains("access denied: data and configuration of polylogue"), "{results:?}");
    assert!(results[2].contains("access denied"), "{results:?}");
}

/// The directory of an open question became a link to another one, and the write went there.
#[test]
fn a_swap_under_a_question_is_a_new_question() {
    let mut app = Harness::new(Plan { size: Some((120, 40)), ..Plan::default() });
    let at = |app: &Harness, name: &str| app.directory().join(name);
    for directory in ["docs", "other"] {
        fs::create_dir(at(&app, directory)).expect("a directory");
    }
    app.say(0, &script(&[("write_file", json!({"file_path": "docs/x", "content": "text"}))]));
    let first = app.turn_until_asked(0);
    fs::rename(at(&app, "docs"), at(&app, "gone")).expect("a name");
    symlink("other", at(&app, "docs")).expect("a link");
    app.press_at_question(b"y");
    assert_eq!(app.state(0), State::AwaitingApproval);
    let second = app.turn_until_asked(0);
    assert!(second > first);
    app.turn();
    let screen = app.screen_text();
    assert!(screen.contains("other/x: new") && screen.contains("this is a new question"), "{screen}");
    assert!(!at(&app, "other/x").exists() && !at(&app, "gone/x").exists());
    app.press_at_question(b"y");
    app.turn_until_idle();
    assert_eq!(fs::read_to_string(at(&app, "other/x")).expect("it was allowed"), "text");
}

#[test]
fn a_file_that_appears_under_a_question_is_shown_before_it_is_overwritten() {
    let mut app = Harness::new(Plan { size: Some((120, 40)), ..Plan::default() });
    app.say(0, &script(&[("write_file", json!({"file_path": "x", "content": "text"}))]));
    app.turn_until_asked(0);
    fs::write(app.directory().join("x"), "precious\n").expect("a file");
    app.press_at_question(b"y");
    app.turn();
    assert!(app.screen_text().contains("-precious"), "{}", app.screen_text());
    app.press_at_question(b"n");
    app.turn_until_idle();
    assert_eq!(fs::read_to_string(app.directory().join("x")).expect("a file"), "precious\n");
}
