//! `/env`: children with other tools in other directories, their system prompts, and a restart.

use std::fs;

use polylogue::Change;
use polylogue::config::EnvironmentEntry;
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;
use crate::support::peer::Peer;
use crate::support::scene::{
    answer_next, app, assert_refused, assert_shows, bash, converse, reply_with_calls, results_then, texts_in,
    turn_a_while,
};

mod conflicts;
mod corpus;
mod elsewhere;
mod land_all;
mod land_crash;
mod landing;
mod remote;
mod review;
pub(crate) mod worktrees;

fn echo() -> Harness {
    Harness::new(Plan { real_time: true, ..Plan::default() })
}

/// The names of the tools in a request.
fn tools_in(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned)).collect()
}

fn instructions_in(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    body["messages"][0]["content"].as_str().expect("instructions").to_owned()
}

fn spec(app: &Harness, n: usize) -> String {
    app.agent(n).inputs.environment.spec.clone()
}

#[test]
fn the_current_environment_and_all_environments_are_listed() {
    let mut app = echo();
    app.enter("/env");
    let directory = fs::canonicalize(app.directory()).expect("a directory").display().to_string();
    for expected in
        ["environment  coding", &format!("directory    {directory}"), "bash, bash_output, bash_kill, read_file"]
    {
        assert_shows(&mut app, expected);
    }
    app.enter("/env list");
    for expected in ["none         no tools", "worktree     coding in its own git worktree", "readonly+bash@../other"] {
        assert_shows(&mut app, expected);
    }
    app.resize((80, 60));
    app.enter("/tools");
    for expected in
        ["bash        asks first    Runs a bash command", "grep        runs at once  Searches files for lines"]
    {
        assert_shows(&mut app, expected);
    }
}

#[test]
fn a_child_in_another_environment_shares_the_conversation_and_has_other_tools() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let before = converse(&mut app, &peer, 0, "hello", "hi");
    assert_eq!(tools_in(&before).len(), 18 + usize::from(cfg!(feature = "web-fetch")));
    app.enter("/env readonly+bash");
    assert_eq!((app.repl.roster().len(), app.focus()), (2, 1));
    assert_shows(&mut app, "environment readonly+bash: 13 tools in ");
    let body = converse(&mut app, &peer, 1, "and now?", "well");
    assert_eq!(texts_in(&body), ["hello", "hi", "and now?"]);
    let tools = tools_in(&body);
    assert!(tools.contains(&"grep".to_owned()) && tools.contains(&"bash".to_owned()));
    assert!(!tools.contains(&"write_file".to_owned()) && !instructions_in(&body).contains("edit_file"));
    assert_eq!(tools_in(&converse(&mut app, &peer, 0, "and you?", "well")), tools_in(&before));
}

#[test]
fn an_agent_without_tools_declares_none() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/env none");
    let body = converse(&mut app, &peer, 1, "hello", "hi");
    assert!(tools_in(&body).is_empty() && instructions_in(&body).contains("You have no tools."));
    app.enter("/tools");
    assert_shows(&mut app, "this agent has no tools");
}

#[test]
fn a_call_of_an_unknown_tool_lists_the_known_ones() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/env glob+grep");
    app.say(1, "do it");
    let exchange = app.accept(&peer);
    reply_with_calls(&exchange, &[("bash", &bash("echo no")), ("agents", "{}"), ("dig", "{}")]);
    let results = results_then(&mut app, &peer, 1, "a pity");
    assert_eq!(results[0], "tool \"bash\" is not available in this environment; available tools: glob, grep");
    assert_eq!(results[1], "tool \"agents\" is not available in this environment; available tools: glob, grep");
    assert_eq!(results[2], "unknown tool \"dig\"; available tools: glob, grep");
}

#[test]
fn setting_the_same_environment_changes_nothing_and_reports_that() {
    let mut app = echo();
    for line in ["/env coding", "/env coding@."] {
        app.enter(line);
        assert_shows(&mut app, "this agent is already in coding");
    }
    assert_eq!(app.repl.roster().len(), 1);
}

#[test]
fn invalid_environments_are_refused_without_effect() {
    let mut app = echo();
    for (line, expected) in [
        ("/env readonly+coding", "both provide fork: omit readonly"),
        ("/env coding+", "character 8: name of an environment"),
        ("/env bsh", "unknown environment or tool \"bsh\""),
        ("/env chat@nowhere", "nowhere: no such directory"),
        ("/env worktree", "is not in a git repository"),
    ] {
        if line == "/env worktree" {
            app.enter(line);
            app.turn_until("the text", |app| app.screen_text().contains(expected));
        } else {
            assert_refused(&mut app, line, expected);
        }
    }
    assert_eq!(app.repl.roster().len(), 1);
}

#[test]
fn names_are_completed_after_every_plus() {
    let mut app = echo();
    app.type_bytes(b"/env reado\t");
    assert_eq!(app.draft(0).text(), "/env readonly");
    app.type_bytes(b"+ba\t");
    assert_eq!(app.draft(0).text(), "/env readonly+bash");
}

