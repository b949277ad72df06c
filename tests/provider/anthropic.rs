//! Golden request bodies in `fixtures/requests/anthropic`, headers and URLs. Providers cache by bytes, which must not
//! change by accident.

use std::time::Duration;

use polylogue::config::{Endpoint, ModelFacts, Secret, Thinking};
use polylogue::{ErrorKind, Result, ToolResult};
use serde_json::Value;

use super::assert_golden;
use crate::support::harness;
use crate::support::internals::provider::{Conversation, ProviderRequest, find};
use crate::support::internals::{Body, HttpRequest, Message, MessageId, Reply, Signature, ToolCall, ToolDeclaration};

const TOOLS: &[ToolDeclaration] = &[
    ToolDeclaration {
        name: "read_file",
        description: "Reads a file.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]}"#,
    },
    ToolDeclaration { name: "bash", description: "Runs \"it\".", parameters: r#"{"type":"object"}"# },
];

/// The mark of a cached prefix.
const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

#[derive(Clone)]
struct Asked<'a> {
    endpoint: Endpoint,
    thinking: Thinking,
    system: &'a str,
    tools: &'a [ToolDeclaration<'a>],
}

fn asked(model: &str) -> Asked<'static> {
    let endpoint = harness::endpoint("anthropic", model, "https://api.anthropic.com/v1");
    Asked { endpoint, thinking: Thinking::Unspecified, system: "Be brief.", tools: TOOLS }
}

impl Asked<'_> {
    fn thinks(self, thinking: Thinking) -> Self {
        Self { thinking, ..self }
    }

    fn open(&self, bodies: &[Body]) -> Result<HttpRequest> {
        let log: Vec<_> =
            bodies.iter().map(|body| Message { id: MessageId(0), body: body.clone(), created_at: 0 }).collect();
        let messages: Vec<_> = log.iter().collect();
        match (find("anthropic").unwrap().build_request)(&Conversation {
            endpoint: &self.endpoint,
            key: self.endpoint.key.as_ref(),
            thinking: self.thinking,
            system: self.system,
            messages: &messages,
            tools: self.tools,
        })? {
            ProviderRequest::Http(request) => Ok(request),
            other => panic!("no request: {other:?}"),
        }
    }

    fn body(&self, bodies: &[Body]) -> String {
        String::from_utf8(self.open(bodies).unwrap().body.to_vec()).unwrap()
    }

    fn json(&self, bodies: &[Body]) -> Value {
        serde_json::from_str(&self.body(bodies)).unwrap()
    }
}

fn user(text: &str) -> Body {
    Body::User(text.into())
}

fn reply(text: &str) -> Body {
    Body::Assistant(Reply { text: text.into(), thinking: "never sent back".into(), ..Reply::default() })
}

/// A reply of the model `by`, with these signatures: bytes of text and calls before each.
fn signed(by: &str, text: &str, signatures: &[(usize, usize, &str)]) -> Body {
    let signatures =
        signatures.iter().map(|(text, calls, json)| Signature { text: *text, calls: *calls, json: (*json).to_owned() });
    let (text, by) = (text.to_owned(), format!("anthropic/{by}"));
    Body::Assistant(Reply { text, signatures: signatures.collect(), by, ..Reply::default() })
}

fn call(id: &str, name: &str, arguments: &str) -> Body {
    Body::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
}

fn result(id: &str, content: &str, is_error: bool) -> Body {
    let (name, content) = ("bash".into(), content.into());
    Body::ToolResult(ToolResult { call_id: id.into(), name, content, is_error, duration: Duration::ZERO })
}

const SIGNED: &str = r#"{"type":"thinking","thinking":"Hm }","signature":"c2ln"}"#;
const REDACTED: &str = r#"{"type":"redacted_thinking","data":"eA=="}"#;

