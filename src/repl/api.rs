//! The methods for programs that embed the loop. Each does the same as a command, under the same rules. Agents work
//! only during [`Repl::turn`].

use std::os::unix::net::UnixStream;

use serde_json::Value;

use crate::agent::Agent;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::commands::{activity_of, checked_name};
use crate::domain::change::Change;
use crate::domain::choices::Choices;
use crate::domain::chunk::Status;
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::component::ServerReport;
use crate::repl::core::archive::called_or_archived;
use crate::repl::core::begin::{Beginning, begin};
use crate::repl::core::{activity, unsaved};
use crate::repl::server::MOST_CLIENTS;
use crate::repl::start::slots;
use crate::repl::{Repl, steer};
use crate::socket::Listener;
use crate::team::Roster;

/// An agent in [`Repl::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSummary {
    /// Identifies the agent.
    pub id: AgentId,
    /// Its name, or `agent N`.
    pub label: String,
    /// Its nearest living ancestor; `None` for the root and for new conversations.
    pub parent: Option<AgentId>,
    /// Its model, as `provider/model`.
    pub model: String,
    /// What the agent is doing.
    pub status: Status,
    /// What it does or waits for, in words; `None` if it is idle.
    pub activity: Option<String>,
    /// How many agents are before it in the queue for a working slot; `None` if it does not wait for one.
    pub place: Option<usize>,
    /// Messages and commands in its queue.
    pub queued: usize,
    /// Unread mail messages.
    pub unread: usize,
}

impl Repl {
    /// Accepts clients in every turn until [`Repl::leave`]. A loop without a
    /// terminal of its own is no longer ended by SIGHUP.
    pub fn serve(&mut self, listener: Listener) {
        self.dispatcher.set_slots(slots(self.core.config().working_limit, MOST_CLIENTS as u64));
        self.server.listen(listener);
    }

    /// The program that hosts the loop says that something is stored when [`Repl::leave`] has returned, and not before: its own
    /// requests wait for the disk no longer, unless it has failed.
    pub(crate) fn wait_for_disk_at_end(&mut self) {
        self.server.host_waits_at_end = true;
    }

    /// A connection of the program that hosts the loop, which is a client like those of [`Repl::serve`].
    pub(crate) fn connect(&mut self) -> Result<UnixStream> {
        let (near, far) = UnixStream::pair()?;
        self.server.connect(&mut self.core, far)?;
        Ok(near)
    }

    /// The agents in memory in the order of their creation; the root is the first.
    pub fn list(&self) -> Vec<AgentSummary> {
        let listed = |agent: &Agent| AgentSummary {
            id: agent.id(),
            label: agent.identity.label(),
            parent: self.core.roster().shown_parent(agent.id()),
            model: agent.inputs.endpoint.full_name(),
            status: agent.status(),
            activity: activity_of(&self.core.command_context(agent.id(), Vec::new()), agent),
            place: self.core.send_queue().position_of(agent.id()),
            queued: agent.queue.len(),
            unread: agent.unread,
        };
        self.core.roster().iter().map(listed).collect()
    }

    /// What an agent is doing. A closed agent is idle.
    ///
    /// # Errors
    /// The agent never existed, or the store cannot be read.
    pub fn status(&self, agent_id: AgentId) -> Result<Status> {
        activity::status(&self.core, agent_id)
    }

    /// Creates an agent without history, with the configured settings: in the directory in which the program was
    /// started, and with the configured model unless another one is given as `provider/model`.
    ///
    /// # Errors
    /// The name is malformed or taken, the model is not configured, or the store cannot be written; then no agent is
    /// created.
    pub fn create(&mut self, name: Option<&str>, model: Option<&str>) -> Result<AgentId> {
        let choices = Choices { model: model.map(str::to_owned), ..Choices::default() };
        let name = name.map(str::to_owned);
        let new =
            Beginning { id: None, name, directory: None, choices: &choices, is_print_run: false, may_be_root: false };
        self.create_in(new)
    }

    pub(super) fn create_in(&mut self, new: Beginning<'_>) -> Result<AgentId> {
        let name = new.name.as_deref().map(checked_name).transpose()?;
        let id = begin(&mut self.core, Beginning { name, ..new })?;
        self.apply_effects();
        self.render();
        Ok(id)
    }

