//! What is typed behind `/slice`, and what it makes of a conversation.

use std::time::Duration;

use super::Step;
use crate::chance::Chance;
use crate::support::internals::{Body, Message, MessageId, Reply, ToolCall};
use polylogue::{SliceSpec, ToolResult};

/// Specs with a few bytes changed, pieces of specs, and anything at all: each is refused with a position in it, or is made of
/// nothing but segments, means the same when it is printed, and takes no call without its result.
pub fn specs() -> Step {
    const KNOWN: &[&str] = &[
        "0:4,-2:",
        "25%:75%, compact::",
        "summarize:0:50%:'what it''s for',50%:",
        "inject:'語\n',:-1",
        "compact:-5:-1",
        "summarize:1:5",
    ];
    const PIECES: &[&str] =
        &["'", ",", ":", "-", "%", "1", "7", "250", " ", "inject:", "summarize:", "compact:", "'a'", "0:2"];
    Box::new(|chance| {
        let typed = match chance.below(4) {
            0 => chance.text(12),
            1 => (0..chance.below(9)).map(|_| chance.of(PIECES)).collect(),
            _ => String::from_utf8_lossy(&chance.mutated(chance.clone().of(KNOWN).as_bytes())).into_owned(),
        };
        match SliceSpec::parse(&typed) {
            Err(error) => {
                assert!(error.at <= typed.chars().count(), "{typed:?} at {}", error.at);
                assert_eq!(error.to_string().lines().count(), 2, "{typed:?}");
            }
            Ok(spec) => {
                assert!(without_texts(&typed).split(',').all(is_segment), "{typed:?} is no spec");
                assert_eq!(SliceSpec::parse(&spec.to_string()).as_ref(), Ok(&spec), "{typed:?}");
                cut(chance, &spec);
            }
        }
    })
}

/// The spec with `'` for each whole text in it.
fn without_texts(spec: &str) -> String {
    let mut inside = false;
    let mut rest: Vec<char> = spec.chars().collect();
    rest.retain(|c| {
        inside ^= *c == '\'';
        !inside
    });
    // A doubled quote ends a text only to begin it again.
    rest.dedup_by(|one, other| *one == '\'' && *other == '\'');
    rest.into_iter().collect()
}

/// Whether this is one of the forms, found without the parser.
fn is_segment(segment: &str) -> bool {
    let segment = segment.trim();
    if let Some(text) = segment.strip_prefix("inject:") {
        return text == "'";
    }
    let rest = segment.strip_prefix("compact:").or_else(|| segment.strip_prefix("summarize:")).unwrap_or(segment);
    let range = rest.strip_suffix(":'").filter(|_| segment.starts_with("summarize:")).unwrap_or(rest);
    range.split_once(':').is_some_and(|(from, to)| is_bound(from) && is_bound(to))
}

fn is_bound(bound: &str) -> bool {
    let number = bound.strip_prefix('-').or_else(|| bound.strip_suffix('%')).unwrap_or(bound);
    number.bytes().all(|byte| byte.is_ascii_digit()) && (number == bound || !number.is_empty())
}

fn cut(chance: &mut Chance, spec: &SliceSpec) {
    let log = conversation(chance);
    let rows: Vec<&Message> = log.iter().collect();
    let Ok(cut) = spec.cut(&rows) else { return };
    let mut open = 0;
    for row in cut.into_messages(vec!["short".into(); 16]) {
        match row {
            Body::ToolCall(_) => open += 1,
            Body::ToolResult(_) => {
                assert!(open > 0, "{spec}: a result without its call");
                open -= 1;
            }
            _ => assert_eq!(open, 0, "{spec}: a call without its result"),
        }
    }
    assert_eq!(open, 0, "{spec}: a call without its result at the end");
}

fn conversation(chance: &mut Chance) -> Vec<Message> {
    let mut bodies = Vec::new();
    for _ in 0..chance.below(6) {
        bodies.push(Body::User(chance.text(3)));
        if !chance.once_in(3) {
            bodies.push(Body::Assistant(Reply { text: chance.text(3), ..Reply::default() }));
        }
        let calls = chance.below(4);
        bodies.extend((0..calls).map(|_| call()));
        bodies.extend((0..calls).map(|_| result(chance)));
    }
    bodies.into_iter().map(|body| Message { id: MessageId(0), body, created_at: 0 }).collect()
}

fn call() -> Body {
    Body::ToolCall(ToolCall { id: "a".into(), name: "bash".into(), arguments: "{}".into() })
}

fn result(chance: &mut Chance) -> Body {
    let content = chance.text(8).repeat(chance.below(200));
    let (call_id, name) = ("a".into(), "bash".into());
    Body::ToolResult(ToolResult { call_id, name, content, is_error: false, duration: Duration::ZERO })
}
