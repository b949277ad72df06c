//! What an agent does when its request fails: sends it again, waits for another key, or tells the person. What it waits
//! for at one provider does not matter to another: who is given a model of that one meanwhile asks at once.
//!
//! This is the one layer that tries again, and only while nothing of the reply was shown. Pieces of tool calls are not
//! shown before the reply is whole: they are thrown away with it.

use std::rc::Rc;
use std::time::Duration;

use crate::agent::exchange::Wait;
use crate::agent::{Agent, Context, Effect};
use crate::base::error::{Error, ErrorKind};
use crate::base::id::MessageId;
use crate::base::random::chance;
use crate::domain::chunk::Chunk;
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::AgentOutcome;
use crate::domain::message::Body;
use crate::provider::credentials;

/// A provider that asks for a longer wait is asked again after a day: quotas are counted by the day at the longest, and
/// what is longer is a mistake of the server. A person sees the wait and can end it.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// How often one request is given a new key.
const RENEWALS: u32 = 1;

impl Agent {
    /// The request failed, before or after something came.
    pub(super) fn fail(&mut self, mut error: Error, context: &mut Context) {
        let is_key_refused = self.is_key_refused(&error);
        self.stop_transfer(context);
        if is_key_refused {
            if self.renew_key(context) {
                return;
            }
            let hint = credentials::hint(self.request_endpoint(), self.exchange.key.is_some());
            error.message = format!("{} - {hint}; /model takes another model", error.message);
        }
        let (retries, policy) = (self.exchange.retries, context.settings.retry);
        let until = context.now + self.wait_after(&error, context);
        if is_limit(&error) {
            let provider = self.request_endpoint().provider.clone();
            context.outbox.push(self.id(), Effect::Limited { provider, until, reason: error.message.clone() });
        }
        if !error.kind.is_transient() || self.exchange.is_shown() {
            return self.fail_turn(error, context);
        }
        if self.is_other_provider_next() {
            return self.request_from_other_provider(context);
        }
        if retries == policy.retries {
            if retries > 0 {
                error.message = format!("{} - tried {} times", error.message, retries + 1);
            }
            return self.fail_turn(error, context);
        }
        self.exchange.forget_reply();
        self.exchange.retries += 1;
        self.exchange.wait = Wait::Retry { at: until, error };
        self.view.touch();
    }

    /// As long as the provider asks; where it does not, or asks for no wait at all, as long as the policy says.
    fn wait_after(&self, error: &Error, context: &Context) -> Duration {
        let asked = error.retry_after.filter(|seconds| *seconds > 0);
        let asked = asked.map(|seconds| Duration::from_secs(seconds.into()).min(LONGEST_WAIT));
        asked.unwrap_or_else(|| context.settings.retry.wait(self.exchange.retries, chance()))
    }

    /// Whether the provider does not accept the key, as opposed to what is asked for with it (403) or a proxy (407).
    fn is_key_refused(&self, error: &Error) -> bool {
        let is_played = matches!(self.exchange.wait, Wait::Script { .. });
        error.kind == ErrorKind::Auth && (is_played || self.exchange.status == Some(401))
    }

    /// A key that a command has printed may have expired: waits for another one, once for each request.
    fn renew_key(&mut self, context: &mut Context) -> bool {
        let run = self.exchange.key.as_ref().map_or(0, |key| key.run);
        if run == 0 || self.exchange.renewals == RENEWALS || self.exchange.is_shown() {
            return false;
        }
        let provider = self.request_endpoint().provider.clone();
        if self.is_other_provider_next() {
            self.request_from_other_provider(context);
        } else {
            self.exchange.forget_reply();
            self.exchange.renewals += 1;
            self.await_key();
        }
        context.outbox.push(self.id(), Effect::KeyRefused { provider, run });
        true
    }

    /// Another model from now on. A request that is under way is not touched.
    pub fn set_endpoint(&mut self, endpoint: Rc<Endpoint>, context: &mut Context) {
        let is_elsewhere = endpoint.provider != self.talk.endpoint.provider;
        self.talk.endpoint = endpoint;
        if is_elsewhere && matches!(self.exchange.wait, Wait::Retry { .. } | Wait::Key) {
            self.request_from_other_provider(context);
        }
    }

    /// Whether the next request goes to another provider than the last one.
    fn is_other_provider_next(&self) -> bool {
        self.request_endpoint().provider != self.talk.endpoint.provider
    }

    /// The request is made of another provider: how often the one before was asked does not count.
    fn request_from_other_provider(&mut self, context: &mut Context) {
        self.exchange.forget_reply();
        (self.exchange.retries, self.exchange.renewals) = (0, 0);
        self.exchange.wait = Wait::Slot;
        self.view.touch();
        context.outbox.push(self.id(), Effect::Request);
    }

    /// The request waits until a command has printed a key.
    pub fn await_key(&mut self) {
        self.exchange.wait = Wait::Key;
        self.view.touch();
    }

    /// The key is there, and the request goes on; or there is none.
    pub fn on_key(&mut self, outcome: Result<(), Error>, context: &mut Context) {
        if !matches!(self.exchange.wait, Wait::Key) {
            return;
        }
        match outcome {
            Ok(()) => {
                self.exchange.wait = Wait::Slot;
                context.outbox.push(self.id(), Effect::Request);
            }
            Err(error) => self.fail_turn(error, context),
        }
    }

    fn fail_turn(&mut self, error: Error, context: &mut Context) {
        self.exchange.wait = Wait::Nothing;
        let error = self.with_advice(error);
        let mut bodies: Vec<Body> = self.exchange.take_reply(true).into_iter().collect();
        if !bodies.is_empty() {
            self.emit(&Chunk::Mark("the reply ends here".into()));
            bodies.push(Body::Interrupted(error.kind.name().into()));
        } else if error.kind == ErrorKind::Auth && self.exchange.is_first_request() {
            bodies.extend(self.take_message_back(context));
        }
        self.emit(&Chunk::Error { kind: error.kind.name().into(), message: error.message.clone() });
        bodies.push(Body::Error(error.message.clone()));
        self.settle(bodies, AgentOutcome::Error(error), context);
    }

    /// A message that no model has seen goes back to the person, and out of the conversation.
    fn take_message_back(&mut self, context: &mut Context) -> Option<Body> {
        let (id, text) = self.exchange.message.take()?;
        context.outbox.push(self.id(), Effect::ReturnText(text));
        Some(Body::Rewind(MessageId(id.0 - 1)))
    }
}

/// Whether a refusal is meant for everybody who talks to this provider.
fn is_limit(error: &Error) -> bool {
    match error.kind {
        ErrorKind::RateLimited => true,
        ErrorKind::Overloaded => error.retry_after.is_some_and(|seconds| seconds > 0),
        _ => false,
    }
}
