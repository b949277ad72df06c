//! Runs one call, or other work, on its own thread.
//!
//! ```text
//!   loop                                      tool thread
//!   start ────────── owned arguments ───────▶ run
//!   cancel ───────── flag and descriptor ───▶ ends what it started, returns
//!   is_complete ◀─── result, then flag ────── done, wakes the loop
//!   collect  joins the thread
//! ```
//!
//! The thread writes its slot once, before `complete`; the loop reads it once, after. Nothing else is shared.

use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::linux::wake_fd::WakeFd;
use super::{Environment, Output, Prepared, Run, ToolSpec};
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::file_change::FileStep;
use crate::domain::tool::{ToolCall, ToolResult};

/// Tells a tool thread that its call was cancelled: a flag to test, and a descriptor to poll.
pub struct Job {
    cancelled: AtomicBool,
    wake_fd: WakeFd,
}

impl Job {
    /// A job that is not cancelled.
    pub fn new() -> Result<Self> {
        Ok(Self { cancelled: AtomicBool::new(false), wake_fd: WakeFd::new().map_err(not_started)? })
    }

    /// Asks the tool to stop. May be called repeatedly, from any thread; never blocks.
    pub fn cancel(&self) {
        if !self.cancelled.swap(true, Ordering::AcqRel) {
            self.wake_fd.wake();
        }
    }

    /// Whether the tool is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

impl AsFd for Job {
    /// Readable once the job is cancelled.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_fd.as_fd()
    }
}

struct Slot<T> {
    complete: AtomicBool,
    /// The result of the work, or the message of its panic.
    outcome: Mutex<Option<Outcome<T>>>,
    job: Job,
}

/// The value of some work, or why it failed.
pub type Outcome<T> = std::result::Result<T, String>;

/// Work on a thread of its own, running or complete but not yet collected. Dropping it cancels the work without waiting
/// for its thread.
pub struct JobThread<T> {
    slot: Arc<Slot<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> JobThread<T> {
    /// Starts the work. `wake` is called on its thread once it is complete.
    pub fn spawn(
        name: String,
        work: impl FnOnce(&Job) -> Outcome<T> + Send + 'static,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self> {
        let slot = Arc::new(Slot { complete: AtomicBool::new(false), outcome: Mutex::new(None), job: Job::new()? });
        let thread_slot = Arc::clone(&slot);
        let run = move || {
            thread_slot.fill(work);
            wake();
        };
        let thread = std::thread::Builder::new().name(name).spawn(run).map_err(not_started)?;
        Ok(Self { slot, thread: Some(thread) })
    }

    /// Joins the thread and takes the outcome.
    ///
    /// # Panics
    /// If called before [`JobThread::is_complete`]: the loop would block until the work ends.
    pub fn collect(mut self) -> Outcome<T> {
        assert!(self.is_complete(), "work is collected only after it is complete");
        if let Some(thread) = self.thread.take() {
            // After completion only `wake` can panic, and the outcome does not depend on it.
            let _ = thread.join();
        }
        self.slot.outcome().take().expect("the outcome is stored before the work is complete")
    }
}

impl<T> JobThread<T> {
    /// Whether the outcome can be collected without waiting.
    pub fn is_complete(&self) -> bool {
        self.slot.complete.load(Ordering::Acquire)
    }

    /// Asks the work to stop; it completes soon after. May be called repeatedly; never blocks.
    pub fn cancel(&self) {
        self.slot.job.cancel();
    }

    /// Whether [`JobThread::cancel`] was called.
    pub fn has_been_cancelled(&self) -> bool {
        self.slot.job.is_cancelled()
    }
}

impl<T> Drop for JobThread<T> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl<T> Slot<T> {
    /// Does the work and stores its outcome, also if it panics.
    fn fill(&self, work: impl FnOnce(&Job) -> Outcome<T>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&self.job)))
            .unwrap_or_else(|panic| Err(panic_message(panic.as_ref())));
        *self.outcome() = Some(outcome);
        self.complete.store(true, Ordering::Release);
    }

    fn outcome(&self) -> MutexGuard<'_, Option<Outcome<T>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that runs, or is complete and not yet collected. Dropping it cancels the call without waiting for its thread.
pub struct Running {
    call: ToolCall,
    thread: JobThread<Output>,
}

