//! From an agent to a frame. At most once per turn, only for the agent on the screen, only if something that can be
//! seen has changed.
//!
//! ```text
//!   text of the conversation      scrolls
//!   ⠹ waiting for the model 3 s   while the agent works
//!   ── agent 0 ── 2 at work ───   separator
//!   queued, question, notice
//!   > what is typed
//!   model            tokens       status line
//! ```

use crate::agent::{Agent, Asked, State};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::frame::{Color, Frame, Row, Style};
use crate::domain::scrollback::{LineKind, VisibleRow};
use crate::repl::doing::{self, one_line};
use crate::repl::timeout::SPINNER_STEP;
use crate::repl::{Repl, Seat};
use crate::team::Gate;

/// Messages that are read from the store at a time, for the screen.
const OLDER_MESSAGES: usize = 200;
/// Queued texts that are shown.
pub(super) const QUEUE_ROWS: usize = 3;
/// On fewer rows than this a question cannot be shown so that it could be answered.
const ROWS_TO_ASK: u16 = 8;
/// The same for columns.
const COLUMNS_TO_ASK: u16 = 20;
/// Rows that the text keeps while a question does not fit, so that all of it can be scrolled through.
const TEXT_ROWS_BESIDE_QUESTION: usize = 2;
/// Columns on the left that tell who speaks.
const GUTTER: u16 = 2;
const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];

/// Everything that the last frame depended on: if it is the same, so is the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    focus: AgentId,
    size: (u16, u16),
    revision: u64,
    spinner: u128,
    notice: Option<String>,
    agents: usize,
    at_work: usize,
    asking: Vec<AgentId>,
    place: Option<usize>,
    gate: Option<Gate>,
    question: Option<u64>,
}

impl Seen {
    /// Whether this question of this agent was to be seen.
    pub(super) fn has_shown(&self, who: AgentId, question: u64) -> bool {
        self.focus == who && self.question == Some(question)
    }
}

/// Whether a question can be shown so that it could be answered.
fn is_large_enough_to_ask((columns, rows): (u16, u16)) -> bool {
    columns >= COLUMNS_TO_ASK && rows >= ROWS_TO_ASK
}

/// The columns that text of the conversation has on a terminal of this width.
pub(super) fn text_width(columns: u16) -> u16 {
    columns.saturating_sub(GUTTER).max(1)
}

impl Repl {
    /// Draws the agent on the screen, if what can be seen of it has changed.
    pub(super) fn render(&mut self) {
        let Some(seen) = self.look() else { return };
        let is_due = |seat: &&Seat| seat.seen.as_ref() != Some(&seen) && seat.is_ready();
        let Some(seat) = self.seat.as_ref().filter(is_due) else { return };
        let now = self.shared.clock.now();
        let painter = Painter {
            size: seen.size,
            spinner: seen.spinner,
            notice: seat.notice.clone(),
            surroundings: self.surroundings(seen.focus),
            doing: self.doing(seen.focus),
        };
        let painted = self.roster.with(seen.focus, |agent| painter.paint_readable(agent));
        let (Some(painted), Some(seat)) = (painted, &mut self.seat) else { return };
        seat.text_rows = painted.frame.scrolling_rows;
        seat.shows_whole_question = painted.is_whole;
        seat.seen = Some(seen);
        seat.drawn_at = now;
        seat.show(&painted.frame);
    }

    fn look(&self) -> Option<Seen> {
        let seat = self.seat.as_ref()?;
        let agent = self.roster.get(seat.focus)?;
        let (now, worker) = (self.shared.clock.now(), self.worker(seat.focus));
        let gate = self.gate_of(worker);
        let countdown = self.roster.get(worker).and_then(|worker| doing::countdown(worker, gate));
        let step = match countdown {
            _ if !agent.view.is_spinning() => 0,
            Some(at) => doing::seconds_left(at, now).into(),
            None => (now - agent.started()).as_millis() / SPINNER_STEP.as_millis(),
        };
        let revision = agent.view.revision();
        // Where the text moves, the sign of work need not: a frame of one row costs half of one of two.
        let is_moved = |seen: &&Seen| countdown.is_none() && seen.focus == seat.focus && seen.revision != revision;
        let moved = seat.seen.as_ref().filter(is_moved);
        Some(Seen {
            focus: seat.focus,
            size: seat.size,
            revision,
            spinner: moved.map_or(step, |seen| seen.spinner),
            notice: seat.notice.clone(),
            agents: self.roster.len(),
            at_work: self.roster.at_work().len(),
            asking: self.roster.asking().iter().copied().collect(),
            place: self.roster.place_in_line(worker),
            gate: gate.cloned(),
            question: agent.question().map(|asked| asked.number).filter(|_| is_large_enough_to_ask(seat.size)),
        })
    }

