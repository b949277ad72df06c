//! What an editor chooses for a session, and what it does where no model can be used yet.

use serde_json::{Value, json};

use super::editor::{Editor, stop_reason, text, write};
use crate::support::peer::Peer;
use crate::support::program::Home;

/// The value of an option.
fn value(options: &Value, id: &str) -> Value {
    let all = options["configOptions"].as_array().expect("options");
    all.iter().find(|option| option["id"] == id).expect("an option")["currentValue"].clone()
}

/// The values that an option can have.
fn values(options: &Value, id: &str) -> Vec<String> {
    let all = options["configOptions"].as_array().expect("options");
    let option = all.iter().find(|option| option["id"] == id).expect("an option");
    let values = option["options"].as_array().expect("values").iter();
    values.map(|value| value["value"].as_str().expect("a text").to_owned()).collect()
}

fn set(editor: &mut Editor, session: &str, id: &str, value: &str) -> Value {
    let chosen = json!({"sessionId": session, "configId": id, "value": value});
    editor.call("session/set_config_option", chosen)
}

#[test]
fn mode_model_and_thinking_are_chosen_for_a_session() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let mut editor = Editor::start(&home, &[]);
    let created = editor.call("session/new", json!({"cwd": home.directory.path(), "mcpServers": []}));
    let session = created["sessionId"].as_str().expect("an id").to_owned();
    let chosen = |options: &Value| ["mode", "model", "thinking"].map(|id| value(options, id));
    assert_eq!(chosen(&created), ["ask", "openai/test", "default"]);
    assert_eq!(values(&created, "mode"), ["plan", "ask", "auto"]);
    assert!(values(&created, "model").contains(&"openai/test".to_owned()), "{created}");
    assert_eq!(value(&set(&mut editor, &session, "mode", "plan"), "mode"), "plan");
    let set_thinking = set(&mut editor, &session, "thinking", "high");
    // A model that the server does not list can be chosen too.
    let all = set(&mut editor, &session, "model", "openai/another");
    assert_eq!(
        (value(&set_thinking, "thinking"), chosen(&all)),
        ("high".into(), ["plan", "openai/another", "high"].map(Value::from))
    );
    assert!(values(&all, "model").contains(&"openai/another".to_owned()), "{all}");
    for (id, value, expected) in [
        ("mode", "yolo", "expected ask, auto or plan"),
        ("model", "nobody/nothing", "nobody"),
        ("thinking", "hard!", "hard!"),
        ("colour", "red", "unknown option"),
    ] {
        let wrong = json!({"sessionId": session, "configId": id, "value": value});
        let (code, message) = editor.refused("session/set_config_option", wrong);
        assert!(code == -32602 && message.contains(expected), "{code} {message}");
    }
    let id = editor.prompt(&session, "hello");
    let exchange = peer.accept();
    let request = exchange.request().json();
    assert_eq!((&request["model"], &request["reasoning_effort"]), (&"another".into(), &"high".into()));
    exchange.stream().text("hi").finish("stop").usage(900, 20).done();
    let response = editor.until_response(id).pop().expect("a response");
    let usage = &response["result"]["usage"];
    assert_eq!([&usage["inputTokens"], &usage["outputTokens"], &usage["totalTokens"]], [&900, &20, &920], "{response}");
}

/// The response to `session/new` of a program without a model, whose server gives this list.
fn created_with_list(peer: &Peer, status: u16, list: &str) -> (Home, Editor, Value) {
    let variables = [("POLYLOGUE_MODEL", ""), ("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", &peer.url())];
    let variables = variables.map(|(name, value)| (name.into(), value.into())).to_vec();
    let home = Home { variables, ..Home::new() };
    let mut editor = Editor::start(&home, &[]);
    let id = editor.ask("session/new", json!({"cwd": home.directory.path(), "mcpServers": []}));
    // The server is that of two providers, one for each of its protocols.
    for _ in 0..2 {
        let asked = peer.accept();
        assert_eq!(asked.request().path, "/v1/models");
        asked.answer(status, "application/json", list);
    }
    let created = editor.until_response(id).pop().expect("a response")["result"].take();
    (home, editor, created)
}

#[test]
fn the_models_of_a_server_can_be_chosen_where_none_is_configured() {
    let peer = Peer::start();
    let list = r#"{"data":[{"id":"big"},{"id":"small"}]}"#;
    let (_home, mut editor, created) = created_with_list(&peer, 200, list);
    let models = values(&created, "model");
    assert!(["openai/big", "openai/small"].iter().all(|model| models.iter().any(|known| known == model)), "{created}");
    let session = created["sessionId"].as_str().expect("an id").to_owned();
    set(&mut editor, &session, "model", "openai/small");
    let id = editor.prompt(&session, "hello");
    let exchange = peer.accept();
    assert_eq!(exchange.request().json()["model"], "small");
    exchange.stream().text("hi").finish("stop").done();
    editor.until_response(id);
}

