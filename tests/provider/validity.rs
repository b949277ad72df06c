//! Every log gives a valid request, for every provider, including logs that no agent would write.

use std::time::Duration;

use polylogue::ToolResult;
use polylogue::config::{Endpoint, Thinking};

use crate::support::internals::provider::{Conversation, PROVIDERS, ProviderRequest, ProviderSpec};
use crate::support::internals::{Body, Message, MessageId, Reply, Signature, ToolCall, ToolDeclaration};
use crate::support::validity::check;

/// The body for this log; `None` for an empty conversation.
fn body_of(spec: &ProviderSpec, model: &str, log: &[Message], thinking: Thinking, tools: usize) -> Option<Vec<u8>> {
    let endpoint = endpoint(spec.kind, model);
    let messages: Vec<&Message> = log.iter().collect();
    let declared = ToolDeclaration { name: "bash", description: "Runs it.", parameters: r#"{"type":"object"}"# };
    let tools = &[declared][..tools];
    let (endpoint, system) = (&endpoint, "be brief");
    let conversation = Conversation { endpoint, key: None, thinking, system, messages: &messages, tools };
    match (spec.build_request)(&conversation) {
        Ok(ProviderRequest::Http(request)) => Some(request.body.to_vec()),
        Ok(other) => panic!("no request: {other:?}"),
        Err(_) => None,
    }
}

fn endpoint(kind: &str, model: &str) -> Endpoint {
    Endpoint { kind: kind.into(), model: model.into(), base_url: "http://host/v1".into(), ..Endpoint::echo() }
}

/// Models with different rules.
fn models_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "anthropic" => &["claude-haiku-4-5", "claude-opus-4-6", "claude-opus-5", "claude-fable-5", "another-maker-s"],
        _ => &["some-model"],
    }
}

/// Signatures in the form of each provider.
fn signatures_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "anthropic" => &[
            r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#,
            r#"{"type":"redacted_thinking","data":"eA=="}"#,
        ],
        "openai-responses" => &[r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"eA=="}"#],
        "google" => &[
            r#"{"thoughtSignature":"eA=="}"#,
            r#"{"thoughtSignature":"eA==","bytes":0}"#,
            r#"{"thoughtSignature":"eA==","bytes":3}"#,
            r#"{"thoughtSignature":"eA==","thought":"hm"}"#,
        ],
        _ => &[
            "{}",
            r#"{"reasoning_content":"hm","calls":[{"extra_content":{}}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"eA=="}]}"#,
            r#"{"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"c2ln"}]}"#,
        ],
    }
}

/// A generator that gives the same numbers every time (Knuth's MMIX constants).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % n).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64)]
    }

    /// Signatures in order, of the same model or another one.
    fn signatures(&mut self, kind: &str, model: &str) -> (Vec<Signature>, String) {
        let mut index = (0, 0);
        let signatures = (0..self.below(4)).map(|_| {
            index = (index.0 + self.below(3) * self.below(4), index.1 + self.below(2));
            Signature { text: index.0, calls: index.1, json: self.pick(signatures_of(kind)).to_owned() }
        });
        let signatures = signatures.collect();
        let by = if self.below(3) == 0 { "another/model".to_owned() } else { endpoint(kind, model).full_name() };
        (signatures, by)
    }

    fn body(&mut self, kind: &str, model: &str) -> Body {
        let long = "x".repeat(90);
        let text = self.pick(&["", "  \n", "hello", "naïve\u{0}\"\\"]).to_owned();
        let id = self.pick(&["", "a", "b", "c", "a-2", "ü.1", long.as_str()]).to_owned();
        let name = self.pick(&["bash", "", "no such tool", long.as_str()]).to_owned();
        match self.below(8) {
            0 => Body::System(text),
            1 => Body::User(text),
            2 => {
                let (signatures, by) = self.signatures(kind, model);
                let is_partial = self.below(2) == 0;
                Body::Assistant(Reply { text, thinking: "hm".into(), is_partial, signatures, by })
            }
            3 | 4 => {
                let arguments = self
                    .pick(&["{}", "{\"a\":", "", "[1]", " {\"a\": 1}", "null", "{} {}", "{\"a\":\"\\ud800\"}"])
                    .to_owned();
                Body::ToolCall(ToolCall { id, name, arguments })
            }
            5 | 6 => {
                let duration = Duration::ZERO;
                Body::ToolResult(ToolResult { call_id: id, name, content: text, is_error: false, duration })
            }
            _ => Body::Error("for a person only".into()),
        }
    }
}

#[test]
fn every_log_gives_a_valid_request() {
    for spec in PROVIDERS.iter().filter(|spec| spec.has_server()) {
        let mut random = Random(1);
        let mut sent = 0;
        for _ in 0..4000 {
            let model = random.pick(models_of(spec.kind));
            let body =
                |random: &mut Random| Message { id: MessageId(0), body: random.body(spec.kind, model), created_at: 0 };
            let log: Vec<Message> = (0..random.below(14)).map(|_| body(&mut random)).collect();
            let thinking = random.pick(&[Thinking::Unspecified, Thinking::Off, Thinking::High, Thinking::Budget(2000)]);
            let tools = random.below(2);
            let Some(body) = body_of(spec, model, &log, thinking, tools) else { continue };
            sent += 1;
            if let Err(rule) = check(spec.kind, &body) {
                panic!("{}: {rule}\nin {}\nof {log:#?}", spec.kind, String::from_utf8_lossy(&body));
            }
        }
        assert!(sent > 2000, "most logs have something to send: {sent}");
    }
}
