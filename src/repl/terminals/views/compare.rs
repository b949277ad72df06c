//! Answers to one prompt, side by side, as they stream.
//!
//! A column keeps its letter for as long as the comparison lasts, and the view stays with its comparison, so that a letter
//! never means another column than the one that was shown with it.

mod column;
mod paint;

use std::hash::{DefaultHasher, Hash};
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::change::Change;
use crate::domain::compare::{CompareAct, CompareChange};
use crate::domain::diff::draw;
use crate::domain::frame::{Style, StyledLine};
use crate::domain::key::{Key, KeyCode};
use crate::domain::scrollback::Reader;
use crate::repl::core::Core;
use crate::repl::terminals::draw::text_width;
use crate::repl::terminals::question::SETTLING;
use crate::repl::terminals::views::{Page, Painter, Pane, ScrolledText, ViewAct, ViewContent, ViewContext, ViewName};
use crate::team::agreement;
use crate::team::compare::{self, AnswerState, Column, Comparison};
use crate::tools::diff;
use column::{ShownColumn, activity, rows_of, shown_time};
use paint::verdict_text;

/// Columns of an answer, at least; fewer answers are shown where they do not fit.
const LEAST_COLUMNS: u16 = 24;
/// Rows besides those of the answers: title, two of headings, a rule, files, hints.
const OTHER_ROWS: usize = 7;
/// Lines of a diff.
const DIFF_LINES: usize = 2_000;
const SECOND: i64 = 1_000;

#[derive(Default)]
pub(super) struct CompareView {
    /// The comparison; `None` until there is one.
    number: Option<u64>,
    shown: Vec<ShownColumn>,
    /// The index of the marked column.
    at: usize,
    /// The first column that is drawn, and how many are.
    window: (usize, usize),
    /// The size of an answer.
    size: (u16, usize),
    /// A command that waits for the letter of a column.
    verb: Option<Verb>,
    diff: Option<DiffText>,
    /// Where the complete answers agree, and how long their parts were then.
    agreement: (Vec<String>, Vec<(char, usize)>),
    /// A letter that stops the other agents if it is pressed again.
    stops: Option<char>,
    /// Since when these columns are on the screen.
    shown_since: Option<Moment>,
    next_second: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Diff(Option<char>),
    Merge,
    Drop,
}

struct DiffText {
    of: (char, char),
    counts: String,
    text: ScrolledText,
}

impl CompareView {
    /// The view of this comparison.
    pub fn of(number: u64) -> Self {
        Self { number: Some(number), ..Self::default() }
    }

