//! `/slice`: a child whose conversation is a cut of its parent's, in rows of its own. Where summaries are wanted the cut
//! waits, as a value, until models have written them; its agent goes on meanwhile.
//!
//! ```text
//!   /slice ──► Cut ──no summaries──────────────────────────────► child
//!               └──► Slicing { cut, errands } ──all written──► child
//!                        │ one fails, Esc, the agent dies
//!                        └──► nothing was there, and nothing is left
//! ```
//! Each summary is asked for by an *errand*: an agent that is in no list and no store, and otherwise like every agent: it
//! waits for its place, is sent again, stalls, and can be cut.

use std::rc::Rc;

use crate::agent::Effect;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::base::text;
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::{AgentOutcome, Origin};
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::domain::slice::{Cut, SUMMARY_SYSTEM, SliceSpec};
use crate::domain::stream::Usage;
use crate::repl::Repl;
use crate::repl::core::agent_gone;
use crate::store::{Forked, NewAgent, Store};
use crate::team::AgentFactory;

/// A cut that waits for its summaries.
pub(super) struct SliceJob {
    /// Whose conversation is cut.
    agent_id: AgentId,
    /// The terminal from which it was asked for.
    origin: Origin,
    /// What the person typed.
    line: String,
    cut: Cut,
    /// Who writes the summaries, in the order of the cut.
    summary_jobs: Vec<SummaryJob>,
    /// What the summaries have cost so far.
    costs: Vec<Usage>,
}

struct SummaryJob {
    id: AgentId,
    summary: Option<String>,
}

impl SliceJob {
    fn has(&self, id: AgentId) -> bool {
        self.summary_jobs.iter().any(|summary_job| summary_job.id == id)
    }

    fn summary_job(&mut self, id: AgentId) -> Option<&mut SummaryJob> {
        self.summary_jobs.iter_mut().find(|summary_job| summary_job.id == id)
    }

    /// Takes what an errand has to say, instead of a store. A reply that was cut is no summary.
    fn hear(&mut self, id: AgentId, bodies: Vec<Body>) {
        for body in bodies {
            match (body, self.summary_job(id)) {
                (Body::Assistant(reply), Some(summary_job)) if !reply.is_partial && !reply.text.trim().is_empty() => {
                    summary_job.summary = Some(reply.text);
                }
                (Body::Usage(usage), _) => self.costs.push(usage),
                _ => {}
            }
        }
    }

    fn open(&self) -> usize {
        self.summary_jobs.iter().filter(|summary_job| summary_job.summary.is_none()).count()
    }
}

impl Repl {
    /// Cuts the conversation of an idle agent; the child comes at once, or when its summaries are there.
    pub(super) fn slice(&mut self, origin: Origin, agent_id: AgentId, spec: &SliceSpec) -> Result<()> {
        self.core.require_idle(agent_id)?;
        self.core.load(agent_id)?;
        let history =
            self.core.roster.get(agent_id).and_then(|agent| agent.talk.history.as_ref()).ok_or_else(agent_gone)?;
        let mut cut = spec.cut(&history.conversation())?;
        let requests = cut.take_requests();
        if requests.is_empty() {
            return self.deliver_slice(origin, agent_id, cut, Vec::new(), &[]);
        }
        if self.slice_jobs.iter().any(|slice_job| slice_job.agent_id == agent_id) {
            return Err(Error::new(ErrorKind::Usage, "a slice already waits for its summaries: Esc cancels it"));
        }
        let line = format!("/slice {}", spec.source());
        self.after_commit(move |repl| {
            repl.send_for_summaries(
                SliceJob { agent_id, origin, line, cut, summary_jobs: Vec::new(), costs: Vec::new() },
                requests,
            );
        });
        Ok(())
    }

    fn send_for_summaries(&mut self, mut slice_job: SliceJob, requests: Vec<String>) {
        let agent_id = slice_job.agent_id;
        let words = if requests.len() == 1 { "a summary".into() } else { format!("{} summaries", requests.len()) };
        self.core.note(
            agent_id,
            LineKind::Note,
            &format!("the slice waits for {words} (Esc cancels it, you can go on)"),
        );
        slice_job.summary_jobs =
            requests.into_iter().filter_map(|request| self.start_summary(agent_id, request)).collect();
        self.slice_jobs.push(slice_job);
        self.count_summaries(agent_id);
    }

