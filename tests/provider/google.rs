//! Golden request bodies in `fixtures/requests/google`, headers and URLs of the Gemini API.

use std::time::Duration;

use polylogue::config::{Endpoint, Secret, Thinking};
use polylogue::{ErrorKind, Result, ToolResult};

use super::assert_golden;
use crate::support::internals::provider::{Conversation, ProviderRequest, find};
use crate::support::internals::{Body, HttpRequest, Message, MessageId, Reply, Signature, ToolCall, ToolDeclaration};
use crate::support::{harness, validity};

const TOOLS: &[ToolDeclaration] = &[
    ToolDeclaration {
        name: "read_file",
        description: "Reads a file.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#,
    },
    ToolDeclaration { name: "bash", description: "Runs \"it\".", parameters: r#"{"type":"object"}"# },
];

fn endpoint() -> Endpoint {
    harness::endpoint("google", "gemini-3.8-flash", "https://host/v1beta")
}

struct Asked<'a> {
    endpoint: Endpoint,
    thinking: Thinking,
    system: &'a str,
    tools: &'a [ToolDeclaration<'a>],
}

impl Default for Asked<'_> {
    fn default() -> Self {
        Self { endpoint: endpoint(), thinking: Thinking::Unspecified, system: "", tools: &[] }
    }
}

impl Asked<'_> {
    fn open(&self, bodies: &[Body]) -> Result<HttpRequest> {
        let log: Vec<_> =
            bodies.iter().map(|body| Message { id: MessageId(0), body: body.clone(), created_at: 0 }).collect();
        let messages: Vec<_> = log.iter().collect();
        let (key, system) = (self.endpoint.key.as_ref(), self.system);
        let Self { endpoint, thinking, tools, .. } = self;
        let conversation = Conversation { endpoint, key, thinking: *thinking, system, messages: &messages, tools };
        match (find("google").expect("a provider").build_request)(&conversation)? {
            ProviderRequest::Http(request) => Ok(request),
            other => panic!("no request: {other:?}"),
        }
    }

    fn body(&self, bodies: &[Body]) -> String {
        String::from_utf8(self.open(bodies).expect("a request").body.to_vec()).expect("text")
    }
}

fn user(text: &str) -> Body {
    Body::User(text.into())
}

/// A reply of the same model, with a signature on the next call.
fn reply(text: &str, signature: &str) -> Body {
    let json = format!("{{\"thoughtSignature\":{signature:?}}}");
    let signatures = vec![Signature { text: text.len(), calls: 0, json }];
    Body::Assistant(Reply {
        text: text.into(),
        thinking: "hm".into(),
        signatures,
        by: endpoint().full_name(),
        ..Reply::default()
    })
}

fn of_another(text: &str) -> Body {
    Body::Assistant(Reply { text: text.into(), by: "other/model".into(), ..Reply::default() })
}

fn call(id: &str, name: &str, arguments: &str) -> Body {
    Body::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
}

fn result(id: &str, content: &str, is_error: bool) -> Body {
    let (name, content) = ("bash".into(), content.into());
    Body::ToolResult(ToolResult { call_id: id.into(), name, content, is_error, duration: Duration::ZERO })
}

