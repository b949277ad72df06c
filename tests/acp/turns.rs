//! Prompts: what the editor sees of a turn, and its answers to questions.

use serde_json::{Value, json};

use super::editor::{Editor, exists, fault, questions, read, stop_reason, text, updates, write};
use crate::support::peer::Peer;
use crate::support::program::Home;

#[test]
fn a_whole_turn_has_thoughts_a_plan_an_approval_and_a_diff() {
    let home = Home::new();
    write(&home, "a.txt", "one\ntwo\n");
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    let prompt = "%think hm\nI look.\n%tool todo {\"todos\":[{\"content\":\"edit\",\"status\":\"in_progress\"}]}\n\
                  %tool read_file {\"file_path\":\"a.txt\",\"offset\":2}\n%next\n\
                  %tool edit_file {\"file_path\":\"a.txt\",\"old_string\":\"two\",\"new_string\":\"2\"}\n%next\nDone.";
    let all = editor.turn(&session, prompt, "allow_once");
    assert_eq!(stop_reason(&all), "end_turn");
    assert_eq!(text(&all, "agent_thought_chunk"), "hm");
    assert_eq!(text(&all, "agent_message_chunk"), "I look.Done.");
    assert!(updates(&all, "user_message_chunk").is_empty(), "the editor shows its prompt itself");
    assert_eq!(updates(&all, "plan")[0]["entries"][0]["status"], "in_progress");
    assert_eq!(updates(&all, "session_info_update")[0]["title"], "%think hm");
    let path = home.directory.path().canonicalize().expect("a path").join("a.txt");
    let calls = updates(&all, "tool_call");
    assert_eq!(calls.iter().map(|call| &call["kind"]).collect::<Vec<_>>(), ["read", "edit"]);
    assert_eq!(calls[0]["locations"], json!([{"path": path, "line": 2}]));
    let diff = json!([{"type": "diff", "path": path, "oldText": "two", "newText": "2"}]);
    assert_eq!((&calls[1]["status"], &calls[1]["content"]), (&json!("pending"), &diff));
    let question = all.iter().find(|message| message["method"] == "session/request_permission").expect("a question");
    let shown = question["params"]["toolCall"]["content"].as_array().expect("content");
    assert_eq!(shown[0], diff[0]);
    assert!(shown[1]["content"]["text"].as_str().expect("text").contains("-two"), "{question}");
    let of_edit: Vec<&Value> = updates(&all, "tool_call_update")
        .into_iter()
        .filter(|update| update["toolCallId"] == calls[1]["toolCallId"])
        .collect();
    assert_eq!(of_edit.iter().map(|call| &call["status"]).collect::<Vec<_>>(), ["in_progress", "completed"]);
    assert_eq!((of_edit[1]["content"].clone(), read(&home, "a.txt").as_str()), (diff, "one\n2\n"));
    assert_eq!(editor.ends().code, 0);
}

#[cfg(feature = "shell-grammar")]
#[test]
fn answers_that_hold_for_later_calls_show_their_rule() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    let command = "%tool bash {\"command\":\"touch a\"}\n%next\nDone.";
    let all = editor.turn(&session, command, "reject_once");
    let question = all.iter().find(|message| message["method"] == "session/request_permission").expect("a question");
    let names: Vec<&str> = question["params"]["options"]
        .as_array()
        .expect("options")
        .iter()
        .map(|option| option["name"].as_str().expect("a name"))
        .collect();
    let always = "Always allow in this session: bash(touch a)";
    assert_eq!(names, ["Allow", always, "Reject", "Always reject: bash(touch a)"]);
    assert_eq!(updates(&all, "tool_call_update").last().expect("an update")["status"], "failed");
    assert!(!exists(&home, "a"));
    assert_eq!(questions(&editor.turn(&session, command, "allow_always")), 1);
    assert!(exists(&home, "a"));
    assert_eq!(questions(&editor.turn(&session, command, "reject_once")), 0, "the rule allows it");
    let other = "%tool bash {\"command\":\"touch b\"}\n%next\nDone.";
    assert_eq!(questions(&editor.turn(&session, other, "reject_always")), 1);
    let all = editor.turn(&session, other, "allow_once");
    assert_eq!((questions(&all), exists(&home, "b")), (0, false), "the rule refuses it");
    let another = editor.session(&home);
    assert_eq!(questions(&editor.turn(&another, command, "reject_once")), 0, "sessions in one directory share it");
}

#[test]
fn answers_that_are_none_refuse_the_call() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    let command = "%tool bash {\"command\":\"touch a\"}\n%next\nDone.";
    let id = editor.prompt(&session, command);
    let question = editor.question();
    editor.answer(&question, "sudo");
    editor.until_response(id);
    let id = editor.prompt(&session, command);
    let question = editor.question();
    let error = json!({"code": -32601, "message": "no such method"});
    editor.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": error}));
    let all = editor.until_response(id);
    let result = updates(&all, "tool_call_update").last().expect("a result")["content"].to_string();
    assert!(result.contains("the editor could not ask the user: no such method"), "{result}");
    // An answer that comes again, or to nothing.
    editor.answer(&question, "allow_once");
    editor.answer(&json!({"id": 99}), "allow_once");
    assert_eq!(stop_reason(&editor.turn(&session, "hello", "")), "end_turn");
    assert!(!exists(&home, "a"));
}

