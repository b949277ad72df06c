//! An editor whose agents work in another process.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::editor::{Editor, exists, fault, questions, stop_reason, text};
use crate::support::PATIENCE;
use crate::support::program::Home;

#[test]
fn a_question_is_answered_by_a_script_and_withdrawn_from_the_editor() {
    let home = Home::new();
    let server = home.serve();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    let id = editor.prompt(&session, "%tool bash {\"command\":\"touch a\"}\n%next\nDone.");
    let question = editor.question();
    let open = home.run(&["approvals", "--json"]);
    let listed: Value = serde_json::from_str(open.out.lines().next().expect("a question")).expect("JSON");
    let approved = home.run(&["approve", listed["id"].as_str().expect("an id")]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let all = editor.until_response(id);
    let withdrawn = all.iter().find(|message| message["method"] == "$/cancel_request").expect("it is withdrawn");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert!(exists(&home, "a") && stop_reason(&all) == "end_turn");
    // The editor is too late.
    editor.answer(&question, "reject_once");
    assert_eq!(stop_reason(&editor.turn(&session, "hello", "")), "end_turn");
    assert_eq!(editor.ends().code, 0);
    assert!(home.run(&["ps"]).out.contains(&session), "the agent goes on in the server");
    server.signal(Signal::TERM);
}

#[test]
fn a_server_that_is_killed_is_replaced() {
    let home = Home::new();
    let server = home.serve();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    editor.turn(&session, "hello", "");
    let id = editor.prompt(&session, "Begin.\n%hang");
    editor.until("text", |message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    server.signal(Signal::KILL);
    let response = editor.until_response(id).pop().expect("a response");
    assert!(fault(&response).1.contains("has ended"), "{response}");
    let all = editor.turn(&session, "Again.\n%tool bash {\"command\":\"touch a\"}\n%next\nDone.", "allow_once");
    assert_eq!((text(&all, "agent_message_chunk").as_str(), questions(&all)), ("Again.Done.", 1));
    assert!(exists(&home, "a"));
    assert_eq!(editor.ends().code, 0);
}

#[test]
fn the_loop_of_one_editor_serves_another_and_scripts() {
    let home = Home::new();
    let mut first = Editor::start(&home, &[]);
    let session = first.session(&home);
    first.turn(&session, "hello", "");
    let mut second = Editor::start(&home, &[]);
    let params = json!({"sessionId": session, "cwd": home.directory.path(), "mcpServers": []});
    let id = second.ask("session/load", params);
    assert_eq!(text(&second.until_response(id), "user_message_chunk"), "hello");
    // What one of them sends, the other sees.
    second.turn(&session, "from the second", "");
    let shown = |message: &Value| message["params"]["update"]["sessionUpdate"] == "user_message_chunk";
    let seen = first.until("prompt", shown);
    assert_eq!(text(&seen, "user_message_chunk"), "from the second");
    assert_eq!(first.ends().code, 0);
    // Also where the second has not yet noticed.
    let all = second.turn(&session, "alone", "");
    assert_eq!(stop_reason(&all), "end_turn");
    let noticed = |line: Vec<u8>| String::from_utf8_lossy(&line).contains("opening the conversations again");
    while !noticed(second.program.err.recv_timeout(PATIENCE).expect("a note")) {}
    assert!(home.run(&["ps"]).out.contains(&session));
}

#[test]
fn a_prompt_that_arrives_with_the_end_of_the_server_is_sent_to_its_successor() {
    let home = Home::new();
    let server = home.serve();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    editor.turn(&session, "hello", "");
    editor.program.signal(Signal::STOP);
    server.signal(Signal::KILL);
    assert_eq!(server.ends().code, 137);
    let id = editor.prompt(&session, "again");
    editor.program.signal(Signal::CONT);
    let all = editor.until_response(id);
    assert_eq!((stop_reason(&all), text(&all, "agent_message_chunk").as_str()), ("end_turn", "again"));
    assert_eq!(editor.ends().code, 0);
}