    fn start_summary(&mut self, agent_id: AgentId, request: String) -> Option<SummaryJob> {
        let summary_job = AgentFactory::summary_job(self.core.roster.get(agent_id)?, "summary", SUMMARY_SYSTEM);
        let (id, created_at) = (summary_job.id(), self.core.clock.unix_ms());
        self.core.roster.add_unlisted(summary_job);
        let message = Message { id: MessageId(1), body: Body::User(request), created_at };
        self.core.with_agent(id, |summary_job, context| summary_job.begin(message, context));
        Some(SummaryJob { id, summary: None })
    }

    fn count_summaries(&mut self, agent_id: AgentId) {
        let open = self.slice_jobs.iter().find(|slice_job| slice_job.agent_id == agent_id).map_or(0, SliceJob::open);
        self.core.roster.with(agent_id, |agent| agent.set_summaries(open));
    }

    /// Whether this agent is on an errand: then nothing of it is stored.
    pub(super) fn is_summary_job(&self, id: AgentId) -> bool {
        self.slice_jobs.iter().any(|slice_job| slice_job.has(id))
    }

    /// Who writes a summary for this agent now.
    pub(super) fn summary_job_for(&self, agent_id: AgentId) -> Option<AgentId> {
        let slice_job = self.slice_jobs.iter().find(|slice_job| slice_job.agent_id == agent_id)?;
        slice_job
            .summary_jobs
            .iter()
            .find(|summary_job| summary_job.summary.is_none())
            .map(|summary_job| summary_job.id)
    }

    /// What an errand wants to be stored goes to its slice. What it asks of the loop like every agent is handed back, and
    /// so is all that other agents ask.
    pub(super) fn divert_to_slice(&mut self, agent_id: AgentId, effect: Effect) -> Option<Effect> {
        let Some(slice_job) = self.slice_jobs.iter_mut().find(|slice_job| slice_job.has(agent_id)) else {
            return Some(effect);
        };
        match effect {
            Effect::Persist(bodies) | Effect::Settle(bodies) | Effect::Finish(bodies) => {
                slice_job.hear(agent_id, bodies)
            }
            Effect::Settled(outcome) => {
                let source = slice_job.agent_id;
                self.on_summary_ended(source, agent_id, outcome);
            }
            Effect::Checkpoint { .. } | Effect::ReturnText(_) => {}
            other => return Some(other),
        }
        None
    }

    fn on_summary_ended(&mut self, agent_id: AgentId, summary_job: AgentId, outcome: AgentOutcome) {
        let Some(at) = self.slice_jobs.iter().position(|slice_job| slice_job.agent_id == agent_id) else { return };
        let is_written =
            self.slice_jobs[at].summary_job(summary_job).is_some_and(|summary_job| summary_job.summary.is_some());
        match outcome {
            AgentOutcome::Completed if is_written => {}
            AgentOutcome::Error(error) => return self.abort_slice(agent_id, LineKind::Error, &error.message),
            _ => {
                return self.abort_slice(
                    agent_id,
                    LineKind::Error,
                    "a summary is empty or was cut at the length limit",
                );
            }
        }
        self.remove_agent(summary_job);
        self.count_summaries(agent_id);
        if self.slice_jobs[at].open() == 0 {
            self.finish_slice(at);
        }
    }

    fn finish_slice(&mut self, at: usize) {
        let SliceJob { agent_id, origin, line, cut, summary_jobs, costs } = self.slice_jobs.remove(at);
        let summaries = summary_jobs.into_iter().filter_map(|summary_job| summary_job.summary).collect();
        if let Err(error) = self.deliver_slice(origin, agent_id, cut, summaries, &costs) {
            self.core.note(agent_id, LineKind::Error, &error.message);
            self.give_line_back(agent_id, &line);
        }
    }

