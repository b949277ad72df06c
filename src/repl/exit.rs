//! The ways in and out: the first words, and leaving so that nothing is lost and nothing is left running.

use std::time::Duration;

use crate::agent::Agent;
use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
#[cfg(feature = "coordinator")]
use crate::repl::component::Component as _;

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

    /// Ends the loop in order: interrupts every turn and stores its partial reply, cancels tools and waits for their threads
    /// (at most [`Settings::exit_patience`](crate::config::Settings::exit_patience)), and restores the terminal.
    ///
    /// # Errors
    /// The system call that waits for events fails.
    pub fn leave(&mut self) -> Result<()> {
        let start = self.core.clock.now();
        let patience = self.core.config.settings.exit_patience;
        self.server.begin_shutdown();
        #[cfg(feature = "coordinator")]
        self.coordinator.shutdown(start);
        // Every step of an interrupted run brings it nearer to its end; 100 members take two.
        #[cfg(feature = "coordinator")]
        while self.coordinator.has_work(&self.core) {
            self.step_components();
        }
        for id in self.core.roster.ids() {
            self.jobs.cancel(&mut self.core, id, true);
            self.core.with_agent(id, Agent::exit);
        }
        self.apply_effects();
        self.step_components();
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
        self.terminals.suspend_all();
        self.shut_down_server()
    }

    /// Ctrl+Z: stops the process whose terminal it is.
    pub(super) fn suspend_at(&mut self, id: TerminalId) -> Result<()> {
        if self.terminals.suspend_remote(id) { Ok(()) } else { self.suspend() }
    }

    /// Gives the terminal back and stops, with the whole process group: whoever waits for us would keep the terminal
    /// otherwise. Returns when SIGCONT has come.
    pub(super) fn suspend(&mut self) -> Result<()> {
        if self.signals.is_none() {
            return Ok(());
        }
        self.terminals.suspend_all();
        rustix::process::kill_current_process_group(rustix::process::Signal::STOP).map_err(std::io::Error::from)?;
        self.terminals.resume_all()
    }
}
