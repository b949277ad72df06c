//! From an agent to a frame. At most once per terminal and turn, only for the agent on its screen, only if something that
//! can be seen there has changed.
//!
//! ```text
//!   text of the conversation      scrolls
//!   ⠹ waiting for the model 3 s   while the agent works
//!   ── agent 0 ── 2 at work ───   separator
//!   queued, question, notice
//!   > what is typed
//!   model            tokens       status line
//! ```

use crate::base::id::{AgentId, TerminalId};
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::repl::core::activity;
use crate::repl::terminals::painter::{Painter, Surroundings};
use crate::repl::terminals::{Terminals, leave_view};
use crate::repl::timeout::SPINNER_STEP;
use crate::team::Gate;

/// Messages that are read from the store at a time, for the screen.
const OLDER_MESSAGES: usize = 200;
/// Queued texts that are shown.
pub(in crate::repl) const QUEUE_ROWS: usize = 3;
/// On fewer rows than this a question cannot be shown so that it could be answered.
const ROWS_TO_ASK: u16 = 8;
/// The same for columns.
const COLUMNS_TO_ASK: u16 = 20;
/// Columns on the left that tell who speaks.
pub(super) const GUTTER: u16 = 2;

/// Everything that the last frame depended on: if it is the same, so is the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::repl) struct VisibleState {
    focus: AgentId,
    size: (u16, u16),
    revision: u64,
    /// The revision of what belongs to the seat alone.
    own: u64,
    spinner: u128,
    notice: Option<String>,
    agents: usize,
    at_work: usize,
    asking: Vec<AgentId>,
    place: Option<usize>,
    gate: Option<Gate>,
    question: Option<u64>,
}

impl VisibleState {
    pub(in crate::repl) fn has_shown(&self, agent_id: AgentId, question: u64) -> bool {
        self.focus == agent_id && self.question == Some(question)
    }
}

/// Whether a question can be shown so that it could be answered.
pub(super) fn is_large_enough_to_ask((columns, rows): (u16, u16)) -> bool {
    columns >= COLUMNS_TO_ASK && rows >= ROWS_TO_ASK
}

/// The columns that text of the conversation has on a terminal of this width.
pub(in crate::repl) fn text_width(columns: u16) -> u16 {
    columns.saturating_sub(GUTTER).max(1)
}

impl Terminals {
    /// Draws on each terminal the agent that it looks at, if what can be seen of it there has changed.
    pub(in crate::repl) fn render(&mut self, core: &mut Core) {
        let terminals = self.ids();
        // What one of them has no room for is added to the text of all of them, so before any is drawn.
        terminals.iter().for_each(|at| self.show_question_detail(core, *at));
        terminals.iter().for_each(|at| self.draw(core, *at));
    }

    /// What of a question does not fit this terminal stands in the text, once, where it can be read on any.
    fn show_question_detail(&mut self, core: &mut Core, at: TerminalId) {
        let question = |terminals: &Self, core: &Core| {
            let agent = core.roster.get(terminals.get(at)?.focus)?;
            agent.question().filter(|asked| !agent.view.shows_question_detail(asked.number)).cloned()
        };
        let Some((asked, seen)) = question(self, core).and_then(|asked| Some((asked, self.look_if_due(core, at)?)))
        else {
            return;
        };
        let is_whole = self
            .painter(core, at, &seen)
            .is_none_or(|painter| core.roster.get(seen.focus).is_none_or(|agent| painter.paint(agent).is_whole));
        if !is_whole {
            core.roster.with(seen.focus, |agent| agent.view.show_question_detail(asked.number, &asked.question.detail));
        }
    }

    fn draw(&mut self, core: &mut Core, at: TerminalId) {
        let Some(seen) = self.look_if_due(core, at) else { return };
        let painted =
            self.painter(core, at, &seen).zip(core.roster.get(seen.focus)).map(|(painter, agent)| painter.paint(agent));
        let (Some(painted), Some(terminal)) = (painted, self.get_mut(at)) else { return };
        let focus = seen.focus;
        terminal.text_rows = painted.frame.scrolling_rows;
        terminal.shows_whole_question = painted.is_whole;
        terminal.seen = Some(seen);
        terminal.drawn_at = core.clock.now();
        terminal.show(&painted.frame);
        self.settle_view(core, at, focus);
    }

    /// Who sees the end of the text on all their screens goes on to see it as it grows.
    fn settle_view(&self, core: &mut Core, at: TerminalId, focus: AgentId) {
        let reader = self.reader(at);
        let is_other = |one: &TerminalId| self.reader(*one) == reader;
        let terminals = self.looking_at(&[focus]);
        let screens = terminals.into_iter().filter(is_other).filter_map(|one| self.get(one));
        let screens: Vec<(u16, u16)> =
            screens.map(|terminal| (text_width(terminal.size.0), terminal.text_rows)).collect();
        core.roster.with(focus, |agent| agent.view.scrollback.settle(reader, &screens));
    }

