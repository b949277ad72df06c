//! A question on one terminal: which page of it is shown, what of it was seen, and when a key is an answer. Which key answers
//! what: `key_actions`.
//!
//! ```text
//!   appears          300 ms               end on the screen   300 ms
//!   │  keys are text  │  y reads on            │  y waits       │  y allows
//!   └─────────────────┴────────────────────────┴────────────────┴──────────▶
//! ```
//!
//! `a` shows, in place of the question, the rules that would allow such calls from then on; then a letter says for
//! whom. With `r` and `e` the input takes a reason, the call, or the rules, until Enter or Esc. A person who types a
//! sentence when a question appears does not answer it, and what was not on the screen is not allowed, unless they say
//! so with `Y`.

use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::frame::{Row, StyledLine};
use crate::domain::rule::Rule;

/// A key that comes sooner than this after a question appears is not an answer.
pub(super) const SETTLING: Duration = Duration::from_millis(300);

/// The start of a row of the question's text: a line, and the number of its row when it is wrapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowPosition {
    pub line: usize,
    row: usize,
}

/// Rows of a question's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub start: RowPosition,
    /// Where the next page starts; in the line after the last one at the end.
    pub end: RowPosition,
    pub rows: Vec<Row>,
    pub lines: usize,
}

impl Page {
    /// As many rows as fit from `start` on.
    pub fn new(detail: &[StyledLine], start: RowPosition, columns: usize, height: usize) -> Self {
        let mut page = Self { start, end: start, rows: Vec::new(), lines: detail.len() };
        for line in &detail[start.line.min(detail.len())..] {
            for row in line.wrap(columns).into_iter().skip(page.end.row) {
                if page.rows.len() == height {
                    return page;
                }
                page.rows.push(row);
                page.end.row += 1;
            }
            page.end = RowPosition { line: page.end.line + 1, row: 0 };
        }
        page
    }

    pub fn is_last(&self) -> bool {
        self.end.line >= self.lines
    }

    pub fn is_whole(&self) -> bool {
        self.is_last() && self.start == RowPosition::default()
    }

    /// Lines that begin or continue after this page.
    pub fn lines_after(&self) -> usize {
        self.lines.saturating_sub(self.end.line)
    }
}

/// The meaning of a key for the question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QuestionKeys {
    /// None is shown, or it has just appeared: keys are text.
    #[default]
    Text,
    /// Not all of it was seen: `y` shows the next page, and `Y` allows it unread.
    ReadOn,
    /// Its end has just appeared: `y` does nothing.
    Settling,
    Answer,
    /// The rules that "always" would give have just appeared.
    ScopeSettling,
    /// A letter says for whom the rules shall hold.
    Scope,
    /// The typed text belongs to the question.
    Typing(Entry),
}

/// The role of the input at a question, instead of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Why the call is refused.
    Reason,
    /// The command or the text of the call.
    Call,
    /// The rules that "always" gives, one per line.
    Rules,
}

/// A question that a terminal shows or has shown.
#[derive(Debug)]
pub(in crate::repl) struct QuestionView {
    agent: AgentId,
    number: u64,
    columns: u16,
    is_shown: bool,
    appeared: Moment,
    /// The starts of the pages before the one that is shown.
    earlier: Vec<RowPosition>,
    page: Page,
    /// Everything before was shown without a gap.
    seen: RowPosition,
    ended: Option<Moment>,
    /// Since when its rules are shown in its place.
    rules_since: Option<Moment>,
    /// They fit the screen.
    has_whole_rules: bool,
    /// The person's rules in place of those that the question offers.
    rules: Option<Vec<Rule>>,
    entry: Option<Entry>,
}

impl QuestionView {
    pub fn new(agent: AgentId, number: u64, columns: u16, now: Moment) -> Self {
        Self {
            agent,
            number,
            columns,
            is_shown: true,
            appeared: now,
            earlier: Vec::new(),
            page: Page::default(),
            seen: RowPosition::default(),
            ended: None,
            rules_since: None,
            has_whole_rules: false,
            rules: None,
            entry: None,
        }
    }

