//! A tile of the wall: one agent, with the last rows of its conversation.

use std::collections::BTreeMap;

use crate::agent::{Agent, PendingQuestion, Role, State};
use crate::base::id::AgentId;
use crate::base::text;
use crate::base::text::dollars;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::todo::Todo;
use crate::repl::core::activity::one_line;
use crate::repl::core::{Core, activity};
use crate::repl::terminals::conversation;
use crate::repl::terminals::draw::GUTTER;
use crate::repl::terminals::pane::hint_row;
use crate::team::Places;

/// What an agent does, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TileState {
    Asks,
    Failed,
    /// The command that says whether it is done has failed.
    CheckFails,
    Writes,
    Tool,
    Waits,
    Interrupted,
    Idle,
}

impl TileState {
    pub fn of(core: &Core, agent: &Agent) -> Self {
        match agent.state() {
            State::AwaitingApproval => Self::Asks,
            State::ExecutingTool => Self::Tool,
            State::WaitingForLlm if agent.partial_text().is_empty() || activity::is_held_up(core, agent.id()) => {
                Self::Waits
            }
            State::WaitingForLlm => Self::Writes,
            State::Idle if agent.has_failed() => Self::Failed,
            State::Idle if agent.is_interrupted() => Self::Interrupted,
            State::Idle if agent.report.fails => Self::CheckFails,
            State::Idle => Self::Idle,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Asks => "ASKS",
            Self::Failed => "FAILED",
            Self::CheckFails => "CHECK FAILS",
            Self::Writes => "writes",
            Self::Tool => "tool",
            Self::Waits => "waits",
            Self::Interrupted => "interrupted",
            Self::Idle => "idle",
        }
    }

    const fn needs_person(self) -> bool {
        matches!(self, Self::Asks | Self::Failed | Self::CheckFails)
    }

    pub const fn color(self) -> Color {
        match self {
            Self::Asks | Self::Interrupted => Color::Attention,
            Self::Failed | Self::CheckFails => Color::Error,
            Self::Writes | Self::Tool | Self::Waits => Color::Activity,
            Self::Idle => Color::Default,
        }
    }
}

/// Whether an agent has a tile.
pub(super) fn has_tile(agent: &Agent) -> bool {
    agent.role != Role::Summary
}

/// The last rows of a conversation, laid out for a tile.
pub(super) struct TileText {
    /// Of the agent's view, when they were laid out.
    revision: u64,
    size: (u16, usize),
    /// Each with the columns that it has.
    rows: Vec<(Row, usize)>,
}

/// The conversations that the tiles of the last frame showed.
#[derive(Default)]
pub(super) struct TileTexts {
    texts: BTreeMap<AgentId, TileText>,
    laid_out: usize,
}

impl TileTexts {
    /// How many were laid out so far.
    pub fn laid_out(&self) -> usize {
        self.laid_out
    }

    /// Forgets those that no tile shows any more.
    pub fn retain(&mut self, shown: &[AgentId]) {
        self.texts.retain(|agent, _| shown.contains(agent));
    }

    /// The last rows of an agent's conversation, laid out again only if they have changed.
    fn of(&mut self, agent: &Agent, (columns, height): (u16, usize)) -> Vec<(Row, usize)> {
        let (revision, size) = (agent.view.revision(), (columns, height));
        let known = self.texts.get(&agent.id()).filter(|text| (text.revision, text.size) == (revision, size));
        if let Some(known) = known {
            return known.rows.clone();
        }
        let rows = conversation::last_words(&agent.view.scrollback, columns, height);
        let rows = fitted(rows, columns, height);
        self.laid_out += 1;
        self.texts.insert(agent.id(), TileText { revision, size, rows: rows.clone() });
        rows
    }
}

/// Exactly so many rows, cut to so many columns, with the columns that each has.
fn fitted(mut rows: Vec<Row>, columns: u16, height: usize) -> Vec<(Row, usize)> {
    rows.resize(height, Row::default());
    rows.into_iter().map(|row| measured(row, columns)).collect()
}

fn measured(row: Row, columns: u16) -> (Row, usize) {
    let row = row.cut(columns);
    let width = text::width(&row.text());
    (row, width)
}

/// The rows of a tile of this size, borders included. Each is exactly so wide.
pub(super) fn rows(
    core: &Core,
    (texts, places): (&mut TileTexts, &Places),
    agent: &Agent,
    (columns, height): (u16, usize),
    (is_marked, is_chosen): (bool, bool),
) -> Vec<Row> {
    let state = TileState::of(core, agent);
    let border = match (is_marked, is_chosen) {
        (true, _) => Style { bold: true, ..Style::color(Color::User) },
        (_, true) => Style::color(Color::User),
        _ => Style { dim: !state.needs_person(), ..Style::color(state.color()) },
    };
    let inner = usize::from(columns).saturating_sub(2);
    let sign = if is_chosen { "*" } else { "" };
    let is_number = agent.identity.name.is_none() && agent.title.is_empty();
    let number = if is_number { String::new() } else { agent.identity.digits() + " " };
    let label = format!("{sign}{}{}", number.trim_start(), agent.listed());
    let mut rows = vec![edge(['┌', '┐'], &label, &heading(agent, state), inner, border)];
    let size = (columns.saturating_sub(2), height.saturating_sub(2));
    let content = if height > 2 { content(core, texts, agent, size) } else { Vec::new() };
    for (row, used) in content {
        let mut line = Row::of("│", border);
        row.spans.into_iter().for_each(|span| line.push(span.text, span.style));
        line.push(" ".repeat(inner.saturating_sub(used)), Style::default());
        line.push("│", border);
        rows.push(line);
    }
    let place = || format!("{} {}", places.of_agent(agent), agent.inputs.endpoint.shown_name());
    let todo = agent.view.todo().map(Todo::summary).filter(|todo| !todo.is_empty());
    let report = Some(agent.report.line()).filter(|report| !report.is_empty());
    let bottom = [report, Some(todo.unwrap_or_else(place))].into_iter().flatten().collect::<Vec<_>>().join(" ─ ");
    let is_plain = agent.report.conflicts.is_empty() || is_marked;
    let border = if is_plain { border } else { Style::color(Color::Attention) };
    rows.push(edge(['└', '┘'], &bottom, &cost(agent), inner, border));
    rows
}

