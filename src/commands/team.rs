//! `/team`: several forks of this agent work on one task. The line is parsed twice: when it is typed, so that errors appear
//! at once, and when it is carried out.

use std::time::Duration;

use clap::ArgMatches;

use super::arguments::{positional, unquoted, value_of};
use super::complete::{before_last_word, complete_word, models};
use super::{CommandContext, CommandSpec, Rest, usage_error};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::change::{Change, Shown, TeamStart};
use crate::domain::config::Config;
use crate::domain::flow::InputResult;
use crate::team::coordinator::definitions::Definitions;
use crate::team::coordinator::member::Member;
use crate::team::coordinator::plan::{DEFAULT_MEMBERS, Plan, PlanOptions};
use crate::team::coordinator::settings::{Aggregation, Strategy};

pub const TEAM: CommandSpec = CommandSpec {
    arguments: "[STRATEGY] [AGGREGATION] [TASK]",
    define: |command| command.arg(positional("line", "TASK")),
    rest: Some(Rest::AsTyped("line")),
    complete: Some(complete),
    ..CommandSpec::new("team", "let several children work on one task", run)
};

const OPTIONS: [&str; 7] = ["--template", "--workflow", "--agents", "--count", "--judge", "--timeout", "--retries"];

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let arguments = value_of(given, "line").unwrap_or_default();
    if arguments.is_empty() {
        return Ok(InputResult::NewState(Change::Show(Shown::Team), None));
    }
    if matches!(arguments, "help" | "--help" | "-h") {
        return Ok(InputResult::Continue(Some(help(context.config))));
    }
    let plan = parse_team_line(arguments, context.config)?;
    let members = text::counted(plan.members().len(), "member", "members");
    let note = format!("started {members}: answers arrive as mail, the result in this conversation (Esc stops them)");
    Ok(InputResult::NewState(Change::Team(TeamStart::Task(arguments.to_owned())), Some(note)))
}

/// The text of `/team help`.
fn help(config: &Config) -> String {
    let list = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let definitions = Definitions::of(&config.team_files);
    let templates: Vec<&str> = definitions.templates.iter().map(|template| template.name.as_str()).collect();
    let workflows: Vec<&str> = definitions.workflows.iter().map(|workflow| workflow.name.as_str()).collect();
    format!(
        "/team [STRATEGY] [AGGREGATION] [OPTIONS] TASK starts {DEFAULT_MEMBERS} children that work on the task; /team shows \
         their progress\nstrategies: {}\naggregations: {}\noptions: {}\ntemplates: {}\nworkflows: {}\nexample: /team parallel vote --count 5 \"find the \
         bug\"; a task that is one of these words is put in quotes",
        list(&Strategy::ALL.map(Strategy::name)),
        list(&Aggregation::ALL.map(Aggregation::name)),
        list(&OPTIONS),
        list(&templates),
        list(&workflows),
    )
}

/// Parses the arguments of `/team`: options, a strategy and an aggregation in any order, then the task, quoted or not.
/// A task that begins with the name of a strategy or aggregation must be quoted. A workflow needs no task: its
/// description is used. The configuration gives the defaults, templates and workflows.
pub fn parse_team_line(line: &str, config: &Config) -> Result<Plan> {
    let (mut options, mut rest) = (PlanOptions::default(), line.trim());
    while let Some(after) = parse_next(&mut options, rest, config)? {
        rest = after.trim_start();
    }
    let default = options.workflow.as_ref().map(|workflow| workflow.default_task().to_owned());
    let typed = unquoted(rest.trim_end());
    let task = if typed.trim().is_empty() { default.as_deref().unwrap_or_default() } else { typed };
    if task.trim().is_empty() {
        return Err(usage_error("missing task: put it after the options, as in /team parallel vote \"TASK\""));
    }
    options.into_plan(task, &config.team)
}

/// Parses the first word. Returns the rest of the line, or `None` if the task begins here.
fn parse_next<'a>(options: &mut PlanOptions, line: &'a str, config: &Config) -> Result<Option<&'a str>> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if word.starts_with("--") {
        return parse_option(options, word, rest.trim_start(), config).map(Some);
    }
    if let Ok(strategy) = word.parse()
        && options.strategy.is_none()
    {
        options.strategy = Some(strategy);
    } else if let Ok(aggregation) = word.parse()
        && options.aggregation.is_none()
    {
        options.aggregation = Some(aggregation);
    } else {
        return refuse_misspelt(word, line).map(|()| None);
    }
    Ok(Some(rest))
}

