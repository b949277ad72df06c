//! Many agents on one task, in the loop: each run is a [`Task`] that says what to do next, and is told what became of it.
//! What it says is done here with ordinary agents; when somebody works, waits or gives up is decided in the task alone.
//!
//! ```text
//!   run_task ──► Run { task } ──Start──► a member is born, or rewound, and told the prompt
//!                   ▲    │ ───Cancel──► its transfer is cut: the other side sees the socket close
//!                   │    └──Finished─► the outcome is kept, in memory and in the store
//!                   └── a place was given, tokens, an answer, a failure: news of the agents that play
//! ```
//! A member is an agent like every other: it stands in line for its place, can be looked at, spoken to and killed. Only
//! two things are different while it plays: its failed requests are tried again by the task, which has its deadline in
//! view, and not by the agent; and what it says is listened to.

mod chat;
mod ends;
mod events;
mod library;
mod members;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::base::clock::Moment;
use crate::base::id::{AgentId, MessageId};
use crate::base::random::chance;
use crate::domain::config::RetryPolicy;
use crate::repl::Repl;
use crate::team::coordinator::event::Event;
use crate::team::coordinator::health::Health;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::task::{Context, Step, Task, Who};
use events::Heard;

/// What one run may do in one turn: births are transactions, and the keyboard waits meanwhile.
const STEPS_PER_TURN: usize = 64;
/// Runs that have ended are remembered for those who ask for their outcome; the store has them all.
const REMEMBERED: usize = 32;

/// Names one run: six letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(Rc<str>);

impl RunId {
    fn random() -> Self {
        let id = AgentId::random().to_string();
        let letters: String = id.chars().filter(char::is_ascii_alphanumeric).take(6).collect();
        Self(letters.into())
    }

    /// The name as it stands in events and in the store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All runs, and how the members have fared.
#[derive(Default)]
pub(super) struct Team {
    /// In the order in which they began.
    runs: Vec<Run>,
    /// The agents that play.
    parts: BTreeMap<AgentId, Part>,
    health: Health,
}

/// One run.
struct Run {
    id: RunId,
    task: Task,
    /// Whose children the members are.
    origin: AgentId,
    /// The last of the asker's messages that members know, in a chat: there they stay when they are over, and write to
    /// the asker. Otherwise they know nothing of it and die when they are over.
    knows: Option<MessageId>,
    /// Each stage is written to by the one before: this is who has answered last.
    pipeline: Option<Option<AgentId>>,
    /// Somebody wanted no more of it.
    is_interrupted: bool,
    /// How the agents of its members send again what has failed: never, but the pause of a provider is as long as this
    /// says.
    retry: RetryPolicy,
    /// Which agents play now, and how many members are over.
    agents: BTreeMap<Who, AgentId>,
    over: usize,
    /// The task has to be asked what comes next.
    has_news: bool,
    /// Otherwise not before this moment.
    wait: Option<Moment>,
    /// What nobody has taken yet.
    events: Vec<Event>,
    outcome: Option<Rc<Outcome>>,
}

/// What an agent plays.
struct Part {
    run: RunId,
    agent_id: Who,
    /// The last of its own messages before it was told its task.
    before: MessageId,
    heard: Heard,
}

impl Run {
    fn is_due(&self, now: Moment) -> bool {
        self.outcome.is_none() && (self.has_news || self.wait.is_some_and(|at| at <= now))
    }
}

impl Team {
    fn run(&self, id: &RunId) -> Option<&Run> {
        self.runs.iter().find(|run| run.id == *id)
    }

    fn run_mut(&mut self, id: &RunId) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.id == *id)
    }

    /// Tells a task something, or asks it: what comes next may be another thing from then on.
    fn with_task<T>(
        &mut self,
        id: &RunId,
        now: Moment,
        act: impl FnOnce(&mut Task, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let run = self.runs.iter_mut().find(|run| run.id == *id)?;
        run.has_news = true;
        Some(act(&mut run.task, &mut Context { now, chance: chance(), health: &mut self.health }))
    }

    /// Whether a run has to be asked at once.
    pub(super) fn has_news(&self) -> bool {
        self.runs.iter().any(|run| run.outcome.is_none() && run.has_news)
    }

    /// The soonest moment at which a run has to be asked.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.runs.iter().filter(|run| run.outcome.is_none()).filter_map(|run| run.wait).min()
    }
}

impl Repl {
    /// Does what the runs want that have news or whose moment has come.
    pub(super) fn play_runs(&mut self) {
        let now = self.core.clock.now();
        let due: Vec<RunId> = self.team.runs.iter().filter(|run| run.is_due(now)).map(|run| run.id.clone()).collect();
        for run in &due {
            self.play(run);
        }
        if !due.is_empty() {
            self.apply_effects();
        }
    }

    /// Bounded: what is left over comes in the next turn.
    fn play(&mut self, run: &RunId) {
        for _ in 0..STEPS_PER_TURN {
            let now = self.core.clock.now();
            let Some(step) = self.team.with_task(run, now, Task::step) else { return };
            self.heed_events(run);
            match step {
                Step::Start { agent_id, prompt, attempt } => self.start_member(run, agent_id, &prompt, attempt),
                // Whoever is cancelled was told of as one that is over, and was stopped then.
                Step::Cancel { .. } => {}
                Step::Wait(until) => return self.team.wait(run, until),
                Step::Finished(outcome) => return self.end_run(run, outcome),
            }
        }
    }
}

impl Team {
    fn wait(&mut self, run: &RunId, until: Option<Moment>) {
        if let Some(run) = self.run_mut(run) {
            (run.has_news, run.wait) = (false, until);
        }
    }
}
