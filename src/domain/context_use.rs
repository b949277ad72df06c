//! How many tokens a conversation has: those that the provider counted for the last reply, and an estimate of later
//! additions. Before the first reply, and after a change of what is sent, the whole number is an estimate.
//!
//! No tokeniser is built in: their tables are large, and most providers publish none. Tokens are estimated from bytes,
//! by the ratio of the last request that the provider counted.

use crate::domain::attachment::{CONTEXT_BYTES, references};
use crate::domain::history::History;
use crate::domain::message::{Body, Message};
use crate::domain::stream::Usage;

/// Bytes per token of a model that has not answered yet: a rule of thumb for English and code.
const BYTES_PER_TOKEN: f64 = 4.0;
/// Outside of this range a provider has counted something else than the request.
const BYTES_PER_TOKEN_RANGE: (f64, f64) = (1.5, 6.0);
/// What the protocols add to a message: names of fields, roles, identifiers.
const MESSAGE_BYTES: usize = 24;

/// The use of the context by one agent's conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContextUse {
    /// Tokens of the last request and its reply, as the provider counted them; 0 if what is sent has changed since.
    counted: u64,
    /// Bytes added since; of everything if nothing was counted.
    added: usize,
    /// The last message was a part of a reply, so that a count that follows is of this conversation.
    is_after_reply: bool,
    /// Bytes of what is sent have to be counted again.
    is_stale: bool,
    /// The conversation has a message.
    is_used: bool,
    /// The model that the ratio is of, and its bytes per token.
    ratio: Option<(String, f64)>,
}

impl ContextUse {
    /// The use by this history. `base` are the bytes of what is sent besides the conversation.
    pub fn of_history(history: &History, base: usize, model: &str) -> Self {
        let mut context_use = Self::default();
        history.iter().for_each(|message| context_use.add(&message.body));
        if context_use.counted > 0 {
            let counted = (base + total_length(&history.conversation())).saturating_sub(context_use.added);
            context_use.learn(model, counted, context_use.counted);
        }
        context_use.refresh(history, base);
        context_use
    }

    /// The use by a history that ends with these messages; `None` if they do not say.
    pub fn of_tail(messages: &[Message]) -> Option<Self> {
        let mut context_use = Self::default();
        messages.iter().for_each(|message| context_use.add(&message.body));
        Some(context_use).filter(|known| known.counted > 0 && !known.is_stale)
    }

    /// A message was added to the log.
    pub fn add(&mut self, body: &Body) {
        match body {
            Body::Usage(usage) => {
                if self.is_after_reply && usage.input > 0 {
                    (self.counted, self.added, self.is_stale) = (usage.tokens(), 0, false);
                }
                self.is_after_reply = false;
            }
            body if changes_context(body) => {
                (self.counted, self.is_stale, self.is_after_reply) = (0, true, false);
            }
            body if body.is_conversation() => {
                self.is_used = true;
                self.added += length(body);
                self.is_after_reply = matches!(body, Body::Assistant(_) | Body::ToolCall(_));
            }
            // The message of a turn that failed without a reply is not sent with the next one.
            Body::Error(_) if !self.is_after_reply => self.on_replaced(),
            Body::Replaced(_) => {
                self.is_after_reply = false;
                self.on_replaced();
            }
            _ => {}
        }
    }

    /// A part of the conversation was left out or sent again.
    pub fn on_replaced(&mut self) {
        (self.counted, self.is_stale) = (0, true);
    }

    /// Counts what is sent again if it has changed.
    pub fn refresh(&mut self, history: &History, base: usize) {
        if self.is_stale || self.counted == 0 {
            (self.counted, self.is_stale) = (0, false);
            self.added = base + total_length(&history.conversation());
        }
    }

    /// The provider counted a request of this many bytes.
    pub fn on_counted(&mut self, model: &str, bytes: usize, usage: &Usage) {
        self.learn(model, bytes, usage.input);
    }

    fn learn(&mut self, model: &str, bytes: usize, tokens: u64) {
        if bytes > 0 && tokens > 0 {
            let (least, most) = BYTES_PER_TOKEN_RANGE;
            self.ratio = Some((model.to_owned(), (bytes as f64 / tokens as f64).clamp(least, most)));
        }
    }

    /// The tokens of the conversation as it is sent next.
    pub fn tokens(&self, model: &str) -> u64 {
        self.counted + self.tokens_of(model, self.added)
    }

    /// Whether there is or was a conversation.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whether [`ContextUse::refresh`] has something to do after a change of what is sent.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Whether a part of [`ContextUse::tokens`] is an estimate.
    pub fn is_estimate(&self) -> bool {
        self.added > 0
    }

    /// The approximate number of tokens of this many bytes.
    pub fn tokens_of(&self, model: &str, bytes: usize) -> u64 {
        (bytes as f64 / self.bytes_per_token(model)).ceil() as u64
    }

