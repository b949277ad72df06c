//! The same cases for each protocol, with the real loop and the bytes of `fixtures/sse`, of which the files named `litellm-`
//! or `llmock-` were recorded from servers and the others are constructed from the documentation and the official SDKs. What is
//! expected is in the fixture: text, calls, signatures and usage. The peer checks each request.
//!
//! | case | where |
//! |---|---|
//! | first turn, tools, parallel tools, thinking across a turn with tools, usage | here |
//! | refused keys, transient errors, cuts, slow first byte, empty replies, 20 agents, 1 MB | here |
//! | cut by length or by a filter, errors and malformed data in the middle, too long | `ends` |
//! | interrupts, kills, crashes, rewinds and what else may happen in any state | `events`, `walk` |
//! | another provider at every turn, with tools and thinking in the history | `switching` |
//! | images and PDF files | `files` |
//! | tokens and cost of a day | `usage` |

mod ends;

use std::path::Path;
use std::time::Duration;

use polylogue::config::Policy;
use serde_json::Value;

use super::kinds::{KINDS, Kind, Piece};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, State, Wait};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{app_with_agents, assert_shows};

/// The fixtures of one protocol.
struct Cases {
    kind: Kind,
    text: &'static str,
    call: &'static str,
    parallel: &'static [&'static str],
    thinking: &'static [&'static str],
    usage: &'static [&'static str],
    cut_text: &'static str,
    cut_call: &'static str,
    /// Nothing at all, and a reply that is said to be complete.
    empty: [&'static str; 2],
    refused: &'static str,
    transient: &'static [&'static str],
}

const TABLE: [Cases; 4] = [
    Cases {
        kind: Kind::OpenAi,
        text: "llmock-text",
        call: "llmock-call",
        parallel: &[
            "llmock-parallel-calls",
            "parallel-calls-interleaved",
            "litellm-claude-parallel-calls",
            "litellm-gemini-parallel-calls",
        ],
        thinking: &[
            "litellm-claude-thinking-and-calls",
            "litellm-gemini-call-with-signature",
            "reasoning-details-openrouter",
        ],
        usage: &["usage-with-choice", "litellm-claude-cached"],
        cut_text: "llmock-truncated",
        cut_call: "cut-in-call",
        empty: ["empty", "litellm-claude-empty"],
        refused: "llmock-bad-key",
        transient: &[
            "llmock-rate-limit",
            "llmock-unavailable",
            "llmock-malformed-at-once",
            "429-rate-limit",
            "503-empty",
            "litellm-claude-rate-limit",
            "litellm-claude-overloaded",
        ],
    },
    Cases {
        kind: Kind::Anthropic,
        text: "llmock-text",
        call: "llmock-call",
        parallel: &["llmock-parallel-calls", "calls-interleaved"],
        thinking: &["interleaved-thinking", "litellm-reasoning-and-call"],
        usage: &["cached", "litellm-usage"],
        cut_text: "llmock-truncated",
        cut_call: "cut-in-call",
        empty: ["empty", "litellm-empty"],
        refused: "llmock-bad-key",
        transient: &[
            "llmock-rate-limit",
            "llmock-unavailable",
            "llmock-malformed-at-once",
            "429",
            "529",
            "litellm-rate-limit",
        ],
    },
    Cases {
        kind: Kind::Responses,
        text: "llmock-text",
        call: "llmock-call",
        parallel: &["llmock-parallel-calls", "calls-interleaved"],
        thinking: &["reasoning-and-call"],
        usage: &["cached-tokens", "litellm-usage"],
        cut_text: "llmock-truncated",
        cut_call: "cut-in-call",
        empty: ["empty", "litellm-empty"],
        refused: "llmock-bad-key",
        transient: &[
            "llmock-rate-limit",
            "llmock-unavailable",
            "llmock-malformed-at-once",
            "429",
            "502-html",
            "litellm-rate-limit",
        ],
    },
    Cases {
        kind: Kind::Google,
        text: "llmock-text",
        call: "llmock-call",
        parallel: &["llmock-parallel-calls", "parallel-calls-several-chunks", "litellm-parallel-calls"],
        thinking: &["call-with-signature"],
        usage: &["usage-cached-and-tools"],
        cut_text: "llmock-truncated",
        cut_call: "cut-after-call",
        empty: ["empty", "litellm-empty"],
        refused: "400-key",
        transient: &[
            "llmock-rate-limit",
            "llmock-unavailable",
            "llmock-malformed-at-once",
            "429-rate-limit",
            "503-list",
            "litellm-rate-limit",
        ],
    },
];

