//! Runs hooks: the process in the sandbox, its JSON input, and what its output means.
//!
//! A hook runs on a thread of its own, as a tool does, with a time limit and bounded output. It cannot give an agent
//! permissions that the person did not give: a project's hook can only deny, ask and add context, and even if one of
//! the person allows a call, deny and ask rules still apply.

mod answer;
mod process;
pub mod scripts;

use std::sync::{Arc, OnceLock};

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcherBuilder;
use serde_json::{Value, json};

use super::bash::protected_changes;
use super::{Environment, Job, Judged, Output, Running, ToolSpec};
use crate::domain::approval::Policy;
use crate::domain::hook::{Hook, HookEvent, claude_name};
use crate::domain::skill::Author;
use crate::domain::tool::ToolCall;
use answer::Answer;
use process::Failure;

/// In bytes; a larger one matches nothing.
const MAX_MATCHER: usize = 1_000;
/// Bytes of a regular expression as it is compiled.
const MAX_COMPILED: usize = 1 << 20;

/// The input of hooks.
#[derive(Debug, Clone)]
pub struct Occasion {
    /// The id of the agent.
    pub agent: String,
    pub policy: Policy,
    pub event: HookEvent,
    /// The tool call that it is about.
    pub call: Option<ToolCall>,
    /// More fields of the input.
    pub more: Vec<(&'static str, Value)>,
}

/// The combined result of the hooks of one occasion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOutcome {
    pub decision: Option<HookDecision>,
    /// Other arguments for the call.
    pub updated: Option<Value>,
    /// For the model.
    pub context: Vec<String>,
    /// For the person, one line each.
    pub notes: Vec<String>,
}

/// The decision about a call, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookDecision {
    /// Not asked about.
    Allow,
    Ask(String),
    /// Not carried out; at the end of a turn: the model continues.
    Deny(String),
}

/// Hooks that run, or have ended and were not collected.
pub struct HookRun {
    /// `None`: there was no thread for them, which is their outcome.
    running: Option<Running>,
    outcome: Arc<OnceLock<HookOutcome>>,
}

impl HookRun {
    /// Starts the hooks for an occasion, one after the other. `wake` is called once all have ended.
    pub fn start(
        hooks: Vec<Hook>,
        occasion: Occasion,
        env: Arc<Environment>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (hooks, outcome) = (Arc::new(hooks), Arc::new(OnceLock::new()));
        let (of_thread, slot) = (Arc::clone(&hooks), Arc::clone(&outcome));
        let call = ToolCall { id: String::new(), name: "hook".into(), arguments: String::new() };
        let work = move |job: &Job| {
            // Nothing else sets it.
            let _ = slot.set(run(&of_thread, occasion, &env, job));
            Output::success("")
        };
        let running = Running::spawn(call, work, wake.clone()).map_err(|error| {
            let mut failed = HookOutcome::default();
            hooks.iter().for_each(|hook| failed.add_failure(hook, Failure::NotStarted(error.message.clone())));
            let _ = outcome.set(failed);
            wake();
        });
        Self { running: running.ok(), outcome }
    }

    pub fn is_complete(&self) -> bool {
        self.running.as_ref().is_none_or(Running::is_complete)
    }

    pub fn cancel(&self) {
        self.running.iter().for_each(Running::cancel);
    }

    /// The result of the hooks. If their thread has failed, nothing may happen.
    ///
    /// # Panics
    /// If called before [`HookRun::is_complete`].
    pub fn collect(self) -> HookOutcome {
        self.running.map(Running::collect);
        let failed = || HookOutcome {
            decision: Some(HookDecision::Deny("internal error in a hook".into())),
            ..HookOutcome::default()
        };
        Arc::into_inner(self.outcome).and_then(OnceLock::into_inner).unwrap_or_else(failed)
    }

    /// The thread that must be joined when it has ended.
    pub fn into_running(self) -> Option<Running> {
        self.running
    }
}

/// The hooks for an event in this environment. `subject` is what their matchers are compared with, if the event has that: the
/// tool, or the source, trigger or type that the hook is told.
pub fn hooks_for(env: &Environment, event: HookEvent, subject: Option<&str>) -> Vec<Hook> {
    let fits = |hook: &&Hook| hook.event == event && subject.is_none_or(|subject| matches(&hook.matcher, subject));
    env.hooks.iter().filter(|hook| env.is_of(hook.project.as_ref())).filter(fits).cloned().collect()
}

/// Whether the pattern of a hook matches this, or if it is a tool its name in Claude Code.
fn matches(matcher: &str, subject: &str) -> bool {
    if matcher.is_empty() || matcher == "*" {
        return true;
    }
    let pattern = RegexMatcherBuilder::new().size_limit(MAX_COMPILED).build(&format!("^(?:{matcher})$"));
    let Some(pattern) = pattern.ok().filter(|_| matcher.len() <= MAX_MATCHER) else { return false };
    [subject, claude_name(subject)].iter().any(|name| pattern.is_match(name.as_bytes()).unwrap_or(false))
}

