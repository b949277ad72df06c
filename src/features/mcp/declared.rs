//! Which declared servers are for an agent: those of the configuration, and those of clients as long as they are connected.

use std::collections::BTreeSet;

use super::Mcp;
use super::server::Key;
use crate::agent::Agent;
use crate::base::id::{AgentId, ClientId};
use crate::domain::mcp::{ClientServer, McpServer};
use crate::domain::rule::Subject;
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::repl::core::programs::is_for;

/// Where the declaration of a client comes from, for questions and lists.
const CLIENT: &str = "the editor";

impl Mcp {
    /// Gives an agent and those below it the servers of a client, and starts all servers of the agent: their prompts
    /// are commands, which a person can type before the first message. A declaration of the configuration with the same
    /// name wins.
    pub(super) fn declare(&mut self, core: &mut Core, client: ClientId, agent: AgentId, servers: &[ClientServer]) {
        let mut declared: Vec<McpServer> = Vec::new();
        for ClientServer { name, transport } in servers {
            let server = McpServer::new(name, transport.clone(), CLIENT.into());
            let is_known = |known: &McpServer| known.name == *name && is_declared_for(core, agent, known);
            let taken = core.config().mcp.iter().find(|known| is_known(known));
            match taken.or_else(|| declared.iter().find(|known| known.name == *name)) {
                Some(known) if known.transport == *transport => {}
                Some(known) => {
                    let line = format!(
                        "mcp {name}: the server of the editor is not used: {} has one of this name",
                        known.source
                    );
                    core.note(agent, LineKind::Note, &line);
                }
                None => declared.push(server),
            }
        }
        self.of_clients.insert(client, (agent, declared));
        self.start_all(core, agent);
    }

    /// A client has left: its servers end, unless another client has declared the same.
    pub(super) fn undeclare(&mut self, core: &mut Core, client: ClientId) {
        let Some((_, gone)) = self.of_clients.remove(&client) else { return };
        let of_it = self.servers.iter().filter(|(_, server)| gone.contains(&server.declaration));
        let numbers: Vec<u64> = of_it.map(|(number, _)| *number).collect();
        // The descendants of the owner, and agents that others have adopted since.
        let users = |number: &u64| self.servers.get(number).map(|server| server.users.clone()).unwrap_or_default();
        let agents: BTreeSet<AgentId> = numbers.iter().flat_map(users).collect();
        for agent in &agents {
            let still: Vec<McpServer> = self.declared_for(core, *agent).into_iter().map(|(_, server)| server).collect();
            for number in &numbers {
                if let Some(server) = self.servers.get_mut(number).filter(|server| !still.contains(&server.declaration))
                {
                    server.users.remove(agent);
                }
            }
        }
        self.remove_unused(core);
        agents.into_iter().for_each(|agent| self.give_tools(core, agent));
    }

    /// The servers that are for an agent. Of several with the same name the first counts.
    pub(super) fn declared_for(&self, core: &Core, agent: AgentId) -> Vec<(Key, McpServer)> {
        let Some(known) = core.agent(agent) else { return Vec::new() };
        let is_owner = |owner: AgentId| owner == agent || core.roster().is_ancestor(owner, agent);
        let of_clients = self.of_clients.values().filter(|(owner, _)| is_owner(*owner));
        let all = core.config().mcp.iter().chain(of_clients.flat_map(|(_, servers)| servers));
        let mut found: Vec<(Key, McpServer)> = Vec::new();
        for declaration in all {
            let key = key(known, declaration);
            found.extend(
                key.filter(|key| found.iter().all(|(other, _)| other != key)).map(|key| (key, declaration.clone())),
            );
        }
        found
    }
}

fn is_declared_for(core: &Core, agent: AgentId, declaration: &McpServer) -> bool {
    core.agent(agent).is_some_and(|agent| key(agent, declaration).is_some())
}

/// The key of this server for the agent; `None` if the server is not for it.
fn key(agent: &Agent, declaration: &McpServer) -> Option<Key> {
    let environment = &agent.inputs.environment;
    // Servers run on this machine, and would work on its files as if they were those of the place.
    if environment.remote.is_some() && !declaration.is_remote || !is_for(agent, declaration.project.as_ref()) {
        return None;
    }
    let (directory, worktree) = (environment.working_directory.clone(), environment.worktree.clone());
    let denied = agent.rules.deny.iter().filter(|rule| rule.subject() == Subject::Net).cloned().collect();
    Some(Key { name: declaration.name.clone(), directory, worktree, denied })
}
