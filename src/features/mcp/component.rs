//! How the loop drives the servers.

use super::Mcp;
use super::link::Link;
use super::login::Login;
use super::server::{Server, State, Work};
use crate::agent::Effect;
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::change::Change;
use crate::domain::flow::{Origin, ToolRequest};
use crate::domain::scrollback::LineKind;
use crate::reactor::{Ready, Source};
use crate::repl::component::{Command, Component, HeldText, ServerReport};
use crate::repl::core::Core;
use crate::repl::event::Event;
use crate::repl::timeout::{TOOL_POLL, WakeReason};

impl Component for Mcp {
    fn on_ready(&mut self, ready: &[Ready], core: &mut Core) -> Result<()> {
        let now = core.now();
        for item in ready {
            let (network, reactor) = core.network_and_reactor();
            match item.source {
                Source::Feature { name: "mcp", number, fd } => {
                    if let Some(Link::Pipe(pipe)) = self.link(number) {
                        pipe.process.on_ready(fd, now, reactor)?;
                        pipe.read(now);
                    }
                }
                Source::Feature { name: "transfer", number, fd } => {
                    let links = self.servers.values_mut().filter_map(|server| match &mut server.state {
                        State::Running(Link::Http(http)) if http.owns(number) => Some(http),
                        _ => None,
                    });
                    for http in links {
                        http.on_socket((number, fd), item.readiness, (network, reactor), now)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Event, core: &mut Core) {
        match event {
            Event::Removed { agent, .. } => self.forget(core, *agent),
            Event::CommandsBegun { client, agent, servers } => self.declare(core, *client, *agent, servers),
            Event::CommandsEnded { client } => self.undeclare(core, *client),
            Event::Interrupted { agent, .. } => {
                self.held.remove(agent);
                self.interrupt(core, *agent);
                self.is_due |= self.servers.values().any(|server| !server.calls.is_empty());
            }
            _ => {}
        }
    }

    fn on_effect(&mut self, core: &mut Core, agent: AgentId, effect: Effect) -> Option<Effect> {
        let Effect::Elicited { call, response } = effect else { return Some(effect) };
        self.on_elicited(core, agent, &call, response);
        None
    }

    fn on_call(&mut self, core: &mut Core, agent: AgentId, call: &str, request: ToolRequest) -> Option<ToolRequest> {
        let ToolRequest::Mcp { server, tool, sandbox, arguments } = request else { return Some(request) };
        let work = match sandbox {
            Some(sandbox) => Work::Start { sandbox },
            None => Work::Call { tool, arguments },
        };
        self.call(core, agent, call.to_owned(), &server, work);
        None
    }

    fn on_change(&mut self, core: &mut Core, by: Origin, agent: AgentId, change: Change) -> Result<Option<Change>> {
        let Change::ServerPrompt(prompt) = change else { return Ok(Some(change)) };
        self.get_prompt(core, (by, agent), prompt).map(|()| None)
    }

    /// Starts the servers of the agent, and gives it their tools. The request is sent once they are there.
    fn holds_request(&mut self, core: &mut Core, agent: AgentId) -> bool {
        let mine = self.start_all(core, agent);
        let waits = mine.iter().any(|number| self.servers[number].is_awaited());
        if waits {
            self.held.insert(agent);
        }
        waits
    }

    /// Takes back the person's messages that wait for resources.
    fn interrupt(&mut self, _: &mut Core, agent: AgentId) -> bool {
        let is_any = self.readings.interrupt(agent);
        self.is_due |= is_any;
        is_any
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        self.is_due = false;
        for number in self.servers.keys().copied().collect::<Vec<_>>() {
            self.step_server(core, number);
        }
        self.forget_asking();
        self.take_prepared(core);
        self.readings.step(core);
        self.release(core);
        let now = core.now();
        self.ending.retain_mut(|ending| !ending.is_over(now));
        self.ending_logins.retain(Login::is_pending);
    }

    fn has_work(&self, _: &Core) -> bool {
        let has_work = |server: &Server| matches!(&server.state, State::Running(link) if link.has_work());
        self.is_due || self.servers.values().any(has_work)
    }

    fn deadline(&self, core: &Core) -> Option<(Moment, WakeReason)> {
        let now = core.now();
        let of_session = |server: &Server| match &server.state {
            State::Stopped => None,
            State::Starting(_) => Some(now + TOOL_POLL),
            State::Running(link) => link.deadline(),
        };
        let is_busy = !self.ending.is_empty() || !self.preparing.is_empty() || self.readings.is_preparing();
        let at = self.servers.values().filter_map(of_session).chain(is_busy.then(|| now + TOOL_POLL)).min();
        at.map(|at| (at, WakeReason::Feature("mcp")))
    }

    fn holds_text(&mut self, core: &mut Core, (by, agent): (Origin, AgentId), text: &str) -> Result<bool> {
        let is_any = self.read_resources(core, (by, agent), text)?;
        if is_any {
            core.note(agent, LineKind::Note, "reading the resources of the message: Esc takes it back");
        }
        Ok(is_any)
    }

    fn take_completed(&mut self) -> Vec<HeldText> {
        self.readings.take_completed()
    }

    fn servers(&self) -> Vec<ServerReport> {
        let report = |server: &Server| ServerReport {
            name: server.key.name.clone(),
            tools: server.tools.clone(),
            failure: server.failure.clone(),
        };
        self.servers.values().map(report).collect()
    }

    fn begin_end(&mut self, core: &mut Core) {
        for number in self.servers.keys().copied().collect::<Vec<_>>() {
            self.stop(core, number);
        }
        self.servers.clear();
    }

    fn has_to_end(&self) -> bool {
        !self.ending.is_empty() || self.ending_logins.iter().any(Login::is_pending)
    }
}
