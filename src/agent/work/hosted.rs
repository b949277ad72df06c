//! The calls of a host. Calls that it carries out itself are shown and stored; if it asks first, they are judged like those
//! of a model. Calls that it makes to our tools are treated like those of a model, but do not wait for other calls.

use std::sync::Arc;

use super::plan::Planned;
use super::{Call, Next, Permission, Progress, Work};
use crate::agent::{Agent, Context, Effect, Role, State};
use crate::domain::approval::Policy;
use crate::domain::call_title::title_of;
use crate::domain::chunk::Chunk;
use crate::domain::message::Body;
use crate::domain::tool::ToolCall;
use crate::policy::Verdict;
use crate::tools::file_versions::KnownFiles;
use crate::tools::{Judgement, Question, Run, visible};

const TURN_ENDED: &str = "the turn of the host ended before the call";
/// Prefix of the ids of calls that hosts make to our tools. A host's own call with this prefix is ignored.
pub const OUR_TOOL_CALL_PREFIX: &str = "polylogue:";

/// A host that asks before it carries out a call.
pub struct HostAsks {
    /// The call as one of our tools would be called.
    pub call: ToolCall,
    /// In the words of the host.
    pub title: String,
    /// The files that it is about, each as a call that reads or writes it.
    pub files: Vec<ToolCall>,
}

/// The answer to a host that asks before it carries out a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostVerdict {
    Allowed,
    Refused,
    /// The person is asked; [`Effect::HostAnswered`] follows.
    Asked,
}

impl Work {
    /// The next call to ask about or start for a host. It does not wait for calls that the host carries out.
    pub(super) fn next_of_host(&self) -> Option<Next> {
        self.calls.iter().enumerate().find_map(|(at, call)| match &call.progress {
            Progress::HostAsks(_) => Some(Next::Ask(at)),
            Progress::Waiting(_, _, Permission::Wanted) | Progress::Objected(..) if call.is_host_waiting => {
                Some(Next::Ask(at))
            }
            Progress::Waiting(..) if call.is_host_waiting => Some(Next::Start(at)),
            _ => None,
        })
    }

    /// The next call of our tools that can start while a question is open: it needs neither approval nor a thread.
    pub(super) fn next_beside_question(&self) -> Next {
        let may_start = |call: &Call| match &call.progress {
            Progress::Waiting(spec, _, Permission::NotNeeded) => {
                call.is_host_waiting && matches!(spec.run, Run::InEventLoop(_))
            }
            _ => false,
        };
        self.calls.iter().position(may_start).map_or(Next::Wait, Next::Start)
    }
}

impl Agent {
    /// Whether calls are carried out or asked about.
    pub fn carries_out_calls(&self) -> bool {
        self.state.is_at_calls() && !self.work.calls.is_empty()
    }

    /// Adds a call that the host has begun while others run. False if none runs or the agent is stopping.
    pub fn add_host_call(&mut self, call: ToolCall, context: &mut Context) -> bool {
        if !self.carries_out_calls() || self.is_stopping() {
            return false;
        }
        context.outbox.push(self.id(), Effect::Persist(vec![Body::ToolCall(call.clone())]));
        self.plan_host_call(call, context);
        self.advance_tools(context);
        true
    }

    /// Adds a call that the host carries out itself, or one of our tools that it has called.
    pub(super) fn plan_host_call(&mut self, call: ToolCall, context: &mut Context) {
        let at = self.work.calls.len();
        if call.id.starts_with(OUR_TOOL_CALL_PREFIX) {
            let Planned { progress, refusal } = self.plan(&call, context);
            self.work.calls.push(Call { refusal, is_host_waiting: true, ..Call::new(call, progress, context.now) });
            return self.show_unrunnable(at, context);
        }
        let title = title_of(&call.name, &call.arguments);
        self.work.calls.push(Call::new(call, Progress::ByLoop(None), context.now));
        self.show_call(at, &title);
    }

    /// Tells the host the results of calls of our tools, once.
    pub(super) fn tell_host(&mut self, context: &mut Context) {
        for call in &mut self.work.calls {
            if let (Progress::Answered(result), true) = (&call.progress, call.is_host_waiting) {
                call.is_host_waiting = false;
                context.outbox.push(self.identity.id, Effect::OurToolResult(result.clone()));
            }
        }
    }

    /// The host does not wait any more for these calls of our tools. What was not started is refused.
    pub fn refuse_host_calls(&mut self, why: &str, is_refused: impl Fn(&str) -> bool, context: &mut Context) {
        for at in 0..self.work.calls.len() {
            let call = &self.work.calls[at];
            let is_open = matches!(call.progress, Progress::Waiting(..) | Progress::Objected(..));
            if !call.is_host_waiting || !is_open || !is_refused(&call.call.id) {
                continue;
            }
            if self.work.question.take_if(|pending| pending.call == at).is_some() {
                self.enter(State::ExecutingTool, context);
            }
            let result = self.work.calls[at].unfinished_result(why);
            self.show_result(at, result);
        }
        if self.carries_out_calls() {
            self.advance_tools(context);
        }
    }

