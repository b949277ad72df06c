//! Runs of the coordinator in the loop: each run is a [`Task`] that decides what to do next; here its steps are carried
//! out with ordinary agents, and their results are reported to it.
//!
//! ```text
//!   run_task ──► Run { task } ──Start──► a member is created, or rewound for a retry, and gets the prompt
//!                   ▲    │ ───Cancel──► its transfer is closed
//!                   │    └──Finished─► the outcome is kept in memory and in the store
//!                   └── reports: started, tokens, answer, failure
//! ```
//! A member is an ordinary agent: it waits for a slot, can be visited, used and killed. While it works on a task, two
//! things differ: failed requests are retried by the task, which has the deadline, and not by the agent; and its
//! messages are reported to the task.

mod api;
mod chat;
mod ends;
mod events;
mod members;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::agent::{Effect, Role};
use crate::base::clock::Moment;
use crate::base::id::{AgentId, MessageId};
use crate::domain::config::RetryPolicy;
use crate::domain::flow::Origin;
use crate::domain::mail::MailId;
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;
use crate::repl::event::Event;
use crate::repl::timeout::WakeReason;
use crate::team::coordinator::event::Event as TaskEvent;
use crate::team::coordinator::health::Health;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::task::{Context, MemberId, Step, Task};
use events::AttemptOutput;
use members::RunOrigin;

/// The most steps of one run per turn: creating a member is a transaction, and keys wait meanwhile.
const STEPS_PER_TURN: usize = 64;
/// The most finished runs that are kept in memory; the store has all of them.
const MAX_FINISHED: usize = 32;

/// The name of a run: six letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(Rc<str>);

impl RunId {
    fn random() -> Self {
        let id = AgentId::random().to_string();
        let name: String = id.chars().filter(char::is_ascii_alphanumeric).take(6).collect();
        Self(name.into())
    }

    /// The name in events and in the store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All runs and the health of their members.
#[derive(Default)]
pub(super) struct Coordinator {
    runs: Vec<Run>,
    assignments: BTreeMap<AgentId, Assignment>,
    /// Results for the conversations of agents that work.
    results: Vec<TeamResult>,
    health: Health,
    /// The program ends: the turns of members end as exited.
    is_shutting_down: bool,
}

struct Run {
    id: RunId,
    task: Task,
    origin: AgentId,
    /// The origin: the members of a model's run count as agents that the model made.
    wanted_by: Origin,
    /// For a run in a chat: the last message of the origin that the members inherit. They send their
    /// answers by mail and are archived when the run ends. Members of other runs inherit nothing and are removed when they
    /// are done.
    fork_point: Option<MessageId>,
    /// For a pipeline: the agent that answered last, which sends its answer to the next stage.
    pipeline: Option<Option<AgentId>>,
    is_interrupted: bool,
    /// The limits of a provider's pause. The agents themselves do not retry.
    retry: RetryPolicy,
    /// The agents that work now, and the number of members that are done.
    agents: BTreeMap<MemberId, AgentId>,
    done: usize,
    /// The agents that stay when they are done, until the run ends.
    stayed: Vec<AgentId>,
    /// Their answers in the mailbox of the origin.
    mail: Vec<MailId>,
    /// The names of the agents that the members became.
    names: BTreeMap<String, String>,
    /// The task must be asked for its next step now.
    is_ready: bool,
    /// Otherwise at this moment.
    wait: Option<Moment>,
    /// Events that were not taken yet.
    events: Vec<TaskEvent>,
    outcome: Option<Rc<Outcome>>,
}

/// The outcome of a run in a chat, for the conversation of its origin.
struct TeamResult {
    origin: AgentId,
    text: String,
    /// The answers that it came from. With it the origin knows them.
    mail: Vec<MailId>,
}

struct Assignment {
    run: RunId,
    member_id: MemberId,
    output: AttemptOutput,
}

impl Run {
    fn new(id: RunId, task: Task, of: RunOrigin, pipeline: Option<Option<AgentId>>, retry: RetryPolicy) -> Self {
        Self {
            id,
            task,
            origin: of.agent,
            wanted_by: of.wanted_by,
            fork_point: of.fork_point,
            pipeline,
            is_interrupted: false,
            retry,
            agents: BTreeMap::new(),
            names: BTreeMap::new(),
            stayed: Vec::new(),
            mail: Vec::new(),
            done: 0,
            is_ready: true,
            wait: None,
            events: Vec::new(),
            outcome: None,
        }
    }

