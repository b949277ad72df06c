//! The prompt and the deadline of a run.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::base::error::{Error, ErrorKind, Result, system_message};
use crate::cli::arguments::Arguments;

#[derive(Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The part from the command line.
    pub text: Option<String>,
    /// Standard input is appended to it.
    pub has_input: bool,
    /// The agent that -r names.
    agent: Option<String>,
}

impl Prompt {
    /// `is_terminal`: standard input is a terminal, and so is not read unless the prompt is `-`.
    pub fn of(arguments: &Arguments, is_terminal: bool) -> Result<Self> {
        let is_dash = |word: &&String| word.as_str() == "-";
        let has_dash = arguments.prompt.iter().any(|word| is_dash(&word));
        let parts: Vec<&str> = arguments.prompt.iter().filter(|word| !is_dash(word)).map(String::as_str).collect();
        let text = (!parts.is_empty()).then(|| parts.join(" "));
        let agent = arguments.resume.clone().flatten();
        if text.is_none() && is_terminal && !has_dash {
            return Err(nothing_to_send(agent.as_deref()));
        }
        Ok(Self { text, has_input: has_dash || !is_terminal, agent })
    }

    /// The whole prompt: text of the command line, an empty line, and the input.
    pub fn with_input(self, input: &str) -> Result<String> {
        let input = input.trim_end_matches(['\n', '\r']);
        let text = match (self.text, input.trim().is_empty()) {
            (Some(text), true) => text,
            (Some(text), false) => format!("{text}\n\n{input}"),
            (None, _) => input.to_owned(),
        };
        if text.trim().is_empty() { Err(nothing_to_send(self.agent.as_deref())) } else { Ok(text) }
    }
}

/// The prompt with the files of `--attach`, as a chat takes them.
pub fn with_files(prompt: String, files: &[PathBuf]) -> Result<String> {
    let mut prompt = prompt;
    for file in files {
        let shown = file.display();
        let path = file
            .canonicalize()
            .map_err(|error| Error::usage(format!("--attach {shown}: {}", system_message(&error))))?;
        let path = path.to_str().filter(|path| !path.contains(['"', '\n']));
        let path =
            path.ok_or_else(|| Error::usage(format!("--attach {shown}: rename the file: its path has a quote")))?;
        if !Path::new(path).is_file() {
            return Err(Error::usage(format!("--attach {shown}: not a regular file")));
        }
        prompt.push_str(&format!("\n@\"{path}\""));
    }
    Ok(prompt)
}

fn nothing_to_send(agent: Option<&str>) -> Error {
    Error::usage(match agent {
        Some(agent) => {
            format!("nothing to send: -r takes {agent:?} as the agent; pass a prompt after it, or pipe one in")
        }
        None => "nothing to send: pass a prompt or pipe one in".into(),
    })
}

/// When a run with `--timeout` has to end.
pub fn deadline(arguments: &Arguments, started: Instant) -> Result<Option<Instant>> {
    let Some(seconds) = arguments.timeout else { return Ok(None) };
    let wait = Duration::try_from_secs_f64(seconds).ok().filter(|wait| !wait.is_zero());
    // A time limit that the clock cannot represent is no limit.
    wait.map(|wait| started.checked_add(wait))
        .ok_or_else(|| Error::usage("--timeout needs a number of seconds above 0"))
}

/// What a run says whose time has passed while another process held the data directory.
pub fn held_too_long(error: Error, deadline: Option<Instant>) -> Error {
    match deadline {
        Some(deadline) if error.kind == ErrorKind::Held && deadline <= Instant::now() => {
            Error::new(ErrorKind::Limit, format!("reached the limit of --timeout: {}", error.message))
        }
        _ => error,
    }
}

/// How long failed requests of a run with a deadline are tried again, in milliseconds.
pub fn retry_ms(deadline: Option<Instant>) -> Option<u64> {
    // It can be added to any moment.
    const YEAR: u64 = 365 * 86_400_000;
    let left = deadline?.saturating_duration_since(Instant::now()).as_millis();
    Some(u64::try_from(left).unwrap_or(YEAR).min(YEAR))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Arguments {
        Arguments::read(std::iter::once("polylogue").chain(line.split(' '))).expect("valid arguments")
    }

    #[test]
    fn a_prompt_is_the_words_followed_by_the_input() {
        for (line, is_terminal, input, text) in [
            ("-p explain this", true, "", Ok("explain this")),
            ("-p explain this", false, "a\nb\n\n", Ok("explain this\n\na\nb")),
            ("-p explain", false, " \n", Ok("explain")),
            ("-p -", true, "typed\n", Ok("typed")),
            ("-p explain -", true, "typed", Ok("explain\n\ntyped")),
            ("-p", false, "  indented\n", Ok("  indented")),
            ("-p", false, "\n", Err(())),
            ("-p", true, "", Err(())),
        ] {
            let prompt = Prompt::of(&arguments(line), is_terminal).and_then(|prompt| {
                let read = if prompt.has_input { input } else { "" };
                prompt.with_input(read)
            });
            assert_eq!(
                prompt.map_err(|error| assert_eq!(error.kind, ErrorKind::Usage)),
                text.map(str::to_owned),
                "{line}"
            );
        }
    }

    #[test]
    fn without_a_prompt_what_follows_r_is_said_to_be_the_agent() {
        for (line, is_terminal) in [("-p -r fix-it", true), ("-p -r fix-it", false)] {
            let sent = Prompt::of(&arguments(line), is_terminal).and_then(|prompt| prompt.with_input(""));
            assert!(sent.unwrap_err().message.contains("-r takes \"fix-it\" as the agent; pass a prompt after it"));
        }
    }

    #[test]
    fn a_timeout_is_a_positive_number_of_seconds() {
        let start = Instant::now();
        let at = |line: &str| deadline(&arguments(line), start).map_err(|error| error.kind);
        assert_eq!(at("-p --timeout 1.5 x"), Ok(Some(start + Duration::from_millis(1500))));
        assert_eq!(at("-p --timeout 1e18 x").map(drop), Ok(()));
        for wrong in ["-p --timeout 0 x", "-p --timeout=-1 x", "-p --timeout nan x"] {
            assert_eq!(at(wrong), Err(ErrorKind::Usage), "{wrong}");
        }
    }
}
