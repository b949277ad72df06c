//! A turn for a client: its text is said to an agent, at once or when its turn comes, and the client is told the chunks of
//! that turn and of no other.
//!
//! ```text
//!   Queued     the text waits in the agent's queue, behind what others have said
//!   UnderWay   a viewer reads from the first chunk of the turn on
//!   Over       and up to the last one
//! ```
//! The client is a program, so while its turn is under way questions are refused: nobody would answer. If the client
//! leaves, the turn goes on as any other one.

use serde_json::{Value, json};

use super::client::{ClientState, Serving};
use super::requests::usage;
use crate::agent::{Agent, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, ClientId};
use crate::commands;
use crate::domain::flow::{Change, Origin};
use crate::domain::wire::Response;
use crate::repl::core::agent_gone;
use crate::repl::{Repl, ViewerId};

/// A turn that a client has asked for.
pub(super) struct ClientTurn {
    agent_id: AgentId,
    stage: Stage,
    /// The most requests that it may make.
    most: Option<u32>,
    /// How many it has made.
    requests: u32,
    /// It wanted to make more.
    is_limited: bool,
}

enum Stage {
    /// In the agent's queue, as the entry with this client as its origin.
    Queued,
    /// It is read.
    UnderWay(ViewerId),
    /// The house is left, and cuts it: it is read until the connection ends, and has no end of its own.
    Forsaken(ViewerId),
    /// It ended before the chunk with this number.
    Over(ViewerId, u64),
}

impl ClientTurn {
    /// Who reads for it, and the number of the chunk before which that ends.
    pub fn reading(&self) -> Option<(ViewerId, u64)> {
        match self.stage {
            Stage::Queued => None,
            Stage::UnderWay(viewer) | Stage::Forsaken(viewer) => Some((viewer, u64::MAX)),
            Stage::Over(viewer, until) => Some((viewer, until)),
        }
    }

    /// What it came to.
    pub fn to_json(&self) -> Value {
        json!({"requests": self.requests, "limited": self.is_limited})
    }

    fn is_under_way(&self, agent_id: AgentId) -> bool {
        self.agent_id == agent_id && matches!(self.stage, Stage::UnderWay(_))
    }
}

impl Serving {
    /// Whether this agent works for a client whose turn may make no further request.
    pub fn is_spent(&self, agent_id: AgentId) -> bool {
        self.turns().any(|turn| turn.is_under_way(agent_id) && turn.most.is_some_and(|most| turn.requests >= most))
    }

    /// This agent makes a request: not one that is sent again.
    pub fn count_request(&mut self, agent_id: AgentId) {
        self.turns_mut().filter(|turn| turn.is_under_way(agent_id)).for_each(|turn| turn.requests += 1);
    }

    fn turns(&self) -> impl Iterator<Item = &ClientTurn> {
        self.clients
            .values()
            .filter_map(|client| if let ClientState::Turn(turn) = &client.state { Some(turn) } else { None })
    }

    fn turns_mut(&mut self) -> impl Iterator<Item = &mut ClientTurn> {
        self.clients.values_mut().filter_map(|client| match &mut client.state {
            ClientState::Turn(turn) => Some(turn),
            _ => None,
        })
    }

    fn turn_of(&mut self, number: u64) -> Option<&mut ClientTurn> {
        match &mut self.clients.get_mut(&number)?.state {
            ClientState::Turn(turn) => Some(turn),
            _ => None,
        }
    }
}

impl Repl {
    pub(super) fn has_turn(&self, number: u64) -> bool {
        self.serving.clients.get(&number).is_some_and(|client| matches!(client.state, ClientState::Turn(_)))
    }

    /// As [`Repl::submit`] does it, but never a command: a text that begins with a slash is said as it stands.
    pub(super) fn begin_turn_for_client(
        &mut self,
        number: u64,
        agent_id: &str,
        text: String,
        most: Option<u32>,
    ) -> Result<ClientState> {
        let agent_id = commands::agent_called(&self.core.roster, agent_id)?;
        if text.trim().is_empty() {
            return Err(usage("there is nothing to send: the text is empty"));
        }
        let origin = Origin::Client(ClientId(number));
        let viewer = self.attach_to_last(agent_id, 0)?;
        if let Err(error) = self.apply_change(origin, agent_id, Change::Submit(text)) {
            self.detach(viewer);
            return Err(error);
        }
        let stage = if self.is_queued(agent_id, origin) {
            self.detach(viewer);
            Stage::Queued
        } else {
            Stage::UnderWay(viewer)
        };
        Ok(ClientState::Turn(ClientTurn { agent_id, stage, most, requests: 0, is_limited: false }))
    }

    /// The turn of a queued text begins; a client may have sent it.
    pub(in crate::repl) fn on_turn_begins(&mut self, agent_id: AgentId, origin: Origin) {
        let Origin::Client(ClientId(number)) = origin else { return };
        if self.serving.turn_of(number).is_none_or(|turn| turn.agent_id != agent_id) {
            return;
        }
        // Nothing is read for that, so it cannot fail.
        let Ok(viewer) = self.attach_to_last(agent_id, 0) else { return };
        if let Some(turn) = self.serving.turn_of(number) {
            turn.stage = Stage::UnderWay(viewer);
        }
    }

