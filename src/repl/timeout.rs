//! How long one wait may last: until the soonest need of any agent, on the screen or not.

use std::time::Duration;

use crate::base::id::AgentId;
use crate::repl::Repl;

/// Tool threads are polled this often, in case the wake of one is lost.
pub(super) const TOOL_POLL: Duration = Duration::from_millis(50);

/// How long a wait lasts, and whose need ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// `None`: for ever.
    pub after: Option<Duration>,
    /// The need.
    pub why: WakeReason,
}

/// The need that ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// Nobody needs anything: only news ends the wait.
    Nothing,
    /// Work is left over from the bounded work of the last turn.
    Leftover,
    /// The soonest deadline of an agent, by its name: `curl timer`, `retry`, `stall`, `checkpoint`, `script step`, `wait`.
    Agent(AgentId, &'static str),
    /// The pause of a provider ends for which somebody waits.
    Limiter,
    /// A thread works for the house (a tool, a key command, a lookup), and its wake could be lost.
    Tools,
    /// The sign of work on the screen moves on.
    Spinner,
    /// The seconds on the screen count down.
    Countdown,
    /// Bytes of a key may be incomplete.
    Keys,
    /// A script waits for an agent, and not for ever.
    Client,
    /// A member of a task has no more time, or is to be asked again.
    Team,
}

/// How long one picture of the sign of work stands.
pub const SPINNER_STEP: Duration = Duration::from_millis(80);

impl Timeout {
    /// The wait, no longer than `limit`.
    pub fn within(&self, limit: Option<Duration>) -> Option<Duration> {
        self.after.into_iter().chain(limit).min()
    }
}

impl Repl {
    /// The minimum over all agents and all terminals. An agent on a screen counts like any other, but for its spinner.
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

    /// Whether a thread works for the house, whose wake could be lost.
    fn has_threads(&self) -> bool {
        !self.core.roster.with_live_tools().is_empty() || !self.core.draining.is_empty()
    }
}
