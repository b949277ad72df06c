//! Which agents are in the inbox, and in which order.

use std::time::Duration;

use crate::agent::{Agent, PendingQuestion, Role};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::flow::TurnEnd;
use crate::team::{Roster, Trees};

/// Why an agent is in the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// It asks the question of this number.
    Question(u64),
    /// A limit holds back its requests.
    Limit,
    /// Its last turn ended with an error, and no terminal has shown that.
    Failed,
    /// Its last turn is over, and the command fails that says whether it is done.
    CheckFails,
    /// Its last turn was cut off by the end of an earlier process, and no terminal has shown that.
    Interrupted,
    /// Its last turn is over, and no terminal has shown that.
    Finished,
}

/// An agent that needs the person. Entries are equal only if they are about the same question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InboxEntry {
    pub agent: AgentId,
    pub need: Need,
    /// `None` if that is not known.
    pub since: Option<Moment>,
    /// How long it had waited by then, in an earlier process.
    pub before: Duration,
}

impl InboxEntry {
    /// How long it has waited.
    pub fn age(&self, now: Moment) -> Option<Duration> {
        self.since.map(|since| (now - since) + self.before)
    }
}

/// A turn that ended while no terminal showed its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnseenEnd {
    pub agent: AgentId,
    pub end: TurnEnd,
    pub at: Moment,
    /// How long before that it ended, in an earlier process.
    pub before: Duration,
}

/// The entries: questions, then agents held by a limit, then failed turns, failed checks, interrupted and finished turns; in each of these the longest wait
/// first.
pub fn inbox<'a>(roster: &Roster, trees: &Trees, ended: impl Iterator<Item = &'a UnseenEnd>) -> Vec<InboxEntry> {
    let questions = roster.questions().filter(|(agent, _)| agent.role != Role::Summary);
    let mut questions: Vec<(&Agent, &PendingQuestion)> = questions.collect();
    questions.sort_by_key(|(agent, asked)| (asked.since, agent.identity.ordinal));
    let entry = |(agent, asked): (&Agent, &PendingQuestion)| InboxEntry {
        agent: agent.id(),
        need: Need::Question(asked.number),
        since: Some(asked.since),
        before: Duration::ZERO,
    };
    let mut entries: Vec<InboxEntry> = questions.into_iter().map(entry).collect();
    let held = trees.all_held().filter(|(id, _)| roster.get(*id).is_some_and(|agent| agent.question().is_none()));
    entries.extend(held.map(|(agent, _)| InboxEntry { agent, need: Need::Limit, since: None, before: Duration::ZERO }));
    let is_open = |ended: &&UnseenEnd| roster.get(ended.agent).is_some_and(|agent| agent.question().is_none());
    let ended: Vec<&UnseenEnd> = ended.filter(is_open).collect();
    let need_of = |ended: &UnseenEnd| match ended.end {
        TurnEnd::Failed => Need::Failed,
        TurnEnd::Interrupted => Need::Interrupted,
        TurnEnd::Completed if roster.get(ended.agent).is_some_and(|agent| agent.report.fails) => Need::CheckFails,
        TurnEnd::Completed => Need::Finished,
    };
    for need in [Need::Failed, Need::CheckFails, Need::Interrupted, Need::Finished] {
        let of_kind = ended.iter().filter(|ended| need_of(ended) == need);
        let entry =
            |ended: &&UnseenEnd| InboxEntry { agent: ended.agent, need, since: Some(ended.at), before: ended.before };
        entries.extend(of_kind.map(entry));
    }
    entries
}