fn parse_option<'a>(options: &mut PlanOptions, word: &'a str, rest: &'a str, config: &Config) -> Result<&'a str> {
    let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
    if !OPTIONS.contains(&option) {
        let nearest = text::nearest(option, OPTIONS.into_iter());
        let hint = nearest.map_or_else(|| OPTIONS.join(", "), |nearest| format!("did you mean {nearest}?"));
        return Err(usage_error(format!("unknown option {option} of /team: {hint}")));
    }
    let (value, rest) =
        value.map_or_else(|| rest.split_once(char::is_whitespace).unwrap_or((rest, "")), |value| (value, rest));
    if value.is_empty() {
        return Err(usage_error(format!("{option} needs a value")));
    }
    let number = || value.parse::<u32>().map_err(|_| usage_error(format!("{option} needs a number (got {value:?})")));
    match option {
        "--template" => options.template = Some(Definitions::of(&config.team_files).template(value)?.clone()),
        "--workflow" => options.workflow = Some(Definitions::of(&config.team_files).workflow(value)?.clone()),
        "--agents" => options.members = Some(Member::list(value)?),
        "--count" => options.members = Some(Member::numbered(number()? as usize)?),
        "--judge" => options.judge = Some(value.to_owned()),
        "--timeout" => options.timeout = Some(Duration::from_secs(number()?.into())),
        _ => options.retries = Some(number()?),
    }
    Ok(rest)
}