#[test]
fn tools_work_in_the_given_directory_and_its_instructions_are_sent() {
    let peer = Peer::start();
    // Of the text below.
    let digest = "099d8fe8641adc60bb870214d1b90f754c631f354e450fad727a9e4495329d96";
    let trusted_instructions = [digest.to_owned()].into();
    let mut app = Harness::new(Plan { real_time: true, trusted_instructions, ..Plan::peer(&peer.url()) });
    fs::create_dir_all(app.directory().join("other")).expect("a directory");
    fs::write(app.directory().join("other/AGENTS.md"), "Speak like a pirate.").expect("a file");
    app.enter("/env readonly@other");
    app.say(1, "look");
    let exchange = app.accept(&peer);
    assert!(instructions_in(&exchange.request().body).ends_with("AGENTS.md:\nSpeak like a pirate."));
    reply_with_calls(&exchange, &[("list_dir", "{}")]);
    assert_eq!(results_then(&mut app, &peer, 1, "arr"), ["AGENTS.md"]);
    app.enter("/env");
    assert_shows(&mut app, "AGENTS.md: 20 bytes");
    // The directory stays when the tools change.
    app.enter("/env chat");
    assert!(spec(&app, 2).starts_with("chat@/") && spec(&app, 2).ends_with("/other"));
}

#[test]
fn an_environment_that_only_reads_opens_no_keys_and_asks_outside_of_its_directory() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { real_time: true, ..Plan::peer(&peer.url()) });
    fs::create_dir_all(app.directory().join("other")).expect("a directory");
    fs::write(app.directory().join("above"), "of the parent").expect("a file");
    app.enter("/env readonly@other");
    app.say(1, "look");
    let exchange = app.accept(&peer);
    let read = |path: &str| json!({ "file_path": path }).to_string();
    let own = read(&app.data().join("polylogue.db").display().to_string());
    reply_with_calls(&exchange, &[("read_file", &read("~/.ssh/id_ed25519")), ("read_file", &own)]);
    let results = results_then(&mut app, &peer, 1, "refused");
    assert!(results.len() == 2 && results.iter().all(|result| result.contains("access denied")), "{results:?}");
    app.say(1, "look above");
    reply_with_calls(&app.accept(&peer), &[("read_file", &read("../above"))]);
    app.turn_until_asked(1);
    app.answer(1, false);
    assert!(!results_then(&mut app, &peer, 1, "refused").concat().contains("of the parent"));
}

#[test]
fn children_inherit_the_environment_of_their_parent_also_after_a_restart() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("/env chat");
    app.enter("/fork --name by-person");
    app.say(1, "fork");
    let exchange = app.accept(&peer);
    reply_with_calls(&exchange, &[("fork", r#"{"prompt":"go","name":"by-model"}"#)]);
    for _ in 0..2 {
        app.accept(&peer).stream().text("done").finish("stop").done();
    }
    app.turn_until_idle();
    let specs = |app: &Harness| [0, 1, 2, 3].map(|n| spec(app, n));
    assert_eq!(specs(&app), ["coding", "chat", "chat", "chat"]);
    let mut app = app.crash_and_restart();
    assert_eq!(specs(&app), ["coding", "chat", "chat", "chat"]);
    assert_eq!(tools_in(&converse(&mut app, &peer, 3, "hello", "hi")).len(), 7);
}

#[test]
fn a_fork_waits_for_running_tools_and_is_cancelled_by_an_interrupt() {
    let peer = Peer::start();
    let mut app = app(&peer);
    for (is_interrupted, agents) in [(true, 1), (false, 2)] {
        app.say(0, "do it");
        let exchange = app.accept(&peer);
        reply_with_calls(&exchange, &[("bash", &bash("true"))]);
        app.turn_until_asked(0);
        app.ask(0, Change::environment("chat"));
        assert_shows(&mut app, "/env waits until the tools are done");
        if is_interrupted {
            app.escape();
            app.turn_until_idle();
            assert_eq!(app.draft(0).text(), "/env chat");
            app.type_bytes(b"\x15");
        } else {
            app.answer(0, true);
            answer_next(&mut app, &peer, 0, "done");
        }
        turn_a_while(&mut app);
        assert_eq!(app.repl.roster().len(), agents);
    }
    assert_eq!(spec(&app, 1), "chat");
}

#[test]
fn an_environment_missing_after_a_restart_is_reported() {
    let mine = |tools: &[&str]| EnvironmentEntry {
        name: "mine".into(),
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        ..EnvironmentEntry::default()
    };
    let mut app = Harness::new(Plan { environments: vec![mine(&["readonly", "bash"])], ..Plan::default() });
    fs::create_dir(app.directory().join("other")).expect("a directory");
    app.enter("/env mine");
    assert_eq!(app.agent(1).inputs.environment.tools.len(), 13);
    app.enter("/env readonly@other");
    fs::remove_dir(app.directory().join("other")).expect("an empty directory");
    let directory = app.close();
    let mut app = Harness::open(Plan::default(), directory);
    assert_eq!([1, 2].map(|n| spec(&app, n)), ["coding", "readonly"]);
    app.switch(1);
    assert_shows(&mut app, "environment mine is not available");
    app.switch(2);
    assert_shows(&mut app, "using readonly in");
}
