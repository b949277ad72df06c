//! Stored messages as lines.

use std::collections::VecDeque;

use super::{FileCall, Note, Speaker, Used, show, show_result, speak, turn_end};
use crate::base::id::MessageId;
use crate::domain::chunk::Chunk;
use crate::domain::message::{Body, Message, is_of_child};
use crate::domain::scrollback::{LineKind, Scrollback};

/// What is known about the turn being shown.
#[derive(Default)]
struct Turn {
    started_at: Option<i64>,
    ended_at: i64,
    used: Used,
    file_calls: Vec<FileCall>,
}

impl Turn {
    fn end(&self, scrollback: &mut Scrollback, speaker: Option<Speaker>) {
        if speaker == Some(Speaker::Agent) && self.ended_at > 0 {
            let duration =
                self.started_at.and_then(|started| u64::try_from(self.ended_at.saturating_sub(started)).ok());
            let duration = duration.map(std::time::Duration::from_millis);
            scrollback.push(LineKind::TurnEnd, &turn_end(duration, self.used, self.ended_at));
        }
    }
}

/// Adds these messages of the agent of this name, given oldest first, to an empty scrollback. Those up to `inherited` are of
/// its ancestors. `next` is the kind of the line that follows.
pub(super) fn lines_of(
    mut scrollback: Scrollback,
    messages: &[Message],
    notes: &mut VecDeque<Note>,
    (name, inherited): (&str, MessageId),
    next: Option<LineKind>,
) -> Scrollback {
    let (mut speaker, mut turn) = (None, Turn::default());
    // What follows after the last message may belong to the same turn.
    let is_complete = next.is_none_or(|kind| kind == LineKind::PersonName);
    for (at, message) in messages.iter().enumerate() {
        // Other children of an ancestor are not of interest here.
        if message.id <= inherited && matches!(&message.body, Body::Fork(stored) if !is_of_child(stored)) {
            continue;
        }
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
            let is_in_turn = matches!(message.body, Body::Interrupted(_) | Body::Exited | Body::AgentKilled);
            if matches!(chunk, Chunk::Mark(_)) && !is_in_turn && is_after_turn(&messages[at..], is_complete) {
                turn.end(&mut scrollback, speaker);
                speaker = None;
            }
            let label = || (name.to_owned(), model.to_owned());
            speaker = speak(&mut scrollback, speaker, &chunk, Some(message.created_at), label);
            if speaker == Some(Speaker::Agent) && message.body.is_conversation() {
                turn.ended_at = message.created_at;
            }
            add(&mut scrollback, &chunk, &mut turn);
        }
        scrollback.close();
        if notes.iter().any(|note| note.is_missing && note.behind == Some(message.id)) {
            if messages.get(at + 1).is_some_and(|next| matches!(next.body, Body::User(_))) {
                turn.end(&mut scrollback, speaker);
                speaker = None;
            }
            add_missing(&mut scrollback, notes, Some(message.id));
        }
    }
    if is_complete {
        turn.end(&mut scrollback, speaker);
    }
    scrollback
}

/// Whether the turn before these messages is over; `is_complete`: no more of it follows.
fn is_after_turn(messages: &[Message], is_complete: bool) -> bool {
    let next = messages.iter().find(|message| message.body.is_conversation());
    next.map_or(is_complete, |message| matches!(message.body, Body::User(_)))
}

/// Adds the notes behind a message that are not in the scrollback.
pub(super) fn add_missing(scrollback: &mut Scrollback, notes: &mut VecDeque<Note>, behind: Option<MessageId>) {
    for note in notes.iter_mut().filter(|note| note.is_missing && note.behind == behind) {
        note.is_missing = false;
        scrollback.push(note.kind, &note.text);
    }
}

fn add(scrollback: &mut Scrollback, chunk: &Chunk, turn: &mut Turn) {
    match chunk {
        Chunk::Usage(usage) => turn.used.add(usage),
        Chunk::ToolCall { id, name, arguments, .. } => turn.file_calls.extend(FileCall::of(id, name, arguments)),
        Chunk::ToolResult(result) => {
            let file = FileCall::take(&mut turn.file_calls, &result.call_id);
            return show_result(scrollback, result, file.as_ref());
        }
        _ => {}
    }
    show(scrollback, chunk, false);
}
