//! The wait before a turn as the original makes it: the three sets of `select`, and the minimum of the time limits.

use super::rows::Row;
use crate::base::text::{sanitise, wrap};
use crate::domain::trace::{Candidate, Watched};

const INDENT: usize = 10;
const LABEL: usize = 8;

/// The lines above a turn, in at most `width` columns.
pub fn draw<'a>(row: &'a Row, name: impl Fn(&'a str) -> &'a str, width: usize) -> String {
    let set = |is_in: fn(&Watched) -> bool| {
        let names: Vec<String> =
            row.watched.iter().filter(|watched| is_in(watched)).map(|watched| descriptor(watched, &name)).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(", ") }
    };
    let limit = row.timeout_us.map_or("for ever".to_owned(), milliseconds);
    let candidates: Vec<String> = row.candidates.iter().map(|candidate| time_limit(candidate, &name)).collect();
    let least = row.candidates.iter().map(|candidate| candidate.timeout_us).min();
    let least = match least {
        None => limit,
        Some(least) if row.timeout_us.is_some_and(|limit| limit < least) => {
            format!("{limit}, because work was left; otherwise {}", candidates.join(", "))
        }
        Some(_) => format!("{limit}, the least of {}", candidates.join(", ")),
    };
    let lines = [("read", set(|watched| watched.read)), ("write", set(|watched| watched.write)), ("wait", least)];
    lines.iter().map(|(label, text)| labelled(label, text, width)).collect()
}

fn descriptor<'a>(watched: &'a Watched, name: &impl Fn(&'a str) -> &'a str) -> String {
    let owner = watched.agent.as_deref().map_or(&*watched.source, name);
    let number = watched.number.map(|number| format!(" {number}")).unwrap_or_default();
    let fd = watched.fd.map(|fd| format!(" ({fd})")).unwrap_or_default();
    format!("{owner}{number}{fd}")
}

fn time_limit<'a>(candidate: &'a Candidate, name: &impl Fn(&'a str) -> &'a str) -> String {
    let agent = candidate.agent.as_deref().map(|agent| format!(" of {}", name(agent))).unwrap_or_default();
    format!("{}{agent} {}", candidate.why, milliseconds(candidate.timeout_us))
}

fn milliseconds(us: u64) -> String {
    format!("{} ms", us.div_ceil(1000))
}

fn labelled(label: &str, text: &str, width: usize) -> String {
    let text = sanitise(text);
    let columns = width.saturating_sub(INDENT + LABEL).max(1);
    let lines = wrap(&text, columns).enumerate().map(|(at, (_, line))| {
        let label = if at == 0 { label } else { "" };
        format!("{}{label:<LABEL$}{}\n", " ".repeat(INDENT), line.trim_end())
    });
    lines.collect()
}
