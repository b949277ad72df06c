//! Golden request bodies in `fixtures/requests/openai-responses`: positions of reasoning, and its parameters by model.

use polylogue::config::{Endpoint, Secret, Thinking};
use polylogue::{ErrorKind, Result};

use super::assert_golden;
use super::requests::{TOOLS, call, long_talk, partial, result, user};
use crate::support::internals::provider::{Conversation, ProviderRequest, find};
use crate::support::internals::{Body, HttpRequest, Message, MessageId, Reply, Signature, ToolDeclaration};
use crate::support::{harness, validity};

fn endpoint(model: &str) -> Endpoint {
    harness::endpoint("openai-responses", model, "https://host/v1")
}

fn open(
    endpoint: &Endpoint,
    thinking: Thinking,
    system: &str,
    bodies: &[Body],
    tools: &[ToolDeclaration],
) -> Result<HttpRequest> {
    let message = |body: &Body| Message { id: MessageId(0), body: body.clone(), created_at: 0 };
    let log: Vec<Message> = bodies.iter().map(message).collect();
    let messages: Vec<&Message> = log.iter().collect();
    let key = endpoint.key.as_ref();
    let conversation = Conversation { endpoint, key, thinking, system, messages: &messages, tools };
    match (find("openai-responses").unwrap().build_request)(&conversation)? {
        ProviderRequest::Http(request) => Ok(request),
        other => panic!("no request: {other:?}"),
    }
}

fn text_of(request: &HttpRequest) -> String {
    String::from_utf8(request.body.to_vec()).unwrap()
}

/// The body for a reasoning model with the default thinking level.
fn body(system: &str, bodies: &[Body], tools: &[ToolDeclaration]) -> String {
    text_of(&open(&endpoint("gpt-5"), Thinking::Unspecified, system, bodies, tools).unwrap())
}

fn body_thinking(model: &str, thinking: Thinking) -> String {
    text_of(&open(&endpoint(model), thinking, "", &[user("Hello")], &[]).unwrap())
}

