//! The language of `/slice`: which messages of a conversation a child gets. Text is parsed to a [`SliceSpec`], which is
//! applied to a conversation and gives a [`Cut`].
//!
//! ```text
//!   spec    = segment { "," segment }          in this order; white space around a segment is ignored
//!   segment = range | "compact:" range | "summarize:" range [ ":" text ] | "inject:" text
//!   range   = [ bound ] ":" [ bound ]          counted from 0, end excluded; omitted bounds are the outermost
//!   bound   = N | "-" N | N "%"                from the start, from the end, of the length (rounded down)
//!   text    = "'" characters "'"               a quote in it is written twice; there are no other escapes
//! ```
//! Indices count the messages that are sent to the model, as given by [`crate::domain::history::History::conversation`].

mod compact;
mod cut;
mod parse;
mod summary;

use std::fmt;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::base::error::{Error, ErrorKind};
use crate::base::text;

pub use cut::Cut;
pub(super) use cut::can_cut_before;
pub use summary::SYSTEM as SUMMARY_SYSTEM;
pub(super) use summary::entry;

/// More messages are a typing mistake, and would block all other agents.
const MAX_MESSAGES: usize = 500_000;
/// Each summary is a request of its own.
const MAX_SUMMARIES: usize = 16;
/// Columns of a spec that are shown before and after the position of an error.
const COLUMNS_BEFORE: usize = 50;
const COLUMNS_FROM: usize = 20;

/// A parsed spec. Two are equal if their segments are.
#[derive(Debug, Clone)]
pub struct SliceSpec {
    source: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Take(Span),
    Compact(Span),
    Summarize(Span, Option<String>),
    Inject(String),
}

/// A range whose bounds are not resolved yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: Option<Bound>,
    to: Option<Bound>,
    at: Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bound {
    point: Point,
    at: Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    FromStart(usize),
    FromEnd(usize),
    Percent(usize),
}

/// A position in the text in characters from 0, for errors. All positions are equal, so that they do not affect equality
/// of specs.
#[derive(Debug, Clone, Copy, Eq)]
struct Position(usize);

impl PartialEq for Position {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The position of an error in characters from 0, and its message.
type Fault = (usize, String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    pub spec: String,
    /// The position in characters from 0; the length of the spec if something is missing at its end.
    pub at: usize,
    pub message: String,
}

/// A segment with resolved indices of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ResolvedSegment<'a> {
    Take(Range<usize>),
    Compact(Range<usize>),
    Summarize(Range<usize>, Option<&'a str>),
    Inject(&'a str),
}

impl SliceSpec {
    /// Parses a spec.
    ///
    /// # Errors
    /// The spec is invalid; the error points at the first wrong character.
    pub fn parse(source: &str) -> Result<Self, SpecError> {
        match parse::segments(source) {
            Ok(segments) => Ok(Self { source: source.to_owned(), segments }),
            Err(fault) => Err(SpecError::new(source, fault)),
        }
    }

    /// The spec as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Resolves the spec for a conversation of this many messages.
    fn resolve(&self, length: usize) -> Result<Vec<ResolvedSegment<'_>>, Fault> {
        let pieces: Vec<ResolvedSegment> =
            self.segments.iter().map(|segment| segment.resolve(length)).collect::<Result<_, _>>()?;
        let (mut messages, mut summaries) = (0_usize, 0);
        for piece in &pieces {
            match piece {
                ResolvedSegment::Take(range) | ResolvedSegment::Compact(range) => {
                    messages = messages.saturating_add(range.len())
                }
                ResolvedSegment::Inject(_) => messages += 1,
                ResolvedSegment::Summarize(..) => summaries += 1,
            }
        }
        match (messages, summaries) {
            (0, 0) => Err((0, "no messages selected".into())),
            (MAX_MESSAGES.., _) => Err((0, format!("more than {MAX_MESSAGES} messages selected"))),
            (_, summaries) if summaries > MAX_SUMMARIES => {
                Err((0, format!("at most {MAX_SUMMARIES} summaries are allowed (got {summaries})")))
            }
            _ => Ok(pieces),
        }
    }
}

impl PartialEq for SliceSpec {
    fn eq(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

impl Eq for SliceSpec {}

impl Segment {
    fn resolve(&self, length: usize) -> Result<ResolvedSegment<'_>, Fault> {
        Ok(match self {
            Self::Take(span) => ResolvedSegment::Take(span.resolve(length)?),
            Self::Compact(span) => ResolvedSegment::Compact(span.resolve(length)?),
            Self::Summarize(span, goal) => match span.resolve(length)? {
                range if range.is_empty() => {
                    return Err((span.at.0, "no messages to summarize in this range".into()));
                }
                range => ResolvedSegment::Summarize(range, goal.as_deref()),
            },
            Self::Inject(text) => ResolvedSegment::Inject(text),
        })
    }
}

impl Span {
    fn resolve(&self, length: usize) -> Result<Range<usize>, Fault> {
        let from = self.from.map_or(Ok(0), |bound| bound.resolve(length))?;
        let to = self.to.map_or(Ok(length), |bound| bound.resolve(length))?;
        match self.to {
            Some(bound) if to < from => Err((bound.at.0, "range ends before it begins".into())),
            _ => Ok(from..to),
        }
    }

