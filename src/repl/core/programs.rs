//! Which agents get tools that are programs of the person, and when their requests wait for them.

use std::path::PathBuf;

use crate::agent::{Agent, Effect, State, Wait};
use crate::base::id::AgentId;
use crate::domain::approval::Policy;
use crate::repl::core::Core;

/// Whether an agent is offered such tools: only where it can run commands on this machine. Under `plan` no program is
/// started, because it could change files.
pub(crate) fn gets_programs(core: &Core, agent: AgentId) -> bool {
    gets_servers(core, agent) && core.roster.get(agent).is_some_and(|agent| agent.inputs.environment.remote.is_none())
}

/// The same for MCP servers. An agent that works elsewhere gets those that are declared for that.
pub(crate) fn gets_servers(core: &Core, agent: AgentId) -> bool {
    core.config.settings.has_tools
        && core.roster.get(agent).is_some_and(|agent| {
            agent.policy() != Policy::Plan
                && agent.inputs.has_tools
                && agent.inputs.environment.tools.iter().any(|tool| tool.declaration.name == "bash")
        })
}

/// Whether something that a project in this directory declares is for the agent.
pub(crate) fn is_for(agent: &Agent, project: Option<&PathBuf>) -> bool {
    agent.inputs.environment.is_of(project)
}

/// Makes a request again that has waited. Returns whether the agent still wants it.
pub(crate) fn request_again(core: &mut Core, agent: AgentId) -> bool {
    let is_wanted = core.roster.get(agent).is_some_and(waits_for_slot);
    if is_wanted {
        core.with_agent(agent, |_, context| context.outbox.push(agent, Effect::Request));
    }
    is_wanted
}

/// Whether the request of an agent may join the send queue.
pub(crate) fn waits_for_slot(agent: &Agent) -> bool {
    agent.state() == State::WaitingForLlm && matches!(agent.wait(), Wait::Slot)
}
