//! A run of several agents for a client, which receives its events. The members are children of an agent that was made
//! for the run. The client is a program and cannot answer questions: those of the members are refused. If it leaves,
//! nobody waits for the result, and the run is interrupted.

use std::collections::BTreeSet;

#[cfg(feature = "coordinator")]
use serde_json::Value;
use serde_json::json;

use super::Server;
use super::client::{Client, ClientState};
use crate::base::id::{AgentId, ClientId};
use crate::domain::change::Change;
use crate::domain::flow::Origin;
use crate::domain::wire::Response;
use crate::repl::component::Command;
use crate::repl::core::turns::refuse_question;
use crate::repl::core::{Core, rules};

// Without the coordinator no run begins.
#[cfg_attr(not(feature = "coordinator"), allow(dead_code))]
pub(super) struct ClientRun {
    /// The parent of the members.
    pub(super) agent: AgentId,
    /// Agents below it that had a call refused; they may have ended.
    refused: BTreeSet<AgentId>,
    /// The client was sent the limit that ends the run.
    is_limited: bool,
}

impl ClientRun {
    fn concerns(&self, core: &Core, agent: AgentId) -> bool {
        agent == self.agent || self.refused.contains(&agent) || core.roster().is_ancestor(self.agent, agent)
    }

    /// What a limit of a tree of agents forbids, in words.
    fn limit(&self, core: &Core) -> Option<String> {
        let reached = core.trees().reached(|agent| self.concerns(core, agent)).filter(|_| !self.is_limited)?;
        Some(reached.message(core.roster()))
    }
}

impl Server {
    /// The client waits for the run below this agent.
    #[cfg(feature = "coordinator")]
    pub(in crate::repl) fn begin_run(&mut self, core: &mut Core, id: ClientId, agent: AgentId) {
        let run = ClientRun { agent, refused: BTreeSet::new(), is_limited: false };
        self.set_state(core, id, ClientState::Job(Some(run)));
    }

    #[cfg(feature = "coordinator")]
    pub(super) fn on_run_event(&mut self, id: ClientId, event: &Value) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(run) = client.run_mut() else { return };
        if event["type"] != "limit" || !std::mem::replace(&mut run.is_limited, true) {
            client.send(&Response::Chunk(event.clone()));
        }
    }

    #[cfg(feature = "coordinator")]
    pub(super) fn on_run_ended(&mut self, core: &mut Core, id: ClientId, outcome: &Value) {
        if let Some(client) = self.clients.get_mut(&id).filter(|client| client.run().is_some()) {
            client.state = ClientState::Job(None);
            self.finish_stored(core, id, Response::Done(outcome.clone()));
        }
    }

    pub(super) fn agent_of_run(&self, id: ClientId) -> Option<AgentId> {
        self.clients.get(&id)?.run().map(|run| run.agent)
    }

    /// Does for the runs of clients what a person would have to do, tells clients what was refused to agents below theirs,
    /// and interrupts runs whose client has left.
    pub(super) fn check_runs(&mut self, core: &mut Core, commands: &mut Vec<Command>) {
        let refused = if self.has_clients() { self.refuse(core) } else { Vec::new() };
        let line = |core: &Core, (agent, title): &(AgentId, String)| {
            let title = format!("{title} (of {})", core.roster().label_of(*agent));
            json!({"v": 1, "type": "refused", "title": title})
        };
        for client in self.clients.values_mut() {
            let mut lines = Vec::new();
            if let ClientState::Turn(turn) = &client.state {
                let told = refused.iter().filter(|(agent, _)| turn.tells_refusals_of(core, *agent));
                lines.extend(told.map(|refused| line(core, refused)));
            }
            if let Some(run) = client.run_mut() {
                let of_run: Vec<_> = refused.iter().filter(|(agent, _)| run.concerns(core, *agent)).collect();
                lines.extend(of_run.iter().map(|refused| line(core, refused)));
                run.refused.extend(of_run.iter().map(|(agent, _)| *agent));
                if let Some(limit) = run.limit(core) {
                    run.is_limited = true;
                    lines.push(json!({"v": 1, "type": "limit", "text": limit}));
                }
            }
            lines.into_iter().for_each(|line| client.send(&Response::Chunk(line)));
        }
        let left = std::mem::take(&mut self.left_runs).into_iter().filter(|agent| core.agent(*agent).is_some());
        commands.extend(left.map(|agent| Command { origin: Origin::Internal, agent, change: Change::Interrupt }));
    }

    /// Refuses what the agents of runs ask and, where nobody can be asked, what any agent asks. Returns this and what was refused
    /// without a question.
    fn refuse(&self, core: &mut Core) -> Vec<(AgentId, String)> {
        let mut refused = rules::take_refused(core);
        for agent in self.to_refuse(core).collect::<Vec<_>>() {
            refused.extend(refuse_question(core, agent).map(|title| (agent, title)));
        }
        refused
    }

    /// Questions of an earlier process wait for the person who uses a chat.
    fn to_refuse(&self, core: &Core) -> impl Iterator<Item = AgentId> {
        let is_alone = self.is_alone(core);
        let asking = core.roster().questions().filter(|(_, question)| !question.is_restored);
        let asking = asking.map(|(agent, _)| agent.id());
        asking.filter(move |agent| {
            is_alone || self.clients.values().filter_map(Client::run).any(|run| run.concerns(core, *agent))
        })
    }

    pub(super) fn has_run_work(&self, core: &Core) -> bool {
        let is_any_refused = self.has_clients() && rules::has_refused(core);
        is_any_refused
            || !self.left_runs.is_empty()
            || self.has_clients() && self.to_refuse(core).next().is_some()
            || self.clients.values().filter_map(Client::run).any(|run| run.limit(core).is_some())
    }
}
