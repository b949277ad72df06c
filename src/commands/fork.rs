//! `/fork`: a child of this agent with its conversation.

use super::complete::{before_last_word, complete_word, models};
use super::{CommandContext, CommandSpec, WhenBusy, checked_name, unknown_option, unquoted, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, Fork, InputResult};

pub const FORK: CommandSpec = CommandSpec {
    name: "fork",
    aliases: &[],
    arguments: "[--name N] [--as A] [--stay] [PROMPT]",
    about: "create a child (--model M)",
    busy: WhenBusy::Runs,
    run,
    complete,
};

const NAME: &str = "--name";
const MODEL: &str = "--model";
/// A definition of an agent.
const AS: &str = "--as";
/// The open message and the tool results of its turn are inherited too.
const INCLUDE_CURRENT: &str = "--include-current";
/// The screen stays at this agent.
const STAY: &str = "--stay";
const OPTIONS: [&str; 5] = [NAME, MODEL, AS, STAY, INCLUDE_CURRENT];
/// Options without a value.
const FLAGS: [&str; 2] = [STAY, INCLUDE_CURRENT];

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let Options { name, model, definition, prompt, includes_current, stays } = options("fork", &OPTIONS, arguments)?;
    if let Some(definition) = &definition {
        context.agent()?.inputs.environment.definition(definition).map_err(usage_error)?;
    }
    let fork = Fork { prompt, name, model, definition, includes_current, stays };
    Ok(InputResult::NewState(Change::Fork(fork), None))
}

fn complete(context: &CommandContext, typed: &str) -> Vec<String> {
    complete_options(context, &OPTIONS, typed)
}

/// Completes `options`; all but the flags take a value.
pub(super) fn complete_options(context: &CommandContext, options: &[&str], typed: &str) -> Vec<String> {
    let mut words = before_last_word(typed).split_whitespace();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        if !options.contains(&name) {
            // The prompt has begun.
            return Vec::new();
        }
        if !FLAGS.contains(&name) && name == word && words.next().is_none() {
            return match name {
                MODEL => complete_word(typed, models(context)),
                AS => complete_word(typed, definitions(context)),
                _ => Vec::new(),
            };
        }
    }
    complete_word(typed, options.iter().map(|option| format!("{option} ")))
}

fn definitions(context: &CommandContext) -> Vec<String> {
    let agent = context.roster.get(context.current);
    let known = agent.into_iter().flat_map(|agent| agent.inputs.environment.definitions_here());
    known.map(|definition| definition.name.clone()).collect()
}

/// The arguments of `/fork` or `/new`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub name: Option<String>,
    pub model: Option<String>,
    pub definition: Option<String>,
    pub prompt: Option<String>,
    pub includes_current: bool,
    pub stays: bool,
}

/// Options come first; the rest is the prompt, quoted or not.
pub(super) fn options(command: &str, known: &[&'static str], arguments: &str) -> Result<Options> {
    let mut found = Options::default();
    let mut rest = arguments;
    loop {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        let slot = match option {
            "--" => {
                rest = after.trim_start();
                break;
            }
            unknown if unknown.starts_with("--") && !known.contains(&unknown) => {
                return Err(unknown_option(command, unknown, known));
            }
            NAME => &mut found.name,
            MODEL => &mut found.model,
            AS => &mut found.definition,
            flag if FLAGS.contains(&flag) && value.is_none() => {
                let is_set = if flag == STAY { &mut found.stays } else { &mut found.includes_current };
                (*is_set, rest) = (true, after.trim_start());
                continue;
            }
            flag if FLAGS.contains(&flag) => return Err(usage_error(format!("{option} takes no value"))),
            _ => break,
        };
        let (value, after) = match value {
            Some(value) => (value, after),
            None => after.trim_start().split_once(char::is_whitespace).unwrap_or((after.trim_start(), "")),
        };
        if value.is_empty() {
            return Err(usage_error(format!("{option} needs a value")));
        }
        *slot = Some(value.to_owned());
        rest = after.trim_start();
    }
    found.name = found.name.map(|name| checked_name(&name)).transpose()?;
    let rest = rest.trim();
    if rest.starts_with('"') && rest.matches('"').count() % 2 == 1 {
        return Err(usage_error(format!("a quote is not closed in the prompt of /{command}: end it with \"")));
    }
    let prompt = unquoted(rest);
    found.prompt = (!prompt.is_empty()).then(|| prompt.to_owned());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_separated_from_the_prompt() {
        let some = |text: &str| Some(text.to_owned());
        for (typed, name, model, prompt) in [
            ("", None, None, None),
            ("say hello", None, None, some("say hello")),
            ("\"say hello\"", None, None, some("say hello")),
            ("--name scout", some("scout"), None, None),
            ("--name=scout look  around", some("scout"), None, some("look  around")),
            ("--model a/b --name scout go", some("scout"), some("a/b"), some("go")),
            ("\"--names are hard\"", None, None, some("--names are hard")),
            ("--name scout -- --names are hard", some("scout"), None, some("--names are hard")),
        ] {
            let expected = Options { name, model, prompt, ..Options::default() };
            assert_eq!(options("fork", &OPTIONS, typed).unwrap(), expected, "{typed}");
        }
    }

    #[test]
    fn the_open_message_is_included_if_that_is_said() {
        let found = options("fork", &OPTIONS, "--name scout --include-current go --include-current").unwrap();
        assert_eq!((found.includes_current, found.prompt.as_deref()), (true, Some("go --include-current")));
        assert!(options("fork", &OPTIONS, "--include-current=yes").is_err());
        assert!(options("new", &[NAME, MODEL], "--include-current").is_err());
    }

    #[test]
    fn an_unknown_option_is_an_error_that_names_the_nearest() {
        for (typed, expected) in
            [("--naem x", "did you mean --name?"), ("--frobnicate", "--name, --model, --as, --stay, --include-current")]
        {
            let error = options("fork", &OPTIONS, typed).unwrap_err();
            assert!(error.message.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_an_error() {
        for typed in ["\"say hello", "--name scout \"say hello", "\"", "\"a\" and \"b"] {
            assert!(options("fork", &OPTIONS, typed).unwrap_err().message.contains("not closed"), "{typed}");
        }
        for typed in ["say \"hello", "6\" pipes", "\"a\" and \"b\""] {
            assert!(options("fork", &OPTIONS, typed).is_ok(), "{typed}");
        }
    }

    #[test]
    fn names_that_look_like_numbers_or_options_are_refused() {
        for typed in ["--name", "--name 7", "--name -x", "--name a/b", "--name parent", "--model", "--model="] {
            assert!(options("fork", &OPTIONS, typed).is_err(), "{typed}");
        }
    }
}
