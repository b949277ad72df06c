//! The plan of a run: task, members and settings, checked before anything runs.
//!
//! The command line overrides the template or workflow, which overrides the configuration.

use super::files;
use crate::base::error::{Error, Result};
use crate::cli::arguments::{RunOptions, TaskText, TeamRun, WorkflowRun};
use crate::cli::stdio::input::{Input, MAX_BYTES, WholeInput};
use crate::cli::stdio::say_waits_for_input;
use crate::domain::config::TeamSettings;
use crate::team::coordinator::definitions::Definitions;
use crate::team::coordinator::member::Member;
use crate::team::coordinator::plan::{Plan, PlanOptions};

impl Plan {
    /// The plan of `run`.
    pub fn of_members(run: &TeamRun, definitions: &Definitions, configured: &TeamSettings) -> Result<Self> {
        let strategy = run.strategy.as_deref().map(str::parse).transpose();
        let agents = run.agents.as_deref().map(|list| Member::list(list).map_err(|error| error.context("--agents")));
        let count = run.count.map(|count| Member::numbered(count).map_err(|error| error.context("--count")));
        let options = PlanOptions {
            template: run.template.as_deref().map(|name| definitions.template(name)).transpose()?.cloned(),
            strategy: strategy.map_err(|error: Error| error.context("--strategy"))?,
            members: agents.or(count).transpose()?,
            ..plan_options(&run.options)?
        };
        options.into_plan("", configured)?.with_task(&run.task, None)
    }

    /// The plan of `run-workflow`.
    pub fn of_workflow(run: &WorkflowRun, definitions: &Definitions, configured: &TeamSettings) -> Result<Self> {
        let workflow = files::workflow(definitions, &run.name)?;
        let default_task = workflow.default_task().to_owned();
        let options = PlanOptions { workflow: Some(workflow), ..plan_options(&run.options)? };
        options.into_plan("", configured)?.with_task(&run.task, Some(default_task))
    }

    /// Reads the task last, since standard input may have to be waited for.
    fn with_task(mut self, task: &TaskText, default: Option<String>) -> Result<Self> {
        self.task = read_task(task)?.or(default).ok_or_else(no_task)?;
        Ok(self)
    }
}

fn plan_options(options: &RunOptions) -> Result<PlanOptions> {
    let aggregation = options.aggregation.as_deref().map(str::parse).transpose();
    Ok(PlanOptions {
        aggregation: aggregation.map_err(|error: Error| error.context("--aggregation"))?,
        timeout: options.timeout,
        retries: options.retries,
        judge: options.judge.clone(),
        ..PlanOptions::default()
    })
}

/// The task of the command line; `-` is standard input.
fn read_task(TaskText { text, task }: &TaskText) -> Result<Option<String>> {
    let given: Vec<&str> = text.iter().chain(task).map(String::as_str).collect();
    let typed: Vec<&str> = given.iter().copied().filter(|word| *word != "-").collect();
    let mut parts: Vec<String> = (!typed.is_empty()).then(|| typed.join(" ")).into_iter().collect();
    if typed.len() < given.len() {
        parts.push(read_input()?.trim_end_matches(['\n', '\r']).to_owned());
    }
    parts.retain(|part| !part.trim().is_empty());
    match (given.is_empty(), parts.is_empty()) {
        (true, _) => Ok(None),
        (false, true) => Err(no_task()),
        (false, false) => Ok(Some(parts.join("\n\n"))),
    }
}

fn read_input() -> Result<String> {
    let refuse = |message: String| Error::usage(message);
    match Input::of_process()?.read_whole(None, say_waits_for_input)? {
        WholeInput::Complete(bytes) => {
            String::from_utf8(bytes).map_err(|_| refuse("standard input is not valid UTF-8".into()))
        }
        WholeInput::TooLong | WholeInput::TimedOut => {
            Err(refuse(format!("standard input is longer than {} MiB", MAX_BYTES >> 20)))
        }
    }
}

