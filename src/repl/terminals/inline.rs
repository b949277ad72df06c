//! A terminal without the alternate screen (`--inline`): finished text is printed once and stays in the terminal's own
//! scrollback; below it is a live area. Lists and scrolled-back text are shown on the alternate screen.

use std::collections::BTreeMap;

use crate::agent::Agent;
use crate::base::id::AgentId;
use crate::domain::frame::{Frame, Row, Style};
use crate::repl::terminals::conversation;
use crate::terminal::inline;
use crate::terminal::screen::Palette;

/// The content of an inline terminal.
pub(super) struct Inline {
    pub screen: inline::Inline,
    /// The next line of each agent, and the epoch of its scrollback.
    next: BTreeMap<AgentId, (u64, i64)>,
    /// The agent that was printed last.
    printed: Option<AgentId>,
    /// A frame is shown on the alternate screen.
    pub is_overlaid: bool,
}

/// A change of the main screen.
pub(super) struct Step {
    pub printed: Vec<Row>,
    pub live: Vec<Row>,
    pub cursor: (u16, u16),
}

impl Inline {
    pub fn new(palette: Palette, reflows: bool) -> Self {
        let screen = inline::Inline::new(palette, reflows);
        Self { screen, next: BTreeMap::new(), printed: None, is_overlaid: false }
    }

    /// Forgets the agents that were removed.
    pub fn retain(&mut self, is_alive: impl Fn(AgentId) -> bool) {
        self.next.retain(|agent, _| is_alive(*agent));
    }

    /// Splits a frame: finished text is printed; the rest of the reply and everything below it is live. `overview` is
    /// shown if there is no reply.
    pub fn step(&mut self, agent: &Agent, frame: &Frame, overview: Vec<Row>, height: u16) -> Step {
        let printed = self.take_printed(agent, frame.width);
        let from = self.next[&agent.id()].1;
        let scrolling = usize::from(frame.scrolling_rows).min(frame.rows.len());
        let below = &frame.rows[scrolling..];
        let room = usize::from(height / 3).min(usize::from(height).saturating_sub(below.len() + 1));
        let end = agent.view.scrollback.end();
        let mut growing = conversation::rows_between(&agent.view.scrollback, from, end, frame.width);
        if growing.is_empty() && overview.len() <= room {
            growing = overview;
        }
        let mut live = growing[growing.len().saturating_sub(room)..].to_vec();
        let (column, row) = frame.cursor.unwrap_or_default();
        let row = usize::from(row).saturating_sub(scrolling) + live.len();
        live.extend_from_slice(below);
        Step { printed, live, cursor: (column, u16::try_from(row).unwrap_or(0)) }
    }

    /// The rows to print permanently, which count as printed from now on.
    pub fn take_printed(&mut self, agent: &Agent, columns: u16) -> Vec<Row> {
        let scrollback = &agent.view.scrollback;
        let (first, end) = (scrollback.first(), scrollback.settled_end());
        let is_new = !self.next.contains_key(&agent.id());
        let (epoch, next) = *self.next.entry(agent.id()).or_insert((scrollback.epoch(), first));
        // Text that was forgotten and read again was printed before.
        let from = if epoch == scrollback.epoch() { next } else { end };
        let end = end.max(from);
        let mut rows = conversation::rows_between(scrollback, from, end, columns);
        self.next.insert(agent.id(), (scrollback.epoch(), end));
        let has_switched = self.printed.replace(agent.id()).is_some_and(|before| before != agent.id());
        if has_switched && (is_new || !rows.is_empty() || end == from) {
            let name = format!("── {} ", agent.identity.label());
            rows.splice(0..0, [Row::default(), Row::of(name, Style::DIM).cut(columns)]);
        }
        rows
    }

    /// The remaining rows, at the end of the program.
    pub fn take_rest(&mut self, agent: &Agent, columns: u16) -> Vec<Row> {
        let mut rows = self.take_printed(agent, columns);
        let (from, end) = (self.next[&agent.id()].1, agent.view.scrollback.end());
        rows.extend(conversation::rows_between(&agent.view.scrollback, from, end, columns));
        rows
    }

    /// The line before which everything of this agent is printed.
    pub fn printed_of(&self, agent: AgentId) -> Option<i64> {
        self.next.get(&agent).map(|(_, next)| *next)
    }
}
