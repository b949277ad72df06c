//! `/fork`: a child of this agent with its conversation.

use clap::{ArgMatches, Command};

use super::arguments::{flag, option, positional, value_of};
use super::{CommandContext, CommandSpec, Rest, checked_name, usage_error};
use crate::base::error::Result;
use crate::domain::change::{Change, Fork, ForkPlace};
use crate::domain::endpoint::HOSTS;
use crate::domain::flow::InputResult;

pub const FORK: CommandSpec = CommandSpec {
    arguments: "[--worktree] [--name N] [--stay] [PROMPT]",
    define: |command| {
        new_agent_args(command)
            .arg(option("as", "DEFINITION", "Definition to begin with"))
            .arg(flag("worktree", "Create it in a new git worktree, on a branch with its name"))
            .arg(flag("stay", "Keep showing this agent"))
            .arg(flag("include-current", "Inherit the open message and the tool results of its turn too"))
    },
    rest: Some(Rest::Unquoted("prompt")),
    ..CommandSpec::new("fork", "create a child (--model M)", run)
};

/// The arguments that `/new` and `/fork` share.
pub(super) fn new_agent_args(command: Command) -> Command {
    command
        .arg(option("name", "NAME", "Name of the new agent"))
        .arg(option("model", "PROVIDER/MODEL", "Model of the new agent").short('m'))
        .arg(option("host", "NAME", "Agent program that answers, such as claude (see /hosts)").conflicts_with("model"))
        .arg(positional("prompt", "PROMPT").help("First message to it"))
}

/// Their values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewAgentArgs {
    pub name: Option<String>,
    pub model: Option<String>,
    pub prompt: Option<String>,
}

impl NewAgentArgs {
    pub fn read(given: &ArgMatches) -> Result<Self> {
        let text = |id| value_of(given, id).filter(|text| !text.is_empty()).map(str::to_owned);
        let (name, prompt) = (text("name").map(|name| checked_name(&name)).transpose()?, text("prompt"));
        if prompt.as_ref().is_some_and(|prompt| prompt.starts_with('"') && prompt.matches('"').count() % 2 == 1) {
            return Err(usage_error("a quote is not closed in the prompt: end it with \""));
        }
        let model = text("model").or_else(|| text("host").map(|host| format!("{HOSTS}/{host}")));
        Ok(Self { name, model, prompt })
    }
}

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let NewAgentArgs { name, model, prompt } = NewAgentArgs::read(given)?;
    let definition = value_of(given, "as").map(str::to_owned);
    if let Some(definition) = &definition {
        context.agent()?.inputs.environment.definition(definition).map_err(usage_error)?;
    }
    let (includes_current, stays) = (given.get_flag("include-current"), given.get_flag("stay"));
    let place = given.get_flag("worktree").then_some(ForkPlace::NewWorktree);
    let fork = Fork { prompt, name, model, definition, includes_current, stays, place, ..Fork::default() };
    Ok(InputResult::NewState(Change::Fork(fork), None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::arguments::parse_line;
    use crate::commands::new::NEW;

    fn parse(typed: &str) -> Result<NewAgentArgs> {
        NewAgentArgs::read(&parse_line(&FORK, typed)?)
    }

    #[test]
    fn options_are_separated_from_the_prompt() {
        let some = |text: &str| Some(text.to_owned());
        for (typed, name, model, prompt) in [
            ("", None, None, None),
            ("say hello", None, None, some("say hello")),
            ("\"say hello\"", None, None, some("say hello")),
            ("--name scout", some("scout"), None, None),
            ("--name=scout look  around", some("scout"), None, some("look  around")),
            ("--host claude go", None, some("acp/claude"), some("go")),
            ("--model a/b --name scout go", some("scout"), some("a/b"), some("go")),
            ("\"--names are hard\"", None, None, some("--names are hard")),
            ("--name scout -- --names are hard", some("scout"), None, some("--names are hard")),
        ] {
            assert_eq!(parse(typed).unwrap(), NewAgentArgs { name, model, prompt }, "{typed}");
        }
    }

    #[test]
    fn the_open_message_is_included_if_that_is_said() {
        let given = parse_line(&FORK, "--name scout --include-current go --include-current").unwrap();
        assert_eq!(
            (given.get_flag("include-current"), value_of(&given, "prompt")),
            (true, Some("go --include-current"))
        );
        assert!(parse("--include-current=yes").unwrap_err().message.contains("takes no value"));
        assert!(parse_line(&NEW, "--include-current").is_err());
    }

    #[test]
    fn an_unknown_option_is_an_error_that_names_the_nearest() {
        for (typed, expected) in [
            ("--naem x", "did you mean --name?"),
            ("--frobnicate", "--name, --model, --host, --as, --worktree, --stay, --include-current"),
        ] {
            let error = parse(typed).unwrap_err();
            assert!(error.message.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_an_error() {
        for typed in ["\"say hello", "--name scout \"say hello", "\"", "\"a\" and \"b"] {
            assert!(parse(typed).unwrap_err().message.contains("not closed"), "{typed}");
        }
        for typed in ["say \"hello", "6\" pipes", "\"a\" and \"b\""] {
            assert!(parse(typed).is_ok(), "{typed}");
        }
    }

    #[test]
    fn names_that_look_like_numbers_or_options_are_refused() {
        for typed in ["--name", "--name 7", "--name -x", "--name a/b", "--name parent", "--model", "--model="] {
            assert!(parse(typed).is_err(), "{typed}");
        }
    }
}
