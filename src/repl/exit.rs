//! The ways in and out: the first words, and leaving so that nothing is lost and nothing is left running.

use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::domain::flow::{Change, Origin};
use crate::domain::scrollback::LineKind;
use crate::repl::{Repl, Terminal, Turn};

/// Within this time a second Ctrl+C leaves although agents are busy.
const SECOND_PRESS: Duration = Duration::from_secs(2);

impl Repl {
    /// What stands on the screen at the start.
    pub(super) fn print_welcome(&mut self, root: AgentId, is_fresh: bool, damaged: &[String], cut: usize) {
        if is_fresh {
            let banner =
                concat!("polylogue ", env!("CARGO_PKG_VERSION"), ": one person, many agents. /help tells the rest.");
            self.core.note(root, LineKind::Note, banner);
        }
        if self.core.store.is_read_only() {
            let words = "read-only: nothing can be sent or changed, and nothing new appears";
            self.core.note(root, LineKind::Note, words);
        } else if let Some(hint) = self.core.config.hint.clone() {
            self.core.note(root, LineKind::Note, &hint);
        }
        for words in self.core.config.notes.clone() {
            self.core.note(root, LineKind::Note, &words);
        }
        if !crate::net::HAS_POLL {
            let most = crate::net::AGENTS_WITHOUT_POLL;
            let words = format!("this build can have {most} agents at work: build it with the Makefile for more");
            self.core.note(root, LineKind::Note, &words);
        }
        for words in damaged {
            self.core.note(root, LineKind::Error, words);
        }
        if cut > 0 {
            let turns = if cut == 1 { "a turn".into() } else { format!("{cut} turns") };
            let note = format!("the program ended in the middle of {turns}: what had come is kept (/agents)");
            self.core.note(root, LineKind::Note, &note);
        }
    }

    /// Leaves in order: every turn is cut and kept, every tool is stopped and its thread joined, as far as patience
    /// goes; then the terminal is as it was.
    ///
    /// # Errors
    /// When the kernel refuses to poll.
    pub fn leave(&mut self) -> Result<()> {
        let start = self.core.clock.now();
        let patience = self.core.config.settings.exit_patience;
        self.forsake_turns();
        #[cfg(feature = "coordinator")]
        self.coordinator.shutdown(start);
        // Every turn of an interrupted run brings it nearer to its end; 100 members take two turns.
        while self.components().iter().any(|component| component.has_work(&self.core)) {
            self.step_components();
        }
        for id in self.core.roster.ids() {
            self.jobs.cancel_slice(&mut self.core, id);
            // An agent that is idle has nothing to stop, and a store that refuses has said so on the screen.
            drop(self.apply_change(Origin::Internal, id, Change::Interrupt));
        }
        self.apply_effects();
        self.poll_key_commands();
        self.core.save_drafts();
        while !self.core.roster.with_live_tools().is_empty()
            || !self.core.draining.is_empty()
            || self.jobs.is_git_busy()
        {
            let waited = self.core.clock.now() - start;
            if waited >= patience {
                break;
            }
            let mut ready = Vec::new();
            self.core.reactor.wait(Some((patience - waited).min(Duration::from_millis(20))), &mut ready)?;
            for id in self.core.roster.with_live_tools().clone() {
                self.core.with_agent(id, |agent, context| agent.poll_tools(context));
            }
            self.core.reap();
            self.step_components();
            self.apply_effects();
        }
        self.terminals.iter_mut().for_each(Terminal::suspend);
        self.dismiss_clients()
    }

    /// Leaves, unless somebody is busy: then says who, and leaves at a second press. An attached terminal only goes.
    pub(super) fn leave_or_warn(&mut self, at: TerminalId) -> Turn {
        let now = self.core.clock.now();
        let busy: Vec<String> =
            self.core.roster.busy().iter().filter_map(|id| Some(self.core.roster.get(*id)?.identity.label())).collect();
        let Some(terminal) = self.terminals.get_mut(at) else { return Turn::Continue };
        let is_second = terminal.leaves_until.is_some_and(|until| now <= until);
        if terminal.mode.is_attached || busy.is_empty() || is_second {
            return self.leave_at(Origin::Terminal(at));
        }
        terminal.leaves_until = Some(now + SECOND_PRESS);
        let agent_id = if busy.len() > 4 { format!("{} agents", busy.len()) } else { busy.join(", ") };
        let verb = if busy.len() == 1 { "is" } else { "are" };
        self.notice(at, format!("{agent_id} {verb} busy: press again within 2 s to leave"));
        Turn::Continue
    }

    /// Somebody leaves at this terminal: an attached one is let go and everything goes on, else the program ends.
    pub(super) fn leave_at(&mut self, origin: Origin) -> Turn {
        match origin.terminal().and_then(|at| self.terminals.get_mut(at)).filter(|terminal| terminal.mode.is_attached) {
            Some(terminal) => {
                terminal.detach();
                Turn::Continue
            }
            None => Turn::Exit,
        }
    }

    /// `/detach`: the terminal is let go, and everything goes on.
    ///
    /// # Errors
    /// It is the terminal of a chat that would end without it.
    pub(super) fn detach_at(&mut self, origin: Origin) -> Result<()> {
        let terminal =
            origin.terminal().and_then(|at| self.terminals.get_mut(at)).filter(|terminal| terminal.mode.is_attached);
        terminal.map(Terminal::detach).ok_or_else(|| {
            let words = "this chat runs in its own terminal and ends with it (/exit): `polylogue serve` begins one that \
                         goes on, and `polylogue attach` looks at it";
            Error::new(ErrorKind::Usage, words)
        })
    }

    /// Ctrl+Z: stops the process whose terminal it is.
    pub(super) fn suspend_at(&mut self, at: TerminalId) -> Result<()> {
        match self.terminals.get_mut(at).filter(|terminal| terminal.mode.is_attached) {
            Some(terminal) => {
                terminal.wish_to_suspend();
                Ok(())
            }
            None => self.suspend(),
        }
    }

    /// Gives the terminal back and stops, with the whole process group: whoever waits for us would keep the terminal
    /// otherwise. Returns when SIGCONT has come.
    pub(super) fn suspend(&mut self) -> Result<()> {
        if self.signals.is_none() {
            return Ok(());
        }
        self.terminals.iter_mut().for_each(Terminal::suspend);
        rustix::process::kill_current_process_group(rustix::process::Signal::STOP).map_err(std::io::Error::from)?;
        self.terminals.iter_mut().try_for_each(Terminal::resume)
    }
}
