//! Computes how long the loop may wait: until the earliest deadline of any agent or component.

use std::time::Duration;

use crate::base::id::AgentId;
use crate::repl::Repl;

/// Tool threads are polled this often, in case the wake of one is lost.
pub(super) const TOOL_POLL: Duration = Duration::from_millis(50);

/// How long a wait lasts at most, and why it ends then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// `None`: for ever.
    pub after: Option<Duration>,
    /// What is due then.
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
    Limiter,
    /// A thread is running (a tool, a key command, a look-up) whose wake could be lost.
    Tools,
    /// The spinner moves.
    Spinner,
    /// A number of seconds on a screen changes.
    Countdown,
    /// Bytes of a key may be incomplete.
    Keys,
    /// Keys begin to answer a question.
    Question,
    /// The time limit of a client's wait for an agent.
    Client,
    /// The time limit or the retry of a member of a run.
    Team,
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
    pub(crate) fn compute_timeout(&self) -> Timeout {
        let now = self.core.clock.now();
        let is_leftover = !self.core.roster.with_leftover().is_empty()
            || !self.core.outbox.is_empty()
            || !self.core.events.is_empty()
            || self.has_unread_callback()
            || self.has_frames()
            || self.components().iter().any(|component| component.has_work(&self.core));
        if is_leftover {
            return Timeout { after: Some(Duration::ZERO), why: WakeReason::Leftover };
        }
        let agent = self.core.roster.next_deadline().map(|(at, id, why)| (at, WakeReason::Agent(id, why)));
        let components = self.components();
        let components = components.iter().filter_map(|component| component.deadline(&self.core));
        let tools = self.has_threads().then(|| (now + TOOL_POLL, WakeReason::Tools));
        let soonest = agent.into_iter().chain(tools).chain(components).min_by_key(|(at, _)| *at);
        match soonest {
            Some((at, why)) => Timeout { after: Some(at - now), why },
            None => Timeout { after: None, why: WakeReason::Nothing },
        }
    }

    /// Whether a tool thread is running whose wake could be lost.
    fn has_threads(&self) -> bool {
        !self.core.roster.with_live_tools().is_empty() || !self.core.draining.is_empty()
    }
}
