//! Editors that do not keep to the protocol, and much at once.

use serde_json::{Value, json};

use super::editor::{Editor, fault, stop_reason, text};
use crate::support::program::Home;

#[test]
fn messages_that_are_wrong_get_an_error_and_the_connection_goes_on() {
    let home = Home::new();
    let mut editor = Editor::silent(&home, &[]);
    let (code, message) = editor.refused("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert!(code == -32600 && message.contains("send initialize first"), "{message}");
    assert_eq!(editor.refused("initialize", json!({})).0, -32602);
    let initialized = editor.call("initialize", json!({"protocolVersion": 7}));
    assert_eq!(initialized["protocolVersion"], 1);
    assert_eq!(editor.call("authenticate", json!({"methodId": "none"})), json!({}));
    for (line, code) in [
        ("nonsense", -32700),
        ("{\"jsonrpc\":\"2.0\"", -32700),
        ("[{\"id\":1,\"method\":\"x\"}]", -32600),
        ("{\"id\":[],\"method\":\"x\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":5}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"session/fly\"}", -32601),
        ("{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"session/prompt\"}", -32602),
    ] {
        editor.program.write(&format!("{line}\n"));
        assert_eq!(fault(&editor.next()).0, code, "{line}");
    }
    // These are not answered.
    editor.program.write("\n{\"method\":\"unknown\"}\n{\"id\":5,\"result\":{}}\n\u{fffd}\n");
    assert_eq!(fault(&editor.next()).0, -32700);
    let session = editor.session(&home);
    assert_eq!(stop_reason(&editor.turn(&session, "hello", "")), "end_turn");
    assert_eq!(editor.ends().code, 0);
}

#[test]
fn a_session_has_one_prompt_at_once_and_others_have_theirs() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let (first, second) = (editor.session(&home), editor.session(&home));
    editor.prompt(&first, "%hang");
    let prompt = json!({"sessionId": first, "prompt": [{"type": "text", "text": "again"}]});
    let (code, message) = editor.refused("session/prompt", prompt);
    assert!(code == -32600 && message.contains("a prompt is under way"), "{message}");
    assert_eq!(text(&editor.turn(&second, "hello", ""), "agent_message_chunk"), "hello");
}

#[test]
fn long_messages_and_floods_are_answered_in_order() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    let long = "x".repeat(1 << 20);
    let said = text(&editor.turn(&session, &long, ""), "agent_message_chunk");
    assert!(said == long, "{} bytes", said.len());
    let flood: String =
        (0..3_000).map(|n| format!("{}\n", json!({"jsonrpc": "2.0", "id": n, "method": "x"}))).collect();
    let sent = std::thread::scope(|scope| {
        let program = &mut editor.program;
        let mut input = program.input.take().expect("an input");
        let out = &program.out;
        let writer = scope.spawn(move || {
            std::io::Write::write_all(&mut input, flood.as_bytes()).expect("it reads");
            input
        });
        for n in 0..3_000 {
            let line = out.recv_timeout(crate::support::PATIENCE).expect("a line");
            let message: Value = serde_json::from_slice(&line).expect("JSON");
            assert_eq!((&message["id"], fault(&message).0), (&json!(n), -32601));
        }
        writer.join().expect("it ends")
    });
    editor.program.input = Some(sent);
    assert_eq!(stop_reason(&editor.turn(&session, "hello", "")), "end_turn");
}

#[test]
fn more_sessions_than_a_server_has_connections_for_are_refused() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let params = json!({"cwd": home.directory.path(), "mcpServers": []});
    let mut sessions = Vec::new();
    let message = loop {
        let id = editor.ask("session/new", params.clone());
        let response = editor.until_response(id).pop().expect("a response");
        match response["result"]["sessionId"].as_str() {
            Some(session) => sessions.push(session.to_owned()),
            None => break fault(&response).1,
        }
        assert!(sessions.len() < 100);
    };
    assert!(message.contains("close some sessions"), "{message}");
    editor.call("session/close", json!({"sessionId": sessions[0]}));
    assert_eq!(stop_reason(&editor.turn(&sessions[1], "hello", "")), "end_turn");
}
