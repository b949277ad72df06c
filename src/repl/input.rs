//! Performs what keys ask for, one act after the other.

use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::commands;
use crate::domain::change::Change;
use crate::domain::flow::{InputResult, Origin};
use crate::repl::apply::instructions_file;
use crate::repl::core::Core;
use crate::repl::core::remove::Reach;
use crate::repl::terminals::Act;
use crate::repl::{Repl, Turn};

impl Repl {
    /// Finishes the action of one key before it reads the next, whose meaning depends on it.
    pub(super) fn handle_input(&mut self) -> Result<Turn> {
        for id in self.terminals.ids() {
            if self.terminals.get(id).is_some_and(|terminal| terminal.is_gone()) {
                return Ok(Turn::Exit);
            }
            self.terminals.read_remote(&self.core, id)?;
            if self.trace.is_recording()
                && let Some(typed) = self.terminals.take_typed(&self.core, id)
            {
                self.trace.typed(&typed);
            }
            while let Some((agent, act)) = self.terminals.next_act(&mut self.core, id) {
                self.trace.keys(id, agent, self.terminals.take_handled_keys(id));
                if self.perform(id, agent, act)? == Turn::Exit {
                    return Ok(Turn::Exit);
                }
                self.apply_effects();
            }
            if let Some(shown) = self.terminals.get(id).map(|terminal| terminal.focus) {
                self.trace.keys(id, shown, self.terminals.take_handled_keys(id));
            }
        }
        Ok(Turn::Continue)
    }

    fn perform(&mut self, id: TerminalId, agent: AgentId, act: Act) -> Result<Turn> {
        match act {
            Act::Line(text) => return Ok(self.enter_line(id, agent, &text)),
            Act::Change(change) => {
                self.apply_or_notify(Origin::Terminal(id), agent, change);
            }
            Act::Answer { typed, change } => {
                if let Err(error) = self.apply_change(Origin::Terminal(id), agent, change) {
                    self.terminals.on_line_failed(&mut self.core, id, agent, &typed, error);
                }
            }
            Act::Editor | Act::PasteImage | Act::Pager(_) | Act::Suspend | Act::Background
                if self.core.config().replay.is_some() =>
            {
                self.terminals.notify(id, "not available in a replay".into());
            }
            Act::Editor => self.open_editor(id),
            Act::PasteImage => self.paste_image(id),
            Act::Pager(text) => self.open_pager(id, &text),
            Act::Suspend if self.terminals.suspend_remote(id) => {}
            Act::Suspend => self.suspend()?,
            Act::Background => {
                if let Err(error) = self.leave_to_background(Origin::Terminal(id)) {
                    self.terminals.notify(id, error.message);
                }
            }
            Act::Leave => {
                let can_go_on = self.can_go_on();
                return Ok(self.terminals.leave_or_warn(&self.core, id, can_go_on));
            }
        }
        Ok(Turn::Continue)
    }

    /// Runs a command or sends a message. If that fails, the line returns to the draft.
    fn enter_line(&mut self, id: TerminalId, agent: AgentId, text: &str) -> Turn {
        let result = match change_of_line(text) {
            Some(change) => Ok(InputResult::NewState(change, None)),
            None => commands::read(text, &self.core.command_context(agent, self.terminals.infos(id))),
        };
        let is_repeated = self.terminals.is_repeated(&self.core, id, text);
        let warning = match &result {
            _ if is_repeated => None,
            Ok(InputResult::Exit) => self.terminals.warning_before_exit(&self.core, id, self.can_go_on()),
            result => result.as_ref().ok().and_then(|result| warning_about(&self.core, agent, result)),
        };
        if let Some(warning) = warning {
            self.terminals.ask_to_repeat(&mut self.core, id, agent, text, &warning);
            return Turn::Continue;
        }
        match result.and_then(|result| self.apply_result(Origin::Terminal(id), agent, result)) {
            Ok(turn) => {
                self.terminals.on_line_done(&self.core, id, agent);
                turn
            }
            Err(error) => {
                self.terminals.on_line_failed(&mut self.core, id, agent, text, error);
                Turn::Continue
            }
        }
    }
}

