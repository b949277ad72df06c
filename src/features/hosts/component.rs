//! How the loop drives the hosts.

use super::session::Session;
use super::{Hosts, Process, State};
use crate::agent::Effect;
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::reactor::{Ready, Source};
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;
use crate::repl::event::Event;
use crate::repl::timeout::{TOOL_POLL, WakeReason};

impl Component for Hosts {
    fn on_ready(&mut self, ready: &[Ready], core: &mut Core) -> Result<()> {
        let now = core.now();
        for item in ready {
            let Source::Feature { name: "hosts", number, fd } = item.source else { continue };
            let Some(Process { state: State::Running(process, _), server, .. }) = self.processes.get_mut(&number)
            else {
                continue;
            };
            process.on_ready(fd, now, core.reactor())?;
            if let Some(server) = server {
                server.on_ready(fd, core.reactor())?;
            }
            self.is_due = true;
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Event, core: &mut Core) {
        match event {
            Event::Removed { agent, .. } => self.forget(core, *agent),
            Event::Interrupted { agent, .. } => self.cancel(core, *agent),
            Event::TurnEnded { .. } => self.is_due |= !self.sessions.is_empty(),
            _ => {}
        }
    }

    fn on_effect(&mut self, core: &mut Core, agent: AgentId, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Prompt(prompt) => self.prompt(core, agent, *prompt),
            Effect::HostAnswered { call, allowed } if self.sessions.contains_key(&agent) => {
                self.on_answer(agent, &call, allowed);
            }
            Effect::OurToolResult(result) => {
                if let Some(session) = self.sessions.get_mut(&agent) {
                    session.on_our_tool_result(&result);
                }
            }
            other => return Some(other),
        }
        self.is_due = true;
        None
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        self.is_due = false;
        self.end_turns(core);
        for number in self.processes.keys().copied().collect::<Vec<_>>() {
            self.step_process(core, number);
        }
        for agent in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.step_session(core, agent);
        }
        for number in self.processes.keys().copied().collect::<Vec<_>>() {
            self.write(core, number);
        }
        for server in self.processes.values_mut().filter_map(|process| process.server.as_mut()) {
            // What cannot be sent is found out when the process ends.
            let _ = server.send(core.reactor());
        }
        self.end_unused(core);
        let now = core.now();
        self.ending.retain_mut(|ending| !ending.is_over(now));
        self.keep_left_files(core);
        self.name_open_turns(core);
    }

    fn has_work(&self, _: &Core) -> bool {
        self.is_due
    }

    fn deadline(&self, core: &Core) -> Option<(Moment, WakeReason)> {
        let now = core.now();
        let of_process = self.processes.values().filter_map(|host| match &host.state {
            State::Starting(_) => Some(now + TOOL_POLL),
            State::Running(process, connection) => connection.deadline().into_iter().chain(process.deadline()).min(),
        });
        let of_cancelled = self.sessions.values().filter_map(|session| session.gives_up_at());
        let is_polled = self.has_to_end() || self.sessions.values().any(Session::is_at_files);
        let of_ending = is_polled.then(|| now + TOOL_POLL);
        let at = of_process.chain(of_cancelled).chain(of_ending).min();
        at.map(|at| (at, WakeReason::Feature("hosts")))
    }

    fn begin_end(&mut self, core: &mut Core) {
        for agent in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.leave_files(agent, true);
        }
        self.sessions.clear();
        self.end_unused(core);
    }

    fn has_to_end(&self) -> bool {
        !self.ending.is_empty() || !self.left.is_empty()
    }
}
