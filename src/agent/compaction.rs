//! How full the context is, and whether a part of the conversation has to be summarised before a request is sent.
//!
//! The loop has the summary written, by an agent of its own; until then this one waits.

use std::borrow::Cow;
use std::rc::Rc;

use crate::agent::exchange::Wait;
use crate::agent::{Agent, Context, Effect, Role};
use crate::base::error::{Error, ErrorKind};
use crate::base::id::AgentId;
use crate::domain::chunk::Chunk;
use crate::domain::compaction::{Compaction, Plan};
use crate::domain::config::Settings;
use crate::domain::context_use::{ContextUse, length, total_length};
use crate::domain::message::{Body, Message};
use crate::provider;

/// The room for a conversation if the context length is unknown, in bytes.
const UNKNOWN_ROOM: usize = 200_000;
/// What one request summarises if the context length is unknown, in bytes.
const UNKNOWN_PIECE: usize = 300_000;
/// Automatic compaction has to leave out at least one part in this many of the conversation.
const LEAST_GAIN: usize = 5;

impl Agent {
    /// The tokens of the conversation as it is sent next, and whether a part of them is an estimate; `None` if nothing was
    /// sent or it is not known.
    pub fn context_tokens(&self) -> Option<(u64, bool)> {
        let known = self.context_use.as_ref().filter(|known| known.is_used())?;
        Some((known.tokens(&self.inputs.endpoint.full_name()), known.is_estimate()))
    }

    /// How full the context is, in percent; `None` if that is not known.
    pub fn context_percent(&self) -> Option<u64> {
        let (tokens, _) = self.context_tokens()?;
        Some(tokens.saturating_mul(100) / self.context_limit()?.max(1))
    }

    /// The most tokens of a request and its reply, as configured or learned from an error.
    pub fn context_limit(&self) -> Option<u64> {
        self.inputs.endpoint.facts.context
    }

    /// Whether the older part of its conversation is being summarised.
    pub fn is_compacting(&self) -> bool {
        self.is_compacting
    }

    /// Sets whether its conversation is being summarised, and the agent that writes the summary.
    pub fn set_compacting(&mut self, is_compacting: bool, writer: Option<AgentId>) {
        let before = self.status();
        (self.is_compacting, self.helper) = (is_compacting, writer);
        self.show_work();
        self.emit_status_after(before);
    }

    /// Counts the conversation, if it is in memory and not counted yet.
    pub fn count_context(&mut self) {
        let base = self.base_bytes();
        let model = self.inputs.endpoint.full_name();
        let Some(history) = &self.inputs.history else { return };
        match &mut self.context_use {
            Some(known) => known.refresh(history, base),
            None => self.context_use = Some(ContextUse::of_history(history, base, &model)),
        }
    }