    fn painter(&self, core: &Core, at: TerminalId, seen: &VisibleState) -> Option<Painter<'_>> {
        let terminal = self.get(at)?;
        Some(Painter {
            size: seen.size,
            spinner: seen.spinner,
            notice: terminal.notice.clone(),
            // Whoever only watches sees what the others type until they type something themselves.
            draft: (!terminal.own_draft.is_empty()).then_some(&terminal.own_draft),
            reader: self.reader(at),
            screen_info: Self::screen_info(core, seen.focus, terminal.mode.is_read_only),
            activity: core.activity(seen.focus, true),
        })
    }

    /// What is to be seen at a terminal, if it differs from what it shows. One that takes nothing now gets it later.
    fn look_if_due(&mut self, core: &Core, at: TerminalId) -> Option<VisibleState> {
        let seen = self.look(core, at)?;
        let terminal = self.get_mut(at)?;
        let is_stale = terminal.seen.as_ref() != Some(&seen);
        terminal.is_behind = is_stale && !terminal.is_ready();
        (is_stale && !terminal.is_behind).then_some(seen)
    }

    fn look(&self, core: &Core, at: TerminalId) -> Option<VisibleState> {
        let terminal = self.get(at)?;
        let agent = core.roster.get(terminal.focus)?;
        let (now, worker) = (core.clock.now(), core.worker(terminal.focus));
        let gate = core.gate_of(worker);
        let countdown = core.roster.get(worker).and_then(|worker| activity::countdown(worker, gate));
        let step = match countdown {
            _ if !agent.view.is_spinning() => 0,
            Some(at) => activity::seconds_left(at, now).into(),
            None => (now - agent.started()).as_millis() / SPINNER_STEP.as_millis(),
        };
        let revision = agent.view.revision();
        // Where the text moves, the sign of work need not: a frame of one row costs half of one of two.
        let is_moved =
            |seen: &&VisibleState| countdown.is_none() && seen.focus == terminal.focus && seen.revision != revision;
        let moved = terminal.seen.as_ref().filter(is_moved);
        Some(VisibleState {
            focus: terminal.focus,
            size: terminal.size,
            revision,
            own: terminal.revision,
            spinner: moved.map_or(step, |seen| seen.spinner),
            notice: terminal.notice.clone(),
            agents: core.roster.len(),
            at_work: core.roster.at_work().len(),
            asking: core.roster.asking().iter().copied().collect(),
            place: core.roster.send_queue_position(worker),
            gate: gate.cloned(),
            question: agent.question().map(|asked| asked.number).filter(|_| is_large_enough_to_ask(terminal.size)),
        })
    }

    /// Puts an agent on the screen of a terminal: a change of pointer. What is stored of it is read when it is first shown.
    pub(in crate::repl) fn show(&mut self, core: &mut Core, at: TerminalId, id: AgentId) {
        let reader = self.reader(at);
        let Some(terminal) = self.get_mut(at) else { return };
        let left = std::mem::replace(&mut terminal.focus, id);
        terminal.recalled = None;
        if left != id {
            leave_view(core, reader, left);
        }
        if core.roster.get(id).is_some_and(|agent| !agent.view.was_shown()) {
            let typed = core.store.draft(id).unwrap_or_default();
            core.roster.with(id, |agent| agent.view.show_first(&typed));
            Self::show_older(core, id);
        }
    }

    /// Reads the next older messages into the scrollback.
    pub(in crate::repl) fn show_older(core: &mut Core, id: AgentId) {
        let Some(before) = core.roster.get(id).and_then(|agent| agent.view.wants_older_than()) else { return };
        match core.store.tail(id, before, OLDER_MESSAGES) {
            Ok(older) => core.roster.with(id, |agent| agent.view.prepend(&older, OLDER_MESSAGES)).unwrap_or_default(),
            Err(error) => core.note(id, LineKind::Error, &error.message),
        }
    }

    /// What the separator tells of the others.
    fn screen_info(core: &Core, id: AgentId, is_watched: bool) -> Surroundings {
        let parent = core.roster.parent(id);
        let others = |set: &std::collections::BTreeSet<AgentId>| set.iter().filter(|one| **one != id).count();
        Surroundings {
            parent: parent.and_then(|parent| core.roster.get(parent)).map(|parent| parent.identity.label()),
            siblings: parent.map_or(0, |parent| core.roster.children(parent).count().saturating_sub(1)),
            children: core.roster.children(id).count(),
            at_work: others(core.roster.at_work()),
            asking: core
                .roster
                .asking()
                .iter()
                .filter(|one| **one != id)
                .filter_map(|one| core.roster.get(*one))
                .map(|agent| agent.identity.label())
                .collect(),
            is_read_only: is_watched || core.store.is_read_only(),
        }
    }
}