    /// Whose work is told of while this agent is on the screen: its own, or that for a slice of it.
    pub(super) fn worker(&self, focus: AgentId) -> AgentId {
        let is_idle = self.roster.get(focus).is_some_and(|agent| agent.state() == State::Idle);
        self.errand_for(focus).filter(|_| is_idle).unwrap_or(focus)
    }

    /// What is done for the agent on the screen, in words.
    fn doing(&self, focus: AgentId) -> String {
        let worker = self.worker(focus);
        let around = doing::Surroundings {
            now: self.shared.clock.now(),
            place: self.roster.place_in_line(worker),
            limit: self.shared.config.working_limit,
            gate: self.gate_of(worker),
        };
        let words = self.roster.get(worker).map(|agent| doing::words(agent, &around)).unwrap_or_default();
        if worker == focus { words } else { format!("a summary: {words}") }
    }

    /// Puts an agent on the screen: a change of pointer. What is stored of it is read when it is first shown.
    pub(super) fn bring_to_screen(&mut self, id: AgentId) {
        let Some(seat) = &mut self.seat else { return };
        let left = std::mem::replace(&mut seat.focus, id);
        seat.recalled = None;
        self.keep_draft(left);
        if self.roster.get(id).is_some_and(|agent| !agent.view.was_shown()) {
            let typed = self.shared.store.draft(id).unwrap_or_default();
            self.roster.with(id, |agent| agent.view.show_first(&typed));
            self.show_older(id);
        }
    }

    /// Reads the next older messages into the scrollback.
    pub(super) fn show_older(&mut self, id: AgentId) {
        let Some(before) = self.roster.get(id).and_then(|agent| agent.view.wants_older_than()) else { return };
        match self.shared.store.tail(id, before, OLDER_MESSAGES) {
            Ok(older) => self.roster.with(id, |agent| agent.view.prepend(&older, OLDER_MESSAGES)).unwrap_or_default(),
            Err(error) => self.note(id, LineKind::Error, &error.message),
        }
    }

    /// What the separator tells of the others.
    fn surroundings(&self, id: AgentId) -> Surroundings {
        let parent = self.roster.parent(id);
        let others = |set: &std::collections::BTreeSet<AgentId>| set.iter().filter(|one| **one != id).count();
        Surroundings {
            parent: parent.and_then(|parent| self.roster.get(parent)).map(|parent| parent.identity.label()),
            siblings: parent.map_or(0, |parent| self.roster.children(parent).count().saturating_sub(1)),
            children: self.roster.children(id).count(),
            at_work: others(self.roster.at_work()),
            asking: self
                .roster
                .asking()
                .iter()
                .filter(|one| **one != id)
                .filter_map(|one| self.roster.get(*one))
                .map(|agent| agent.identity.label())
                .collect(),
            is_read_only: self.shared.store.is_read_only(),
        }
    }
}

struct Surroundings {
    parent: Option<String>,
    siblings: usize,
    children: usize,
    at_work: usize,
    asking: Vec<String>,
    is_read_only: bool,
}

/// What was painted.
struct Painted {
    frame: Frame,
    /// Nothing of a question is left out.
    is_whole: bool,
}

struct Painter {
    size: (u16, u16),
    spinner: u128,
    notice: Option<String>,
    surroundings: Surroundings,
    /// What is done, in words.
    doing: String,
}

impl Painter {
    /// The frame; what a question cannot show in it stands in the text, once, where it can be read on any screen.
    fn paint_readable(&self, agent: &mut Agent) -> Painted {
        let painted = self.paint(agent);
        let question = agent.question().filter(|_| !painted.is_whole).cloned();
        match question {
            Some(asked) if agent.view.spell_out(asked.number, &asked.question.detail) => self.paint(agent),
            _ => painted,
        }
    }

