//! Sessions that are created, listed, taken up and closed.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::editor::{Editor, questions, stop_reason, text, updates, write};
use crate::support::program::Home;

#[test]
fn a_conversation_is_listed_and_loaded_with_all_that_was_said() {
    let home = Home::new();
    write(&home, "a.txt", "one\n");
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    editor.turn(&session, "I look.\n%tool read_file {\"file_path\":\"a.txt\"}\n%next\nDone.", "");
    let other = editor.session(&home);
    assert_eq!(editor.ends().code, 0);
    let mut editor = Editor::start(&home, &[]);
    let cwd = home.directory.path();
    let listed = editor.call("session/list", json!({ "cwd": cwd }));
    let rows = listed["sessions"].as_array().expect("a list");
    assert_eq!(rows.len(), 1, "the session {other} without a prompt is gone: {listed}");
    assert_eq!((&rows[0]["sessionId"], &rows[0]["title"]), (&json!(session), &json!("I look.")));
    assert_eq!(editor.call("session/list", json!({"cwd": "/"}))["sessions"], json!([]));
    let id = editor.ask("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    let all = editor.until_response(id);
    assert!(text(&all, "user_message_chunk").starts_with("I look."));
    assert_eq!(text(&all, "agent_message_chunk"), "I look.Done.");
    assert_eq!(updates(&all, "tool_call").len(), 1);
    assert_eq!(updates(&all, "tool_call_update")[0]["status"], "completed");
    assert_eq!(all.last().expect("a response")["result"]["modes"]["currentModeId"], "ask");
    assert_eq!(text(&editor.turn(&session, "And now?", ""), "agent_message_chunk"), "And now?");
    editor.call("session/close", json!({"sessionId": session}));
    let (code, message) = editor.refused("session/prompt", json!({"sessionId": session, "prompt": []}));
    assert!(code == -32602 && message.contains("unknown session"), "{message}");
    let id = editor.ask("session/resume", json!({"sessionId": session, "cwd": cwd}));
    assert_eq!(editor.until_response(id).len(), 1, "nothing is replayed");
    assert_eq!(stop_reason(&editor.turn(&session, "And now?", "")), "end_turn");
}

#[test]
fn what_cannot_be_taken_up_is_named() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    for (session, cwd, expected) in [
        ("0", "/", "no conversation \"0\""),
        ("nonsense", "/", "nonsense"),
        (session.as_str(), "/", "open it there"),
        (session.as_str(), "relative", "must be an absolute path"),
        (session.as_str(), "/no such directory", "no such directory"),
    ] {
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        let (_, message) = editor.refused("session/load", params);
        assert!(message.contains(expected), "{session} {cwd}: {message}");
    }
}

#[test]
fn a_question_that_was_open_at_the_end_is_asked_again() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    editor.prompt(&session, "%tool bash {\"command\":\"touch a\"}\n%next\nDone.");
    editor.question();
    editor.program.signal(Signal::KILL);
    assert_eq!(editor.ends().code, 137);
    let mut editor = Editor::start(&home, &[]);
    let id = editor.ask("session/load", json!({"sessionId": session, "cwd": home.directory.path(), "mcpServers": []}));
    let mut all = editor.until_response(id);
    if questions(&all) == 0 {
        all.push(editor.question());
    }
    let is_question = |message: &&Value| message["method"] == "session/request_permission";
    let question = all.iter().find(is_question).expect("a question").clone();
    editor.answer(&question, "allow_once");
    crate::support::eventually(|| super::editor::exists(&home, "a"));
}
