//! What the integration tests and benchmarks read from a [`Repl`] besides the library's methods; `testing` exports it.

use std::time::Duration;

use crate::base::clock::Clock;
use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::domain::change::Change;
use crate::domain::config::Config;
#[cfg(feature = "coordinator")]
use crate::repl::RunId;
use crate::repl::core::viewers;
use crate::repl::{Device, Repl, Terminal, TerminalMode, Timeout};
use crate::store::Store;
use crate::team::Roster;
#[cfg(feature = "coordinator")]
use crate::team::coordinator::health::Health;

/// The internal state of a [`Repl`].
pub trait Probe: Sized {
    /// [`Repl::open`] with a terminal that shows the root.
    fn open_at(config: Config, store: Store, clock: Clock, device: Option<Device>) -> Result<Self>;
    /// All agents in memory.
    fn roster(&self) -> &Roster;
    /// Where they are stored.
    fn store(&self) -> &Store;
    /// How long the next turn waits, and for what.
    fn compute_timeout(&mut self) -> Timeout;
    /// How many viewers are attached.
    fn viewers(&self) -> usize;
    /// How many clients are connected.
    fn clients(&self) -> usize;
    /// Whether files are being brought back.
    fn is_undoing(&self) -> bool;
    /// Whether a search is under way for a view.
    fn is_searching(&self) -> bool;
    /// How many connections of commands the proxy serves.
    fn proxied_connections(&self) -> usize;
    /// Attaches a terminal that shows this agent. It is drawn in the next turn.
    fn attach_device(&mut self, device: Device, focus: AgentId, mode: TerminalMode) -> TerminalId;
    /// Attaches a terminal that shows all conversations, to choose one, which gets this prompt then.
    fn attach_picker(&mut self, device: Device, focus: AgentId, mode: TerminalMode, prompt: Option<&str>)
    -> TerminalId;
    /// The draft at a terminal, for the agent that it shows.
    fn draft_at(&self, at: TerminalId) -> String;
    /// Detaches a terminal. Its drafts stay with the agents to which they were typed.
    fn detach_device(&mut self, at: TerminalId);
    /// Lets libcurl do what it has a timer for in the transfer of this agent, if that is due within `early`. Returns whether
    /// it is.
    fn fire_transfer_timer(&mut self, agent: AgentId, early: Duration) -> bool;
    /// The terminal that has been attached longest.
    fn terminal(&mut self) -> Option<&mut Terminal>;
    /// The terminal with this id.
    fn terminal_at(&mut self, at: TerminalId) -> Option<&mut Terminal>;
    /// Whether colours of code are being computed.
    fn is_coloring(&self) -> bool;
    /// How many conversations were laid out for the tiles of the walls that are shown.
    fn tiles_laid_out(&self) -> usize;
    /// All attached terminals, oldest first.
    fn terminal_ids(&self) -> Vec<TerminalId>;
    /// The health of all members of runs in this process, by name and model.
    #[cfg(feature = "coordinator")]
    fn health(&self) -> &Health;
    /// The agents that work on a run now, with the names of their members; the judge comes last.
    #[cfg(feature = "coordinator")]
    fn active_members(&self, run: &RunId) -> Vec<(String, AgentId)>;
}

impl Probe for Repl {
    fn open_at(config: Config, store: Store, clock: Clock, device: Option<Device>) -> Result<Self> {
        Self::open_at(config, store, clock, device)
    }

    fn fire_transfer_timer(&mut self, agent: AgentId, early: Duration) -> bool {
        let now = self.core.now();
        let fired =
            self.core.with_agent(agent, |agent, context| agent.connection().fire_timer(early, context.network, now));
        fired == Some(true)
    }

    fn draft_at(&self, at: TerminalId) -> String {
        self.terminals.text_of_draft(&self.core, at).unwrap_or_default()
    }

    fn is_searching(&self) -> bool {
        self.terminals.iter().any(Terminal::is_searching)
    }

    fn roster(&self) -> &Roster {
        self.core.roster()
    }

    fn store(&self) -> &Store {
        self.core.store()
    }

    fn compute_timeout(&mut self) -> Timeout {
        self.compute_timeout()
    }

    fn viewers(&self) -> usize {
        viewers::count(&self.core)
    }

    fn clients(&self) -> usize {
        self.server.client_count()
    }

    fn is_undoing(&self) -> bool {
        self.jobs.is_undoing()
    }

    fn proxied_connections(&self) -> usize {
        self.proxy.connection_count()
    }

    fn attach_device(&mut self, device: Device, focus: AgentId, mode: TerminalMode) -> TerminalId {
        self.terminals.attach(&mut self.core, device, focus, mode)
    }

    fn attach_picker(
        &mut self,
        device: Device,
        focus: AgentId,
        mode: TerminalMode,
        prompt: Option<&str>,
    ) -> TerminalId {
        let then = prompt.map(|prompt| Change::Submit(prompt.to_owned())).into_iter().collect();
        self.terminals.attach_picker(&mut self.core, device, (focus, mode), then)
    }

    fn detach_device(&mut self, at: TerminalId) {
        self.terminals.detach(&mut self.core, at);
    }

    fn terminal(&mut self) -> Option<&mut Terminal> {
        self.terminals.iter_mut().next()
    }

    fn terminal_at(&mut self, at: TerminalId) -> Option<&mut Terminal> {
        self.terminals.get_mut(at)
    }

    fn is_coloring(&self) -> bool {
        self.terminals.is_coloring()
    }

    fn tiles_laid_out(&self) -> usize {
        self.terminals.tiles_laid_out()
    }

    fn terminal_ids(&self) -> Vec<TerminalId> {
        self.terminals.ids()
    }

    #[cfg(feature = "coordinator")]
    fn health(&self) -> &Health {
        self.coordinator.health()
    }

    #[cfg(feature = "coordinator")]
    fn active_members(&self, run: &RunId) -> Vec<(String, AgentId)> {
        self.coordinator.active_members(run)
    }
}
