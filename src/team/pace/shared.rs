//! A file in the data directory through which processes share the pace of one provider.
//!
//! It holds one line of numbers, which is read and written whole under a lock. The loop accesses the file, so nothing
//! waits for the lock: a process that does not get it tries again soon.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::schedule::{Schedule, Step, micros};
use crate::base::clock::{Clock, Moment};
use crate::base::file::{open_private, open_regular};
use crate::store::make_directory;

/// The first word of the file, with the version of what follows.
const MARK: &str = "pace1";
/// Bytes of the line: it is written at once, and always as long.
const LENGTH: usize = 240;
/// How many microseconds later a file is tried again that another process is changing.
const BUSY: RangeInclusive<u64> = 1_000..=4_000;
/// How long a place in the schedule is kept for a request that is not sent.
const TAKEN_FOR: Duration = Duration::from_secs(1);
/// Clocks of processes may differ by this much. A file of a later time is from before the clock was set back.
const TOLERANCE: i64 = 2_000_000;
/// No pause is longer than a day; the limit is kept for a minute after it.
const LONGEST: i64 = (24 * 60 + 2) * 60 * 1_000_000;

/// Why a file was not changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// Another process is changing it.
    Busy,
    /// It cannot be written: this process does without it.
    Unusable,
}

/// The schedule of all processes that know the file.
pub struct Shared {
    path: PathBuf,
    clock: Clock,
    /// The steps of this process that are not in the file yet.
    pub steps: Vec<Step>,
    /// Another process is changing the file: it is tried again then.
    pub busy_until: Moment,
    /// Until when a place in the schedule is kept for the next request of this process.
    pub taken_until: Option<Moment>,
}

impl Shared {
    pub fn new(path: PathBuf, clock: Clock) -> Self {
        Self { path, clock, steps: Vec::new(), busy_until: Moment::default(), taken_until: None }
    }

    pub fn take(&mut self, now: Moment) {
        self.taken_until = Some(now + TAKEN_FOR);
    }

    pub fn is_taken(&self, now: Moment) -> bool {
        self.taken_until.is_some_and(|until| now < until)
    }

    /// Whether something has to be written now.
    pub fn is_due(&self, now: Moment) -> bool {
        !self.steps.is_empty() && self.busy_until <= now
    }

    /// The schedule of other processes, if there is a file.
    pub fn look(&self) -> Option<Schedule> {
        let (unix, offset) = self.times();
        let file = open_regular(&self.path).ok()?;
        // The lock of readers; during the write of another process there is nothing to see.
        flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
        let found = read(&file, unix);
        let _ = flock(&file, FlockOperation::Unlock);
        found.map(|schedule| schedule.shift_by(-offset))
    }

    /// Takes the schedule of the file, adds the steps of this process and then `last`, and writes it back. A file that
    /// is missing, damaged or too old gets the schedule of this process.
    pub fn change(
        &mut self,
        now: Moment,
        schedule: &mut Schedule,
        last: impl FnOnce(&mut Schedule),
    ) -> Result<(), Unchanged> {
        let (unix, offset) = self.times();
        let file = open(&self.path).map_err(|_| Unchanged::Unusable)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                self.busy_until = now + Duration::from_micros(fastrand::u64(BUSY));
                return Err(Unchanged::Busy);
            }
            Err(_) => return Err(Unchanged::Unusable),
        }
        if let Some(found) = read(&file, unix) {
            *schedule = found.shift_by(-offset);
            self.steps.iter().for_each(|step| step.apply(schedule));
        }
        self.steps.clear();
        last(schedule);
        let line = line(&schedule.shift_by(offset), unix);
        let written = file.write_all_at(line.as_bytes(), 0).and_then(|()| file.set_len(LENGTH as u64));
        // A child between fork and exec has a copy of the descriptor, which would hold the lock for that time.
        let _ = flock(&file, FlockOperation::Unlock);
        written.map_err(|_| Unchanged::Unusable)
    }

    /// Microseconds since 1970, and how much later those are than the times of this process.
    fn times(&self) -> (i64, i64) {
        let unix = self.clock.unix_ms().saturating_mul(1000);
        (unix, unix - micros(self.clock.now()))
    }
}

fn open(path: &Path) -> io::Result<File> {
    match open_private(path) {
        // Nothing has made the directory yet if nothing is stored.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().ok_or(error)?;
            make_directory(directory).map_err(|error| io::Error::other(error.message))?;
            open_private(path)
        }
        opened => opened,
    }
}

/// The schedule in a file, in microseconds since 1970.
fn read(file: &File, unix: i64) -> Option<Schedule> {
    let mut text = String::new();
    file.take(LENGTH as u64 + 1).read_to_string(&mut text).ok()?;
    parse(&text, unix)
}

fn line(schedule: &Schedule, now: i64) -> String {
    let mut text = format!("{MARK} {now}");
    for number in schedule.numbers() {
        text += &format!(" {number}");
    }
    format!("{text:<width$}\n", width = LENGTH - 1)
}

