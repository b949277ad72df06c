//! Advice in error messages: what the user can do next.

use crate::agent::Agent;
use crate::base::error::{Error, ErrorKind};
use crate::domain::message::Body;

/// A rough estimate, used where no provider has counted.
const BYTES_PER_TOKEN: usize = 4;

impl Agent {
    /// Appends what the user can do about the error, if there is something.
    pub(super) fn with_advice(&self, error: Error) -> Error {
        if error.kind != ErrorKind::ContextTooLong {
            return error;
        }
        Error { message: format!("{}; {}", error.message, self.smaller_conversation()), ..error }
    }

    fn smaller_conversation(&self) -> String {
        let tokens = match self.view.context_tokens {
            0 => self.estimated_tokens(),
            counted => counted,
        };
        let limit = self.request_endpoint().facts.context.map(|most| format!(" of {most}")).unwrap_or_default();
        format!(
            "the conversation has about {tokens}{limit} tokens: `/slice 50%:` makes a child with the newer half; or \
             use /clear, or /model with a larger context"
        )
    }

    /// Used before the provider has counted a request.
    fn estimated_tokens(&self) -> u64 {
        let Some(history) = &self.inputs.history else { return 0 };
        let bytes: usize = history.conversation().iter().map(|message| length(&message.body)).sum();
        ((bytes + self.inputs.system.len()) / BYTES_PER_TOKEN) as u64
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