/// Whether a pattern can be used.
pub fn is_matcher(matcher: &str) -> bool {
    let build = || RegexMatcherBuilder::new().size_limit(MAX_COMPILED).build(&format!("^(?:{matcher})$"));
    matcher == "*" || matcher.len() <= MAX_MATCHER && build().is_ok()
}

fn run(hooks: &[Hook], occasion: Occasion, env: &Environment, job: &Job) -> HookOutcome {
    let (mut occasion, mut outcome) = (occasion, HookOutcome::default());
    for hook in hooks {
        if job.is_cancelled() || matches!(outcome.decision, Some(HookDecision::Deny(_))) {
            break;
        }
        let mut changes = Vec::new();
        let answer = answer(hook, &occasion, env, job, &mut changes);
        let (listed, warnings) = protected_changes(&hook.label(), &changes, &env.output_directory);
        outcome.notes.extend(warnings);
        outcome.context.extend(Some(listed.trim_end().to_owned()).filter(|listed| !listed.is_empty()));
        outcome.add(hook, answer, process::lies_in_workspace(hook, env));
        // The next hook sees the call as it is now.
        if let (Some(call), Some(updated)) = (&mut occasion.call, &outcome.updated) {
            call.arguments = updated.to_string();
        }
    }
    outcome
}

/// The answer of one hook, and its changes of protected files. While its files are not the trusted ones, it asks the
/// person instead of running.
fn answer(
    hook: &Hook,
    occasion: &Occasion,
    env: &Environment,
    job: &Job,
    changes: &mut Vec<String>,
) -> Result<Answer, Failure> {
    let place = match scripts::place(hook, env) {
        Ok(place) => place,
        Err(why) if hook.event == HookEvent::PreTool && !hook.is_required => {
            return Ok(Answer { decision: Some(HookDecision::Ask(why)), ..Answer::default() });
        }
        Err(why) => return Err(Failure::NotStarted(why)),
    };
    let input = input(hook, occasion, env).to_string();
    let may_write = may_write(occasion.policy, env);
    let mut ended = process::run(hook, &input, &process::Place { directory: &place, may_write }, env, job)?;
    changes.append(&mut ended.changes);
    answer::read(&ended, hook.event).map_err(Failure::Failed)
}

/// Whether an agent may change files of its workspace; its hooks may change no more.
fn may_write(policy: Policy, env: &Environment) -> bool {
    let writes = |tool: &&ToolSpec| matches!(tool.judged, Judged::Write | Judged::Command);
    policy > Policy::Never && (env.remote.is_some() || env.tools.iter().any(writes))
}

impl HookOutcome {
    fn add(&mut self, hook: &Hook, answer: Result<Answer, Failure>, is_open: bool) {
        let label = hook.label();
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => return self.add_failure(hook, failure),
        };
        self.notes.extend(answer.message.map(|message| format!("{label}: {message}")));
        self.context.extend(answer.context);
        let is_project = hook.author == Author::Project || is_open;
        let why = if is_open { "agents can change its program" } else { "it is a project's" };
        match (answer.decision, is_project) {
            (Some(HookDecision::Allow), true) => self.notes.push(format!("{label} cannot allow: {why}")),
            (Some(decision), _) => self.decide(decision),
            (None, _) => {}
        }
        match (answer.updated, is_project) {
            (Some(_), _) if hook.event == HookEvent::PermissionRequest => {
                self.notes.push(format!("{label} cannot change calls: use pre_tool"));
            }
            (Some(_), true) => self.notes.push(format!("{label} cannot change calls: {why}")),
            (Some(updated), false) => {
                self.notes.push(format!("{label} changed the call"));
                self.updated = Some(updated);
            }
            (None, _) => {}
        }
        // Another call was allowed.
        if self.updated.is_some() && self.decision == Some(HookDecision::Allow) {
            self.decision = None;
        }
    }

    /// If a required hook fails, or one before a call was not run, the guarded action does not happen, because nothing
    /// has checked it.
    fn add_failure(&mut self, hook: &Hook, failure: Failure) {
        let (what, why, is_refusal) = match failure {
            Failure::NotStarted(why) => ("could not be started", why, hook.event == HookEvent::PreTool),
            Failure::Failed(why) => ("failed", why, false),
        };
        self.notes.push(format!("{} {what}: {why}", hook.label()));
        if is_refusal || hook.is_required {
            let kind = if hook.is_required { "a required hook" } else { "a hook" };
            self.decision = Some(HookDecision::Deny(format!("{kind} {what}: {why}")));
        }
    }

    /// The strictest decision counts.
    fn decide(&mut self, decision: HookDecision) {
        let rank = |decision: &HookDecision| match decision {
            HookDecision::Allow => 0,
            HookDecision::Ask(_) => 1,
            HookDecision::Deny(_) => 2,
        };
        if self.decision.as_ref().is_none_or(|known| rank(known) < rank(&decision)) {
            self.decision = Some(decision);
        }
    }
}

