//! Deletes agents that were not used for `[history] keep_days` days, a bounded number a turn.

use crate::repl::Terminals;
use crate::repl::core::Core;
use crate::repl::core::delete::delete_expired;

/// Agents that are deleted in one turn.
const AGENTS_PER_TURN: usize = 8;
const HOUR: i64 = 60 * 60 * 1000;
const DAY: i64 = 24 * HOUR;

#[derive(Default)]
pub(super) struct Retention {
    /// The time of the next check of the store, in milliseconds since 1970.
    next_at: i64,
}

impl Retention {
    /// Once an hour at most, and only in turns that happen anyway: nothing is urgent.
    pub(super) fn step(&mut self, core: &mut Core, terminals: &Terminals) {
        let days = i64::from(core.config().keep_days);
        if days == 0 || core.store().is_read_only() {
            return;
        }
        let now = core.clock().unix_ms();
        if now < self.next_at {
            return;
        }
        let is_in_use = |id| terminals.focused().any(|focus| focus == id) || terminals.is_unseen(id);
        // What cannot be deleted now is tried again in an hour.
        let has_more = delete_expired(core, now - days * DAY, AGENTS_PER_TURN, is_in_use).unwrap_or(false);
        self.next_at = if has_more { now } else { now + HOUR };
    }
}
