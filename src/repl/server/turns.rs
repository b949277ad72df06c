//! A turn for a client: its text is sent to an agent, at once or from the queue, and the client receives the chunks of
//! that turn only.
//!
//! ```text
//!   Made       a server makes the text
//!   Queued     the text waits in the agent's queue
//!   Running    a viewer reads from the first chunk of the turn on
//!   Over       and up to the last one
//! ```
//! The client is a program and cannot answer questions: while its turn is under way they are refused, unless a person
//! attends it. If the client leaves, the turn goes on as any other.

use std::time::Duration;

use serde_json::{Value, json};

use super::Server;
use super::client::ClientState;
use crate::agent::{Agent, Queued, State};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, ClientId};
use crate::domain::approval::Policy;
use crate::domain::change::{Change, QueueEdit};
use crate::domain::chunk::wait_line;
use crate::domain::flow::Origin;
use crate::domain::wire::Response;
use crate::repl::component::Command;
use crate::repl::core::activity::held_up;
use crate::repl::core::turns::refuse_question;
use crate::repl::core::{Core, agent_gone, limits, viewers};
use crate::team::{ViewerId, busy_in_tree, is_in_tree};

/// The permissions of a client's turn.
#[derive(Clone, Copy)]
pub(in crate::repl) struct TurnBounds {
    /// The most requests to models that it may make.
    pub most: Option<u32>,
    /// The most that its agent may do without a question.
    pub policy: Option<Policy>,
    /// A person at the client answers its questions.
    pub is_attended: bool,
    /// How long its failed requests are tried again, if it is not attended.
    pub retry_time: Option<Duration>,
}

pub(super) struct ClientTurn {
    agent: AgentId,
    /// Its client is this process.
    is_own: bool,
    stage: Stage,
    bounds: TurnBounds,
    /// Requests that it has made, when it has ended.
    requests: u32,
    /// It needed more requests than it may make.
    is_limited: bool,
    /// The limit of a tree of agents that ended it, in words.
    limit: Option<String>,
    /// The end of the wait that was sent to the client last.
    sent_until: Option<Moment>,
}

#[derive(Clone, Copy)]
enum Stage {
    /// The text is a prompt that a server of the agent has been asked for.
    Made,
    /// An entry of the agent's queue has this client as its origin. After an error a queue waits for a person; for a client
    /// it is resumed, but only once.
    Queued {
        is_resumed: bool,
    },
    Running(ViewerId),
    /// It ended before the chunk with this number.
    Over(ViewerId, u64),
}

impl ClientTurn {
    /// The viewer that reads for it, and the number of the chunk before which that ends.
    pub(super) fn stream(&self) -> Option<(ViewerId, u64)> {
        match self.stage {
            Stage::Made | Stage::Queued { .. } => None,
            Stage::Running(viewer) => Some((viewer, u64::MAX)),
            Stage::Over(viewer, until) => Some((viewer, until)),
        }
    }

    pub(super) fn to_json(&self, core: &Core) -> Value {
        let is_limited = self.is_limited || self.limit.is_some();
        let is_killed = core.agent(self.agent).is_none();
        json!({"requests": self.requests, "limited": is_limited, "limit": self.limit, "killed": is_killed})
    }

    /// Whether a call of this agent, which was refused, has to be told to the client: those of the turn's own agent are among
    /// its chunks.
    pub(super) fn tells_refusals_of(&self, core: &Core, agent: AgentId) -> bool {
        self.is_running()
            && !self.bounds.is_attended
            && agent != self.agent
            && is_in_tree(core.roster(), self.agent, agent)
    }

    /// The limit of a tree of agents that ends the turn. Where nobody can be asked about those below, theirs end it as well.
    fn reached(&self, core: &Core, is_alone: bool) -> Option<String> {
        let concerns = |agent| agent == self.agent || is_alone && is_in_tree(core.roster(), self.agent, agent);
        let reached = core.trees().reached(concerns).filter(|_| self.limit.is_none())?;
        Some(reached.message(core.roster()))
    }

    /// The client is not interested in it any more. Text that is still queued belongs to no client from now on.
    pub(super) fn release(&self, core: &mut Core, id: ClientId) {
        if matches!(self.stage, Stage::Queued { .. }) {
            core.edit(self.agent, |agent| {
                let own = agent.queue.iter_mut().filter(|entry| entry.origin == Origin::Client(id));
                own.for_each(|entry| entry.origin = Origin::Internal);
            });
        }
        if let Some((viewer, _)) = self.stream() {
            viewers::close(core, viewer);
        }
        if self.is_running() && !self.is_own {
            limits::end_turn(core, self.agent);
        }
    }

    /// Whether `check_turn` would do something.
    pub(super) fn has_work(&self, core: &Core, id: ClientId, is_alone: bool) -> bool {
        match self.stage {
            Stage::Queued { .. } => is_stuck(core, self.agent, id),
            Stage::Running(_) => {
                !self.bounds.is_attended && core.roster().asking().contains(&self.agent)
                    || self.reached(core, is_alone).is_some()
            }
            Stage::Made | Stage::Over(..) => false,
        }
    }