    /// The bytes that are sent besides the conversation.
    pub(super) fn base_bytes(&self) -> usize {
        let tools = if self.inputs.has_tools { self.inputs.environment.declarations() } else { Vec::new() };
        let tools = tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.parameters.len());
        self.system_prompt().len() + tools.sum::<usize>()
    }

    /// The system prompt as it is sent: with the skills and definitions that the model may use.
    pub fn system_prompt(&self) -> Cow<'_, str> {
        let can_call = self.inputs.has_tools && self.inputs.endpoint.facts.tools != Some(false);
        let more = if can_call { self.more_prompt() } else { String::new() } + &self.inputs.environment.added_prompt;
        if more.is_empty() {
            Cow::Borrowed(&*self.inputs.system)
        } else {
            format!("{}{more}", self.inputs.system).into()
        }
    }

    fn more_prompt(&self) -> String {
        self.inputs.environment.skill_prompt() + &self.inputs.environment.definition_prompt()
    }

    /// Messages are added to the log.
    pub(super) fn count_added(&mut self, messages: &[Message]) {
        if let Some(known) = &mut self.context_use {
            messages.iter().for_each(|message| known.add(&message.body));
        }
    }

    /// Counts the conversation again if what is sent has changed.
    pub(super) fn count_changed(&mut self) {
        if self.context_use.as_ref().is_some_and(ContextUse::is_stale) {
            match self.inputs.history {
                Some(_) => self.count_context(),
                None => self.context_use = None,
            }
        }
    }

    /// Whether the older part of the conversation has to be summarised before the request is sent.
    pub fn needs_compaction(&mut self, settings: &Settings) -> bool {
        if self.role == Role::Summary {
            return false;
        }
        self.count_context();
        if settings.compact_at == 0 || self.exchange.has_compacted || self.exchange.overflow.is_some() {
            return self.exchange.overflow.is_some();
        }
        let (Some(limit), Some((tokens, _))) = (self.context_limit(), self.context_tokens()) else { return false };
        !self.is_repeating() && !self.exchange.is_compaction_refused && tokens >= self.threshold(limit, settings)
    }

    /// The tokens from which on the conversation is compacted; the reply needs room too.
    fn threshold(&self, limit: u64, settings: &Settings) -> u64 {
        let share = if settings.compact_at == 0 { 80 } else { settings.compact_at };
        let reply = self.inputs.endpoint_of_request().facts.max_output.unwrap_or(0);
        (limit.saturating_mul(share.into()) / 100).min(limit.saturating_sub(reply).max(limit / 2))
    }

    /// The limit that a compaction must not exceed; after an error that the conversation is too long, it is below its
    /// size.
    fn limit_to_keep(&self) -> Option<u64> {
        let is_too_long = self.exchange.overflow.is_some();
        let tokens = self.context_tokens().map(|(tokens, _)| tokens).filter(|_| is_too_long);
        self.context_limit().into_iter().chain(tokens).min()
    }

    /// Chooses what to summarise; `None` if there is nothing, or too little of it.
    pub fn plan_compaction(&mut self, goal: Option<String>, is_automatic: bool, settings: &Settings) -> Option<Plan> {
        self.count_context();
        let model = self.inputs.endpoint.full_name();
        let known = self.context_use.as_ref()?;
        let room = self.limit_to_keep().map_or(UNKNOWN_ROOM, |limit| {
            known.bytes_of(&model, self.threshold(limit, settings)).saturating_sub(self.base_bytes())
        });
        let conversation = self.inputs.history.as_ref()?.conversation();
        let gain = if is_automatic { total_length(&conversation).min(room) / LEAST_GAIN } else { 1 };
        Plan::new(&conversation, room, gain, goal)
    }

    /// How many bytes one request for a summary may have.
    pub fn summary_piece(&self) -> usize {
        let model = self.inputs.endpoint.full_name();
        let Some((limit, known)) = self.limit_to_keep().zip(self.context_use.as_ref()) else { return UNKNOWN_PIECE };
        known.bytes_of(&model, limit / 2)
    }

    /// The compaction with the tokens before and after it; `Err` if it is not shorter than what it leaves out.
    pub fn measured(&self, mut compaction: Compaction) -> Result<Compaction, Box<Compaction>> {
        let (Some(known), Some(history)) = (&self.context_use, &self.inputs.history) else { return Ok(compaction) };
        let model = self.inputs.endpoint.full_name();
        let is_left_out = |message: &&&Message| {
            let id = if let Body::Compaction(earlier) = &message.body { earlier.up_to } else { message.id };
            (compaction.from..=compaction.up_to).contains(&id)
        };
        let conversation = history.conversation();
        let left_out: usize = conversation.iter().filter(is_left_out).map(|message| length(&message.body)).sum();
        compaction.before = known.tokens(&model);
        let own_length = length(&Body::Compaction(Box::new(compaction.clone())));
        let added = known.tokens_of(&model, own_length);
        let removed = known.tokens_of(&model, left_out);
        compaction.after = (compaction.before + added).saturating_sub(removed).max(added);
        if own_length < left_out { Ok(compaction) } else { Err(Box::new(compaction)) }
    }

    /// The request waits for a compaction.
    pub fn await_compaction(&mut self) {
        self.exchange.wait = Wait::Compaction;
        self.view.touch();
    }

    /// The compaction that the request waits for was stored, or there is none. A request that was too long without one
    /// fails; any other is sent.
    pub fn on_compaction_ended(&mut self, is_stored: bool, context: &mut Context) {
        if is_stored {
            self.exchange.has_compacted = true;
        } else {
            self.exchange.is_compaction_refused = true;
        }
        match self.exchange.overflow.take().filter(|_| !is_stored) {
            Some(error) => self.fail_turn(error, context),
            None => {
                self.exchange.wait = Wait::Slot;
                self.view.touch();
                context.outbox.push(self.id(), Effect::Request);
            }
        }
    }

    /// Compacts a conversation that was too long instead of failing, once for each request.
    pub(super) fn compacts_after(&mut self, error: &Error, context: &mut Context) -> bool {
        if error.kind != ErrorKind::ContextTooLong || self.role == Role::Summary {
            return false;
        }
        if let Some(limit) = provider::context_length_in(&error.message) {
            self.learn_context(limit, context);
        }
        let exchange = &self.exchange;
        if context.settings.compact_at == 0 || exchange.has_compacted || exchange.is_compaction_refused {
            return false;
        }
        if exchange.is_shown() {
            return false;
        }
        self.exchange.forget_reply();
        self.exchange.overflow = Some(error.clone());
        self.exchange.wait = Wait::Slot;
        context.outbox.push(self.id(), Effect::Request);
        true
    }

    /// Learns the context length from an error of the provider, for all agents of the model.
    fn learn_context(&mut self, limit: u64, context: &mut Context) {
        let model = self.request_endpoint().full_name();
        if self.request_endpoint().facts.context == Some(limit) {
            return;
        }
        if self.inputs.endpoint.full_name() == model {
            Rc::make_mut(&mut self.inputs.endpoint).facts.context = Some(limit);
        }
        self.emit_aside(&Chunk::Note(format!("the context of {model} is {limit} tokens")));
        context.outbox.push(self.id(), Effect::ContextLearned { model, limit });
    }
}
