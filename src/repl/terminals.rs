//! All terminals of the house, and sitting down and standing up. What one of them shows and is told is its own; which one
//! a key or a command came from is handed on from call to call.

use std::collections::BTreeMap;

use crate::base::id::{AgentId, TerminalId};
use crate::commands::TerminalInfo;
use crate::domain::flow::Origin;
use crate::domain::scrollback::Reader;
use crate::reactor::Source;
use crate::repl::{Device, Repl, Terminal, TerminalMode};

/// The terminals, in the order in which they sat down.
#[derive(Default)]
pub(super) struct Terminals {
    terminals: BTreeMap<TerminalId, Terminal>,
    /// How many have ever sat down.
    count: u64,
}

impl Terminals {
    fn add(&mut self, terminal: Terminal) -> TerminalId {
        self.count += 1;
        let id = TerminalId(self.count);
        self.terminals.insert(id, terminal);
        id
    }

    pub(super) fn get(&self, id: TerminalId) -> Option<&Terminal> {
        self.terminals.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: TerminalId) -> Option<&mut Terminal> {
        self.terminals.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Terminal> {
        self.terminals.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Terminal> {
        self.terminals.values_mut()
    }

    pub(super) fn ids(&self) -> Vec<TerminalId> {
        self.terminals.keys().copied().collect()
    }

    /// The one that has been there longest of those that do more than watch.
    pub(super) fn first_taking_part(&self) -> Option<TerminalId> {
        self.terminals.iter().find(|(_, terminal)| !terminal.mode.is_read_only).map(|(id, _)| *id)
    }

    /// Which of them look at one of these agents.
    pub(super) fn looking_at(&self, agents: &[AgentId]) -> Vec<TerminalId> {
        self.terminals.iter().filter(|(_, terminal)| agents.contains(&terminal.focus)).map(|(id, _)| *id).collect()
    }

    /// Whoever asked for something, if that terminal is there and still looks at this agent.
    pub(super) fn still_at(&self, origin: Origin, agent: AgentId) -> Option<TerminalId> {
        origin.terminal().filter(|at| self.get(*at).is_some_and(|terminal| terminal.focus == agent))
    }
}

impl Repl {
    /// A terminal is there from now on and looks at this agent, or at the eldest if it is gone. Drawn in the next turn.
    pub(crate) fn attach_device(&mut self, device: Device, focus: AgentId, mode: TerminalMode) -> TerminalId {
        let eldest = || self.core.roster.nth(0).expect("there is at least agent 0");
        let focus = self.core.roster.get(focus).map_or_else(eldest, |agent| agent.id());
        let at = self.terminals.add(Terminal::new(device, focus, mode, self.core.clock.unix_ms()));
        self.bring_to_screen(at, focus);
        at
    }

    /// A terminal is not there any more. What was typed at it stays with the agent that it looked at.
    pub(crate) fn detach_device(&mut self, at: TerminalId) {
        let reader = self.reader(at);
        let Some(terminal) = self.terminals.terminals.remove(&at) else { return };
        if terminal.is_local() {
            self.core.reactor.unwatch(Source::Terminal);
        }
        self.leave_view(reader, terminal.focus);
    }

    /// The terminal that has been there longest, if there is one.
    pub(crate) fn terminal(&mut self) -> Option<&mut Terminal> {
        self.terminals.iter_mut().next()
    }

    /// This terminal, if it is still there.
    pub(crate) fn terminal_at(&mut self, at: TerminalId) -> Option<&mut Terminal> {
        self.terminals.get_mut(at)
    }

    /// All terminals, in the order in which they sat down.
    pub(crate) fn terminal_ids(&self) -> Vec<TerminalId> {
        self.terminals.ids()
    }

    /// Whether this terminal only watches.
    pub(super) fn is_watcher(&self, at: TerminalId) -> bool {
        self.terminals.get(at).is_some_and(|terminal| terminal.mode.is_read_only)
    }

    /// Whose place in the text this terminal moves.
    pub(super) fn reader(&self, at: TerminalId) -> Reader {
        if self.is_watcher(at) { Reader::Watcher(at.0) } else { Reader::Shared }
    }

    /// Somebody looks away from an agent: what is typed there is kept, and the place of one who watched is forgotten.
    pub(super) fn leave_view(&mut self, reader: Reader, agent: AgentId) {
        match reader {
            Reader::Shared => self.core.save_draft(agent),
            Reader::Watcher(_) => {
                self.core.roster.with(agent, |agent| agent.view.scrollback.to_bottom(reader));
            }
        }
    }

    /// The terminals, as a command may see them, asked from one of them.
    pub(super) fn terminal_infos(&self, origin: TerminalId) -> Vec<TerminalInfo> {
        let sitting = |(at, terminal): (&TerminalId, &Terminal)| TerminalInfo {
            number: at.0,
            since: terminal.since,
            size: terminal.size,
            focus: terminal.focus,
            is_read_only: terminal.mode.is_read_only,
            is_origin: *at == origin,
        };
        self.terminals.terminals.iter().map(sitting).collect()
    }
}
