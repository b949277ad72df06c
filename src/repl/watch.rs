//! Measures the steps of every turn, and names the longest one of a slow turn.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::{Clock, Moment};

/// A turn that takes this long or longer, its wait not counted, is slow.
const SLOW: Duration = Duration::from_millis(5);

/// How many slow turns there were by the step that took longest in them, and the time of that step at most.
pub type SlowTurns = BTreeMap<&'static str, (u64, Duration)>;

/// The steps of the current turn, and the slow turns before it.
pub struct Watch {
    clock: Clock,
    /// When the last step ended.
    since: Moment,
    /// Of all steps of this turn.
    total: Duration,
    longest: (&'static str, Duration),
    pub slow: SlowTurns,
}

impl Watch {
    pub fn new(clock: Clock) -> Self {
        Self { since: clock.now(), clock, total: Duration::ZERO, longest: ("", Duration::ZERO), slow: BTreeMap::new() }
    }

    pub fn begin(&mut self) {
        (self.since, self.total, self.longest) = (self.clock.now(), Duration::ZERO, ("", Duration::ZERO));
    }

    /// The time since the last step was spent waiting.
    pub fn skip_wait(&mut self) {
        self.since = self.clock.now();
    }

    pub fn end_step(&mut self, name: &'static str) {
        let now = self.clock.now();
        let took = now - self.since;
        self.since = now;
        self.total += took;
        if took >= self.longest.1 {
            self.longest = (name, took);
        }
    }

    /// Ends the turn. If it was slow, the step that took longest, and how long.
    pub fn end(&mut self) -> Option<(&'static str, Duration)> {
        self.end_step("end");
        let (name, took) = Some(self.longest).filter(|_| self.total >= SLOW)?;
        let (count, most) = self.slow.entry(name).or_default();
        (*count, *most) = (*count + 1, took.max(*most));
        Some((name, took))
    }
}
