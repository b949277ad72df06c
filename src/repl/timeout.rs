//! Computes how long the loop may wait: until the earliest deadline of any agent or component.

use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::repl::Repl;
use crate::repl::core::{Core, activity, reads, remove, unsaved};

/// Tool threads are polled this often, in case the wake of one is lost.
pub(crate) const TOOL_POLL: Duration = Duration::from_millis(50);

/// When there were no descriptors, connections are accepted again after this time.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a wait lasts at most, and why it ends then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// `None`: for ever.
    pub after: Option<Duration>,
    /// The reason for it.
    pub why: WakeReason,
}

/// Why a wait ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// Nothing is due: only an event ends the wait.
    Nothing,
    /// The last turn left work over, because the work of a turn is bounded.
    Leftover,
    /// The deadline of an agent: `curl timer`, `retry`, `stall`, `checkpoint`, `script step`, `wait`.
    Agent(AgentId, &'static str),
    /// The pause of a provider ends.
    Pause,
    /// A thread is running (a tool, a key command, a look-up) whose wake could be lost.
    Tools,
    /// The spinner moves.
    Spinner,
    /// Streamed text is to be shown.
    Text,
    /// The sockets of replies that stream are read together.
    Reads,
    /// A number of seconds on a screen changes.
    Countdown,
    /// Bytes of a key may be incomplete.
    Keys,
    /// Keys begin to answer a question.
    Question,
    /// What was typed is to be stored.
    Draft,
    /// What a view shows changes with time.
    View,
    /// The list of files for `@` is dropped.
    Files,
    /// The shell may have given the terminal back.
    Shell,
    /// The time limit of a client's wait for an agent, or connections are accepted again.
    Client,
    /// The time limit or the retry of a member of a run.
    Team,
    /// A connection of the proxy has waited long enough, or a look-up is under way for one.
    Proxy,
    /// A feature of this name waits for something, or polls a thread.
    Feature(&'static str),
    /// Retries what could not be stored.
    Store,
}

/// How often the spinner moves.
pub const SPINNER_STEP: Duration = Duration::from_millis(80);

impl Timeout {
    /// The wait, no longer than `limit`.
    pub fn within(&self, limit: Option<Duration>) -> Option<Duration> {
        self.after.into_iter().chain(limit).min()
    }
}

impl Repl {
    /// The minimum over all agents and components.
    pub(super) fn compute_timeout(&mut self) -> Timeout {
        let is_core_busy = activity::has_leftover(&self.core) || self.embedding.callbacks.has_unread(&self.core);
        let has_frames = self.attached().has_frames();
        let (core, components, _) = self.split();
        let leftover = Timeout { after: Some(Duration::ZERO), why: WakeReason::Leftover };
        if is_core_busy || has_frames {
            return leftover;
        }
        let now = core.now();
        let agent = core.roster().next_deadline().map(|(at, id, why)| (at, WakeReason::Agent(id, why)));
        let mut first = agent.into_iter().chain(core_deadlines(core)).min_by_key(|(at, _)| *at);
        for component in components {
            if component.has_work(core) {
                return leftover;
            }
            first = first.into_iter().chain(component.deadline(core)).min_by_key(|(at, _)| *at);
        }
        match first {
            Some((at, why)) => Timeout { after: Some(at - now), why },
            None => Timeout { after: None, why: WakeReason::Nothing },
        }
    }

    /// Everything that could end the next wait by its time, the earliest first, for a trace.
    pub(super) fn time_limits(&mut self) -> Vec<(Duration, WakeReason)> {
        let (core, components, _) = self.split();
        let agents = core.roster().deadlines().map(|(at, id, why)| (at, WakeReason::Agent(id, why)));
        let mut limits: Vec<(Moment, WakeReason)> = agents.chain(core_deadlines(core)).collect();
        limits.extend(components.filter_map(|component| component.deadline(core)));
        let (now, core) = (self.core.now(), &self.core);
        limits.extend(self.terminals.deadlines(core));
        limits.sort_by_key(|(at, _)| *at);
        // The first one of all terminals is there twice.
        limits.dedup();
        limits.into_iter().map(|(at, why)| (at - now, why)).collect()
    }
}

fn core_deadlines(core: &Core) -> impl Iterator<Item = (Moment, WakeReason)> {
    let tools = remove::has_tool_threads(core).then(|| (core.now() + TOOL_POLL, WakeReason::Tools));
    let store = unsaved::deadline(core).into_iter().chain(remove::kill_deadline(core)).min();
    let store = store.map(|at| (at, WakeReason::Store));
    let reads = reads::deadline(core).map(|at| (at, WakeReason::Reads));
    tools.into_iter().chain(store).chain(reads)
}
