//! What a person searches for: words, phrases and filters, and the same as an expression of FTS5.
//!
//! | typed | finds |
//! |---|---|
//! | `csrf token` | messages with both words; the last one may be the beginning of a word of 4 or more letters |
//! | `"csrf token"` | the words in this order |
//! | `who:api` | messages of the agent with this name or number |
//! | `is:reply` | `prompt`, `reply`, `call`, `result`, `error`, `summary`; agents that are `living` or `killed` |
//! | `tool:bash` | calls of this tool and their results |
//! | `since:2h`, `since:2026-11-23` | newer ones: `m`, `h`, `d`, `w`, or a date |

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::base::error::{Error, Result};

/// A word prefix is searched for from this many letters on: shorter ones match too much to be quick.
const PREFIX_LETTERS: usize = 4;

/// The kinds of messages that a search can be limited to, each with the kinds as stored.
const KINDS: [(&str, &[&str]); 6] = [
    ("prompt", &["user"]),
    ("reply", &["assistant"]),
    ("call", &["tool_call"]),
    ("result", &["tool_result", "command"]),
    ("error", &["error"]),
    ("summary", &["compaction"]),
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    terms: Vec<Term>,
    who: Option<String>,
    /// Stored kinds, any of which.
    kinds: Vec<&'static str>,
    tool: Option<String>,
    /// Not older, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Only agents that live, or only killed ones.
    pub is_living: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    text: String,
    is_prefix: bool,
}

impl SearchQuery {
    pub fn parse(typed: &str, now_ms: i64) -> Result<Self> {
        let mut query = Self::default();
        let (pieces, ends_open) = split(typed);
        let last = pieces.len();
        for (at, (piece, is_quoted)) in pieces.into_iter().enumerate() {
            if !is_quoted && query.take_filter(&piece, now_ms)? {
                continue;
            }
            let is_word = !is_quoted && piece.chars().all(char::is_alphanumeric);
            let is_prefix = is_word && ends_open && at + 1 == last && piece.chars().count() >= PREFIX_LETTERS;
            if piece.chars().any(char::is_alphanumeric) {
                query.terms.push(Term { text: piece, is_prefix });
            }
        }
        Ok(query)
    }

