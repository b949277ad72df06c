//! What an agent is doing, in one line that may count down: for screens and for lists.

use std::time::Duration;

use crate::agent::{Agent, State, Wait};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::text;
use crate::repl::core::Core;
use crate::team::Gate;

impl Core {
    /// The agent whose work is shown for `focus`: its own, or that of the agent that writes a summary for it.
    pub(in crate::repl) fn worker(&self, focus: AgentId) -> AgentId {
        let agent = self.roster.get(focus).filter(|agent| agent.state() == State::Idle);
        agent.and_then(|agent| agent.helper).unwrap_or(focus)
    }

    /// What holds up an agent in the send queue, if its provider does.
    pub(in crate::repl) fn gate_of(&self, agent: AgentId) -> Option<&Gate> {
        let provider = self.roster.queued_provider(agent)?;
        self.limiter.gate(provider, self.clock.now())
    }

    /// Whether an agent waits only for a moment: that of its retry, or the end of its provider's pause.
    pub(in crate::repl) fn is_held_up(&self, agent: AgentId) -> bool {
        let waiting = self.roster.get(agent).filter(|agent| agent.state() == State::WaitingForLlm);
        match waiting.map(Agent::wait) {
            Some(Wait::Retry { .. }) => true,
            Some(Wait::Slot) => matches!(self.gate_of(agent), Some(Gate::Paused { .. })),
            _ => false,
        }
    }

    /// What is done for an agent, in words. `has_keys`: the reader can press the keys that the words name.
    pub(in crate::repl) fn activity(&self, focus: AgentId, has_keys: bool) -> String {
        let worker = self.worker(focus);
        let Some(agent) = self.roster.get(worker) else { return String::new() };
        let members = self.roster.get(focus).and_then(|agent| agent.members_done());
        if let Some((done, all)) = members.filter(|_| agent.state() == State::Idle) {
            return format!("team: {done} of {all} done (Esc stops it)");
        }
        let context = ActivityContext {
            now: self.clock.now(),
            position: self.roster.send_queue_position(worker),
            limit: self.config.working_limit,
            gate: self.gate_of(worker),
            has_keys,
        };
        let text = describe(agent, &context);
        if worker == focus { text } else { format!("a summary: {text}") }
    }
}

/// What the row depends on besides the agent.
struct ActivityContext<'a> {
    pub now: Moment,
    /// How many stand before it in the line.
    pub position: Option<usize>,
    /// How many agents may work at once.
    pub limit: usize,
    /// What holds its provider up.
    pub gate: Option<&'a Gate>,
    /// Whoever reads it has keys: a list for scripts has none.
    pub has_keys: bool,
}

impl ActivityContext<'_> {
    /// What the keys do, for whom there are any.
    fn keys(&self, what: &str) -> String {
        if self.has_keys { format!(" ({what})") } else { String::new() }
    }
}

/// The moment to which the row counts down, if it does.
pub(in crate::repl) fn countdown(agent: &Agent, gate: Option<&Gate>) -> Option<Moment> {
    match (agent.state(), agent.wait(), gate) {
        (State::WaitingForLlm, Wait::Retry { at, .. }, _) => Some(*at),
        (State::WaitingForLlm, Wait::Slot, Some(Gate::Paused { until, .. })) => Some(*until),
        _ => None,
    }
}

/// The seconds that are left, as they are shown: a begun one counts.
pub(in crate::repl) fn seconds_left(at: Moment, now: Moment) -> u64 {
    u64::try_from((at - now).as_micros().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// When the seconds that are left are one less.
pub(in crate::repl) fn next_second(at: Moment, now: Moment) -> Moment {
    let rest = Duration::from_secs(seconds_left(at, now).saturating_sub(1));
    now + (at - now).saturating_sub(rest)
}

fn describe(agent: &Agent, context: &ActivityContext) -> String {
    let seconds = (context.now - agent.started()).as_secs();
    if agent.is_stopping() {
        return "stopping …".into();
    }
    let provider = &agent.talk.endpoint.provider;
    match (agent.state(), agent.wait()) {
        (State::ExecutingTool, _) if !agent.has_live_tool() => {
            format!("waiting for letters … {seconds} s{}", context.keys("Esc stops it"))
        }
        (State::ExecutingTool, _) => format!("running a tool … {seconds} s{}", context.keys("Esc stops it")),
        (_, Wait::Key) => {
            format!("the key command of {provider} runs … {seconds} s{}", context.keys("Esc cancels"))
        }
        (_, Wait::Slot) => waiting(agent, context),
        (_, Wait::Retry { at, error }) => {
            let left = span(seconds_left(*at, context.now));
            format!(
                "again in {left}, retry {}{} - {}",
                agent.retries(),
                context.keys("Enter tries now, Esc cancels"),
                one_line(&error.message)
            )
        }
        _ if agent.partial_text().is_empty() => format!("waiting for {} … {seconds} s", agent.request_endpoint().model),
        _ => format!("{} writes … {seconds} s{}", agent.request_endpoint().model, context.keys("Esc stops it")),
    }
}

fn waiting(agent: &Agent, context: &ActivityContext) -> String {
    let (provider, before) = (&agent.talk.endpoint.provider, context.position.unwrap_or(0));
    match context.gate {
        Some(Gate::Paused { until, reason }) => {
            let left = span(seconds_left(*until, context.now));
            let keys = context.keys("Enter tries now, Esc cancels");
            format!("{provider} is paused, again in {left}{keys} - {}", one_line(reason))
        }
        Some(Gate::Trial { .. }) => {
            format!("{provider} was paused: waits until another agent is answered{}", context.keys("Esc cancels"))
        }
        None if context.limit > 0 => {
            format!("waits for a place: {before} before it, {} may work at once", context.limit)
        }
        None => format!("waits to send to {provider}: {before} before it{}", context.keys("Esc cancels")),
    }
}

/// A wait as a person would say it.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The first line of a text, fit to be shown.
pub(in crate::repl) fn one_line(text: &str) -> String {
    text::sanitise(text.lines().next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_said_in_the_units_that_it_has() {
        let said = [0, 7, 119, 125, 7199, 7200, 7380, 86_400].map(span);
        assert_eq!(said, ["0 s", "7 s", "119 s", "2 min 5 s", "119 min 59 s", "2 h 0 min", "2 h 3 min", "24 h 0 min"]);
    }

    #[test]
    fn the_next_second_is_when_the_number_shown_changes() {
        let at = Moment::default() + Duration::from_millis(7_000);
        for (now, left, next) in [(0, 7, 1_000), (1, 7, 1_000), (1_000, 6, 2_000), (6_500, 1, 7_000), (7_000, 0, 7_000)]
        {
            let now = Moment::default() + Duration::from_millis(now);
            assert_eq!(seconds_left(at, now), left);
            assert_eq!(next_second(at, now), Moment::default() + Duration::from_millis(next));
        }
    }
}
