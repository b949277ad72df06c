//! Prompts that are cancelled, and editors that leave.

use serde_json::json;

use super::editor::{Editor, exists, stop_reason, text};
use crate::support::program::{Home, texts};

#[test]
fn a_cancelled_prompt_ends_as_cancelled_and_the_next_one_is_answered() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    let id = editor.prompt(&session, "Begin.\n%hang");
    editor.until("text", |message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(stop_reason(&editor.until_response(id)), "cancelled");
    let id = editor.prompt(&session, "Begin.\n%hang");
    editor.until("text", |message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    editor.notify("$/cancel_request", json!({"requestId": id}));
    assert_eq!(stop_reason(&editor.until_response(id)), "cancelled");
    // Nothing is under way: nothing happens.
    editor.notify("session/cancel", json!({"sessionId": session}));
    editor.notify("session/cancel", json!({"sessionId": "unknown"}));
    assert_eq!(text(&editor.turn(&session, "hello", ""), "agent_message_chunk"), "hello");
}

#[test]
fn a_prompt_that_asks_can_be_cancelled_with_and_without_an_answer() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    for answers in [true, false] {
        let id = editor.prompt(&session, "%tool bash {\"command\":\"touch a\"}\n%next\nDone.");
        let question = editor.question();
        editor.notify("session/cancel", json!({"sessionId": session}));
        if answers {
            let outcome = json!({"outcome": {"outcome": "cancelled"}});
            editor.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome}));
        }
        assert_eq!(stop_reason(&editor.until_response(id)), "cancelled");
        // Too late.
        editor.answer(&question, "allow_once");
    }
    assert_eq!(stop_reason(&editor.turn(&session, "hello", "")), "end_turn");
    assert!(!exists(&home, "a"));
}

#[test]
fn an_editor_that_never_answers_a_question_holds_up_nothing_else() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let (first, second) = (editor.session(&home), editor.session(&home));
    editor.prompt(&first, "%tool bash {\"command\":\"touch a\"}\n%next\nDone.");
    editor.question();
    assert_eq!(text(&editor.turn(&second, "hello", ""), "agent_message_chunk"), "hello");
    let end = editor.ends();
    assert!(end.code == 0 && !exists(&home, "a"), "{end:?}");
}

#[test]
fn an_editor_that_closes_the_input_interrupts_and_the_conversation_stays() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    editor.prompt(&session, "Begin.\n%hang");
    editor.until("text", |message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    let end = editor.ends();
    assert_eq!(end.code, 0, "{}", end.err);
    let log = home.log(1);
    assert_eq!(texts(&log), ["Begin.\n%hang", "Begin."]);
}
