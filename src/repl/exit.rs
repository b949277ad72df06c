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
        if let Some(hint) = self.shared.config.hint.clone() {
            self.note(root, LineKind::Note, &hint);
        }
        if !crate::net::HAS_POLL {
            self.note(
                root,
                LineKind::Note,
                "this build can have 180 agents at work: build it with the Makefile for more",
            );
        }
        for words in damaged {
            self.note(root, LineKind::Error, words);
        }
        if cut > 0 {
            let note = format!("the program ended in the middle of {cut} turns: what had come is kept (/agents)");
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
        self.keep_drafts();
        for id in self.roster.ids() {
            self.parked.retain(|parked| parked.who != id);
            // An agent that is idle has nothing to stop, and a store that refuses has said so on the screen.
            drop(self.apply_change(id, Change::Interrupt));
        }
        self.apply_outbox();
        while !self.roster.with_live_tools().is_empty() {
            let waited = self.shared.clock.now() - start;
            if waited >= patience {
                break;
            }
            let mut news = Vec::new();
            self.reactor.wait(Some((patience - waited).min(Duration::from_millis(20))), &mut news)?;
            for id in self.roster.with_live_tools().clone() {
                self.with_agent(id, |agent, context| agent.poll_tools(context));
            }
            self.apply_outbox();
        }
        if let Some(seat) = &mut self.seat {
            seat.suspend();
        }
        Ok(())
    }

    /// What was typed and not sent is there again after a restart.
    fn keep_drafts(&mut self) {
        for agent in self.roster.iter() {
            if agent.view.was_shown() {
                // The store has said on the screen what it cannot do; leaving goes on.
                drop(self.shared.store.set_draft(agent.id(), &agent.view.draft.expanded()));
            }
        }
    }
}
