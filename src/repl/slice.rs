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
use crate::domain::flow::AgentOutcome;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::domain::slice::{Cut, SUMMARY_SYSTEM, Spec};
use crate::domain::stream::Usage;
use crate::repl::apply::nobody;
use crate::repl::{Repl, SeatId};
use crate::store::{Forked, NewAgent, Store};
use crate::team::Nursery;

/// A cut that waits for its summaries.
pub(super) struct Slicing {
    /// Whose conversation is cut.
    who: AgentId,
    /// The terminal from which it was asked for.
    asker: Option<SeatId>,
    /// What the person typed.
    line: String,
    cut: Cut,
    /// Who writes the summaries, in the order of the cut.
    errands: Vec<Errand>,
    /// What the summaries have cost so far.
    costs: Vec<Usage>,
}

struct Errand {
    id: AgentId,
    summary: Option<String>,
}

impl Slicing {
    fn has(&self, id: AgentId) -> bool {
        self.errands.iter().any(|errand| errand.id == id)
    }

    fn errand(&mut self, id: AgentId) -> Option<&mut Errand> {
        self.errands.iter_mut().find(|errand| errand.id == id)
    }

    /// Takes what an errand has to say, instead of a store. A reply that was cut is no summary.
    fn hear(&mut self, id: AgentId, bodies: Vec<Body>) {
        for body in bodies {
            match (body, self.errand(id)) {
                (Body::Assistant(reply), Some(errand)) if !reply.is_partial && !reply.text.trim().is_empty() => {
                    errand.summary = Some(reply.text);
                }
                (Body::Usage(usage), _) => self.costs.push(usage),
                _ => {}
            }
        }
    }

    fn open(&self) -> usize {
        self.errands.iter().filter(|errand| errand.summary.is_none()).count()
    }
}

impl Repl {
    /// Cuts the conversation of an idle agent; the child comes at once, or when its summaries are there.
    pub(super) fn slice(&mut self, asker: Option<SeatId>, who: AgentId, spec: &Spec) -> Result<()> {
        self.require_idle(who)?;
        self.load(who)?;
        let history = self.roster.get(who).and_then(|agent| agent.talk.history.as_ref()).ok_or_else(nobody)?;
        let mut cut = spec.cut(&history.conversation())?;
        let requests = cut.take_requests();
        if requests.is_empty() {
            return self.deliver_slice(asker, who, cut, Vec::new(), &[]);
        }
        if self.slicings.iter().any(|slicing| slicing.who == who) {
            return Err(Error::new(ErrorKind::Usage, "a slice already waits for its summaries: Esc cancels it"));
        }
        let line = format!("/slice {}", spec.source());
        self.once_kept(move |repl| {
            repl.send_for_summaries(
                Slicing { who, asker, line, cut, errands: Vec::new(), costs: Vec::new() },
                requests,
            );
        });
        Ok(())
    }

    fn send_for_summaries(&mut self, mut slicing: Slicing, requests: Vec<String>) {
        let who = slicing.who;
        let words = if requests.len() == 1 { "a summary".into() } else { format!("{} summaries", requests.len()) };
        self.note(who, LineKind::Note, &format!("the slice waits for {words} (Esc cancels it, you can go on)"));
        slicing.errands = requests.into_iter().filter_map(|request| self.send_errand(who, request)).collect();
        self.slicings.push(slicing);
        self.count_summaries(who);
    }

    fn send_errand(&mut self, who: AgentId, request: String) -> Option<Errand> {
        let errand = Nursery::errand(self.roster.get(who)?, "summary", SUMMARY_SYSTEM);
        let (id, created_at) = (errand.id(), self.shared.clock.unix_ms());
        self.roster.add_unlisted(errand);
        let message = Message { id: MessageId(1), body: Body::User(request), created_at };
        self.with_agent(id, |errand, context| errand.begin(message, context));
        Some(Errand { id, summary: None })
    }

    fn count_summaries(&mut self, who: AgentId) {
        let open = self.slicings.iter().find(|slicing| slicing.who == who).map_or(0, Slicing::open);
        self.roster.with(who, |agent| agent.set_summaries(open));
    }

    /// Whether this agent is on an errand: then nothing of it is stored.
    pub(super) fn is_errand(&self, id: AgentId) -> bool {
        self.slicings.iter().any(|slicing| slicing.has(id))
    }

    /// Who writes a summary for this agent now.
    pub(super) fn errand_for(&self, who: AgentId) -> Option<AgentId> {
        let slicing = self.slicings.iter().find(|slicing| slicing.who == who)?;
        slicing.errands.iter().find(|errand| errand.summary.is_none()).map(|errand| errand.id)
    }

    /// What an errand wants to be stored goes to its slice. What it asks of the loop like every agent is handed back, and
    /// so is all that other agents ask.
    pub(super) fn divert_to_slice(&mut self, who: AgentId, effect: Effect) -> Option<Effect> {
        let Some(slicing) = self.slicings.iter_mut().find(|slicing| slicing.has(who)) else {
            return Some(effect);
        };
        match effect {
            Effect::Persist(bodies) | Effect::Settle(bodies) | Effect::Finish(bodies) => slicing.hear(who, bodies),
            Effect::Settled(outcome) => {
                let source = slicing.who;
                self.end_errand(source, who, outcome);
            }
            Effect::Checkpoint { .. } | Effect::ReturnText(_) => {}
            other => return Some(other),
        }
        None
    }

