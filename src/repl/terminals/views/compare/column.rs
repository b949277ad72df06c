//! A column of the comparison as it was last laid out.

use std::time::Duration;

use crate::base::text;
use crate::base::text::dollars;
use crate::domain::scrollback::{LineKind, Reader, Scrollback};
use crate::repl::core::activity::one_line;
use crate::repl::core::{Core, activity};
use crate::repl::terminals::draw::text_width;
use crate::team::compare::{Answer, AnswerState, Column, Part};

/// A column as it was last laid out.
pub(super) struct ShownColumn {
    pub column: Column,
    /// What was laid out: the kind and the text of each part.
    pub parts: Vec<(u8, String)>,
    pub scrollback: Scrollback,
    pub state: AnswerState,
    /// How long it has taken, tokens, cost, and the files that were changed.
    pub time: Option<Duration>,
    pub tokens: u64,
    pub cost: Option<u64>,
    pub files: Vec<String>,
    /// What it waits for, or asks.
    pub activity: String,
}

impl ShownColumn {
    pub fn new(column: Column) -> Self {
        Self {
            column,
            parts: Vec::new(),
            scrollback: Scrollback::default(),
            state: AnswerState::Waits,
            time: None,
            tokens: 0,
            cost: None,
            files: Vec::new(),
            activity: String::new(),
        }
    }

    pub fn update(&mut self, answer: Answer<'_>) {
        (self.state, self.time, self.tokens) = (answer.state, answer.time, answer.usage.tokens());
        self.cost = answer.usage.cost.filter(|_| self.tokens > 0);
        let parts: Vec<(LineKind, u8, &str)> = answer.parts.iter().map(described).collect();
        if !self.extends(&parts) {
            (self.parts, self.scrollback) = (Vec::new(), Scrollback::default());
        }
        let was_empty = self.parts.is_empty();
        let last = self.parts.len().checked_sub(1);
        for (at, (kind, number, whole)) in parts.iter().enumerate().skip(last.unwrap_or(0)) {
            let shown = self.parts.get(at).map_or(0, |(_, shown)| shown.len());
            let is_new = at >= self.parts.len();
            if is_new {
                self.scrollback.close();
                self.parts.push((*number, String::new()));
            }
            if let Some((_, text)) = self.parts.get_mut(at) {
                text.push_str(&whole[shown..]);
                self.scrollback.extend(*kind, &whole[shown..]);
            }
        }
        self.files = answer.files;
        if was_empty && !self.parts.is_empty() {
            self.scrollback.to_top(Reader::Shared);
        }
        self.scrollback.update();
    }

    /// Whether these parts begin with those that were laid out.
    fn extends(&self, parts: &[(LineKind, u8, &str)]) -> bool {
        let last = self.parts.len().saturating_sub(1);
        self.parts.len() <= parts.len()
            && self.parts.iter().zip(parts).enumerate().all(|(at, ((number, text), (_, other, whole)))| {
                number == other && if at == last { whole.starts_with(text.as_str()) } else { text == whole }
            })
    }

    pub fn is_at_end(&self, (columns, height): (u16, usize)) -> bool {
        self.scrollback.shows_end(Reader::Shared, text_width(columns), rows_of(height))
    }
}

pub(super) fn rows_of(height: usize) -> u16 {
    u16::try_from(height).unwrap_or(u16::MAX)
}

fn described<'a>(part: &'a Part<'a>) -> (LineKind, u8, &'a str) {
    match part {
        Part::Text(text) => (LineKind::Assistant, 0, text),
        Part::Person(text) => (LineKind::Person, 1, text),
        Part::Call(title) => (LineKind::ToolCall, 2, title),
        Part::Note(text) => (LineKind::Mark, 3, text),
        Part::Error(text) => (LineKind::Error, 4, text),
    }
}

/// What a column waits for, or what it asks.
pub(super) fn activity(core: &Core, shown: &ShownColumn) -> String {
    let Some(agent) = core.agent(shown.column.agent) else { return String::new() };
    match (shown.state, agent.question()) {
        (AnswerState::Asks, Some(asked)) => {
            format!("{}{} (y shows it)", asked.question.answers.ask, one_line(&asked.question.title))
        }
        (AnswerState::Waits, _) if shown.time.is_none() => "the prompt is queued".to_owned(),
        (AnswerState::Waits, _) => activity::activity(core, agent.id(), false),
        _ => String::new(),
    }
}

/// Whole seconds while it is written, then tenths.
pub(super) fn shown_time(shown: &ShownColumn) -> String {
    match shown.time {
        None => String::new(),
        Some(time) if shown.state.is_running() => format!("{} s", time.as_secs()),
        Some(time) if time.as_secs() < 60 => format!("{:.1} s", time.as_secs_f64()),
        Some(time) => format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
    }
}

/// ` 4.1 s  812 tok  $0.031`, closer together where there is no room.
pub(super) fn measures(shown: &ShownColumn, columns: u16) -> String {
    let in_style = |unit: &str, between: &str| {
        let tokens = (shown.tokens > 0).then(|| format!("{} {unit}", text::with_commas(shown.tokens)));
        let cost = shown.cost.map(|cost| if cost == 0 { "free".to_owned() } else { format!("${}", dollars(cost)) });
        let time = Some(shown_time(shown)).filter(|time| !time.is_empty());
        let parts: Vec<String> = [time, tokens, cost].into_iter().flatten().collect();
        format!(" {}", parts.join(between))
    };
    let usual = in_style("tok", "  ");
    if text::width(&usual) <= usize::from(columns) { usual } else { in_style("t", " ") }
}
