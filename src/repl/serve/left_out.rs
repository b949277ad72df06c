//! Stands where the server was left out of the program: there are no clients, and nothing is to be done for any.

use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::reactor::{News, Reactor};
use crate::repl::{Repl, Turn};
use crate::server::Listener;
use crate::store::QueueId;

/// Who is served: nobody.
#[derive(Default)]
pub(super) struct Serving(());

impl Serving {
    pub(super) const fn watch(&self, _: &mut Reactor) -> Result<()> {
        Ok(())
    }

    pub(super) const fn is_open(&self) -> bool {
        false
    }

    pub(super) const fn next_deadline(&self) -> Option<Moment> {
        None
    }

    pub(super) const fn is_spent(&self, _: AgentId) -> bool {
        false
    }

    pub(super) const fn count_request(&mut self, _: AgentId) {}
}

impl Repl {
    /// Lets clients in and serves them in every turn, where the server was not left out: there is nothing that could be
    /// given to this.
    pub fn serve(&mut self, _: Listener) {}

    /// How many clients are there: none.
    pub const fn clients(&self) -> usize {
        0
    }

    pub(super) const fn handle_clients(&mut self, _: &[News]) -> Result<Turn> {
        Ok(Turn::Continue)
    }

    pub(super) const fn on_turn_begins(&mut self, _: AgentId, _: QueueId) {}

    pub(super) const fn on_turn_ended(&mut self, _: AgentId) {}

    pub(super) const fn forsake_turns(&mut self) {}

    pub(super) fn on_queue_renamed(&mut self, _: AgentId, _: impl Fn(QueueId) -> QueueId) {}

    pub(super) const fn serve_clients(&mut self) {}

    pub(super) const fn has_work_for_clients(&self) -> bool {
        false
    }

    pub(super) const fn dismiss_clients(&mut self) -> Result<()> {
        Ok(())
    }
}
