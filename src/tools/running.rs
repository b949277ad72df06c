//! One call on its own thread.
//!
//! ```text
//!   loop                                    tool thread
//!   start ────────── owned arguments ─────▶ run
//!   cancel ───────── flag and eventfd ────▶ sees it, ends what it started
//!   is_complete ◀─── result, then flag ──── done, wakes the loop
//!   collect  joins the thread
//! ```
//!
//! The thread writes its slot once, before `complete`; the loop reads it once, after. Nothing else is shared.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::{Environment, Output, Prepared, Run, ToolSpec};
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::tool::{ToolCall, ToolResult};

/// The wish to stop, as the tool thread sees it: a flag to ask, and a descriptor to poll.
pub struct Job {
    cancelled: AtomicBool,
    news: OwnedFd,
}

impl Job {
    /// A job that nobody has cancelled yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> Result<Self> {
        let news = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(no_room)?;
        Ok(Self { cancelled: AtomicBool::new(false), news })
    }

    /// Asks the tool to stop. May be called again, from any thread; never blocks.
    pub fn cancel(&self) {
        if !self.cancelled.swap(true, Ordering::AcqRel) {
            // The counter holds 2^64 - 2, so that the one write there is cannot fail for want of room.
            let _ = rustix::io::write(&self.news, &1u64.to_ne_bytes());
        }
    }

    /// Whether the tool was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

impl AsFd for Job {
    /// Readable from the moment of cancellation on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

struct Slot {
    complete: AtomicBool,
    outcome: Mutex<Option<(Output, Duration)>>,
    job: Job,
}

/// A call that runs, or has run and waits to be collected. Dropping it cancels the call and leaves its thread to end alone.
pub struct Running {
    call: ToolCall,
    slot: Arc<Slot>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts the call. `wake` is called on the tool's thread once the call is complete.
    ///
    /// # Errors
    /// No thread or no descriptor is left.
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

    /// The same for work of the house's own, which is called as the call is.
    ///
    /// # Errors
    /// As for [`Running::start`].
    pub fn spawn(
        call: ToolCall,
        work: impl FnOnce(&Job) -> Output + Send + 'static,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self> {
        let slot = Arc::new(Slot { complete: AtomicBool::new(false), outcome: Mutex::new(None), job: Job::new()? });
        let of_thread = Arc::clone(&slot);
        let thread = std::thread::Builder::new()
            .name(format!("tool {}", call.name))
            .spawn(move || {
                of_thread.fill(work);
                wake();
            })
            .map_err(no_room)?;
        Ok(Self { call, slot, thread: Some(thread) })
    }

    /// Whether the result is there.
    pub fn is_complete(&self) -> bool {
        self.slot.complete.load(Ordering::Acquire)
    }

    /// Asks the call to stop; it completes soon after, with what it has. May be called again; never blocks.
    pub fn cancel(&self) {
        self.slot.job.cancel();
    }

    /// Whether [`Running::cancel`] was called.
    pub fn has_been_cancelled(&self) -> bool {
        self.slot.job.is_cancelled()
    }

    /// Joins the thread and takes the result.
    ///
    /// # Panics
    /// Before [`Running::is_complete`]: the loop would wait for the tool.
    pub fn collect(mut self) -> ToolResult {
        assert!(self.is_complete(), "a call is collected only after it is complete");
        if let Some(thread) = self.thread.take() {
            // All that may still panic after completion is `wake`, and the result is there without it.
            let _ = thread.join();
        }
        let (output, duration) = self.slot.take();
        ToolResult {
            call_id: self.call.id.clone(),
            name: self.call.name.clone(),
            content: output.content,
            is_error: output.is_error,
            duration,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Slot {
    /// Runs the tool and stores what came of it, even if it panics.
    fn fill(&self, work: impl FnOnce(&Job) -> Output) {
        let start = Instant::now();
        let output = catch_unwind(AssertUnwindSafe(|| work(&self.job)))
            .unwrap_or_else(|panic| Output::failure(words_of(panic.as_ref())));
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some((output, start.elapsed()));
        self.complete.store(true, Ordering::Release);
    }

    fn take(&self) -> (Output, Duration) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.take().expect("the result is stored before the call is complete")
    }
}

fn run(spec: &ToolSpec, call: &Prepared, env: &Environment, job: &Job) -> Output {
    match spec.run {
        Run::OnThread(run) => run(call, env, job),
        Run::ByLoop(_) => panic!("{} is carried out by the house, not on a thread", spec.declaration.name),
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words");
    format!("The tool broke down; this is a bug of the tool, not of the call: {text}")
}

fn no_room(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Tool, format!("the tool cannot be started: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::domain::tool::{Reach, ToolDeclaration};
    use crate::tools::Question;

    const fn probe(run: fn(&Prepared, &Environment, &Job) -> Output) -> ToolSpec {
        ToolSpec {
            declaration: ToolDeclaration { name: "probe", description: "", parameters: r#"{"type":"object"}"# },
            reach: Reach::Reads,
            check: |_, _| Ok(Question::of(String::new(), Vec::new())),
            run: Run::OnThread(run),
        }
    }

    static ECHO: ToolSpec = probe(|call, _, _| Output::success(call.arguments.to_string()));
    static BREAKS: ToolSpec = probe(|_, _, _| panic!("out of cheese"));
    static WAITS: ToolSpec = probe(|_, _, job| {
        let mut news = [rustix::event::PollFd::new(job, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut news, None).unwrap();
        Output::failure("interrupted")
    });

    fn start(spec: &'static ToolSpec) -> (Running, mpsc::Receiver<()>) {
        let env = Environment::at("/".into());
        let prepared = Prepared { arguments: 5.into(), question: Question::of(String::new(), Vec::new()) };
        let call = ToolCall { id: "7".into(), name: "probe".into(), arguments: "{}".into() };
        let (woken, wakes) = mpsc::sync_channel(1);
        let wake = Arc::new(move || woken.send(()).unwrap());
        (Running::start(spec, call, prepared, Arc::new(env), wake).unwrap(), wakes)
    }

    #[test]
    fn a_call_is_complete_when_it_wakes_and_its_result_bears_its_id() {
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
    fn a_cancelled_tool_hears_of_it_however_often_it_is_told() {
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
