//! What the kernel knows of a process: memory, threads, processor time, how often it was woken.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A process to look at.
#[derive(Clone, Copy)]
pub struct Process(u32);

impl Process {
    /// The one with this id.
    pub fn of(pid: u32) -> Process {
        Process(pid)
    }

    /// The one that runs this.
    pub fn own() -> Process {
        Process(std::process::id())
    }

    /// Its proportional share of memory in KiB: pages shared with others count in part (`smaps_rollup`).
    pub fn pss(self) -> f64 {
        self.number("smaps_rollup", "Pss:")
    }

    /// The part of it that this process wrote to, in KiB: without the pages of the program's file, which the kernel adds
    /// as code is reached for the first time.
    pub fn written(self) -> f64 {
        self.number("smaps_rollup", "Pss_Anon:")
    }

    /// How many threads it has.
    pub fn threads(self) -> f64 {
        self.number("status", "Threads:")
    }

    /// How many descriptors it holds.
    pub fn descriptors(self) -> usize {
        fs::read_dir(self.path("fd")).expect("a living process").count()
    }

    /// How often its first thread went to sleep of its own accord: once a wait, so this counts wake-ups.
    pub fn waits(self) -> f64 {
        self.number("status", "voluntary_ctxt_switches:")
    }

    /// Processor time of all its threads, ended ones not included, to the nanosecond.
    pub fn cpu(self) -> Duration {
        let tasks = fs::read_dir(self.path("task")).expect("a living process");
        let spent = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok());
        let nanos = spent.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum();
        Duration::from_nanos(nanos)
    }

    /// The value of a variable in the environment that it was started with.
    pub fn variable(self, name: &str) -> Option<String> {
        let all = fs::read(self.path("environ")).ok()?;
        let mut texts = all.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        texts.find_map(|text| text.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    }

    fn number(self, file: &str, name: &str) -> f64 {
        let text = fs::read_to_string(self.path(file)).expect("a living process");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }

    fn path(self, file: &str) -> std::path::PathBuf {
        format!("/proc/{}/{file}", self.0).into()
    }
}

/// Processor time that this thread has spent.
pub fn own_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// Processor time of the programs that this process has started and that have ended, with theirs, to a hundredth of a second
/// (proc_pid_stat(5)).
pub fn cpu_of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("the kernel tells it");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    let ticks = fields.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

/// The monotonic clock, which all processes share.
pub fn monotonic() -> Duration {
    clock(ClockId::Monotonic)
}

fn clock(id: ClockId) -> Duration {
    clock_gettime(id).try_into().expect("a time after the start")
}
