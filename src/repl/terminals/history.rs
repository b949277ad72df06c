//! The history of inputs at a terminal, and drafts on their way to the store.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::Error;
use crate::base::id::{AgentId, TerminalId};
use crate::domain::draft::Draft;
use crate::domain::drafts::DraftSlot;
use crate::domain::flow::Origin;
use crate::domain::history::History;
use crate::repl::core::Core;
use crate::repl::core::drafts::{self, is_command};
use crate::repl::terminals::Terminals;
use crate::repl::terminals::terminal::{Notice, Recalled};
use crate::store::input_line;

/// A draft is stored this long after the last key.
const SAVE_AFTER: Duration = Duration::from_millis(250);

/// The drafts to store, and when.
#[derive(Default)]
pub(super) struct UnsavedDrafts(BTreeMap<(AgentId, DraftSlot), Moment>);

impl UnsavedDrafts {
    pub fn deadline(&self) -> Option<Moment> {
        self.0.values().min().copied()
    }

    /// Stores the drafts that are due.
    pub fn save(&mut self, core: &Core) {
        let now = core.now();
        self.0.extract_if(.., |_, at| *at <= now).for_each(|((agent, slot), _)| drafts::save(core, agent, slot));
    }
}

impl Terminals {
    /// A key has changed the draft at this terminal. The text at a read-only one is not stored.
    pub(super) fn note_unsaved(&mut self, core: &Core, at: TerminalId) {
        let focus = self.get(at).map(|terminal| terminal.focus);
        if let Some(draft) = focus.zip(drafts::slot_at(core, at)) {
            self.unsaved.0.insert(draft, core.now() + SAVE_AFTER);
        }
    }

    /// Empties the draft, and keeps its text in the history of inputs.
    pub(super) fn take_line(&mut self, core: &mut Core, id: TerminalId, agent: AgentId) -> Option<String> {
        let reader = self.reader(id);
        core.edit(agent, |agent| agent.view.scrollback.to_bottom(reader));
        let text = self.edit(core, id, Draft::take).filter(|text| !text.trim().is_empty())?;
        if let Some(lines) = &mut self.get_mut(id)?.lines {
            lines.note_typed(&text);
        }
        self.remember(core, id, &text);
        Some(text)
    }

    /// Empties the draft without sending it. Its text stays in the history of inputs, and undo brings it back.
    pub(super) fn clear(&mut self, core: &mut Core, id: TerminalId) {
        let text = self.edit(core, id, |draft| {
            let text = draft.expanded();
            draft.set("");
            text
        });
        self.remember(core, id, &text.unwrap_or_default());
    }

    /// A line is sent even if it cannot be added to the history.
    pub(super) fn remember(&self, core: &Core, id: TerminalId, text: &str) {
        if !self.is_read_only(id) {
            drop(core.store().remember_input(&project(core), text));
        }
    }

    /// Keeps the drafts of an agent that was removed: at the terminals that showed it, they go before the draft to the
    /// agent that is shown now; the rest goes to the history of inputs.
    pub(super) fn keep_drafts(&self, core: &mut Core, showed: &[TerminalId], drafts: &[(DraftSlot, String)]) {
        for (slot, text) in drafts {
            let terminal = showed.iter().find(|id| drafts::slot_at(core, **id) == Some(*slot));
            match terminal.and_then(|id| self.get(*id)).map(|terminal| terminal.focus) {
                Some(focus) => drafts::return_to_slot(core, focus, *slot, text),
                None => drop(core.store().remember_input(&project(core), text)),
            }
        }
    }

    /// Moves up or down in the draft; at its edge, recalls an older or newer input, and at last the draft as it was.
    pub(super) fn recall(&mut self, core: &mut Core, at: TerminalId, older: bool) {
        if self.with_draft(core, at, |draft| if older { draft.up() } else { draft.down() }) == Some(false) {
            self.recall_input(core, at, older);
        }
    }

    /// Brings the message of the last turn back into the draft; the edited message replaces it.
    pub(super) fn edit_message(&mut self, core: &mut Core, at: TerminalId, agent: AgentId) {
        // The error is reported when the message is sent.
        drop(core.load(agent));
        let history = core.agent(agent).and_then(|agent| agent.inputs.history.as_ref());
        let Some(turn) = history.and_then(History::open_turn) else { return self.recall(core, at, true) };
        let (message, text) = turn.message;
        self.recall_input(core, at, true);
        let line = input_line(&text);
        if self.text_of_draft(core, at).as_deref() != Some(&line) {
            self.edit(core, at, |draft| draft.set(&line));
        }
        if let Some(slot) = drafts::slot_at(core, at) {
            core.edit(agent, |agent| agent.view.drafts.set_edited(slot, message));
        }
    }

