//! MCP servers that an editor declares for a session, and commands that skills and prompts of servers are.

use serde_json::{Value, json};

use super::editor::{Editor, fault, questions, stop_reason, text, updates, write};
use crate::support::peer::Peer;
use crate::support::program::Home;
use crate::support::scene::{is_running, mark};
use crate::support::{PATIENCE, eventually, write_executable};

/// The declaration of a scripted server, whose process has this word in its command.
fn declared(home: &Home, behaviour: &str, word: &str) -> Value {
    write_executable(&home.directory.path().join("server.sh"), include_bytes!("../mcp/server.sh"));
    let command = format!("exec ./server.sh {behaviour} {word}");
    json!({"name": behaviour, "command": "/bin/sh", "args": ["-c", command], "env": [{"name": "A", "value": "b"}]})
}

fn session_with(editor: &mut Editor, home: &Home, servers: &Value) -> String {
    let created = editor.call("session/new", json!({"cwd": home.directory.path(), "mcpServers": servers}));
    created["sessionId"].as_str().expect("an id").to_owned()
}

/// The names of the commands that are offered last.
fn offered(messages: &[Value]) -> Vec<String> {
    let last = updates(messages, "available_commands_update").pop().expect("an update");
    let names = last["availableCommands"].as_array().expect("a list").iter();
    names.map(|command| command["name"].as_str().expect("a name").to_owned()).collect()
}

/// Waits for a line with this text on standard error.
fn await_note(editor: &Editor, text: &str) {
    while !String::from_utf8_lossy(&editor.program.err.recv_timeout(PATIENCE).expect(text)).contains(text) {}
}

const CALL: &str = "%tool mcp__legacy__first {\"word\":\"one\"}\n%next\nDone.";

#[test]
fn a_server_of_the_editor_is_for_its_session_asks_and_ends_with_it() {
    let home = Home::new();
    let mut editor = Editor::silent(&home, &[]);
    let initialized = editor.call("initialize", json!({"protocolVersion": 1}));
    assert_eq!(initialized["agentCapabilities"]["mcpCapabilities"], json!({"http": true, "sse": false}));
    let word = mark();
    let servers =
        json!([declared(&home, "legacy", &word), {"type": "sse", "name": "old", "url": "http://x", "headers": []}]);
    let session = session_with(&mut editor, &home, &servers);
    let all = editor.turn(&session, CALL, "allow_once");
    assert_eq!((questions(&all), stop_reason(&all)), (1, "end_turn"));
    let result = updates(&all, "tool_call_update").pop().expect("a result");
    let shown = result["content"][0]["content"]["text"].as_str().expect("a text");
    assert!(result["status"] == "completed" && shown.starts_with("marker "), "{result}");
    await_note(&editor, "the MCP server old of the editor is not used: sse is not supported");

    let other = session_with(&mut editor, &home, &json!([]));
    let all = editor.turn(&other, CALL, "allow_once");
    assert_eq!(questions(&all), 0, "another session has no such tool");
    assert!(is_running(&word));
    editor.call("session/close", json!({"sessionId": session}));
    eventually(|| !is_running(&word));
    // It is declared again with a session that is taken up, and not kept from before.
    let params = |servers: Value| json!({"sessionId": session, "cwd": home.directory.path(), "mcpServers": servers});
    editor.call("session/load", params(json!([])));
    assert_eq!(questions(&editor.turn(&session, CALL, "allow_once")), 0);
    editor.call("session/load", params(json!([declared(&home, "legacy", &word)])));
    assert_eq!(questions(&editor.turn(&session, CALL, "allow_once")), 1);
    assert_eq!(editor.ends().code, 0);
    eventually(|| !is_running(&word));
}

#[test]
fn a_server_over_http_gets_the_headers_of_the_editor() {
    let (home, mcp) = (Home::new(), Peer::start());
    let mut editor = Editor::start(&home, &[]);
    let url = format!("http://{}/mcp", mcp.address());
    let headers = json!([{"name": "Authorization", "value": "Bearer t0ken"}]);
    let session =
        session_with(&mut editor, &home, &json!([{"type": "http", "name": "web", "url": url, "headers": headers}]));
    let next = |method: &str, result: Value| {
        let exchange = mcp.accept();
        let message = exchange.request().json();
        assert_eq!(
            (&message["method"], exchange.request().header("authorization")),
            (&json!(method), Some("Bearer t0ken"))
        );
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        exchange.answer(200, "application/json", answer.to_string());
    };
    // It is asked before there is a message: its prompts are commands.
    next("server/discover", json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}));
    next("tools/list", json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}));
    let id = editor.prompt(&session, "%tool mcp__web__look {}\n%next\nDone.");
    let question = editor.question();
    editor.answer(&question, "allow_once");
    next("tools/call", json!({"content": [{"type": "text", "text": "seen"}]}));
    assert_eq!(stop_reason(&editor.until_response(id)), "end_turn");
}

#[test]
fn a_server_of_the_editor_does_not_replace_one_of_the_configuration() {
    let home = Home::new();
    let word = mark();
    declared(&home, "legacy", "");
    write(
        &home,
        ".config/polylogue/config.toml",
        "[mcp.legacy]\ncommand = \"sh\"\nargs = [\"-c\", \"exec ./server.sh legacy\"]\n",
    );
    let mut editor = Editor::start(&home, &[]);
    let session = session_with(&mut editor, &home, &json!([declared(&home, "legacy", &word)]));
    let all = editor.turn(&session, CALL, "allow_once");
    assert_eq!((questions(&all), stop_reason(&all)), (1, "end_turn"));
    assert!(!is_running(&word));
    await_note(&editor, "mcp legacy: the server of the editor is not used");
}

#[test]
fn skills_and_prompts_of_servers_are_commands() {
    let home = Home::new();
    write(&home, ".agents/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies.\n---\nSort it.\n");
    write(&home, ".config/polylogue/commands/greet.md", "---\ndescription: Greet\n---\nHello $1.\n");
    let mut editor = Editor::start(&home, &[]);
    let session = session_with(&mut editor, &home, &json!([declared(&home, "library", &mark())]));
    let has = |message: &Value, name: &str| message["params"]["update"]["availableCommands"].to_string().contains(name);
    let all = editor.until("commands", |message| has(message, "mcp__library__greet"));
    assert_eq!(offered(&all), ["greet", "tidy", "mcp__library__greet", "mcp__library__long"]);
    let all = editor.turn(&session, "/tidy src", "");
    let said = text(&all, "agent_message_chunk");
    assert!(said.starts_with("Use the skill tidy: src") && said.contains("Sort it."), "{said}");
    assert_eq!(text(&all, "user_message_chunk"), "", "the editor shows what was typed");
    let all = editor.turn(&session, "/mcp__library__greet Ada", "");
    assert_eq!(text(&all, "agent_message_chunk"), "Greet Ada.");
    assert_eq!(text(&all, "user_message_chunk"), "");
    let all = editor.turn(&session, "/mcp__library__long", "");
    assert!(text(&all, "agent_message_chunk").starts_with("one\ntwo\nthree"));
    for (line, expected) in [
        ("/mcp__library__greet", "the argument who is missing; usage: /mcp__library__greet who"),
        ("/mcp__library__greet who=Eve", "who? (error -32602)"),
    ] {
        let all = editor.turn(&session, line, "");
        let (_, message) = fault(all.last().expect("a response"));
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(text(&editor.turn(&session, "/unknown x", ""), "agent_message_chunk"), "/unknown x");
}
