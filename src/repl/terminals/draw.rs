//! Draws frames: at most one per terminal and turn, and only if something visible has changed.
//!
//! ```text
//!   text of the conversation      scrolls
//!   ⠹ waiting for the model 3 s   while the agent works
//!   ── agent 0 ── 2 at work ───   separator
//!   queued, question, notice
//!   > what is typed
//!   model            tokens       status line
//! ```

use crate::agent::{Agent, Role};
use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::domain::scrollback::LineKind;
use crate::repl::core::activity;
use crate::repl::core::{Core, agent_gone};
use crate::repl::terminals::painter::{Painter, ScreenInfo};
use crate::repl::terminals::question::{QuestionKeys, QuestionView};
use crate::repl::terminals::{Terminal, Terminals, leave_view};
use crate::repl::timeout::SPINNER_STEP;
use crate::team::Gate;

/// Messages that are read from the store at a time.
const OLDER_MESSAGES: usize = 200;
/// Queue entries that are shown above the input.
pub(in crate::repl) const QUEUE_ROWS: usize = 3;
/// The fewest rows on which a question can be shown and answered.
const ROWS_TO_ASK: u16 = 8;
/// The fewest columns on which a question can be shown and answered.
const COLUMNS_TO_ASK: u16 = 20;
/// Columns on the left for the sign of the kind of text.
pub(super) const GUTTER: u16 = 2;

/// Everything on which a frame depends: if it is unchanged, so is the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::repl) struct VisibleState {
    focus: AgentId,
    size: (u16, u16),
    revision: u64,
    /// The revision of what belongs to the terminal alone.
    terminal_revision: u64,
    spinner: u128,
    notice: Option<String>,
    agents: usize,
    at_work: usize,
    asking: Vec<AgentId>,
    position: Option<usize>,
    gate: Option<Gate>,
    question: Option<u64>,
    question_keys: QuestionKeys,
}

impl VisibleState {
    pub(in crate::repl) fn has_shown(&self, agent_id: AgentId, question: u64) -> bool {
        self.focus == agent_id && self.question == Some(question)
    }

