//! A server of which six replies in ten break in some way: every run ends with exactly the right answer, and a call that
//! was cut never runs. `POLYLOGUE_TEST_CHAOS=1` makes it 200 runs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Home, Program};
use crate::support::internals::Body;
use crate::support::openai;
use crate::support::peer::{Exchange, Peer};
use crate::support::program::Response;
use crate::support::random::Random;

const ANSWER: [&str; 4] = ["The answer", " is forty-two,\n", "as everybody", " knows."];
const OTHER: [&str; 3] = ["It is", " another", " answer."];
const CALL: &str = "{\"file_path\":\"made\",\"content\":\"once\"}";
const PROTOCOLS: [&str; 3] = ["openai", "anthropic", "openai-responses"];
const FORMATS: [&str; 3] = ["text", "json", "stream-json"];

/// How a reply breaks; each of them with one request in ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Truncated,
    NoResponse,
    Disconnected,
    Malformed,
    Limited,
    Overloaded,
}

const FAULTS: [Fault; 6] =
    [Fault::Truncated, Fault::NoResponse, Fault::Disconnected, Fault::Malformed, Fault::Limited, Fault::Overloaded];

/// The events of a reply up to its end, and those of the end.
struct Script {
    begin: Vec<String>,
    end: Vec<String>,
}

fn named(event: Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"))
}

fn half(arguments: &str) -> (&str, &str) {
    arguments.split_at(arguments.len() / 2)
}

impl Script {
    fn of(protocol: &str, texts: &[&str], call: Option<&str>) -> Self {
        match protocol {
            "openai" => Self::openai(texts, call),
            "anthropic" => Self::anthropic(texts, call),
            _ => Self::responses(texts, call),
        }
    }

    fn openai(texts: &[&str], call: Option<&str>) -> Self {
        let mut begin: Vec<Value> = texts.iter().map(|text| openai::text(text)).collect();
        begin.extend(call.into_iter().flat_map(|arguments| {
            let (first, rest) = half(arguments);
            [openai::tool_call(0, "c", "write_file", first), openai::tool_arguments(0, rest)]
        }));
        let reason = if call.is_some() { "tool_calls" } else { "stop" };
        let end = vec![openai::event(&openai::finish(reason)), openai::DONE.to_owned()];
        Self { begin: begin.iter().map(openai::event).collect(), end }
    }