    /// The view after a change of the screen's width; typing continues.
    pub fn resized(self, columns: u16, now: Moment) -> Self {
        Self { rules: self.rules, entry: self.entry, ..Self::new(self.agent, self.number, columns, now) }
    }

    pub fn is_about(&self, agent: AgentId, number: u64) -> bool {
        (self.agent, self.number) == (agent, number)
    }

    /// From now on the input is this, or again a message.
    pub fn set_entry(&mut self, entry: Option<Entry>) {
        self.entry = entry;
    }

    pub fn entry(&self) -> Option<Entry> {
        self.entry
    }

    /// Shows these rules in place of those that the question offers.
    pub fn set_rules(&mut self, rules: Vec<Rule>, now: Moment) {
        self.rules = Some(rules);
        self.entry = None;
        self.show_rules(true, now);
    }

    pub fn rules(&self) -> Option<&[Rule]> {
        self.rules.as_deref()
    }

    /// Whether this is the view of the question in rows of this width. In others its pages are different.
    pub fn is_of(&self, agent: AgentId, number: u64, columns: u16) -> bool {
        (self.agent, self.number, self.columns) == (agent, number, columns)
    }

    pub fn start(&self) -> RowPosition {
        self.page.start
    }

    pub fn seen(&self) -> RowPosition {
        self.seen
    }

    /// A frame with this page was drawn.
    pub fn on_drawn(&mut self, page: Page, now: Moment) {
        if !self.is_shown {
            (self.is_shown, self.appeared) = (true, now);
        }
        if page.start <= self.seen {
            self.seen = self.seen.max(page.end);
        }
        if self.seen.line >= page.lines {
            self.ended.get_or_insert(now);
        }
        self.page = page;
    }

    /// A frame was drawn that shows all its rules, or not.
    pub fn on_rules_drawn(&mut self, is_whole: bool, now: Moment) {
        if is_whole && !self.has_whole_rules {
            self.rules_since = self.rules_since.map(|_| now);
        }
        self.has_whole_rules = is_whole;
    }

    /// The terminal shows something else.
    pub fn on_hidden(&mut self) {
        self.is_shown = false;
        self.rules_since = None;
    }

    /// Whether it has more than one page.
    pub fn is_paged(&self) -> bool {
        !self.page.is_whole()
    }

    /// Shows the page after or before the one that is shown. False at the end or beginning.
    pub fn turn_page(&mut self, is_forward: bool) -> bool {
        if !is_forward {
            let earlier = self.earlier.pop();
            self.page.start = earlier.unwrap_or(self.page.start);
            return earlier.is_some();
        }
        let can_turn = !self.page.is_last();
        if can_turn {
            self.earlier.push(self.page.start);
            self.page.start = self.page.end;
        }
        can_turn
    }

    /// Shows the rules that "always" would give, or the question again.
    pub fn show_rules(&mut self, is_shown: bool, now: Moment) {
        self.rules_since = is_shown.then_some(now);
        self.ended = self.ended.map(|_| now);
    }

    /// A key came too soon: the waiting time restarts.
    pub fn settle_again(&mut self, now: Moment) {
        self.ended = self.ended.map(|_| now);
        self.rules_since = self.rules_since.map(|_| now);
    }

    pub fn shows_rules(&self) -> bool {
        self.rules_since.is_some()
    }

    /// The meaning of a key that arrives at this time.
    pub fn keys(&self, now: Moment) -> QuestionKeys {
        if let Some(entry) = self.entry.filter(|_| self.is_shown) {
            return QuestionKeys::Typing(entry);
        }
        match self.ended {
            _ if !self.is_shown || now < self.appeared + SETTLING => QuestionKeys::Text,
            _ if self.rules_since.is_some_and(|since| now < since + SETTLING) => QuestionKeys::ScopeSettling,
            // Rules that were not shown are not given.
            _ if self.rules_since.is_some() && !self.has_whole_rules => QuestionKeys::ScopeSettling,
            _ if self.rules_since.is_some() => QuestionKeys::Scope,
            None => QuestionKeys::ReadOn,
            Some(ended) if now < ended + SETTLING => QuestionKeys::Settling,
            Some(_) => QuestionKeys::Answer,
        }
    }

