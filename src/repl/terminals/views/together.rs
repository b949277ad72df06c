//! Several questions that one key answers: all of them, page by page, with what each would run.

use std::hash::{DefaultHasher, Hash as _};
use std::mem::discriminant;

use crate::agent::{Agent, PendingQuestion};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::{Change, Decision};
use crate::domain::frame::{Color, Row, Style, StyledLine};
use crate::domain::key::{Key, KeyCode};
use crate::repl::core::Core;
use crate::repl::core::activity::one_line;
use crate::repl::terminals::painter::{QuestionRows, place_of};
use crate::repl::terminals::question::{Page, QuestionKeys, QuestionView, RowPosition};

/// Questions that are about to be answered together; at least one.
pub(super) struct Together {
    questions: Vec<(AgentId, u64)>,
    view: QuestionView,
}

/// What a key does.
pub(super) enum Answered {
    /// They stay open.
    No,
    /// The list is closed without an answer.
    Closed,
    /// These changes answer them.
    All(Vec<(AgentId, Change)>),
}

impl Together {
    /// `None` if there are no questions.
    pub fn of(questions: Vec<(AgentId, u64)>, now: Moment) -> Option<Self> {
        let (agent, number) = *questions.first()?;
        let mut view = QuestionView::new(agent, number, 0, now);
        // Until a frame has it.
        view.on_hidden();
        Some(Self { questions, view })
    }

    /// Drops the questions that are no longer open: what is left begins anew. `None` if nothing is left.
    pub fn with_open(self, core: &Core, now: Moment) -> Option<Self> {
        let open: Vec<(AgentId, u64)> =
            self.questions.iter().filter(|question| asked(core, question).is_some()).copied().collect();
        if open.len() == self.questions.len() { Some(self) } else { Self::of(open, now) }
    }

    pub fn hash_shown(&self, now: Moment, hash: &mut DefaultHasher) {
        (&self.questions, discriminant(&self.view.keys(now)), self.view.start()).hash(hash);
    }

    /// When its keys mean something else.
    pub fn next_change(&self, now: Moment) -> Option<Moment> {
        self.view.next_change(self.view.keys(now)).filter(|at| *at > now)
    }

    /// A frame was drawn with this page of it.
    pub fn on_drawn(&mut self, page: &Page, columns: u16, now: Moment) {
        let (agent, number) = self.questions[0];
        if !self.view.is_of(agent, number, columns) {
            self.view = QuestionView::new(agent, number, columns, now);
        }
        self.view.on_drawn(page.clone(), now);
    }

    /// Answers only what has been on the screen to its end for a while; `Y` allows the rest too, which is noted.
    pub fn on_key(&mut self, key: &Key, now: Moment) -> Answered {
        let keys = self.view.keys(now);
        let Key::Press(code, modifiers) = key else { return Answered::No };
        let decision = match (code, keys) {
            (KeyCode::Escape, _) => return Answered::Closed,
            _ if modifiers.ctrl => return Answered::No,
            (KeyCode::PageUp, _) => {
                self.view.turn_page(false);
                return Answered::No;
            }
            (KeyCode::PageDown, _) | (KeyCode::Char('y'), QuestionKeys::ReadOn) => {
                self.view.turn_page(true);
                return Answered::No;
            }
            (KeyCode::Char('Y'), QuestionKeys::ReadOn) => Decision::AllowUnread,
            (KeyCode::Char('y' | 'Y'), QuestionKeys::Answer) => Decision::Allow,
            (KeyCode::Char('n'), QuestionKeys::Answer) => Decision::Deny(None),
            _ => return Answered::No,
        };
        let answer = |(agent, question): &(AgentId, u64)| {
            (*agent, Change::Answer { question: *question, decision: decision.clone() })
        };
        Answered::All(self.questions.iter().map(answer).collect())
    }

    /// A page of the list, and its rows.
    pub fn rows(&self, core: &Core, columns: u16, room: usize) -> QuestionRows {
        let lines: Vec<StyledLine> =
            lines_of(core, &self.questions).into_iter().map(|line| StyledLine::of(line, Style::BOLD)).collect();
        let count = text::counted(self.questions.len(), "question", "questions");
        let mut rows = vec![Row::of(format!("{count} would be answered:"), Style::color(Color::Attention))];
        let (width, room) = (usize::from(columns).max(1), room.saturating_sub(rows.len()).max(1));
        let mut page = Page::new(&lines, RowPosition::default(), width, room);
        if !page.is_whole() {
            let (agent, number) = self.questions[0];
            let start = if self.view.is_of(agent, number, columns) { self.view.start() } else { page.start };
            page = Page::new(&lines, start, width, room.saturating_sub(1).max(1));
        }
        rows.extend(page.rows.iter().cloned());
        if !page.is_whole() {
            rows.push(Row::of(place_of(&page), Style::DIM));
        }
        QuestionRows { page: Some(page), ..QuestionRows::of(rows) }
    }

    /// What the keys do.
    pub fn hints(&self, now: Moment) -> &'static str {
        match self.view.keys(now) {
            QuestionKeys::ReadOn => "y read on   Y allow all of these unread   Esc back",
            _ => "y allow all of these   n refuse them   Esc back",
        }
    }
}

fn asked<'a>(core: &'a Core, (agent, number): &(AgentId, u64)) -> Option<(&'a Agent, &'a PendingQuestion)> {
    let agent = core.agent(*agent)?;
    Some((agent, agent.question().filter(|asked| asked.number == *number)?))
}

/// Each call in one line, with what of its question that does not say; and once what all of them say.
fn lines_of(core: &Core, questions: &[(AgentId, u64)]) -> Vec<String> {
    let asked: Vec<_> = questions.iter().filter_map(|question| asked(core, question)).collect();
    let details: Vec<&[String]> = asked.iter().map(|(_, asked)| detail_of(asked)).collect();
    let is_common = |line: &String| details.len() > 1 && details.iter().all(|detail| detail.contains(line));
    let mut lines = Vec::new();
    for ((agent, asked), detail) in asked.iter().zip(&details) {
        lines.push(format!("  {}: {}", agent.identity.label(), one_line(&asked.question.title)));
        lines.extend(detail.iter().filter(|line| !is_common(line)).map(|line| format!("    {line}")));
    }
    let common = details.first().into_iter().flat_map(|detail| detail.iter()).filter(|line| is_common(line));
    lines.extend(common.map(|line| format!("  each: {line}")));
    lines
}

/// What a question says besides its title and why it is asked.
fn detail_of(PendingQuestion { question, tool, .. }: &PendingQuestion) -> &[String] {
    let first = usize::from(question.detail.first().is_some_and(|line| question.title == format!("{tool}: {line}")));
    let last = question.detail.len() - usize::from(question.reason().is_some());
    question.detail.get(first..last).unwrap_or_default()
}
