//! The questions about tool calls: what a person is shown, and what the answer does.

use std::path::Path;

use crate::base::digest::{Digest as _, Sha256};

use super::plan::outside_directory;
use super::{Permission, Progress, add_note, elicited, failure_result};
use crate::agent::{Agent, Context, Effect, State};
use crate::base::clock::Moment;
use crate::base::text::{self, hex};
use crate::domain::change::Decision;
use crate::domain::chunk::Chunk;
use crate::domain::diff::DiffColors;
use crate::domain::frame::StyledLine;
use crate::domain::tool::{Reach, ToolCall, ToolResult};
use crate::tools::{self, Question, Run};

/// Begins the result of a call that the person has refused.
pub(in crate::agent) const DENIED: &str = "the user denied this call";
/// The note about a call that a person allowed without reading its question to the end.
pub(super) const UNREAD: &str = "the user allowed this call without reading all of it";
/// The longest part of an edited text that the result repeats.
const LONGEST_EDIT: usize = 4_000;

/// A tool call that needs approval.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingQuestion {
    /// Identifies the question; an answer is bound to it.
    pub number: u64,
    pub question: Question,
    /// Its detail as it is drawn.
    pub lines: Vec<StyledLine>,
    /// Of the code in its diffs.
    pub colors: Vec<DiffColors>,
    /// How many lines have their colours.
    pub(super) colored: usize,
    pub tool: String,
    pub since: Moment,
    /// An earlier process asked it before.
    pub is_restored: bool,
    /// The command or the text of the call, which a person may change before it runs.
    pub editable: Option<String>,
    pub(super) call: usize,
}

impl PendingQuestion {
    /// The command, if it is the first line of the detail and the title has it whole.
    pub fn command_in_title(&self) -> Option<&str> {
        let first = self.question.detail.first()?;
        let title = self.question.title.strip_prefix(&self.tool)?.strip_prefix(": ")?;
        Some(title).filter(|title| title == first)
    }

    /// SHA-256 of what a person was shown, in hexadecimal, shortened to 16 digits.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for line in [&self.tool, &self.question.title].into_iter().chain(&self.question.detail) {
            hash.update(line.len().to_le_bytes());
            hash.update(line);
        }
        hex(&hash.finalize()[..8])
    }
}

/// Why the loop does not carry out a call at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Objection {
    pub question: Question,
    /// The message for the model if the person says no.
    pub refusal: String,
}

/// Tells the model that the person changed the call.
pub(super) fn add_edit(result: &mut ToolResult, call: &ToolCall) {
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
    let text = tools::editable_text(&call.name, &arguments).unwrap_or_default();
    let shown = text::shortened(&text, LONGEST_EDIT);
    let note = format!("[the user changed this call before it ran; it ran as: {shown}]");
    add_note(&mut result.content, &note);
}

impl Agent {
    pub(super) fn ask(&mut self, at: usize, context: &mut Context) {
        if !matches!(
            self.work.calls[at].progress,
            Progress::Objected(..) | Progress::Elicited(_) | Progress::HostAsks(_)
        ) && !self.plan_again(at, Permission::Wanted, context)
        {
            return self.start_calls(context);
        }
        self.put_question(at, false, context);
    }

    pub(super) fn put_question(&mut self, at: usize, is_restored: bool, context: &mut Context) {
        let question = match &self.work.calls[at].progress {
            Progress::Waiting(_, prepared, _) => prepared.question.clone(),
            Progress::Objected(_, objected) => objected.1.question.clone(),
            Progress::Elicited(asked) => elicited::question(asked),
            Progress::HostAsks(question) => (**question).clone(),
            _ => return,
        };
        self.work.calls[at].is_unread = false;
        self.work.questions += 1;
        let (number, title, detail) = (self.work.questions, question.title.clone(), question.detail.clone());
        let tool = self.work.calls[at].call.name.clone();
        let editable = match &self.work.calls[at].progress {
            Progress::Waiting(spec, prepared, _) => tools::editable_text(spec.declaration.name, &prepared.arguments),
            Progress::Elicited(asked) => asked.text(),
            _ => None,
        };
        self.emit(&Chunk::Question { number, title, detail });
        let (colors, since) = (question.diff_colors(), context.now);
        let lines = question.lines(&colors);
        let pending = PendingQuestion {
            number,
            question,
            lines,
            colors,
            colored: 0,
            tool,
            since,
            is_restored,
            editable,
            call: at,
        };
        self.work.question = Some(pending);
        self.enter(State::AwaitingApproval, context);
        let results = self.work.take_unstored();
        context.outbox.push(self.id(), Effect::Question(results));
    }

