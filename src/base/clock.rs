//! The clock of the program: the real one, or a manual one for tests.

use std::cell::Cell;
use std::ops::{Add, Sub};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time, in microseconds since the clock was created. Monotonic; not a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// This moment, or the next that is a multiple of `step`, which may be zero.
    pub fn round_up(self, step: Duration) -> Moment {
        let step = micros(step).max(1);
        Moment(self.0.checked_next_multiple_of(step).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, by: Duration) -> Moment {
        Moment(self.0.saturating_add(micros(by)))
    }
}

impl Sub for Moment {
    type Output = Duration;
    fn sub(self, earlier: Moment) -> Duration {
        self.since(earlier)
    }
}

/// Clones share the same time.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System {
        start: Instant,
        /// The wall clock then, in milliseconds since 1970.
        started_at: i64,
        /// How long the process was stopped in total.
        stopped: Rc<Cell<Duration>>,
    },
    Manual {
        /// Microseconds.
        now: Rc<Cell<u64>>,
        /// By how much the wall clock was set, in milliseconds.
        wall: Rc<Cell<i64>>,
    },
}

impl Clock {
    /// The machine's monotonic clock.
    pub fn system() -> Self {
        Self(Source::System { start: Instant::now(), started_at: unix_ms(), stopped: Rc::default() })
    }

    /// A clock that moves only when [`Clock::advance`] is called.
    pub fn manual() -> Self {
        Self(Source::Manual { now: Rc::default(), wall: Rc::default() })
    }

    /// The current moment.
    pub fn now(&self) -> Moment {
        match &self.0 {
            Source::System { start, stopped, .. } => {
                let running = start.elapsed().saturating_sub(stopped.get());
                Moment(micros(running))
            }
            Source::Manual { now, .. } => Moment(now.get()),
        }
    }

    /// Stops this clock while something is done, so that deadlines move by that time. A manual clock stands
    /// still anyway.
    pub fn stop_during<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = Instant::now();
        let value = work();
        if let Source::System { stopped, .. } = &self.0 {
            stopped.set(stopped.get() + before.elapsed());
        }
        value
    }

    /// Moves a manual clock forward.
    ///
    /// # Panics
    /// On the system clock, which cannot be moved.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::System { .. } => panic!("the system clock cannot be moved"),
            Source::Manual { now, .. } => now.set((Moment(now.get()) + by).0),
        }
    }

    /// Moves the wall clock of a manual clock by this many milliseconds, which may be negative.
    ///
    /// # Panics
    /// On the system clock.
    pub fn set_wall(&self, by: i64) {
        match &self.0 {
            Source::System { .. } => panic!("the clock of the system cannot be set"),
            Source::Manual { wall, .. } => wall.set(wall.get().saturating_add(by)),
        }
    }

    /// Milliseconds since 1970, for the store and for display. A manual clock starts at 0. It jumps when somebody sets the
    /// clock; spans of time are measured with [`Clock::now`] or [`Clock::steady_ms`].
    pub fn unix_ms(&self) -> i64 {
        match &self.0 {
            Source::System { .. } => unix_ms(),
            Source::Manual { wall, .. } => self.steady_ms().saturating_add(wall.get()).max(0),
        }
    }

    /// Milliseconds since 1970 by the wall clock at the start and the monotonic clock since then: it never jumps, and can be
    /// compared with what an earlier process has stored.
    pub fn steady_ms(&self) -> i64 {
        let since_start = i64::try_from(self.now().0 / 1000).unwrap_or(i64::MAX);
        match &self.0 {
            Source::System { started_at, .. } => started_at.saturating_add(since_start),
            Source::Manual { .. } => since_start,
        }
    }
}

/// The microseconds of a span, as many as a `u64` holds.
pub fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// The time at the beginning of a text, as servers write it: `1m2.5s`, `120ms`, `6h0m0s`. `None` without a unit.
pub fn leading_span(text: &str) -> Option<Duration> {
    let (mut rest, mut seconds, mut has_unit) = (text, 0.0, false);
    while let Some((amount, unit, more)) = leading_amount(rest) {
        (rest, seconds, has_unit) = (more, seconds + amount * unit, true);
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|_| has_unit)
}

/// A number, its unit in seconds, and the rest of the text.
fn leading_amount(text: &str) -> Option<(f64, f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(end);
    let units = [("ms", 0.001), ("d", 86_400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
    let (name, unit) = units.into_iter().find(|(name, _)| rest.starts_with(name))?;
    Some((number.parse().ok()?, unit, &rest[name.len()..]))
}

/// The local time of day of a moment in milliseconds since 1970, as `09:12`.
pub fn time_of_day(unix_ms: i64) -> String {
    let Ok(at) = jiff::Timestamp::from_millisecond(unix_ms) else { return String::new() };
    let local = at.to_zoned(jiff::tz::TimeZone::system());
    format!("{:02}:{:02}", local.hour(), local.minute())
}

/// The local date and time of a moment in milliseconds since 1970, as `2026-11-23 09:12`.
pub fn date_and_time(unix_ms: i64) -> String {
    let Ok(at) = jiff::Timestamp::from_millisecond(unix_ms) else { return String::new() };
    let local = at.to_zoned(jiff::tz::TimeZone::system());
    format!("{} {:02}:{:02}", local.date(), local.hour(), local.minute())
}

/// A moment in milliseconds since 1970 as ISO 8601 in UTC, for programs; `None` outside of the years that it can name.
pub fn utc_time(unix_ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(unix_ms).ok().map(|at| at.to_string())
}

/// Milliseconds since 1970 by the machine's clock; 0 before that.
pub fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_advanced_together_with_its_clones() {
        let clock = Clock::manual();
        let clone = clock.clone();
        let start = clone.now();
        clock.advance(Duration::from_millis(80));
        assert_eq!(clone.now() - start, Duration::from_millis(80));
    }

    #[test]
    fn the_system_clock_does_not_count_the_time_for_which_it_is_stopped() {
        let (real, clock) = (Instant::now(), Clock::system());
        let clone = clock.clone();
        let span = Duration::from_millis(20);
        clock.stop_during(|| {
            let start = Instant::now();
            while start.elapsed() < span {
                std::hint::spin_loop();
            }
        });
        let shown = clone.now() - Moment::default();
        assert!(shown <= real.elapsed() - span, "{shown:?} of {:?}", real.elapsed());
        assert!(clock.now() >= Moment::default() + shown, "it goes on");
    }

    #[test]
    fn the_time_since_a_later_moment_is_zero() {
        let early = Moment(5);
        let late = Moment(9);
        assert_eq!(early - late, Duration::ZERO);
    }
}
