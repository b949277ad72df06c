//! Counts the system calls of a program, as strace does, by ptrace(2).

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// A shell script that stops until it is traced, and becomes the program that is named by its arguments.
pub const STOPPED: &str = "kill -STOP $$; exec \"$0\" \"$@\"";

/// The memory allocator makes them, in a different number in each build, and threads that wait for each other.
const NOT_COUNTED: [i64; 8] = [
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sched_yield,
];

/// What a program and everything that it started did since it began.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    pub calls: u64,
    pub threads: u64,
    /// `fsync` and `fdatasync`.
    pub syncs: u64,
    /// `pwrite64`, with which SQLite writes a page and its header.
    pub writes: u64,
    /// Page faults of the first process.
    pub faults: u64,
    by_number: HashMap<i64, u64>,
}

impl Counts {
    /// The most frequent system calls, for a failed test.
    pub fn describe(&self) -> String {
        let mut numbers: Vec<_> = self.by_number.iter().collect();
        numbers.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown: Vec<String> =
            numbers.iter().take(12).map(|(number, count)| format!("{count} of number {number}")).collect();
        format!("{} system calls: {}", self.calls, shown.join(", "))
    }
}

#[derive(Default)]
struct Traced {
    counts: Counts,
    /// All threads, and whether each is in a system call.
    threads: HashMap<Pid, bool>,
    faults_before: u64,
    has_begun: bool,
}

/// A program that is traced by a thread, which alone may ask the kernel about it.
pub struct Tracer {
    first: Pid,
    traced: Arc<Mutex<Traced>>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    /// Traces a child of this process that runs [`STOPPED`]; `None` where tracing is not allowed.
    pub fn start(child: u32) -> Option<Self> {
        let first = Pid::from_raw(i32::try_from(child).expect("a process id"));
        let traced = Arc::new(Mutex::new(Traced::default()));
        let shared = Arc::clone(&traced);
        let (sender, is_allowed) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // A test harness executes itself before it becomes the shell.
            let stopped = waitpid(first, Some(WaitPidFlag::WUNTRACED));
            assert!(matches!(stopped, Ok(WaitStatus::Stopped(_, Signal::SIGSTOP))), "{stopped:?}");
            let options = Options::PTRACE_O_TRACESYSGOOD
                | Options::PTRACE_O_TRACECLONE
                | Options::PTRACE_O_TRACEFORK
                | Options::PTRACE_O_TRACEVFORK
                | Options::PTRACE_O_TRACEEXEC
                | Options::PTRACE_O_TRACEEXIT
                | Options::PTRACE_O_EXITKILL;
            let seized = ptrace::seize(first, options);
            let _ = sender.send(seized.is_ok());
            nix::sys::signal::kill(first, Signal::SIGCONT).expect("a child");
            if seized.is_ok() {
                follow(first, &shared);
            }
        });
        is_allowed.recv().expect("an answer").then_some(Self { first, traced, thread: Some(thread) })
    }

    /// What it did until it waits for something, with all of its threads and processes.
    pub fn counts_if_waiting(&self) -> Option<Counts> {
        let mut traced = self.traced.lock().expect("no panic");
        let is_waiting = !traced.threads.is_empty() && traced.threads.values().all(|is_in_call| *is_in_call);
        traced.counts.faults = faults_of(self.first).unwrap_or_default().saturating_sub(traced.faults_before);
        is_waiting.then(|| traced.counts.clone())
    }

    /// What it did until it ended.
    pub fn counts_at_end(mut self) -> Counts {
        self.thread.take().expect("it is taken once").join().expect("the tracer ends with the program");
        self.traced.lock().expect("no panic").counts.clone()
    }
}

/// Field 10 of proc_pid_stat(5), after the name in parentheses.
fn faults_of(process: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(7)?.parse().ok()
}

fn follow(first: Pid, shared: &Mutex<Traced>) {
    loop {
        let status = match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            Err(_) => return,
        };
        let Some(thread) = status.pid() else { continue };
        let mut traced = shared.lock().expect("no panic");
        let (is_new, mut passed_on) = (thread != first && !traced.threads.contains_key(&thread), None);
        match status {
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                traced.threads.remove(&thread);
                if thread == first {
                    return;
                }
                continue;
            }
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC) if thread == first => {
                // The last program that the first process becomes is the one that is meant.
                *traced = Traced {
                    faults_before: faults_of(first).unwrap_or_default(),
                    has_begun: true,
                    ..Traced::default()
                };
                traced.threads.insert(first, true);
            }
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_CLONE) => traced.counts.threads += 1,
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXIT) if thread == first => {
                traced.counts.faults = faults_of(first).unwrap_or_default().saturating_sub(traced.faults_before);
            }
            WaitStatus::PtraceSyscall(_) => {
                let is_in_call = traced.threads.get(&thread).is_some_and(|is_in_call| !is_in_call);
                traced.threads.insert(thread, is_in_call);
                if is_in_call && traced.has_begun {
                    count(thread, &mut traced.counts);
                }
            }
            WaitStatus::Stopped(_, signal) => passed_on = Some(signal),
            _ => {}
        }
        // A new thread runs before it makes its first call.
        if is_new {
            traced.threads.entry(thread).or_insert(false);
            passed_on = None;
        }
        drop(traced);
        // It may have been killed meanwhile.
        let _ = ptrace::syscall(thread, passed_on);
    }
}

fn count(thread: Pid, counts: &mut Counts) {
    let Ok(registers) = ptrace::getregs(thread) else { return };
    let number = registers.orig_rax.cast_signed();
    // A debug build looks at each descriptor before it closes it.
    let is_check = number == libc::SYS_fcntl && registers.rsi.cast_signed() == i64::from(libc::F_GETFD);
    if NOT_COUNTED.contains(&number) || is_check {
        return;
    }
    counts.calls += 1;
    counts.writes += u64::from(number == libc::SYS_pwrite64);
    counts.syncs += u64::from([libc::SYS_fsync, libc::SYS_fdatasync].contains(&number));
    *counts.by_number.entry(number).or_default() += 1;
}