    /// Makes an agent answer with JSON that conforms to this JSON schema, until the program ends. Returns whether its
    /// protocol can enforce that; otherwise nothing has changed. Its children are not bound to the schema.
    ///
    /// # Errors
    /// The agent does not exist.
    pub fn set_schema(&mut self, agent_id: AgentId, schema: &Value) -> Result<bool> {
        steer::set_schema(&mut self.core, agent_id, schema)
    }

    /// Sends a message to an agent. A busy agent queues it, up to 1,000 of them.
    ///
    /// # Errors
    /// The agent does not exist, the text is blank, the queue is full, or the store cannot be written; then nothing is
    /// sent.
    pub fn send(&mut self, agent_id: AgentId, text: &str) -> Result<()> {
        if text.trim().is_empty() {
            return Err(Error::usage("nothing to send: the text is empty"));
        }
        self.apply(agent_id, Change::Submit(text.to_owned()))
    }

    /// Interrupts the current turn of an agent, if there is one. Running tools are cancelled; the agent is idle when they
    /// have ended.
    ///
    /// # Errors
    /// The agent does not exist.
    pub fn interrupt(&mut self, agent_id: AgentId) -> Result<()> {
        self.apply(agent_id, Change::Interrupt)
    }

    /// Removes an agent from memory without killing it: it is loaded again when the store is opened the next time. Its
    /// viewers get a note and the end of the output. Until then its mail waits in the store, its name stays taken, and it
    /// survives when an ancestor is killed with its descendants.
    ///
    /// # Errors
    /// The agent does not exist, is the root, is busy, has a queue or living children, is shown on a terminal, or works
    /// in a worktree, which is removed with the last agent in memory that works there.
    pub fn close(&mut self, agent_id: AgentId) -> Result<()> {
        let uses = [
            (self.jobs.is_pending(agent_id), "a command is waiting for it"),
            (self.terminals.focused().any(|focus| focus == agent_id), "it is shown on a terminal"),
        ];
        self.core.close(agent_id, uses)?;
        self.apply_effects();
        Ok(())
    }

    /// Applies a change to an agent, as a command that is entered at the first terminal that is not read-only.
    ///
    /// # Errors
    /// The change cannot be applied; then nothing has changed.
    pub fn apply(&mut self, agent_id: AgentId, change: Change) -> Result<()> {
        let origin = self.terminals.first_writable().map_or(Origin::Library, Origin::Terminal);
        self.apply_change(origin, agent_id, change)?;
        self.dispatch();
        self.render();
        Ok(())
    }

    /// From now on this agent and those that it forks run without a sandbox and ask nothing, until the program exits.
    pub(crate) fn lift_restrictions(&mut self, agent_id: AgentId) {
        self.core.edit(agent_id, |agent| {
            agent.is_unrestricted = true;
            agent.view.touch();
        });
    }

    /// How many messages could not be stored yet. They are lost if that does not change before the program ends.
    pub fn unsaved(&self) -> usize {
        unsaved::count(&self.core)
    }

    /// The state of the servers of tools that were used.
    pub(crate) fn servers(&self) -> Vec<ServerReport> {
        self.features.iter().flat_map(|feature| feature.servers()).collect()
    }

    pub(crate) fn roster(&self) -> &Roster {
        self.core.roster()
    }

    /// The limit of a tree of agents that was reached and about which no person could be asked, in words.
    pub fn limit_reached(&self) -> Option<String> {
        self.core.trees().reached(|_| true).map(|reached| reached.message(self.core.roster()))
    }

    /// The agent with this name, number or id. An archived one is brought back, perhaps for a `--print` run.
    pub(crate) fn find_or_unarchive(&mut self, text: &str, is_for_run: bool) -> Result<AgentId> {
        called_or_archived(&mut self.core, text, is_for_run)
    }

    /// Shows a note at an agent; it is not part of the conversation.
    pub(crate) fn announce(&mut self, agent_id: AgentId, text: &str) {
        self.core.note(agent_id, LineKind::Note, text);
        self.render();
    }
}