impl Running {
    /// Starts the call. `wake` is called on the tool's thread once the call is complete.
    pub fn start(
        spec: &'static ToolSpec,
        call: ToolCall,
        prepared: Prepared,
        env: Arc<Environment>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self> {
        let work = move |job: &Job| run(spec, &prepared, &env, job);
        Self::spawn(call, work, wake)
    }

    /// Starts work of the program itself whose output is for a model; `call` names it in the result.
    pub fn spawn(
        call: ToolCall,
        work: impl FnOnce(&Job) -> Output + Send + 'static,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self> {
        let thread = JobThread::spawn(format!("tool {}", call.name), |job| Ok(work(job)), wake)?;
        Ok(Self { call, thread })
    }

    pub fn is_complete(&self) -> bool {
        self.thread.is_complete()
    }

    /// As [`JobThread::cancel`]; the output so far is kept.
    pub fn cancel(&self) {
        self.thread.cancel();
    }

    pub fn has_been_cancelled(&self) -> bool {
        self.thread.has_been_cancelled()
    }

    /// The warnings for the person about a complete call.
    pub fn warnings(&self) -> Vec<String> {
        let outcome = self.thread.slot.outcome();
        outcome.as_ref().and_then(|output| Some(output.as_ref().ok()?.warnings.clone())).unwrap_or_default()
    }

    /// Takes the changes of a complete call.
    pub fn take_changed(&self) -> Option<Box<FileStep>> {
        self.thread.slot.outcome().as_mut()?.as_mut().ok()?.changed.take()
    }

    /// Joins the thread and takes the result, whose duration its caller measures.
    ///
    /// # Panics
    /// As [`JobThread::collect`].
    pub fn collect(self) -> ToolResult {
        let output = self.thread.collect().unwrap_or_else(Output::failure);
        ToolResult {
            call_id: self.call.id,
            name: self.call.name,
            content: output.content,
            is_error: output.is_error,
            duration: Duration::ZERO,
        }
    }
}

fn run(spec: &ToolSpec, call: &Prepared, env: &Environment, job: &Job) -> Output {
    if let Some(script) = &env.script {
        let result = script.run(spec.declaration.name, &call.arguments, &|| job.is_cancelled());
        return result.map_or_else(Output::failure, Output::success);
    }
    match spec.run {
        Run::OnThread(run) => run(call, env, job),
        Run::InEventLoop(_) => panic!("{} runs in the event loop, not on a thread", spec.declaration.name),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    format!("internal error in the tool (the arguments are not the cause): {text}")
}

fn not_started(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Tool, format!("cannot start the tool: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::domain::tool::{Reach, ToolDeclaration};
    use crate::sandbox::Promise;
    use crate::tools::Question;

    const fn probe(run: fn(&Prepared, &Environment, &Job) -> Output) -> ToolSpec {
        ToolSpec {
            declaration: ToolDeclaration { name: "probe", description: "", parameters: r#"{"type":"object"}"# },
            aliases: &[],
            reach: Reach::Reads,
            judged: crate::tools::Judged::Nothing,
            check: |_, _| Ok(Question::new(String::new(), Vec::new())),
            run: Run::OnThread(run),
        }
    }

    static ECHO: ToolSpec = probe(|call, _, _| Output::success(call.arguments.to_string()));
    static BREAKS: ToolSpec = probe(|_, _, _| panic!("out of cheese"));
    static WAITS: ToolSpec = probe(|_, _, job| {
        let mut ready = [rustix::event::PollFd::new(job, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut ready, None).unwrap();
        Output::failure("interrupted")
    });

    fn start(spec: &'static ToolSpec) -> (Running, mpsc::Receiver<()>) {
        let env = Environment::at("/".into());
        let prepared = Prepared {
            arguments: 5.into(),
            question: Question::new(String::new(), Vec::new()),
            promise: Promise::NOTHING,
        };
        let call = ToolCall { id: "7".into(), name: "probe".into(), arguments: "{}".into() };
        let (sender, wakes) = mpsc::sync_channel(1);
        let wake = Arc::new(move || sender.send(()).unwrap());
        (Running::start(spec, call, prepared, Arc::new(env), wake).unwrap(), wakes)
    }

    #[test]
    fn a_call_is_complete_when_it_wakes_and_its_result_has_its_id() {
        let (running, wakes) = start(&ECHO);
        wakes.recv().unwrap();
        assert!(running.is_complete() && !running.has_been_cancelled());
        let result = running.collect();
        assert_eq!((result.call_id.as_str(), result.content.as_str(), result.is_error), ("7", "5", false));
    }

    #[test]
    fn a_tool_that_panics_completes_with_an_error() {
        let (running, wakes) = start(&BREAKS);
        wakes.recv().unwrap();
        let result = running.collect();
        assert!(result.is_error && result.content.contains("out of cheese"), "{}", result.content);
    }

    #[test]
    fn a_tool_may_be_cancelled_repeatedly() {
        let (running, wakes) = start(&WAITS);
        assert!(!running.is_complete());
        running.cancel();
        running.cancel();
        wakes.recv().unwrap();
        assert!(running.has_been_cancelled());
        assert_eq!(running.collect().content, "interrupted");
    }

    #[test]
    fn dropping_a_call_cancels_it() {
        let (running, wakes) = start(&WAITS);
        drop(running);
        wakes.recv().unwrap();
    }
}