    fn comparison<'a>(&self, core: &'a Core) -> Option<&'a Comparison> {
        core.comparisons().get(self.number?)
    }

    /// Says where the answers agree once all are there.
    fn compare_texts(&mut self, core: &Core) {
        let lengths = self.shown.iter().map(|shown| {
            let parts = shown.parts.iter().map(|(_, part)| part.len());
            (shown.column.letter, if shown.state.is_running() { 0 } else { 1 + parts.sum::<usize>() })
        });
        let lengths: Vec<(char, usize)> = lengths.collect();
        if self.agreement.1 == lengths {
            return;
        }
        let is_running = lengths.iter().any(|(_, length)| *length == 0);
        let comparison = self.comparison(core).filter(|_| !is_running);
        let answers = comparison.map(|comparison| comparison.complete(core.roster())).unwrap_or_default();
        let answers: Vec<(char, String)> =
            answers.into_iter().map(|(column, answer)| (column.letter, answer)).collect();
        self.agreement = (agreement(&answers), lengths);
    }

    /// Reads answers of an earlier process from the store.
    fn load(&self, core: &mut Core) {
        let Some(comparison) = self.comparison(core) else { return };
        let columns = comparison.columns.iter().chain(&comparison.judge);
        let agents: Vec<AgentId> = columns.map(|column| column.agent).collect();
        for agent in agents {
            // The error is reported when a message is sent.
            drop(core.load(agent));
        }
    }

    /// Keeps what was laid out of the columns that are still there.
    fn keep_columns(&mut self, columns: Vec<Column>) {
        let marked = self.shown.get(self.at).map(|shown| shown.column.letter);
        let mut before = std::mem::take(&mut self.shown);
        for column in columns {
            let known = before.iter().position(|shown| shown.column == column);
            self.shown.push(known.map_or_else(|| ShownColumn::new(column), |at| before.swap_remove(at)));
        }
        let at = self.shown.iter().position(|shown| Some(shown.column.letter) == marked);
        self.at = at.unwrap_or(self.at).min(self.shown.len().saturating_sub(1));
    }

    /// How many columns fit, and which.
    fn lay_out(&mut self, columns: u16, rows: u16) {
        let fit = usize::from((columns + 1) / (LEAST_COLUMNS + 1)).clamp(1, self.shown.len().max(1));
        let first = self.window.0.min(self.at).max((self.at + 1).saturating_sub(fit));
        self.window = (first.min(self.shown.len().saturating_sub(fit)), fit);
        let between = u16::try_from(fit - 1).unwrap_or(0);
        let width = columns.saturating_sub(between) / u16::try_from(fit).unwrap_or(1);
        self.size = (width.max(1), usize::from(rows).saturating_sub(OTHER_ROWS + 1).max(1));
        let all = self.size.0.saturating_mul(between + 1);
        self.diff.iter_mut().for_each(|diff| diff.text.lay_out((all, rows)));
    }

    /// Whether a letter chooses a column: what was typed before the view was seen does not.
    fn is_settled(&self, now: Moment) -> bool {
        self.shown_since.is_some_and(|since| now >= since + SETTLING)
    }

    fn leave(&mut self) -> ViewAct {
        if self.verb.take().is_some() || self.diff.take().is_some() {
            return ViewAct::Done;
        }
        ViewAct::Close
    }

    fn marked(&self) -> Option<AgentId> {
        self.shown.get(self.at).filter(|shown| shown.state != AnswerState::Gone).map(|shown| shown.column.agent)
    }

    fn living(&self) -> Vec<AgentId> {
        let living = self.shown.iter().filter(|shown| shown.state != AnswerState::Gone);
        living.map(|shown| shown.column.agent).collect()
    }

    fn scroll(&mut self, by: isize) {
        let (columns, height) = self.size;
        for shown in &mut self.shown {
            match by {
                isize::MIN..-10_000 => shown.scrollback.to_top(Reader::Shared),
                10_001.. => shown.scrollback.to_bottom(Reader::Shared),
                _ => shown.scrollback.scroll(Reader::Shared, by, text_width(columns), rows_of(height)),
            }
        }
    }

    fn on_letter(&mut self, core: &Core, letter: char, stops: Option<char>) -> ViewAct {
        let is_column = self.shown.iter().any(|shown| shown.column.letter == letter);
        match (self.verb.take(), letter) {
            (Some(_), _) if !is_column => ViewAct::Notice("no such column: Esc goes back"),
            (Some(Verb::Diff(None)), letter) => {
                self.verb = Some(Verb::Diff(Some(letter)));
                ViewAct::Done
            }
            (Some(Verb::Diff(Some(first))), letter) => self.open_diff(core, first, letter),
            (Some(Verb::Merge), letter) => self.act(CompareAct::Merge(letter)),
            (Some(Verb::Drop), letter) => self.act(CompareAct::Drop(letter)),
            (None, letter) if is_column => self.go_on(letter, stops),
            (None, letter) => self.on_command(letter),
        }
    }

    fn on_command(&mut self, letter: char) -> ViewAct {
        match letter {
            _ if self.shown.is_empty() => {}
            'd' => self.verb = Some(Verb::Diff(None)),
            'm' => self.verb = Some(Verb::Merge),
            'x' => self.verb = Some(Verb::Drop),
            'v' => return self.act(CompareAct::Vote),
            'i' => return ViewAct::Write(self.marked().into_iter().collect()).checked(),
            '*' => return ViewAct::Write(self.living()).checked(),
            'y' | 'n' => return self.answer_question(),
            's' => return self.stop(),
            _ => {}
        }
        ViewAct::Done
    }

    fn act(&self, act: CompareAct) -> ViewAct {
        let Some((number, shown)) = self.number.zip(self.shown.first()) else { return ViewAct::Done };
        ViewAct::Changes(vec![(shown.column.agent, Change::Compare(CompareChange::Act { number, act }))])
    }

    /// Goes on with one agent; a second press is needed while forks that it would stop work.
    fn go_on(&mut self, letter: char, stops: Option<char>) -> ViewAct {
        let chosen = self.shown.iter().find(|shown| shown.column.letter == letter);
        if chosen.is_some_and(|shown| shown.state == AnswerState::Gone) {
            return ViewAct::Notice("this agent was killed or archived: x leaves its column out");
        }
        let works =
            |shown: &ShownColumn| shown.column.letter != letter && shown.column.is_fork && shown.state.is_running();
        if self.shown.iter().any(works) && stops != Some(letter) {
            self.stops = Some(letter);
            return ViewAct::Notice("others still work: the same letter again stops them and goes on");
        }
        self.act(CompareAct::GoOn(letter))
    }

    /// Shows the question of the marked agent, or of the first that asks, in the inbox.
    fn answer_question(&self) -> ViewAct {
        let asks = |shown: &&ShownColumn| shown.state == AnswerState::Asks;
        let marked = self.shown.get(self.at).filter(asks);
        let asking = marked.or_else(|| self.shown.iter().find(asks));
        asking.map_or(ViewAct::Notice("no agent asks here"), |shown| ViewAct::Inbox(shown.column.agent))
    }

    fn stop(&self) -> ViewAct {
        let running = self.shown.iter().filter(|shown| shown.state.is_running());
        let changes: Vec<(AgentId, Change)> = running.map(|shown| (shown.column.agent, Change::Interrupt)).collect();
        if changes.is_empty() { ViewAct::Notice("nothing to stop") } else { ViewAct::Changes(changes) }
    }

    fn open_diff(&mut self, core: &Core, first: char, second: char) -> ViewAct {
        let text_of = |letter: char| {
            let column = self.comparison(core)?.column(letter)?;
            let text = compare::answer(core.roster(), column, 0).text();
            Some(if text.is_empty() { text } else { text + "\n" })
        };
        let Some((old, new)) = text_of(first).zip(text_of(second)) else { return ViewAct::Done };
        let summary = diff::Summary::new(&old, &new, DIFF_LINES);
        let counts = summary.counts();
        let mut lines = draw(summary.lines.iter().map(String::as_str));
        if lines.is_empty() {
            lines.push(StyledLine::of("the answers are equal", Style::DIM));
        }
        let mut text = ScrolledText::default();
        text.replace(lines);
        self.diff = Some(DiffText { of: (first, second), counts, text });
        ViewAct::Done
    }
}

