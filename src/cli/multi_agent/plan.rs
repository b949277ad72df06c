//! What the command line asks for: who works on which task, and how. Everything is looked at before anything runs.
//!
//! The command line wins over the template or the workflow, and that over the configuration.

use std::io::stdin;
use std::os::fd::AsFd as _;

use super::files::Shelf;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::arguments::{Manner, TaskWords, TeamRun, WorkflowRun};
use crate::cli::print::inlet::{self, Inlet, Whole};
use crate::domain::config::RetryPolicy;
use crate::domain::endpoint::Catalog;
use crate::team::coordinator::member::{self, Member};
use crate::team::coordinator::settings::{Aggregation, Settings};
use crate::team::coordinator::template::Template;
use crate::team::coordinator::workflow::Workflow;

/// Members where nobody says how many: the fewest with which every strategy and every aggregation has something to do.
const USUAL_COUNT: usize = 3;

/// Who works on what, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The task.
    pub task: String,
    /// Who works on it.
    pub work: Work,
    /// How it is run.
    pub settings: Settings,
}

/// Who works on a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// These, as the strategy of the settings says.
    Members(Vec<Member>),
    /// The steps of this, as they depend on one another.
    Workflow(Workflow),
}

impl Plan {
    /// The plan of `run`.
    ///
    /// # Errors
    /// It cannot be carried out, or standard input, which is to say the task, cannot be read.
    pub fn of_members(run: &TeamRun, shelf: &Shelf, usual: Settings) -> Result<Self> {
        let template = run.template.as_deref().map(|name| shelf.template(name)).transpose()?;
        let strategy = run.strategy.as_deref().map(str::parse).transpose().map_err(|error| of("--strategy", error))?;
        let mut settings = settings(&run.manner, template.and_then(|template| template.aggregation), usual)?;
        settings.strategy = strategy.or(template.and_then(|template| template.strategy)).unwrap_or(settings.strategy);
        let work = Work::Members(members(template, run.agents.as_deref(), run.count)?);
        Self { task: String::new(), work, settings }.with_task(&run.task, None)
    }

    /// The plan of `run-workflow`.
    ///
    /// # Errors
    /// As above.
    pub fn of_workflow(run: &WorkflowRun, shelf: &Shelf, usual: Settings) -> Result<Self> {
        let workflow = shelf.workflow(&run.name)?;
        let settings = settings(&run.manner, workflow.aggregation, usual)?;
        let usual = if workflow.description.is_empty() { &workflow.name } else { &workflow.description }.clone();
        Self { task: String::new(), work: Work::Workflow(workflow), settings }.with_task(&run.task, Some(usual))
    }

    /// The task is looked at last: standard input may have to be waited for.
    fn with_task(mut self, task: &TaskWords, usual: Option<String>) -> Result<Self> {
        self.settings.check()?;
        member::check(&self.members())?;
        self.task = said(task)?.or(usual).ok_or_else(nothing)?;
        Ok(self)
    }

    /// Who works on it, in order.
    pub fn members(&self) -> Vec<Member> {
        match &self.work {
            Work::Members(members) => members.clone(),
            Work::Workflow(workflow) => workflow.members(),
        }
    }

    /// Whether all models can be had.
    ///
    /// # Errors
    /// One is not configured; the words say whose it is.
    pub fn check_models(&self, catalog: &Catalog) -> Result<()> {
        let members = self.members();
        let of_members = members.iter().filter_map(|member| Some((member.name.as_str(), member.model.as_deref()?)));
        let of_judge = self.settings.judge.as_deref().map(|model| ("--judge", model));
        for (whose, model) in of_members.chain(of_judge) {
            catalog.find(model).map_err(|error| of(whose, error))?;
        }
        Ok(())
    }
}

/// What the flags say of how all runs are done; `own` is what a template or a workflow says, `usual` what is configured.
fn settings(manner: &Manner, own: Option<Aggregation>, usual: Settings) -> Result<Settings> {
    let aggregation = manner.aggregation.as_deref().map(str::parse).transpose();
    let aggregation = aggregation.map_err(|error| of("--aggregation", error))?;
    let retries = manner.retries.unwrap_or(usual.retry.retries);
    Ok(Settings {
        aggregation: aggregation.or(own).unwrap_or(usual.aggregation),
        agent_timeout: manner.timeout.unwrap_or(usual.agent_timeout),
        retry: RetryPolicy { retries, ..usual.retry },
        judge: manner.judge.clone(),
        ..usual
    })
}

fn members(template: Option<&Template>, agents: Option<&str>, count: Option<usize>) -> Result<Vec<Member>> {
    match (template, agents) {
        (Some(template), _) => Ok(template.members.clone()),
        (None, Some(list)) => Member::list(list).map_err(|error| of("--agents", error)),
        (None, None) => Member::numbered(count.unwrap_or(USUAL_COUNT)).map_err(|error| of("--count", error)),
    }
}