    fn is_due(&self, now: Moment) -> bool {
        self.outcome.is_none() && (self.is_ready || self.wait.is_some_and(|at| at <= now))
    }
}

impl Coordinator {
    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    /// The agents that work on a run now, with the names of their members; the judge comes last.
    pub(super) fn active_members(&self, run: &RunId) -> Vec<(String, AgentId)> {
        let Some(run) = self.run(run) else { return Vec::new() };
        run.agents.iter().map(|(member_id, agent)| (run.task.member(*member_id).name.clone(), *agent)).collect()
    }

    fn run(&self, id: &RunId) -> Option<&Run> {
        self.runs.iter().find(|run| run.id == *id)
    }

    fn run_mut(&mut self, id: &RunId) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.id == *id)
    }

    /// Calls the task; afterwards it is asked for its next step.
    fn with_task<T>(
        &mut self,
        id: &RunId,
        now: Moment,
        act: impl FnOnce(&mut Task, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let run = self.runs.iter_mut().find(|run| run.id == *id)?;
        run.is_ready = true;
        Some(act(&mut run.task, &mut Context { now, chance: fastrand::f64(), health: &mut self.health }))
    }

    fn is_ready(&self) -> bool {
        self.runs.iter().any(|run| run.outcome.is_none() && run.is_ready)
    }
}

impl Component for Coordinator {
    fn on_event(&mut self, event: &Event, core: &mut Core) {
        let now = core.now();
        match event {
            Event::RequestSent { agent } => self.on_started(*agent, now),
            Event::Removed { agent, .. } => self.on_removed(*agent, now),
            Event::Interrupted { agent, was_idle: true } => self.interrupt_runs_of(*agent, now),
            _ => {}
        }
    }

    /// Reports effects of members to their runs.
    fn on_effect(&mut self, core: &mut Core, agent: AgentId, effect: Effect) -> Option<Effect> {
        match core.agent(agent).is_some_and(|agent| agent.role == Role::Member) {
            true => self.on_member_effect(core, agent, effect),
            false => Some(effect),
        }
    }

    /// Carries out the steps of all runs that are due.
    fn step(&mut self, core: &mut Core, commands: &mut Vec<Command>) {
        let now = core.now();
        let due: Vec<RunId> = self.runs.iter().filter(|run| run.is_due(now)).map(|run| run.id.clone()).collect();
        due.iter().for_each(|run| self.step_run(core, run, commands));
        self.deliver_results(core);
    }

    fn has_work(&self, core: &Core) -> bool {
        self.is_ready() || self.results.iter().any(|result| core.require_idle(result.origin).is_ok())
    }

    fn deadline(&self, _: &Core) -> Option<(Moment, WakeReason)> {
        let at = self.runs.iter().filter(|run| run.outcome.is_none()).filter_map(|run| run.wait).min()?;
        Some((at, WakeReason::Team))
    }
}

impl Coordinator {
    /// Carries out a limited number of steps; the rest follows in the next turn.
    fn step_run(&mut self, core: &mut Core, run: &RunId, commands: &mut Vec<Command>) {
        let before = commands.len();
        for _ in 0..STEPS_PER_TURN {
            let now = core.now();
            let Some(step) = self.with_task(run, now, Task::step) else { return };
            self.handle_events(core, run, commands);
            match step {
                Step::Start { member_id, prompt, attempt } => self.start_member(core, run, member_id, &prompt, attempt),
                // A cancelled member was stopped when its event was handled.
                Step::Cancel { .. } => {}
                Step::Wait(until) => {
                    if let Some(run) = self.run_mut(run) {
                        (run.is_ready, run.wait) = (false, until);
                    }
                    return;
                }
                // The members that are done are killed first; the task says this again in the next turn.
                Step::Finished(_) if commands.len() > before => return,
                Step::Finished(outcome) => return self.end_run(core, run, outcome, commands),
            }
        }
    }
}
