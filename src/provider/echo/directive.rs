//! Reads the directives of echo. What they mean is written in the module above.

use std::time::Duration;

use crate::base::error::{Error, ErrorKind};
use crate::provider::failure;

/// The longest wait of `!slow`: an hour.
const MAX_WAIT_MS: u64 = 3_600_000;

/// One line of a segment.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    Say(String),
    Slow(Duration),
    Repeat(usize),
    Think(String),
    Tool { name: String, arguments: String },
    Ending(Ending),
}

/// How a reply ends.
#[derive(Debug, PartialEq)]
pub(super) enum Ending {
    Stop,
    Length,
    Cut,
    Fail(Error),
    Hang,
}

/// A segment, or the complaint about its first directive that cannot be read.
pub(super) type Segment = Result<Vec<Act>, String>;

/// The form of each directive.
const FORMS: &[(&str, &str)] = &[
    ("slow", "!slow MS"),
    ("repeat", "!repeat N"),
    ("think", "!think TEXT"),
    ("tool", "!tool NAME JSON"),
    ("next", "!next"),
    ("fail", "!fail KIND-or-STATUS [retry-after=S] [MESSAGE]"),
    ("hang", "!hang"),
    ("cut", "!cut"),
    ("length", "!length"),
];

/// The segments of a message; there is always a first one.
pub(super) fn segments(message: &str) -> Vec<Segment> {
    let mut segments = vec![Ok(Vec::new())];
    for line in message.lines() {
        if line.trim_end() == "!next" {
            segments.push(Ok(Vec::new()));
            continue;
        }
        let Some(segment) = segments.last_mut() else { continue };
        if let Ok(acts) = segment {
            match act(line) {
                Ok(act) => acts.push(act),
                Err(complaint) => *segment = Err(complaint),
            }
        }
    }
    segments
}

fn act(line: &str) -> Result<Act, String> {
    let Some((word, rest)) = directive(line) else { return Ok(Act::Say(line.to_owned())) };
    let act = match word {
        "slow" => number(rest).filter(|&ms| ms <= MAX_WAIT_MS).map(|ms| Act::Slow(Duration::from_millis(ms))),
        "repeat" => number(rest).and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0).map(Act::Repeat),
        "think" => (!rest.is_empty()).then(|| Act::Think(rest.to_owned())),
        "tool" => tool(rest),
        "fail" => fail(rest).map(|error| Act::Ending(Ending::Fail(error))),
        "hang" => rest.is_empty().then_some(Act::Ending(Ending::Hang)),
        "cut" => rest.is_empty().then_some(Act::Ending(Ending::Cut)),
        "length" => rest.is_empty().then_some(Act::Ending(Ending::Length)),
        _ => None,
    };
    act.ok_or_else(|| complaint(word, line))
}

/// The word and the rest of a line that is a directive: `!` and a letter. "!!!" is only loud.
fn directive(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix('!').filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    Some((word, rest.trim()))
}

fn complaint(word: &str, line: &str) -> String {
    let line = failure::excerpt(line);
    match FORMS.iter().find(|(name, _)| *name == word) {
        Some((_, form)) => format!("I cannot read `{line}`. The right form is `{form}`."),
        None => {
            let forms: Vec<_> = FORMS.iter().map(|(_, form)| format!("`{form}`")).collect();
            format!("I do not know `{line}`. I know {}.", forms.join(", "))
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// The JSON is passed on as written, so that a malformed call can be tried too.
fn tool(rest: &str) -> Option<Act> {
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, "{}"));
    (!name.is_empty()).then(|| Act::Tool { name: name.to_owned(), arguments: arguments.trim().to_owned() })
}

fn fail(rest: &str) -> Option<Error> {
    let (what, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (wait, message) = match rest.trim().strip_prefix("retry-after=") {
        Some(rest) => {
            let (seconds, message) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            (Some(seconds.parse().ok()?), message.trim())
        }
        None => (None, rest.trim()),
    };
    let status = what.parse().ok().filter(|status| (300..600).contains(status));
    let by_name = || ErrorKind::PROVIDER_KINDS.iter().find(|kind| kind.name() == what);
    let mut error = match status {
        Some(status) => failure::of_status(status, None, message),
        None => failure::of_kind(*by_name()?, "echo was told to fail", message),
    };
    error.retry_after = wait;
    Some(error)
}

/// The error of `!cut`.
pub(super) fn cut() -> Error {
    Error::new(ErrorKind::Network, "stream cut: echo was told to break off")
}
