use serde_json::json;

use super::*;
use crate::domain::choices::Opens;
use crate::domain::mcp::Transport;

#[test]
fn requests_of_attached_terminals_survive_a_round_trip() {
    let terminal = TerminalFacts {
        columns: 80,
        rows: 24,
        color: true,
        attributes: true,
        unicode: false,
        is_in_tmux: true,
        can_edit: true,
        can_view: true,
        can_paste: true,
        is_scripted: true,
        abilities: Abilities { has_title: true, ..Abilities::default() },
    };
    for request in [
        Request::Attach {
            opening: Box::new(Opening {
                opens: Opens::New,
                choices: Choices { model: Some("a/b".into()), ..Choices::default() },
                prompt: Some("x".into()),
                sets_up: true,
                ..Opening::default()
            }),
            is_read_only: true,
            terminal,
            directory: Some("/w".into()),
        },
        Request::Keys { keys: vec![0, 0x1b, 0xff], is_last: true },
        Request::Size { columns: 1, rows: 65_535 },
        Request::Redraw,
        Request::Edited { text: Some("a\nb".into()), error: None },
        Request::Pasted { image: vec![0, 0xff], error: None },
    ] {
        assert_eq!(Request::read(request.to_line().as_bytes()), Ok(request));
    }
}

#[test]
fn requests_of_programs_survive_a_round_trip() {
    let agent = || "a".to_owned();
    let from = Some(Position { epoch: "e".into(), number: 7 });
    for request in [
        Request::Follow(Followed::Chunks { agent: agent(), from, last: None, goes_on: true }),
        Request::Follow(Followed::Chunks { agent: agent(), from: None, last: Some(3), goes_on: false }),
        Request::create(NewAgent { directory: Some("/w".into()), is_print_run: true, ..NewAgent::default() }),
        Request::Turn {
            agent: agent(),
            text: "x\n\"".into(),
            max_requests: Some(2),
            approval: None,
            is_attended: true,
            takes_commands: true,
            retry_ms: Some(3),
        },
        Request::Follow(Followed::Commands {
            agent: agent(),
            servers: vec![ClientServer {
                name: "s".into(),
                transport: Transport::Http { url: "http://x".into(), headers: vec![("a".into(), "b".into())] },
            }],
        }),
        Request::Image { agent: agent(), image: vec![1, 2] },
        Request::Team { agent: agent(), plan: json!({"task": "x"}) },
        Request::Cut,
        Request::Open { agent: None, last_in: Some("/w".into()), new: None },
        Request::show("a"),
        Request::run_at("a", ["model", "echo/echo"]),
        Request::run(["undo"]),
        Request::Schema { agent: agent(), schema: serde_json::json!({"type": "object"}) },
        Request::Follow(Followed::Questions),
        Request::Follow(Followed::Idle { agent: agent(), seconds: Some(0.5), with_questions: true }),
    ] {
        assert_eq!(Request::read(request.to_line().as_bytes()), Ok(request));
    }
}

#[test]
fn a_bad_request_is_refused_with_its_name_and_what_is_wrong() {
    let request = |fields: &str| format!("{{\"polylogue\":6,{fields}}}");
    for (line, expected) in [
        ("{".into(), "not JSON"),
        ("{}".into(), "needs \"polylogue\":6"),
        ("{\"polylogue\":1,\"request\":\"ps\"}".into(), "version 6, the client 1"),
        (request("\"request\":\"dance\""), "bad request \"dance\": unknown variant"),
        ("{\"polylogue\":6}".into(), "missing field `request`"),
        (request("\"request\":\"run\",\"agent\":\"a\""), "bad request \"run\": missing field `argv`"),
        (request("\"request\":\"run\",\"agent\":3"), "invalid type: integer `3`, expected a string"),
        (request("\"request\":\"size\",\"columns\":0,\"rows\":1"), "columns and rows must be at least 1"),
        (request("\"request\":\"size\",\"columns\":65536,\"rows\":1"), "invalid value: integer `65536`"),
        (
            request("\"request\":\"follow\",\"of\":\"idle\",\"agent\":\"a\",\"seconds\":-1"),
            "seconds must not be negative",
        ),
        (
            request("\"request\":\"follow\",\"of\":\"chunks\",\"agent\":\"a\",\"from\":{\"n\":1}"),
            "missing field `epoch`",
        ),
        (
            request("\"request\":\"turn\",\"agent\":\"a\",\"text\":\"x\",\"max_requests\":0"),
            "max_requests must be at least 1",
        ),
        (request("\"request\":\"keys\",\"keys\":\"?\""), "keys are not base64"),
    ] {
        let error = Request::read(line.as_bytes()).expect_err(&line);
        assert!(error.message.contains(expected), "{line}: {error}");
    }
    assert!(Request::read(&[0xff, 0xfe]).is_err());
}

#[test]
fn responses_survive_a_round_trip() {
    for response in [
        Response::Done(Value::Null),
        Response::Done(json!([1])),
        Response::Refused { kind: "usage".into(), message: "no".into() },
        Response::Frame("\x1b[2J".into()),
        Response::Suspend {},
        Response::Paste {},
        Response::Edit("a\nb".into()),
        Response::View("a\nb".into()),
        Response::End("detached".into()),
        Response::Missed(3),
        Response::Chunk(json!({"v": 1, "type": "text", "text": "x"})),
    ] {
        assert_eq!(Response::read(response.to_line().as_bytes()), Ok(response));
    }
    for line in ["", "{}", "[]", "{\"ok\"", "{\"dance\":1}", "{\"missed\":-1}"] {
        assert!(Response::read(line.as_bytes()).is_err(), "{line}");
    }
}

#[test]
fn a_request_of_very_many_values_is_refused_before_it_is_read() {
    let many = format!("{{\"polylogue\":1,\"request\":\"agents\",\"x\":[{}1]}}", "[],".repeat(MAX_VALUES));
    let refused = Request::read(many.as_bytes()).unwrap_err().message;
    assert!(refused.contains("more than 100000 values"), "{refused}");
    // Text is one value, whatever is in it.
    let text = serde_json::json!({"a": "[,{\\\"".repeat(MAX_VALUES), "b": [1, 2]}).to_string();
    assert!(!has_more_values(text.as_bytes(), 5) && has_more_values(text.as_bytes(), 3));
}
