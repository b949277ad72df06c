//! `/team`: several children of this agent work on one task. The line is parsed twice: when it is typed, to report
//! errors, and when the task starts.

use std::time::Duration;

use super::complete::{before_last_word, complete_word, models};
use super::{CommandContext, CommandSpec, WhenBusy, unquoted, usage_error};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::config::TeamSettings;
use crate::domain::flow::{Change, InputResult};
use crate::team::coordinator::member::Member;
use crate::team::coordinator::settings::{Aggregation, Settings, Strategy};
use crate::team::coordinator::template::{self, Template};

pub const TEAM: CommandSpec = CommandSpec {
    name: "team",
    aliases: &[],
    arguments: "[STRATEGY] [AGGREGATION] [TASK]",
    about: "let several children work on one task",
    busy: WhenBusy::Runs,
    run,
    complete,
};

const DEFAULT_MEMBERS: usize = 3;
const OPTIONS: [&str; 6] = ["--template", "--agents", "--count", "--judge", "--timeout", "--retries"];

/// A task, its members and how they work on it.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamOrder {
    /// What is to be done.
    pub task: String,
    /// Who does it.
    pub members: Vec<Member>,
    /// How.
    pub settings: Settings,
}

/// The options and names in front of the task.
#[derive(Default)]
struct TeamArguments {
    strategy: Option<Strategy>,
    aggregation: Option<Aggregation>,
    members: Option<Vec<Member>>,
    template: Option<Template>,
    judge: Option<String>,
    timeout: Option<Duration>,
    retries: Option<u32>,
}

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    if arguments.is_empty() {
        return Ok(InputResult::NewState(Change::ShowTeam, None));
    }
    let order = team_order(arguments, &context.config.team)?;
    let count = text::counted(order.members.len(), "member works", "members work");
    let note = format!("{count} on it: answers arrive as mail, the result as a note (Esc stops them)");
    Ok(InputResult::NewState(Change::Team(arguments.to_owned()), Some(note)))
}

/// Parses the arguments of `/team`: options and the names of a strategy and an aggregation in any order, then the task,
/// quoted or not. A task that begins with one of those names has to be quoted. Defaults come from the configuration.
///
/// # Errors
/// There is no task, an option lacks its value, or a name is unknown; the error suggests the nearest one.
pub fn team_order(line: &str, configured: &TeamSettings) -> Result<TeamOrder> {
    let (mut options, mut rest) = (TeamArguments::default(), line.trim());
    while let Some(after) = options.read(rest)? {
        rest = after.trim_start();
    }
    let task = unquoted(rest.trim_end());
    if task.trim().is_empty() {
        return Err(usage_error("no task given: add it after the options, as in /team parallel vote \"TASK\""));
    }
    options.order(task, Settings::of(configured))
}

impl TeamArguments {
    /// Consumes the first word and returns the rest; `None` if the task begins here.
    fn read<'a>(&mut self, rest: &'a str) -> Result<Option<&'a str>> {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if word.starts_with("--") {
            return self.read_option(word, after.trim_start()).map(Some);
        }
        if let Ok(strategy) = word.parse()
            && self.strategy.is_none()
        {
            self.strategy = Some(strategy);
        } else if let Ok(aggregation) = word.parse()
            && self.aggregation.is_none()
        {
            self.aggregation = Some(aggregation);
        } else {
            return refuse_misspelt(word, rest).map(|()| None);
        }
        Ok(Some(after))
    }

    fn read_option<'a>(&mut self, word: &'a str, after: &'a str) -> Result<&'a str> {
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        if !OPTIONS.contains(&option) {
            let near = text::nearest(option, OPTIONS.into_iter());
            let hint = near.map_or_else(|| OPTIONS.join(", "), |near| format!("did you mean {near}?"));
            return Err(usage_error(format!("unknown option {option} of /team: {hint}")));
        }
        let (value, after) =
            value.map_or_else(|| after.split_once(char::is_whitespace).unwrap_or((after, "")), |value| (value, after));
        if value.is_empty() {
            return Err(usage_error(format!("{option} needs a value")));
        }
        let number =
            || value.parse::<u32>().map_err(|_| usage_error(format!("{option} needs a number (got {value:?})")));
        match option {
            "--template" => self.template = Some(template::find(&template::built_in(), value)?.clone()),
            "--agents" => self.members = Some(Member::list(value)?),
            "--count" => self.members = Some(Member::numbered(number()? as usize)?),
            "--judge" => self.judge = Some(value.to_owned()),
            "--timeout" => self.timeout = Some(Duration::from_secs(number()?.into())),
            _ => self.retries = Some(number()?),
        }
        Ok(after)
    }

    fn order(self, task: &str, defaults: Settings) -> Result<TeamOrder> {
        if self.members.is_some() && self.template.is_some() {
            return Err(usage_error("--template cannot be combined with --agents or --count"));
        }
        let of_template = self.template.as_ref().map(|template| (template.strategy, template.aggregation));
        let (strategy, aggregation) = of_template.unwrap_or_default();
        let mut settings = Settings {
            strategy: self.strategy.or(strategy).unwrap_or(defaults.strategy),
            aggregation: self.aggregation.or(aggregation).unwrap_or(defaults.aggregation),
            judge: self.judge,
            ..defaults
        };
        settings.agent_timeout = self.timeout.unwrap_or(settings.agent_timeout);
        settings.retry.retries = self.retries.unwrap_or(settings.retry.retries);
        settings.check()?;
        let members = self.members.or(self.template.map(|template| template.members));
        let members = members.map_or_else(|| Member::numbered(DEFAULT_MEMBERS), Ok)?;
        Ok(TeamOrder { task: task.to_owned(), members, settings })
    }
}