    fn anthropic(texts: &[&str], call: Option<&str>) -> Self {
        let delta = |at: u64, delta: Value| json!({"type": "content_block_delta", "index": at, "delta": delta});
        let start = |at: u64, block: Value| json!({"type": "content_block_start", "index": at, "content_block": block});
        let usage = json!({"input_tokens": 3, "output_tokens": 1});
        let mut begin = vec![
            json!({"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}}),
            start(0, json!({"type": "text", "text": ""})),
        ];
        begin.extend(texts.iter().map(|text| delta(0, json!({"type": "text_delta", "text": text}))));
        begin.push(json!({"type": "content_block_stop", "index": 0}));
        begin.extend(call.into_iter().flat_map(|arguments| {
            let piece = |json| delta(1, json!({"type": "input_json_delta", "partial_json": json}));
            let (first, rest) = half(arguments);
            let block = json!({"type": "tool_use", "id": "c", "name": "write_file", "input": {}});
            [start(1, block), piece(first), piece(rest), json!({"type": "content_block_stop", "index": 1})]
        }));
        let reason = if call.is_some() { "tool_use" } else { "end_turn" };
        let (reason, usage) = (json!({"stop_reason": reason}), json!({"output_tokens": 9}));
        let end = [json!({"type": "message_delta", "delta": reason, "usage": usage}), json!({"type": "message_stop"})];
        Self { begin: begin.into_iter().map(named).collect(), end: end.into_iter().map(named).collect() }
    }

    fn responses(texts: &[&str], call: Option<&str>) -> Self {
        let response = |status: &str| json!({"id": "r", "object": "response", "status": status, "output": []});
        let event = |kind: &str, at: u64, mut fields: Value| {
            (fields["type"], fields["output_index"]) = (kind.into(), at.into());
            fields
        };
        let message =
            |content: Value| json!({"item": {"id": "m", "type": "message", "role": "assistant", "content": content}});
        let mut begin = vec![
            json!({"type": "response.created", "response": response("in_progress")}),
            event("response.output_item.added", 0, message(json!([]))),
        ];
        let texts_of = texts.iter().map(|text| event("response.output_text.delta", 0, json!({"delta": text})));
        begin.extend(texts_of);
        let content = json!([{"type": "output_text", "text": texts.concat(), "annotations": []}]);
        begin.push(event("response.output_item.done", 0, message(content)));
        begin.extend(call.into_iter().flat_map(|arguments| {
            let item = |arguments: &str| {
                json!({"item": {"id": "f", "type": "function_call", "call_id": "c", "name": "write_file", "arguments": arguments}})
            };
            let piece = |delta| event("response.function_call_arguments.delta", 1, json!({"delta": delta}));
            let (first, rest) = half(arguments);
            let done = event("response.output_item.done", 1, item(arguments));
            [event("response.output_item.added", 1, item("")), piece(first), piece(rest), done]
        }));
        let end = vec![named(json!({"type": "response.completed", "response": response("completed")}))];
        Self { begin: begin.into_iter().map(named).collect(), end }
    }

    /// Sends the first events, and the head of a stream before them.
    fn begin(&self, exchange: &Exchange, count: usize) {
        exchange.stream();
        for event in &self.begin[..count] {
            exchange.body(event);
        }
    }

    fn whole(&self, exchange: &Exchange) {
        self.begin(exchange, self.begin.len());
        for event in &self.end {
            exchange.body(event);
        }
        exchange.end();
    }

    fn broken(&self, exchange: &Exchange, fault: Fault, random: &mut Random) {
        let count = 1 + random.below(self.begin.len());
        match fault {
            Fault::Truncated => {
                self.begin(exchange, count);
                exchange.end();
            }
            Fault::NoResponse => exchange.hang_up(),
            Fault::Disconnected => {
                self.begin(exchange, count);
                exchange.hang_up();
            }
            Fault::Malformed => {
                self.begin(exchange, count);
                exchange.body("data: {\"type\": \"content_\n\n").end();
            }
            Fault::Limited => limited(exchange, random.below(10) == 0),
            Fault::Overloaded => {
                exchange.error(503, "overloaded", "come back later");
            }
        }
    }
}

fn limited(exchange: &Exchange, has_wait: bool) {
    let body = openai::error("rate_limit_error", "too many").to_string();
    let length = body.len().to_string();
    let mut headers = vec![("content-type", "application/json"), ("content-length", &*length)];
    headers.extend(has_wait.then_some(("retry-after", "1")));
    exchange.head(429, &headers).body(&body);
}

/// One run: what is asked, and how.
struct Run {
    protocol: &'static str,
    format: &'static str,
    calls: bool,
    random: Random,
}

impl Run {
    fn number(number: usize) -> Self {
        let random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(number as u64 + 1) | 1);
        Self {
            protocol: PROTOCOLS[number % 3],
            format: FORMATS[number / 3 % 3],
            calls: number.is_multiple_of(2),
            random,
        }
    }

    fn home(&self, peer: &Peer) -> Home {
        let directory = Home::new();
        let base = if self.protocol == "anthropic" { format!("http://{}", peer.address()) } else { peer.url() };
        let provider =
            format!("[providers.chaos]\nkind = \"{}\"\nbase_url = \"{base}\"\nmodels = [\"m\"]\n", self.protocol);
        let path = directory.directory.path().join(".config/polylogue");
        std::fs::create_dir_all(&path).expect("a directory");
        std::fs::write(path.join("config.toml"), provider).expect("a file");
        let variables =
            [("POLYLOGUE_MODEL", "chaos/m"), ("POLYLOGUE_RETRY_BASE", "0.002"), ("POLYLOGUE_RETRY_CAP", "0.02")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Home { variables, ..directory }
    }

    /// Answers requests until one was answered whole; counts how the others broke.
    fn answer(&mut self, peer: &Peer, whole: &Script, counts: &mut BTreeMap<Fault, usize>) {
        let other = Script::of(self.protocol, &OTHER, None);
        loop {
            let exchange = peer.accept();
            let Some(fault) = FAULTS.get(self.random.below(10)) else { return whole.whole(&exchange) };
            *counts.entry(*fault).or_default() += 1;
            // What is written as text has to go on where it broke off.
            let is_other = self.format != "text" && self.random.below(2) == 0;
            let script = if is_other { &other } else { whole };
            script.broken(&exchange, *fault, &mut self.random);
        }
    }

    fn play(mut self, counts: &mut BTreeMap<Fault, usize>) {
        let peer = Peer::start();
        let home = self.home(&peer);
        let program: Program = home.start(&["-p", "--approval", "yolo", "--output-format", self.format, "explain"]);
        if self.calls {
            self.answer(&peer, &Script::of(self.protocol, &["I write"], Some(CALL)), counts);
        }
        self.answer(&peer, &Script::of(self.protocol, &ANSWER, None), counts);
        self.check(&home, &program.ends());
    }

    fn check(&self, home: &Home, output: &Response) {
        assert_eq!(output.code, 0, "{output:?}");
        let text = if self.calls { format!("I write\n{}", ANSWER.concat()) } else { ANSWER.concat() };
        match self.format {
            "text" => assert_eq!(output.out, text + "\n", "{output:?}"),
            _ => assert_eq!(output.result()["text"], text, "{output:?}"),
        }
        let log = home.log(1);
        let count = |is: fn(&Body) -> bool| log.iter().filter(|body| is(body)).count();
        let calls = count(|body| matches!(body, Body::ToolCall(_)));
        assert_eq!((calls, count(|body| matches!(body, Body::ToolResult(_)))), (usize::from(self.calls), calls));
        let made = std::fs::read_to_string(home.directory.path().join("made")).ok();
        assert_eq!(made.as_deref(), self.calls.then_some("once"), "{output:?}");
    }
}

#[test]
fn every_run_against_a_server_that_fails_most_of_the_time_is_answered() {
    let count = if std::env::var_os("POLYLOGUE_TEST_CHAOS").is_some() { 200 } else { 12 };
    let mut counts = BTreeMap::new();
    for number in 0..count {
        Run::number(number).play(&mut counts);
    }
    println!("{count} runs answered; broken: {counts:?}");
    assert!(FAULTS.iter().all(|fault| counts.contains_key(fault)), "{counts:?}");
}
