//! What an agent does when its request fails: retries, waits for a new key, or ends the turn with an error. If the agent
//! is given a model of another provider while it waits, it sends the request there at once.
//!
//! Retries happen only here. A reply that breaks off is requested again, unless a person has seen a part of it. Tool calls
//! are neither shown nor carried out before the reply is complete, so they may be discarded.
//!
//! | | tried again |
//! |---|---|
//! | a number of retries is configured | that many times |
//! | a person watches, or another model can answer | five times |
//! | no person watches | as long as [`Settings::retry_time`] |

use std::rc::Rc;
use std::time::Duration;

use crate::agent::exchange::Wait;
use crate::agent::{Agent, Context, Effect, RecordedEvent, Role};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind};
use crate::base::id::MessageId;
use crate::domain::chunk::{Chunk, REPLY_INCOMPLETE};
use crate::domain::config::Settings;
use crate::domain::endpoint::{Catalog, Endpoint, ModelFacts};
use crate::domain::flow::AgentOutcome;
use crate::domain::message::Body;
use crate::provider::credentials;

/// Caps the wait that a provider asks for. Quotas are counted per day at the longest; a longer wait is a mistake of the
/// server. The user sees the wait and can end it.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Caps the wait for a provider that does not say when it accepts requests again, and accepted some recently.
const LONGEST_PROBE: Duration = Duration::from_secs(8);
/// New keys per request.
const MAX_RENEWALS: u32 = 1;

impl Agent {
    pub(super) fn fail(&mut self, mut error: Error, context: &mut Context) {
        let is_key_refused = self.is_key_refused(&error);
        let key = self.exchange.key.as_ref().map(|key| &key.secret);
        error.message = credentials::redact(&error.message, self.request_endpoint(), key);
        let status = self.exchange.status;
        context.outbox.record_event(self.id(), || RecordedEvent::Failed { status, error: error.clone() });
        self.stop_transfer(context);
        let mut spent = Vec::new();
        self.count(&mut spent);
        if !spent.is_empty() {
            context.outbox.push(self.id(), Effect::Persist(spent));
        }
        if is_key_refused {
            if self.renew_key(context) {
                return;
            }
            let hint = credentials::hint(self.request_endpoint(), self.exchange.key.is_some());
            let choice = if context.settings.is_interactive { ", or choose another model with /model" } else { "" };
            error.message = format!("{}; {hint}{choice}", error.message);
        }
        if error.kind == ErrorKind::NoTools && self.request_without_tools(&error, context) {
            return;
        }
        let wait = self.wait_after(&error, context);
        let (until, mut spread) = (context.now + wait, Duration::ZERO);
        if is_limit(&error) {
            let (provider, reason) = (self.request_endpoint().provider.clone(), error.message.clone());
            spread = context.settings.retry.spread(wait, fastrand::f64());
            context.outbox.push(self.id(), Effect::Limited { provider, until, spread, reason });
        }
        if !self.compacts_after(&error, context) {
            self.retry_or_fail(error, until + spread, context);
        }
    }

    /// Sends the request again after a wait, or with another model, or ends the turn.
    fn retry_or_fail(&mut self, mut error: Error, until: Moment, context: &mut Context) {
        if !error.kind.is_transient() || self.is_reply_seen(context) {
            return self.fail_or_fall_back(error, context);
        }
        if self.is_other_provider_next() {
            self.discard_reply(&error, context);
            return self.request_from_other_provider(context);
        }
        if self.falls_back_instead_of_waiting(&error, until, context) {
            return self.fall_back(error, context);
        }
        match self.next_try(&error, until, context) {
            Ok(at) => {
                self.discard_reply(&error, context);
                self.exchange.retries += 1;
                self.exchange.wait = Wait::Retry { at, error };
                self.view.touch();
            }
            Err(tried) => {
                error.message.push_str(&tried);
                self.fail_or_fall_back(error, context);
            }
        }
    }

    /// Whether a person has seen a part of the reply. Summaries are not shown while they are written.
    pub(super) fn is_reply_seen(&self, context: &Context) -> bool {
        self.exchange.is_shown() && context.is_watched && self.role != Role::Summary
    }

    /// Discards a reply that broke off, and tells viewers that were sent a part of it.
    pub(super) fn discard_reply(&mut self, error: &Error, context: &mut Context) {
        if self.exchange.is_shown() {
            self.emit(&Chunk::Replaced(error.message.clone()));
            let partial = self.exchange.take_reply(true).into_iter();
            let bodies = partial.chain([Body::Replaced(error.message.clone())]).collect();
            context.outbox.push(self.id(), Effect::Settle(bodies));
        }
        self.exchange.forget_reply();
    }