    /// A draft that was emptied, or that is another input now, is made from no message.
    pub(super) fn forget_edited(&self, core: &mut Core, at: TerminalId) {
        let focus = self.get(at).map(|terminal| terminal.focus);
        if let Some((focus, slot)) = focus.zip(drafts::slot_at(core, at)) {
            core.edit(focus, |agent| agent.view.drafts.take_edited(slot));
        }
    }

    pub(super) fn recall_input(&mut self, core: &mut Core, at: TerminalId, older: bool) {
        let newer = self.get(at).and_then(|terminal| terminal.input.recalled.as_ref()).map(|recalled| recalled.newer);
        let next = match (newer, older) {
            (None, false) => return,
            (None, true) => Some(0),
            (Some(newer), true) => Some(newer + 1),
            (Some(newer), false) => newer.checked_sub(1),
        };
        self.forget_edited(core, at);
        let Some(next) = next else { return self.return_to_typed(core, at) };
        let Some(text) = core.store().input(&project(core), next).ok().flatten() else { return };
        let typed = self.get_mut(at).and_then(|terminal| terminal.input.recalled.take()).map(|recalled| recalled.typed);
        let typed = typed.or_else(|| self.with_draft(core, at, |draft| draft.clone()));
        self.with_draft(core, at, |draft| draft.set(&text));
        if let Some((terminal, typed)) = self.get_mut(at).zip(typed) {
            terminal.input.recalled = Some(Recalled { newer: next, typed });
        }
    }

    fn return_to_typed(&mut self, core: &mut Core, at: TerminalId) {
        let recalled = self.get_mut(at).and_then(|terminal| terminal.input.recalled.take());
        if let Some(Recalled { typed, .. }) = recalled {
            self.with_draft(core, at, |draft| *draft = typed);
        }
    }

    pub(in crate::repl) fn text_of_draft(&self, core: &Core, id: TerminalId) -> Option<String> {
        self.draft_at(core, id).map(Draft::expanded)
    }

    /// Replaces the draft to this agent. If the terminal shows another one now, the text goes before the draft to that one.
    pub(super) fn set_draft(&mut self, core: &mut Core, id: TerminalId, agent: AgentId, text: &str) {
        let Some(focus) = self.get(id).map(|terminal| terminal.focus) else { return };
        match drafts::slot_at(core, id) {
            Some(slot) if focus != agent => drafts::return_to_slot(core, focus, slot, text),
            _ => drop(self.edit(core, id, |draft| draft.set(text))),
        }
    }

    /// Stores the draft, which is empty after a line was entered.
    pub(in crate::repl) fn on_line_done(&mut self, core: &Core, id: TerminalId, agent: AgentId) {
        if let Some(slot) = drafts::slot_at(core, id) {
            self.unsaved.0.remove(&(agent, slot));
            drafts::save(core, agent, slot);
        }
    }

    /// Returns a line that failed to the draft, and shows the error. A command is not stored there: it is not to be found
    /// at the next start.
    pub(in crate::repl) fn on_line_failed(
        &mut self,
        core: &mut Core,
        id: TerminalId,
        agent: AgentId,
        text: &str,
        error: Error,
    ) {
        let is_in_line_mode = self.get(id).is_some_and(|terminal| terminal.lines.is_some());
        match drafts::slot_at(core, id) {
            // The draft is not shown there: the next line would be added to it.
            _ if is_in_line_mode && is_command(text) => {}
            None => drop(self.with_draft(core, id, |draft| draft.set(text))),
            Some(slot) => {
                self.unsaved.0.remove(&(agent, slot));
                drafts::return_refused(core, agent, Origin::Terminal(id), text);
            }
        }
        if let Some(terminal) = self.get_mut(id) {
            terminal.input.notice = Some(Notice { text: error.message, about: Some(agent) });
        }
    }
}

/// Where inputs are entered: the working directory of the program.
pub(super) fn project(core: &Core) -> String {
    core.config().working_directory.to_string_lossy().into_owned()
}
