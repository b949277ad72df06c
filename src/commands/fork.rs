//! `/fork`: a child of this agent with its conversation.

use super::complete::{before_last_word, complete_word, models};
use super::{CommandContext, CommandSpec, WhenBusy, checked_name, unknown_option, unquoted, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const FORK: CommandSpec = CommandSpec {
    name: "fork",
    aliases: &[],
    arguments: "[--name N] [--model M] [PROMPT]",
    about: "create a child with this conversation",
    busy: WhenBusy::Parks,
    run,
    complete,
};

fn run(_: &CommandContext, arguments: &str) -> Result<InputResult> {
    parse(arguments).map(|change| InputResult::NewState(change, None))
}

fn complete(context: &CommandContext, typed: &str) -> Vec<String> {
    let before: Vec<&str> = before_last_word(typed).split_whitespace().collect();
    // Options are pairs of a name and a value; anything else begins the prompt.
    let is_open = before.chunks(2).all(|pair| pair[0].starts_with("--name") || pair[0].starts_with("--model"));
    match before.last() {
        _ if !is_open => Vec::new(),
        Some(&"--model") if before.len() % 2 == 1 => complete_word(typed, models(context)),
        _ if before.len().is_multiple_of(2) => complete_word(typed, ["--name ", "--model "].map(str::to_owned)),
        _ => Vec::new(),
    }
}

/// Options come first; the rest is the prompt, quoted or not.
fn parse(arguments: &str) -> Result<Change> {
    let (mut name, mut model, mut rest) = (None, None, arguments);
    loop {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        let slot = match option {
            "--name" => &mut name,
            "--model" => &mut model,
            "--" => {
                rest = after.trim_start();
                break;
            }
            unknown if unknown.starts_with("--") => {
                return Err(unknown_option("fork", unknown, &["--name", "--model"]));
            }
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
    let name = name.map(|name| checked_name(&name)).transpose()?;
    let prompt = unquoted(rest.trim());
    Ok(Change::Fork { prompt: (!prompt.is_empty()).then(|| prompt.to_owned()), name, model })
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
            assert_eq!(parse(typed).unwrap(), Change::Fork { prompt, name, model }, "{typed}");
        }
    }

    #[test]
    fn an_unknown_option_is_an_error_that_names_the_nearest() {
        for (typed, expected) in [("--naem x", "did you mean --name?"), ("--frobnicate", "--name, --model")] {
            let error = parse(typed).unwrap_err();
            assert!(error.message.contains(expected), "{error}");
        }
    }

    #[test]
    fn names_that_look_like_numbers_or_options_are_refused() {
        for typed in ["--name", "--name 7", "--name -x", "--name a/b", "--name parent", "--model", "--model="] {
            assert!(parse(typed).is_err(), "{typed}");
        }
    }
}
