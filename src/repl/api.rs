//! The methods for programs that embed the loop. Each does what a command does, under the same rules. Agents work only
//! during [`Repl::turn`].

use crate::agent::{Agent, Role, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::commands;
use crate::domain::chunk::{Chunk, Status};
use crate::domain::flow::{Change, Origin};
use crate::domain::scrollback::LineKind;
use crate::repl::core::agent_gone;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::server::MOST_CLIENTS;
use crate::repl::start::slots;
use crate::repl::{Device, Repl, Terminal, TerminalMode};
use crate::socket::Listener;
use crate::store::Store;
use crate::team::Roster;

/// An agent in [`Repl::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSummary {
    /// Identifies the agent.
    pub id: AgentId,
    /// Its name, or `agent N`.
    pub label: String,
    /// Its nearest living ancestor; none for the root.
    pub parent: Option<AgentId>,
    /// Its model, as `provider/model`.
    pub model: String,
    /// What the agent is doing.
    pub status: Status,
    /// How many agents are before it in the queue for a working slot; none if it does not wait for one.
    pub place: Option<usize>,
    /// Messages and commands in its queue.
    pub queued: usize,
    /// Unread mail messages.
    pub unread: usize,
}

impl Repl {
    /// Accepts clients in every turn until [`Repl::leave`]. From now on SIGHUP does not end the loop.
    pub fn serve(&mut self, listener: Listener) {
        self.dispatcher.set_slots(slots(self.core.config.working_limit, MOST_CLIENTS as u64));
        self.server.listen(listener);
    }

    pub(crate) fn clients(&self) -> usize {
        self.server.client_count()
    }

    /// The agents in memory in the order of their creation; the root is the first.
    pub fn list(&self) -> Vec<AgentSummary> {
        let listed = |agent: &Agent| AgentSummary {
            id: agent.id(),
            label: agent.identity.label(),
            parent: self.core.roster.parent(agent.id()),
            model: agent.talk.endpoint.full_name(),
            status: agent.status(),
            place: self.core.roster.send_queue_position(agent.id()),
            queued: agent.queue.len(),
            unread: agent.unread,
        };
        self.core.roster.iter().map(listed).collect()
    }

    /// What an agent is doing. A closed agent is idle.
    ///
    /// # Errors
    /// The agent never existed, or the store cannot be read.
    pub fn status(&self, agent_id: AgentId) -> Result<Status> {
        self.core.status(agent_id)
    }

    /// Creates an agent without history: a child of the root with the root's environment, system prompt and thinking
    /// level, and with the root's model unless another one is given as `provider/model`.
    ///
    /// # Errors
    /// The name is malformed or taken, the model is not configured, or the store cannot be written; then no agent is
    /// created.
    pub fn create(&mut self, name: Option<&str>, model: Option<&str>) -> Result<AgentId> {
        self.core.require_writable()?;
        let root = self.core.roster.nth(0).ok_or_else(agent_gone)?;
        let name = name.map(commands::checked_name).transpose()?;
        let model = model.map(str::to_owned);
        let id = self.core.spawn(Spawn { name, model, ..Spawn::new(root, Origin::Library, Inherit::Nothing) })?;
        self.apply_effects();
        self.terminals.render(&mut self.core);
        Ok(id)
    }

    /// Sends a message to an agent. A busy agent queues it, up to 1,000 of them.
    ///
    /// # Errors
    /// The agent does not exist, the text is blank, the queue is full, or the store cannot be written; then nothing is
    /// sent.
    pub fn send(&mut self, agent_id: AgentId, text: &str) -> Result<()> {
        if text.trim().is_empty() {
            return Err(Error::new(ErrorKind::Usage, "nothing to send: the text is empty"));
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
    /// The agent does not exist, is the root, is busy, has a queue or living children, is shown on a terminal, or works in
    /// a worktree, which is removed with the last agent in memory that works there.
    pub fn close(&mut self, agent_id: AgentId) -> Result<()> {
        self.core.require_writable()?;
        if let Some(why) = self.why_not_close(agent_id)? {
            let label = self.core.roster.get(agent_id).map(|agent| agent.identity.label()).unwrap_or_default();
            return Err(Error::new(ErrorKind::Usage, format!("cannot close {label}: {why}")));
        }
        if let Some(closed) = self.core.remove(agent_id, None) {
            self.core.keep_last_chunks(closed, &[Chunk::Note("closed; loaded again at the next start".into())]);
        }
        self.apply_effects();
        Ok(())
    }

    fn why_not_close(&self, agent_id: AgentId) -> Result<Option<&'static str>> {
        let agent =
            self.core.roster.get(agent_id).filter(|agent| agent.role != Role::Summary).ok_or_else(agent_gone)?;
        let has_pending_work = self.has_pending_work(agent_id);
        let reasons = [
            (self.core.roster.parent(agent_id).is_none(), "it is the root"),
            (agent.state() != State::Idle, "it is busy"),
            (!agent.queue.is_empty(), "it has queued messages"),
            (has_pending_work, "a command is waiting for it"),
            (self.core.roster.children(agent_id).next().is_some(), "it has children"),
            (self.terminals.iter().any(|terminal| terminal.focus == agent_id), "it is shown on a terminal"),
            (agent.talk.environment.worktree.is_some(), "it works in a worktree"),
        ];
        Ok(reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why))
    }