/// Reasoning with this number, after this many bytes of text and this many calls.
fn signature(number: usize, text: usize, calls: usize) -> Signature {
    let json =
        format!(r#"{{"encrypted_content":"gAAAA-{number}","id":"rs_{number}","summary":[],"type":"reasoning"}}"#);
    Signature { text, calls, json }
}

/// The phase of a message that ends after this many bytes of text.
fn phase(name: &str, text: usize) -> Signature {
    Signature { text, calls: 0, json: format!(r#"{{"phase":"{name}"}}"#) }
}

fn signed(text: &str, signatures: Vec<Signature>) -> Body {
    let by = endpoint("gpt-5").full_name();
    Body::Assistant(Reply { text: text.into(), thinking: "never sent back".into(), signatures, by, ..Reply::default() })
}

fn case<'a>(name: &'a str, messages: &[Body], tools: &[ToolDeclaration]) -> (&'a str, String) {
    (name, body("", messages, tools))
}

#[test]
fn bodies_are_the_golden_ones_and_valid() {
    let cases: Vec<(&str, String)> = vec![
        case("text", &[user("Hello")], &[]),
        ("system-and-tools", body("Be brief.", &[user("Hello")], TOOLS)),
        ("tool-rounds", body("Be brief.", &long_talk(), TOOLS)),
        ("tools-disabled", body("Be brief.", &long_talk()[..9], &[])),
        case("partial", &[user("go"), partial("I was about to"), user("go on")], &[]),
        case("lost-result", &[user("go"), call("a", "bash", "{}"), user("and?")], TOOLS),
        ("thinking-high", body_thinking("gpt-5", Thinking::High)),
        ("thinking-off", body_thinking("gpt-5.1", Thinking::Off)),
        ("model-that-does-not-reason", body_thinking("gpt-4.1-mini", Thinking::Off)),
    ];
    assert_golden("openai-responses", cases);
}

#[test]
fn bodies_with_reasoning_are_the_golden_ones_and_valid() {
    let cases: Vec<(&str, String)> = vec![
        case("reasoning-and-text", &[user("go"), signed("Yes.", vec![signature(1, 0, 0)]), user("and?")], &[]),
        case(
            "reasoning-and-calls",
            &[
                user("go"),
                signed("", vec![signature(1, 0, 0), signature(2, 0, 1)]),
                call("a", "bash", "{}"),
                call("b", "bash", "{}"),
                result("a", "x"),
                result("b", "y"),
            ],
            TOOLS,
        ),
        case(
            "reasoning-between-text-and-call",
            &[
                user("go"),
                signed("naïve", vec![signature(1, 0, 0), signature(2, 6, 0)]),
                call("a", "bash", "{}"),
                result("a", "x"),
            ],
            TOOLS,
        ),
        case(
            "messages-with-phases",
            &[
                user("go"),
                signed("Naïve.", vec![signature(1, 0, 0), phase("commentary", 7)]),
                call("a", "bash", "{}"),
                result("a", "x"),
                signed("Hm.\n\nDone.", vec![phase("commentary", 3), phase("final_answer", 10)]),
                user("and?"),
            ],
            TOOLS,
        ),
    ];
    assert_golden("openai-responses", cases);
}

#[test]
fn bodies_with_odd_reasoning_are_the_golden_ones_and_valid() {
    let cases: Vec<(&str, String)> = vec![
        case(
            "reasoning-without-what-followed",
            &[user("go"), signed("I look.", vec![signature(1, 0, 0), signature(2, 7, 0)]), user("and?")],
            &[],
        ),
        case("reasoning-alone", &[user("go"), signed("", vec![signature(1, 0, 0)]), user("and?")], &[]),
        case(
            "reasoning-at-invalid-positions",
            &[
                user("go"),
                signed("naïve", vec![signature(1, 3, 9), signature(2, 1, 0), signature(3, 99, 99)]),
                call("a", "bash", "{}"),
                result("a", "x"),
            ],
            TOOLS,
        ),
        case(
            "reasoning-twice",
            &[user("a"), signed("b", vec![signature(1, 0, 0)]), user("a"), signed("b", vec![signature(1, 0, 0)])],
            &[],
        ),
        case(
            "reasoning-that-is-none",
            &[
                user("go"),
                signed(
                    "yes",
                    ["{", "7", r#"{"type":"thinking"}"#]
                        .map(|json| Signature { text: 0, calls: 0, json: json.into() })
                        .into(),
                ),
            ],
            &[],
        ),
    ];
    assert_golden("openai-responses", cases);
}

#[test]
fn reasoning_goes_back_only_to_the_model_that_made_it() {
    let talk = [user("go"), signed("yes", vec![signature(1, 0, 0)]), user("and?")];
    assert!(body("", &talk, &[]).contains("gAAAA-1"));
    for other in [endpoint("gpt-5-mini"), Endpoint { provider: "azure".into(), ..endpoint("gpt-5") }] {
        let request = open(&other, Thinking::Unspecified, "", &talk, &[]).unwrap();
        assert!(!text_of(&request).contains("gAAAA-1"), "{}", other.full_name());
        assert_eq!(validity::check("openai-responses", &request.body), Ok(()));
    }
}

#[test]
fn a_longer_conversation_begins_with_the_bytes_of_the_shorter_one() {
    let mut talk = long_talk();
    talk.extend([signed("Then this.", vec![signature(1, 0, 0)]), user("Yes?")]);
    for shorter in [1, 6, 9, 10, 11, 12] {
        let before = body("Be brief.", &talk[..shorter], TOOLS);
        let items_before = before.split("],\"tools\":").next().unwrap();
        assert!(body("Be brief.", &talk, TOOLS).starts_with(items_before), "after {shorter} messages");
    }
}

#[test]
fn an_unsupported_thinking_level_is_an_error() {
    let check = find("openai-responses").unwrap().check_thinking;
    for model in ["gpt-4o", "openai/gpt-4.1", "ft:gpt-3.5-turbo:org::1", "gpt-5-chat-latest"] {
        assert_eq!(check(model, Thinking::Low).unwrap_err().kind, ErrorKind::Usage, "{model}");
        assert!(check(model, Thinking::Off).is_ok() && check(model, Thinking::Unspecified).is_ok());
        assert!(!body_thinking(model, Thinking::Off).contains("reason"), "{model}");
    }
    for model in ["gpt-5", "o3", "some/model", "gpt-oss-20b"] {
        assert!(check(model, Thinking::High).is_ok());
        assert!(check(model, Thinking::Budget(1)).unwrap_err().message.contains("low, medium or high"));
    }
}

#[test]
fn the_url_and_the_key_follow_the_protocol() {
    for (base_url, url) in [
        ("https://host/v1/", "https://host/v1/responses"),
        ("https://host/v1/responses", "https://host/v1/responses"),
        ("https://host/openai/v1?api-version=preview", "https://host/openai/v1/responses?api-version=preview"),
    ] {
        let key = Some(Secret::new("sk-test"));
        let endpoint = Endpoint { base_url: base_url.into(), key, ..endpoint("gpt-5") };
        let request = open(&endpoint, Thinking::Unspecified, "", &[user("hi")], &[]).unwrap();
        assert_eq!(request.url, url);
        assert!(request.headers.contains(&("Authorization".into(), "Bearer sk-test".into())));
    }
}

#[test]
fn an_empty_conversation_is_an_error() {
    for log in [vec![], vec![user(" ")], vec![signed("", vec![signature(1, 0, 0)])]] {
        let refused = open(&endpoint("gpt-5"), Thinking::Unspecified, "Be brief.", &log, TOOLS).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::BadRequest);
    }
}