    /// When to send the request again, or else a note for the error message.
    fn next_try(&mut self, error: &Error, until: Moment, context: &Context) -> Result<Moment, String> {
        let (retry, can_fall_back) = (context.settings.retry, self.can_fall_back(error, context));
        if retry.retries.is_none() && !context.is_watched && !can_fall_back {
            return self.next_try_in_time(error, until, context);
        }
        let counts = can_fall_back || self.counts(error, retry.number());
        if counts && self.exchange.failures >= retry.number() {
            return Err(self.describe_tries(""));
        }
        self.exchange.failures += u32::from(counts);
        Ok(until)
    }

    fn next_try_in_time(&mut self, error: &Error, until: Moment, context: &Context) -> Result<Moment, String> {
        let since = *self.exchange.failing_since.get_or_insert(context.now);
        let end = since + context.settings.retry_time;
        if is_limit(error) && !self.is_refused_alone() {
            return Ok(until);
        }
        if context.now >= end {
            return Err(self.describe_tries(&format!(" in {} s", (context.now - since).as_secs())));
        }
        self.exchange.failures += 1;
        let Some(seconds) = error.retry_after.filter(|seconds| *seconds > 0) else { return Ok(until.min(end)) };
        // A program waits for the reply; a person who returns to a chat sees how long it took.
        let is_for_program = !context.settings.is_interactive || self.turn_retry_time.is_some();
        if is_for_program && until > end {
            return Err(format!("; not tried again: the provider asks to wait {seconds} s"));
        }
        Ok(until)
    }

    /// The settings of its requests.
    pub fn settings(&self, usual: Settings) -> Settings {
        let (retry, retry_time) = (self.retry.unwrap_or(usual.retry), self.turn_retry_time.unwrap_or(usual.retry_time));
        Settings { retry, retry_time, ..usual }
    }

    fn describe_tries(&self, time: &str) -> String {
        let tries = self.exchange.retries + 1;
        if tries == 1 { String::new() } else { format!(" (tried {tries} times{time})") }
    }

    /// The wait that the provider asks for, or else that of the retry policy, which the caller spreads after a limit.
    /// Most providers count requests per minute, so if one has accepted requests recently, a longer wait would miss the
    /// next minute.
    fn wait_after(&self, error: &Error, context: &Context) -> Duration {
        let requested = error.retry_after.filter(|seconds| *seconds > 0);
        let requested = requested.map(|seconds| Duration::from_secs(seconds.into()).min(LONGEST_WAIT));
        let limits = if is_limit(error) { self.exchange.limits.refusals } else { 0 };
        let wait = self.exchange.failures.max(limits);
        let longest =
            if is_limit(error) && self.exchange.limits.is_accepted_lately { LONGEST_PROBE } else { LONGEST_WAIT };
        let random = if is_limit(error) { 0.0 } else { fastrand::f64() };
        requested.unwrap_or_else(|| context.settings.retry.wait(wait, random).min(longest))
    }

    /// Whether the failure counts for the retry policy. A refusal because of the rate limit is caused by the pace of
    /// all agents and does not count, until the provider has accepted nothing for long and has refused a request that
    /// was alone as often as the policy allows. A member of a run is retried by its coordinator, which has to learn of
    /// the failure.
    fn counts(&self, error: &Error, retries: u32) -> bool {
        !is_limit(error) || retries == 0 || self.is_refused_alone() && self.exchange.limits.refusals >= retries
    }

    fn is_refused_alone(&self) -> bool {
        self.exchange.limits.is_alone && !self.exchange.limits.is_accepted_lately
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
        self.forget_fallback();
        if is_elsewhere && matches!(self.exchange.wait, Wait::Retry { .. } | Wait::Key) {
            self.request_from_other_provider(context);
        }
    }

    /// Sends the request again without the tools that the model refused.
    fn request_without_tools(&mut self, error: &Error, context: &mut Context) -> bool {
        if !self.exchange.has_tools || self.exchange.is_shown() {
            return false;
        }
        let model = self.request_endpoint().full_name();
        let message =
            format!("{}; the request is sent again without tools, as all to {model} from now on", error.message);
        self.emit_aside(&Chunk::Note(message));
        self.refuse_tools(&model);
        self.exchange.forget_reply();
        self.exchange.wait = Wait::Slot;
        self.view.touch();
        context.outbox.push(self.id(), Effect::ToolsRefused(model));
        context.outbox.push(self.id(), Effect::Request);
        true
    }

    /// Stops offering tools to this model.
    pub fn refuse_tools(&mut self, model: &str) {
        if self.inputs.endpoint.full_name() == model {
            Rc::make_mut(&mut self.inputs.endpoint).facts.tools = Some(false);
        }
    }