    fn end_errand(&mut self, who: AgentId, errand: AgentId, outcome: AgentOutcome) {
        let Some(at) = self.slicings.iter().position(|slicing| slicing.who == who) else { return };
        let is_written = self.slicings[at].errand(errand).is_some_and(|errand| errand.summary.is_some());
        match outcome {
            AgentOutcome::Completed if is_written => {}
            AgentOutcome::Error(error) => return self.abort_slice(who, LineKind::Error, &error.message),
            _ => return self.abort_slice(who, LineKind::Error, "a summary is empty or was cut at the length limit"),
        }
        self.bury(errand);
        self.count_summaries(who);
        if self.slicings[at].open() == 0 {
            self.finish_slice(at);
        }
    }

    fn finish_slice(&mut self, at: usize) {
        let Slicing { who, asker, line, cut, errands, costs } = self.slicings.remove(at);
        let summaries = errands.into_iter().filter_map(|errand| errand.summary).collect();
        if let Err(error) = self.deliver_slice(asker, who, cut, summaries, &costs) {
            self.note(who, LineKind::Error, &error.message);
            self.give_line_back(who, &line);
        }
    }

    /// The summaries do not come: no child, and the line is the person's again.
    fn abort_slice(&mut self, who: AgentId, kind: LineKind, why: &str) {
        let Some(Slicing { line, costs, .. }) = self.drop_slice(who) else { return };
        self.note(who, kind, &format!("no slice was made: {why}"));
        self.give_line_back(who, &line);
        if !costs.is_empty() {
            // What was paid for is counted, although nothing came of it.
            self.roster.with(who, |agent| costs.iter().for_each(|cost| agent.used.add(*cost)));
            self.persist(who, costs.into_iter().map(Body::Usage).collect(), Store::append);
        }
    }

    /// Esc on an agent that does nothing else, or the end of the program.
    pub(super) fn cancel_slice(&mut self, who: AgentId) {
        self.abort_slice(who, LineKind::Mark, "cancelled");
    }

    /// Forgets a slice that waits, and ends its errands.
    pub(super) fn drop_slice(&mut self, who: AgentId) -> Option<Slicing> {
        let at = self.slicings.iter().position(|slicing| slicing.who == who)?;
        let slicing = self.slicings.remove(at);
        slicing.errands.iter().for_each(|errand| drop(self.bury(errand.id)));
        self.count_summaries(who);
        Some(slicing)
    }

    /// Only into an empty draft: nobody typed for it to be mixed with something else meanwhile.
    fn give_line_back(&mut self, who: AgentId, line: &str) {
        if self.roster.get(who).is_some_and(|agent| agent.view.draft.is_empty()) {
            self.return_text(who, line);
        }
    }

    /// The child comes to be in the store, and when it is kept there, in memory.
    fn deliver_slice(
        &mut self,
        asker: Option<SeatId>,
        who: AgentId,
        cut: Cut,
        summaries: Vec<String>,
        costs: &[Usage],
    ) -> Result<()> {
        let parent = self.roster.get(who).ok_or_else(nobody)?;
        let (endpoint, label) = (parent.talk.endpoint.clone(), parent.identity.label());
        let new = NewAgent {
            id: AgentId::random(),
            name: None,
            parent: who,
            fork_point: MessageId(0),
            endpoint: Some(endpoint.full_name()),
            environment: Some(parent.talk.environment.spec.clone()),
        };
        let widened = widened_words(&cut);
        let rows = cut.into_rows(summaries);
        let words = format!("{} from {label}{widened}", text::counted(rows.len(), "message", "messages"));
        let bodies = costs.iter().copied().map(Body::Usage).chain(rows).collect();
        let forked = self.shared.store.slice(&new, bodies, self.shared.clock.unix_ms())?;
        let costs = costs.to_vec();
        self.once_kept(move |repl| {
            let child = repl.welcome_slice(who, endpoint, forked, &costs, &words);
            if !repl.follow(asker, who, child) {
                let label = repl.roster.get(child).map(|child| child.identity.label()).unwrap_or_default();
                repl.note(who, LineKind::Note, &format!("the slice is there: {label}"));
            }
        });
        Ok(())
    }

    /// The child is in memory.
    fn welcome_slice(
        &mut self,
        who: AgentId,
        endpoint: Rc<Endpoint>,
        forked: Forked,
        costs: &[Usage],
        words: &str,
    ) -> AgentId {
        let Forked { row, in_parent, .. } = forked;
        let child = self.roster.with(who, |parent| {
            // Its rows are read when they are first needed, as after a restart.
            let mut child = Nursery::fork(parent, &row, endpoint, None);
            costs.iter().for_each(|cost| child.used.add(*cost));
            parent.emit_logged(&in_parent.body);
            parent.remember(vec![in_parent]);
            child
        });
        self.roster.add(child.expect("who was cut is alive: the store has just said so"), Some(who));
        self.note(row.id, LineKind::Note, words);
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
