//! Draws the comparison.

use crate::base::text;
use crate::base::text::dollars;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::scrollback::Reader;
use crate::repl::core::activity::one_line;
use crate::repl::core::{Core, activity};
use crate::repl::terminals::conversation;
use crate::repl::terminals::views::compare::column::{ShownColumn, measures};
use crate::repl::terminals::views::compare::{CompareView, Verb};
use crate::repl::terminals::views::{Pane, column as cell, indented, joined};
use crate::team::compare::{AnswerState, Comparison};

impl CompareView {
    pub(super) fn paint(&self, core: &Core, size: (u16, usize)) -> Pane {
        let Some(comparison) = self.comparison(core) else {
            let mut pane = Pane::new("compare", "", size);
            pane.say(match self.number {
                Some(_) => "this comparison is over; Esc goes back",
                None => "nothing to compare: /ask all PROMPT or /ask --models M,M PROMPT; Esc goes back",
            });
            return pane;
        };
        let mut pane = Pane::new(&self.title(comparison), &self.hints(), size);
        match &self.diff {
            Some(diff) => pane.rows.extend(diff.text.rows(pane.room())),
            None => pane.rows.extend(self.answer_rows(core, comparison, size.0, pane.room())),
        }
        pane
    }

    fn title(&self, comparison: &Comparison) -> String {
        let failed = self.shown.iter().filter(|shown| shown.state == AnswerState::Failed).count();
        let answered = self.shown.iter().filter(|shown| !shown.state.is_running()).count() - failed;
        let (first, fit) = self.window;
        let mut parts = vec!["compare".to_owned(), format!("{answered} of {} answered", self.shown.len())];
        if failed > 0 {
            parts.push(format!("{failed} failed"));
        }
        if fit < self.shown.len() {
            let letter = |at: usize| self.shown.get(at).map_or(' ', |shown| shown.column.letter);
            parts.push(format!("{} to {} shown", letter(first), letter(first + fit - 1)));
        }
        if let Some(diff) = &self.diff {
            parts.push(format!("{} and {}: {}", diff.of.0, diff.of.1, diff.counts));
        } else {
            let cost: Option<u64> = self.shown.iter().map(|shown| shown.cost).sum();
            parts.extend(cost.filter(|cost| *cost > 0).map(|cost| format!("${}", dollars(cost))));
            parts.push(one_line(&comparison.prompt));
        }
        text::shortened(&parts.join(" ─ "), usize::from(self.size.0) * fit).into_owned()
    }

    fn answer_rows(&self, core: &Core, comparison: &Comparison, columns: u16, room: usize) -> Vec<Row> {
        let verdict = verdict_text(core, comparison);
        let verdict: Vec<Row> =
            verdict.iter().flat_map(|text| indented(text, Style::color(Color::Attention), columns)).take(4).collect();
        let agreement = self
            .agreement
            .0
            .iter()
            .flat_map(|text| indented(text, Style::color(Color::Activity), columns).into_iter().take(2));
        let verdict: Vec<Row> = agreement.chain(verdict).collect();
        let (first, fit) = self.window;
        let shown: Vec<&ShownColumn> = self.shown.iter().skip(first).take(fit).collect();
        let files = shown.iter().any(|shown| !shown.files.is_empty());
        let height = room.saturating_sub(3 + verdict.len() + usize::from(files));
        let chosen = comparison.verdict(core.roster()).and_then(|(letter, _)| letter);
        let cells: Vec<Vec<Row>> = shown
            .iter()
            .enumerate()
            .map(|(at, shown)| self.column_rows(shown, first + at == self.at, chosen, (height, files)))
            .collect();
        let between = |line: usize| if line == 2 { "┼" } else { "│" };
        let lines = 3 + height + usize::from(files);
        let mut rows: Vec<Row> = (0..lines).map(|line| joined(&cells, line, between(line), self.size.0)).collect();
        rows.extend(verdict);
        rows
    }

    /// Heading, measures, a rule, the answer and the files that were changed.
    fn column_rows(
        &self,
        shown: &ShownColumn,
        is_marked: bool,
        chosen: Option<char>,
        (height, files): (usize, bool),
    ) -> Vec<Row> {
        let columns = self.size.0;
        let letter = shown.column.letter;
        let best = if chosen == Some(letter) { " (best)" } else { "" };
        let state = shown.state.name();
        let room = usize::from(columns).saturating_sub(state.len() + 1);
        let heading = cell(&format!(" {letter} {}{best}", shown.column.label), room) + state;
        let style = match shown.state {
            _ if is_marked => Style { reverse: true, ..Style::BOLD },
            AnswerState::Failed | AnswerState::Gone => Style { bold: true, ..Style::color(Color::Error) },
            AnswerState::Asks => Style { bold: true, ..Style::color(Color::Attention) },
            _ => Style::BOLD,
        };
        let mut rows = vec![Row::of(heading, style), Row::of(measures(shown, columns), Style::DIM)];
        rows.push(Row::of("─".repeat(columns.into()), Style::DIM));
        let mut answer = conversation::rows(&shown.scrollback, Reader::Shared, columns, height, None);
        if !shown.is_at_end((columns, height))
            && let Some(last) = answer.last_mut()
        {
            *last = Row::of("  ↓ more below (PageDown)", Style::DIM);
        } else if !shown.activity.is_empty() {
            let from = answer.iter().rposition(|row| !row.text().trim().is_empty()).map_or(0, |at| at + 1);
            let color = if shown.state == AnswerState::Asks { Color::Attention } else { Color::Activity };
            for (row, part) in answer.iter_mut().skip(from).zip(indented(&shown.activity, Style::color(color), columns))
            {
                *row = part;
            }
        }
        rows.extend(answer);
        if files {
            let names = if shown.files.is_empty() { "-".to_owned() } else { shown.files.join(", ") };
            rows.push(Row::of(format!("  files  {names}"), Style::DIM));
        }
        rows
    }

    fn hints(&self) -> String {
        let letters: Vec<String> = self.shown.iter().map(|shown| shown.column.letter.to_string()).collect();
        let letters = letters.join(" ");
        match self.verb {
            Some(Verb::Diff(None)) => format!("{letters} first answer of the diff   Esc back"),
            Some(Verb::Diff(Some(first))) => format!("{letters} compared with {first}   Esc back"),
            Some(Verb::Merge) => format!("{letters} fork it with the answers of the others   Esc back"),
            Some(Verb::Drop) => format!("{letters} leave this one out   Esc back"),
            None if self.diff.is_some() => "Up Down scroll   Esc back".to_owned(),
            None => format!(
                "{letters} go on with it  m merge into a new child  v vote  d diff  x drop  Enter look  i write  * write to \
                 all  y answer  s stop  Esc back"
            ),
        }
    }
}

/// What the judge does, or what it has said.
pub(super) fn verdict_text(core: &Core, comparison: &Comparison) -> Option<String> {
    let judge = comparison.judge.as_ref()?;
    Some(match comparison.verdict(core.roster()) {
        None => format!("{}: {}", judge.label, activity::activity(core, judge.agent, false)),
        Some((Some(letter), said)) => {
            let why: Vec<&str> = said.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()).collect();
            format!("{}: {letter} is best. {}", judge.label, why.join(" "))
        }
        Some((None, said)) => format!("{}: no choice. {}", judge.label, said.replace('\n', " ")),
    })
}