    /// What the frame says about keys, if it shows a question.
    pub(in crate::repl) fn question_keys(&self) -> Option<QuestionKeys> {
        self.question.map(|_| self.question_keys)
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

/// The file in which a rule for the agent's directory would be saved, if it would.
pub(in crate::repl) fn rule_file(core: &Core, agent: &Agent) -> Option<String> {
    let is_lasting = agent.inputs.environment.worktree.is_none();
    core.config.user_file.as_ref().filter(|_| is_lasting).map(|file| file.display().to_string())
}

impl Terminals {
    /// Draws the terminals whose visible state has changed.
    pub(in crate::repl) fn render(&mut self, core: &mut Core) {
        let terminals = self.ids();
        terminals.iter().for_each(|at| self.draw(core, *at));
    }

    fn draw(&mut self, core: &mut Core, at: TerminalId) {
        let Some(state) = self.changed_state(core, at) else { return };
        core.roster.with(state.focus, |agent| agent.view.scrollback.update());
        let painted = self
            .painter(core, at, &state)
            .zip(core.roster.get(state.focus))
            .map(|(painter, agent)| painter.paint(agent));
        let (Some(painted), Some(terminal)) = (painted, self.get_mut(at)) else { return };
        let (focus, now) = (state.focus, core.clock.now());
        let asked = state.question.zip(painted.page).map(|(number, page)| (focus, number, page));
        terminal.note_question(asked, painted.has_whole_rules, now);
        terminal.display.text_rows = painted.frame.scrolling_rows;
        terminal.display.shown = Some(state);
        terminal.display.drawn_at = now;
        terminal.show(&painted.frame);
        self.settle_view(core, at, focus);
    }

    /// Follows the end of the text as it grows, if all terminals of this reader show it.
    fn settle_view(&self, core: &mut Core, at: TerminalId, focus: AgentId) {
        let reader = self.reader(at);
        let is_same_reader = |id: &TerminalId| self.reader(*id) == reader;
        let terminals = self.showing(&[focus]);
        let screens = terminals.into_iter().filter(is_same_reader).filter_map(|id| self.get(id));
        let screens: Vec<(u16, u16)> =
            screens.map(|terminal| (text_width(terminal.size.0), terminal.display.text_rows)).collect();
        core.roster.with(focus, |agent| agent.view.scrollback.settle(reader, &screens));
    }

    fn painter(&self, core: &Core, at: TerminalId, state: &VisibleState) -> Option<Painter<'_>> {
        let terminal = self.get(at)?;
        Some(Painter {
            size: state.size,
            spinner: state.spinner,
            notice: terminal.input.notice.clone(),
            // A read-only terminal shows the agent's draft until something is typed there.
            draft: (!terminal.input.draft.is_empty()).then_some(&terminal.input.draft),
            reader: self.reader(at),
            screen_info: Self::screen_info(core, state.focus, terminal.mode.is_read_only),
            activity: core.activity(state.focus, true),
            question: self.question_view(terminal, state),
            question_keys: state.question_keys,
        })
    }

    /// What this terminal has shown of the question already.
    fn question_view<'a>(&self, terminal: &'a Terminal, state: &VisibleState) -> Option<&'a QuestionView> {
        let number = state.question?;
        terminal.display.question_view(state.focus, number, state.size.0)
    }

    /// The visible state of a terminal if it has changed and the terminal accepts output.
    fn changed_state(&mut self, core: &Core, at: TerminalId) -> Option<VisibleState> {
        let state = self.visible_state(core, at)?;
        let terminal = self.get_mut(at)?;
        let is_stale = terminal.display.shown.as_ref() != Some(&state);
        terminal.display.is_behind = is_stale && !terminal.is_ready();
        (is_stale && !terminal.display.is_behind).then_some(state)
    }

    fn visible_state(&self, core: &Core, at: TerminalId) -> Option<VisibleState> {
        let terminal = self.get(at)?;
        let agent = core.roster.get(terminal.focus)?;
        let (now, worker) = (core.clock.now(), core.worker(terminal.focus));
        let gate = core.send_queue.gate_of(worker, now);
        let countdown = core.roster.get(worker).and_then(|worker| activity::countdown(worker, gate.as_ref()));
        let step = match countdown {
            _ if !agent.view.is_spinning() => 0,
            Some(at) => activity::seconds_left(at, now).into(),
            None => (now - agent.started()).as_millis() / SPINNER_STEP.as_millis(),
        };
        let revision = agent.view.revision();
        // While the text changes the spinner need not move: a frame with one changed row costs half of one with two.
        let is_moved =
            |state: &&VisibleState| countdown.is_none() && state.focus == terminal.focus && state.revision != revision;
        let moved = terminal.display.shown.as_ref().filter(is_moved);
        let question = agent.question().map(|asked| asked.number).filter(|_| is_large_enough_to_ask(terminal.size));
        let view = question.and_then(|number| terminal.display.question_view(terminal.focus, number, terminal.size.0));
        Some(VisibleState {
            focus: terminal.focus,
            size: terminal.size,
            revision,
            terminal_revision: terminal.input.revision,
            spinner: moved.map_or(step, |state| state.spinner),
            notice: terminal.input.notice.clone(),
            agents: core.roster.len(),
            at_work: core.roster.at_work().len(),
            asking: core.roster.asking().iter().copied().chain(core.trees.all_held().map(|(held, _)| held)).collect(),
            position: core.send_queue.position_of(worker),
            gate,
            question,
            question_keys: view.map(|view| view.keys(now)).unwrap_or_default(),
        })
    }

    /// Shows an agent on a terminal. Its stored draft and messages are read when it is first shown.
    pub(in crate::repl) fn show(&mut self, core: &mut Core, at: TerminalId, id: AgentId) {
        let reader = self.reader(at);
        let Some(terminal) = self.get_mut(at) else { return };
        let left = std::mem::replace(&mut terminal.focus, id);
        terminal.input.recalled = None;
        if left != id {
            leave_view(core, reader, left);
        }
        if core.roster.get(id).is_some_and(|agent| !agent.view.was_shown()) {
            let typed = core.store.draft(id).unwrap_or_default();
            core.roster.with(id, |agent| agent.view.show_first(&typed));
            Self::show_older(core, id);
        }
    }

    /// Reads the conversation again, with replies as they were written or drawn.
    pub(in crate::repl) fn toggle_raw(core: &mut Core, id: AgentId) -> Result<()> {
        core.roster.with(id, |agent| agent.view.toggle_raw()).ok_or_else(agent_gone)?;
        Self::show_older(core, id);
        Ok(())
    }

    /// Reads the next older messages into the scrollback.
    pub(in crate::repl) fn show_older(core: &mut Core, id: AgentId) {
        let Some(before) = core.roster.get(id).and_then(|agent| agent.view.wants_older_than()) else { return };
        match core.store.tail(id, before, OLDER_MESSAGES) {
            Ok(older) => core.roster.with(id, |agent| agent.show_older(&older, OLDER_MESSAGES)).unwrap_or_default(),
            Err(error) => core.note(id, LineKind::Error, &error.message),
        }
    }

    /// What the separator and the status line show about other agents.
    fn screen_info(core: &Core, id: AgentId, is_read_only: bool) -> ScreenInfo {
        let parent = core.roster.parent(id);
        let others = |set: &std::collections::BTreeSet<AgentId>| set.iter().filter(|other| **other != id).count();
        ScreenInfo {
            parent: parent.and_then(|parent| core.roster.get(parent)).map(|parent| parent.identity.label()),
            siblings: parent.map_or(0, |parent| core.roster.children(parent).count().saturating_sub(1)),
            children: core.roster.children(id).count(),
            at_work: others(core.roster.at_work()),
            asking: core
                .roster
                .asking()
                .iter()
                .copied()
                .chain(core.trees.all_held().map(|(held, _)| held))
                .filter(|other| *other != id)
                .filter_map(|other| core.roster.get(other).filter(|agent| agent.role != Role::Summary))
                .map(|agent| agent.identity.label())
                .collect(),
            is_read_only: is_read_only || core.store.is_read_only(),
            rule_file: core.roster.get(id).and_then(|agent| rule_file(core, agent)),
        }
    }
}