/// A conversation with every kind of turn.
fn long_talk(model: &str) -> Vec<Body> {
    vec![
        user("What is in \"a\\b\"?\nAnd c?"),
        signed(model, "I look.", &[(0, 0, SIGNED), (0, 0, REDACTED)]),
        call("toolu_a", "read_file", r#"{"path": "a"}"#),
        call("toolu_b", "read_file", r#"{"path": "c"}"#),
        result("toolu_a", "alpha", false),
        result("toolu_b", "naïve 😀", true),
        signed(model, "", &[(0, 0, SIGNED)]),
        call("toolu_c", "bash", "{}"),
        result("toolu_c", "", false),
        reply("Done."),
        user("Thanks"),
    ]
}

#[test]
fn bodies_are_the_golden_ones_and_valid() {
    let (old, new) = (asked("claude-haiku-4-5"), asked("claude-opus-5"));
    let plain = Asked { system: "", tools: &[], ..old.clone() };
    let talk = long_talk("claude-haiku-4-5");
    let between = [(1, 0, SIGNED), (4, 0, REDACTED), (7, 1, SIGNED), (900, 900, SIGNED)];
    let cases: Vec<(&str, String)> = vec![
        ("text", plain.body(&[user("Hello")])),
        ("system-and-tools", old.body(&[user("Hello")])),
        ("tools-without-system", Asked { system: " ", ..old.clone() }.body(&[user("Hello")])),
        ("tool-rounds", old.body(&talk)),
        ("tool-rounds-thinking", old.clone().thinks(Thinking::Low).body(&talk)),
        ("adaptive", new.clone().thinks(Thinking::High).body(&long_talk("claude-opus-5")[..9])),
        ("disabled", new.clone().thinks(Thinking::Off).body(&long_talk("claude-opus-5"))),
        ("bound", asked("claude-sonnet-5-5").body(&long_talk("claude-sonnet-5-5"))),
        ("off-between-tools", asked("claude-sonnet-5-5").thinks(Thinking::Off).body(&long_talk("claude-sonnet-5-5"))),
        ("always", asked("claude-opus-5-5").thinks(Thinking::Off).body(&[user("Hello")])),
        ("tools-disabled", Asked { tools: &[], ..old.clone() }.body(&talk[..9])),
        (
            "signatures-between",
            new.body(&[
                user("go"),
                signed("claude-opus-5", "äbc  \n", &between),
                call("a", "bash", "{}"),
                call("b", "bash", "{}"),
                result("a", "x", false),
                result("b", "y", false),
            ]),
        ),
        (
            "signatures-of-another-model",
            new.body(&[user("go"), signed("claude-opus-4-8", "yes", &[(0, 0, SIGNED)]), user("and?")]),
        ),
        (
            "round-begun-without-thinking",
            old.clone().thinks(Thinking::High).body(&[
                user("go"),
                signed("other", "", &[(0, 0, SIGNED)]),
                call("a", "bash", "{}"),
                result("a", "x", false),
            ]),
        ),
        (
            "lost-result",
            plain.body(&[user("go"), call("a", "bash", "{}"), call("b", "bash", "{\"a\":"), result("b", "yes", false)]),
        ),
        ("late-result", old.body(&[user("go"), call("a", "bash", "{}"), user("hurry"), result("a", "x", false)])),
        ("ends-with-a-reply", plain.body(&[reply("as I said \n"), user("what?"), reply("this \n")])),
    ];
    assert_golden("anthropic", cases);
}

#[test]
fn a_longer_conversation_begins_with_the_bytes_of_the_shorter_one_apart_from_the_marks() {
    let without_marks = |body: String| body.replace(MARK, "");
    for thinking in [Thinking::Unspecified, Thinking::Medium] {
        let asked = asked("claude-haiku-4-5").thinks(thinking);
        let talk = long_talk("claude-haiku-4-5");
        for shorter in [1, 6, 9] {
            let before = without_marks(asked.body(&talk[..shorter]));
            let before = before.strip_suffix("]}").unwrap();
            assert!(without_marks(asked.body(&talk)).starts_with(before), "after {shorter} messages: {before}");
        }
    }
}

#[test]
fn the_next_request_has_a_mark_at_the_end_of_the_previous_one() {
    let (asked, talk) = (asked("claude-haiku-4-5"), long_talk("claude-haiku-4-5"));
    for (before, after) in [(1, 6), (6, 9), (9, 11)] {
        let ends_with = asked.json(&talk[..before])["messages"].as_array().unwrap().last().unwrap().clone();
        let next = asked.json(&talk[..after]);
        assert!(next["messages"].as_array().unwrap().contains(&ends_with), "{before} {after}: {next:#}");
    }
}

#[test]
fn max_tokens_is_that_of_the_model_with_room_for_thinking() {
    let max_tokens = |asked: Asked| asked.json(&[user("hi")])["max_tokens"].as_u64().unwrap();
    assert_eq!(max_tokens(asked("claude-3-haiku-20240307")), 4_096);
    assert_eq!(max_tokens(asked("claude-haiku-4-5")), 32_000);
    assert_eq!(max_tokens(asked("claude-haiku-4-5").thinks(Thinking::Budget(40_000))), 64_000);
    let mut small = asked("claude-haiku-4-5").thinks(Thinking::High);
    small.endpoint.facts = ModelFacts { max_output: Some(4_000), ..ModelFacts::default() };
    let body = small.json(&[user("hi")]);
    assert_eq!((&body["max_tokens"], &body["thinking"]["budget_tokens"]), (&4000.into(), &3500.into()));
}

#[test]
fn headers_have_version_and_key_and_configured_ones_win() {
    let names = |request: &HttpRequest| request.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let mut asked = asked("claude-opus-5");
    let keyless = asked.open(&[user("hi")]).unwrap();
    assert_eq!(names(&keyless), ["Content-Type", "Accept", "anthropic-version"]);
    assert!(keyless.headers.contains(&("anthropic-version".into(), "2023-06-01".into())));

    asked.endpoint.key = Some(Secret::new("sk-ant-test\n"));
    assert!(asked.open(&[user("hi")]).unwrap().headers.contains(&("x-api-key".into(), "sk-ant-test".into())));

    asked.endpoint.headers = vec![("X-Api-Key".into(), "other".into()), ("anthropic-beta".into(), "x".into())];
    let own = asked.open(&[user("hi")]).unwrap();
    assert_eq!(names(&own), ["Content-Type", "Accept", "anthropic-version", "X-Api-Key", "anthropic-beta"]);

    asked.endpoint.model = "claude-opus-5-5".into();
    assert!(!asked.body(&[user("hi")]).contains("block_binding"), "a beta that is not named is refused");
    asked.endpoint.headers.clear();
    let bound = asked.open(&[user("hi")]).unwrap();
    assert!(bound.headers.contains(&("anthropic-beta".into(), "thinking-binding-controls-2026-08-01".into())));

    asked.endpoint.key = Some(Secret::new("sk-se\ncret"));
    let error = asked.open(&[user("hi")]).unwrap_err();
    assert!(error.kind == ErrorKind::Auth && !error.message.contains("cret"), "{error:?}");
}

#[test]
fn the_base_url_may_end_with_or_without_a_version() {
    let bases = [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("https://host/anthropic", "https://host/anthropic/v1/messages"),
        ("https://host/v1/messages", "https://host/v1/messages"),
        ("http://localhost:8080/v2/?a=b", "http://localhost:8080/v2/messages?a=b"),
    ];
    let mut asked = asked("claude-opus-5");
    for (base_url, url) in bases {
        asked.endpoint.base_url = base_url.into();
        assert_eq!(asked.open(&[user("hi")]).unwrap().url, url);
    }
}

#[test]
fn an_empty_conversation_is_an_error() {
    for log in
        [vec![], vec![user(" ")], vec![signed("claude-opus-5", " ", &[(0, 0, SIGNED)])], vec![result("a", "x", true)]]
    {
        assert_eq!(asked("claude-opus-5").open(&log).unwrap_err().kind, ErrorKind::BadRequest);
    }
}