fn input(hook: &Hook, occasion: &Occasion, env: &Environment) -> Value {
    let mut input = json!({
        "session_id": occasion.agent,
        "transcript_path": null,
        "cwd": env.working_directory,
        "permission_mode": permission_mode(occasion.policy),
        "hook_event_name": occasion.event.wire_name(),
    });
    if let Some(call) = &occasion.call {
        let mut arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
        let name = if hook.has_claude_names { claude_name(&call.name) } else { &call.name };
        if let Some(path) = arguments["file_path"].as_str().filter(|_| hook.has_claude_names) {
            arguments["file_path"] = env.resolve(path).to_string_lossy().into();
        }
        (input["tool_name"], input["tool_use_id"]) = (name.into(), call.id.as_str().into());
        input["tool_input"] = arguments;
    }
    occasion.more.iter().for_each(|(name, value)| input[*name] = value.clone());
    input
}

fn permission_mode(policy: Policy) -> &'static str {
    match policy {
        Policy::Plan => "plan",
        Policy::Never => "dontAsk",
        Policy::Ask => "default",
        Policy::Auto => "acceptEdits",
        Policy::Yolo => "bypassPermissions",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::hook::TIME_LIMIT;

    fn hook(author: Author, is_required: bool) -> Hook {
        Hook {
            event: HookEvent::PreTool,
            matcher: String::new(),
            command: Vec::new(),
            timeout: TIME_LIMIT,
            is_required,
            author,
            has_claude_names: false,
            source: "config.toml:3".into(),
            project: None,
            scripts: Vec::new(),
        }
    }

    fn decided(decision: HookDecision) -> Result<Answer, Failure> {
        Ok(Answer { decision: Some(decision), ..Answer::default() })
    }

    #[test]
    fn a_matcher_is_the_whole_name_of_a_tool_here_or_in_claude_code() {
        for (matcher, tool, expected) in [
            ("", "bash", true),
            ("*", "bash", true),
            ("bash|edit_file", "edit_file", true),
            ("Bash", "bash", true),
            ("Edit|Write", "write_file", true),
            ("bas", "bash", false),
            ("Edit", "multi_edit", false),
            ("mcp__.*", "mcp__git__log", true),
            ("(", "bash", false),
        ] {
            assert_eq!(matches(matcher, tool), expected, "{matcher} {tool}");
        }
        assert!(is_matcher("a|b") && !is_matcher("(") && !is_matcher(&"x".repeat(MAX_MATCHER + 1)));
    }

    #[test]
    fn the_strictest_decision_counts_and_a_project_neither_allows_nor_changes() {
        let (own, project) = (hook(Author::Person, false), hook(Author::Project, false));
        let mut outcome = HookOutcome::default();
        outcome.add(&project, decided(HookDecision::Allow), false);
        assert_eq!(outcome.decision, None);
        outcome.add(&own, decided(HookDecision::Allow), false);
        outcome.add(&project, Ok(Answer { updated: Some(json!({"command": "x"})), ..Answer::default() }), false);
        assert_eq!((&outcome.decision, &outcome.updated), (&Some(HookDecision::Allow), &None));
        outcome.add(&project, decided(HookDecision::Ask("look".into())), false);
        outcome.add(&own, decided(HookDecision::Allow), false);
        assert_eq!(outcome.decision, Some(HookDecision::Ask("look".into())));
        assert_eq!(outcome.notes.len(), 2, "{:?}", outcome.notes);
    }

    #[test]
    fn a_changed_call_is_not_allowed_by_a_hook() {
        let own = hook(Author::Person, false);
        let mut outcome = HookOutcome::default();
        outcome.add(&own, decided(HookDecision::Allow), false);
        outcome.add(&own, Ok(Answer { updated: Some(json!({"command": "x"})), ..Answer::default() }), false);
        assert_eq!((outcome.decision, outcome.updated), (None, Some(json!({"command": "x"}))));
    }

    #[test]
    fn a_hook_that_has_not_run_refuses_the_call_before_which_it_should_have() {
        for (event, expected) in [(HookEvent::PreTool, true), (HookEvent::PostTool, false), (HookEvent::Stop, false)] {
            let mut outcome = HookOutcome::default();
            let failure = Failure::NotStarted("no such file".into());
            outcome.add(&Hook { event, ..hook(Author::Person, false) }, Err(failure), false);
            let refused = HookDecision::Deny("a hook could not be started: no such file".into());
            assert_eq!(outcome.decision, expected.then_some(refused));
        }
    }

    #[test]
    fn a_failure_is_a_note_and_of_a_required_hook_a_refusal() {
        for (is_required, expected) in [(false, false), (true, true)] {
            let mut outcome = HookOutcome::default();
            let failure = Failure::Failed("exit 1".into());
            outcome.add(&hook(Author::Project, is_required), Err(failure), false);
            assert_eq!(matches!(outcome.decision, Some(HookDecision::Deny(_))), expected);
            assert_eq!(outcome.notes, ["hook pre_tool (config.toml:3) failed: exit 1"]);
        }
    }
}
