//! Folds in the conversation: all at once, one by the mouse, one by a selection that keys move. They are the same on
//! all terminals.

use crate::base::id::{AgentId, TerminalId};
use crate::domain::scrollback::{Reader, Scrollback};
use crate::repl::core::Core;
use crate::repl::terminals::Terminals;
use crate::repl::terminals::draw::text_width;
use crate::repl::terminals::key_actions::Action;

impl Terminals {
    pub(super) fn toggle_folds(&self, core: &mut Core, at: TerminalId, agent_id: AgentId) {
        if !self.is_read_only(at) {
            core.edit(agent_id, |agent| agent.view.toggle_folds());
        }
    }

    /// Opens or folds the clicked line.
    pub(super) fn open_clicked(&mut self, core: &mut Core, at: TerminalId, agent_id: AgentId) {
        let Some(row) = self.get_mut(at).and_then(|terminal| terminal.input.clicked.take()) else { return };
        let line = self.with_screen(core, at, agent_id, |scrollback, reader, (width, height)| {
            scrollback.fold_at(reader, width, height, row)
        });
        self.toggle_fold(core, at, agent_id, line.flatten());
    }

    /// The selection stays while keys move it or open it.
    pub(super) fn keep_selected(&mut self, at: TerminalId, action: &Action) {
        let is_kept = matches!(action, Action::SelectFold(_) | Action::OpenSelected | Action::Scroll(_));
        if let Some(terminal) = self.get_mut(at).filter(|terminal| !is_kept && terminal.input.selected.is_some()) {
            terminal.input.selected = None;
            terminal.input.revision += 1;
        }
    }

    /// Selects the next thing that is folded.
    pub(super) fn select_fold(&mut self, core: &mut Core, at: TerminalId, agent_id: AgentId, is_before: bool) {
        let selected = self.get(at).and_then(|terminal| terminal.input.selected);
        let next = self.with_screen(core, at, agent_id, |scrollback, reader, screen| {
            let next = scrollback.next_fold(reader, screen, selected, is_before || selected.is_none());
            next.iter().for_each(|line| scrollback.reveal(*line, reader, screen.0, screen.1));
            next
        });
        if let (Some(Some(line)), Some(terminal)) = (next, self.get_mut(at)) {
            terminal.input.selected = Some(line);
            terminal.input.revision += 1;
            // It was scrolled to.
            core.edit(agent_id, |agent| agent.view.touch());
        } else if selected.is_none() {
            self.notify(at, "nothing is folded here".into());
        }
    }

    pub(super) fn open_selected(&mut self, core: &mut Core, at: TerminalId, agent_id: AgentId) {
        let selected = self.get(at).and_then(|terminal| terminal.input.selected);
        self.toggle_fold(core, at, agent_id, selected);
    }

    fn toggle_fold(&mut self, core: &mut Core, at: TerminalId, agent_id: AgentId, line: Option<i64>) {
        let Some(line) = line.filter(|_| !self.is_read_only(at)) else { return };
        self.with_screen(core, at, agent_id, |scrollback, reader, (width, height)| {
            scrollback.toggle_fold(line, reader, width, height);
        });
        core.edit(agent_id, |agent| agent.view.touch());
    }

    fn with_screen<T>(
        &mut self,
        core: &mut Core,
        at: TerminalId,
        agent_id: AgentId,
        act: impl FnOnce(&mut Scrollback, Reader, (u16, u16)) -> T,
    ) -> Option<T> {
        let reader = self.reader(at);
        let terminal = self.get(at)?;
        let screen = (text_width(terminal.size.0), terminal.display.text_rows);
        core.edit(agent_id, |agent| {
            agent.view.scrollback.update();
            act(&mut agent.view.scrollback, reader, screen)
        })
    }
}
