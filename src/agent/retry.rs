//! What an agent does when its request fails: retries, waits for a new key, or ends the turn with an error. If the agent
//! is given a model of another provider while it waits, it sends the request there at once.
//!
//! Retries happen only here, and only while nothing of the reply was shown. Tool calls are not shown before the reply is
//! complete, so they may be discarded.

use std::rc::Rc;
use std::time::Duration;

use crate::agent::exchange::Wait;
use crate::agent::{Agent, Context, Effect};
use crate::base::error::{Error, ErrorKind};
use crate::base::id::MessageId;
use crate::domain::chunk::Chunk;
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::AgentOutcome;
use crate::domain::message::Body;
use crate::provider::credentials;

/// Caps the wait that a provider asks for. Quotas are counted per day at the longest; a longer wait is a mistake of the
/// server. The user sees the wait and can end it.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// New keys per request.
const MAX_RENEWALS: u32 = 1;

impl Agent {
    pub(super) fn fail(&mut self, mut error: Error, context: &mut Context) {
        let is_key_refused = self.is_key_refused(&error);
        let key = self.exchange.key.as_ref().map(|key| &key.secret);
        error.message = credentials::redact(&error.message, self.request_endpoint(), key);
        self.stop_transfer(context);
        if is_key_refused {
            if self.renew_key(context) {
                return;
            }
            let hint = credentials::hint(self.request_endpoint(), self.exchange.key.is_some());
            error.message = format!("{}; {hint}, or choose another model with /model", error.message);
        }
        let policy = context.settings.retry;
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
        if self.counts(&error, policy.retries) {
            if self.exchange.failures == policy.retries {
                if self.exchange.retries > 0 {
                    error.message = format!("{} (tried {} times)", error.message, self.exchange.retries + 1);
                }
                return self.fail_turn(error, context);
            }
            self.exchange.failures += 1;
        }
        self.exchange.forget_reply();
        self.exchange.retries += 1;
        self.exchange.wait = Wait::Retry { at: until, error };
        self.view.touch();
    }

    /// The wait that the provider asks for, or else that of the retry policy.
    fn wait_after(&self, error: &Error, context: &Context) -> Duration {
        let requested = error.retry_after.filter(|seconds| *seconds > 0);
        let requested = requested.map(|seconds| Duration::from_secs(seconds.into()).min(LONGEST_WAIT));
        let limits = if is_limit(error) { self.exchange.limits.refusals } else { 0 };
        let wait = self.exchange.failures.max(limits);
        requested.unwrap_or_else(|| context.settings.retry.wait(wait, fastrand::f64()))
    }

    /// Whether the failure counts for the retry policy. A provider that limits requests refuses those of many agents: the
    /// pace of all is at fault, until it has refused a request that was alone as often as the policy allows. A member of a
    /// run is retried by its coordinator, which has to hear of it.
    fn counts(&self, error: &Error, retries: u32) -> bool {
        let limits = self.exchange.limits;
        !is_limit(error) || retries == 0 || limits.is_alone && limits.refusals >= retries
    }

    /// Whether the provider rejected the key itself, not the request (403) and not a proxy (407).
    fn is_key_refused(&self, error: &Error) -> bool {
        let is_script = matches!(self.exchange.wait, Wait::Script { .. });
        error.kind == ErrorKind::Auth && (is_script || self.exchange.status == Some(401))
    }

    /// Waits for a new key if the rejected one came from a key command and may have expired.
    fn renew_key(&mut self, context: &mut Context) -> bool {
        let run = self.exchange.key.as_ref().map_or(0, |key| key.run);
        if run == 0 || self.exchange.renewals == MAX_RENEWALS || self.exchange.is_shown() {
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

    /// Changes the model. A running request is not affected.
    pub fn set_endpoint(&mut self, endpoint: Rc<Endpoint>, context: &mut Context) {
        let is_elsewhere = endpoint.provider != self.inputs.endpoint.provider;
        self.inputs.endpoint = endpoint;
        if is_elsewhere && matches!(self.exchange.wait, Wait::Retry { .. } | Wait::Key) {
            self.request_from_other_provider(context);
        }
    }

    /// Whether the next request goes to another provider than the last one.
    fn is_other_provider_next(&self) -> bool {
        self.request_endpoint().provider != self.inputs.endpoint.provider
    }

    /// Requests from the new provider; attempts at the previous one do not count.
    fn request_from_other_provider(&mut self, context: &mut Context) {
        self.exchange.forget_reply();
        (self.exchange.retries, self.exchange.failures, self.exchange.renewals) = (0, 0, 0);
        self.exchange.wait = Wait::Slot;
        self.view.touch();
        context.outbox.push(self.id(), Effect::Request);
    }

    /// Waits until the key command has printed a key.
    pub fn await_key(&mut self) {
        self.exchange.wait = Wait::Key;
        self.view.touch();
    }

    /// The key command has ended: sends the request, or fails the turn.
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
            self.emit(&Chunk::Mark("reply incomplete".into()));
            bodies.push(Body::Interrupted(error.kind.name().into()));
        } else if error.kind == ErrorKind::Auth && self.exchange.is_first_request() {
            bodies.extend(self.take_message_back(context));
        }
        self.emit(&Chunk::Error { kind: error.kind.name().into(), message: error.message.clone() });
        bodies.push(Body::Error(error.message.clone()));
        self.settle(bodies, AgentOutcome::Error(error), context);
    }

    /// Moves a message that no model has seen from the conversation back to the draft.
    fn take_message_back(&mut self, context: &mut Context) -> Option<Body> {
        let (id, text) = self.exchange.message.take()?;
        context.outbox.push(self.id(), Effect::ReturnText(text));
        Some(Body::Rewind(MessageId(id.0 - 1)))
    }
}

/// Whether the error limits all requests to this provider.
fn is_limit(error: &Error) -> bool {
    match error.kind {
        ErrorKind::RateLimited => true,
        ErrorKind::Overloaded => error.retry_after.is_some_and(|seconds| seconds > 0),
        _ => false,
    }
}