    /// The call that the open question is about.
    pub fn asking_call(&self) -> Option<&ToolCall> {
        self.question().map(|pending| &self.work.calls[pending.call].call)
    }

    /// The user's answer. False if the question is no longer open.
    pub fn answer(&mut self, number: u64, decision: &Decision, context: &mut Context) -> bool {
        match decision {
            Decision::AllowUnread => {
                let asked = self.question().filter(|pending| pending.number == number).map(|pending| pending.call);
                if let Some(at) = asked {
                    self.work.calls[at].is_unread = true;
                    self.emit(&Chunk::Note(UNREAD.into()));
                }
                self.decide(number, Ok(()), context)
            }
            Decision::Allow | Decision::Always(_) | Decision::Rules(..) => self.decide(number, Ok(()), context),
            Decision::Edit(text) => self.edit_call(number, text, context).is_ok(),
            Decision::Deny(None) | Decision::DenyAlways(None) => self.decide(number, Err(DENIED), context),
            Decision::Deny(Some(reason)) | Decision::DenyAlways(Some(reason)) => {
                self.decide(number, Err(&format!("{DENIED}: {reason}")), context)
            }
        }
    }

    /// Changes the command or the text of the call that the question is about, and asks about it again. If the
    /// call cannot be made like this, the question stays open.
    pub fn edit_call(&mut self, number: u64, text: &str, context: &mut Context) -> Result<(), String> {
        let Some(at) = self.question().filter(|pending| pending.number == number).map(|pending| pending.call) else {
            return Ok(());
        };
        let known = &self.work.calls[at];
        if matches!(known.progress, Progress::Elicited(_)) {
            return self.edit_elicitation(at, text, context);
        }
        let Progress::Waiting(spec, prepared, _) = &known.progress else { return Ok(()) };
        let arguments = tools::with_text(spec.declaration.name, &prepared.arguments, text);
        let arguments = arguments.ok_or("this call has nothing to edit")?.to_string();
        let call = ToolCall { arguments, ..known.call.clone() };
        let policy = if known.is_restored { self.policy_of_restored() } else { self.policy() };
        if let Progress::Answered(refused) = self.plan_under(policy, &call, context).progress {
            return Err(refused.content);
        }
        self.work.question = None;
        let known = &mut self.work.calls[at];
        (known.call, known.is_edited) = (call, true);
        self.emit(&Chunk::Note("the call was edited: this is a new question".into()));
        self.enter(State::ExecutingTool, context);
        self.ask(at, context);
        Ok(())
    }

    /// Allows the call that the question is about, or answers it with the reason for the refusal.
    pub fn decide(&mut self, number: u64, decision: Result<(), &str>, context: &mut Context) -> bool {
        if self.state != State::AwaitingApproval
            || self.work.question.as_ref().is_none_or(|question| question.number != number)
        {
            return false;
        }
        let pending = self.work.question.take().expect("there is a question");
        // First of all: once an answer is stored, it is never asked for again.
        self.enter(State::ExecutingTool, context);
        match decision {
            decision if matches!(self.work.calls[pending.call].progress, Progress::Objected(..)) => {
                self.decide_objection(pending.call, decision, context);
            }
            decision if matches!(self.work.calls[pending.call].progress, Progress::Elicited(_)) => {
                self.answer_elicitation(pending.call, decision.is_ok(), context);
            }
            decision if matches!(self.work.calls[pending.call].progress, Progress::HostAsks(_)) => {
                self.answer_host(pending.call, decision, context);
            }
            Err(reason) => {
                let call = &mut self.work.calls[pending.call];
                let result = failure_result(&call.call, reason);
                call.progress = Progress::Answered(result.clone());
                self.show_call(pending.call, &pending.question.title);
                self.emit(&Chunk::ToolResult(result));
            }
            Ok(()) => self.allow(&pending, context),
        }
        self.advance_tools(context);
        true
    }