/// The task that is said: the words, in which `-` stands for standard input.
fn said(TaskWords { words, task }: &TaskWords) -> Result<Option<String>> {
    let given: Vec<&str> = words.iter().chain(task).map(String::as_str).collect();
    let spoken: Vec<&str> = given.iter().copied().filter(|word| *word != "-").collect();
    let mut parts: Vec<String> = (!spoken.is_empty()).then(|| spoken.join(" ")).into_iter().collect();
    if spoken.len() < given.len() {
        parts.push(input()?.trim_end_matches(['\n', '\r']).to_owned());
    }
    parts.retain(|part| !part.trim().is_empty());
    match (given.is_empty(), parts.is_empty()) {
        (true, _) => Ok(None),
        (false, true) => Err(nothing()),
        (false, false) => Ok(Some(parts.join("\n\n"))),
    }
}

/// All that standard input says.
fn input() -> Result<String> {
    let refuse = |words: String| Error::new(ErrorKind::Usage, words);
    match Inlet::on(stdin().as_fd()).map_err(std::io::Error::from)?.read_whole(None)? {
        Whole::All(bytes) => String::from_utf8(bytes).map_err(|_| refuse("standard input is not UTF-8".into())),
        Whole::TooMuch | Whole::TooLate => {
            Err(refuse(format!("standard input is longer than {} MiB", inlet::MOST >> 20)))
        }
    }
}

fn of(what: &str, error: Error) -> Error {
    error.context(what)
}

fn nothing() -> Error {
    let words = "what is the task? say --task TEXT, or its words at the end, or - to read it from standard input";
    Error::new(ErrorKind::Usage, words)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::arguments::{Arguments, Command, MultiAgentCommand};
    use crate::team::coordinator::settings::Strategy;
    use crate::team::coordinator::template::built_in;

    fn plan(words: &str) -> Result<Plan> {
        let shelf = Shelf::built_in();
        let words = ["polylogue", "multi-agent"].into_iter().chain(words.split(' '));
        let arguments =
            Arguments::try_parse_from(words).map_err(|error| Error::new(ErrorKind::Usage, error.to_string()));
        match arguments?.command {
            Some(Command::MultiAgent(MultiAgentCommand::Run(run))) => {
                Plan::of_members(&run, &shelf, Settings::default())
            }
            Some(Command::MultiAgent(MultiAgentCommand::RunWorkflow(run))) => {
                Plan::of_workflow(&run, &shelf, Settings::default())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_wins_over_the_template_and_that_over_the_defaults() {
        use {Aggregation as A, Strategy as S};
        let documentation = built_in().into_iter().find(|one| one.name == "documentation").expect("it is built in");
        let own = (documentation.strategy.expect("one"), documentation.aggregation.expect("one"));
        for (words, expected) in [
            ("run do", (S::Sequential, A::Concatenate)),
            ("run do --template documentation", own),
            ("run do --template documentation --strategy adaptive", (S::Adaptive, own.1)),
            ("run do --template documentation --aggregation first-success", (own.0, A::FirstSuccess)),
        ] {
            let settings = plan(words).expect(words).settings;
            assert_eq!((settings.strategy, settings.aggregation), expected, "{words}");
        }
        let settings =
            plan("run do --timeout 0.5 --retries 0 --aggregation select_best --judge echo").expect("fine").settings;
        assert_eq!((settings.agent_timeout.as_millis(), settings.retry.retries), (500, 0));
        assert_eq!(settings.judge.as_deref(), Some("echo"));
    }

    #[test]
    fn three_agents_work_on_the_words_of_the_line_where_nobody_says_more() {
        let names =
            |words: &str| plan(words).expect(words).members().into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names("run do this"), ["agent-1", "agent-2", "agent-3"]);
        assert_eq!(names("run do --count 1"), ["agent-1"]);
        assert_eq!(names("run do --agents ann,bob:echo"), ["ann", "bob"]);
        assert_eq!(names("run do --template testing"), ["analyzer", "test-writer", "validator"]);
        assert_eq!(plan("run do this").expect("fine").task, "do this");
        assert_eq!(plan("run --task do").expect("fine").task, "do");
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused_with_words_that_say_what() {
        for (words, told) in [
            ("run", "what is the task?"),
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
            ("run do --timeout 0", "a number of seconds above 0"),
            ("run do --timeout x", "a number of seconds above 0"),
            ("run do --retries -1", "--retries"),
            ("run do --aggregatio vote", "--aggregation"),
            ("run-workflow", "<NAME>"),
            ("run-workflow none", "unknown workflow \"none\""),
            ("run-workflow ./none.toml", "./none.toml: there is no such file"),
            ("list all", "unexpected argument 'all'"),
            ("statsu", "status"),
        ] {
            let message = plan(words).expect_err(words).message;
            assert!(message.contains(told), "{words}: {message}");
        }
    }
}
