//! What ten forks of one long conversation cost, by a server that has a cache and bills as each provider documents it
//! (platform.claude.com/docs/en/build-with-claude/prompt-caching, developers.openai.com/api/docs/guides/prompt-caching,
//! ai.google.dev/gemini-api/docs/caching).

use std::time::Duration;

use polylogue::config::{Endpoint, Secret};
use polylogue::{Change, Fork};
use serde_json::Value;

use crate::models::usage::{Said, reply};
use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::internals::State;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::turn_a_while;

/// About so many bytes are a token.
const TOKEN: usize = 4;
/// What is shorter is not cached.
const LEAST_TOKENS: usize = 1_024;
const FORKS: usize = 10;

/// The parts of a request in the order in which they are cached, and whether a part is marked as the end of a prefix.
fn parts(kind: &str, body: &Value) -> Vec<(String, bool)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut parts = list(&body["tools"]);
    match kind {
        "anthropic" => {
            parts.extend(list(&body["system"]));
            for message in list(&body["messages"]) {
                parts.extend(list(&message["content"]).into_iter().map(|mut block| {
                    block["role"] = message["role"].clone();
                    block
                }));
            }
        }
        "google" => {
            parts.push(body["systemInstruction"].clone());
            parts.extend(list(&body["contents"]));
        }
        _ => {
            parts.push(body["instructions"].clone());
            parts.extend(list(&body["input"]).into_iter().chain(list(&body["messages"])));
        }
    }
    let unmarked = |mut part: Value| {
        let mark = part.as_object_mut().and_then(|part| part.remove("cache_control"));
        (part.to_string(), mark.is_some())
    };
    parts.into_iter().map(unmarked).collect()
}

/// The prefixes that later requests can read: their parts and tokens.
#[derive(Default)]
struct Cache(Vec<String>);

impl Cache {
    /// What a request is billed for, and what it writes when its reply begins.
    fn bill(&self, kind: &str, body: &Value) -> (Said, Vec<String>) {
        let (mut prefix, mut ends) = (String::new(), Vec::new());
        for (part, is_marked) in parts(kind, body) {
            prefix += &part;
            // Other providers find the longest prefix themselves.
            if (is_marked || kind != "anthropic") && prefix.len() / TOKEN >= LEAST_TOKENS {
                ends.push(prefix.clone());
            }
        }
        let input = prefix.len() / TOKEN;
        let cached = ends.iter().rev().find(|end| self.0.contains(end)).map_or(0, |end| end.len() / TOKEN);
        let until = ends.last().map_or(0, |end| end.len() / TOKEN);
        let written = if kind == "anthropic" { until.saturating_sub(cached) } else { 0 };
        let [input, cached, written] = [input, cached, written].map(|tokens| tokens as u64);
        (Said { requests: 1, input, cached, written, output: 1, ..Said::default() }, ends)
    }
}

/// In tokens: a cached one costs a tenth. What writing costs more is left out.
fn price(said: &Said) -> f64 {
    (said.input - said.cached) as f64 + said.cached as f64 / 10.0
}

/// Ten forks of a conversation of 100,000 tokens, which was answered so long ago, and the price of each request.
fn prices(kind: &str, age: Duration) -> Vec<f64> {
    let peer = Peer::start();
    let base = format!("http://{}/{}", peer.address(), if kind == "google" { "v1beta" } else { "v1" });
    let endpoint = Endpoint { key: Some(Secret::new("key")), ..endpoint(kind, "some-model", &base) };
    let mut app = Harness::new(Plan { endpoint, ..Plan::default() });
    let mut cache = Cache::default();
    let answer = |cache: &mut Cache, together: Vec<Exchange>| -> Vec<f64> {
        let bill = |exchange: &Exchange| cache.bill(kind, &exchange.request().json());
        let bills: Vec<_> = together.iter().map(bill).collect();
        for (exchange, (said, written)) in together.iter().zip(bills.iter().cloned()) {
            reply(exchange, "fine", false, said);
            cache.0.extend(written);
        }
        bills.iter().map(|(said, _)| price(said)).collect()
    };
    app.say(0, &"some words ".repeat(100_000 * TOKEN / "some words ".len()));
    let whole = app.accept(&peer);
    let whole = answer(&mut cache, vec![whole]);
    app.turn_until("an answer", |app| app.state(0) == State::Idle);
    if age > Duration::from_secs(300) {
        cache = Cache::default();
    }
    app.advance(age);
    for n in 0..FORKS {
        app.ask(0, Change::Fork(Fork { prompt: Some(format!("question {n}")), stays: true, ..Fork::default() }));
    }
    let mut paid = Vec::new();
    while paid.len() < FORKS {
        let first = app.accept(&peer);
        turn_a_while(&mut app);
        let together = std::iter::once(first).chain(std::iter::from_fn(|| peer.try_accept())).collect();
        paid.extend(answer(&mut cache, together));
    }
    app.turn_until_idle();
    let cached: u64 = (1..=FORKS).map(|n| app.agent(n).used.cached).sum();
    assert!(cached > 800_000, "{kind}: the agents know what was cached, {cached} tokens");
    paid.into_iter().map(|price| price / whole[0]).collect()
}

#[test]
fn ten_forks_of_a_long_conversation_cost_at_most_twice_one() {
    for kind in ["anthropic", "openai", "openai-responses", "google"] {
        let of_old = prices(kind, Duration::from_secs(600));
        let sum: f64 = of_old.iter().sum();
        assert!(of_old[0] > 0.99 && sum < 2.0, "{kind}: {of_old:?}");
        let of_new = prices(kind, Duration::from_secs(60));
        assert!(of_new.iter().sum::<f64>() < 1.05, "{kind}, just answered: {of_new:?}");
    }
}