    /// When the meaning of keys will differ from that in the last frame.
    pub fn next_change(&self, drawn: QuestionKeys) -> Option<Moment> {
        match drawn {
            QuestionKeys::Text => Some(self.appeared + SETTLING),
            // The last frame may have been the first with the end.
            QuestionKeys::ReadOn | QuestionKeys::Settling => self.ended.map(|ended| ended + SETTLING),
            QuestionKeys::ScopeSettling if !self.has_whole_rules => None,
            QuestionKeys::ScopeSettling => self.rules_since.map(|since| since + SETTLING),
            QuestionKeys::Answer | QuestionKeys::Scope | QuestionKeys::Typing(_) => None,
        }
        .filter(|_| self.is_shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::frame::Style;

    fn detail() -> Vec<StyledLine> {
        ["one", "a line of three rows", "", "last"].map(|line| StyledLine::of(line, Style::BOLD)).into()
    }

    #[test]
    fn pages_follow_each_other_without_a_gap_also_within_a_line() {
        for height in 1..8 {
            let (mut rows, mut start) = (Vec::new(), RowPosition::default());
            loop {
                let page = Page::new(&detail(), start, 8, height);
                assert!(page.rows.len() <= height);
                rows.extend(page.rows.iter().map(Row::text));
                if page.is_last() {
                    break;
                }
                assert!(page.end > start && page.lines_after() > 0);
                start = page.end;
            }
            assert_eq!(rows, ["one", "a line", "of three", "rows", "", "last"], "{height}");
        }
        assert!(Page::new(&detail(), RowPosition::default(), 8, 6).is_whole());
        assert!(Page::new(&[], RowPosition::default(), 8, 6).is_whole());
    }

    fn at(ms: u64) -> Moment {
        Moment::default() + Duration::from_millis(ms)
    }

    #[test]
    fn y_allows_only_what_was_shown_to_its_end_and_some_time_ago() {
        let mut view = QuestionView::new(AgentId::random(), 1, 80, at(1000));
        let page = |view: &QuestionView| Page::new(&detail(), view.start(), 80, 3);
        view.on_drawn(page(&view), at(1000));
        assert_eq!([view.keys(at(1299)), view.keys(at(1300))], [QuestionKeys::Text, QuestionKeys::ReadOn]);
        assert!(view.turn_page(true));
        assert_eq!(view.keys(at(2000)), QuestionKeys::ReadOn, "the page was not drawn yet");
        view.on_drawn(page(&view), at(2000));
        assert_eq!([view.keys(at(2299)), view.keys(at(2300))], [QuestionKeys::Settling, QuestionKeys::Answer]);
        assert!(!view.turn_page(true) && view.turn_page(false) && !view.turn_page(false));
        view.on_drawn(page(&view), at(2400));
        assert_eq!(view.keys(at(2400)), QuestionKeys::Answer, "what was seen stays seen");
        view.on_hidden();
        assert_eq!(view.keys(at(9000)), QuestionKeys::Text);
        view.on_drawn(page(&view), at(9000));
        assert_eq!([view.keys(at(9299)), view.keys(at(9300))], [QuestionKeys::Text, QuestionKeys::Answer]);
    }

    #[test]
    fn what_follows_a_gap_is_not_seen() {
        let mut view = QuestionView::new(AgentId::random(), 1, 80, at(0));
        view.on_drawn(Page::new(&detail(), RowPosition { line: 2, row: 0 }, 80, 3), at(0));
        assert_eq!(view.keys(at(5000)), QuestionKeys::ReadOn);
    }
}
