//! Runs one call of a tool on a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use super::{Environment, Output, Prepared, Run, ToolSpec};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::job::{Job, JobThread};
use crate::domain::file_change::FileStep;
use crate::domain::tool::{ToolCall, ToolResult};

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
        let thread = JobThread::spawn(format!("tool {}", call.name), |job| Ok(work(job)), wake);
        let failed = |error: Error| Error { kind: ErrorKind::Tool, ..error.context("cannot start the tool") };
        Ok(Self { call, thread: thread.map_err(failed)? })
    }

    pub fn is_complete(&self) -> bool {
        self.thread.is_complete()
    }

    /// Asks the call to stop; the output so far is kept.
    pub fn cancel(&self) {
        self.thread.cancel();
    }

    /// The end of the output so far of a command.
    pub fn live_output(&self) -> String {
        self.thread.live_output()
    }

    pub fn has_been_cancelled(&self) -> bool {
        self.thread.has_been_cancelled()
    }

    /// The warnings for the person about a complete call.
    pub fn warnings(&self) -> Vec<String> {
        self.thread.with_outcome(|outcome| Some(outcome?.as_ref().ok()?.warnings.clone())).unwrap_or_default()
    }

    /// Takes the changes of a complete call.
    pub fn take_changed(&self) -> Option<Box<FileStep>> {
        self.thread.with_outcome(|outcome| outcome?.as_mut().ok()?.changed.take())
    }

    /// Joins the thread and takes the result, whose duration its caller measures.
    ///
    /// # Panics
    /// If called before [`Running::is_complete`].
    pub fn collect(self) -> ToolResult {
        let failed = |why: String| Output::failure(format!("{why} (in the tool; the arguments are not the cause)"));
        let output = self.thread.collect().unwrap_or_else(failed);
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