/// Why a line has to be entered twice: it would end a working agent, delete one, or write to a file.
fn warning_about(core: &Core, agent: AgentId, result: &InputResult) -> Option<String> {
    match result {
        InputResult::NewState(Change::Kill { agent_id, cascade }, _) => {
            warning_about_kill(core, *agent_id, Reach::of_kill(*cascade))
        }
        InputResult::NewState(Change::KillDescendants(ancestor), _) => {
            warning_about_kill(core, *ancestor, Reach::Descendants)
        }
        InputResult::NewState(Change::Delete(deleted), _) => {
            let label = core.name_of(*deleted);
            Some(format!("press Enter again to delete {label} with its conversation: this cannot be undone"))
        }
        InputResult::NewState(Change::Instruct(_), _) => {
            let path = instructions_file(core, agent)?;
            let to_send = "a message that begins with # is typed after a space";
            Some(format!("press Enter again to add this line to {}; {to_send}", path.display()))
        }
        _ => None,
    }
}

/// The same for a kill of an agent, its descendants, or both.
fn warning_about_kill(core: &Core, top: AgentId, reach: Reach) -> Option<String> {
    let roster = core.roster();
    let (kills_top, kills_below) = (reach != Reach::Descendants, reach != Reach::Agent);
    let is_refused = kills_top && roster.parent(top).is_none();
    let is_victim = |id: &AgentId| kills_top && *id == top || kills_below && roster.is_ancestor(top, *id);
    let busy: Vec<AgentId> = roster.busy().iter().copied().filter(is_victim).collect();
    match busy.as_slice() {
        _ if is_refused => None,
        [] => {
            let below: Vec<AgentId> = roster.children(top).take(if kills_below { 2 } else { 0 }).collect();
            match (kills_top, below.as_slice()) {
                (true, []) => warning_about_worktree(core, top),
                (false, [one]) if roster.children(*one).next().is_none() => warning_about_worktree(core, *one),
                _ => None,
            }
        }
        [one] => Some(format!("{} is busy: press Enter again to kill it", roster.label_of(*one))),
        several => Some(format!("{} agents are busy: press Enter again to kill them", several.len())),
    }
}

/// An agent that is killed may leave a worktree: the ways to end both.
fn warning_about_worktree(core: &Core, victim: AgentId) -> Option<String> {
    let environment = &core.agent(victim)?.inputs.environment;
    let root = environment.worktree.as_ref()?;
    let others = core.roster().in_worktree(root).count();
    let (label, place) = (core.roster().label_of(victim), environment.place_name()?);
    let called = core.agent(victim)?.identity.word();
    (others == 1).then(|| {
        format!(
            "press Enter again to kill {label} (its worktree {place} is kept if it has changes), or use /kill {called} \
             --land or /kill {called} --discard"
        )
    })
}

/// The change that a line beginning with `!`, `!!` or `#` means. Only lines typed at a terminal are read in this way.
fn change_of_line(line: &str) -> Option<Change> {
    if line.trim_end().contains('\n') {
        return None;
    }
    let line = line.trim_end();
    let shell = |command: &str, is_shared| {
        let command = command.trim().to_owned();
        (!command.is_empty()).then_some(Change::Shell { command, is_shared })
    };
    match (line.strip_prefix("!!"), line.strip_prefix('!'), line.strip_prefix('#')) {
        (Some(command), ..) => shell(command, false),
        (None, Some(command), _) => shell(command, true),
        (None, None, Some(text)) => {
            let text = text.trim().to_owned();
            (!text.is_empty()).then_some(Change::Instruct(text))
        }
        _ => None,
    }
}