/// A response and the events that it means.
struct Recorded {
    bytes: Vec<u8>,
    meaning: Value,
}

impl Recorded {
    fn of(kind: Kind, case: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sse").join(kind.name());
        let read =
            |end: &str| std::fs::read(folder.join(format!("{case}.{end}"))).unwrap_or_else(|e| panic!("{case}: {e}"));
        Self { bytes: read("sse"), meaning: serde_json::from_slice(&read("json")).expect("JSON") }
    }

    fn answer(&self, exchange: &Exchange) {
        let retry_after = self.meaning["retry_after"].to_string();
        let mut headers = vec![("content-type", self.meaning["content_type"].as_str().unwrap_or_default())];
        if self.meaning["retry_after"].is_number() {
            headers.push(("retry-after", &retry_after));
        }
        let status = self.meaning["status"].as_u64().expect("a status").try_into().expect("a status");
        exchange.head(status, &[headers, vec![("transfer-encoding", "chunked")]].concat());
        // An empty chunk would be the last one.
        if !self.bytes.is_empty() {
            exchange.body(&self.bytes);
        }
        exchange.end();
    }

    fn events(&self) -> impl Iterator<Item = &Value> {
        self.meaning["events"].as_array().expect("events").iter()
    }

    fn text(&self) -> String {
        self.events().filter_map(|event| event["text"].as_str()).collect()
    }

    /// The first event of each call.
    fn calls(&self) -> Vec<&Value> {
        self.events().filter(|event| event.get("call").is_some() && event["name"] != "").collect()
    }
}

fn app(kind: Kind, peer: &Peer) -> Harness {
    Harness::new(plan(kind, peer))
}

fn plan(kind: Kind, peer: &Peer) -> Plan {
    let entry = kind.entry(peer);
    let endpoint = entry.endpoint(kind.model());
    Plan { endpoint, providers: vec![entry], policy: Policy::Auto, size: Some((100, 40)), ..Plan::default() }
}

/// Answers with a plain text and waits for the end of the turn.
fn ends(app: &mut Harness, peer: &Peer, cases: &Cases) -> Value {
    let exchange = app.accept(peer);
    let recorded = Recorded::of(cases.kind, cases.text);
    recorded.answer(&exchange);
    app.turn_until_idle();
    assert_eq!(app.replies(0).last(), Some(&recorded.text()), "{}", cases.text);
    exchange.request().json()
}

