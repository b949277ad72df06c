//! Plans a call before it runs: whether it is valid, whether the person is asked, and in which environment it runs.

use std::path::Path;
use std::sync::Arc;

use super::repeats::NOT_MADE;
use super::{Permission, Progress, failure_result};
use crate::agent::{Agent, Context};
use crate::domain::approval::Policy;
use crate::domain::call_title::short_title;
use crate::domain::flow::ToolRequest;
use crate::domain::tool::{Reach, ScriptedTools, ToolCall};
use crate::policy::Verdict;
use crate::tools::snapshots::Recorder;
use crate::tools::{Environment, Judge, Judged, PathVerdict, Prepared, Run, ToolSpec, visible};

/// A call before it runs.
pub(super) struct Planned {
    pub progress: Progress,
    /// The message for the user about a call that is refused because the user may not be asked.
    pub refusal: Option<String>,
}

impl From<Progress> for Planned {
    fn from(progress: Progress) -> Self {
        Self { progress, refusal: None }
    }
}

/// In a replay, what was asked does not depend on the rules and the sandbox of this machine.
fn asked_as_scripted(mut planned: Planned, script: &dyn ScriptedTools) -> Planned {
    if let Progress::Waiting(spec, prepared, permission) = &mut planned.progress
        && let Some(asks) = script.asks(spec.declaration.name, &prepared.arguments)
    {
        *permission = if asks { Permission::Wanted } else { Permission::NotNeeded };
    }
    planned
}

impl Agent {
    /// The request of a call by a program that speaks for this agent. It is judged like a call of its model, without questions.
    /// Whether another agent may be changed is for the loop to say.
    ///
    /// # Errors
    /// The call is invalid or refused, which is said to the program.
    pub fn judge_for_client(&self, name: &str, arguments: &str, context: &Context) -> Result<ToolRequest, String> {
        let environment = self.tool_environment();
        let (spec, prepared) = environment.prepare(name, arguments)?;
        let Run::InEventLoop(request) = spec.run else { return Err(format!("{name} is not called by clients")) };
        match self.judge(&environment, self.policy(), context).judge(spec, &prepared).verdict {
            Verdict::Free => Ok(request(&prepared.arguments)),
            Verdict::Ask(_) | Verdict::Unasked(_) if is_asked_by_loop(spec) => Ok(request(&prepared.arguments)),
            Verdict::Ask(reason) | Verdict::Unasked(reason) => {
                Err(format!("refused: it needs approval ({}), and no question is asked", visible(&reason)))
            }
            Verdict::Refuse(reason) => Err(visible(&reason)),
        }
    }
}

/// Whether another agent is concerned: then the loop asks the question.
fn is_asked_by_loop(spec: &ToolSpec) -> bool {
    matches!(spec.run, Run::InEventLoop(_)) && spec.judged == Judged::Change
}

fn plan(call: &ToolCall, judge: &Judge<'_>) -> Planned {
    let answered = |message: &str| Planned::from(Progress::Answered(failure_result(call, message)));
    let (spec, mut prepared) = match judge.environment.prepare(&call.name, &call.arguments) {
        Ok((spec, prepared)) => (spec, Box::new(prepared)),
        Err(message) => return answered(&message),
    };
    let judged = judge.judge(spec, &prepared);
    match &judged.verdict {
        Verdict::Free => Progress::Waiting(spec, prepared, Permission::NotNeeded).into(),
        Verdict::Ask(_) | Verdict::Unasked(_) if is_asked_by_loop(spec) => {
            Progress::Waiting(spec, prepared, Permission::NotNeeded).into()
        }
        Verdict::Ask(reason) => {
            prepared.question.add_reason(reason);
            prepared.question.ways = judged.ways;
            Progress::Waiting(spec, prepared, Permission::Wanted).into()
        }
        Verdict::Unasked(reason) => {
            let reason = visible(reason);
            let title = short_title(&prepared.question.title);
            let refusal = Some(format!("{title} ({reason}){}", judged.ways.remedy("to allow it:")));
            let remedy = judged.ways.remedy("the user can allow it with");
            let message =
                format!("refused: it needs approval ({reason}), and no question is asked (policy never){remedy}");
            Planned { refusal, ..answered(&message) }
        }
        Verdict::Refuse(reason) => answered(reason),
    }
}