    fn paint(&self, agent: &mut Agent) -> Painted {
        let height = usize::from(self.size.1);
        let most = if agent.question().is_some() { (height / 6).max(1) } else { (height / 3).max(1) };
        let (input, cursor) = self.input_rows(agent, most);
        // On a tiny screen the input stays, and what is around it goes.
        let mut room = height.saturating_sub(input.len());
        let mut take = |rows: usize| {
            let is_room = room >= rows;
            room -= if is_room { rows } else { 0 };
            is_room
        };
        let status = take(1).then(|| self.status(agent));
        let separator = take(1).then(|| self.separator(agent));
        let (notices, is_whole) = self.notice_rows(agent, room);
        room -= notices.len();
        let spinner = self.spinner_row(agent).filter(|_| room > 1);
        let text_rows = room - usize::from(spinner.is_some());
        let mut rows = self.text_rows(agent, text_rows);
        rows.extend(spinner.into_iter().chain(separator).chain(notices));
        let cursor_row = rows.len() + cursor.1;
        rows.extend(input.into_iter().chain(status));
        let cursor = (cursor.0.min(self.size.0.saturating_sub(1)), u16::try_from(cursor_row).unwrap_or(0));
        let scrolling_rows = u16::try_from(text_rows).unwrap_or(0);
        Painted { frame: Frame { width: self.size.0, rows, cursor: Some(cursor), scrolling_rows }, is_whole }
    }

    fn text_rows(&self, agent: &mut Agent, height: usize) -> Vec<Row> {
        let scrollback = &mut agent.view.scrollback;
        let visible = scrollback.visible(text_width(self.size.0), u16::try_from(height).unwrap_or(u16::MAX));
        let mut rows: Vec<Row> = visible.into_iter().map(|row| self.row(text_row(row))).collect();
        rows.resize(height, Row::default());
        if !scrollback.is_at_bottom()
            && let Some(last) = rows.last_mut()
        {
            *last = self.row(Row::of("  ↓ there is more below (Ctrl+End)", Style::DIM));
        }
        rows
    }

    fn spinner_row(&self, agent: &Agent) -> Option<Row> {
        if !agent.view.is_spinning() {
            return None;
        }
        let picture = SPINNER[usize::try_from(self.spinner % SPINNER.len() as u128).unwrap_or(0)];
        let mut row = Row::of(format!("{picture} "), Style::color(Color::Cyan));
        row.push(self.doing.as_str(), Style::DIM);
        Some(self.row(row))
    }

    fn separator(&self, agent: &Agent) -> Row {
        let around = &self.surroundings;
        let mut parts = Vec::new();
        parts.extend(around.parent.as_ref().map(|parent| format!("↑ {parent}")));
        parts.extend(counted(around.siblings, "sibling", "siblings"));
        parts.extend(counted(around.children, "child", "children"));
        parts.extend(counted(agent.unread, "unread letter", "unread letters"));
        parts.extend((around.at_work > 0).then(|| format!("{} at work", around.at_work)));
        let mut row = Row::of("── ", Style::DIM);
        row.push(text::sanitise(&agent.identity.label()), Style::BOLD);
        row.push(" ", Style::default());
        for part in parts {
            row.push(format!("─ {} ", text::sanitise(&part)), Style::DIM);
        }
        if let [first, rest @ ..] = around.asking.as_slice() {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            row.push(format!("─ {} asks{more} ", text::sanitise(first)), Style::color(Color::Yellow));
        }
        let used = text::width(&row.text());
        row.push("─".repeat(usize::from(self.size.0).saturating_sub(used)), Style::DIM);
        self.row(row)
    }

    /// What a person should see above the input, in so many rows: the question first, then words of the house, then what
    /// is queued.
    fn notice_rows(&self, agent: &Agent, room: usize) -> (Vec<Row>, bool) {
        let (mut rows, is_whole) = match agent.question() {
            Some(asked) => self.question_rows(asked, room, !agent.view.draft.is_empty()),
            None => (Vec::new(), true),
        };
        let columns = usize::from(self.size.0).max(1);
        for line in self.notice.iter().flat_map(|notice| notice.lines()) {
            let line = text::sanitise(line);
            rows.extend(text::wrap(&line, columns).map(|(_, part)| Row::of(part, Style::color(Color::Yellow))));
        }
        let queued = agent.queue.iter().enumerate().take(QUEUE_ROWS);
        rows.extend(
            queued.map(|(at, text)| Row::of(format!("  queued {}: {}", at + 1, one_line(&text.line())), Style::DIM)),
        );
        if agent.queue.len() > QUEUE_ROWS {
            rows.push(Row::of(format!("  and {} more", agent.queue.len() - QUEUE_ROWS), Style::DIM));
        }
        if !agent.queue.is_empty() && agent.state() == State::Idle {
            rows.push(Row::of("  the queue waits: Enter sends the next, Up takes the last one back", Style::DIM));
        }
        rows.truncate(room);
        (rows.into_iter().map(|row| self.row(row)).collect(), is_whole)
    }