#[test]
fn a_session_begins_where_the_server_lists_no_models() {
    let peer = Peer::start();
    let (_home, mut editor, created) = created_with_list(&peer, 404, "{}");
    let session = created["sessionId"].as_str().expect("an id").to_owned();
    assert_eq!(value(&set(&mut editor, &session, "model", "openai/other"), "model"), "openai/other");
}

#[test]
fn what_somebody_else_has_chosen_is_told_after_a_prompt() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let session = editor.session(&home);
    editor.turn(&session, "hello", "");
    let mut other = Editor::start(&home, &[]);
    other.call("session/load", json!({"sessionId": session, "cwd": home.directory.path(), "mcpServers": []}));
    set(&mut other, &session, "thinking", "low");
    let all = editor.turn(&session, "hello", "");
    assert_eq!(stop_reason(&all), "end_turn");
    let update = all.iter().find(|message| message["params"]["update"]["sessionUpdate"] == "config_option_update");
    assert_eq!(value(&update.expect("an update")["params"]["update"], "thinking"), "low");
}

#[test]
fn a_deleted_conversation_is_gone() {
    let home = Home::new();
    let mut editor = Editor::start(&home, &[]);
    let [kept, deleted] = [(); 2].map(|()| {
        let session = editor.session(&home);
        editor.turn(&session, "hello", "");
        session
    });
    editor.call("session/delete", json!({"sessionId": deleted}));
    let listed = editor.call("session/list", json!({}));
    let listed: Vec<_> = listed["sessions"].as_array().expect("sessions").iter().map(|row| &row["sessionId"]).collect();
    assert_eq!(listed, [&kept]);
    // Nor is it an error to delete what is gone, or what another name of the conversation says.
    for unknown in [&*deleted, "1", "nothing"] {
        editor.call("session/delete", json!({"sessionId": unknown}));
    }
    editor.prompt(&kept, "%tool bash {\"command\":\"trap '' TERM; sleep 30\"}\n%next\nDone.");
    let question = editor.question();
    editor.answer(&question, "allow_once");
    editor.until("it runs", |message| message["params"]["update"]["status"] == "in_progress");
    editor.call("session/delete", json!({"sessionId": kept}));
    assert_eq!(editor.call("session/list", json!({}))["sessions"], json!([]));
}

#[test]
fn without_a_model_an_editor_is_told_how_to_get_one_and_goes_on_with_it() {
    let peer = Peer::start();
    let mut home = Home::new();
    home.variables.push(("POLYLOGUE_MODEL".into(), "anthropic/claude-haiku-4-5".into()));
    let mut editor = Editor::silent(&home, &[]);
    let capabilities = json!({"auth": {"terminal": true}});
    let started = editor.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
    let methods = started["authMethods"].as_array().expect("methods");
    assert_eq!(methods.iter().map(|method| &method["id"]).collect::<Vec<_>>(), ["configuration", "setup"]);
    assert!(methods[0]["description"].as_str().is_some_and(|text| text.contains("ANTHROPIC_API_KEY")), "{started}");
    let new = json!({"cwd": home.directory.path(), "mcpServers": []});
    for method in ["session/new", "authenticate"] {
        let (code, message) = editor.refused(method, new.clone());
        assert!(code == -32000 && message.contains("ANTHROPIC_API_KEY"), "{code} {message}");
    }
    // What others do in this loop goes on meanwhile.
    let listed = editor.ask("session/list", json!({}));
    let refused = editor.ask("session/new", new.clone());
    let answers = editor.until_response(refused);
    let answers = if answers.iter().any(|one| one["id"] == listed) { answers } else { editor.until_response(listed) };
    assert!(answers.iter().any(|one| one["id"] == listed && one.get("error").is_none()), "{answers:?}");
    let provider = format!("[providers.anthropic]\napi_key_command = \"echo secret\"\nbase_url = \"{}\"\n", peer.url());
    write(&home, ".config/polylogue/config.toml", &provider);
    editor.call("authenticate", json!({"methodId": "configuration"}));
    let session = editor.session(&home);
    let id = editor.prompt(&session, "hello");
    let exchange = peer.accept();
    crate::support::anthropic::Message::begin(&exchange).text("hi").end("end_turn");
    let all = editor.until_response(id);
    assert_eq!((stop_reason(&all), text(&all, "agent_message_chunk").as_str()), ("end_turn", "hi"));
}
