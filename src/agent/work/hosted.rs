//! The calls of a host. It carries them out itself; here they are shown, stored and, where the host asks first, judged and
//! asked about like the calls of a model.

use std::sync::Arc;

use super::{Call, Progress, Work};
use crate::agent::{Agent, Context, Effect, Role, State};
use crate::domain::approval::Policy;
use crate::domain::call_title::title_of;
use crate::domain::chunk::Chunk;
use crate::domain::message::Body;
use crate::domain::tool::ToolCall;
use crate::policy::Verdict;
use crate::tools::file_versions::KnownFiles;
use crate::tools::{Judgement, Question, visible};

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
    /// The call about which a host has asked and the person was not asked yet.
    pub(super) fn next_of_host(&self) -> Option<usize> {
        self.calls.iter().position(|call| matches!(call.progress, Progress::HostAsks(_)))
    }
}

impl Agent {
    /// Whether calls are carried out or asked about.
    pub fn carries_out_calls(&self) -> bool {
        matches!(self.state, State::ExecutingTool | State::AwaitingApproval) && !self.work.calls.is_empty()
    }

    /// Adds a call that the host has begun while others run. False if none runs or the agent is stopping.
    pub fn add_host_call(&mut self, call: ToolCall, context: &mut Context) -> bool {
        if !self.carries_out_calls() || self.is_stopping() {
            return false;
        }
        context.outbox.push(self.id(), Effect::Persist(vec![Body::ToolCall(call.clone())]));
        self.work.calls.push(Call::new(call, Progress::ByLoop(None), context.now));
        self.show_host_call(self.work.calls.len() - 1);
        true
    }

    pub(super) fn show_host_call(&mut self, at: usize) {
        let call = &self.work.calls[at].call;
        let title = title_of(&call.name, &call.arguments);
        self.show_call(at, &title);
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
        let open: Vec<String> = self.work.calls.iter().filter_map(open_call).collect();
        for id in &open {
            let result = if is_well { Ok(String::new()) } else { Err("the host ended before the call".to_owned()) };
            self.answer_call(id, result, context);
        }
    }
}

fn open_call(call: &Call) -> Option<String> {
    matches!(call.progress, Progress::ByLoop(_) | Progress::HostAsks(_)).then(|| call.call.id.clone())
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
