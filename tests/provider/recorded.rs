//! Recorded bytes in `fixtures/sse/<kind>/<case>.sse` with a JSON file of the head and the expected events. Each case
//! is decoded as a whole, byte by byte, and cut in two at every position, in the suite at each third.

use std::fs;
use std::path::{Path, PathBuf};

use polylogue::Usage;
use serde_json::{Value, json};

use crate::support::internals::provider::{PROVIDERS, find};
use crate::support::internals::{Finish, HttpHead, StreamEvent};
use crate::support::size::stride;

#[test]
fn recorded_responses_give_the_same_events_however_they_are_cut() {
    std::thread::scope(|scope| kinds().for_each(|kind| drop(scope.spawn(move || all_cuts_give_the_same_events(kind)))));
}

fn all_cuts_give_the_same_events(kind: &str) {
    let cases = cases(kind);
    assert!(cases.len() >= 15, "the recordings of {kind} are there");
    for (name, head, bytes, expected) in cases {
        assert_eq!(decode(kind, &head, &[&bytes]), expected, "{kind} {name}, whole");
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(kind, &head, &single), expected, "{kind} {name}, byte by byte");
        for cut in (0..=bytes.len()).step_by(stride(3)) {
            let events = decode(kind, &head, &[&bytes[..cut], &bytes[cut..]]);
            assert_eq!(events, expected, "{kind} {name}, cut at {cut}");
        }
    }
}

#[test]
fn a_truncated_response_ends_with_exactly_one_done_or_error() {
    for kind in kinds() {
        for (name, head, bytes, _) in cases(kind) {
            for end in (0..bytes.len()).step_by(stride(3)) {
                let events = decode(kind, &head, &[&bytes[..end]]);
                let ends = events.iter().filter(|event| *event == "done" || event.get("error").is_some()).count();
                assert_eq!(ends, 1, "{kind} {name}, ended at {end}: {events:?}");
            }
        }
    }
}

/// All providers except echo.
fn kinds() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().filter(|spec| spec.has_server()).map(|spec| spec.kind)
}

type Case = (String, HttpHead, Vec<u8>, Vec<Value>);

fn cases(kind: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sse").join(kind);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "sse")).collect();
    paths.sort();
    paths.iter().map(|path| case(path)).collect()
}

fn case(path: &Path) -> Case {
    let meaning = fs::read_to_string(path.with_extension("json")).unwrap();
    let meaning: Value = serde_json::from_str(&meaning).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let head = HttpHead {
        status: meaning["status"].as_u64().unwrap().try_into().unwrap(),
        content_type: meaning["content_type"].as_str().unwrap().to_owned(),
        retry_after: meaning["retry_after"].as_u64().map(|seconds| seconds.try_into().unwrap()),
        ..HttpHead::default()
    };
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    (name, head, fs::read(path).unwrap(), meaning["events"].as_array().unwrap().clone())
}

fn decode(kind: &str, head: &HttpHead, pieces: &[&[u8]]) -> Vec<Value> {
    let mut decoder = (find(kind).unwrap().decoder)();
    let mut out = Vec::new();
    decoder.head(head);
    for piece in pieces {
        decoder.feed(piece, &mut out);
    }
    decoder.end(&mut out);
    let mut merged = Vec::new();
    for event in out {
        add(&mut merged, event);
    }
    merged
}

/// Adds an event in the notation of the fixtures; pieces of text are joined.
fn add(merged: &mut Vec<Value>, event: StreamEvent) {
    let last = merged.last_mut();
    match event {
        StreamEvent::Text(text) => join(merged, "text", &text),
        StreamEvent::Thinking(text) => join(merged, "thinking", &text),
        StreamEvent::Signature(signature) => {
            merged.push(json!({"signature": serde_json::from_str::<Value>(&signature).expect("a signature is JSON")}));
        }
        StreamEvent::ToolCall { index, id, name, arguments } => match last {
            Some(last) if last["call"] == index && id.is_empty() && name.is_empty() => {
                last["arguments"] = format!("{}{arguments}", last["arguments"].as_str().unwrap()).into();
            }
            _ => merged.push(json!({"call": index, "id": id, "name": name, "arguments": arguments})),
        },
        StreamEvent::Usage(usage) => merged.push(json!({"usage": usage_of(usage)})),
        StreamEvent::Finish(finish) => merged.push(json!({"finish": name_of(finish)})),
        StreamEvent::Error(error) => {
            let mut value = json!({"error": error.kind.name(), "message": error.message});
            if let Some(seconds) = error.retry_after {
                value["retry_after"] = seconds.into();
            }
            merged.push(value);
        }
        StreamEvent::Done => merged.push("done".into()),
    }
}

fn join(merged: &mut Vec<Value>, key: &str, text: &str) {
    match merged.last_mut().and_then(|last| last.get_mut(key)) {
        Some(earlier) => *earlier = format!("{}{text}", earlier.as_str().unwrap()).into(),
        None => merged.push(json!({key: text})),
    }
}

fn name_of(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
    }
}

/// Input, cached and output tokens; those written to the cache and the cost where there are any.
fn usage_of(usage: Usage) -> Value {
    let mut expected_usage = json!([usage.input, usage.cached, usage.output]);
    if usage.written > 0 || usage.cost.is_some() {
        expected_usage = json!({"tokens": expected_usage, "written": usage.written, "cost": usage.cost});
    }
    expected_usage
}