/// Sends the retry that the agent waits for.
fn retries(app: &mut Harness, story: &str) {
    app.turn_until(story, |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
    app.advance(Duration::from_secs(3600));
}

/// Results of calls in a request.
fn results_in(kind: Kind, request: &Value) -> usize {
    let mark = match kind {
        Kind::OpenAi => "\"role\":\"tool\"",
        Kind::Anthropic => "\"type\":\"tool_result\"",
        Kind::Responses => "\"type\":\"function_call_output\"",
        Kind::Google => "\"functionResponse\":",
    };
    request.to_string().matches(mark).count()
}

#[test]
fn first_turn_and_the_next_one() {
    for cases in TABLE {
        let peer = Peer::start();
        let mut app = app(cases.kind, &peer);
        app.enter("the first question");
        assert!(ends(&mut app, &peer, &cases).to_string().contains("the first question"));
        app.enter("the second question");
        let request = ends(&mut app, &peer, &cases).to_string();
        assert!(request.contains(&Recorded::of(cases.kind, cases.text).text()), "{request}");
    }
}

#[test]
fn calls_are_answered_each_once() {
    for cases in TABLE {
        for case in [cases.call].iter().chain(cases.parallel) {
            let peer = Peer::start();
            let mut app = app(cases.kind, &peer);
            app.enter("go");
            let recorded = Recorded::of(cases.kind, case);
            recorded.answer(&app.accept(&peer));
            let request = ends(&mut app, &peer, &cases);
            let calls = recorded.calls();
            assert_eq!(results_in(cases.kind, &request), calls.len(), "{case}: {request}");
            assert!(
                !calls.is_empty() && calls.iter().all(|call| request.to_string().contains(&call["name"].to_string()))
            );
        }
    }
}

/// Signatures and encrypted reasoning in what is stored of a reply.
fn secrets_in(value: &Value) -> Vec<&str> {
    const NAMES: [&str; 6] =
        ["signature", "data", "encrypted_content", "thoughtSignature", "thought_signature", "reasoning_content"];
    match value {
        Value::Object(object) => object
            .iter()
            .flat_map(|(name, value)| match value.as_str().filter(|_| NAMES.contains(&name.as_str())) {
                Some(text) => vec![text],
                None => secrets_in(value),
            })
            .collect(),
        Value::Array(list) => list.iter().flat_map(secrets_in).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn thinking_goes_back_over_a_turn_with_tools_and_a_restart() {
    for cases in TABLE {
        for case in cases.thinking {
            let peer = Peer::start();
            let mut app = app(cases.kind, &peer);
            app.enter("/thinking high");
            app.enter("go");
            let recorded = Recorded::of(cases.kind, case);
            let signed: Vec<&Value> = recorded.events().filter_map(|event| event.get("signature")).collect();
            let secrets: Vec<&str> = signed.into_iter().flat_map(secrets_in).collect();
            recorded.answer(&app.accept(&peer));
            let request = ends(&mut app, &peer, &cases).to_string();
            assert!(!secrets.is_empty() && secrets.iter().all(|secret| request.contains(secret)), "{case}: {request}");

            let mut app = app.crash_and_restart();
            app.enter("and now?");
            let request = ends(&mut app, &peer, &cases).to_string();
            assert!(secrets.iter().all(|secret| request.contains(secret)), "{case}, restarted: {request}");
        }
    }
}

#[test]
fn usage_is_what_the_server_said() {
    for cases in TABLE {
        for case in cases.usage {
            let peer = Peer::start();
            let mut app = app(cases.kind, &peer);
            app.enter("go");
            let recorded = Recorded::of(cases.kind, case);
            recorded.answer(&app.accept(&peer));
            app.turn_until_idle();
            let last = recorded.events().filter_map(|event| event.get("usage")).last().expect("a usage");
            let tokens = if last.is_array() { last } else { &last["tokens"] };
            let logged = app.log(0).into_iter().find_map(|message| match message.body {
                Body::Usage(usage) => Some([usage.input, usage.cached, usage.output]),
                _ => None,
            });
            assert_eq!(serde_json::to_value(logged).expect("numbers"), *tokens, "{} {case}", cases.kind.name());
        }
    }
}

#[test]
fn a_refused_key_gives_the_message_back_and_transient_errors_are_retried() {
    for cases in TABLE {
        let peer = Peer::start();
        let mut app = app(cases.kind, &peer);
        app.enter("a question");
        Recorded::of(cases.kind, cases.refused).answer(&app.accept(&peer));
        app.turn_until_idle();
        assert_eq!(app.draft(0).text(), "a question", "{}", cases.kind.name());
        for case in cases.transient {
            app.enter("\x15again");
            Recorded::of(cases.kind, case).answer(&app.accept(&peer));
            retries(&mut app, case);
            ends(&mut app, &peer, &cases);
        }
    }
}

#[test]
fn a_cut_text_is_kept_and_a_cut_call_is_not_run() {
    for cases in TABLE {
        for case in [cases.cut_text, cases.cut_call] {
            let peer = Peer::start();
            let mut app = app(cases.kind, &peer);
            app.enter("go");
            let recorded = Recorded::of(cases.kind, case);
            recorded.answer(&app.accept(&peer));
            if recorded.text().is_empty() {
                retries(&mut app, case);
            } else {
                app.turn_until_idle();
                assert_eq!(app.partial_replies(0), [recorded.text()], "{case}");
                app.enter("go on");
            }
            let request = ends(&mut app, &peer, &cases);
            assert_eq!(results_in(cases.kind, &request), 0, "{case}: {request}");
            assert!(!app.kinds(0).contains(&"tool_call"), "{case}");
        }
    }
}

#[test]
fn a_first_byte_after_almost_two_minutes_is_waited_for() {
    for cases in TABLE {
        let peer = Peer::start();
        let mut app = app(cases.kind, &peer);
        app.enter("go");
        let exchange = app.accept(&peer);
        app.advance(Duration::from_secs(119));
        let recorded = Recorded::of(cases.kind, cases.text);
        recorded.answer(&exchange);
        app.turn_until_idle();
        assert_eq!((app.replies(0), app.agent(0).retries()), (vec![recorded.text()], 0), "{}", cases.kind.name());
    }
}

#[test]
fn an_empty_response_is_retried_and_an_empty_reply_is_said() {
    for cases in TABLE {
        let peer = Peer::start();
        let mut app = app(cases.kind, &peer);
        app.enter("go");
        Recorded::of(cases.kind, cases.empty[0]).answer(&app.accept(&peer));
        retries(&mut app, cases.empty[0]);
        Recorded::of(cases.kind, cases.empty[1]).answer(&app.accept(&peer));
        app.turn_until_idle();
        assert_shows(&mut app, "empty");
        app.enter("and now?");
        ends(&mut app, &peer, &cases);
    }
}

#[test]
fn twenty_agents_get_each_its_own_reply() {
    for kind in KINDS {
        let peer = Peer::start();
        let mut app = app_with_agents(20, Plan { working_limit: 20, real_time: true, ..plan(kind, &peer) });
        (0..20).for_each(|n| app.say(n, &format!("from agent-{n};")));
        for _ in 0..20 {
            let exchange = app.accept(&peer);
            let request = exchange.request().json().to_string();
            let n = (0..20).find(|n| request.contains(&format!("from agent-{n};"))).expect("its agent");
            kind.play(&exchange, n, Piece::Ends(&format!("for agent-{n};")));
        }
        app.turn_until("all are answered", |app| (0..20).all(|n| app.state(n) == State::Idle));
        for n in 0..20 {
            assert_eq!(app.replies(n), [format!("for agent-{n};")], "{}", kind.name());
        }
    }
}

#[test]
fn a_megabyte_is_sent_received_and_sent_back() {
    for kind in KINDS {
        let peer = Peer::start();
        let mut app = app(kind, &peer);
        let megabyte = "naïve 😀 ".repeat((1 << 20) / 12 + 1);
        app.say(0, &megabyte);
        let exchange = app.accept(&peer);
        assert!(exchange.request().json().to_string().contains(megabyte.trim()), "{}", kind.name());
        kind.play(&exchange, 1, Piece::Ends(&megabyte));
        app.turn_until_idle();
        assert_eq!(app.replies(0), [megabyte.as_str()], "{}", kind.name());
        app.say(0, "and now?");
        let exchange = app.accept(&peer);
        assert_eq!(exchange.request().json().to_string().matches(megabyte.trim()).count(), 2, "{}", kind.name());
        kind.play(&exchange, 2, Piece::Ends("fine"));
        app.turn_until_idle();
    }
}
