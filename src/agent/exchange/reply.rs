//! What comes back: the pieces of a reply as they arrive, and what becomes of it once it is whole or was stopped.

use crate::agent::{Agent, Context, Effect, State};
use crate::base::error::{Error, ErrorKind};
use crate::base::id::AgentId;
use crate::domain::chunk::Chunk;
use crate::domain::flow::AgentOutcome;
use crate::domain::message::{Body, Signature};
use crate::domain::stream::{Finish, StreamEvent};
use crate::domain::tool::ToolCall;

impl Agent {
    pub(super) fn on_stream_event(&mut self, event: StreamEvent, context: &mut Context) {
        context.outbox.trace_event(self.id(), event.name(), event.len());
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
                self.exchange.reply.by = self.request_endpoint().full_name();
            }
            StreamEvent::ToolCall { index, id, name, arguments } => self.on_call_piece(index, id, name, &arguments),
            StreamEvent::Usage(usage) => self.exchange.usage = Some(usage),
            StreamEvent::Finish(finish) => self.exchange.finish = Some(finish),
            StreamEvent::Error(error) => self.fail(error, context),
            StreamEvent::Done => self.on_reply_whole(context),
        }
    }

    fn on_call_piece(&mut self, index: usize, id: String, name: String, arguments: &str) {
        let calls = &mut self.exchange.calls;
        // A server may begin its calls in any order; decoders bound how many there are.
        while calls.len() <= index {
            calls.push(ToolCall { id: String::new(), name: String::new(), arguments: String::new() });
        }
        let call = &mut calls[index];
        if call.name.is_empty() {
            (call.id, call.name) = (id, name);
        }
        call.arguments.push_str(arguments);
    }

    fn on_reply_whole(&mut self, context: &mut Context) {
        self.finish_transfer(context);
        self.view.close();
        let mut calls = std::mem::take(&mut self.exchange.calls);
        make_ids_unique(&mut calls);
        let finish = self.exchange.finish;
        let mut bodies: Vec<Body> = self.exchange.take_reply(finish == Some(Finish::Length)).into_iter().collect();
        self.count(&mut bodies);
        let is_cut = matches!(finish, Some(Finish::Length | Finish::ContentFilter));
        if calls.is_empty() || is_cut || !self.may_call(context) {
            return self.end_turn(bodies, finish, calls.len(), context);
        }
        // The calls stand directly behind the reply that made them.
        let behind = usize::from(matches!(bodies.first(), Some(Body::Assistant(_))));
        bodies.splice(behind..behind, calls.iter().cloned().map(Body::ToolCall));
        context.outbox.push(self.id(), Effect::Settle(bodies));
        self.enter(State::ExecutingTool, context);
        self.plan_tools(calls);
        self.advance_tools(context);
    }

    fn count(&mut self, bodies: &mut Vec<Body>) {
        if let Some(mut usage) = self.exchange.usage.take() {
            let prices = self.request_endpoint().facts.prices;
            usage.cost = usage.cost.or_else(|| prices.map(|prices| prices.cost(&usage)));
            self.used.add(usage);
            self.view.context_tokens = usage.input + usage.output;
            self.emit(&Chunk::Usage(usage));
            bodies.push(Body::Usage(usage));
        }
    }

    fn end_turn(&mut self, mut bodies: Vec<Body>, finish: Option<Finish>, calls: usize, context: &mut Context) {
        let note = match (finish, calls) {
            (Some(Finish::Length), 0) => Some("the reply was cut at the length limit of the model"),
            (Some(Finish::Length), _) => {
                Some("the reply was cut at the length limit in the middle of a tool call: the call was not run")
            }
            (Some(Finish::ContentFilter), _) => Some("the provider's content filter cut the reply"),
            _ if self.exchange.iterations >= context.settings.tool_iterations => {
                Some("the limit of tool rounds for one message is reached: say how to go on")
            }
            _ => None,
        };
        if let Some(note) = note {
            bodies.push(Body::Interrupted(note.to_owned()));
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
        self.settle(bodies, outcome, context);
    }

    pub(in crate::agent) fn interrupt_reply(&mut self, context: &mut Context) {
        self.stop_transfer(context);
        let mut bodies: Vec<Body> = self.exchange.take_reply(true).into_iter().collect();
        let partial = !bodies.is_empty();
        self.emit(&Chunk::Mark("interrupted".into()));
        bodies.push(Body::Interrupted("interrupted".into()));
        self.settle(bodies, AgentOutcome::Interrupted { partial }, context);
    }
}

/// Answers are matched by id, and not every provider gives one, or a different one to each call.
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
    fn calls_without_an_id_or_with_one_twice_get_their_own() {
        let call = |id: &str| ToolCall { id: id.into(), name: "bash".into(), arguments: "{}".into() };
        let mut calls = [call(""), call("a"), call(""), call("a")];
        make_ids_unique(&mut calls);
        let ids: std::collections::BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), 4);
        assert_eq!(calls[1].id, "a");
    }
}
