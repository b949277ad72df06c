//! Questions of servers to the person while a call waits for them: each is shown by the agent of that call, one after
//! the other. Without a person to ask, or with a policy that never asks, the answer is no.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::Mcp;
use crate::base::id::AgentId;
use crate::domain::approval::Policy;
use crate::domain::elicitation::Elicitation;
use crate::features::mcp::protocol::Inputs;
use crate::repl::core::Core;

/// Questions of a server about one call.
pub(super) struct Asking {
    server: u64,
    /// Of the call.
    tag: u64,
    agent: AgentId,
    call: String,
    /// The unanswered questions, the open one first.
    left: VecDeque<(String, Value)>,
    answered: Map<String, Value>,
    inputs: Inputs,
}

impl Mcp {
    /// A server asks the person.
    pub(super) fn begin_asking(&mut self, core: &mut Core, server: u64, tag: u64, inputs: Inputs) {
        let calls = self.servers.get(&server).map(|server| server.calls.as_slice()).unwrap_or_default();
        let of_model = calls.iter().find(|call| call.tag == tag && call.asked.is_of_model());
        let Some((agent, call)) = of_model.map(|call| (call.agent, call.id.clone())) else {
            // After further questions the request is not made.
            let declined =
                inputs.questions().into_iter().map(|(key, _)| (key, Elicitation::decline_answer())).collect();
            return self.respond(core, server, tag, (inputs, declined));
        };
        let left = inputs.questions().into();
        self.go_on_asking(core, Asking { server, tag, agent, call, left, answered: Map::new(), inputs });
    }

    /// Asks the next question, or answers the server.
    fn go_on_asking(&mut self, core: &mut Core, mut asking: Asking) {
        while let Some((key, params)) = asking.left.front() {
            let name = self.servers.get(&asking.server).map(|server| server.key.name.clone()).unwrap_or_default();
            let asked = Elicitation::read(&name, params).ok().filter(|_| may_ask(core, asking.agent));
            let (key, call) = (key.clone(), asking.call.clone());
            let is_asked = asked.is_some_and(|asked| {
                core.with_agent(asking.agent, |agent, context| agent.elicit(&call, asked, context)) == Some(true)
            });
            if is_asked {
                return self.asking.push(asking);
            }
            asking.answered.insert(key, Elicitation::decline_answer());
            asking.left.pop_front();
        }
        self.respond(core, asking.server, asking.tag, (asking.inputs, asking.answered));
    }

    fn respond(&mut self, core: &mut Core, server: u64, tag: u64, (inputs, answers): (Inputs, Map<String, Value>)) {
        let now = core.now();
        if let Some(link) = self.link(server) {
            link.session_mut().respond(tag, inputs, answers, now);
            self.write(core, server);
        }
        self.is_due = true;
    }

    /// The person has answered.
    pub(super) fn on_elicited(&mut self, core: &mut Core, agent: AgentId, call: &str, response: Value) {
        let Some(at) = self.asking.iter().position(|asking| asking.agent == agent && asking.call == call) else {
            return;
        };
        let mut asking = self.asking.remove(at);
        if let Some((key, _)) = asking.left.pop_front() {
            asking.answered.insert(key, response);
        }
        self.go_on_asking(core, asking);
    }

    /// Forgets the questions about calls that are over.
    pub(super) fn forget_asking(&mut self) {
        let Self { asking, servers, .. } = self;
        asking.retain(|asking| {
            servers.get(&asking.server).is_some_and(|server| server.calls.iter().any(|call| call.tag == asking.tag))
        });
    }
}

/// Whether somebody can be asked, and the policy of the agent allows questions.
fn may_ask(core: &Core, agent: AgentId) -> bool {
    core.config().settings.is_interactive
        && core.agent(agent).is_some_and(|agent| !matches!(agent.policy(), Policy::Plan | Policy::Never))
}