/// Refuses a task whose first word is nearly a name, if a quoted task follows or the word is too long to match by chance.
fn refuse_misspelt(word: &str, line: &str) -> Result<()> {
    let is_before_quotes = !word.starts_with('"') && line.ends_with('"') && line.matches('"').count() == 2;
    let is_suspect = is_before_quotes || (word.len() >= 6 && !word.starts_with('"'));
    match text::nearest(word, names()).filter(|_| is_suspect) {
        Some(nearest) => {
            Err(usage_error(format!("{word:?} is unknown: did you mean {nearest}? (otherwise put the task in quotes)")))
        }
        None => Ok(()),
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    Strategy::ALL.into_iter().map(Strategy::name).chain(Aggregation::ALL.into_iter().map(Aggregation::name))
}

fn complete(context: &CommandContext, typed: &str) -> Vec<String> {
    let before: Vec<&str> = before_last_word(typed).split_whitespace().collect();
    match before.last() {
        Some(&"--template") => {
            let templates = Definitions::of(&context.config.team_files).templates;
            complete_word(typed, templates.into_iter().map(|template| template.name))
        }
        Some(&"--workflow") => {
            let workflows = Definitions::of(&context.config.team_files).workflows;
            complete_word(typed, workflows.into_iter().map(|workflow| workflow.name))
        }
        Some(&"--judge") => complete_word(typed, models(context)),
        Some(&"--agents" | &"--count" | &"--timeout" | &"--retries") => Vec::new(),
        _ if typed.contains('"') => Vec::new(),
        _ => {
            let open = names().filter(|name| !before.contains(name)).chain(OPTIONS);
            complete_word(typed, open.map(|word| format!("{word} ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::TeamSettings;
    use crate::domain::custom::TeamFile;
    use crate::team::coordinator::plan::Work;
    use crate::team::coordinator::settings::Settings;

    fn parse(line: &str) -> (String, Vec<String>, Strategy, Aggregation) {
        let Plan { task, work, settings } =
            parse_team_line(line, &Config::default()).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Work::Members(members) = work else { panic!("{line}") };
        (task, members.into_iter().map(|member| member.name).collect(), settings.strategy, settings.aggregation)
    }

    #[test]
    fn names_and_options_precede_the_task_in_any_order() {
        let three = ["agent-1", "agent-2", "agent-3"];
        for (line, task, members, strategy, aggregation) in [
            ("say hello", "say hello", &three[..], Strategy::Sequential, Aggregation::Concatenate),
            ("parallel vote \"say hello\"", "say hello", &three, Strategy::Parallel, Aggregation::Vote),
            ("first-success parallel x", "x", &three, Strategy::Parallel, Aggregation::FirstSuccess),
            ("\"merge the branches\"", "merge the branches", &three, Strategy::Sequential, Aggregation::Concatenate),
            ("--count 2 merge go --fast", "go --fast", &three[..2], Strategy::Sequential, Aggregation::Merge),
            ("--agents=a,b:far/one pipeline x", "x", &["a", "b"], Strategy::Pipeline, Aggregation::Last),
            ("note \"a\" and \"b\"", "note \"a\" and \"b\"", &three, Strategy::Sequential, Aggregation::Concatenate),
        ] {
            let members = members.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(parse(line), (task.to_owned(), members, strategy, aggregation), "{line}");
        }
    }

    #[test]
    fn the_line_overrides_the_template() {
        let template = Definitions::built_in().templates.remove(0);
        let (_, members, strategy, aggregation) = parse(&format!("--template {} x", template.name));
        assert_eq!(members.len(), template.members.len());
        assert_eq!((Some(strategy), Some(aggregation)), (template.strategy, template.aggregation));
        assert_eq!(parse(&format!("vote --template {} x", template.name)).3, Aggregation::Vote);
    }

    #[test]
    fn the_line_overrides_the_configuration() {
        let configured = TeamSettings {
            strategy: "parallel",
            aggregation: "vote",
            agent_timeout: Duration::from_secs(7),
            retries: 1,
        };
        let config = Config { team: configured, ..Config::default() };
        let parse = |line: &str| parse_team_line(line, &config).expect("valid").settings;
        assert_eq!(parse("x"), Settings::of(&configured));
        let settings = parse("adaptive merge --timeout 5 --retries 0 x");
        assert_eq!((settings.strategy, settings.aggregation), (Strategy::Adaptive, Aggregation::Merge));
        assert_eq!((settings.agent_timeout, settings.retry.number()), (Duration::from_secs(5), 0));
        assert_eq!(parse("--template refactor x").strategy, Strategy::Pipeline);
        assert_eq!(parse("pipeline x").aggregation, Aggregation::Vote, "the configured one");
    }

    #[test]
    fn templates_and_workflows_come_from_files() {
        let file =
            |path: &str, is_workflow, text: &str| TeamFile { path: path.into(), is_workflow, text: Ok(text.into()) };
        let template = "strategy = \"pipeline\"\n[[members]]\nname = \"pro\"\n[[members]]\nname = \"con\"";
        let workflow = "description = \"Plan and do\"\naggregation = \"vote\"\n[[steps]]\nname = \"plan\"";
        let team_files = vec![
            file("/t/debate.toml", false, template),
            file("/w/flow.toml", true, workflow),
            file("/w/broken.toml", true, "nonsense"),
        ];
        let config = Config { team_files, ..Config::default() };
        let request = parse_team_line("--template debate x", &config).expect("valid");
        assert_eq!((request.members().len(), request.settings.aggregation), (2, Aggregation::Last));
        let request = parse_team_line("--workflow flow", &config).expect("valid");
        assert_eq!((request.task.as_str(), request.settings.aggregation), ("Plan and do", Aggregation::Vote));
        assert!(matches!(request.work, Work::Workflow(_)));
        assert_eq!(parse_team_line("--workflow flow \"go\"", &config).expect("valid").task, "go");
        for (line, expected) in [
            ("--workflow broken", "/w/broken.toml:1: invalid TOML"),
            ("--workflow flwo", "did you mean flow?"),
            ("--workflow flow pipeline x", "an order of its own"),
            ("--workflow flow --count 2 x", "use only one of"),
        ] {
            let error = parse_team_line(line, &config).expect_err(line);
            assert!(error.message.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn errors_name_what_is_missing_or_the_nearest_name() {
        for (line, expected) in [
            ("parallel", "missing task"),
            ("\"\"", "missing task"),
            ("paralel \"x\"", "did you mean parallel?"),
            ("vot \"x\"", "did you mean vote?"),
            ("concatanate x", "did you mean concatenate?"),
            ("--template code-reviw x", "did you mean code-review?"),
            ("--cuont 3 x", "did you mean --count?"),
            ("--count", "needs a value"),
            ("--count many x", "needs a number"),
            ("--count 0 x", "at least one member"),
            ("--count 101 x", "at most 100"),
            ("--count 2 --template testing x", "use only one of"),
            ("--judge a/b vote x", "a judge needs the aggregation select_best"),
            ("--timeout 0 x", "more than 0 s"),
        ] {
            let error = parse_team_line(line, &Config::default()).expect_err(line);
            assert!(error.message.contains(expected), "{line}: {error}");
        }
    }
}