    /// The exact command or change, and the question. What does not fit is said to be left out, and stands in the text
    /// above; where not even that can be said, nothing can be answered.
    fn question_rows(&self, asked: &Asked, room: usize, is_typing: bool) -> (Vec<Row>, bool) {
        let yellow = Style::color(Color::Yellow);
        if !is_large_enough_to_ask(self.size) {
            return (vec![Row::of("? enlarge to answer", yellow)], true);
        }
        let columns = usize::from(self.size.0).saturating_sub(2).max(1);
        let mut rows = Vec::new();
        for line in &asked.question.detail {
            let line = text::expand_tabs(line).into_owned();
            let line = text::sanitise(&line).replace('\n', "␊");
            rows.extend(text::wrap(&line, columns).map(|(_, part)| Row::of(format!("  {part}"), Style::BOLD)));
        }
        let is_whole = rows.len() + 2 <= room;
        if !is_whole {
            // Beside the title, the way to answer and a row that tells what is left out, the text keeps some rows.
            let shown = room.saturating_sub(3 + TEXT_ROWS_BESIDE_QUESTION);
            let hidden = rows.len() - shown.min(rows.len());
            rows.truncate(shown);
            rows.push(Row::of(format!("  … {hidden} rows more: PgUp shows them"), Style::color(Color::Red)));
        }
        rows.insert(0, Row::of(format!("? may this run: {}", one_line(&asked.question.title)), yellow));
        rows.push(Row::of(
            match (is_whole, is_typing) {
                (true, false) => "  y runs it, n refuses it",
                (true, true) => "  Alt+Y runs it, Alt+N refuses it (something is typed)",
                (false, _) => "  Alt+Y runs it, Alt+N refuses it (read all of it first)",
            },
            yellow,
        ));
        (rows, is_whole)
    }

    fn input_rows(&self, agent: &Agent, most: usize) -> (Vec<Row>, (u16, usize)) {
        let layout = agent.view.draft.layout(text_width(self.size.0));
        let (column, at) = layout.cursor;
        // The rows around the cursor, if there are more than fit.
        let first = (at + 1).saturating_sub(most).min(layout.rows.len().saturating_sub(most));
        let shown = layout.rows.iter().enumerate().skip(first).take(most);
        let rows = shown.map(|(n, text)| {
            let mut row = Row::of(if n == 0 { "> " } else { "  " }, Style::color(Color::Green));
            row.push(text.as_str(), Style::default());
            self.row(row)
        });
        (rows.collect(), (column + GUTTER, at - first))
    }

    fn status(&self, agent: &Agent) -> Row {
        let used = agent.used.input + agent.used.output;
        let mut left = format!("  {}", agent.talk.endpoint.full_name());
        if used > 0 {
            left.push_str(&format!("  {} tokens, context {}", used, agent.view.context_tokens));
        }
        if self.surroundings.is_read_only {
            left.push_str("  read-only");
        }
        let right = "/help ";
        let space = usize::from(self.size.0).saturating_sub(text::width(&left) + right.len());
        let left = text::sanitise(&left).into_owned();
        let line = if space > 0 { format!("{left}{}{right}", " ".repeat(space)) } else { left };
        self.row(Row::of(line, Style::DIM))
    }

    /// The row, no wider than the screen.
    fn row(&self, row: Row) -> Row {
        let mut cut = Row::default();
        let mut left = usize::from(self.size.0);
        for span in row.spans {
            let part = text::truncate(&span.text, left);
            left -= text::width(part);
            cut.push(part, span.style);
        }
        cut
    }
}

fn text_row(row: VisibleRow) -> Row {
    let (sign, style) = look_of(row.kind);
    if row.is_gap {
        return Row::default();
    }
    let mut drawn = Row::of(if row.is_first_of_block { sign } else { "  " }, Style { dim: true, ..style });
    drawn.push(row.text, style);
    drawn
}

fn look_of(kind: LineKind) -> (&'static str, Style) {
    match kind {
        LineKind::Person => ("> ", Style { bold: true, ..Style::color(Color::Green) }),
        LineKind::Assistant => ("  ", Style::default()),
        LineKind::Thinking => ("~ ", Style { italic: true, ..Style::DIM }),
        LineKind::ToolCall => ("* ", Style::color(Color::Cyan)),
        LineKind::ToolOutput => ("| ", Style::DIM),
        LineKind::Note => ("  ", Style::color(Color::Blue)),
        LineKind::Error => ("! ", Style::color(Color::Red)),
        LineKind::Mark => ("- ", Style::DIM),
    }
}

fn counted(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {many}")),
    }
}