    /// Whether it ends before it begins for a conversation of any length.
    fn is_reversed(&self) -> bool {
        match (self.from.map(|bound| bound.point), self.to.map(|bound| bound.point)) {
            (Some(Point::FromStart(from)), Some(Point::FromStart(to))) => to < from,
            (Some(Point::FromEnd(from)), Some(Point::FromEnd(to))) => from < to,
            (Some(Point::Percent(from)), Some(Point::Percent(to))) => to < from,
            _ => false,
        }
    }
}

impl Bound {
    fn resolve(&self, length: usize) -> Result<usize, Fault> {
        let found = match self.point {
            Point::FromStart(number) => Some(number).filter(|number| *number <= length),
            Point::FromEnd(number) => length.checked_sub(number),
            Point::Percent(share) => Some(length / 100 * share + length % 100 * share / 100),
        };
        found.ok_or_else(|| {
            (
                self.at.0,
                format!(
                    "there {} only",
                    if length == 1 { "is 1 message".into() } else { format!("are {length} messages") }
                ),
            )
        })
    }
}

impl SpecError {
    fn new(spec: &str, (at, message): Fault) -> Self {
        Self { spec: spec.to_owned(), at, message }
    }
}

/// The spec and, below it, a caret under the position with the message. A long spec is truncated around the position.
impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.spec.chars().map(in_one_line).collect();
        let position = shown.char_indices().nth(self.at).map_or(shown.len(), |(at, _)| at);
        let (before, from) = (text::sanitise(&shown[..position]), text::sanitise(&shown[position..]));
        let (before, from) = (last_columns(&before), first_columns(&from));
        write!(f, "{before}{from}\n{}^ {}", " ".repeat(text::width(&before)), self.message)
    }
}

/// Makes newlines and tabs visible, which [`text::sanitise`] keeps.
fn in_one_line(c: char) -> char {
    match c {
        '\n' => '␊',
        '\t' => '␉',
        _ => c,
    }
}

fn last_columns(text: &str) -> String {
    let mut columns = 0;
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        columns += text::grapheme_width(grapheme);
        if columns > COLUMNS_BEFORE {
            return format!("…{}", &text[at + grapheme.len()..]);
        }
    }
    text.to_owned()
}

fn first_columns(text: &str) -> String {
    let first = text::truncate(text, COLUMNS_FROM);
    if first.len() < text.len() { format!("{first}…") } else { first.to_owned() }
}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Self {
        Self::new(ErrorKind::Usage, error.to_string())
    }
}

/// The shortest form, without white space.
impl fmt::Display for SliceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, segment) in self.segments.iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            segment.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Take(span) => span.fmt(f),
            Self::Compact(span) => write!(f, "compact:{span}"),
            Self::Summarize(span, None) => write!(f, "summarize:{span}"),
            Self::Summarize(span, Some(goal)) => write!(f, "summarize:{span}:{}", quote(goal)),
            Self::Inject(text) => write!(f, "inject:{}", quote(text)),
        }
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(from) = self.from {
            from.point.fmt(f)?;
        }
        f.write_str(":")?;
        self.to.map_or(Ok(()), |to| to.point.fmt(f))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FromStart(number) => write!(f, "{number}"),
            Self::FromEnd(number) => write!(f, "-{number}"),
            Self::Percent(share) => write!(f, "{share}%"),
        }
    }
}

#[cfg(test)]
mod tests;
