//! The tool calls of one reply, until all have a result. `plan` judges calls, `questions` asks about them, `restored`
//! asks again after a restart, `repeats` detects repeated calls, `hosted` has the calls of a host.
//!
//! Calls that only read run in parallel. A call that writes or runs something waits until all calls before it are done,
//! and runs alone. Whether a call needs approval is decided by `policy` when it is planned; one that needs it waits as
//! well. The results go to the model together, in the order of the calls. Calls that a host makes to our tools do not
//! wait for others, and the host gets each result at once.
//!
//! Only what was shown is allowed: after the answer the call is planned again, and if that gives another question
//! (another path, another file, another change), it is asked instead.
//!
//! A tool thread needs a slot, as a request does. The agent keeps the slot of its reply or of its previous tool. While
//! it waits for an answer or for mail it has none, and gets one from the loop ([`Agent::start_tools`]).

mod elicited;
mod hooks;
#[cfg_attr(not(feature = "hosts"), allow(dead_code))]
mod hosted;
mod plan;
mod questions;
mod repeats;
mod restored;

use std::time::Duration;

use serde_json::Value;

use crate::agent::{Agent, Context, Effect, RecordedEvent, State, UNFINISHED};
use crate::base::clock::Moment;
use crate::base::error::ErrorKind;
use crate::base::id::AgentId;
use crate::domain::approval::Policy;
use crate::domain::call_title::{short_title, title_of};
use crate::domain::chunk::{Chunk, REFUSED_CALL};
use crate::domain::diff::DiffColors;
use crate::domain::elicitation::Elicitation;
use crate::domain::mcp::PREFIX;
use crate::domain::message::Body;
use crate::domain::tool::{Reach, ToolCall, ToolResult};
use crate::tools::hooks::HookRun;
use crate::tools::{self, Judged, Prepared, Question, Run, Running, ToolSpec};

use hooks::{Hooked, TurnHooks};
#[cfg(feature = "hosts")]
pub use hosted::{HostAsks, HostVerdict, OUR_TOOL_CALL_PREFIX};
use plan::{Planned, missing_file};
pub(super) use questions::DENIED;
pub use questions::{Objection, PendingQuestion};
use repeats::Repeats;

/// Begins the result of a call that a hook has refused.
const DENIED_BY_HOOK: &str = "denied by a hook";
/// How long cancelled tools may take to end. Longer than it takes to end a command, which is 2 s at most.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Default)]
pub struct Work {
    calls: Vec<Call>,
    question: Option<PendingQuestion>,
    questions: u64,
    /// The deadline of tools that were cancelled.
    stopping: Option<Moment>,
    /// Tool threads may be started without asking the loop for a slot.
    has_slot: bool,
    /// A tool thread can be started as soon as there is a slot, and since when.
    slot_wanted_since: Option<Moment>,
    /// When the calls were planned, or the newest of them was started.
    started: Moment,
    repeats: Repeats,
    turn_hooks: TurnHooks,
}

struct Call {
    call: ToolCall,
    progress: Progress,
    /// Its result is in the log.
    is_stored: bool,
    /// It is already shown, as a message from an earlier process.
    is_shown: bool,
    /// The message for the user about a call that is refused because the user may not be asked.
    refusal: Option<String>,
    /// An earlier process asked about it, so it is asked again even where new calls would be refused.
    is_restored: bool,
    /// The person has changed it: the question is asked in any case, and the model is told.
    is_edited: bool,
    /// The person has allowed it without reading all of its question.
    is_unread: bool,
    /// A host has called this tool of ours and has no result yet. Such a call does not wait for earlier ones.
    is_host_waiting: bool,
    /// When the loop was asked to carry it out.
    asked_at: Moment,
    hooked: Hooked,
}

impl Call {
    fn new(call: ToolCall, progress: Progress, now: Moment) -> Self {
        Self {
            call,
            progress,
            is_stored: false,
            is_shown: false,
            refusal: None,
            is_restored: false,
            is_edited: false,
            is_unread: false,
            is_host_waiting: false,
            asked_at: now,
            hooked: Hooked::default(),
        }
    }

