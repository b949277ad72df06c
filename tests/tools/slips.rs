//! Calls as models write them that know other agents' tools: each is understood, or gets an answer from which the next call
//! is right.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::internals::tools::Environment;

/// The tool and the arguments; the arguments as they are understood, or what the answer says.
type Slip = (&'static str, Value, Result<Value, &'static [&'static str]>);

fn slips() -> Vec<Slip> {
    vec![
        ("read_file", json!({"path": "a.txt"}), Ok(json!({"file_path": "a.txt"}))),
        ("read_file", json!({"filePath": "a.txt", "limit": "10"}), Ok(json!({"file_path": "a.txt", "limit": 10}))),
        ("read_file", json!({"file_path": "b.txt", "offset": 0}), Err(&["`offset` must be at least 1 (got 0)"])),
        ("read_file", json!({"name": "a.txt"}), Err(&["`file_path` is missing", "unknown argument `name`"])),
        ("bash", json!({"cmd": "ls", "timeout": "5000"}), Ok(json!({"command": "ls", "timeout": 5000}))),
        (
            "bash",
            json!({"command": "ls", "is_background": "true"}),
            Ok(json!({"command": "ls", "run_in_background": true})),
        ),
        ("bash", json!({"command": ["ls", "-l"]}), Err(&["`command` must be a string (got an array)"])),
        ("bash", json!({"command": " "}), Err(&["`command` must not be empty"])),
        ("bash", json!({"command": "ls", "timeout": 9_999_999}), Err(&["`timeout` must be at most 3600000"])),
        (
            "edit_file",
            json!({"file_path": "a.txt", "oldString": "x", "newString": "y"}),
            Err(&["read it with read_file first"]),
        ),
        ("edit_file", json!({"file_path": "a.txt", "old_string": "x", "new_string": "x"}), Err(&["are the same"])),
        (
            "edit_file",
            json!({"file_path": "a.txt", "content": "x"}),
            Err(&["`old_string` is missing", "`new_string` is missing"]),
        ),
        ("write_file", json!({"file_path": "n.txt", "text": "x"}), Ok(json!({"file_path": "n.txt", "content": "x"}))),
        ("write_file", json!({"file_path": "n.txt"}), Err(&["`content` is missing"])),
        ("grep", json!({"query": "x", "-i": true}), Ok(json!({"pattern": "x", "ignore_case": true}))),
        (
            "grep",
            json!({"pattern": "x", "output_mode": "lines"}),
            Err(&["`output_mode` must be one of", "\"content\""]),
        ),
        ("glob", json!({"pattern": "**/*.rs", "dir_path": "."}), Ok(json!({"pattern": "**/*.rs", "path": "."}))),
        (
            "todo",
            json!({"plan": [{"step": "x", "status": "pending"}]}),
            Ok(json!({"todos": [{"content": "x", "status": "pending"}]})),
        ),
        (
            "todo",
            json!({"todos": [{"content": "x", "status": "done"}]}),
            Err(&["`todos[0].status` must be one of", "\"completed\""]),
        ),
        (
            "fork",
            json!({"prompt": "x", "subagent_type": "critic"}),
            Err(&["unknown agent definition \"critic\"", "available definitions: none"]),
        ),
        ("web_fetch", json!({"uri": "example.org"}), Ok(json!({"url": "example.org"}))),
        ("wait", json!({"timeout": 5000}), Err(&["`timeout` must be at most 3600"])),
        (
            "Read",
            json!({"file_path": "a.txt"}),
            Err(&["unknown tool \"Read\"; did you mean read_file?", "available tools: "]),
        ),
        ("apply_patch", json!({"patch": "x"}), Err(&["did you mean edit_file?"])),
        ("run_shell_command", json!({"command": "ls"}), Err(&["did you mean bash?"])),
        ("update_plan", json!({"plan": []}), Err(&["did you mean todo?"])),
        ("grp", json!({"pattern": "x"}), Err(&["did you mean grep?"])),
    ]
}

#[test]
fn slips_are_understood_or_answered_with_what_is_right() {
    let directory = TempDir::new().expect("a directory");
    fs::write(directory.path().join("a.txt"), "x\n").expect("a file");
    let env = Environment::at(directory.path().into());
    let mut wrong = Vec::new();
    let is_built_in = |tool: &str| cfg!(feature = "web-fetch") || tool != "web_fetch";
    for (tool, arguments, expected) in slips().into_iter().filter(|(tool, ..)| is_built_in(tool)) {
        let found = env.prepare(tool, &arguments.to_string()).map(|(_, prepared)| prepared.arguments);
        let is_right = match (&found, &expected) {
            (Ok(found), Ok(expected)) => found == expected,
            (Err(message), Err(parts)) => parts.iter().all(|part| message.contains(part)),
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{tool} {arguments}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A list of parameters in the answer lets a model correct a call without another look at the schema.
#[test]
fn an_answer_about_arguments_lists_the_parameters() {
    let env = Environment::at("/".into());
    for tool in env.declarations() {
        let message = env.prepare(tool.name, r#"{"no such": 1}"#).expect_err("a mistake");
        let schema: Value = serde_json::from_str(tool.parameters).expect("JSON");
        let names = schema["properties"].as_object().expect("an object").keys();
        names.for_each(|name| assert!(message.contains(name.as_str()), "{}: {name}: {message}", tool.name));
    }
}
