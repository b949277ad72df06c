//! Which messages of a conversation a child is to have: the language of `/slice`. Pure: a text becomes a [`SliceSpec`], a spec
//! and a conversation become a [`Cut`], and nothing else is touched.
//!
//! ```text
//!   spec    = segment { "," segment }          in this order; white space may stand around a segment
//!   segment = range | "compact:" range | "summarize:" range [ ":" text ] | "inject:" text
//!   range   = [ bound ] ":" [ bound ]          counted from 0, without its end; a bound left out is the outermost one
//!   bound   = N | "-" N | N "%"                from the start, from the end, of the length (rounded down)
//!   text    = "'" characters "'"               a quote in it is written twice; everything else stands for itself
//! ```
//! The unit is the message as the model is told of it: what [`crate::domain::history::History::conversation`] gives.

mod compact;
mod cut;
mod parse;
mod summary;

use std::fmt;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::base::error::{Error, ErrorKind};
use crate::base::text;

pub use cut::{Cut, CutPart};
pub use summary::SYSTEM as SUMMARY_SYSTEM;

/// Messages of one cut: more are a slip of the finger, and would stand in the way of everybody else.
const MOST_MESSAGES: usize = 500_000;
/// Summaries of one cut: each is a request of its own.
const MOST_SUMMARIES: usize = 16;
/// Columns of a spec that are shown before and from a place in it.
const COLUMNS_BEFORE: usize = 50;
const COLUMNS_FROM: usize = 20;

/// What a person wrote behind `/slice`. Two are equal if they mean the same.
#[derive(Debug, Clone)]
pub struct SliceSpec {
    source: String,
    segments: Vec<Segment>,
}

/// One part of the child's conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Take(Span),
    Compact(Span),
    Summarize(Span, Option<String>),
    Inject(String),
}

/// A range that was not held against a conversation yet.
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

/// Where something stands in the text, in characters from 0. Where it stands does not change what it means: all are equal.
#[derive(Debug, Clone, Copy, Eq)]
struct Position(usize);

impl PartialEq for Position {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A place in a spec, in characters from 0, and what is wrong there.
type Fault = (usize, String);

/// Why a spec cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The spec as it was written.
    pub spec: String,
    /// Where in it, in characters from 0; its length for what is missing at its end.
    pub at: usize,
    /// What is wrong there.
    pub words: String,
}

/// A segment that was held against a conversation: indices of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ResolvedSegment<'a> {
    Take(Range<usize>),
    Compact(Range<usize>),
    Summarize(Range<usize>, Option<&'a str>),
    Inject(&'a str),
}

impl SliceSpec {
    /// Reads a spec, whole.
    ///
    /// # Errors
    /// It is none; the error points at the first character that cannot stand where it stands.
    pub fn parse(source: &str) -> Result<Self, SpecError> {
        match parse::segments(source) {
            Ok(segments) => Ok(Self { source: source.to_owned(), segments }),
            Err(fault) => Err(SpecError::new(source, fault)),
        }
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Holds the spec against a conversation of so many messages.
    fn resolve(&self, length: usize) -> Result<Vec<ResolvedSegment<'_>>, Fault> {
        let pieces: Vec<ResolvedSegment> =
            self.segments.iter().map(|one| one.resolve(length)).collect::<Result<_, _>>()?;
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
            (0, 0) => Err((0, "this cut has no message at all".into())),
            (MOST_MESSAGES.., _) => Err((0, format!("this cut has more than {MOST_MESSAGES} messages"))),
            (_, summaries) if summaries > MOST_SUMMARIES => {
                Err((0, format!("one cut can have {MOST_SUMMARIES} summaries, this one has {summaries}")))
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
                    return Err((span.at.0, "there is no message in this range to summarise".into()));
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
            Some(bound) if to < from => Err((bound.at.0, "the range ends before it begins".into())),
            _ => Ok(from..to),
        }
    }

    /// Whether it ends before it begins, whatever the conversation.
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
        found.ok_or_else(|| (self.at.0, format!("there are {length} messages")))
    }
}

impl SpecError {
    fn new(spec: &str, (at, words): Fault) -> Self {
        Self { spec: spec.to_owned(), at, words }
    }
}

/// The spec and, in the line below, a caret under the place with the words. A long spec is cut around the place.
impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.spec.chars().map(in_one_line).collect();
        let place = shown.char_indices().nth(self.at).map_or(shown.len(), |(at, _)| at);
        let (before, from) = (text::sanitise(&shown[..place]), text::sanitise(&shown[place..]));
        let (before, from) = (last_columns(&before), first_columns(&from));
        write!(f, "{before}{from}\n{}^ {}", " ".repeat(text::width(&before)), self.words)
    }
}

/// Every character has one that can be seen and that does not end the line; [`text::sanitise`] knows most of them.
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

/// The shortest way to write it, without white space.
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
            Self::Summarize(span, Some(goal)) => write!(f, "summarize:{span}:{}", quoted(goal)),
            Self::Inject(text) => write!(f, "inject:{}", quoted(text)),
        }
    }
}

fn quoted(text: &str) -> String {
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
