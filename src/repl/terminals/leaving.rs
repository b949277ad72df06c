//! Leaving: what Ctrl+C, `/exit`, `/detach` and Ctrl+Z mean at a terminal.

use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::domain::flow::Origin;
use crate::repl::component::Turn;
use crate::repl::core::Core;
use crate::repl::terminals::{Terminal, Terminals};

/// Within this time a second Ctrl+C leaves although agents are busy.
const SECOND_PRESS: Duration = Duration::from_secs(2);
/// Names of busy agents in the warning; more are counted.
const MOST_NAMES: usize = 4;

/// What these agents do, with their names; none if there are no agents.
fn said_of(core: &Core, agents: &[AgentId], (one, many): (&str, &str)) -> Option<String> {
    let names = || agents.iter().map(|agent| core.roster.label_of(*agent)).collect::<Vec<_>>().join(", ");
    match agents.len() {
        0 => None,
        1 => Some(format!("{} {one}", names())),
        count if count > MOST_NAMES => Some(format!("{count} agents {many}")),
        _ => Some(format!("{} {many}", names())),
    }
}

impl Terminals {
    /// Leaves, unless agents are busy: then says which, and leaves at a second press. An attached terminal only detaches.
    pub(in crate::repl) fn leave_or_warn(&mut self, core: &Core, id: TerminalId) -> Turn {
        let now = core.clock.now();
        let asking = core.roster.asking();
        let (asking, busy): (Vec<AgentId>, Vec<AgentId>) =
            core.roster.busy().iter().partition(|agent| asking.contains(agent));
        let parts = [said_of(core, &busy, ("is busy", "are busy")), said_of(core, &asking, ("asks", "ask"))];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let Some(terminal) = self.get_mut(id) else { return Turn::Continue };
        let is_second = terminal.input.leaves_until.is_some_and(|until| now <= until);
        if terminal.mode.is_attached || parts.is_empty() || is_second {
            return self.leave(Origin::Terminal(id));
        }
        terminal.input.leaves_until = Some(now + SECOND_PRESS);
        self.notify(id, format!("{}: press again within 2 s to leave", parts.join(", ")));
        Turn::Continue
    }

    /// Leaves at this terminal: an attached one is detached and everything goes on, otherwise the program ends.
    pub(in crate::repl) fn leave(&mut self, origin: Origin) -> Turn {
        match self.attached(origin) {
            Some(terminal) => {
                terminal.detach();
                Turn::Continue
            }
            None => Turn::Exit,
        }
    }

    /// `/detach`: the terminal is detached, and everything goes on.
    ///
    /// # Errors
    /// It is the terminal of a chat that would end without it.
    pub(in crate::repl) fn detach_attached(&mut self, origin: Origin) -> Result<()> {
        self.attached(origin).map(Terminal::detach).ok_or_else(|| {
            let message = "this chat runs in its own terminal and ends with it (/exit): `polylogue serve` starts one that \
                           goes on, `polylogue attach` shows it";
            Error::usage(message)
        })
    }

    /// Has the process of an attached terminal stopped. Returns whether this is one.
    pub(in crate::repl) fn suspend_remote(&mut self, id: TerminalId) -> bool {
        self.attached(Origin::Terminal(id)).map(Terminal::request_suspend).is_some()
    }

    /// Leaves every terminal of this process as it was found.
    pub(in crate::repl) fn suspend_all(&mut self) {
        self.iter_mut().for_each(Terminal::suspend);
    }

    /// Takes the terminals of this process again.
    pub(in crate::repl) fn resume_all(&mut self) -> Result<()> {
        self.iter_mut().try_for_each(Terminal::resume)
    }

    fn attached(&mut self, origin: Origin) -> Option<&mut Terminal> {
        self.get_mut(origin.terminal()?).filter(|terminal| terminal.mode.is_attached)
    }
}
