//! What the command line asks of a run.

use std::time::{Duration, Instant};

use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::arguments::Arguments;

/// An agent to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// A new one.
    New,
    /// The one that was spoken to last.
    Last,
    /// The one that is meant by this.
    Named(String),
    /// One that was not named: those that there are have to be told.
    Unnamed,
}

impl Whom {
    /// Whom the command line means.
    pub fn of(arguments: &Arguments) -> Self {
        match &arguments.resume {
            _ if arguments.continue_last => Self::Last,
            Some(Some(agent)) => Self::Named(agent.clone()),
            Some(None) => Self::Unnamed,
            None => Self::New,
        }
    }
}

/// The words of a prompt, and whether standard input belongs to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What stands on the command line.
    pub words: Option<String>,
    /// Standard input is a part of it.
    pub has_input: bool,
}

impl Prompt {
    /// The prompt of this command line; `is_terminal` tells what standard input is.
    ///
    /// # Errors
    /// There is nothing to send.
    pub fn of(arguments: &Arguments, is_terminal: bool) -> Result<Self> {
        let is_dash = |word: &&String| word.as_str() == "-";
        let has_dash = arguments.prompt.iter().any(|word| is_dash(&word));
        let words: Vec<&str> = arguments.prompt.iter().filter(|word| !is_dash(word)).map(String::as_str).collect();
        let words = (!words.is_empty()).then(|| words.join(" "));
        if words.is_none() && is_terminal && !has_dash {
            return Err(nothing());
        }
        Ok(Self { words, has_input: has_dash || !is_terminal })
    }

    /// The whole text: the words, an empty line, and what was read.
    ///
    /// # Errors
    /// There is nothing to send.
    pub fn joined(self, input: &str) -> Result<String> {
        let input = input.trim_end_matches(['\n', '\r']);
        let text = match (self.words, input.trim().is_empty()) {
            (Some(words), true) => words,
            (Some(words), false) => format!("{words}\n\n{input}"),
            (None, _) => input.to_owned(),
        };
        if text.trim().is_empty() { Err(nothing()) } else { Ok(text) }
    }
}

fn nothing() -> Error {
    Error::new(ErrorKind::Usage, "there is nothing to send: polylogue -p PROMPT, or standard input, says what")
}

/// When a run that began then has to end.
///
/// # Errors
/// The number of seconds is none.
pub fn deadline(arguments: &Arguments, started: Instant) -> Result<Option<Instant>> {
    let Some(seconds) = arguments.timeout else { return Ok(None) };
    let wait = Duration::try_from_secs_f64(seconds).ok().filter(|wait| !wait.is_zero());
    // A time that no clock will ever tell is none at all.
    wait.map(|wait| started.checked_add(wait))
        .ok_or_else(|| Error::new(ErrorKind::Usage, "--timeout takes a number of seconds above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn arguments(words: &str) -> Arguments {
        Arguments::try_parse_from(std::iter::once("polylogue").chain(words.split(' '))).expect("fine")
    }

    #[test]
    fn a_prompt_is_joined_from_its_words_and_from_what_is_not_typed() {
        for (words, is_terminal, input, text) in [
            ("-p explain this", true, "", Ok("explain this")),
            ("-p explain this", false, "a\nb\n\n", Ok("explain this\n\na\nb")),
            ("-p explain", false, " \n", Ok("explain")),
            ("-p -", true, "typed\n", Ok("typed")),
            ("-p explain -", true, "typed", Ok("explain\n\ntyped")),
            ("-p", false, "  indented\n", Ok("  indented")),
            ("-p", false, "\n", Err(())),
            ("-p", true, "", Err(())),
        ] {
            let prompt = Prompt::of(&arguments(words), is_terminal).and_then(|prompt| {
                let read = if prompt.has_input { input } else { "" };
                prompt.joined(read)
            });
            assert_eq!(
                prompt.map_err(|error| assert_eq!(error.kind, ErrorKind::Usage)),
                text.map(str::to_owned),
                "{words}"
            );
        }
    }

    #[test]
    fn a_timeout_is_a_time_that_passes() {
        let start = Instant::now();
        let at = |words: &str| deadline(&arguments(words), start).map_err(|error| error.kind);
        assert_eq!(at("-p --timeout 1.5 x"), Ok(Some(start + Duration::from_millis(1500))));
        assert_eq!(at("-p --timeout 1e18 x").map(drop), Ok(()));
        for wrong in ["-p --timeout 0 x", "-p --timeout=-1 x", "-p --timeout nan x"] {
            assert_eq!(at(wrong), Err(ErrorKind::Usage), "{wrong}");
        }
    }

    #[test]
    fn who_is_meant_is_read_from_the_flags() {
        for (words, whom) in [
            ("-p x", Whom::New),
            ("-c x", Whom::Last),
            ("-p -r", Whom::Unnamed),
            ("-r bob -p x", Whom::Named("bob".into())),
        ] {
            assert_eq!(Whom::of(&arguments(words)), whom, "{words}");
        }
    }
}