    /// Whether a command is waiting for it, or other agents work for it.
    fn has_pending_work(&self, agent_id: AgentId) -> bool {
        let is_needed = |agent: &Agent| agent.role == Role::Member || agent.has_background_work();
        self.jobs.is_pending(agent_id) || self.core.roster.get(agent_id).is_some_and(is_needed)
    }

    /// Applies a change to an agent, as a command that is entered at the first terminal that is not read-only.
    ///
    /// # Errors
    /// The change cannot be applied; then nothing has changed.
    pub fn apply(&mut self, agent_id: AgentId, change: Change) -> Result<()> {
        let origin = self.terminals.first_writable().map_or(Origin::Library, Origin::Terminal);
        self.apply_change(origin, agent_id, change)?;
        self.dispatch();
        self.terminals.render(&mut self.core);
        Ok(())
    }

    /// How many messages could not be stored and will be lost when the program ends.
    pub fn unsaved(&self) -> usize {
        self.core.unsaved
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.core.roster
    }

    pub(crate) fn store(&self) -> &Store {
        &self.core.store
    }

    /// Attaches a terminal that shows this agent, or agent 0 if that is gone. It is drawn in the next turn.
    pub(crate) fn attach_device(&mut self, device: Device, focus: AgentId, mode: TerminalMode) -> TerminalId {
        self.terminals.attach(&mut self.core, device, focus, mode)
    }

    /// Detaches a terminal. The draft stays with the agent that it showed.
    pub(crate) fn detach_device(&mut self, id: TerminalId) {
        self.terminals.detach(&mut self.core, id);
    }

    /// The terminal that has been attached longest, if there is one.
    pub(crate) fn terminal(&mut self) -> Option<&mut Terminal> {
        self.terminals.iter_mut().next()
    }

    pub(crate) fn terminal_at(&mut self, id: TerminalId) -> Option<&mut Terminal> {
        self.terminals.get_mut(id)
    }

    pub(crate) fn terminal_ids(&self) -> Vec<TerminalId> {
        self.terminals.ids()
    }

    /// Refuses every call about which a person would have to decide, and tells the models why. Returns who wanted to run
    /// what, in one line.
    pub(crate) fn refuse_questions(&mut self) -> Vec<(AgentId, String)> {
        let asking: Vec<AgentId> = self.core.roster.asking().iter().copied().collect();
        let mut refused = Vec::new();
        for agent_id in asking {
            refused.extend(self.core.refuse_question(agent_id).map(|title| (agent_id, title)));
        }
        if !refused.is_empty() {
            self.apply_effects();
        }
        refused
    }

    /// From now on no more than so many requests are made, by all agents together. A request that is sent again because it
    /// failed is the same one.
    pub(crate) fn limit_requests(&mut self, most: u32) {
        self.core.limits.limit_requests(most);
    }

    /// How many requests were made so far, those that were sent again not counted.
    pub(crate) fn requests(&self) -> u32 {
        self.core.limits.requests()
    }

    /// Whether somebody waits to make a request that the limit does not allow: it will never be made.
    pub(crate) fn is_out_of_requests(&self) -> bool {
        self.dispatcher.first_in_queue(&self.core).is_some_and(|agent_id| !self.core.may_request(agent_id))
    }

    /// The living agent that a person means by this.
    ///
    /// # Errors
    /// Nobody or more than one is meant.
    pub(crate) fn find(&self, text: &str) -> Result<AgentId> {
        commands::agent_called(&self.core.roster, text)
    }

    /// Who was spoken to last; agent 0, if nobody was.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn last_spoken_to(&self) -> Result<AgentId> {
        let last = self.core.store.last_addressed()?;
        last.or_else(|| self.core.roster.nth(0)).ok_or_else(agent_gone)
    }

    /// What this agent is called; where it does not live any more, its id.
    pub(crate) fn label_of(&self, agent_id: AgentId) -> String {
        self.core.label_of(agent_id)
    }

    /// All agents as `/agents` lists them.
    pub(crate) fn agents(&self, current: AgentId) -> String {
        commands::agent_tree(&self.core.command_context(current, Vec::new()))
    }

    /// Tells whoever looks at this agent something; no model is told.
    pub(crate) fn announce(&mut self, agent_id: AgentId, text: &str) {
        self.core.note(agent_id, LineKind::Note, text);
        self.terminals.render(&mut self.core);
    }
}
