//! The ways in and out: the first words, and leaving so that nothing is lost and nothing is left running.

use std::time::Duration;

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::flow::Change;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;

impl Repl {
    /// What stands on the screen at the start.
    pub(super) fn greet(&mut self, root: AgentId, is_fresh: bool, damaged: &[String], cut: usize) {
        if is_fresh {
            let banner =
                concat!("polylogue ", env!("CARGO_PKG_VERSION"), ": one person, many agents. /help tells the rest.");
            self.note(root, LineKind::Note, banner);
        }
        if self.shared.store.is_read_only() {
            let words = "read-only: nothing can be sent or changed, and nothing new appears";
            self.note(root, LineKind::Note, words);
        } else if let Some(hint) = self.shared.config.hint.clone() {
            self.note(root, LineKind::Note, &hint);
        }
        for words in self.shared.config.notes.clone() {
            self.note(root, LineKind::Note, &words);
        }
        if !crate::net::HAS_POLL {
            let most = crate::net::AGENTS_WITHOUT_POLL;
            let words = format!("this build can have {most} agents at work: build it with the Makefile for more");
            self.note(root, LineKind::Note, &words);
        }
        for words in damaged {
            self.note(root, LineKind::Error, words);
        }
        if cut > 0 {
            let turns = if cut == 1 { "a turn".into() } else { format!("{cut} turns") };
            let note = format!("the program ended in the middle of {turns}: what had come is kept (/agents)");
            self.note(root, LineKind::Note, &note);
        }
    }

    /// Leaves in order: every turn is cut and kept, every tool is stopped and its thread joined, as far as patience
    /// goes; then the terminal is as it was.
    ///
    /// # Errors
    /// When the kernel refuses to poll.
    pub fn leave(&mut self) -> Result<()> {
        let start = self.shared.clock.now();
        let patience = self.shared.config.settings.exit_patience;
        for id in self.roster.ids() {
            self.cancel_slice(id);
            // An agent that is idle has nothing to stop, and a store that refuses has said so on the screen.
            drop(self.apply_change(id, Change::Interrupt));
        }
        self.apply_outbox();
        self.look_at_keys();
        self.keep_drafts();
        while !self.roster.with_live_tools().is_empty() || !self.dying.is_empty() || self.has_chores() {
            let waited = self.shared.clock.now() - start;
            if waited >= patience {
                break;
            }
            let mut news = Vec::new();
            self.reactor.wait(Some((patience - waited).min(Duration::from_millis(20))), &mut news)?;
            for id in self.roster.with_live_tools().clone() {
                self.with_agent(id, |agent, context| agent.poll_tools(context));
            }
            self.join_dying();
            self.run_chores();
            self.apply_outbox();
        }
        if let Some(seat) = &mut self.seat {
            seat.suspend();
        }
        Ok(())
    }

    /// What was typed and not sent is there again after a restart.
    fn keep_drafts(&self) {
        for id in self.roster.ids() {
            self.keep_draft(id);
        }
    }

    /// What is typed to this agent and not sent will be there again.
    pub(super) fn keep_draft(&self, id: AgentId) {
        if let Some(agent) = self.roster.get(id).filter(|agent| agent.view.was_shown() || !agent.view.draft.is_empty())
        {
            // A store that refuses says so when a message is sent; what is typed stays in memory.
            drop(self.shared.store.set_draft(id, &agent.view.draft.expanded()));
        }
    }
}