fn parse(text: &str, now: i64) -> Option<Schedule> {
    let rest = text.strip_prefix(MARK).filter(|_| text.len() == LENGTH)?;
    let numbers: Option<Vec<i64>> = rest.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    let (written_at, numbers) = numbers?.split_first().map(|(first, rest)| (*first, rest.to_vec()))?;
    let schedule = Schedule::of_numbers(&numbers, written_at, LONGEST)?;
    (written_at <= now + TOLERANCE && schedule.forgotten_at > now).then_some(schedule)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const S: i64 = 1_000_000;

    /// Two processes that share a file, and the schedule of the first after a refusal: it pauses for a second.
    fn two_processes(path: &Path, clock: &Clock) -> ([Shared; 2], Schedule) {
        let mut processes = [0, 1].map(|_| Shared::new(path.into(), clock.clone()));
        let refused = Step::Refused { at: micros(clock.now()), until: micros(clock.now()) + S, is_rate: true };
        let mut schedule = refused.first(Duration::from_secs(1)).unwrap();
        processes[0].steps.push(refused);
        processes[0].change(clock.now(), &mut schedule, |_| ()).unwrap();
        (processes, schedule)
    }

    fn fresh_clock() -> Clock {
        let clock = Clock::manual();
        clock.advance(Duration::from_secs(100));
        clock
    }

    #[test]
    fn each_place_in_the_schedule_is_taken_by_one_process_and_a_dead_one_keeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (path, clock) = (dir.path().join("pace"), fresh_clock());
        let (mut processes, schedule) = two_processes(&path, &clock);
        let mut schedules = [schedule, processes[1].look().expect("the second knows of it")];
        assert_eq!(schedules[0], schedules[1]);
        let mut taken = Vec::new();
        for _ in 0..8 {
            clock.advance(Duration::from_millis(500));
            let now = micros(clock.now());
            for (number, process) in processes.iter_mut().enumerate() {
                process
                    .change(clock.now(), &mut schedules[number], |schedule| {
                        if schedule.opens_at() <= now {
                            schedule.on_sent(now);
                            taken.push((now / 1000 - 100_000, number));
                        }
                    })
                    .unwrap();
            }
        }
        assert_eq!(
            taken,
            [(1000, 0), (2000, 0), (3000, 0), (4000, 0)],
            "nobody waits for the second, which may be dead"
        );
    }

    #[test]
    fn the_file_is_private_and_has_only_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let (path, clock) = (dir.path().join("data").join("pace"), fresh_clock());
        two_processes(&path, &clock);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let text = std::fs::read_to_string(&path).unwrap();
        let words = text.strip_prefix(MARK).unwrap();
        assert!(text.len() == LENGTH && words.split_whitespace().all(|word| word.parse::<i64>().is_ok()), "{text}");
    }

    #[test]
    fn a_file_that_is_damaged_foreign_old_or_of_the_future_is_no_limit() {
        let dir = tempfile::tempdir().unwrap();
        let (path, clock) = (dir.path().join("pace"), fresh_clock());
        let (mut processes, mut schedule) = two_processes(&path, &clock);
        let good = std::fs::read_to_string(&path).unwrap();
        assert!(processes[1].look().is_some());
        let other = good.replacen(MARK, "pace9", 1);
        let huge = good.replacen(" 0 ", " 9223372036854775807 ", 1);
        for damaged in ["", "hello", &good[1..], &good[..100], &good.replace(' ', "x"), &other, &huge] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(processes[1].look(), None, "{damaged:?}");
        }
        processes[0].change(clock.now(), &mut schedule, |_| ()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), good, "it is written anew");
        clock.advance(Duration::from_secs(62));
        assert_eq!(processes[1].look(), None, "a minute after its end");
        clock.set_wall(-3_600_000);
        std::fs::write(&path, good).unwrap();
        assert_eq!(processes[1].look(), None, "the clock was set back");
    }

    #[test]
    fn nobody_waits_for_a_process_that_holds_the_lock_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, clock) = (dir.path().join("pace"), fresh_clock());
        let (mut processes, mut schedule) = two_processes(&path, &clock);
        let held = open_private(&path).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        let before = schedule;
        processes[0].steps.push(Step::Accepted(0));
        assert_eq!(processes[0].change(clock.now(), &mut schedule, |_| ()), Err(Unchanged::Busy));
        assert_eq!((schedule, processes[0].steps.len()), (before, 1), "it is kept for later");
        assert!(processes[0].busy_until > clock.now() && !processes[0].is_due(clock.now()));
        drop(held);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut through_link = Shared::new(link, clock.clone());
        assert_eq!(through_link.look(), None);
        assert_eq!(through_link.change(clock.now(), &mut schedule, |_| ()), Err(Unchanged::Unusable));
    }
}
