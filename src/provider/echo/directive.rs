//! Parses the directives of echo, which the module above describes.

use std::time::Duration;

use crate::base::error::{Error, ErrorKind};
use crate::provider::failure;

/// The longest wait of `%slow`: an hour.
const MAX_WAIT_MS: u64 = 3_600_000;

#[derive(Debug, PartialEq)]
pub(super) enum Directive {
    Text(String),
    Slow(Duration),
    Repeat(usize),
    Think(String),
    Tool { name: String, arguments: String },
    Ending(Ending),
}

#[derive(Debug, PartialEq)]
pub(super) enum Ending {
    Stop,
    Length,
    Cut,
    Fail(Error),
    Hang,
}

/// A segment, or an error message for its first invalid directive.
pub(super) type Segment = Result<Vec<Directive>, String>;

const FORMS: &[(&str, &str)] = &[
    ("slow", "%slow MS"),
    ("repeat", "%repeat N"),
    ("think", "%think TEXT"),
    ("tool", "%tool NAME JSON"),
    ("next", "%next"),
    ("fail", "%fail KIND-or-STATUS [retry-after=S] [MESSAGE]"),
    ("hang", "%hang"),
    ("cut", "%cut"),
    ("length", "%length"),
];

pub(super) fn segments(message: &str) -> Vec<Segment> {
    let mut segments = vec![Ok(Vec::new())];
    for line in message.lines() {
        if line.trim_end() == "%next" {
            segments.push(Ok(Vec::new()));
            continue;
        }
        let Some(segment) = segments.last_mut() else { continue };
        if let Ok(directives) = segment {
            match parse(line) {
                Ok(directive) => directives.push(directive),
                Err(message) => *segment = Err(message),
            }
        }
    }
    segments
}

fn parse(line: &str) -> Result<Directive, String> {
    let Some((word, rest)) = split(line) else { return Ok(Directive::Text(line.to_owned())) };
    let directive = match word {
        "slow" => number(rest).filter(|&ms| ms <= MAX_WAIT_MS).map(|ms| Directive::Slow(Duration::from_millis(ms))),
        "repeat" => number(rest).and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0).map(Directive::Repeat),
        "think" => (!rest.is_empty()).then(|| Directive::Think(rest.to_owned())),
        "tool" => tool(rest),
        "fail" => fail(rest).map(|error| Directive::Ending(Ending::Fail(error))),
        "hang" => rest.is_empty().then_some(Directive::Ending(Ending::Hang)),
        "cut" => rest.is_empty().then_some(Directive::Ending(Ending::Cut)),
        "length" => rest.is_empty().then_some(Directive::Ending(Ending::Length)),
        _ => None,
    };
    directive.ok_or_else(|| invalid(word, line))
}

/// The word and the rest of a directive: `%` and a letter. "%%" is text.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix('%').filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    Some((word, rest.trim()))
}

fn invalid(word: &str, line: &str) -> String {
    let line = failure::excerpt(line);
    match FORMS.iter().find(|(name, _)| *name == word) {
        Some((_, form)) => format!("Invalid directive `{line}`. Usage: `{form}`."),
        None => {
            let forms: Vec<_> = FORMS.iter().map(|(_, form)| format!("`{form}`")).collect();
            format!("Unknown directive `{line}`. Directives: {}.", forms.join(", "))
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// The JSON is not checked, so that a malformed call can be tried too.
fn tool(rest: &str) -> Option<Directive> {
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, "{}"));
    (!name.is_empty()).then(|| Directive::Tool { name: name.to_owned(), arguments: arguments.trim().to_owned() })
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
        None => failure::of_kind(*by_name()?, "simulated failure", message),
    };
    error.retry_after = wait;
    Some(error)
}

/// The error that `%cut` causes.
pub(super) fn incomplete() -> Error {
    Error::new(ErrorKind::Network, "simulated disconnect")
}
