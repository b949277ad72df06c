//! What an MCP server asks the person while a call waits for it. The question is shown as one about a call; the values of a
//! form are what the person edits. Nothing that a model does answers it.

use serde_json::Value;

use super::Progress;
use crate::agent::{Agent, Context, Effect, State};
use crate::domain::chunk::Chunk;
use crate::domain::elicitation::Elicitation;
use crate::tools::{Answers, Question, visible};

/// The question of a server.
pub(super) fn question(asked: &Elicitation) -> Question {
    let detail = asked.detail().iter().map(|line| visible(line)).collect();
    let answers = Answers { ask: "", yes: "accept", no: "decline" };
    Question { answers, ..Question::new(visible(&asked.title()), detail) }
}

impl Agent {
    /// Asks the person a question of the server about this call. False if the call does not wait for a server.
    pub fn elicit(&mut self, id: &str, asked: Elicitation, context: &mut Context) -> bool {
        let Some(at) = self.work.place_by_loop(id) else { return false };
        self.work.calls[at].progress = Progress::Elicited(Box::new(asked));
        self.advance_tools(context);
        true
    }

    /// The person has answered what a server asked.
    pub(super) fn answer_elicitation(&mut self, at: usize, is_accepted: bool, context: &mut Context) {
        let call = &mut self.work.calls[at];
        let Progress::Elicited(asked) = &call.progress else { return };
        let response = match is_accepted.then(|| asked.accepted()) {
            Some(Ok(response)) => response,
            // It is asked again.
            Some(Err(why)) => return self.emit(&Chunk::Note(why)),
            None => Elicitation::decline_answer(),
        };
        self.give_response(at, response, context);
    }

    fn give_response(&mut self, at: usize, response: Value, context: &mut Context) {
        let call = &mut self.work.calls[at];
        call.progress = Progress::ByLoop(None);
        let effect = Effect::Elicited { call: call.call.id.clone(), response };
        context.outbox.push(self.id(), effect);
    }

    /// The person has edited the values. If they do not fit, the question stays open.
    pub(super) fn edit_elicitation(&mut self, at: usize, text: &str, context: &mut Context) -> Result<(), String> {
        let Progress::Elicited(asked) = &self.work.calls[at].progress else { return Ok(()) };
        let edited = asked.with_edits(text)?;
        self.work.calls[at].progress = Progress::Elicited(Box::new(edited));
        self.work.question = None;
        self.enter(State::ExecutingTool, context);
        self.ask(at, context);
        Ok(())
    }

    /// Closes the question of a server whose call is over.
    pub(super) fn close_elicitation(&mut self, id: &str, context: &mut Context) {
        let Some(at) = self.work.calls.iter().position(|call| call.call.id == id) else { return };
        if !matches!(self.work.calls[at].progress, Progress::Elicited(_) | Progress::HostAsks(_)) {
            return;
        }
        self.work.calls[at].progress = Progress::ByLoop(None);
        if self.work.question.as_ref().is_some_and(|question| question.call == at) {
            self.work.question = None;
            self.enter(State::ExecutingTool, context);
            self.emit(&Chunk::Note("the answer is not waited for any more".into()));
        }
    }
}
