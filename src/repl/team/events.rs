//! What is heard of the agents that play: what they say goes to the store like everybody's, and beside that to the task.

use crate::agent::Effect;
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind};
use crate::base::id::AgentId;
use crate::domain::flow::AgentOutcome;
use crate::domain::message::Body;
use crate::repl::Repl;
use crate::repl::team::{RunId, Team};

/// What one attempt has brought so far.
#[derive(Default)]
pub(super) struct Heard {
    /// The text of the reply with which the turn ended.
    answer: String,
    /// Why that reply is not whole.
    cut: Option<String>,
    /// Something of the answer was shown, or a tool was called: the same cannot be asked again as if nothing had been.
    is_shown: bool,
}

impl Heard {
    fn hear(&mut self, bodies: &[Body], is_end: bool) {
        for body in bodies {
            match body {
                Body::Assistant(reply) => {
                    self.is_shown = true;
                    if is_end {
                        self.answer.clone_from(&reply.text);
                    }
                }
                Body::ToolCall(_) | Body::ToolResult(_) => self.is_shown = true,
                Body::Interrupted(why) if is_end => self.cut = Some(why.clone()),
                _ => {}
            }
        }
    }

    /// A reply that was cut before it said anything is no answer.
    fn answer(&self) -> Result<&str, Error> {
        match &self.cut {
            Some(why) if self.answer.trim().is_empty() => Err(Error::new(ErrorKind::Protocol, why.clone())),
            _ => Ok(&self.answer),
        }
    }
}

impl Team {
    fn hear(&mut self, agent: AgentId, bodies: &[Body], is_end: bool, now: Moment) {
        let Some(part) = self.parts.get_mut(&agent) else { return };
        part.heard.hear(bodies, is_end);
        let tokens = |body: &Body| if let Body::Usage(usage) = body { usage.input + usage.output } else { 0 };
        let (run, agent_id, tokens) = (part.run.clone(), part.agent_id, bodies.iter().map(tokens).sum());
        if tokens > 0 {
            self.with_task(&run, now, |task, _| task.on_tokens(agent_id, tokens));
        }
    }

    /// This agent was given a place to work.
    pub(in crate::repl) fn on_begun(&mut self, agent: AgentId, now: Moment) {
        let Some(part) = self.parts.get(&agent) else { return };
        let (run, agent_id) = (part.run.clone(), part.agent_id);
        self.with_task(&run, now, |task, _| task.on_begun(agent_id, now));
    }

    fn on_settled(&mut self, agent: AgentId, outcome: &AgentOutcome, now: Moment) {
        let Some(part) = self.parts.get(&agent) else { return };
        let (run, agent_id, was_shown) = (part.run.clone(), part.agent_id, part.heard.is_shown);
        let came = match outcome {
            AgentOutcome::Completed => part.heard.answer().map(str::to_owned),
            AgentOutcome::Error(error) => Err(error.clone()),
            AgentOutcome::Interrupted { .. } => Err(Error::new(ErrorKind::System, "a person has interrupted it")),
            AgentOutcome::Exited => return,
        };
        self.with_task(&run, now, |task, context| match came {
            Ok(answer) => task.on_answer(agent_id, &answer, context),
            Err(error) => task.on_failure(agent_id, &error, error.kind.is_transient() && !was_shown, context),
        });
    }

    /// This agent is gone, whoever has killed it: it plays no more, and nobody hears of a run that it has asked for.
    pub(in crate::repl) fn on_removed(&mut self, agent: AgentId, now: Moment) {
        if let Some(part) = self.parts.remove(&agent) {
            if let Some(run) = self.run_mut(&part.run) {
                run.agents.remove(&part.agent_id);
            }
            let error = Error::new(ErrorKind::System, "it was killed");
            self.with_task(&part.run, now, |task, context| task.on_failure(part.agent_id, &error, false, context));
        }
        self.interrupt_runs_of(agent, now);
    }

    /// All that this agent has asked for and that goes on is to end with what there is. Whether there was such a run.
    pub(in crate::repl) fn interrupt_runs_of(&mut self, origin: AgentId, now: Moment) -> bool {
        let open: Vec<RunId> = self.open_runs().filter(|run| run.origin == origin).map(|run| run.id.clone()).collect();
        for run in &open {
            self.interrupt(run, now);
        }
        !open.is_empty()
    }
}

impl Repl {
    /// What an agent that plays says is heard. Text that would go back to the person who has written it goes nowhere: the
    /// task has it.
    pub(in crate::repl) fn divert_to_team(&mut self, agent_id: AgentId, effect: Effect) -> Option<Effect> {
        if !self.team.plays(agent_id) {
            return Some(effect);
        }
        let now = self.core.clock.now();
        match &effect {
            Effect::Persist(bodies) | Effect::Settle(bodies) => self.team.hear(agent_id, bodies, false, now),
            Effect::Finish(bodies) => self.team.hear(agent_id, bodies, true, now),
            // What a person has queued for it may begin right behind this: that is no part of the task any more.
            Effect::Settled(outcome) => self.team.on_settled(agent_id, outcome, now),
            Effect::ReturnText(_) => return None,
            _ => {}
        }
        Some(effect)
    }
}
