//! A model is changed in the middle of a conversation with thinking and tool calls: from each protocol to each other,
//! and back. What the first provider gave for itself alone stays with it.

use std::time::Duration;

use polylogue::ToolResult;
use polylogue::config::{Endpoint, Secret, Thinking};

use crate::provider::assert_golden;
use crate::support::internals::provider::{Conversation, PROVIDERS, ProviderRequest, find};
use crate::support::internals::{Body, HttpRequest, Message, MessageId, Reply, Signature, ToolCall, ToolDeclaration};
use crate::support::validity;

/// The signatures of a provider in a reply of this text that begins with thinking and ends with calls: a position in the
/// text, and the piece itself, in which `ROUND` is replaced by a number of its own.
type Signed = &'static [(usize, &'static str)];

/// A protocol with a model that thinks.
struct Model {
    kind: &'static str,
    name: &'static str,
    /// A word in everything that is its provider's alone: signatures, key, base URL, headers.
    mark: &'static str,
    signatures: Signed,
}

const MODELS: &[Model] = &[
    Model {
        kind: "openai",
        name: "gpt-5-mini",
        mark: "quartz",
        signatures: &[(
            7,
            r#"{"reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"quartz-signature"}]}"#,
        )],
    },
    Model {
        kind: "anthropic",
        name: "claude-sonnet-4-5",
        mark: "basalt",
        signatures: &[(0, r#"{"type":"thinking","thinking":"hm","signature":"basalt-signature"}"#)],
    },
    Model {
        kind: "openai-responses",
        name: "gpt-5-mini",
        mark: "granite",
        signatures: &[(
            0,
            r#"{"type":"reasoning","id":"rs_ROUND","summary":[],"encrypted_content":"granite-signature"}"#,
        )],
    },
    Model {
        kind: "google",
        name: "gemini-3.8-flash",
        mark: "marble",
        signatures: &[
            (6, r#"{"thoughtSignature":"marble-signature-on-text","bytes":1}"#),
            (7, r#"{"thoughtSignature":"marble-signature-on-call"}"#),
        ],
    },
];

const TOOL: ToolDeclaration =
    ToolDeclaration { name: "bash", description: "Runs it.", parameters: r#"{"type":"object"}"# };

/// The protocols that there are, except the one that needs no network.
fn kinds() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().filter(|spec| spec.has_server()).map(|spec| spec.kind)
}

fn model(kind: &str) -> &'static Model {
    MODELS.iter().find(|model| model.kind == kind).unwrap_or_else(|| panic!("no signatures for {kind}"))
}

/// A provider of the person's own that speaks this protocol.
fn endpoint(kind: &str) -> Endpoint {
    let Model { name, mark, .. } = model(kind);
    Endpoint {
        provider: format!("my-{kind}"),
        kind: kind.into(),
        model: (*name).into(),
        base_url: format!("https://{mark}.example/v1"),
        key: Some(Secret::new(&format!("{mark}-key"))),
        headers: vec![("X-Team".into(), format!("{mark}-team"))],
        ..Endpoint::echo()
    }
}

fn request(kind: &str, log: &[Body]) -> HttpRequest {
    request_to(&endpoint(kind), log)
}

fn request_to(endpoint: &Endpoint, log: &[Body]) -> HttpRequest {
    let log: Vec<_> = log.iter().map(|body| Message { id: MessageId(0), body: body.clone(), created_at: 0 }).collect();
    let messages: Vec<_> = log.iter().collect();
    let conversation = Conversation {
        endpoint,
        key: endpoint.key.as_ref(),
        thinking: Thinking::High,
        system: "Be brief.",
        messages: &messages,
        tools: &[TOOL],
    };
    match (find(&endpoint.kind).expect("a provider").build_request)(&conversation) {
        Ok(ProviderRequest::Http(request)) => request,
        other => panic!("{}: no request: {other:?}", endpoint.kind),
    }
}

/// All bytes of a request, for looking.
fn bytes_of(request: &HttpRequest) -> String {
    let headers: Vec<String> = request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{}\n{}\n\n{}", request.url, headers.join("\n"), String::from_utf8_lossy(&request.body))
}

/// A reply by this protocol's model with text, thinking, signatures and two calls, of which one fails.
fn round_by(kind: &str, round: usize) -> Vec<Body> {
    let signature = |(text, json): &(usize, &str)| Signature {
        text: *text,
        calls: 0,
        json: json.replace("ROUND", &round.to_string()),
    };
    let signatures = model(kind).signatures.iter().map(signature).collect();
    let (text, by) = ("I look.".to_owned(), endpoint(kind).full_name());
    let ids = [format!("{kind}-{round}-a"), format!("{kind}-{round}-b")];
    let call = |id: &String| ToolCall { id: id.clone(), name: "bash".into(), arguments: r#"{"command":"ls"}"#.into() };
    let result = |(index, id): (usize, &String)| ToolResult {
        call_id: id.clone(),
        name: "bash".into(),
        content: format!("result {index}"),
        is_error: index == 1,
        duration: Duration::ZERO,
    };
    let reply = Reply { text, thinking: "hm".into(), is_partial: false, signatures, by };
    let calls = ids.iter().map(call).map(Body::ToolCall);
    let results = ids.iter().enumerate().map(result).map(Body::ToolResult);
    std::iter::once(Body::Assistant(reply)).chain(calls).chain(results).collect()
}

/// A turn in whose middle the model is changed, and the same one round later, with a message after it.
fn conversations(first: &str) -> [Vec<Body>; 2] {
    let begun = [vec![Body::User("go".into())], round_by(first, 0), round_by(first, 1)].concat();
    let reply = Reply { text: "Done.".into(), by: endpoint(first).full_name(), ..Reply::default() };
    let over = [begun.clone(), vec![Body::Assistant(reply), Body::User("and now?".into())]].concat();
    [begun, over]
}

fn assert_valid(kind: &str, request: &HttpRequest, story: &str) {
    let path = request.url.split_once(".example").map_or("", |(_, path)| path);
    assert_eq!(validity::check(kind, &request.body), Ok(()), "{story}");
    assert_eq!(validity::check_path(path, &request.body), Ok(()), "{story}: {path}");
}

#[test]
fn a_conversation_can_continue_with_any_other_model_without_data_of_the_first() {
    for first in kinds() {
        for other in kinds().filter(|other| *other != first) {
            for log in conversations(first) {
                let story = format!("{first} -> {other}");
                let request = request(other, &log);
                assert_valid(other, &request, &story);
                let bytes = bytes_of(&request);
                assert!(bytes.contains("result 0") && bytes.contains("I look."), "{story}: the text is kept: {bytes}");
                assert!(bytes.contains(&format!("{}-key", model(other).mark)), "{story}: {bytes}");
                assert!(!bytes.contains(model(first).mark), "{story}: {bytes}");
            }
        }
    }
}

/// Two turns by each model in turn, with tools and thinking in each.
fn by_all_in_turn() -> Vec<Body> {
    let turn = |(round, kind): (usize, &str)| {
        let reply =
            Reply { text: format!("Turn {round} is done."), by: endpoint(kind).full_name(), ..Reply::default() };
        [vec![Body::User(format!("turn {round}"))], round_by(kind, round), vec![Body::Assistant(reply)]].concat()
    };
    let turns = kinds().chain(kinds()).enumerate().flat_map(turn);
    turns.chain([Body::User("and now?".into())]).collect()
}

#[test]
fn a_conversation_in_which_the_provider_changes_at_every_turn_has_the_golden_bodies() {
    let log = by_all_in_turn();
    for kind in kinds() {
        let request = request(kind, &log);
        assert_valid(kind, &request, kind);
        let bytes = bytes_of(&request);
        for other in kinds() {
            let is_own = bytes.contains(&format!("{}-signature", model(other).mark));
            assert_eq!(is_own, other == kind, "{kind}: {bytes}");
        }
        let body = String::from_utf8(request.body.to_vec()).expect("text");
        assert_golden(kind, [("switched-at-every-turn", body)]);
    }
}

#[test]
fn back_at_the_first_model_its_signatures_are_sent_again() {
    for first in kinds() {
        for other in kinds().filter(|other| *other != first) {
            let story = format!("{first} -> {other} -> {first}");
            let [begun, over] = conversations(first);
            let alone = request(first, &over);
            let further = [begun, round_by(other, 2), vec![Body::User("and now?".into())]].concat();
            let back = request(first, &further);
            assert_valid(first, &back, &story);
            let (alone, back) = (bytes_of(&alone), bytes_of(&back));
            for (_, json) in model(first).signatures {
                let signature = json.split('"').find(|piece| piece.contains("-signature")).expect("a mark");
                assert_eq!(alone.matches(signature).count(), 2, "{story}: both rounds have it: {alone}");
                assert_eq!(back.matches(signature).count(), 2, "{story}: {back}");
            }
            assert!(!back.contains(model(other).mark), "{story}: nothing of the other: {back}");
            let rounds = |bytes: &str| bytes.split("result 1").next().map(str::to_owned);
            assert_eq!(rounds(&back), rounds(&alone), "{story}: the first round is sent as the same bytes");
        }
    }
}

#[test]
fn signatures_are_not_sent_to_other_models_of_the_same_protocol() {
    for kind in kinds() {
        let other_provider = Endpoint { provider: "theirs".into(), ..endpoint(kind) };
        let other_model = Endpoint { model: format!("{}-2", model(kind).name), ..endpoint(kind) };
        for (other, log) in [other_provider, other_model].iter().zip(conversations(kind)) {
            let request = request_to(other, &log);
            assert_valid(kind, &request, kind);
            assert!(!bytes_of(&request).contains("-signature"), "{}: {}", other.full_name(), bytes_of(&request));
        }
    }
}