    /// The approximate number of bytes of this many tokens.
    pub fn bytes_of(&self, model: &str, tokens: u64) -> usize {
        (tokens as f64 * self.bytes_per_token(model)) as usize
    }

    fn bytes_per_token(&self, model: &str) -> f64 {
        self.ratio.as_ref().filter(|(of, _)| of == model).map_or(BYTES_PER_TOKEN, |(_, ratio)| *ratio)
    }
}

/// Whether it changes which earlier messages are sent.
pub const fn changes_context(body: &Body) -> bool {
    matches!(
        body,
        Body::Clear | Body::ClearUndone(_) | Body::Rewind(_) | Body::Compaction(_) | Body::CompactionUndone(_)
    )
}

/// The bytes of a message that are sent, about.
pub fn length(body: &Body) -> usize {
    let content = match body {
        Body::User(text) => text.len() + references(text).len() * CONTEXT_BYTES,
        Body::System(text) => text.len(),
        Body::Assistant(reply) => {
            reply.text.len() + reply.signatures.iter().map(|signature| signature.json.len()).sum::<usize>()
        }
        Body::ToolCall(call) => call.name.len() + call.arguments.len(),
        Body::ToolResult(result) if result.may_have_images() => {
            result.content.len() + references(&result.content).len() * CONTEXT_BYTES
        }
        Body::ToolResult(result) => result.content.len(),
        Body::Compaction(compaction) => compaction.text().len(),
        _ => return 0,
    };
    content + MESSAGE_BYTES
}

/// The bytes of these messages that are sent, about.
pub fn total_length(messages: &[&Message]) -> usize {
    messages.iter().map(|message| length(&message.body)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::MessageId;
    use crate::domain::message::Reply;

    const MODEL: &str = "test/model";

    fn user(bytes: usize) -> Body {
        Body::User("x".repeat(bytes - MESSAGE_BYTES))
    }

    fn reply(bytes: usize) -> Body {
        Body::Assistant(Reply { text: "x".repeat(bytes - MESSAGE_BYTES), ..Reply::default() })
    }

    fn usage(input: u64, output: u64) -> Body {
        Body::Usage(Usage { input, output, ..Usage::default() })
    }

    fn history(bodies: Vec<Body>) -> History {
        let message = |(at, body)| Message { id: MessageId(at as i64 + 1), body, created_at: 0 };
        History::from_messages(bodies.into_iter().enumerate().map(message).collect())
    }

    #[test]
    fn the_last_count_and_an_estimate_of_what_was_added_since() {
        let of = |bodies| ContextUse::of_history(&history(bodies), 0, MODEL);
        let known = of(vec![user(400), reply(400), usage(190, 10)]);
        assert_eq!((known.tokens(MODEL), known.is_estimate()), (200, false));
        let known = of(vec![user(400), reply(400), usage(190, 10), user(80)]);
        assert_eq!((known.tokens(MODEL), known.is_estimate()), (220, true));
        let known = of(vec![user(400), reply(400)]);
        assert_eq!((known.tokens(MODEL), known.is_estimate()), (200, true));
        let slice = of(vec![usage(9_000, 1), user(400)]);
        assert_eq!(slice.tokens(MODEL), 100, "the count of a summary is not one of the conversation");
    }

    #[test]
    fn what_is_sent_no_more_does_not_count() {
        let rewound = vec![user(400), reply(400), usage(190, 10), user(800), Body::Rewind(MessageId(2))];
        assert_eq!(ContextUse::of_history(&history(rewound), 400, MODEL).tokens(MODEL), 300);
        let cleared = vec![user(400), reply(400), usage(190, 10), Body::Clear, user(80)];
        assert_eq!(ContextUse::of_history(&history(cleared), 400, MODEL).tokens(MODEL), 120);
    }

    #[test]
    fn the_newest_messages_tell_if_a_reply_among_them_was_counted() {
        let tail = |bodies| ContextUse::of_tail(history(bodies).delta()).map(|known| known.tokens(MODEL));
        assert_eq!(tail(vec![reply(400), usage(190, 10), user(80)]), Some(220));
        assert_eq!(tail(vec![reply(400), user(80)]), None);
        assert_eq!(tail(vec![reply(400), usage(190, 10), Body::Clear]), None);
    }

    #[test]
    fn the_ratio_is_that_of_the_last_count_of_this_model_within_limits() {
        let mut known = ContextUse::default();
        for (bytes, tokens, expected) in [(300, 100, 400), (900, 100, 200), (100, 100, 800)] {
            known.on_counted(MODEL, bytes, &Usage { input: tokens, ..Usage::default() });
            assert_eq!(known.tokens_of(MODEL, 1_200), expected, "{bytes} bytes, {tokens} tokens");
        }
        assert_eq!(known.tokens_of("another/model", 1_200), 300);
    }
}
