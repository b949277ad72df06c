//! The lines of a trace, put together: a row for each turn, and for each moment outside of turns.

use std::collections::BTreeMap;

use crate::domain::trace::{Candidate, TraceLine, Watched};

/// What happened in one turn, or at one moment.
#[derive(Default)]
pub struct Row {
    pub at_us: u64,
    pub turn: Option<u64>,
    pub took_us: Option<u64>,
    /// In a slow turn, the step that took longest, and its microseconds.
    pub step: Option<(String, u64)>,
    /// The reason for the end of the wait.
    why: Option<String>,
    /// What was ready and ended it.
    ready: Vec<String>,
    /// What the wait listened to.
    pub watched: Vec<Watched>,
    /// How long it could last at most; none: for ever.
    pub timeout_us: Option<u64>,
    /// What could have ended it by its time.
    pub candidates: Vec<Candidate>,
    /// The events of each agent.
    pub entries: BTreeMap<String, Vec<String>>,
    /// The agents that are on a screen after it.
    pub shown: Vec<String>,
}

/// The rows in their order.
pub fn rows_of(lines: &[TraceLine]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut shown: BTreeMap<u64, String> = BTreeMap::new();
    let mut watched: Vec<Watched> = Vec::new();
    for line in lines {
        if let Some(new) = &line.watched {
            watched.clone_from(new);
        }
        let is_new =
            rows.last().is_none_or(|row| row.turn != line.turn || line.turn.is_none() && row.at_us != line.at_us);
        if is_new {
            rows.push(Row { at_us: line.at_us, turn: line.turn, ..Row::default() });
        }
        if let (Some(terminal), Some(agent), "focus") = (line.terminal, &line.agent, &*line.event) {
            shown.insert(terminal, agent.to_string());
        }
        let row = rows.last_mut().expect("one was pushed");
        row.add(line);
        row.shown = shown.values().cloned().collect();
        if line.event == "turn" {
            row.watched.clone_from(&watched);
        }
    }
    // An agent that is only named is nothing that happens.
    rows.retain(|row| row.turn.is_some() || !row.entries.is_empty());
    rows
}

impl Row {
    /// What ended the wait.
    pub fn woken_by(&self) -> String {
        if self.ready.is_empty() { self.why.clone().unwrap_or_default() } else { self.ready.join(" ") }
    }

    fn add(&mut self, line: &TraceLine) {
        match &*line.event {
            "turn" => {
                (self.timeout_us, self.candidates) = (line.timeout_us, line.candidates.clone());
                return self.why = line.why.as_ref().map(ToString::to_string);
            }
            "end" => {
                self.took_us = line.duration_us;
                return self.step = line.step.as_ref().map(ToString::to_string).zip(line.step_us);
            }
            "ready" => self.add_ready(line),
            _ => {}
        }
        let (Some(agent), Some(entry)) = (&line.agent, entry_of(line)) else { return };
        let entries = self.entries.entry(agent.to_string()).or_default();
        let both =
            entries.last().zip(line.callback.as_deref().zip(line.bytes)).and_then(|(last, piece)| sum(last, piece));
        match both {
            Some(both) => *entries.last_mut().expect("it was just read") = both,
            None => entries.push(entry),
        }
    }

    fn add_ready(&mut self, line: &TraceLine) {
        let number = line.number.map(|number| format!(" {number}")).unwrap_or_default();
        let source = line.source.iter().map(|source| format!("{source}{number}"));
        let new: Vec<String> = source.filter(|source| !self.ready.contains(source)).collect();
        self.ready.extend(new);
    }
}

/// `text 5` and seven more bytes are `text 12`.
fn sum(last: &str, (callback, bytes): (&str, u64)) -> Option<String> {
    let before: u64 = last.strip_prefix(callback)?.strip_prefix(' ')?.parse().ok()?;
    Some(format!("{callback} {}", before + bytes))
}

fn entry_of(line: &TraceLine) -> Option<String> {
    match (&*line.event, line.bytes.filter(|bytes| *bytes > 0)) {
        ("ready", _) => Some(readiness(line)),
        ("keys", _) => line.keys.map(|keys| if keys == 1 { "1 key".to_owned() } else { format!("{keys} keys") }),
        (_, Some(bytes)) => line.word().map(|word| format!("{word} {bytes}")),
        _ => line.word(),
    }
}

fn readiness(line: &TraceLine) -> String {
    match (line.error, line.read, line.write) {
        (Some(true), ..) => "failed".into(),
        (_, Some(true), Some(true)) => "in+out".into(),
        (_, Some(true), _) => "in".into(),
        _ => "out".into(),
    }
}
