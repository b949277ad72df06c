//! What no reply may pass, whatever the protocol, and how one that is whole ends.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::stream::{Finish, StreamEvent};

/// The most text, reasoning and signatures of one reply, in bytes.
const MAX_TEXT: usize = 16 << 20;
/// The most arguments of one call, in bytes: a letter of 1 MiB has room, escaped.
pub(super) const MAX_ARGUMENTS: usize = 1 << 22;
/// The most calls of one reply.
pub(super) const MAX_CALLS: usize = 128;

/// How many bytes of text, reasoning and signatures a reply has had so far.
#[derive(Debug, Default)]
pub(super) struct Said(usize);

impl Said {
    /// So many more.
    ///
    /// # Errors
    /// `Protocol` if that is too much.
    pub fn count(&mut self, more: usize) -> Result<()> {
        self.0 += more;
        if self.0 > MAX_TEXT { Err(too_much("a reply of more than 16 MiB")) } else { Ok(()) }
    }

    /// Whether there was nothing so far.
    pub fn is_nothing(&self) -> bool {
        self.0 == 0
    }
}

/// Looks whether a reply with so many calls may make another.
///
/// # Errors
/// `Protocol` if it may not.
pub(super) fn another_call(calls: usize) -> Result<()> {
    if calls >= MAX_CALLS { Err(too_much("more than 128 calls in one reply")) } else { Ok(()) }
}

/// Looks whether a call may have so many bytes of arguments.
///
/// # Errors
/// `Protocol` if it may not.
pub(super) fn arguments(bytes: usize) -> Result<()> {
    if bytes > MAX_ARGUMENTS { Err(too_much("a tool call with more than 4 MiB of arguments")) } else { Ok(()) }
}

/// A reply that passes one of our bounds.
pub(super) fn too_much(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the server sent {what}"))
}

/// The end of a whole reply: why the model stopped, and `Done`. Whether there are calls counts more than what the server
/// said of them, unless it has cut the reply.
pub(super) fn close(said: Option<Finish>, has_calls: bool, out: &mut Vec<StreamEvent>) {
    let finish = match said {
        Some(cut @ (Finish::Length | Finish::ContentFilter)) => cut,
        _ if has_calls => Finish::ToolCalls,
        _ => Finish::Stop,
    };
    out.push(StreamEvent::Finish(finish));
    out.push(StreamEvent::Done);
}