    /// A host asks permission for a call, which may say more than when it was added.
    pub fn ask_for_host(&mut self, asks: &HostAsks, context: &mut Context) -> HostVerdict {
        let Some(at) = self.work.place_by_loop(&asks.call.id) else { return HostVerdict::Refused };
        match self.judge_host_call(asks, context) {
            Judged::Allowed => HostVerdict::Allowed,
            Judged::Refused(why) => {
                let title = visible(&asks.title);
                self.emit(&Chunk::Note(format!("refused {title}: {why}")));
                context.outbox.push(self.id(), Effect::Refused(format!("{title} ({why})")));
                HostVerdict::Refused
            }
            Judged::Ask(question) => {
                self.work.calls[at].progress = Progress::HostAsks(question);
                self.advance_tools(context);
                HostVerdict::Asked
            }
        }
    }

    fn judge_host_call(&self, asks: &HostAsks, context: &Context) -> Judged {
        // The questions of a summary or a title are not shown.
        if self.role == Role::Summary || !self.inputs.has_tools {
            return Judged::Refused("this agent has no tools".into());
        }
        let mut environment = self.tool_environment();
        // The host has read what it edits.
        Arc::make_mut(&mut environment).known_files = Arc::new(KnownFiles::learning());
        let judge = self.judge(&environment, self.policy(), context);
        let verdict = |call: &ToolCall| {
            let (spec, prepared) = environment.prepare(&call.name, &call.arguments).ok()?;
            Some((judge.judge(spec, &prepared), prepared))
        };
        // Deny rules hold for each file, also where the call itself corresponds to none of our tools.
        for file in &asks.files {
            if let Some((Judgement { verdict: Verdict::Refuse(why), .. }, _)) = verdict(file) {
                return Judged::Refused(visible(&why));
            }
        }
        let is_one = asks.files.len() < 2 || asks.call.name == "multi_edit";
        let Some((judged, mut prepared)) = verdict(&asks.call).filter(|_| is_one && asks.call.name != "tool") else {
            return judge_unknown(self.policy(), asks);
        };
        match judged.verdict {
            Verdict::Free => Judged::Allowed,
            Verdict::Ask(reason) => {
                self.say_who_runs(&mut prepared.question);
                prepared.question.add_reason(&reason);
                prepared.question.ways = judged.ways;
                Judged::Ask(Box::new(prepared.question))
            }
            Verdict::Unasked(reason) | Verdict::Refuse(reason) => Judged::Refused(visible(&reason)),
        }
    }

    /// Our limits do not hold for a command that the host runs.
    fn say_who_runs(&self, question: &mut Question) {
        let is_ours = |line: &String| line.starts_with("time limit: ") || line.starts_with("sandbox: ");
        if question.detail.iter().any(is_ours) {
            question.detail.retain(|line| !is_ours(line));
            question.detail.push(format!("{} runs it itself, in its own process", self.request_endpoint().model));
        }
    }

    /// The person has answered the question of a host. Refused calls end when the host says so.
    pub(super) fn answer_host(&mut self, at: usize, answer: Result<(), &str>, context: &mut Context) {
        let call = &mut self.work.calls[at];
        call.progress = Progress::ByLoop(None);
        let (call, allowed) = (call.call.id.clone(), answer.is_ok());
        if let Err(reason) = answer {
            self.emit(&Chunk::Note(reason.to_owned()));
        }
        context.outbox.push(self.id(), Effect::HostAnswered { call, allowed });
    }

    /// The turn of a host has ended, as it should or not: its calls have no other results.
    pub fn end_host_calls(&mut self, is_well: bool, context: &mut Context) {
        self.refuse_host_calls(TURN_ENDED, |_| true, context);
        let open: Vec<(String, bool)> = self.work.calls.iter().filter_map(open_call).collect();
        for (id, is_host_waiting) in &open {
            let result = if is_well && !*is_host_waiting { Ok(String::new()) } else { Err(TURN_ENDED.to_owned()) };
            self.answer_call(id, result, context);
        }
    }
}

/// A call without a result, and whether the host waits for our answer to it.
fn open_call(call: &Call) -> Option<(String, bool)> {
    let is_open = matches!(call.progress, Progress::ByLoop(_) | Progress::HostAsks(_));
    is_open.then(|| (call.call.id.clone(), call.is_host_waiting))
}

enum Judged {
    Allowed,
    Refused(String),
    Ask(Box<Question>),
}

/// A call that none of our tools corresponds to: its title and its arguments are shown.
fn judge_unknown(policy: Policy, asks: &HostAsks) -> Judged {
    match policy {
        Policy::Yolo => Judged::Allowed,
        Policy::Plan | Policy::Never => {
            Judged::Refused(format!("it needs approval, and the policy is {}", policy.name()))
        }
        Policy::Ask | Policy::Auto => {
            let detail = asks.call.arguments.lines().map(visible).collect();
            Judged::Ask(Box::new(Question::new(visible(&asks.title), detail)))
        }
    }
}