    /// A turn of this agent has ended; the next one has not begun.
    pub(in crate::repl) fn on_turn_ended(&mut self, agent_id: AgentId) {
        // The news of an earlier end may come when the next turn is under way already.
        let Some(agent) = self.core.roster.get(agent_id).filter(|agent| agent.state() == State::Idle) else { return };
        let next = agent.output.next();
        for turn in self.serving.turns_mut().filter(|turn| turn.agent_id == agent_id) {
            if let Stage::UnderWay(viewer) = turn.stage {
                turn.stage = Stage::Over(viewer, next);
            }
        }
    }

    /// The house is about to be left: turns that have not ended are not over for those who asked for them, but lost.
    pub(in crate::repl) fn forsake_turns(&mut self) {
        for turn in self.serving.turns_mut() {
            if let Stage::UnderWay(viewer) = turn.stage {
                turn.stage = Stage::Forsaken(viewer);
            }
        }
    }

    /// Does what there is to do for it, and tells the client what is new.
    pub(super) fn tell_turn(&mut self, number: u64) {
        let Some(turn) = self.serving.turn_of(number) else { return };
        let agent_id = turn.agent_id;
        match turn.stage {
            Stage::Queued => {
                if let Err(error) = self.push_queue(number, agent_id) {
                    self.answer_client(number, &Response::from(&error));
                }
            }
            Stage::UnderWay(_) => {
                let is_refused = self.refuse_question(agent_id).is_some();
                let is_limited = self.wants_too_much(agent_id);
                if is_limited {
                    self.serving
                        .turns_mut()
                        .filter(|turn| turn.is_under_way(agent_id))
                        .for_each(|turn| turn.is_limited = true);
                    self.core.with_agent(agent_id, Agent::interrupt);
                }
                if is_refused || is_limited {
                    self.apply_effects();
                }
            }
            Stage::Forsaken(_) | Stage::Over(..) => {}
        }
        self.tell_chunks(number);
    }

    /// After a cut or an error a queue waits for a person. What a program has in it would wait for ever.
    ///
    /// # Errors
    /// Its turn will never come.
    fn push_queue(&mut self, number: u64, agent_id: AgentId) -> Result<()> {
        let origin = Origin::Client(ClientId(number));
        if !self.waits_in_vain(agent_id, origin) {
            return Ok(());
        }
        self.resume(agent_id);
        if self.serving.turn_of(number).is_some_and(|turn| turn.is_under_way(agent_id)) {
            return Ok(());
        }
        let Some(agent) = self.core.roster.get(agent_id) else { return Err(agent_gone()) };
        let words = if agent.queue.iter().all(|entry| entry.origin != origin) {
            "somebody took the text out of the queue of this agent before its turn came"
        } else if agent.state() == State::Idle {
            "what is queued for this agent cannot be carried out: /queue shows it"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::System, words))
    }

    fn waits_in_vain(&self, agent_id: AgentId, origin: Origin) -> bool {
        let is_idle = self.core.roster.get(agent_id).is_none_or(|agent| agent.state() == State::Idle);
        is_idle || !self.is_queued(agent_id, origin)
    }

    fn is_queued(&self, agent_id: AgentId, origin: Origin) -> bool {
        self.core.roster.get(agent_id).is_some_and(|agent| agent.queue.iter().any(|entry| entry.origin == origin))
    }

    /// Whether it waits to make a request that is one too many.
    fn wants_too_much(&self, agent_id: AgentId) -> bool {
        let waits = |agent: &Agent| agent.state() == State::WaitingForLlm && self.is_first_try(agent_id);
        self.serving.is_spent(agent_id) && self.core.roster.get(agent_id).is_some_and(waits)
    }

    /// Whether something is to be done for it, without news and whether or not the client takes anything.
    pub(super) fn has_to_do_for_turn(&self, number: u64, turn: &ClientTurn) -> bool {
        match turn.stage {
            Stage::Queued => self.waits_in_vain(turn.agent_id, Origin::Client(ClientId(number))),
            Stage::UnderWay(_) => {
                self.core.roster.asking().contains(&turn.agent_id) || self.wants_too_much(turn.agent_id)
            }
            Stage::Forsaken(_) | Stage::Over(..) => false,
        }
    }

    /// Whether there is something to tell the client.
    pub(super) fn has_to_tell_of(&self, turn: &ClientTurn) -> bool {
        match turn.stage {
            Stage::Queued => false,
            Stage::UnderWay(viewer) | Stage::Forsaken(viewer) => self.has_unread(viewer),
            Stage::Over(..) => true,
        }
    }

    /// Interrupts it. One that has not begun never will.
    pub(super) fn cut_turn(&mut self, number: u64) -> Result<()> {
        let Some(turn) = self.serving.turn_of(number) else { return Ok(()) };
        let agent_id = turn.agent_id;
        match turn.stage {
            Stage::Queued => {
                let queue = self.core.roster.get(agent_id).ok_or_else(agent_gone)?.queue.iter();
                let entry: Vec<_> =
                    queue.filter(|entry| entry.origin == Origin::Client(ClientId(number))).cloned().collect();
                self.core.drop_queued(agent_id, &entry)?;
                let words = "it was cut before its turn came: nothing was said";
                self.answer_client(number, &Response::from(&Error::new(ErrorKind::System, words)));
                Ok(())
            }
            Stage::UnderWay(_) => self.apply_change(Origin::Internal, agent_id, Change::Interrupt),
            Stage::Forsaken(_) | Stage::Over(..) => Ok(()),
        }
    }

    /// The client leaves.
    pub(super) fn leave_turn(&mut self, turn: &ClientTurn) {
        if let Some((viewer, _)) = turn.reading() {
            self.detach(viewer);
        }
    }
}
