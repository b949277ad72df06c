//! Limits of replies for all protocols, and the end of a complete reply.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::stream::{Finish, StreamEvent};

/// Bytes of text, reasoning and signatures of one reply.
const MAX_TEXT: usize = 16 << 20;
/// Bytes of arguments of one call: mail of 1 MiB fits, escaped.
pub(super) const MAX_ARGUMENTS: usize = 1 << 22;
pub(super) const MAX_CALLS: usize = 128;

/// Bytes of text, reasoning and signatures of a reply so far.
#[derive(Debug, Default)]
pub(super) struct ReplySize(usize);

impl ReplySize {
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        self.0 += bytes;
        if self.0 > MAX_TEXT { Err(exceeded("the reply exceeds 16 MiB")) } else { Ok(()) }
    }

    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

/// Checks that a reply with this many calls may have another.
pub(super) fn another_call(calls: usize) -> Result<()> {
    if calls >= MAX_CALLS { Err(exceeded("more than 128 tool calls in one reply")) } else { Ok(()) }
}

/// Checks the size of a call's arguments.
pub(super) fn arguments(bytes: usize) -> Result<()> {
    if bytes > MAX_ARGUMENTS { Err(exceeded("the arguments of a tool call exceed 4 MiB")) } else { Ok(()) }
}

pub(super) fn exceeded(message: &str) -> Error {
    Error::new(ErrorKind::Protocol, message)
}

/// Ends a complete reply with the reason and `Done`. Calls take precedence over the server's reason, unless the reply
/// was cut off.
pub(super) fn close(reason: Option<Finish>, has_calls: bool, out: &mut Vec<StreamEvent>) {
    let finish = match reason {
        Some(cut @ (Finish::Length | Finish::ContentFilter)) => cut,
        _ if has_calls => Finish::ToolCalls,
        _ => Finish::Stop,
    };
    out.push(StreamEvent::Finish(finish));
    out.push(StreamEvent::Done);
}