fn no_task() -> Error {
    Error::usage("no task: pass --task TEXT, the text as an argument, or - to read standard input")
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::cli::arguments::{Arguments, Command, MultiAgentCommand};
    use crate::team::coordinator::settings::{Aggregation, Strategy};
    use crate::team::coordinator::template::built_in;

    fn plan(line: &str) -> Result<Plan> {
        let definitions = Definitions::built_in();
        let line = ["polylogue", "multi-agent"].into_iter().chain(line.split(' '));
        let arguments = Arguments::read(line).map_err(|error| Error::usage(error.to_string()));
        match arguments?.command {
            Some(Command::MultiAgent(MultiAgentCommand::Run(run))) => {
                Plan::of_members(&run, &definitions, &TeamSettings::default())
            }
            Some(Command::MultiAgent(MultiAgentCommand::RunWorkflow(run))) => {
                Plan::of_workflow(&run, &definitions, &TeamSettings::default())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_override_the_template_which_overrides_the_defaults() {
        use {Aggregation as A, Strategy as S};
        let documentation =
            built_in().into_iter().find(|template| template.name == "documentation").expect("a built-in template");
        let own =
            (documentation.strategy.expect("a built-in value"), documentation.aggregation.expect("a built-in value"));
        for (line, expected) in [
            ("run do", (S::Sequential, A::Concatenate)),
            ("run do --strategy pipeline", (S::Pipeline, A::Last)),
            ("run do --strategy pipeline --aggregation merge", (S::Pipeline, A::Merge)),
            ("run do --template documentation", own),
            ("run do --template documentation --strategy adaptive", (S::Adaptive, own.1)),
            ("run do --template documentation --aggregation first-success", (own.0, A::FirstSuccess)),
        ] {
            let settings = plan(line).expect(line).settings;
            assert_eq!((settings.strategy, settings.aggregation), expected, "{line}");
        }
        let settings = plan("run do --timeout 0.5 --retries 0 --aggregation select_best --judge echo")
            .expect("a valid plan")
            .settings;
        assert_eq!((settings.agent_timeout.as_millis(), settings.retry.number()), (500, 0));
        assert_eq!(settings.judge.as_deref(), Some("echo"));
    }

    #[test]
    fn the_default_is_three_members() {
        let names =
            |line: &str| plan(line).expect(line).members().into_iter().map(|member| member.name).collect::<Vec<_>>();
        assert_eq!(names("run do this"), ["agent-1", "agent-2", "agent-3"]);
        assert_eq!(names("run do --count 1"), ["agent-1"]);
        assert_eq!(names("run do --agents ann,bob:echo"), ["ann", "bob"]);
        assert_eq!(names("run do --template testing"), ["analyzer", "test-writer", "validator"]);
        assert_eq!(plan("run do this").expect("a valid plan").task, "do this");
        assert_eq!(plan("run --task do").expect("a valid plan").task, "do");
    }

    #[test]
    fn invalid_plans_are_refused_with_the_reason() {
        for (line, expected) in [
            ("run", "no task"),
            ("run --task", "a value is required"),
            ("run --task do more", "cannot be used with"),
            ("run do --count 3 --template testing", "cannot be used with"),
            ("run do --count 3 --agents a", "cannot be used with"),
            ("run do --agents a --template testing", "cannot be used with"),
            ("run do --count 0", "--count: a task needs at least one member"),
            ("run do --count 101", "--count: too many members: a task has at most 100"),
            ("run do --count x", "invalid value 'x'"),
            ("run do --agents a,,b", "--agents: missing member name"),
            ("run do --agents a,a", "--agents: duplicate member name"),
            ("run do --template testin", "did you mean testing?"),
            ("run do --strategy paralel", "--strategy: unknown strategy \"paralel\": did you mean parallel?"),
            ("run do --aggregation vot", "--aggregation: unknown aggregation \"vot\": did you mean vote?"),
            ("run do --judge echo", "a judge needs the aggregation select_best"),
            ("run do --timeout 0", "a number of seconds greater than 0"),
            ("run do --timeout x", "a number of seconds greater than 0"),
            ("run do --retries -1", "--retries"),
            ("run do --aggregatio vote", "--aggregation"),
            ("run-workflow", "<WORKFLOW>"),
            ("run-workflow none", "unknown workflow \"none\""),
            ("run-workflow ./none.toml", "./none.toml: no such file"),
            ("list all", "unexpected argument 'all'"),
            ("statsu", "status"),
        ] {
            let message = plan(line).expect_err(line).message;
            assert!(message.contains(expected), "{line}: {message}");
        }
    }
}
