//! Stored messages as lines.

use super::{Speaker, Written, show, show_result, speak, turn_end};
use crate::domain::chunk::Chunk;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::{LineKind, Scrollback};

/// What is known of the turn that is being shown.
#[derive(Default)]
struct Turn {
    started_at: Option<i64>,
    ended_at: i64,
    tokens: u64,
    written: Vec<Written>,
}

impl Turn {
    fn end(&self, scrollback: &mut Scrollback, speaker: Option<Speaker>) {
        if speaker == Some(Speaker::Agent) && self.ended_at > 0 {
            let duration = self.started_at.and_then(|started| u64::try_from(self.ended_at - started).ok());
            let duration = duration.map(std::time::Duration::from_millis);
            scrollback.push(LineKind::TurnEnd, &turn_end(duration, self.tokens, self.ended_at));
        }
    }
}

/// Adds these messages of the agent of this name, given oldest first, to an empty scrollback. `next` is the kind of the
/// line that follows.
pub(super) fn lines_of(
    mut scrollback: Scrollback,
    messages: &[Message],
    name: &str,
    next: Option<LineKind>,
) -> Scrollback {
    let (mut speaker, mut turn) = (None, Turn::default());
    for message in messages {
        if matches!(message.body, Body::User(_)) {
            turn.end(&mut scrollback, speaker);
            turn = Turn { started_at: Some(message.created_at), ..Turn::default() };
            speaker = None;
        }
        let model = match &message.body {
            Body::Assistant(reply) => reply.by.rsplit('/').next().unwrap_or_default(),
            _ => "",
        };
        for chunk in Chunk::of_body(&message.body) {
            let label = || (name.to_owned(), model.to_owned());
            speaker = speak(&mut scrollback, speaker, &chunk, Some(message.created_at), label);
            if speaker == Some(Speaker::Agent) && message.body.is_conversation() {
                turn.ended_at = message.created_at;
            }
            add(&mut scrollback, &chunk, &mut turn);
        }
        scrollback.close();
    }
    // What follows may belong to the same turn.
    if next.is_none_or(|kind| kind == LineKind::PersonName) {
        turn.end(&mut scrollback, speaker);
    }
    scrollback
}

fn add(scrollback: &mut Scrollback, chunk: &Chunk, turn: &mut Turn) {
    match chunk {
        Chunk::Usage(usage) => turn.tokens += usage.input + usage.output,
        Chunk::ToolCall { id, name, arguments, .. } => turn.written.extend(Written::of(id, name, arguments)),
        Chunk::ToolResult(result) => {
            let at = turn.written.iter().position(|written| written.call == result.call_id);
            let written = at.map(|at| turn.written.swap_remove(at));
            return show_result(scrollback, result, written.as_ref());
        }
        _ => {}
    }
    show(scrollback, chunk, false);
}
