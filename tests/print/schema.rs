//! `--schema`: answers that conform to a JSON schema. `--set`: parameters of one run.

use serde_json::{Value, json};

use super::Home;
use super::served::Server;
use crate::support::peer::Peer;

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

/// The path of the schema in this home.
fn schema(home: &Home) -> String {
    let path = home.data().parent().expect("a directory").join("schema.json");
    std::fs::write(&path, SCHEMA).expect("a file");
    path.display().to_string()
}

#[test]
fn an_answer_is_asked_for_in_the_form_of_the_schema_and_checked() {
    let format = |request: &Value| request["response_format"]["json_schema"]["schema"].clone();
    for (answer, code, error) in [
        ("{\"n\": 4}", 0, ""),
        ("{\"n\": \"4\"}", 1, "is not of type \"integer\" (at /n)"),
        ("four", 1, "the answer is not JSON"),
    ] {
        let peer = Peer::start();
        let home = Home::with_server(&peer.url());
        let path = schema(&home);
        let program = home.start(&["-p", "--schema", &path, "--output-format", "json", "how many?"]);
        let exchange = peer.accept();
        assert_eq!(format(&exchange.request().json()), serde_json::from_str::<Value>(SCHEMA).unwrap());
        exchange.stream().text(answer).finish("stop").done();
        let output = program.ends();
        assert_eq!(output.code, code, "{output:?}");
        assert!(output.err.contains(error), "{output:?}");
        let kind = if code == 0 { Value::Null } else { "schema".into() };
        assert_eq!((&output.result()["error"]["kind"], &output.result()["text"]), (&kind, &answer.into()));
    }
}

#[test]
fn agents_that_the_model_forks_answer_freely_and_only_the_last_reply_is_checked() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let path = schema(&home);
    let program = home.start(&["-p", "--schema", &path, "fork"]);
    let first = peer.accept();
    first.stream().text("I fork.").tool_call(0, "call-a", "fork", "{\"prompt\":\"child\"}");
    first.finish("tool_calls").done();
    // The run ends with the turn of its own agent: both requests are there before one is answered.
    let requests = [peer.accept(), peer.accept()];
    let (free, bound): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|exchange| exchange.request().json()["response_format"].is_null());
    assert_eq!((bound.len(), free.len()), (1, 1));
    free[0].stream().text("as I like").finish("stop").done();
    bound[0].stream().text("{\"n\":1}").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "I fork.\n{\"n\":1}\n"), "{output:?}");
}

#[test]
fn a_model_whose_protocol_has_no_form_gets_the_schema_in_the_prompt() {
    let home = Home::new();
    let path = schema(&home);
    let output = home.run(&["-p", "--schema", &path, "hello"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.out.contains("conforms to this JSON schema:") && output.err.contains("not JSON"), "{output:?}");
}

#[test]
fn an_invalid_schema_is_an_error_before_any_request() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let path = schema(&home);
    std::fs::write(&path, r#"{"type": "integers"}"#).expect("a file");
    for (file, error) in [(path.as_str(), "is not a valid JSON schema"), ("/none.json", "No such file")] {
        let output = home.run(&["-p", "--schema", file, "hello"]);
        assert_eq!(output.code, 2, "{output:?}");
        assert!(output.err.contains(error), "{output:?}");
    }
    assert!(home.run(&["--schema", &path, "hello"]).err.contains("--print"));
    assert!(peer.try_accept().is_none());
}

#[test]
fn a_running_server_asks_in_the_form_of_the_schema_and_with_the_parameters() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let _server = Server::at(&home);
    let path = schema(&home);
    let program =
        home.start(&["-p", "--schema", &path, "--set", "temperature=0", "--set", "body.top_k=3", "how many?"]);
    let exchange = peer.accept();
    let request = exchange.request().json();
    assert_eq!((&request["temperature"], &request["top_k"]), (&json!(0), &json!(3)));
    assert_eq!(request["response_format"]["type"], "json_schema");
    exchange.stream().text("[]").finish("stop").done();
    let output = program.ends();
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("is not of type \"object\""), "{output:?}");
    let refused = home.run(&["-p", "-c", "--schema", &path, "again"]);
    assert!(refused.code == 2 && refused.err.contains("leave out --continue"), "{refused:?}");
    let refused = home.run(&["-p", "--set", "seed=x", "again"]);
    assert!(refused.code == 2 && refused.err.contains("--set: invalid value"), "{refused:?}");
}

#[test]
fn parameters_of_the_command_line_are_sent() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let mut commands = vec![&["-p", "--set", "temperature=0", "--set", "thinking=low", "hello"][..]];
    if cfg!(feature = "coordinator") {
        commands.push(&[
            "multi-agent",
            "run",
            "--set",
            "temperature=0",
            "--set",
            "thinking=low",
            "--count",
            "1",
            "hello",
        ]);
    }
    for args in commands {
        let program = home.start(args);
        let exchange = peer.accept();
        let request = exchange.request().json();
        assert_eq!((&request["temperature"], &request["reasoning_effort"]), (&json!(0), &json!("low")), "{args:?}");
        exchange.stream().text("fine").finish("stop").done();
        assert_eq!(program.ends().code, 0);
    }
    let refused = home.run(&["-p", "--set", "temperature=9", "hello"]);
    assert!(refused.code == 2 && refused.err.contains("expected a number from 0 to 2"), "{refused:?}");
}
