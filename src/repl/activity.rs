//! What the agent on the screen is doing, in a row of words that may count down.

use std::time::Duration;

use crate::agent::{Agent, State, Wait};
use crate::base::clock::Moment;
use crate::base::text;
use crate::team::Gate;

/// What the row depends on besides the agent.
pub(super) struct Surroundings<'a> {
    pub now: Moment,
    /// How many stand before it in the line.
    pub place: Option<usize>,
    /// How many agents may work at once.
    pub limit: usize,
    /// What holds its provider up.
    pub gate: Option<&'a Gate>,
    /// Whoever reads it has keys: a list for scripts has none.
    pub has_keys: bool,
}

impl Surroundings<'_> {
    /// What the keys do, for whom there are any.
    fn keys(&self, what: &str) -> String {
        if self.has_keys { format!(" ({what})") } else { String::new() }
    }
}

/// The moment to which the row counts down, if it does.
pub(super) fn countdown(agent: &Agent, gate: Option<&Gate>) -> Option<Moment> {
    match (agent.state(), agent.wait(), gate) {
        (State::WaitingForLlm, Wait::Retry { at, .. }, _) => Some(*at),
        (State::WaitingForLlm, Wait::Slot, Some(Gate::Paused { until, .. })) => Some(*until),
        _ => None,
    }
}

/// The seconds that are left, as they are shown: a begun one counts.
pub(super) fn seconds_left(at: Moment, now: Moment) -> u64 {
    u64::try_from((at - now).as_micros().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// When the seconds that are left are one less.
pub(super) fn next_second(at: Moment, now: Moment) -> Moment {
    let rest = Duration::from_secs(seconds_left(at, now).saturating_sub(1));
    now + (at - now).saturating_sub(rest)
}

/// The words.
pub(super) fn words(agent: &Agent, around: &Surroundings) -> String {
    let seconds = (around.now - agent.started()).as_secs();
    if agent.is_stopping() {
        return "stopping …".into();
    }
    let provider = &agent.talk.endpoint.provider;
    match (agent.state(), agent.wait()) {
        (State::ExecutingTool, _) if !agent.has_live_tool() => {
            format!("waiting for letters … {seconds} s{}", around.keys("Esc stops it"))
        }
        (State::ExecutingTool, _) => format!("running a tool … {seconds} s{}", around.keys("Esc stops it")),
        (_, Wait::Key) => {
            format!("the key command of {provider} runs … {seconds} s{}", around.keys("Esc cancels"))
        }
        (_, Wait::Slot) => waiting(agent, around),
        (_, Wait::Retry { at, error }) => {
            let left = span(seconds_left(*at, around.now));
            format!(
                "again in {left}, retry {}{} - {}",
                agent.retries(),
                around.keys("Enter tries now, Esc cancels"),
                one_line(&error.message)
            )
        }
        _ if agent.partial_text().is_empty() => format!("waiting for {} … {seconds} s", agent.request_endpoint().model),
        _ => format!("{} writes … {seconds} s{}", agent.request_endpoint().model, around.keys("Esc stops it")),
    }
}

fn waiting(agent: &Agent, around: &Surroundings) -> String {
    let (provider, before) = (&agent.talk.endpoint.provider, around.place.unwrap_or(0));
    match around.gate {
        Some(Gate::Paused { until, reason }) => {
            let left = span(seconds_left(*until, around.now));
            let keys = around.keys("Enter tries now, Esc cancels");
            format!("{provider} is paused, again in {left}{keys} - {}", one_line(reason))
        }
        Some(Gate::Trial { .. }) => {
            format!("{provider} was paused: waits until another agent is answered{}", around.keys("Esc cancels"))
        }
        None if around.limit > 0 => {
            format!("waits for a place: {before} before it, {} may work at once", around.limit)
        }
        None => format!("waits to send to {provider}: {before} before it{}", around.keys("Esc cancels")),
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
pub(super) fn one_line(text: &str) -> String {
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