#[test]
fn modes_are_policies_and_the_greatest_is_not_offered() {
    let home = Home::new();
    write(&home, "project/README", "");
    let mut editor = Editor::start(&home, &[]);
    let cwd = home.directory.path().join("project");
    let created = editor.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
    let modes = created["modes"]["availableModes"].as_array().expect("modes");
    assert_eq!(modes.iter().map(|mode| &mode["id"]).collect::<Vec<_>>(), ["plan", "ask", "auto"]);
    assert_eq!(created["modes"]["currentModeId"], "ask");
    let session = created["sessionId"].as_str().expect("an id");
    let command = "%tool write_file {\"file_path\":\"a\",\"content\":\"x\"}\n%next\nDone.";
    editor.call("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
    editor.turn(session, command, "allow_once");
    assert!(!exists(&home, "project/a"));
    editor.call("session/set_mode", json!({"sessionId": session, "modeId": "auto"}));
    assert_eq!(questions(&editor.turn(session, command, "reject_once")), 0);
    assert!(exists(&home, "project/a"));
    for mode in ["yolo", "never", ""] {
        let (code, message) = editor.refused("session/set_mode", json!({"sessionId": session, "modeId": mode}));
        assert!(code == -32602 && message.contains("expected ask, auto or plan"), "{message}");
    }
}

#[test]
fn questions_of_agents_below_the_session_reach_the_editor() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    let fork = json!({"name": "helper", "prompt": "%tool bash {\"command\":\"touch by-helper\"}\n%next\nDone."});
    let id = editor.prompt(&session, &format!("%tool fork {fork}\n%next\n%tool wait {{\"seconds\":20}}\n%next\nDone."));
    let mut all = Vec::new();
    loop {
        let message = editor.next();
        if message["method"] == "session/request_permission" {
            editor.answer(&message, "allow_once");
            let title = message["params"]["toolCall"]["title"].as_str().expect("a title");
            if title.starts_with("helper: ") {
                assert_eq!(title, "helper: bash: touch by-helper");
                break;
            }
        }
        all.push(message);
    }
    editor.notify("session/cancel", json!({"sessionId": session}));
    all.extend(editor.until_response(id));
    crate::support::eventually(|| exists(&home, "by-helper"));
}

#[test]
fn the_reason_of_the_end_and_errors_of_the_provider_are_told() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    for (prompt, reason) in [("half\n%length", "max_tokens"), ("%fail refused no", "refusal"), ("hello", "end_turn")] {
        assert_eq!(stop_reason(&editor.turn(&session, prompt, "")), reason, "{prompt}");
    }
    let all = editor.turn(&session, "%fail auth wrong key", "");
    let (code, message) = fault(all.last().expect("a response"));
    assert!(code == -32000 && message.contains("wrong key"), "{message}");
    assert_eq!(all.last().expect("a response")["error"]["data"]["kind"], "auth");
}

#[test]
fn images_files_and_the_use_of_the_context_are_passed_on() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    write(
        &home,
        ".config/polylogue/config.toml",
        "[providers.openai]\nmodels = [{ name = \"test\", context = 10000, input_price = 1, output_price = 1 }]\n",
    );
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    let image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let prompt = json!([
        {"type": "text", "text": "Look at"},
        {"type": "resource", "resource": {"uri": "file:///p/a.rs", "text": "fn a() {}"}},
        {"type": "image", "mimeType": "image/png", "data": image}
    ]);
    let id = editor.ask("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    let exchange = peer.accept();
    let body = String::from_utf8_lossy(&exchange.request().body).into_owned();
    assert!(body.contains("Look at @/p/a.rs") && body.contains("fn a() {}") && body.contains(image), "{body}");
    exchange.stream().text("Seen.").finish("stop").usage(1000, 10).done();
    let all = editor.until_response(id);
    assert_eq!((text(&all, "agent_message_chunk").as_str(), stop_reason(&all)), ("Seen.", "end_turn"));
    assert!(updates(&all, "user_message_chunk").is_empty());
    let usage = updates(&all, "usage_update")[0];
    assert_eq!((&usage["used"], &usage["size"]), (&json!(1010), &json!(10_000)));
    assert!(usage["cost"]["amount"].as_f64().expect("a cost") > 0.001);
}

#[test]
fn custom_commands_are_offered_and_expanded() {
    let home = Home::new();
    write(&home, ".config/polylogue/commands/greet.md", "---\ndescription: Greet\n---\nHello $1.\n");
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    let all = editor.turn(&session, "/greet Ada", "");
    let offered = &updates(&all, "available_commands_update")[0]["availableCommands"];
    assert_eq!(*offered, json!([{"name": "greet", "description": "Greet", "input": {"hint": "arguments"}}]));
    assert_eq!(text(&all, "agent_message_chunk"), "Hello Ada.");
    assert_eq!(text(&editor.turn(&session, "/other", ""), "agent_message_chunk"), "/other");
}