    /// The summaries do not come: no child, and the line is the person's again.
    fn abort_slice(&mut self, agent_id: AgentId, kind: LineKind, why: &str) {
        let Some(SliceJob { line, costs, .. }) = self.drop_slice(agent_id) else { return };
        self.core.note(agent_id, kind, &format!("no slice was made: {why}"));
        self.give_line_back(agent_id, &line);
        if !costs.is_empty() {
            // What was paid for is counted, although nothing came of it.
            self.core.roster.with(agent_id, |agent| costs.iter().for_each(|cost| agent.used.add(*cost)));
            self.core.record(agent_id, costs.into_iter().map(Body::Usage).collect(), Store::append);
        }
    }

    /// Esc on an agent that does nothing else, or the end of the program.
    pub(super) fn cancel_slice(&mut self, agent_id: AgentId) {
        self.abort_slice(agent_id, LineKind::Mark, "cancelled");
    }

    /// Forgets a slice that waits, and ends its errands.
    pub(super) fn drop_slice(&mut self, agent_id: AgentId) -> Option<SliceJob> {
        let at = self.slice_jobs.iter().position(|slice_job| slice_job.agent_id == agent_id)?;
        let slice_job = self.slice_jobs.remove(at);
        slice_job.summary_jobs.iter().for_each(|summary_job| drop(self.remove_agent(summary_job.id)));
        self.count_summaries(agent_id);
        Some(slice_job)
    }

    /// Only into an empty draft: nobody typed for it to be mixed with something else meanwhile.
    fn give_line_back(&mut self, agent_id: AgentId, line: &str) {
        if self.core.roster.get(agent_id).is_some_and(|agent| agent.view.draft.is_empty()) {
            self.core.return_text(agent_id, line);
        }
    }

    /// The child comes to be in the store, and when it is kept there, in memory.
    fn deliver_slice(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        cut: Cut,
        summaries: Vec<String>,
        costs: &[Usage],
    ) -> Result<()> {
        let parent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        let (endpoint, label) = (parent.talk.endpoint.clone(), parent.identity.label());
        let new = NewAgent {
            id: AgentId::random(),
            name: None,
            parent: agent_id,
            fork_point: MessageId(0),
            endpoint: Some(endpoint.full_name()),
            environment: Some(parent.talk.environment.spec.clone()),
        };
        let widened = widened_words(&cut);
        let rows = cut.into_messages(summaries);
        let words = format!("{} from {label}{widened}", text::counted(rows.len(), "message", "messages"));
        let bodies = costs.iter().copied().map(Body::Usage).chain(rows).collect();
        let forked = self.core.store.slice(&new, bodies, self.core.clock.unix_ms())?;
        let costs = costs.to_vec();
        self.after_commit(move |repl| {
            let child = repl.welcome_slice(agent_id, endpoint, forked, &costs, &words);
            if !repl.follow(origin, agent_id, child) {
                let label = repl.core.roster.get(child).map(|child| child.identity.label()).unwrap_or_default();
                repl.core.note(agent_id, LineKind::Note, &format!("the slice is there: {label}"));
            }
        });
        Ok(())
    }

    /// The child is in memory.
    fn welcome_slice(
        &mut self,
        agent_id: AgentId,
        endpoint: Rc<Endpoint>,
        forked: Forked,
        costs: &[Usage],
        words: &str,
    ) -> AgentId {
        let Forked { row, in_parent, .. } = forked;
        let child = self.core.roster.with(agent_id, |parent| {
            // Its rows are read when they are first needed, as after a restart.
            let mut child = AgentFactory::fork(parent, &row, endpoint, None);
            costs.iter().for_each(|cost| child.used.add(*cost));
            parent.emit_logged(&in_parent.body);
            parent.remember(vec![in_parent]);
            child
        });
        self.core.roster.add(child.expect("who was cut is alive: the store has just said so"), Some(agent_id));
        self.core.note(row.id, LineKind::Note, words);
        row.id
    }
}

fn widened_words(cut: &Cut) -> String {
    let one = |(was, is): &(std::ops::Range<usize>, std::ops::Range<usize>)| {
        format!("{}:{} became {}:{}", was.start, was.end, is.start, is.end)
    };
    match cut.widened.as_slice() {
        [] => String::new(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more grew", rest.len()) };
            format!("; {}{more}: calls and their results stay together", one(first))
        }
    }
}