/// Two steps of one turn, then another message of the user.
fn long_talk() -> Vec<Body> {
    vec![
        user("What is in \"a\"?\nAnd c?"),
        reply("I look.", "Zmlyc3Q="),
        call("k1", "read_file", r#"{"path": "a", "limit": 3}"#),
        call("k2", "read_file", r#"{"path":"c"}"#),
        result("k1", "alpha", false),
        result("k2", "no such file 😀", true),
        reply("", "c2Vjb25k"),
        call("k3", "bash", "{}"),
        result("k3", "", false),
        Body::Assistant(Reply {
            text: "Done.".into(),
            signatures: vec![Signature { text: 5, calls: 0, json: r#"{"thoughtSignature":"ZW5k","bytes":0}"#.into() }],
            by: endpoint().full_name(),
            ..Reply::default()
        }),
        user("Thanks"),
    ]
}

#[test]
fn bodies_are_the_golden_ones_and_valid() {
    let talk = long_talk();
    let plain = Asked::default();
    let all = Asked { system: "Be brief.", tools: TOOLS, thinking: Thinking::High, ..Asked::default() };
    let older = Endpoint { model: "gemini-2.5-flash".into(), ..endpoint() };
    let moved =
        [user("go"), of_another("I look."), call("a", "bash", "{}"), call("b", "bash", "{}"), result("a", "x", false)];
    let over = [&moved[..], &[user("and?"), of_another("yes"), user("so?")]].concat();
    let odd = [
        user("go"),
        call("", "9 lives", ""),
        call("", "", "[1]"),
        call("", "f", r#"{"a":"\ud800"}"#),
        result("", "x", true),
    ];
    let cases = [
        ("text", plain.body(&[user("Hello")])),
        ("system-tools-thinking", all.body(&[user("Hello")])),
        ("tool-rounds", all.body(&talk)),
        ("tools-disabled", plain.body(&talk[..9])),
        ("calls-of-another-model", plain.body(&moved)),
        ("calls-of-another-model-in-a-turn-that-is-over", plain.body(&over)),
        ("no-substitute-for-2.5", Asked { endpoint: older.clone(), ..Asked::default() }.body(&moved)),
        (
            "budget-for-2.5",
            Asked { endpoint: older, thinking: Thinking::Budget(2000), ..Asked::default() }.body(&talk[..1]),
        ),
        ("odd-names-and-arguments", plain.body(&odd)),
        ("ends-with-a-reply", plain.body(&talk[..10])),
        ("begins-with-a-reply", plain.body(&[of_another("as I said"), user("what?")])),
    ];
    assert_golden("google", cases);
}

#[test]
fn a_model_that_requires_signatures_gets_one_on_the_first_call_of_each_step() {
    let asked = Asked::default();
    let mut log = vec![user("go")];
    for (id, by) in [("a", of_another("first")), ("b", reply("second", "bWluZQ==")), ("c", of_another("third"))] {
        log.extend([by, call(id, "bash", "{}"), call("z", "bash", "{}"), result(id, "x", false)]);
        let body = asked.body(&log);
        assert_eq!(validity::google::check_signatures(body.as_bytes()), Ok(()), "{body}");
    }
    let body = asked.body(&log);
    assert_eq!(body.matches("thoughtSignature").count(), 3, "one for each step: {body}");
    assert!(body.contains("bWluZQ=="), "{body}");
}

#[test]
fn a_longer_conversation_begins_with_the_bytes_of_the_shorter_one() {
    let asked = Asked { system: "Be brief.", tools: TOOLS, ..Asked::default() };
    let talk = long_talk();
    for shorter in [1, 6, 9] {
        let before = asked.body(&talk[..shorter]);
        let before = before.split("],\"tools\":").next().expect("contents");
        assert!(asked.body(&talk).starts_with(before), "after {shorter} messages");
    }
}

#[test]
fn the_key_is_only_in_its_header() {
    let keyless = Asked::default().open(&[user("hi")]).expect("a request");
    let names: Vec<&str> = keyless.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Content-Type", "Accept"]);

    let with_key = Endpoint { key: Some(Secret::new("AIza-test\n")), ..endpoint() };
    let request = Asked { endpoint: with_key, ..Asked::default() }.open(&[user("hi")]).expect("a request");
    assert!(request.headers.contains(&("x-goog-api-key".into(), "AIza-test".into())));
    assert!(!request.url.contains("AIza") && !String::from_utf8_lossy(&request.body).contains("AIza"));
}

#[test]
fn the_name_of_a_model_cannot_change_the_path() {
    let url = |model: &str, base_url: &str| {
        let endpoint = Endpoint { model: model.into(), base_url: base_url.into(), ..endpoint() };
        Asked { endpoint, ..Asked::default() }.open(&[user("hi")]).map(|request| request.url)
    };
    let models = [
        ("gemini-3.8-flash", "gemini-3.8-flash"),
        ("models/gemini-3.8-flash", "gemini-3.8-flash"),
        ("../../v1/files?x=1#y", "..%2F..%2Fv1%2Ffiles%3Fx%3D1%23y"),
        ("a:b ü%2F", "a%3Ab%20%C3%BC%252F"),
    ];
    for (model, segment) in models {
        let expected = format!("https://host/v1beta/models/{segment}:streamGenerateContent?alt=sse");
        assert_eq!(url(model, "https://host/v1beta/"), Ok(expected), "{model}");
    }
    let expected = "http://gateway/google/models/m:streamGenerateContent?team=a&alt=sse";
    assert_eq!(url("m", "http://gateway/google?team=a"), Ok(expected.into()));
    assert_eq!(url("", "https://host/v1beta").unwrap_err().kind, ErrorKind::Usage);
    assert_eq!(url("m", "host/v1beta").unwrap_err().kind, ErrorKind::Usage);
}

#[test]
fn invalid_requests_are_errors() {
    let asked = Asked::default();
    for log in [vec![], vec![user(" ")], vec![reply("", "x")], vec![result("a", "x", false)]] {
        assert_eq!(asked.open(&log).unwrap_err().kind, ErrorKind::BadRequest);
    }
    let off = Asked { thinking: Thinking::Off, ..Asked::default() };
    assert_eq!(off.open(&[user("hi")]).unwrap_err().kind, ErrorKind::Usage, "the model would reject it");
}