    /// Carries out or answers a call to which the loop objected.
    fn decide_objection(&mut self, at: usize, decision: Result<(), &str>, context: &mut Context) {
        let call = &mut self.work.calls[at];
        let Progress::Objected(spec, objected) = &call.progress else { return };
        let (prepared, objection) = &**objected;
        let id = call.call.id.clone();
        let effect = Effect::Decided { call: id.clone(), allowed: decision.is_ok() };
        match (decision, spec.run) {
            (Ok(()), Run::InEventLoop(request)) => {
                let request = request(&prepared.arguments);
                call.give_to_loop(context.now);
                context.outbox.push(self.identity.id, effect);
                context.outbox.push(self.identity.id, Effect::ToolRequest(id, request));
            }
            (decision, _) => {
                let reason = decision.err().unwrap_or_default();
                let result = failure_result(&call.call, &format!("{reason}: {}", objection.refusal));
                call.progress = Progress::Answered(result.clone());
                self.emit(&Chunk::ToolResult(result));
                context.outbox.push(self.identity.id, effect);
            }
        }
    }

    /// Closes the loop's question about this call without an answer: the loop takes the call up again.
    pub fn withdraw_question(&mut self, id: &str, context: &mut Context) {
        let is_asked = |at: usize| self.work.calls[at].call.id == id;
        if !self.work.question.as_ref().is_some_and(|question| is_asked(question.call)) {
            return;
        }
        let Some(pending) = self.work.question.take() else { return };
        let call = &mut self.work.calls[pending.call];
        let Progress::Objected(spec, objected) = &call.progress else { return };
        let Run::InEventLoop(request) = spec.run else { return };
        let request = Effect::ToolRequest(id.to_owned(), request(&objected.0.arguments));
        call.give_to_loop(context.now);
        self.enter(State::ExecutingTool, context);
        context.outbox.push(self.id(), request);
        self.emit(&Chunk::Note("the limit was changed: the question about it is closed".into()));
    }

    /// Allows the call if it would still do what the question showed; otherwise it is asked again.
    fn allow(&mut self, pending: &PendingQuestion, context: &mut Context) {
        if !self.plan_again(pending.call, Permission::Wanted, context) {
            return;
        }
        let Progress::Waiting(spec, prepared, permission) = &mut self.work.calls[pending.call].progress else { return };
        if prepared.question != pending.question {
            let note = "the effect of the call changed while the question was open: this is a new question";
            return self.emit(&Chunk::Note(note.into()));
        }
        *permission = Permission::Given;
        // The person wants it: the count restarts.
        self.work.repeats.forget();
        if spec.reach == Reach::Reads
            && let Some(directory) = outside_directory(prepared).map(Path::to_path_buf)
        {
            self.allowed_directories.allow(directory);
        }
    }

    /// Has the person asked before the loop carries out a call. False if the call no longer waits for it.
    pub fn object_to_call(&mut self, id: &str, objection: Objection, context: &mut Context) -> bool {
        let Some(at) = self.work.place_by_loop(id) else { return false };
        self.work.calls[at].progress = match self.plan(&self.work.calls[at].call, context).progress {
            Progress::Waiting(spec, prepared, _) => Progress::Objected(spec, Box::new((*prepared, objection))),
            answered => answered,
        };
        self.advance_tools(context);
        true
    }
}
