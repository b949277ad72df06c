//! Advice in error messages: what the user can do next.

use crate::agent::{Agent, Role};
use crate::base::error::{Error, ErrorKind};

impl Agent {
    /// Appends what the user can do about the error, if anything.
    pub(super) fn with_advice(&self, error: Error, is_interactive: bool) -> Error {
        if error.kind != ErrorKind::ContextTooLong || self.role == Role::Summary || !is_interactive {
            return error;
        }
        Error { message: format!("{}; {}", error.message, self.smaller_conversation(&error)), ..error }
    }

    fn smaller_conversation(&self, error: &Error) -> String {
        let limit = self.request_endpoint().facts.context.map(|most| format!(" of {most}")).unwrap_or_default();
        if let Some(advice) = self.smaller_instructions() {
            return advice;
        }
        // The provider's own figures are in its message.
        let has_figures = error.message.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 3);
        let tokens = self.context_tokens().filter(|_| !has_figures);
        let tokens = tokens.map(|(tokens, _)| format!("the conversation has about {tokens}{limit} tokens: "));
        format!(
            "{}/compact summarises the older messages, `/slice 50%:` makes a child with the newer half; or use /clear, or \
             /model with a larger context",
            tokens.unwrap_or_default()
        )
    }

    /// What to do if the instructions and tool declarations take up most of a first message.
    fn smaller_instructions(&self) -> Option<String> {
        let is_first = self.inputs.history.as_ref().is_some_and(|history| history.conversation().len() == 1);
        let base = if is_first { self.base_bytes() } else { return None };
        let tools = if self.exchange.has_tools { self.inputs.environment.declarations().len() } else { 0 };
        let are_most = tools > 0 && base > self.exchange.sent.saturating_sub(base) * 2;
        are_most.then(|| {
            format!(
                "the instructions and {tools} tools are most of that: use --no-tools, an environment with fewer tools \
                 (/env readonly), a larger context of the server, or another model with /model"
            )
        })
    }
}