fn heading(agent: &Agent, state: TileState) -> String {
    let is_used = agent.context_tokens().is_some_and(|(tokens, _)| tokens > 0);
    let percent = agent.context_percent().filter(|_| is_used).map(|percent| format!(" ─ {percent}%"));
    format!("{}{}", state.name(), percent.unwrap_or_default())
}

fn cost(agent: &Agent) -> String {
    agent.used.cost.filter(|cost| *cost > 0).map(|cost| format!("${}", dollars(cost))).unwrap_or_default()
}

/// An upper or lower border with a text at each side.
fn edge([left, right]: [char; 2], label: &str, end: &str, inner: usize, style: Style) -> Row {
    let end = if end.is_empty() { String::new() } else { format!(" {end} ") };
    let end = text::shortened(&end, inner).into_owned();
    let room = inner.saturating_sub(text::width(&end));
    let label = text::sanitise(label);
    let label = text::shortened(&label, room.saturating_sub(2));
    let label = if label.is_empty() { String::new() } else { format!("{label} ") };
    let line = "─".repeat(room.saturating_sub(text::width(&label)));
    Row::of(format!("{left}{label}{line}{end}{right}"), style)
}

/// What the agent asks, as much as fits.
fn question_rows(asked: &PendingQuestion, columns: u16) -> impl Iterator<Item = Row> {
    let title = format!("{}{}", asked.question.answers.ask, one_line(&asked.question.title));
    let title: Vec<Row> =
        text::wrap(&title, columns.into()).map(|(_, part)| Row::of(part, Style::color(Color::Attention))).collect();
    let lines = asked.lines.iter().skip(usize::from(asked.command_in_title().is_some()));
    title.into_iter().chain(lines.flat_map(move |line| line.wrap(columns.into())))
}

/// The question of the agent, or what its command writes, or else the last rows of its conversation; each with the columns
/// that it has.
fn content(core: &Core, texts: &mut TileTexts, agent: &Agent, (columns, height): (u16, usize)) -> Vec<(Row, usize)> {
    let mut rows = match agent.question() {
        Some(asked) if height > 1 => {
            let answers = asked.question.answers;
            let keys = format!("y {}, n {}", answers.yes, answers.no);
            let mut rows = fitted(question_rows(asked, columns).take(height - 1).collect(), columns, height - 1);
            let key = Style { bold: true, ..Style::color(Color::Attention) };
            rows.push(measured(hint_row(&keys, Style::color(Color::Attention), key), columns));
            rows
        }
        Some(asked) => fitted(question_rows(asked, columns).take(height).collect(), columns, height),
        None => texts.of(agent, (columns, height)),
    };
    if let Some(output) = agent.live_output() {
        // Below the call.
        let shown = conversation::live_rows(&output, "", columns, height / 2);
        rows.drain(..shown.len());
        rows.extend(shown.into_iter().map(|row| measured(row, columns)));
    }
    if let (State::WaitingForLlm, Some(last)) = (agent.state(), rows.last_mut())
        && last.0.text().trim().is_empty()
    {
        let activity = Row::of(activity::activity(core, agent.id(), false), Style::DIM).cut(columns);
        let width = text::width(&activity.text());
        *last = (activity, width);
    }
    rows
}

/// Columns of a tile that has room for some words.
pub(super) const TILE_COLUMNS: u16 = 24 + GUTTER;
/// Rows of a tile, borders included.
pub(super) const TILE_ROWS: usize = 5;
/// Rows of a tile that shows enough of a conversation.
const COMFORTABLE_ROWS: usize = 10;

/// Columns beyond which a tile is not wider than its text needs.
const COMFORTABLE_COLUMNS: u16 = 80;

/// Columns and rows of tiles on a screen: as few columns as show all agents, so that each is as wide as its text needs.
pub(super) fn grid(agents: usize, (columns, rows): (u16, usize)) -> (usize, usize) {
    let (most_across, most_down) = (usize::from(columns / TILE_COLUMNS).max(1), (rows / TILE_ROWS).max(1));
    let least_across = usize::from(columns / COMFORTABLE_COLUMNS).min(agents).max(1);
    let fits = |across: &usize, tile_rows: usize| agents.div_ceil(*across) * tile_rows <= rows;
    let find = |tile_rows| (least_across..=most_across).find(|across| fits(across, tile_rows));
    let across = find(COMFORTABLE_ROWS).or_else(|| find(TILE_ROWS));
    (across.unwrap_or(most_across), most_down)
}
