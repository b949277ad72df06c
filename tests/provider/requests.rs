//! Golden request bodies in `fixtures/requests/openai`. Providers cache by bytes, which must not change by accident.

use std::time::Duration;

use polylogue::config::{Endpoint, Secret, SendReasoning, Thinking};
use polylogue::{ErrorKind, Result, ToolResult};
use serde_json::Value;

use super::assert_golden;
use crate::support::harness;
use crate::support::internals::provider::{Conversation, ProviderRequest, find};
use crate::support::internals::{Body, HttpRequest, Message, MessageId, Reply, Signature, ToolCall, ToolDeclaration};

pub const TOOLS: &[ToolDeclaration] = &[
    ToolDeclaration {
        name: "read_file",
        description: "Reads a file.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]}"#,
    },
    ToolDeclaration { name: "bash", description: "Runs \"it\".", parameters: r#"{"type":"object"}"# },
];

fn endpoint() -> Endpoint {
    let openai = harness::endpoint("openai", "some/model", "http://localhost:8080/v1");
    Endpoint { provider: "local".into(), ..openai }
}

fn open(endpoint: &Endpoint, system: &str, bodies: &[Body], tools: &[ToolDeclaration]) -> Result<HttpRequest> {
    let log: Vec<_> =
        bodies.iter().map(|body| Message { id: MessageId(0), body: body.clone(), created_at: 0 }).collect();
    let messages: Vec<_> = log.iter().collect();
    match (find("openai").unwrap().build_request)(&Conversation {
        endpoint,
        key: endpoint.key.as_ref(),
        thinking: Thinking::Unspecified,
        system,
        messages: &messages,
        tools,
    })? {
        ProviderRequest::Http(request) => Ok(request),
        other => panic!("no request: {other:?}"),
    }
}

fn body(system: &str, bodies: &[Body], tools: &[ToolDeclaration]) -> String {
    String::from_utf8(open(&endpoint(), system, bodies, tools).unwrap().body.to_vec()).unwrap()
}

pub fn user(text: &str) -> Body {
    Body::User(text.into())
}

fn reply(text: &str) -> Body {
    Body::Assistant(Reply { text: text.into(), thinking: "never sent back".into(), ..Reply::default() })
}

pub fn partial(text: &str) -> Body {
    Body::Assistant(Reply { text: text.into(), is_partial: true, ..Reply::default() })
}

pub fn call(id: &str, name: &str, arguments: &str) -> Body {
    Body::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
}

pub fn result(id: &str, content: &str) -> Body {
    let (name, content) = ("bash".into(), content.into());
    Body::ToolResult(ToolResult { call_id: id.into(), name, content, is_error: false, duration: Duration::ZERO })
}

/// A conversation with every kind of turn.
pub fn long_talk() -> Vec<Body> {
    vec![
        user("What is in \"a\\b\"?\nAnd c?"),
        reply("I look."),
        call("call_a", "read_file", r#"{"path": "a"}"#),
        call("call_b", "read_file", r#"{"path": "c"}"#),
        result("call_a", "alpha"),
        result("call_b", "naïve 😀"),
        reply(""),
        call("call_c", "bash", "{}"),
        result("call_c", ""),
        reply("Done."),
        user("Thanks"),
    ]
}

#[test]
fn bodies_are_the_golden_ones_and_valid() {
    let case = |name, messages: &[Body], tools| (name, body("", messages, tools));
    let cases: Vec<(&str, String)> = vec![
        case("text", &[user("Hello")], &[]),
        ("system-and-tools", body("Be brief.", &[user("Hello")], TOOLS)),
        ("tool-rounds", body("Be brief.", &long_talk(), TOOLS)),
        ("tools-disabled", body("Be brief.", &long_talk()[..9], &[])),
        case(
            "lost-result",
            &[user("go"), call("a", "bash", "{}"), call("b", "bash", "{}"), result("b", "yes"), user("and?")],
            TOOLS,
        ),
        case("lost-call", &[user("go"), result("gone", "x"), reply("yes"), user("and?")], &[]),
        case("late-result", &[user("go"), call("a", "bash", "{}"), user("hurry"), result("a", "x")], TOOLS),
        case(
            "malformed-arguments",
            &[user("go"), call("a", "bash", "{\"command\": \"l"), result("a", "arguments are malformed")],
            TOOLS,
        ),
        case(
            "odd-names-and-ids",
            &[user("go"), call("", "rm -rf", ""), call("", "", "[]"), result("", "x"), result("", "y")],
            TOOLS,
        ),
        case(
            "ids-used-again",
            &[
                user("go"),
                call("call_0", "bash", "{}"),
                result("call_0", "x"),
                call("call_0", "bash", "{}"),
                result("call_0", "y"),
            ],
            TOOLS,
        ),
        case("two-users", &[user("one"), user("two"), reply(" \n"), user("three")], &[]),
        case("partial", &[user("go"), partial("I was about to"), user("go on")], &[]),
        (
            "system-within",
            body("Be brief.", &[user("go"), reply("yes"), Body::System("mail came".into()), user("and?")], &[]),
        ),
        case("begins-with-a-reply", &[reply("as I said"), user("what?")], &[]),
        case(
            "not-for-the-model",
            &[Body::Command("/help".into()), user("go"), Body::Error("no".into()), Body::Interrupted("esc".into())],
            &[],
        ),
    ];
    assert_golden("openai", cases);
}

/// A reply of the endpoint's own model with this stored.
fn reasoned(text: &str, stored: &str) -> Body {
    let signatures = vec![Signature { text: text.len(), calls: 0, json: stored.into() }];
    let (text, by) = (text.into(), endpoint().full_name());
    Body::Assistant(Reply { text, signatures, by, ..Reply::default() })
}

#[test]
fn reasoning_goes_back_as_the_server_wants_it() {
    let talk = |stored: &str| {
        let foreign = [user("go"), call("a", "bash", "{}"), result("a", "x"), reply("yes"), user("and?")];
        let own = [reasoned("I look.", stored), call("b", "bash", "{}"), result("b", "y"), reasoned("Done.", stored)];
        let next = [user("more"), reasoned("Plain.", stored), user("end")];
        [foreign.as_slice(), own.as_slice(), next.as_slice()].concat()
    };
    let sent = |setting: SendReasoning, stored: &str| {
        let endpoint = Endpoint { send_reasoning: setting, ..endpoint() };
        String::from_utf8(open(&endpoint, "", &talk(stored), TOOLS).unwrap().body.to_vec()).unwrap()
    };
    let details = r#"{"reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"c2ln","index":0}]}"#;
    let blocks = r#"{"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"c2ln"}]}"#;
    let calls = r#"{"calls":[{"extra_content":{"google":{"thought_signature":"c2ln"}},"id":"not a field of ours"}]}"#;
    let cases = [
        ("reasoning-content", sent(SendReasoning::Auto, r#"{"reasoning_content":"hm"}"#)),
        ("reasoning-field", sent(SendReasoning::Auto, r#"{"reasoning":"hm"}"#)),
        ("reasoning-details", sent(SendReasoning::Auto, details)),
        ("reasoning-thinking-blocks", sent(SendReasoning::Auto, blocks)),
        ("reasoning-signature-of-a-call", sent(SendReasoning::Auto, calls)),
        ("reasoning-as-chosen", sent(SendReasoning::ReasoningContent, details)),
        ("reasoning-off", sent(SendReasoning::Off, blocks)),
    ];
    let not_ours = sent(SendReasoning::Auto, r#"{"reasoning_content":5}"#);
    assert_eq!(not_ours, sent(SendReasoning::Off, "{}"), "a damaged row costs its reasoning");
    assert_golden("openai", cases);
}

#[test]
fn a_longer_conversation_begins_with_the_bytes_of_the_shorter_one() {
    let talk = long_talk();
    for shorter in [1, 6, 9, 10] {
        let body_before = body("Be brief.", &talk[..shorter], TOOLS);
        let messages_before = body_before.split("],\"tools\":").next().unwrap();
        assert!(body("Be brief.", &talk, TOOLS).starts_with(messages_before), "after {shorter} messages");
    }
}

#[test]
fn headers_have_a_key_only_if_there_is_one_and_configured_ones_win() {
    let names = |request: &HttpRequest| request.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let keyless = open(&endpoint(), "", &[user("hi")], &[]).unwrap();
    assert_eq!(names(&keyless), ["Content-Type", "Accept"]);

    let with_key = Endpoint { key: Some(Secret::new("sk-test\n")), ..endpoint() };
    let request = open(&with_key, "", &[user("hi")], &[]).unwrap();
    assert!(request.headers.contains(&("Authorization".into(), "Bearer sk-test".into())));

    let own = Endpoint {
        headers: vec![("authorization".into(), "Basic x".into()), ("X-Title".into(), "t".into())],
        ..with_key
    };
    let request = open(&own, "", &[user("hi")], &[]).unwrap();
    assert_eq!(names(&request), ["Content-Type", "Accept", "authorization", "X-Title"]);
}

#[test]
fn an_invalid_header_is_an_error_that_does_not_repeat_it() {
    let key = Endpoint { key: Some(Secret::new("sk-se\ncret")), ..endpoint() };
    let error = open(&key, "", &[user("hi")], &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Auth);
    assert!(!error.message.contains("cret"));

    let header = Endpoint { headers: vec![("X-Team".into(), "a\r\nsecret: b".into())], ..endpoint() };
    let error = open(&header, "", &[user("hi")], &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("X-Team") && !error.message.contains("secret"));
}

#[test]
fn the_url_is_the_base_url_with_the_path_before_a_query() {
    let bases = [
        ("http://localhost:8080/v1", "http://localhost:8080/v1/chat/completions"),
        ("https://host/v1/", "https://host/v1/chat/completions"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host/deployments/x?api-version=1", "https://host/deployments/x/chat/completions?api-version=1"),
    ];
    for (base_url, url) in bases {
        let endpoint = Endpoint { base_url: base_url.into(), ..endpoint() };
        assert_eq!(open(&endpoint, "", &[user("hi")], &[]).unwrap().url, url);
    }
    let endpoint = Endpoint { base_url: "localhost:8080".into(), ..endpoint() };
    assert_eq!(open(&endpoint, "", &[user("hi")], &[]).unwrap_err().kind, ErrorKind::Usage);
}

/// OpenAI's message is quoted in `src/provider/openai/request.rs`.
#[test]
fn a_model_that_supports_tools_only_without_thinking_gets_effort_none() {
    let log = [Message { id: MessageId(0), body: user("go"), created_at: 0 }];
    let messages: Vec<_> = log.iter().collect();
    let open = |model: &str, thinking, tools| -> Result<Value> {
        let endpoint = Endpoint { model: model.into(), ..endpoint() };
        let conversation =
            Conversation { endpoint: &endpoint, key: None, thinking, system: "", messages: &messages, tools };
        match (find("openai").unwrap().build_request)(&conversation)? {
            ProviderRequest::Http(request) => {
                Ok(serde_json::from_slice::<Value>(&request.body).unwrap()["reasoning_effort"].clone())
            }
            other => panic!("no request: {other:?}"),
        }
    };
    for model in ["gpt-5.4", "gpt-5.6-terra", "gpt-6"] {
        assert_eq!(open(model, Thinking::Unspecified, TOOLS), Ok("none".into()), "{model}");
        assert_eq!(open(model, Thinking::Off, TOOLS), Ok("none".into()), "{model}");
        assert_eq!(open(model, Thinking::Unspecified, &[]), Ok(Value::Null), "{model}");
        assert_eq!(open(model, Thinking::High, &[]), Ok("high".into()), "{model}");
        let error = open(model, Thinking::High, TOOLS).unwrap_err();
        assert!(error.message.contains(&format!("/model openai-responses/{model}")), "{}", error.message);
        assert_eq!((find("openai").unwrap().check_thinking)(model, Thinking::High), Err(error));
    }
    for model in ["gpt-5-mini", "gpt-5.2", "openai/gpt-5.6-terra", "qwen3"] {
        assert_eq!(open(model, Thinking::Unspecified, TOOLS), Ok(Value::Null), "{model}");
        assert_eq!(open(model, Thinking::High, TOOLS), Ok("high".into()), "{model}");
    }
}

#[test]
fn an_empty_conversation_is_an_error() {
    for log in [vec![], vec![user(" ")], vec![reply("")], vec![result("a", "x")]] {
        assert_eq!(open(&endpoint(), "Be brief.", &log, TOOLS).unwrap_err().kind, ErrorKind::BadRequest);
    }
}

#[test]
fn the_configured_limit_of_a_reply_is_sent_under_the_name_that_the_server_knows() {
    for (kind, base_url, pointer) in [
        ("openai", "http://localhost:8080/v1", "/max_tokens"),
        ("openai", "https://api.openai.com/v1", "/max_completion_tokens"),
        ("openai-responses", "https://api.openai.com/v1", "/max_output_tokens"),
        ("google", "https://localhost/v1beta", "/generationConfig/maxOutputTokens"),
        ("anthropic", "https://localhost/v1", "/max_tokens"),
    ] {
        let mut endpoint = harness::endpoint(kind, "some-model", base_url);
        endpoint.facts.max_output = Some(4321);
        let message = Message { id: MessageId(0), body: user("hi"), created_at: 0 };
        let request = (find(kind).unwrap().build_request)(&Conversation {
            endpoint: &endpoint,
            key: None,
            thinking: Thinking::Unspecified,
            system: "",
            messages: &[&message],
            tools: &[],
        });
        let Ok(ProviderRequest::Http(request)) = request else { panic!("{kind}") };
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body.pointer(pointer), Some(&4321.into()), "{kind} {base_url}: {body}");
    }
}

#[test]
fn a_fork_has_the_cache_key_of_its_parent_and_only_services_that_know_it_are_sent_one() {
    let message = |id: i64, text: &str| Message { id: MessageId(id), body: user(text), created_at: 1_700_000_000_000 };
    let (first, second, other) = (message(7, "the long file"), message(8, "a question"), message(9, "the long file"));
    let key = |kind: &str, base_url: &str, messages: &[&Message]| -> Value {
        let endpoint = harness::endpoint(kind, "some-model", base_url);
        let thinking = Thinking::Unspecified;
        let conversation =
            Conversation { endpoint: &endpoint, key: None, thinking, system: "", messages, tools: TOOLS };
        match (find(kind).unwrap().build_request)(&conversation) {
            Ok(ProviderRequest::Http(request)) => {
                serde_json::from_slice::<Value>(&request.body).unwrap()["prompt_cache_key"].clone()
            }
            unexpected => panic!("{unexpected:?}"),
        }
    };
    for (kind, base_url) in [
        ("openai", "https://api.openai.com/v1"),
        ("openai-responses", "https://api.openai.com/v1"),
        ("openai", "https://api.mistral.ai/v1"),
    ] {
        let parent = key(kind, base_url, &[&first]);
        assert!(parent.as_str().is_some_and(|key| key.len() <= 64), "{kind} {base_url}: {parent}");
        assert_eq!(key(kind, base_url, &[&first, &second]), parent);
        assert_ne!(key(kind, base_url, &[&other]), parent);
    }
    for base_url in
        ["https://me.openai.azure.com/openai/v1", "https://openrouter.ai/api/v1", "http://localhost:8080/v1"]
    {
        assert_eq!(key("openai", base_url, &[&first]), Value::Null, "{base_url}");
    }
}