impl ViewContent for CompareView {
    fn name(&self) -> ViewName {
        ViewName::Compare
    }

    fn watched(&self) -> Vec<AgentId> {
        self.shown.iter().map(|shown| shown.column.agent).collect()
    }

    fn update(&mut self, core: &mut Core, context: &ViewContext<'_>) -> bool {
        let (focus, (columns, rows)) = (context.focus, context.screen);
        if self.number.is_none() {
            self.number = core.comparisons().newest_of(focus).map(|comparison| comparison.number);
        }
        self.load(core);
        let columns_now = self.comparison(core).map(|comparison| comparison.columns.clone()).unwrap_or_default();
        self.keep_columns(columns_now);
        let now = core.clock().unix_ms();
        let mut next_second = None;
        for shown in &mut self.shown {
            let answer = compare::answer(core.roster(), &shown.column, now);
            shown.update(answer);
            shown.activity = activity(core, shown);
            if shown.state.is_running()
                && let Some(time) = shown.time
            {
                let left = SECOND - i64::try_from(time.as_millis()).unwrap_or(0) % SECOND;
                next_second = Some(core.now() + Duration::from_millis(u64::try_from(left).unwrap_or(1_000)));
            }
        }
        self.next_second = next_second;
        self.compare_texts(core);
        self.lay_out(columns, rows);
        true
    }

    fn hash_shown(&self, core: &Core, hash: &mut DefaultHasher) {
        for shown in &self.shown {
            let length: usize = shown.parts.iter().map(|(_, text)| text.len()).sum();
            (shown.column.letter, shown.state, length, shown.tokens, shown.cost, &shown.activity).hash(hash);
            (shown.parts.len(), shown_time(shown), shown.files.len()).hash(hash);
        }
        (self.number, self.at, self.is_settled(core.now())).hash(hash);
        self.comparison(core).map(|comparison| verdict_text(core, comparison)).hash(hash);
    }

    fn next_change(&self, now: Moment) -> Option<Moment> {
        let settled = self.shown_since.map(|since| since + SETTLING).filter(|at| *at > now);
        self.next_second.into_iter().chain(settled).min()
    }

    fn on_drawn(&mut self, _: Option<&Page>, _: u16, now: Moment) {
        self.shown_since = self.shown_since.or(Some(now));
    }

    fn on_key(&mut self, core: &Core, key: &Key) -> ViewAct {
        let stops = self.stops.take();
        let Key::Press(code, modifiers) = key else { return ViewAct::Done };
        if modifiers.ctrl || modifiers.alt {
            return ViewAct::Done;
        }
        let last = self.shown.len().saturating_sub(1);
        let page = isize::try_from(self.size.1).unwrap_or(1).max(2) - 1;
        match code {
            KeyCode::Escape => return self.leave(),
            code if let Some(diff) = &mut self.diff => diff.text.on_key(*code),
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::PageDown => self.scroll(page),
            KeyCode::Home => self.scroll(isize::MIN / 2),
            KeyCode::End => self.scroll(isize::MAX / 2),
            KeyCode::Left | KeyCode::BackTab => self.at = self.at.saturating_sub(1),
            KeyCode::Right => self.at = (self.at + 1).min(last),
            KeyCode::Tab => self.at = if self.at == last { 0 } else { self.at + 1 },
            KeyCode::Enter if self.is_settled(core.now()) => {
                return self.marked().map_or(ViewAct::Done, ViewAct::Go);
            }
            KeyCode::Char(letter) if self.is_settled(core.now()) => return self.on_letter(core, *letter, stops),
            _ => {}
        }
        ViewAct::Done
    }

    fn pane(&self, core: &Core, _: &Painter, size: (u16, usize)) -> Pane {
        self.paint(core, size)
    }
}