    pub(super) fn has_output(&self, core: &Core) -> bool {
        match self.stage {
            Stage::Made | Stage::Queued { .. } => false,
            Stage::Running(viewer) => viewers::has_unread(core, viewer),
            Stage::Over(..) => true,
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }
}

impl Server {
    /// The client waits for a turn of this agent: the one whose text is submitted next with the client as its origin.
    pub(in crate::repl) fn begin_turn(&mut self, core: &mut Core, id: ClientId, agent: AgentId, bounds: TurnBounds) {
        let (stage, is_own) = (Stage::Queued { is_resumed: false }, self.is_own(id));
        let turn =
            ClientTurn { agent, is_own, stage, bounds, requests: 0, is_limited: false, limit: None, sent_until: None };
        self.set_state(core, id, ClientState::Turn(turn));
    }

    /// The text of the client's turn is made by a server, and submitted later.
    pub(in crate::repl) fn await_text(&mut self, id: ClientId) {
        if let Some(turn) = self.turn_mut(id) {
            turn.stage = Stage::Made;
        }
    }

    /// The text is there, and is submitted next.
    pub(in crate::repl) fn on_text(&mut self, id: ClientId) {
        if let Some(turn) = self.turn_mut(id).filter(|turn| matches!(turn.stage, Stage::Made)) {
            turn.stage = Stage::Queued { is_resumed: false };
        }
    }

    /// The text was not made, or could not be submitted when it was.
    pub(in crate::repl) fn fail_turn(&mut self, core: &mut Core, id: ClientId, error: &Error) {
        if self.turn_mut(id).is_some() {
            self.finish(core, id, &Response::from(error));
        }
    }

    fn turn_mut(&mut self, id: ClientId) -> Option<&mut ClientTurn> {
        match &mut self.clients.get_mut(&id)?.state {
            ClientState::Turn(turn) => Some(turn),
            _ => None,
        }
    }

    /// The agents were stopped: no queue is resumed for a client, which gets an error instead.
    pub(super) fn on_stopped(&mut self) {
        for client in self.clients.values_mut() {
            if let ClientState::Turn(ClientTurn { stage: Stage::Queued { is_resumed }, .. }) = &mut client.state {
                *is_resumed = true;
            }
        }
    }

    /// Whether this agent runs a turn of a client that nobody attends.
    pub(in crate::repl) fn has_turn_of(&self, agent: AgentId) -> bool {
        let is_of = |turn: &ClientTurn| turn.agent == agent && turn.is_running() && !turn.bounds.is_attended;
        self.clients.values().any(|client| matches!(&client.state, ClientState::Turn(turn) if is_of(turn)))
    }

    /// The agents whose turns are attended by a person at a client.
    pub(in crate::repl) fn attended(&self) -> impl Iterator<Item = AgentId> {
        self.clients.values().filter_map(|client| match &client.state {
            ClientState::Turn(turn) if turn.bounds.is_attended && turn.is_running() => Some(turn.agent),
            _ => None,
        })
    }

    fn turns_of(&mut self, agent: AgentId) -> impl Iterator<Item = &mut ClientTurn> {
        self.clients.values_mut().filter_map(move |client| match &mut client.state {
            ClientState::Turn(turn) if turn.agent == agent => Some(turn),
            _ => None,
        })
    }

    pub(super) fn on_turn_started(&mut self, core: &mut Core, agent: AgentId, origin: Origin, chunk: u64) {
        for turn in self.turns_of(agent) {
            if let Stage::Queued { is_resumed } = &mut turn.stage {
                *is_resumed = false;
            }
        }
        let Origin::Client(id) = origin else { return };
        let is_queued = |turn: &&mut ClientTurn| turn.agent == agent && matches!(turn.stage, Stage::Queued { .. });
        if let Some(turn) = self.turn_mut(id).filter(is_queued) {
            turn.stage = Stage::Running(viewers::open(core, agent, chunk));
            let TurnBounds { most, policy, retry_time, .. } = turn.bounds;
            limits::begin_turn(core, agent, most);
            core.edit(agent, |agent| agent.bound_turn(policy, retry_time));
            if let Some(client) = self.clients.get_mut(&id).filter(|client| client.is_own) {
                client.counted = Some(agent);
            }
        }
    }

    /// A turn ended before this chunk, or its agent was removed: its viewer reads the rest and ends.
    pub(super) fn on_turn_ended(&mut self, core: &mut Core, agent: AgentId, chunk: Option<u64>) {
        let (is_shutting_down, is_alone) = (self.is_shutting_down, self.is_alone(core));
        for turn in self.turns_of(agent) {
            let Stage::Running(viewer) = turn.stage else { continue };
            turn.requests = if turn.is_own { limits::next_turn(core, agent) } else { limits::end_turn(core, agent) };
            turn.limit = turn.limit.take().or_else(|| turn.reached(core, is_alone));
            if let Some(chunk) = chunk.filter(|_| !is_shutting_down) {
                turn.stage = Stage::Over(viewer, chunk);
            }
        }
    }

