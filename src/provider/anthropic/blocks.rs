//! Turns become messages of content blocks.
//!
//! ```text
//!   User(text)               -> user [text]
//!   Assistant(text, calls)   -> assistant [thinking.. text.. tool_use..]   user [tool_result.. ]
//!                                                                              and the text that follows
//! ```
//!
//! The API wants roles that alternate, a person first and last, the results of all calls at the beginning of the very
//! next message, no text without a word, and no thinking at the end of a reply.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::domain::message::Signature;
use crate::provider::request::json;
use crate::provider::turns::{Call, Turn};

/// Stands in a block at which the cached prefix may end.
pub(super) const CACHED: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

/// Said where a conversation ends with a reply: newer models answer only a person ("This model does not support
/// assistant message prefill").
const GO_ON: &str = "[go on]";

/// How many messages of the user are marked as the end of a cached prefix. The API takes four marks in all.
const MARKS: usize = 2;

/// One message: its role, and its blocks without their closing braces.
struct Row {
    role: &'static str,
    blocks: Vec<String>,
}

/// The messages as JSON texts. Signatures are sent only where the model thinks.
pub(super) fn messages(turns: &[Turn<'_>], with_signatures: bool) -> Vec<String> {
    let mut rows: Vec<Row> = Vec::new();
    for turn in turns {
        match turn {
            Turn::User(text) => push_user(&mut rows, vec![text_block(text)]),
            Turn::Assistant { text, calls, signatures } => {
                let signatures = if with_signatures { signatures.as_slice() } else { &[] };
                rows.push(Row { role: "assistant", blocks: reply_blocks(text, calls, signatures) });
                if !calls.is_empty() {
                    push_user(&mut rows, calls.iter().map(result_block).collect());
                }
            }
        }
    }
    if rows.last().is_some_and(|row| row.role == "assistant") {
        push_user(&mut rows, vec![text_block(GO_ON)]);
    }
    for row in rows.iter_mut().rev().filter(|row| row.role == "user").take(MARKS) {
        row.blocks.last_mut().expect("no message is empty").push_str(CACHED);
    }
    rows.iter().map(|row| format!("{{\"role\":{:?},\"content\":[{}}}]}}", row.role, row.blocks.join("},"))).collect()
}

/// Whether a budget for thinking can be named. It cannot in the middle of rounds of tools that began without thinking:
/// "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost
/// set of `tool_use` and `tool_result` blocks)".
pub(super) fn may_think(turns: &[Turn<'_>]) -> bool {
    let is_said = |turn: &Turn| matches!(turn, Turn::User(_));
    // Words behind results stand in one message with them, and do not begin anew.
    let end = turns.len() - usize::from(turns.last().is_some_and(is_said));
    let rounds = turns[..end].iter().rev().take_while(|turn| !is_said(turn));
    match rounds.last() {
        Some(Turn::Assistant { calls, signatures, .. }) if !calls.is_empty() => signatures
            .first()
            .is_some_and(|signature| signature.text == 0 && signature.calls == 0 && is_thinking(&signature.json)),
        _ => true,
    }
}

/// The names of all tools that were called.
pub(super) fn called<'a>(turns: &'a [Turn<'_>]) -> BTreeSet<&'a str> {
    let calls = turns.iter().flat_map(|turn| match turn {
        Turn::Assistant { calls, .. } => calls.as_slice(),
        Turn::User(_) => &[],
    });
    calls.map(|call| call.name.as_str()).collect()
}

fn push_user(rows: &mut Vec<Row>, blocks: Vec<String>) {
    match rows.last_mut() {
        Some(row) if row.role == "user" => row.blocks.extend(blocks),
        _ => rows.push(Row { role: "user", blocks }),
    }
}

/// The pieces of a reply in their order. Each signature keeps its place; what is left of them at the end is left out.
fn reply_blocks(text: &str, calls: &[Call<'_>], signatures: &[&Signature]) -> Vec<String> {
    let (mut blocks, mut held) = (Vec::new(), Vec::new());
    let (mut said, mut made) = (0, 0);
    for signature in signatures.iter().filter(|signature| is_thinking(&signature.json)) {
        let (to, until) = (floor(text, signature.text).max(said), signature.calls.min(calls.len()).max(made));
        push_piece(&mut blocks, &mut held, &text[said..to], &calls[made..until]);
        (said, made) = (to, until);
        let open = signature.json.trim_end().strip_suffix('}').expect("an object ends with its brace");
        held.push(open.to_owned());
    }
    push_piece(&mut blocks, &mut held, &text[said..], &calls[made..]);
    blocks
}

/// What stands between two signatures, behind those that were held back until something follows them.
fn push_piece(blocks: &mut Vec<String>, held: &mut Vec<String>, text: &str, calls: &[Call<'_>]) {
    let text = (!text.trim().is_empty()).then(|| text_block(text));
    for block in text.into_iter().chain(calls.iter().map(call_block)) {
        blocks.append(held);
        blocks.push(block);
    }
}

/// The place in a text, or the nearest one before it that cuts no character.
fn floor(text: &str, place: usize) -> usize {
    (0..=place.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// A signed block as the API takes it back.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum SignedBlock {
    Thinking {
        #[serde(rename = "thinking")]
        _thinking: String,
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
}

fn is_thinking(signature: &str) -> bool {
    match serde_json::from_str(signature) {
        Ok(SignedBlock::Thinking { signature, .. } | SignedBlock::RedactedThinking { data: signature }) => {
            !signature.is_empty()
        }
        Err(_) => false,
    }
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}", json(text))
}

fn call_block(call: &Call<'_>) -> String {
    let (id, name, input) = (json(&call.id), json(&call.name), call.arguments);
    format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{input}")
}

fn result_block(call: &Call<'_>) -> String {
    let mut block = format!("{{\"type\":\"tool_result\",\"tool_use_id\":{}", json(&call.id));
    if !call.answer().trim().is_empty() {
        block.push_str(&format!(",\"content\":{}", json(call.answer())));
    }
    if call.is_error() {
        block.push_str(",\"is_error\":true");
    }
    block
}
