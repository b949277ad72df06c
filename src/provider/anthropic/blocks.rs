//! From turns to messages of content blocks.
//!
//! ```text
//!   User(text)               -> user [text]
//!   Assistant(text, calls)   -> assistant [thinking.. text.. tool_use..]   user [tool_result.. ]
//!                                                                              and the user's next text
//! ```
//!
//! The API requires roles that alternate with the user first and last, the results of all calls at the beginning of the
//! next message, no blank text, and no thinking at the end of a reply.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::domain::attachment::{Files, PDF, Piece, pieces, readable_text};
use crate::domain::message::Signature;
use crate::provider::request::json;
use crate::provider::turns::{Call, Turn};

/// Marks a block as the end of a cached prefix.
pub(super) const CACHED: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

/// Appended to a conversation that ends with a reply, which newer models reject ("This model does not support assistant
/// message prefill").
const CONTINUE: &str = "[continue]";

/// Messages of the user that are marked as the end of a cached prefix. The API allows four marks in all.
const MARKS: usize = 2;

/// One message: its role, and its blocks without their closing braces.
struct Row {
    role: &'static str,
    blocks: Vec<String>,
}

/// The messages as JSON texts. Signatures are sent only where the model thinks.
pub(super) fn messages(turns: &[Turn<'_>], files: &Files, with_signatures: bool) -> Vec<String> {
    let mut rows: Vec<Row> = Vec::new();
    for turn in turns {
        match turn {
            Turn::User(text) => push_user(&mut rows, user_blocks(text, files)),
            Turn::Assistant { text, calls, signatures } => {
                let signatures = if with_signatures { signatures.as_slice() } else { &[] };
                rows.push(Row { role: "assistant", blocks: reply_blocks(text, calls, signatures) });
                if !calls.is_empty() {
                    push_user(&mut rows, calls.iter().map(|call| result_block(call, files)).collect());
                }
            }
        }
    }
    if rows.last().is_some_and(|row| row.role == "assistant") {
        push_user(&mut rows, vec![text_block(CONTINUE)]);
    }
    for row in rows.iter_mut().rev().filter(|row| row.role == "user").take(MARKS) {
        row.blocks.last_mut().expect("no message is empty").push_str(CACHED);
    }
    rows.iter().map(|row| format!("{{\"role\":{:?},\"content\":[{}}}]}}", row.role, row.blocks.join("},"))).collect()
}

/// Whether a thinking budget is allowed. It is not within rounds of tools that began without thinking:
/// "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost
/// set of `tool_use` and `tool_result` blocks)".
pub(super) fn may_think(turns: &[Turn<'_>]) -> bool {
    let is_user = |turn: &Turn| matches!(turn, Turn::User(_));
    // Text after results is in one message with them and does not begin a new round.
    let end = turns.len() - usize::from(turns.last().is_some_and(is_user));
    let rounds = || turns[..end].iter().rev().take_while(|turn| !is_user(turn));
    // A reply without calls ended them.
    let is_over = rounds().next().is_some_and(|turn| matches!(turn, Turn::Assistant { calls, .. } if calls.is_empty()));
    match rounds().last().filter(|_| !is_over) {
        Some(Turn::Assistant { calls, signatures, .. }) if !calls.is_empty() => signatures
            .first()
            .is_some_and(|signature| signature.text == 0 && signature.calls == 0 && is_thinking(&signature.json)),
        _ => true,
    }
}

pub(super) fn called_tools<'a>(turns: &'a [Turn<'_>]) -> BTreeSet<&'a str> {
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

/// The blocks of a reply, with each signature at its position. Signatures at the end are left out.
fn reply_blocks(text: &str, calls: &[Call<'_>], signatures: &[&Signature]) -> Vec<String> {
    let (mut blocks, mut held) = (Vec::new(), Vec::new());
    let (mut text_done, mut calls_done) = (0, 0);
    for signature in signatures.iter().filter(|signature| is_thinking(&signature.json)) {
        let (text_end, calls_end) =
            (text.floor_char_boundary(signature.text).max(text_done), signature.calls.min(calls.len()).max(calls_done));
        push_piece(&mut blocks, &mut held, &text[text_done..text_end], &calls[calls_done..calls_end]);
        (text_done, calls_done) = (text_end, calls_end);
        let open = signature.json.trim_end().strip_suffix('}').expect("an object ends with its brace");
        held.push(open.to_owned());
    }
    push_piece(&mut blocks, &mut held, &text[text_done..], &calls[calls_done..]);
    blocks
}

/// Appends text and calls between two signatures, after the signatures that were held back until a block follows.
fn push_piece(blocks: &mut Vec<String>, held: &mut Vec<String>, text: &str, calls: &[Call<'_>]) {
    let text = (!text.trim().is_empty()).then(|| text_block(text));
    for block in text.into_iter().chain(calls.iter().map(call_block)) {
        blocks.append(held);
        blocks.push(block);
    }
}

/// A signed block in the form that the API accepts.
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

/// The message of a user (platform.claude.com/docs/en/build-with-claude/vision, .../pdf-support).
fn user_blocks(text: &str, files: &Files) -> Vec<String> {
    let pieces = pieces(text, files);
    if !pieces.iter().any(|piece| matches!(piece, Piece::File(..))) {
        return vec![text_block(&readable_text(text))];
    }
    pieces.into_iter().map(piece_block).collect()
}

fn piece_block(piece: Piece<'_>) -> String {
    match piece {
        Piece::Text(text) => text_block(&text),
        Piece::File(_, file) => {
            let kind = if file.media_type == PDF { "document" } else { "image" };
            let (media_type, data) = (&file.media_type, &file.base64);
            format!(
                "{{\"type\":{kind:?},\"source\":{{\"type\":\"base64\",\"media_type\":{media_type:?},\"data\":{data:?}}}"
            )
        }
    }
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}", json(text))
}

fn call_block(call: &Call<'_>) -> String {
    let (id, name, input) = (json(&call.id), json(&call.name), call.arguments);
    format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{input}")
}

/// The result of a call (platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls, images in results).
fn result_block(call: &Call<'_>, files: &Files) -> String {
    let mut block = format!("{{\"type\":\"tool_result\",\"tool_use_id\":{}", json(&call.id));
    let text = call.result_text();
    if let Some(pieces) = call.result_pieces(files) {
        let blocks: Vec<String> = pieces.into_iter().map(|piece| piece_block(piece) + "}").collect();
        block.push_str(&format!(",\"content\":[{}]", blocks.join(",")));
    } else if !text.trim().is_empty() {
        block.push_str(&format!(",\"content\":{}", json(&*text)));
    }
    if call.is_error() {
        block.push_str(",\"is_error\":true");
    }
    block
}
