//! A command that an agent runs must not answer questions, also those of others, through the socket of its own server.

use std::fs;

use serde_json::Value;

use super::{App, PROGRAM, eventually};
use crate::support::write_executable;

/// Lists questions, answers one, and sends a text, with the exit code of each.
fn attack(app: &App, question: &str) -> String {
    // The sandbox hides a program that was built below /tmp.
    write_executable(&app.workspace.path().join("program"), &fs::read(PROGRAM).expect("the program"));
    let (data, polylogue) = (app.path().display(), format!("./program --data-dir {}", app.path().display()));
    format!(
        "./program --version\n{polylogue} approvals; echo approvals $?\n{polylogue} approve {question}; echo approve $?\n\
         {polylogue} tell 0 from-inside; echo tell $?\ntest -S {data}/server/socket && echo a socket\necho the end\n"
    )
}

fn open(app: &App, command: &str) -> Option<String> {
    let lines = app.get(&["approvals", "--json"]);
    let questions = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let mut asking = questions.filter(|question| question["title"].as_str().expect("text").ends_with(command));
    asking.next().map(|question| question["id"].as_str().expect("text").to_owned())
}

#[test]
fn a_command_of_an_agent_answers_no_question_in_the_sandbox_and_without_it() {
    for has_sandbox in [true, false] {
        let mut app = App::new();
        let configuration = app.path().join(".config/polylogue");
        fs::create_dir_all(&configuration).expect("a directory");
        fs::write(configuration.join("config.toml"), format!("[sandbox]\nenabled = {has_sandbox}\n")).expect("a file");
        app.serve();
        let inner = r#"%tool bash {\"command\":\"touch by-other\"}"#;
        app.get(&["tell", "0", &format!("%tool fork {{\"prompt\":\"{inner}\"}}")]);
        eventually("the other question", || open(&app, "touch by-other").is_some());
        let other = open(&app, "touch by-other").expect("a question");
        fs::write(app.workspace.path().join("attack"), attack(&app, &other)).expect("a file");
        eventually("agent 0 is idle", || app.get(&["wait", "0"]) == "idle\n");
        app.get(&["tell", "0", "%tool bash {\"command\":\"sh attack > out 2>&1\"}"]);
        eventually("the question", || open(&app, "2>&1").is_some());
        app.get(&["approve", &open(&app, "2>&1").expect("a question")]);
        let out = || fs::read_to_string(app.workspace.path().join("out")).unwrap_or_default();
        eventually("the attack has ended", || out().contains("the end"));
        let out = out();
        assert!(out.contains("polylogue 0."), "the program runs there: {out}");
        for command in ["approvals", "approve", "tell"] {
            let code = out.lines().find_map(|line| line.strip_prefix(command)?.strip_prefix(' '));
            assert!(code.is_some_and(|code| code != "0"), "{command}, sandbox {has_sandbox}: {out}");
        }
        assert_eq!(out.contains("a socket"), !has_sandbox, "{out}");
        assert_eq!(open(&app, "touch by-other"), Some(other), "it is still open");
        assert!(!app.workspace.path().join("by-other").exists());
        assert_eq!(app.get(&["logs", "0", "--json"]).matches("from-inside").count(), 0);
    }
}
