//! The way out of an error, in words for a person: what can be done about it here and now.

use crate::agent::Agent;
use crate::base::error::{Error, ErrorKind};
use crate::domain::message::Body;

/// How many bytes of text make a token, roughly, where no provider has counted.
const BYTES_PER_TOKEN: usize = 4;

impl Agent {
    /// The error with its way out behind it, where this agent knows one.
    pub(super) fn with_advice(&self, error: Error) -> Error {
        if error.kind != ErrorKind::ContextTooLong {
            return error;
        }
        Error { message: format!("{} - {}", error.message, self.smaller_conversation()), ..error }
    }

    fn smaller_conversation(&self) -> String {
        let tokens = match self.view.context_tokens {
            0 => self.guessed_tokens(),
            counted => counted,
        };
        let takes = self.request_endpoint().facts.context.map(|most| format!(" of {most}")).unwrap_or_default();
        format!(
            "the conversation has about {tokens}{takes} tokens; nothing of it is lost: /slice 50%: goes on with its \
             newer half, /clear begins anew, /model takes a larger one"
        )
    }

    /// Before any request was counted.
    fn guessed_tokens(&self) -> u64 {
        let Some(history) = &self.talk.history else { return 0 };
        let bytes: usize = history.conversation().iter().map(|message| length(&message.body)).sum();
        ((bytes + self.talk.system.len()) / BYTES_PER_TOKEN) as u64
    }
}

fn length(body: &Body) -> usize {
    match body {
        Body::System(text) | Body::User(text) => text.len(),
        Body::Assistant(reply) => reply.text.len(),
        Body::ToolCall(call) => call.arguments.len(),
        Body::ToolResult(result) => result.content.len(),
        _ => 0,
    }
}