    /// Updates the facts about its model; a refusal of tools is kept.
    pub fn learn_facts(&mut self, catalog: &Catalog) {
        let endpoint = &self.inputs.endpoint;
        let Ok(found) = catalog.find(&endpoint.full_name()) else { return };
        let has_refused = endpoint.facts.tools == Some(false);
        // The agent may have its own limit.
        let max_output = endpoint.facts.max_output.or(found.facts.max_output);
        let tools = if has_refused { Some(false) } else { found.facts.tools };
        let facts = ModelFacts { tools, max_output, ..found.facts };
        if facts != endpoint.facts {
            Rc::make_mut(&mut self.inputs.endpoint).facts = facts;
        }
    }

    /// Whether the next request goes to another provider than the last one.
    fn is_other_provider_next(&self) -> bool {
        self.request_endpoint().provider != self.inputs.endpoint.provider
    }

    /// Requests from the new provider; attempts at the previous one do not count.
    pub(super) fn request_from_other_provider(&mut self, context: &mut Context) {
        self.exchange.forget_reply();
        (self.exchange.retries, self.exchange.failures, self.exchange.renewals) = (0, 0, 0);
        self.exchange.failing_since = None;
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
            Err(error) => self.fail_or_fall_back(error, context),
        }
    }

    /// The messages that hooks have to let pass before the next request, with the first of them. There are several if earlier
    /// ones were neither answered nor looked at, for example because the program ended.
    pub fn unchecked_messages(&self) -> Option<(MessageId, String)> {
        let unanswered = self.inputs.history.as_ref()?.unanswered().into_iter();
        let (ids, texts): (Vec<MessageId>, Vec<&str>) = unanswered.filter(|(id, _)| Some(*id) > self.passed).unzip();
        Some((*ids.first()?, texts.join("\n\n")))
    }

    /// The request waits for hooks, which may refuse the message.
    pub fn await_hooks(&mut self) {
        self.exchange.wait = Wait::Hooks;
        self.view.touch();
    }

    /// The hooks before the request have ended. With what they add it is sent; if they refuse it, the turn fails.
    pub fn on_hooks_ended(&mut self, outcome: Result<Vec<Body>, String>, context: &mut Context) {
        if !matches!(self.exchange.wait, Wait::Hooks) {
            return;
        }
        match outcome {
            Ok(bodies) => {
                self.passed = self.turn_message().max(self.passed);
                self.exchange.wait = Wait::Slot;
                self.view.touch();
                if !bodies.is_empty() {
                    context.outbox.push(self.id(), Effect::Persist(bodies));
                }
                context.outbox.push(self.id(), Effect::Request);
            }
            Err(reason) => {
                let taken_back = self.take_back_messages(context);
                self.fail_turn(Error::usage(format!("not sent: a hook refused it: {reason}")), context);
                taken_back.into_iter().for_each(|effect| context.outbox.push(self.id(), effect));
            }
        }
    }

    /// Puts messages that hooks have not let pass back into the draft. With the effect that is returned, no model gets them; it
    /// has to follow the end of the turn.
    pub(super) fn take_back_messages(&mut self, context: &mut Context) -> Option<Effect> {
        let (first, text) = matches!(self.exchange.wait, Wait::Hooks).then(|| self.unchecked_messages())??;
        self.exchange.message = None;
        context.outbox.push(self.id(), Effect::ReturnText(text));
        Some(Effect::Persist(vec![Body::Rewind(MessageId(first.0 - 1))]))
    }

    fn fail_or_fall_back(&mut self, error: Error, context: &mut Context) {
        if self.can_fall_back(&error, context) {
            self.fall_back(error, context)
        } else {
            self.fail_turn(error, context)
        }
    }

    pub(super) fn fail_turn(&mut self, error: Error, context: &mut Context) {
        self.exchange.wait = Wait::Nothing;
        let error = self.with_advice(error, context.settings.is_interactive);
        let mut bodies: Vec<Body> = self.exchange.take_reply(true).into_iter().collect();
        if !bodies.is_empty() {
            self.emit(&Chunk::Mark(REPLY_INCOMPLETE.into()));
            bodies.push(Body::Interrupted(error.kind.name().into()));
        } else if matches!(error.kind, ErrorKind::Auth | ErrorKind::ContextTooLong) && self.exchange.is_first_request()
        {
            self.return_message(context);
        }
        self.emit(&Chunk::Error { kind: error.kind.name().into(), message: error.message.clone() });
        bodies.push(Body::Error(error.message.clone()));
        self.finish_turn(bodies, AgentOutcome::Error(error), context);
    }

    /// Puts a message that no model has answered back into the draft.
    fn return_message(&mut self, context: &mut Context) {
        if let Some((_, text)) = self.exchange.message.take() {
            context.outbox.push(self.id(), Effect::ReturnText(text));
        }
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
