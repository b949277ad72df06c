//! `/fork`: a child of this agent, with its history.

use super::{CommandSpec, House, nothing};
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::flow::{Change, InputResult};

/// `/fork`.
pub const FORK: CommandSpec = CommandSpec {
    name: "fork",
    aliases: &[],
    arguments: "[--name NAME] [PROMPT]",
    about: "a child that knows what this one knows",
    run,
    complete: nothing,
};

fn run(house: &House, arguments: &str) -> Result<InputResult> {
    let (name, prompt) = parse(arguments)?;
    if let Some(name) = &name
        && house.roster.iter().any(|agent| agent.identity.name.as_ref() == Some(name))
    {
        return Err(Error::new(ErrorKind::Usage, format!("an agent is called {name:?} already: choose another name")));
    }
    Ok(InputResult::NewState(Change::Fork { prompt, name }, None))
}

fn parse(arguments: &str) -> Result<(Option<String>, Option<String>)> {
    let (name, rest) = match arguments.strip_prefix("--name") {
        Some(rest) if rest.is_empty() || rest.starts_with([' ', '=']) => {
            let rest = rest.trim_start_matches([' ', '=']);
            let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            (Some(checked(name)?), rest.trim())
        }
        _ => (None, arguments),
    };
    let prompt = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(rest);
    Ok((name, (!prompt.is_empty()).then(|| prompt.to_owned())))
}

fn checked(name: &str) -> Result<String> {
    let is_fine = name.starts_with(char::is_alphabetic)
        && name.chars().count() <= 32
        && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    if is_fine {
        return Ok(name.to_owned());
    }
    let words = format!("{name:?} is no name: a letter, then up to 31 letters, digits, - or _");
    Err(Error::new(ErrorKind::Usage, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_prompt_are_told_apart() {
        let some = |text: &str| Some(text.to_owned());
        for (typed, name, prompt) in [
            ("", None, None),
            ("say hello", None, some("say hello")),
            ("\"say hello\"", None, some("say hello")),
            ("--name scout", some("scout"), None),
            ("--name=scout look around", some("scout"), some("look around")),
            ("--names are hard", None, some("--names are hard")),
        ] {
            assert_eq!(parse(typed).unwrap(), (name, prompt), "{typed}");
        }
    }

    #[test]
    fn what_could_be_taken_for_a_number_or_an_option_is_no_name() {
        for typed in ["--name", "--name 7", "--name -x", "--name a/b"] {
            assert!(parse(typed).is_err(), "{typed}");
        }
    }
}