    /// The loop is asked to carry it out.
    fn give_to_loop(&mut self, now: Moment) {
        (self.progress, self.asked_at) = (Progress::ByLoop(None), now);
    }
}

enum Progress {
    Waiting(&'static ToolSpec, Box<Prepared>, Permission),
    /// Hooks look at it before it is asked about or started.
    Checking(HookRun, &'static ToolSpec, Box<Prepared>, Permission),
    /// Since then.
    Running(Running, Moment),
    /// Hooks look at its result.
    Following(HookRun, Box<ToolResult>),
    /// The loop carries it out, until this deadline if there is one.
    ByLoop(Option<Moment>),
    /// The person is to be asked before the loop carries out the call.
    Objected(&'static ToolSpec, Box<(Prepared, Objection)>),
    /// The server that carries it out asks the person.
    Elicited(Box<Elicitation>),
    /// The host asks the person before it carries it out.
    HostAsks(Box<Question>),
    Answered(ToolResult),
}

impl Progress {
    fn has_thread(&self) -> bool {
        matches!(self, Self::Checking(..) | Self::Running(..) | Self::Following(..))
    }

    fn into_thread(self) -> Option<Running> {
        match self {
            Self::Running(running, _) => Some(running),
            Self::Checking(run, ..) | Self::Following(run, _) => run.into_running(),
            Self::Waiting(..)
            | Self::ByLoop(_)
            | Self::Objected(..)
            | Self::Elicited(_)
            | Self::HostAsks(_)
            | Self::Answered(_) => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Permission {
    NotNeeded,
    Wanted,
    Given,
}

enum Next {
    Start(usize),
    Ask(usize),
    Wait,
    Finished,
}

impl Work {
    pub fn question(&self) -> Option<&PendingQuestion> {
        self.question.as_ref()
    }

    /// Draws the question again, for colours of its code have become known.
    pub fn redraw_question(&mut self) {
        let Some(pending) = &mut self.question else { return };
        let colored = pending.colors.iter().map(DiffColors::count).sum();
        if std::mem::replace(&mut pending.colored, colored) != colored {
            pending.lines = pending.question.lines(&pending.colors);
        }
    }

    /// A turn of a person begins.
    pub fn forget_repeats(&mut self) {
        self.repeats.forget();
    }

    pub fn has_live_thread(&self) -> bool {
        self.live_threads() > 0
    }

    pub fn live_threads(&self) -> usize {
        let calls = self.calls.iter().filter(|call| call.progress.has_thread()).count();
        calls + usize::from(self.turn_hooks.running.is_some())
    }

    /// How many tool threads run that were not cancelled, and how many that were.
    pub fn unfinished(&self) -> (usize, usize) {
        let running = |call: &Call| match &call.progress {
            Progress::Running(running, _) if !running.is_complete() => Some(running.has_been_cancelled()),
            _ => None,
        };
        let cancelled: Vec<bool> = self.calls.iter().filter_map(running).collect();
        let count = cancelled.iter().filter(|is_cancelled| **is_cancelled).count();
        (cancelled.len() - count, count)
    }

    /// The end of the output of a command that runs.
    pub fn live_output(&self) -> Option<String> {
        self.calls.iter().rev().find_map(|call| match &call.progress {
            Progress::Running(running, _) => Some(running.live_output()).filter(|output| !output.is_empty()),
            _ => None,
        })
    }

    /// Cancels every running tool.
    pub fn cancel(&mut self) {
        for call in &self.calls {
            match &call.progress {
                Progress::Running(running, _) => running.cancel(),
                Progress::Checking(run, ..) | Progress::Following(run, _) => run.cancel(),
                _ => {}
            }
        }
        self.turn_hooks.running.iter().for_each(HookRun::cancel);
    }

    pub fn is_waiting_call(&self, id: &str) -> bool {
        let waits =
            |call: &Call| matches!(call.progress, Progress::ByLoop(_) | Progress::Elicited(_) | Progress::HostAsks(_));
        self.calls.iter().any(|call| call.call.id == id && waits(call))
    }

    /// The place of the call with this id, if the loop carries it out.
    fn place_by_loop(&self, id: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.call.id == id && matches!(call.progress, Progress::ByLoop(_)))
    }

    pub fn waits_for_slot_since(&self) -> Option<Moment> {
        self.slot_wanted_since
    }

    /// Takes the running tools, cancelled. Their calls have no result.
    pub fn drain(&mut self) -> Vec<Running> {
        self.cancel();
        let ended = |call: &mut Call| {
            if !call.progress.has_thread() {
                return None;
            }
            let ended = call.cut_off_result("not finished: polylogue exited");
            std::mem::replace(&mut call.progress, Progress::Answered(ended)).into_thread()
        };
        let of_turn = self.turn_hooks.running.take().and_then(HookRun::into_running);
        self.calls.iter_mut().filter_map(ended).chain(of_turn).collect()
    }

    pub fn take_running(&mut self) -> Vec<Running> {
        let of_turn = self.turn_hooks.running.take().and_then(HookRun::into_running);
        let calls = std::mem::take(&mut self.calls).into_iter();
        calls.filter_map(|call| call.progress.into_thread()).chain(of_turn).collect()
    }

    fn next(&self) -> Next {
        let is_answered = |call: &Call| matches!(call.progress, Progress::Answered(_));
        let Some(first) = self.calls.iter().position(|call| !is_answered(call)) else { return Next::Finished };
        if self.question.is_some() {
            // Its answer continues the calls.
            return self.next_beside_question();
        }
        if let Some(next) = self.next_of_host() {
            return next;
        }
        for (at, call) in self.calls.iter().enumerate().skip(first) {
            match &call.progress {
                Progress::Waiting(spec, _, Permission::NotNeeded) if spec.reach == Reach::Reads || at == first => {
                    return Next::Start(at);
                }
                Progress::Waiting(_, _, Permission::Given) if at == first => return Next::Start(at),
                Progress::Waiting(_, _, Permission::Wanted) | Progress::Objected(..) | Progress::Elicited(_)
                    if at == first =>
                {
                    return Next::Ask(at);
                }
                // A writing call waits for all before it, and all after it wait for it.
                Progress::Waiting(..) | Progress::Objected(..) | Progress::Elicited(_) => return Next::Wait,
                Progress::Answered(_) => {}
                _ if matches!(self.reach(at), Reach::Writes) => return Next::Wait,
                Progress::Checking(..)
                | Progress::Running(..)
                | Progress::Following(..)
                | Progress::ByLoop(_)
                | Progress::HostAsks(_) => {}
            }
        }
        Next::Wait
    }

    fn reach(&self, at: usize) -> Reach {
        tools::find(&self.calls[at].call.name).map_or(Reach::Writes, |spec| spec.reach)
    }

    /// Whether the person is asked about this call next.
    fn asks_at(&self, at: usize) -> bool {
        matches!(self.calls[at].progress, Progress::Waiting(_, _, Permission::Wanted) | Progress::Objected(..))
    }

    /// The next deadline of a waiting call or of cancelled tools.
    pub fn deadline(&self) -> Option<Moment> {
        let until = |call: &Call| if let Progress::ByLoop(until) = call.progress { until } else { None };
        self.calls.iter().filter_map(until).chain(self.stopping).min()
    }

    /// When what runs now was started.
    pub fn running_since(&self) -> Moment {
        let since = |call: &Call| if let Progress::Running(_, since) = call.progress { Some(since) } else { None };
        self.calls.iter().filter_map(since).min().unwrap_or(self.started)
    }

    /// The results that are not in the log yet.
    fn take_unstored(&mut self) -> Vec<Body> {
        let unstored = self.calls.iter_mut().filter(|call| !call.is_stored);
        let result = |call: &mut Call| {
            let Progress::Answered(result) = &call.progress else { return None };
            call.is_stored = true;
            Some(Body::ToolResult(result.clone()))
        };
        unstored.filter_map(result).collect()
    }

    /// Answers every call that no thread runs with this error.
    fn refuse_waiting(&mut self, message: &str) {
        self.question = None;
        self.slot_wanted_since = None;
        for call in &mut self.calls {
            if !call.progress.has_thread() && !matches!(call.progress, Progress::Answered(_)) {
                call.progress = Progress::Answered(call.unfinished_result(message));
            }
        }
    }
}

impl Call {
    /// The result of a call whose thread is not waited for: its own if only hooks were still running.
    fn cut_off_result(&self, message: &str) -> ToolResult {
        match &self.progress {
            Progress::Following(_, result) => hooks::cut_off((**result).clone()),
            _ => self.unfinished_result(message),
        }
    }

    /// The result of a call that did not run to its end, with the remarks of hooks.
    fn unfinished_result(&self, message: &str) -> ToolResult {
        let mut result = failure_result(&self.call, message);
        self.hooked.add_to(&mut result);
        result
    }
}

/// Adds a note to the result of a call. Commands end with how they ended, and stay so.
fn add_note(content: &mut String, note: &str) {
    let last = content.rfind('\n').map_or(0, |at| at + 1);
    match content[last..].starts_with('[') {
        true => content.insert_str(last, &format!("{note}\n")),
        false => content.push_str(&format!("\n{note}")),
    }
}

/// `title` is the call in one line; it may contain a path of any length.
fn call_chunk(call: &ToolCall, title: &str) -> Chunk {
    let ToolCall { id, name, arguments } = call.clone();
    Chunk::ToolCall { id, name, arguments, title: short_title(title) }
}

/// The chunks of a call that was answered without being run.
fn unrunnable(call: &Call) -> Vec<Chunk> {
    let Progress::Answered(result) = &call.progress else { return Vec::new() };
    let shown = (!call.is_shown).then(|| call_chunk(&call.call, &title_of(&call.call.name, &call.call.arguments)));
    shown.into_iter().chain([Chunk::ToolResult(result.clone())]).collect()
}

fn record_start(call: &ToolCall, arguments: &Value, is_asked: bool, agent: AgentId, context: &mut Context) {
    let call = || ToolCall { arguments: arguments.to_string(), ..call.clone() };
    context.outbox.record_event(agent, || RecordedEvent::ToolStarted { call: call(), is_asked });
}

fn failure_result(call: &ToolCall, message: &str) -> ToolResult {
    ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: message.to_owned(),
        is_error: true,
        duration: Duration::ZERO,
    }
}

impl Agent {
    /// Takes the calls of a reply. Invalid ones are answered at once with an error for the model.
    pub(super) fn plan_tools(&mut self, calls: Vec<ToolCall>, context: &mut Context) {
        (self.work.stopping, self.work.has_slot, self.work.started) = (None, true, context.now);
        if self.request_endpoint().is_host() {
            self.work.calls.clear();
            return calls.into_iter().for_each(|call| self.plan_host_call(call, context));
        }
        let plan = |call: ToolCall| {
            let Planned { progress, refusal } = self.plan(&call, context);
            Call { refusal, ..Call::new(call, progress, context.now) }
        };
        self.work.calls = calls.into_iter().map(plan).collect();
        (0..self.work.calls.len()).for_each(|at| self.show_unrunnable(at, context));
    }

    /// Shows that a call is carried out or refused.
    fn show_call(&mut self, at: usize, title: &str) {
        let call = &mut self.work.calls[at];
        if !std::mem::replace(&mut call.is_shown, true) {
            let chunk = call_chunk(&call.call, title);
            self.emit(&chunk);
        }
    }

    /// Shows a call that was answered without being run.
    fn show_unrunnable(&mut self, at: usize, context: &mut Context) {
        let Work { calls, repeats, .. } = &mut self.work;
        let call = &mut calls[at];
        let refusal = call.refusal.take();
        if let Progress::Answered(result) = &mut call.progress {
            repeats.add(&call.call, result);
        }
        unrunnable(call).iter().for_each(|chunk| self.emit(chunk));
        if let Some(refusal) = refusal {
            self.emit(&Chunk::Note(format!("{REFUSED_CALL}: {refusal}")));
            context.outbox.push(self.id(), Effect::Refused(refusal));
        }
    }

    /// The loop has a slot for the tool thread that this agent is to start.
    pub fn start_tools(&mut self, context: &mut Context) {
        if self.work.slot_wanted_since.take().is_some() {
            self.work.has_slot = true;
            self.advance_tools(context);
        }
    }

    /// Starts calls as far as possible without waiting.
    pub(super) fn advance_tools(&mut self, context: &mut Context) {
        self.start_calls(context);
        self.tell_host(context);
        self.work.has_slot = self.work.has_live_thread();
    }

    fn start_calls(&mut self, context: &mut Context) {
        loop {
            match self.work.next() {
                Next::Start(at) if self.work.question.is_some() && self.awaits_hooks(at) => return,
                Next::Start(at) | Next::Ask(at) if self.awaits_hooks(at) && self.work.has_slot => {
                    self.check_call(at, context);
                }
                Next::Start(at) | Next::Ask(at) if self.needs_slot(at) => {
                    self.work.slot_wanted_since.get_or_insert(context.now);
                    return;
                }
                Next::Start(at) => self.start_call(at, context),
                Next::Ask(at) => return self.ask(at, context),
                Next::Wait => return,
                Next::Finished => return self.finish_tools(context),
            }
        }
    }

    /// Whether this call needs a tool thread and there is no slot for one.
    fn needs_slot(&self, at: usize) -> bool {
        let Progress::Waiting(spec, ..) = &self.work.calls[at].progress else { return false };
        let has_thread = matches!(spec.run, Run::OnThread(_)) && !self.work.asks_at(at);
        (has_thread || self.awaits_hooks(at)) && !self.work.has_slot
    }

    /// Plans a call again, because earlier calls may have changed the target of its path. False if it is answered or needs
    /// a permission that it did not have.
    fn plan_again(&mut self, at: usize, before: Permission, context: &mut Context) -> bool {
        let call = self.work.calls[at].call.clone();
        let policy = if self.work.calls[at].is_restored { self.policy_of_restored() } else { self.policy() };
        let planned = self.plan_under(policy, &call, context);
        let relaxed = || self.plan_under(Policy::Yolo, &call, context);
        let Planned { mut progress, refusal } = self.after_hooks(&self.work.calls[at], planned, policy, relaxed);
        if let Progress::Waiting(spec, prepared, Permission::Wanted) = &progress
            && let Some(message) = missing_file(prepared, spec.reach)
        {
            progress = Progress::Answered(failure_result(&call, &message));
        }
        if self.work.calls[at].is_edited
            && let Progress::Waiting(_, _, permission @ Permission::NotNeeded) = &mut progress
        {
            *permission = Permission::Wanted;
        }
        let is_as_before = matches!(&progress, Progress::Waiting(_, _, permission) if *permission == before);
        let known = &mut self.work.calls[at];
        (known.progress, known.refusal) = (progress, refusal);
        self.show_unrunnable(at, context);
        is_as_before
    }

    fn start_call(&mut self, at: usize, context: &mut Context) {
        let Progress::Waiting(spec, _, permission) = &self.work.calls[at].progress else { return };
        let is_judged = matches!(spec.run, Run::OnThread(_)) || matches!(spec.judged, Judged::Mcp | Judged::Network);
        let is_free = *permission == Permission::NotNeeded && is_judged;
        if is_free && !self.plan_again(at, Permission::NotNeeded, context) {
            return;
        }
        let Progress::Waiting(_, prepared, _) = &self.work.calls[at].progress else { return };
        let title = prepared.question.title.clone();
        self.show_call(at, &title);
        let environment = self.environment_of_call(&self.work.calls[at].call.id);
        let call = &mut self.work.calls[at];
        let Progress::Waiting(spec, prepared, _) = &call.progress else { return };
        self.work.started = context.now;
        if let Run::InEventLoop(request) = spec.run {
            let request = request(&prepared.arguments);
            context.outbox.push(self.identity.id, Effect::ToolRequest(call.call.id.clone(), request));
            call.give_to_loop(context.now);
            return;
        }
        if spec.declaration.name == "bash"
            && environment.script.is_none()
            && tools::is_in_background(&prepared.arguments)
        {
            let (called, prepared) = (call.call.clone(), (**prepared).clone());
            return self.answer_started(at, called, prepared, is_free, context);
        }
        let wake = context.wake.clone();
        let started = Running::start(spec, call.call.clone(), (**prepared).clone(), environment, wake);
        if started.is_ok() {
            record_start(&call.call, &prepared.arguments, !is_free, self.identity.id, context);
        }
        call.progress = match started {
            Ok(running) => Progress::Running(running, context.now),
            Err(error) => {
                let result = failure_result(&call.call, &error.message);
                call.progress = Progress::Answered(result.clone());
                return self.emit(&Chunk::ToolResult(result));
            }
        };
    }

    /// Starts a command in the background, and answers its call.
    fn answer_started(&mut self, at: usize, call: ToolCall, prepared: Prepared, is_free: bool, context: &mut Context) {
        record_start(&call, &prepared.arguments, !is_free, self.identity.id, context);
        let started = self.start_in_background(call.clone(), prepared, context);
        let is_error = started.is_err();
        let mut result = ToolResult { is_error, ..failure_result(&call, &started.unwrap_or_else(|message| message)) };
        context.outbox.record_event(self.identity.id, || RecordedEvent::Tool(result.clone()));
        if self.work.calls[at].is_edited {
            questions::add_edit(&mut result, &call);
        }
        self.work.repeats.add(&call, &mut result);
        self.conclude(at, result, context);
    }

    /// The result of a call that the loop carried out. False if the call no longer waits for it.
    pub fn answer_call(&mut self, id: &str, result: Result<String, String>, context: &mut Context) -> bool {
        self.close_elicitation(id, context);
        let is_of_host = self.request_endpoint().is_host();
        let Some(at) = self.work.place_by_loop(id) else { return false };
        let Work { calls, repeats, .. } = &mut self.work;
        let call = &mut calls[at];
        let is_error = result.is_err();
        let content = result.unwrap_or_else(|message| message);
        let duration = context.now - call.asked_at;
        let mut result = ToolResult { is_error, duration, ..failure_result(&call.call, &content) };
        if !is_of_host || call.is_host_waiting {
            repeats.add(&call.call, &mut result);
        }
        context.outbox.trace_event(self.identity.id, "tool_result", content.len());
        self.conclude(at, result, context);
        if self.work.question.is_some() {
            // Stored so that it is not done again when a restart asks the open question again.
            context.outbox.push(self.identity.id, Effect::Persist(self.work.take_unstored()));
        }
        self.advance_tools(context);
        true
    }

    /// Sets the deadline of a call that the loop carries out.
    pub fn park_call(&mut self, id: &str, until: Moment) {
        if let Some(at) = self.work.place_by_loop(id) {
            self.work.calls[at].progress = Progress::ByLoop(Some(until));
        }
    }

    /// Whether the loop still has to answer this call.
    pub fn is_waiting_call(&self, id: &str) -> bool {
        self.work.is_waiting_call(id)
    }

    /// What the loop does for a call of this agent, for a person.
    pub fn work_of_loop(&self) -> &'static str {
        let by_loop = |call: &&Call| matches!(call.progress, Progress::ByLoop(_));
        match self.work.calls.iter().find(by_loop).map(|call| call.call.name.as_str()) {
            Some("web_fetch") => "fetching a page",
            Some("bash_output" | "bash_kill") => "waiting for a background command",
            Some("wait") => "waiting for mail",
            _ => "running a tool",
        }
    }

    /// Whether the answer to a call is awaited from an MCP server.
    pub fn waits_for_server(&self) -> bool {
        let is_it = |call: &Call| matches!(call.progress, Progress::ByLoop(_)) && call.call.name.starts_with(PREFIX);
        self.work.calls.iter().any(is_it)
    }

    /// Reports waiting calls whose deadline has passed, and gives up on tools that do not stop.
    pub(super) fn end_waits(&mut self, context: &mut Context) {
        if self.work.stopping.is_some_and(|until| until <= context.now) {
            return self.give_up_tools(context);
        }
        for call in &mut self.work.calls {
            if matches!(call.progress, Progress::ByLoop(Some(until)) if until <= context.now) {
                call.progress = Progress::ByLoop(None);
                context.outbox.push(self.identity.id, Effect::WaitOver(call.call.id.clone()));
            }
        }
    }

    /// A tool may hang where nothing can stop it (in the kernel, on a dead disk); the agent goes on without it.
    fn give_up_tools(&mut self, context: &mut Context) {
        for call in &mut self.work.calls {
            if call.progress.has_thread() {
                let ended = call.cut_off_result("this tool could not be stopped and may still be running");
                call.progress = Progress::Answered(ended);
            }
        }
        let message = "a tool could not be stopped and may still be running".to_owned();
        self.emit(&Chunk::Error { kind: ErrorKind::Tool.name().into(), message });
        self.finish_tools(context);
    }

    /// Collects the results of tool threads that have ended.
    pub fn poll_tools(&mut self, context: &mut Context) {
        if self.state != State::ExecutingTool {
            return;
        }
        let has_hooked = self.poll_hooks(context);
        let (mut results, mut warnings) = (Vec::new(), Vec::new());
        let Work { calls, repeats, .. } = &mut self.work;
        for (at, call) in calls.iter_mut().enumerate() {
            if !matches!(&call.progress, Progress::Running(running, _) if running.is_complete()) {
                continue;
            }
            let empty = Progress::Answered(failure_result(&call.call, "the result is being collected"));
            let Progress::Running(running, since) = std::mem::replace(&mut call.progress, empty) else { continue };
            warnings.extend(running.warnings());
            let changed = running.take_changed().map(Effect::FilesChanged);
            changed.into_iter().for_each(|effect| context.outbox.push(self.identity.id, effect));
            let mut result = ToolResult { duration: context.now - since, ..running.collect() };
            context.outbox.record_event(self.identity.id, || RecordedEvent::Tool(result.clone()));
            if call.is_edited {
                questions::add_edit(&mut result, &call.call);
            }
            repeats.add(&call.call, &mut result);
            results.push((at, result));
        }
        let is_any = has_hooked || !results.is_empty();
        if !is_any && self.work.calls.iter().any(|call| matches!(call.progress, Progress::Running(..))) {
            context.outbox.trace_event(self.identity.id, UNFINISHED, 0);
        }
        self.work.has_slot |= is_any;
        for (at, result) in results {
            context.outbox.trace_event(self.identity.id, "tool_result", result.content.len());
            self.conclude(at, result, context);
        }
        warnings.into_iter().for_each(|warning| self.emit(&Chunk::Note(warning)));
        if is_any {
            self.advance_tools(context);
        }
    }

    pub(super) fn interrupt_tools(&mut self, context: &mut Context) {
        if self.work.stopping.is_some() {
            return;
        }
        self.work.stopping = Some(context.now + STOP_TIMEOUT);
        let actor = if self.is_exiting { "polylogue exited" } else { "the user interrupted" };
        self.work.refuse_waiting(&format!("not run: {actor}"));
        self.work.cancel();
        if self.state == State::AwaitingApproval {
            self.enter(State::ExecutingTool, context);
        }
        if !self.work.has_live_thread() {
            self.finish_tools(context);
        }
    }

    /// Whether cancelled tools have not ended yet.
    pub fn is_stopping(&self) -> bool {
        self.work.stopping.is_some() && self.state == State::ExecutingTool
    }

    fn finish_tools(&mut self, context: &mut Context) {
        let results = self.work.take_unstored();
        self.tell_host(context);
        self.work.calls.clear();
        // Hooks that do not end are abandoned.
        self.work.turn_hooks.running = None;
        if self.work.stopping.take().is_some() {
            return self.settle_stopped(results, true, context);
        }
        context.outbox.push(self.id(), Effect::Persist(results));
        self.request_again(context);
    }
}