    /// Sends the client each wait in its turn, once.
    pub(super) fn send_wait(&mut self, core: &Core, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.connection.is_ready()) else { return };
        let ClientState::Turn(turn) = &mut client.state else { return };
        let Some(held_up) = held_up(core, turn.agent).filter(|_| turn.is_running()) else { return };
        if held_up.is_news(turn.sent_until) {
            turn.sent_until = Some(held_up.until);
            let line = wait_line(&turn.agent.to_string(), held_up.length, &held_up.reason);
            client.send(&Response::Chunk(line));
        }
    }

    /// Does for a client's turn what a person would do.
    pub(super) fn check_turn(&mut self, core: &mut Core, id: ClientId, commands: &mut Vec<Command>) -> Result<()> {
        let is_alone = self.is_alone(core);
        let Some(turn) = self.turn_mut(id) else { return Ok(()) };
        let agent = turn.agent;
        match &mut turn.stage {
            Stage::Queued { is_resumed } => {
                if check_queue(core, agent, id, *is_resumed)? {
                    *is_resumed = true;
                    commands.push(Command {
                        origin: Origin::Client(id),
                        agent,
                        change: Change::EditQueue(QueueEdit::Resume),
                    });
                }
            }
            Stage::Running(_) => {
                if !turn.bounds.is_attended {
                    refuse_question(core, agent);
                }
                if let Some(limit) = turn.reached(core, is_alone) {
                    turn.limit = Some(limit);
                    core.with_agent(agent, Agent::interrupt);
                }
                turn.is_limited |= is_over_limit(core, agent);
            }
            Stage::Made | Stage::Over(..) => {}
        }
        Ok(())
    }

    /// Interrupts the trees of agents in which one waits to make a request that the limit of a turn does not allow: also those
    /// below, which would go on when the limit has ended with the turn.
    pub(super) fn interrupt_over_limit(core: &mut Core) {
        for agent in limits::exhausted(core).collect::<Vec<_>>() {
            let is_over = is_over_limit(core, agent);
            for id in busy_in_tree(core.roster(), agent).into_iter().filter(|_| is_over) {
                core.with_agent(id, Agent::interrupt);
            }
        }
    }

    /// Cancels the run or turn of a client: its text leaves the queue; if the turn has begun, its agent is returned,
    /// which has to be interrupted.
    pub(in crate::repl) fn cancel_turn(&mut self, core: &mut Core, id: ClientId) -> Result<Option<AgentId>> {
        let Some(turn) = self.turn_mut(id) else { return Ok(self.agent_of_run(id)) };
        let agent = turn.agent;
        match turn.stage {
            Stage::Queued { .. } => {
                let queue = core.agent(agent).ok_or_else(agent_gone)?.queue.iter();
                let entries: Vec<Queued> = queue.filter(|entry| entry.origin == Origin::Client(id)).cloned().collect();
                core.drop_queued(agent, &entries)?;
                let message = "canceled while it was queued: the text was not sent";
                self.finish(core, id, &Response::from(&Error::new(ErrorKind::System, message)));
                Ok(None)
            }
            Stage::Made | Stage::Running(_) => Ok(Some(agent)),
            Stage::Over(..) => Ok(None),
        }
    }
}

/// Whether an agent, or one below it, waits to make a request that the limit of its turn does not allow.
pub(super) fn is_over_limit(core: &Core, agent: AgentId) -> bool {
    let is_waiting = |agent: &Agent| agent.state() == State::WaitingForLlm && agent.is_first_try();
    limits::is_turn_exhausted(core, agent)
        && busy_in_tree(core.roster(), agent).into_iter().any(|id| core.agent(id).is_some_and(is_waiting))
}

/// Whether an idle agent's queue has to be resumed for this client.
fn check_queue(core: &Core, agent: AgentId, id: ClientId, is_resumed: bool) -> Result<bool> {
    if !is_stuck(core, agent, id) {
        return Ok(false);
    }
    let label = core.agent(agent).ok_or_else(agent_gone)?.identity.label();
    let message = if !is_queued(core, agent, id) {
        format!("the text was removed from the queue of {label} before its turn began")
    } else if is_resumed {
        format!("the queue of {label} is stuck: /queue in `polylogue attach` shows it")
    } else {
        return Ok(true);
    };
    Err(Error::new(ErrorKind::System, message))
}

/// Whether the queue does not continue automatically, or the client's text is not in it.
fn is_stuck(core: &Core, agent: AgentId, id: ClientId) -> bool {
    let is_idle = core.agent(agent).is_none_or(|agent| agent.state() == State::Idle);
    is_idle || !is_queued(core, agent, id)
}

fn is_queued(core: &Core, agent: AgentId, id: ClientId) -> bool {
    let is_of_client = |entry: &Queued| entry.origin == Origin::Client(id);
    core.agent(agent).is_some_and(|agent| agent.queue.iter().any(is_of_client))
}