/// Refuses a word that is nearly the name of a strategy or aggregation, if it is long or followed by a quoted task.
fn refuse_misspelt(word: &str, rest: &str) -> Result<()> {
    let is_before_quotes = !word.starts_with('"') && rest.ends_with('"') && rest.matches('"').count() == 2;
    let is_suspect = is_before_quotes || (word.len() >= 6 && !word.starts_with('"'));
    match text::nearest(word, names()).filter(|_| is_suspect) {
        Some(near) => {
            Err(usage_error(format!("unknown name {word:?}: did you mean {near}? (otherwise quote the task)")))
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
        Some(&"--template") => complete_word(typed, template::built_in().into_iter().map(|template| template.name)),
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

    fn read(line: &str) -> (String, Vec<String>, Strategy, Aggregation) {
        let TeamOrder { task, members, settings } =
            team_order(line, &TeamSettings::default()).unwrap_or_else(|error| panic!("{line}: {error}"));
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
            ("--agents=a,b:far/one pipeline x", "x", &["a", "b"], Strategy::Pipeline, Aggregation::Concatenate),
            ("note \"a\" and \"b\"", "note \"a\" and \"b\"", &three, Strategy::Sequential, Aggregation::Concatenate),
        ] {
            let members = members.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(read(line), (task.to_owned(), members, strategy, aggregation), "{line}");
        }
    }

    #[test]
    fn the_line_overrides_the_template() {
        let template = template::built_in().remove(0);
        let (_, members, strategy, aggregation) = read(&format!("--template {} x", template.name));
        assert_eq!(members.len(), template.members.len());
        assert_eq!((Some(strategy), Some(aggregation)), (template.strategy, template.aggregation));
        assert_eq!(read(&format!("vote --template {} x", template.name)).3, Aggregation::Vote);
    }

    #[test]
    fn defaults_come_from_the_template_and_then_from_the_configuration() {
        let configured = TeamSettings {
            strategy: "parallel",
            aggregation: "vote",
            agent_timeout: Duration::from_secs(7),
            retries: 1,
        };
        let read = |line: &str| team_order(line, &configured).expect("an order").settings;
        assert_eq!(read("x"), Settings::of(&configured));
        let given = read("adaptive merge --timeout 5 --retries 0 x");
        assert_eq!((given.strategy, given.aggregation), (Strategy::Adaptive, Aggregation::Merge));
        assert_eq!((given.agent_timeout, given.retry.retries), (Duration::from_secs(5), 0));
        assert_eq!(read("--template refactor x").strategy, Strategy::Pipeline);
    }

    #[test]
    fn missing_and_misspelt_arguments_are_reported_with_the_nearest_name() {
        for (line, message) in [
            ("parallel", "no task given"),
            ("\"\"", "no task given"),
            ("paralel \"x\"", "did you mean parallel?"),
            ("vot \"x\"", "did you mean vote?"),
            ("concatanate x", "did you mean concatenate?"),
            ("--template code-reviw x", "did you mean code-review?"),
            ("--cuont 3 x", "did you mean --count?"),
            ("--count", "needs a value"),
            ("--count many x", "needs a number"),
            ("--count 0 x", "at least one member"),
            ("--count 101 x", "at most 100"),
            ("--count 2 --template testing x", "cannot be combined"),
            ("--judge a/b vote x", "a judge picks for select_best"),
            ("--timeout 0 x", "more than 0 s"),
        ] {
            let error = team_order(line, &TeamSettings::default()).expect_err(line);
            assert!(error.message.contains(message), "{line}: {error}");
        }
    }
}
