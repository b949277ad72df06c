//! Handles the parts of a reply as they arrive, and its end.

use crate::agent::{Agent, Context, Effect, RecordedEvent, State};
use crate::base::error::{Error, ErrorKind};
use crate::base::id::AgentId;
use crate::domain::chunk::{Chunk, StopReason};
use crate::domain::flow::AgentOutcome;
use crate::domain::message::{Body, Signature};
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::domain::tool::ToolCall;

impl Agent {
    pub(super) fn on_stream_event(&mut self, event: StreamEvent, context: &mut Context) {
        context.outbox.trace_event(self.id(), event.name(), event.size());
        context.outbox.record_event(self.id(), || RecordedEvent::Stream(event.clone()));
        self.view.set_time(context.now);
        match event {
            StreamEvent::Text(text) => {
                self.exchange.reply.text.push_str(&text);
                self.emit(&Chunk::Text(text));
            }
            StreamEvent::Thinking(text) => {
                self.exchange.reply.thinking.push_str(&text);
                self.emit(&Chunk::Thinking(text));
            }
            StreamEvent::Signature(json) => {
                let (text, calls) = (self.exchange.reply.text.len(), self.exchange.calls.len());
                self.exchange.reply.signatures.push(Signature { text, calls, json });
            }
            StreamEvent::ToolCall { index, id, name, arguments } => self.on_call_piece(index, id, name, &arguments),
            StreamEvent::Usage(usage) => self.exchange.usage = Some(usage),
            StreamEvent::Finish(finish) => self.exchange.finish = Some(finish),
            StreamEvent::Error(error) => self.fail(error, context),
            StreamEvent::Done => self.on_reply_complete(context),
        }
    }

    fn on_call_piece(&mut self, index: usize, id: String, name: String, arguments: &str) {
        let calls = &mut self.exchange.calls;
        // A server may begin calls in any order; decoders limit their number.
        while calls.len() <= index {
            calls.push(ToolCall { id: String::new(), name: String::new(), arguments: String::new() });
        }
        let call = &mut calls[index];
        if call.name.is_empty() {
            (call.id, call.name) = (id, name);
        }
        call.arguments.push_str(arguments);
    }

    fn on_reply_complete(&mut self, context: &mut Context) {
        self.finish_transfer(context);
        self.view.close();
        let mut calls = std::mem::take(&mut self.exchange.calls);
        make_ids_unique(&mut calls);
        let finish = self.exchange.finish;
        let is_cut = matches!(finish, Some(Finish::Length | Finish::ContentFilter));
        let mut bodies: Vec<Body> = self.exchange.take_reply(is_cut).into_iter().collect();
        self.count(&mut bodies);
        let may_call = self.may_call(context) || self.request_endpoint().is_host();
        if calls.is_empty() || is_cut || !may_call {
            return self.end_turn(bodies, finish, calls.len(), context);
        }
        // The calls follow directly after the reply that made them.
        let after_reply = usize::from(matches!(bodies.first(), Some(Body::Assistant(_))));
        bodies.splice(after_reply..after_reply, calls.iter().cloned().map(Body::ToolCall));
        context.outbox.push(self.id(), Effect::Settle(bodies));
        self.enter(State::ExecutingTool, context);
        self.plan_tools(calls, context);
        self.advance_tools(context);
    }

    /// Adds the reported usage of the request, even if the reply was cut off.
    pub(in crate::agent) fn count(&mut self, bodies: &mut Vec<Body>) {
        if let Some(usage) = self.usage_so_far() {
            (self.exchange.usage, self.exchange.stored_usage) = (None, None);
            self.used.add(&usage);
            let sent = self.exchange.sent;
            self.context_use.iter_mut().for_each(|known| known.on_counted(&usage.model, sent, &usage));
            self.emit(&Chunk::Usage(usage.clone()));
            bodies.push(Body::Usage(usage));
        }
    }

    /// The usage reported so far for the current request.
    pub fn usage_so_far(&self) -> Option<Usage> {
        let mut usage = self.exchange.usage.clone()?;
        usage.model = self.request_endpoint().full_name();
        let prices = self.request_endpoint().facts.prices;
        usage.cost = usage.cost.or_else(|| prices.map(|prices| prices.cost(&usage)));
        Some(usage)
    }

    fn end_turn(&mut self, mut bodies: Vec<Body>, finish: Option<Finish>, calls: usize, context: &mut Context) {
        let is_empty =
            !bodies.iter().any(|body| matches!(body, Body::Assistant(reply) if !reply.text.trim().is_empty()));
        let (stop_reason, note) = match (finish, calls) {
            (Some(Finish::Length), 0) => (StopReason::Length, Some("reply cut at the length limit of the model")),
            (Some(Finish::Length), _) => {
                (StopReason::Length, Some("reply cut at the length limit within a tool call; the call was not run"))
            }
            (Some(Finish::ContentFilter), _) => {
                (StopReason::ContentFilter, Some("reply cut by the content filter of the provider"))
            }
            _ if (calls > 0 || is_empty) && self.exchange.iterations >= context.settings.tool_iterations => {
                (StopReason::ToolRounds, Some("limit of tool rounds per message reached: send a message to continue"))
            }
            _ if is_empty => (StopReason::Empty, Some("the reply is empty: send a message to continue")),
            _ => (StopReason::Stop, None),
        };
        if stop_reason == StopReason::Stop {
            match self.begin_turn_hooks(bodies, context) {
                Some(ended) => bodies = ended,
                None => return,
            }
        }
        self.emit(&Chunk::Finish { stop_reason });
        if let Some(note) = note {
            let is_failed = finish == Some(Finish::ContentFilter);
            bodies.push(if is_failed { Body::Error(note.into()) } else { Body::Interrupted(note.into()) });
        }
        let outcome = match (finish, note) {
            (Some(Finish::ContentFilter), Some(note)) => {
                let error = Error::new(ErrorKind::Refused, note);
                self.emit(&Chunk::Error { kind: error.kind.name().into(), message: note.into() });
                AgentOutcome::Error(error)
            }
            (_, note) => {
                note.iter().for_each(|note| self.emit(&Chunk::Mark((*note).into())));
                AgentOutcome::Completed
            }
        };
        self.finish_turn(bodies, outcome, context);
    }

    pub(in crate::agent) fn interrupt_reply(&mut self, context: &mut Context) {
        let taken_back = self.take_back_messages(context);
        self.stop_transfer(context);
        let mut bodies = Vec::new();
        self.count(&mut bodies);
        let reply = self.exchange.take_reply(true);
        let partial = reply.is_some();
        bodies.extend(reply);
        self.settle_stopped(bodies, partial, context);
        taken_back.into_iter().for_each(|effect| context.outbox.push(self.id(), effect));
    }
}

/// Results are matched to calls by id, but some providers give no id, or the same one twice.
fn make_ids_unique(calls: &mut [ToolCall]) {
    for at in 0..calls.len() {
        let (before, rest) = calls.split_at_mut(at);
        if rest[0].id.is_empty() || before.iter().any(|call| call.id == rest[0].id) {
            rest[0].id = format!("call_{}", AgentId::random());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_without_a_unique_id_get_one() {
        let call = |id: &str| ToolCall { id: id.into(), name: "bash".into(), arguments: "{}".into() };
        let mut calls = [call(""), call("a"), call(""), call("a")];
        make_ids_unique(&mut calls);
        let ids: std::collections::BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), 4);
        assert_eq!(calls[1].id, "a");
    }
}
