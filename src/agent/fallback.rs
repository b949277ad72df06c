//! Another model answers the rest of a turn if the agent's own cannot: after the last retry, or where retrying does not
//! help. The next turn begins with the agent's own model again. Each model of the list is tried once in a turn.

use std::rc::Rc;

use crate::agent::exchange::Wait;
use crate::agent::{Agent, Context, Effect};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind};
use crate::domain::chunk::Chunk;
use crate::domain::endpoint::Endpoint;
use crate::domain::message::Body;
use crate::domain::thinking::Thinking;

/// How far the list of models was tried in this turn.
#[derive(Default)]
pub struct Fallback {
    /// Entries of the list that were tried.
    tried: usize,
    /// The agent's own model and its thinking level, while another model answers.
    usual: Option<(Rc<Endpoint>, Thinking)>,
}

impl Agent {
    /// The model chosen for the agent, even while another one answers.
    pub fn usual_endpoint(&self) -> &Rc<Endpoint> {
        self.fallback.usual.as_ref().map_or(&self.inputs.endpoint, |(endpoint, _)| endpoint)
    }

    /// Sets the thinking level.
    pub fn set_thinking(&mut self, thinking: Thinking) {
        self.inputs.thinking = thinking;
        self.fallback.usual.iter_mut().for_each(|(_, usual)| *usual = thinking);
    }

    /// Whether another model is left that may answer after this error.
    pub(super) fn can_fall_back(&self, error: &Error, context: &Context) -> bool {
        let is_mended_elsewhere = error.kind.is_transient() || error.kind == ErrorKind::Auth;
        let is_left = self.fallback.tried < self.usual_endpoint().fallback.len();
        is_mended_elsewhere && is_left && !self.is_reply_seen(context)
    }

    /// Whether to fall back instead of waiting for this retry, because another model can answer now.
    pub(super) fn falls_back_instead_of_waiting(&self, error: &Error, until: Moment, context: &Context) -> bool {
        self.can_fall_back(error, context) && until > context.now + context.settings.retry.cap
    }

    /// Asks the loop to find another model.
    pub(super) fn fall_back(&mut self, error: Error, context: &mut Context) {
        self.discard_reply(&error, context);
        self.exchange.wait = Wait::Nothing;
        context.outbox.push(self.id(), Effect::FallBack(error));
    }

    /// The name of the next model that may answer; each is returned once in a turn.
    pub fn next_fallback(&mut self) -> Option<String> {
        let list = &self.usual_endpoint().fallback;
        let at = (self.fallback.tried..list.len()).find(|at| list[*at] != self.inputs.endpoint.full_name());
        let next = at.map(|at| list[at].clone());
        self.fallback.tried = at.map_or(list.len(), |at| at + 1);
        next
    }

    /// Continues the turn with another model.
    pub fn continue_with(&mut self, endpoint: Rc<Endpoint>, thinking: Thinking, error: &Error, context: &mut Context) {
        let (before, now) = (self.inputs.endpoint.full_name(), endpoint.full_name());
        let line = format!("{now} answers, because {before} failed: {}", error.message);
        self.emit_aside(&Chunk::Note(line.clone()));
        context.outbox.push(self.id(), Effect::Persist(vec![Body::Command(line)]));
        let usual = (self.inputs.endpoint.clone(), self.inputs.thinking);
        self.fallback.usual.get_or_insert(usual);
        (self.inputs.endpoint, self.inputs.thinking) = (endpoint, thinking);
        self.request_from_other_provider(context);
    }

    /// No other model can answer.
    pub fn give_up(&mut self, error: Error, context: &mut Context) {
        self.fail_turn(error, context);
    }

    /// The next turn begins with the agent's own model.
    pub(super) fn end_fallback(&mut self) {
        if let Some((endpoint, thinking)) = std::mem::take(&mut self.fallback).usual {
            (self.inputs.endpoint, self.inputs.thinking) = (endpoint, thinking);
        }
    }

    /// A person has chosen another model.
    pub(super) fn forget_fallback(&mut self) {
        self.fallback = Fallback::default();
    }
}