/// The person is asked about a repeated call; where no question may be asked, it is refused.
fn object_to(call: &ToolCall, planned: Planned, policy: Policy, reason: &str) -> Planned {
    match planned.progress {
        Progress::Waiting(..) if policy == Policy::Never => {
            let message = format!("{NOT_MADE}{reason}, and no question is asked (policy never); do something else");
            Planned { refusal: None, progress: Progress::Answered(failure_result(call, &message)) }
        }
        Progress::Waiting(spec, mut prepared, _) => {
            prepared.question.add_reason(reason);
            Progress::Waiting(spec, prepared, Permission::Wanted).into()
        }
        progress => Planned { progress, ..planned },
    }
}

/// The directory outside of the workspace that the call is about.
pub(super) fn outside_directory(prepared: &Prepared) -> Option<&Path> {
    match &prepared.question.file.as_ref()?.verdict {
        PathVerdict::AskOutside(directory) => Some(directory),
        _ => None,
    }
}

/// A file outside of the workspace that a call would read and that does not exist: not worth a question.
pub(super) fn missing_file(prepared: &Prepared, reach: Reach) -> Option<String> {
    let file =
        prepared.question.file.as_ref().filter(|_| reach == Reach::Reads && outside_directory(prepared).is_some())?;
    // A path of another machine is not looked up here.
    let file = Some(file).filter(|file| file.path.is_absolute())?;
    file.path.symlink_metadata().is_err().then(|| format!("{}: does not exist", file.path.display()))
}

impl Agent {
    pub(super) fn plan(&self, call: &ToolCall, context: &Context) -> Planned {
        self.plan_under(self.policy(), call, context)
    }

    /// Whether this call would run without a question.
    pub fn is_free_call(&self, call: &ToolCall, context: &Context) -> bool {
        matches!(self.plan(call, context).progress, Progress::Waiting(_, _, Permission::NotNeeded))
    }

    pub(super) fn plan_under(&self, policy: Policy, call: &ToolCall, context: &Context) -> Planned {
        let environment = self.tool_environment();
        let judge = self.judge(&environment, policy, context);
        let planned = match &self.inputs.environment.script {
            Some(script) => asked_as_scripted(plan(call, &judge), script.as_ref()),
            None => plan(call, &judge),
        };
        match self.work.repeats.objection(call) {
            Some(reason) => object_to(call, planned, policy, &reason),
            None => planned,
        }
    }

    pub(super) fn judge<'a>(
        &'a self,
        environment: &'a Environment,
        policy: Policy,
        context: &'a Context<'_>,
    ) -> Judge<'a> {
        Judge {
            environment,
            policy,
            rules: &self.rules,
            session_rules: context.session_rules,
            allowed: &self.allowed_directories,
            endpoint: &self.inputs.endpoint,
        }
    }

    /// The environment of a call, or of a turn of a host; its file changes are recorded.
    pub fn environment_of_call(&self, call: &str) -> Arc<Environment> {
        let mut environment = self.tool_environment();
        if let Some(snapshots) = environment.snapshots.clone() {
            let recorder = Recorder { snapshots, agent: self.id(), call: call.to_owned() };
            Arc::make_mut(&mut environment).recorder = Some(recorder);
        }
        environment
    }

    /// The environment with the files that this agent has read, and what it is refused besides.
    pub(super) fn tool_environment(&self) -> Arc<Environment> {
        let (known_files, mut shared) = (Arc::clone(&self.known_files), (*self.inputs.environment).clone());
        if !self.rules.deny.is_empty() {
            Arc::make_mut(&mut shared.rules).deny.extend(self.rules.deny.iter().cloned());
        }
        if self.is_unrestricted() {
            shared.sandbox = shared.sandbox.lifted();
        }
        let agent = Some(self.id());
        Arc::new(Environment { agent, known_files, networks: self.background.networks.clone(), ..shared })
    }
}
