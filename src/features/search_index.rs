//! Keeps the index for searches complete, a bounded step a turn.

use crate::features::Feature;
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;

pub const FEATURE: Feature =
    Feature { component: Some(|| Box::<SearchIndex>::default()), ..Feature::new("search-index") };

/// The index is updated after this many changed rows: a message is at least one.
const ROWS: u64 = 64;
/// So many batches are indexed between merges. Of more than 64 parts of one size the index would merge all at once, which takes
/// half a second with a million messages.
const MOST_UNMERGED: u32 = 16;

#[derive(Default)]
struct SearchIndex {
    is_started: bool,
    /// The changed rows at the last check.
    looked_at: u64,
    /// A batch of messages may wait.
    has_new: bool,
    /// Messages from before there was an index wait.
    has_old: bool,
    /// Parts of the index may be merged.
    has_parts: bool,
    /// Batches of messages that were indexed since all parts were merged that could be.
    unmerged: u32,
}

impl SearchIndex {
    /// One step: new messages first; old ones only while no agent works, and merges then or after many batches.
    fn advance(&mut self, core: &Core) {
        // An index that cannot be written is no reason to stop: searches read unindexed messages directly.
        let may_index = self.unmerged < MOST_UNMERGED;
        if self.has_new && may_index {
            self.has_new = core.store().index_new().unwrap_or(false);
            self.has_parts |= self.has_new;
            self.unmerged += u32::from(self.has_new);
        } else if self.has_old && may_index {
            self.has_old = core.store().index_old().unwrap_or(false);
            self.has_parts = true;
            self.unmerged += 1;
        } else if self.has_parts {
            self.has_parts = core.store().merge_index().unwrap_or(false);
        } else {
            self.unmerged = 0;
        }
        self.looked_at = core.store().total_changes();
    }
}

impl Component for SearchIndex {
    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        if core.store().is_read_only() {
            return;
        }
        if !self.is_started {
            (self.is_started, self.has_new) = (true, true);
            self.has_old = core.store().has_unindexed().unwrap_or(false);
        }
        self.has_new |= core.store().total_changes() - self.looked_at >= ROWS;
        if self.has_work(core) {
            self.advance(core);
        }
    }

    fn has_work(&self, core: &Core) -> bool {
        let has_any = self.has_new || (self.has_old || self.has_parts) && core.roster().at_work().is_empty();
        has_any && !core.store().is_log_long()
    }
}