    fn take_filter(&mut self, piece: &str, now_ms: i64) -> Result<bool> {
        let Some((name, value)) = piece.split_once(':').filter(|(_, value)| !value.is_empty()) else {
            return Ok(matches!(piece, "who:" | "is:" | "tool:" | "since:"));
        };
        match name {
            "who" => self.who = Some(value.to_owned()),
            "tool" => self.tool = Some(value.to_owned()),
            "since" => self.since = Some(since(value, now_ms)?),
            "is" if value == "living" => self.is_living = Some(true),
            "is" if value == "killed" => self.is_living = Some(false),
            "is" => {
                let known = KINDS.iter().find(|(kind, _)| *kind == value);
                let (_, stored) = known.ok_or_else(|| {
                    Error::usage(format!(
                        "is:{value} is unknown: is:prompt, reply, call, result, error, summary, living or killed"
                    ))
                })?;
                self.kinds.extend(*stored);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The words without quotes, in lower case, for excerpts.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.terms
            .iter()
            .flat_map(|term| term.text.split(|c: char| !c.is_alphanumeric()))
            .filter(|word| !word.is_empty())
    }

    /// The query as an expression of FTS5; `None` if it cannot match anything. `ordinals_of` finds the agents of a
    /// name.
    pub fn expression(&self, ordinals_of: impl Fn(&str) -> Result<Vec<i64>>) -> Result<Option<String>> {
        let mut parts: Vec<String> = Vec::new();
        for Term { text, is_prefix } in &self.terms {
            let star = if *is_prefix { " *" } else { "" };
            parts.push(format!("content : \"{}\"{star}", text.replace('"', "\"\"")));
        }
        if let Some(name) = &self.who {
            let tags: Vec<String> = ordinals_of(name)?.into_iter().map(tag_of_agent).collect();
            parts.push(any_of(tags));
        }
        if !self.kinds.is_empty() {
            parts.push(any_of(self.kinds.iter().map(|kind| tag_of_kind(kind)).collect()));
        }
        parts.extend(self.tool.iter().map(|tool| any_of(vec![tag_of_tool(tool)])));
        Ok((!parts.is_empty()).then(|| parts.join(" AND ")))
    }
}

fn any_of(tags: Vec<String>) -> String {
    // An agent that is not there has no messages.
    let tags = if tags.is_empty() { vec!["none".to_owned()] } else { tags };
    let tags: Vec<String> = tags.iter().map(|tag| format!("\"{tag}\"")).collect();
    format!("tags : ({})", tags.join(" OR "))
}

/// Pieces between blanks, with those in quotes as a whole; and whether the last one may be incomplete.
fn split(typed: &str) -> (Vec<(String, bool)>, bool) {
    let mut pieces = Vec::new();
    for (at, part) in typed.split('"').enumerate() {
        match at % 2 {
            1 => pieces.push((part.to_owned(), true)),
            _ => pieces.extend(part.split_whitespace().map(|word| (word.to_owned(), false))),
        }
    }
    let ends_open = typed.chars().last().is_some_and(|last| !last.is_whitespace() && last != '"');
    (pieces, ends_open)
}

fn since(value: &str, now_ms: i64) -> Result<i64> {
    let wrong = || {
        Error::usage(format!("since:{value} is no time: for example since:30m, since:2h, since:3d or since:2026-11-23"))
    };
    if let Ok(date) = value.parse::<Date>() {
        let start = date.to_zoned(TimeZone::system()).map_err(|_| wrong())?;
        return Ok(start.timestamp().as_millisecond());
    }
    let unit = value.chars().last().ok_or_else(wrong)?;
    let count: i64 = value[..value.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let minutes = match unit {
        'm' => 1,
        'h' => 60,
        'd' => 60 * 24,
        'w' => 60 * 24 * 7,
        _ => return Err(wrong()),
    };
    Ok(now_ms.saturating_sub(count.saturating_mul(minutes).saturating_mul(60_000)))
}

/// The kind of a stored message as a person types it after `is:`.
pub fn kind_name(stored: &str) -> &'static str {
    KINDS.iter().find(|(_, kinds)| kinds.contains(&stored)).map_or("message", |(name, _)| name)
}

/// The tag of the messages of an agent. Tags have letters and digits only, so that each is one token.
pub fn tag_of_agent(ordinal: i64) -> String {
    format!("a{ordinal}")
}

fn tag_of_kind(kind: &str) -> String {
    format!("k{}", token(kind))
}

fn tag_of_tool(tool: &str) -> String {
    format!("t{}", token(tool))
}

/// The tags of a message besides that of its agent.
pub fn tags_of(kind: &str, tool: Option<&str>) -> String {
    let tool = tool.map(tag_of_tool).unwrap_or_default();
    format!("{} {tool}", tag_of_kind(kind))
}

fn token(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The part of a text around the first of these words, on one line, at most about `columns` wide.
pub fn excerpt<'a>(content: &str, words: impl Iterator<Item = &'a str>, columns: usize) -> String {
    let lower = content.to_lowercase();
    // Lower case may have other lengths: then the beginning is shown.
    let is_same_length = lower.len() == content.len();
    let first = words.filter_map(|word| lower.find(&word.to_lowercase())).min().filter(|_| is_same_length);
    let first = first.unwrap_or(0);
    let start = if first < columns / 2 { 0 } else { first - columns / 3 };
    let start = (start..=content.len()).find(|at| content.is_char_boundary(*at)).unwrap_or(0);
    // From the beginning of a word on.
    let start = match content.get(start..first.max(start)).and_then(|before| before.find(char::is_whitespace)) {
        Some(blank) if start > 0 => start + blank,
        _ => start,
    };
    let end = content[start..].char_indices().nth(columns).map_or(content.len(), |(at, _)| start + at);
    let text: String = content[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
    let head = if start > 0 { "…" } else { "" };
    let tail = if end < content.len() { "…" } else { "" };
    format!("{head}{text}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(typed: &str) -> String {
        let query = SearchQuery::parse(typed, 0).unwrap();
        let numbers = |name: &str| Ok(if name == "api" { vec![1, 4] } else { Vec::new() });
        query.expression(numbers).unwrap().unwrap_or_default()
    }

    #[test]
    fn words_phrases_and_filters_become_an_expression() {
        assert_eq!(expression("the token"), "content : \"the\" AND content : \"token\" *");
        assert_eq!(
            expression("the tok"),
            "content : \"the\" AND content : \"tok\"",
            "short beginnings are whole words"
        );
        assert_eq!(expression("\"the token\" x"), "content : \"the token\" AND content : \"x\"");
        assert_eq!(expression("curl_multi "), "content : \"curl_multi\"");
        assert_eq!(expression("who:api token "), "content : \"token\" AND tags : (\"a1\" OR \"a4\")");
        assert_eq!(expression("who:none"), "tags : (\"none\")");
        assert_eq!(expression("is:result"), "tags : (\"ktoolresult\" OR \"kcommand\")");
        assert_eq!(expression("tool:read_file"), "tags : (\"treadfile\")");
        assert_eq!(expression("- : who:"), "");
        assert_eq!(expression("std::fs -x* (a"), "content : \"std::fs\" AND content : \"-x*\" AND content : \"(a\"");
    }

    #[test]
    fn times_and_states_are_read_and_bad_values_name_the_good_ones() {
        let since = |typed: &str| SearchQuery::parse(typed, 100_000_000).unwrap().since;
        assert_eq!([since("since:2h"), since("since:1m")], [Some(92_800_000), Some(99_940_000)]);
        assert!(since("since:1970-01-02").is_some());
        assert_eq!(SearchQuery::parse("is:killed", 0).unwrap().is_living, Some(false));
        for wrong in ["is:nonsense", "since:x", "since:ü", "since:5y"] {
            let error = SearchQuery::parse(wrong, 0).unwrap_err().message;
            assert!(error.contains(wrong.split(':').next().unwrap()), "{error}");
        }
    }

    #[test]
    fn an_excerpt_is_around_the_first_word() {
        let text = format!("{} the CSRF token\nis missing {}", "a ".repeat(100), "b ".repeat(100));
        let cut = excerpt(&text, ["csrf"].into_iter(), 30);
        assert!(cut.contains("the CSRF token is") && cut.starts_with('…') && cut.ends_with('…'), "{cut}");
        assert_eq!(excerpt("short", ["none"].into_iter(), 30), "short");
        assert_eq!(excerpt("İstanbul", ["bul"].into_iter(), 30), "İstanbul");
    }
}
