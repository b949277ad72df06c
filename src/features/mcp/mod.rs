//! MCP servers: processes and HTTP endpoints that offer tools, driven by the loop.
//!
//! ```text
//!   hold       a request waits until the servers of its agent have started for the first time
//!   call       a call of a tool is sent to its server, which is started if it does not run
//!   on_ready   pipes are read, within bounds
//!   step       answers go to agents, tools to environments; what has failed is reported in one line
//! ```
//!
//! A server is shared by the agents that work in the same directory with the same powers, and ends with the last of them. One
//! that fails is started again by the next request, after a pause that grows, or by the next call.

mod asking;
mod calls;
mod component;
mod declared;
mod http;
mod link;
mod listening;
mod login;
pub mod protocol;
mod reading;
mod results;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, ClientId};
use crate::domain::change::PromptRequest;
use crate::domain::flow::Origin;
use crate::domain::host::{HostPattern, Target};
use crate::domain::mcp::{McpPrompt, McpResource, McpServer, McpTool, Transport};
use crate::domain::rule::{Rule, Rules};
use crate::domain::scrollback::LineKind;
use crate::domain::tool::ToolCall;
use crate::domain::web_url::WebUrl;
use crate::features::Feature;
use crate::features::mcp::protocol::{Era, Event as SessionEvent, Session, list};
use crate::net::oauth::Logins;
use crate::proxy::AllowedHosts;
use crate::repl::core::Core;
use crate::repl::core::programs::{gets_servers, waits_for_slot};
use crate::tools::Environment;
use crate::tools::line_process::{Ending, LineProcess, Starting};
use asking::Asking;
use http::Http;
use link::{Link, Pipe};
use login::Login;
use reading::{Item, Readings};
use results::Preparing;
use server::{Asked, Call, Server, State};

pub const FEATURE: Feature = Feature { component: Some(|| Box::<Mcp>::default()), ..Feature::new("mcp") };

#[derive(Default)]
struct Mcp {
    servers: BTreeMap<u64, Server>,
    /// Servers that a client has declared for an agent and its descendants, while it is connected.
    of_clients: BTreeMap<ClientId, (AgentId, Vec<McpServer>)>,
    /// Of servers, transfers and calls; never reused.
    numbers: u64,
    /// Agents whose request waits for servers.
    held: BTreeSet<AgentId>,
    /// The eras of servers that have answered, by command or URL.
    eras: BTreeMap<String, Era>,
    ending: Vec<Ending>,
    /// Their tokens are being renewed.
    ending_logins: Vec<Login>,
    /// Resources and prompts for messages of the person.
    readings: Readings,
    /// Open questions of servers to the person.
    asking: Vec<Asking>,
    /// Results of calls that are being made ready, with their agents.
    preparing: Vec<(AgentId, String, Preparing)>,
    is_due: bool,
}

impl Mcp {
    /// Starts the servers of an agent that may be started, and gives it the known tools. Returns the servers.
    fn start_all(&mut self, core: &mut Core, agent: AgentId) -> Vec<u64> {
        if core.config().mcp.is_empty() && self.of_clients.is_empty() || !gets_servers(core, agent) {
            return Vec::new();
        }
        let now = core.now();
        let mine = self.servers_of(core, agent);
        self.give_tools(core, agent);
        for number in &mine {
            self.take_given_consent(core, agent, *number);
            self.forgive_after_login(core, *number);
            if self.servers[number].may_start(now) {
                self.start(core, *number);
            }
        }
        mine
    }

    /// A server that failed before the last login may be started at once.
    fn forgive_after_login(&mut self, core: &Core, number: u64) {
        if let Some(server) = self.servers.get_mut(&number)
            && let Some(seen) = server.failed_login
            && logins(core).and_then(|logins| logins.changed_at()) != seen
        {
            server.on_ready();
        }
    }

    /// The servers of an agent, which uses them from now on.
    fn servers_of(&mut self, core: &Core, agent: AgentId) -> Vec<u64> {
        let mut mine = Vec::new();
        for (key, declaration) in self.declared_for(core, agent) {
            let is_it = |server: &Server| server.key == key && server.declaration == declaration;
            let known = self.servers.iter().find(|(_, server)| is_it(server)).map(|(number, _)| *number);
            let number = known.unwrap_or_else(|| {
                let number = self.next_number();
                let environment = core.agent(agent).map(|agent| agent.inputs.environment.clone());
                // Servers run on this machine, wherever their agents work.
                let environment = environment.expect("the agent is there");
                let mut environment = Environment { remote: None, ..(*environment).clone() };
                Arc::make_mut(&mut environment.rules).deny.extend(key.denied.iter().cloned());
                self.servers.insert(number, Server::new(key, declaration, Arc::new(environment)));
                number
            });
            self.servers.get_mut(&number).expect("it is known").users.insert(agent);
            mine.push(number);
        }
        mine
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A rule or a policy may allow the start of a server without a question.
    fn take_given_consent(&mut self, core: &mut Core, agent: AgentId, number: u64) {
        let server = &self.servers[&number];
        if server.has_consent {
            return;
        }
        let name = server.tools.first().map(|tool| tool.full_name.clone()).unwrap_or_default();
        let call = ToolCall { id: String::new(), name, arguments: String::new() };
        if core.with_agent(agent, |agent, context| agent.is_free_call(&call, context)) == Some(true)
            && let Some(server) = self.servers.get_mut(&number)
        {
            server.has_consent = true;
            server.promised = server.program().map(|program| program.sandbox(&server.environment));
        }
    }

    /// Reads the resources that a message of the person names as `@SERVER:URI`. Whether there are any: then the message is
    /// sent once they are there.
    pub(super) fn read_resources(
        &mut self,
        core: &mut Core,
        (origin, agent): (Origin, AgentId),
        text: &str,
    ) -> Result<bool> {
        let found = reading::mentions(text, core);
        if found.is_empty() {
            return Ok(false);
        }
        let mut items = Vec::new();
        for mention in &found {
            let number = self.server_for_person(core, agent, &mention.server)?;
            items.push((number, Item::resource(mention, self.next_number())));
        }
        let asked = items.iter().map(|(number, item)| (*number, item.tag, Asked::Resource(item.uri.clone()))).collect();
        self.readings.begin(origin, agent, text, items.into_iter().map(|(_, item)| item).collect());
        self.ask_for_person(core, agent, asked);
        Ok(true)
    }

    /// Has a server make a prompt for the person, which is sent or put into the draft once it is there.
    fn get_prompt(&mut self, core: &mut Core, (origin, agent): (Origin, AgentId), prompt: PromptRequest) -> Result<()> {
        let number = self.server_for_person(core, agent, &prompt.server)?;
        let tag = self.next_number();
        self.readings.begin_prompt(origin, agent, &prompt, tag);
        self.ask_for_person(core, agent, vec![(number, tag, Asked::Prompt(prompt.name, prompt.arguments))]);
        Ok(())
    }

    fn ask_for_person(&mut self, core: &mut Core, agent: AgentId, asked: Vec<(u64, u64, Asked)>) {
        for (number, tag, asked) in asked {
            self.push_call(core, number, Call { agent, id: String::new(), tag, asked, is_sent: false });
        }
    }

    /// The server of an agent that the person has named.
    fn server_for_person(&mut self, core: &mut Core, agent: AgentId, name: &str) -> Result<u64> {
        if !gets_servers(core, agent) {
            let why = "this agent uses no MCP servers: it has no bash, or the policy plan";
            return Err(Error::usage(format!("{name}: {why}")));
        }
        let mine = self.servers_of(core, agent);
        let found = mine.into_iter().find(|number| self.servers[number].key.name == name);
        let number = found.ok_or_else(|| Error::usage(format!("{name}: this MCP server is not for this agent")))?;
        self.take_given_consent(core, agent, number);
        if !self.servers[&number].has_consent {
            let why = "its start asks first, because it uses the network: have the agent call its start tool";
            return Err(Error::usage(format!("{name}: {why}")));
        }
        Ok(number)
    }

    fn start(&mut self, core: &mut Core, number: u64) {
        let Some(server) = self.servers.get_mut(&number) else { return };
        let Some(program) = server.program() else { return self.connect(core, number) };
        match Starting::begin(program, server.environment.clone(), core.waker()) {
            Ok(starting) => server.state = State::Starting(starting),
            Err(error) => self.fail(core, number, &format!("was not started: {error}")),
        }
    }

    /// Begins the session with a server over HTTP.
    fn connect(&mut self, core: &mut Core, number: u64) {
        let Some(server) = self.servers.get_mut(&number) else { return };
        let Transport::Http { url, headers } = server.declaration.transport.clone() else { return };
        let guard = match guard(&url, &server.environment.rules) {
            Ok(guard) => guard,
            Err(why) => return self.fail(core, number, &format!("was not connected: {why}")),
        };
        let era = self.eras.get(&server.declaration.transport.about()).copied();
        let session = Session::start(server.declaration.clone(), era, false, core.now());
        let logins = logins(core).filter(|_| !server.declaration.transport.has_credentials());
        let login = logins.map(|logins| Login::at(logins, &url, &core.waker()));
        server.state = State::Running(Link::Http(Box::new(Http::new(session, url, headers, guard, login))));
        self.write(core, number);
        // What has failed already is an event of this turn.
        self.is_due = true;
    }

    /// Begins the session with a process that was started.
    fn begin(&mut self, core: &mut Core, number: u64) {
        let Some(State::Starting(starting)) = self.servers.get(&number).map(|server| &server.state) else { return };
        let started = match starting.take() {
            None => return,
            Some(Ok(started)) => started,
            Some(Err(why)) => {
                self.withdraw_consent(core, number);
                return self.fail(core, number, &format!("was not started: {why}"));
            }
        };
        let Some(server) = self.servers.get_mut(&number) else { return };
        let era = self.eras.get(&server.declaration.transport.about()).copied();
        let mut session = Session::start(server.declaration.clone(), era, true, core.now());
        if let Some(why) = server.slow_start_reason() {
            session.explain_slow_start(why, core.now());
        }
        match LineProcess::new(started, ("mcp", number), core.reactor()) {
            Ok(process) => {
                server.state = State::Running(Link::Pipe(Box::new(Pipe { process, session })));
                self.write(core, number);
            }
            Err(error) => self.fail(core, number, &format!("was not started: {}", error.message)),
        }
    }

    /// Offers the start of a server again if the person has consented to a stronger sandbox than the one that works.
    fn withdraw_consent(&mut self, core: &mut Core, number: u64) {
        let Some(server) = self.servers.get_mut(&number) else { return };
        if server.withdraw_consent() {
            server.users.clone().into_iter().for_each(|agent| self.give_tools(core, agent));
        }
    }

    fn link(&mut self, number: u64) -> Option<&mut Link> {
        match &mut self.servers.get_mut(&number)?.state {
            State::Running(link) => Some(link),
            State::Stopped | State::Starting(_) => None,
        }
    }

    fn write(&mut self, core: &mut Core, number: u64) {
        let Self { servers, numbers, .. } = self;
        let Some(Server { state: State::Running(link), .. }) = servers.get_mut(&number) else { return };
        let next_number = || {
            *numbers += 1;
            *numbers
        };
        if let Err(error) = link.drive(core, next_number) {
            self.fail(core, number, &error.message);
        }
    }

    /// Everything that has happened to a server since the last turn.
    fn step_server(&mut self, core: &mut Core, number: u64) {
        self.begin(core, number);
        let now = core.now();
        self.cancel_unawaited(core, number);
        let Some(link) = self.link(number) else { return };
        if link.session().deadline().is_some_and(|at| at <= now) {
            link.session_mut().on_deadline(now);
        }
        self.write(core, number);
        let end = self.link(number).and_then(|link| link.take_end(now));
        while let Some(event) = self.link(number).and_then(|link| link.session_mut().take_event()) {
            self.on_event_of(core, number, event);
        }
        let Some(why) = end else { return };
        // A server of the older era may end because of the first message of the newer one.
        if self.link(number).is_some_and(|link| link.session().is_probing()) {
            let about = self.servers[&number].declaration.transport.about();
            if self.eras.insert(about, Era::Legacy).is_none() {
                self.stop(core, number);
                return self.start(core, number);
            }
        }
        self.fail(core, number, &why);
    }

    fn on_event_of(&mut self, core: &mut Core, number: u64, event: SessionEvent) {
        match event {
            SessionEvent::Tools(tools) => {
                let era = self.link(number).and_then(|link| link.session().era());
                let Some(server) = self.servers.get_mut(&number) else { return };
                server.on_ready();
                server.tools = tools;
                let (about, users) = (server.declaration.transport.about(), server.users.clone());
                self.eras.extend(era.map(|era| (about, era)));
                users.into_iter().for_each(|agent| self.give_tools(core, agent));
                self.send_calls(core, number);
            }
            SessionEvent::Catalog(catalog, listed) => {
                let Some(server) = self.servers.get_mut(&number) else { return };
                server.on_catalog(catalog, &listed);
                server.users.clone().into_iter().for_each(|agent| self.give_tools(core, agent));
            }
            SessionEvent::Asked { tag, inputs } => self.begin_asking(core, number, tag, inputs),
            SessionEvent::Done { tag, result } => self.on_done(core, number, tag, result),
            SessionEvent::Note(note) => self.note(core, number, LineKind::Note, &note),
            SessionEvent::Failed(why) => self.fail(core, number, &why),
        }
    }

    /// Gives an agent the tools, resources and prompts of its servers.
    fn give_tools(&self, core: &mut Core, agent: AgentId) {
        let mine = || self.servers.values().filter(|server| server.users.contains(&agent));
        let mut tools: Vec<McpTool> = mine().flat_map(|server| &server.tools).cloned().collect();
        list::make_unique(&mut tools);
        let resources: Vec<McpResource> =
            mine().flat_map(|server| server.resources.iter().chain(&server.templates)).cloned().collect();
        let prompts: Vec<McpPrompt> = mine().flat_map(|server| &server.prompts).cloned().collect();
        core.edit(agent, |agent| {
            let known = &agent.inputs.environment;
            if *known.mcp_tools != *tools || *known.mcp_resources != *resources || *known.mcp_prompts != *prompts {
                let known = Arc::make_mut(&mut agent.inputs.environment);
                (known.mcp_tools, known.mcp_resources) = (tools.into(), resources.into());
                known.mcp_prompts = prompts.into();
            }
        });
    }

    /// Ends a server that has failed, and says so in one line.
    fn fail(&mut self, core: &mut Core, number: u64, why: &str) {
        self.stop(core, number);
        let Some(server) = self.servers.get_mut(&number) else { return };
        server.on_failed(why, core.now());
        let is_remote = matches!(server.declaration.transport, Transport::Http { .. });
        server.failed_login = is_remote.then(|| logins(core).and_then(|logins| logins.changed_at()));
        self.eras.remove(&server.declaration.transport.about());
        let message = format!("the MCP server {}: {why}", server.key.name);
        let directory = server.environment.output_directory.clone();
        for call in std::mem::take(&mut server.calls) {
            match call.asked.is_of_model() {
                true => core.answer_call(call.agent, &call.id, Err(message.clone())),
                false => self.readings.on_answer(core, &call, Err(message.clone()), directory.clone()),
            }
        }
        self.note(core, number, LineKind::Error, why);
    }

    fn note(&self, core: &mut Core, number: u64, kind: LineKind, text: &str) {
        let Some(server) = self.servers.get(&number) else { return };
        let line = format!("mcp {}: {text}", server.key.name);
        server.users.iter().for_each(|agent| core.note(*agent, kind, &line));
    }

    /// Ends the process of a server without waiting for its end.
    fn stop(&mut self, core: &mut Core, number: u64) {
        let Some(server) = self.servers.get_mut(&number) else { return };
        if let State::Running(link) = std::mem::replace(&mut server.state, State::Stopped) {
            let (process, login) = link.end(core);
            self.ending.extend(process);
            self.ending_logins.extend(login);
        }
    }

    fn forget(&mut self, core: &mut Core, agent: AgentId) {
        self.held.remove(&agent);
        self.readings.forget(agent);
        for server in self.servers.values_mut() {
            server.users.remove(&agent);
        }
        self.remove_unused(core);
    }

    /// Ends the servers that no agent uses.
    fn remove_unused(&mut self, core: &mut Core) {
        let unused: Vec<u64> =
            self.servers.iter().filter(|(_, server)| server.users.is_empty()).map(|(number, _)| *number).collect();
        for number in unused {
            self.cancel_unawaited(core, number);
            self.stop(core, number);
            let Some(server) = self.servers.remove(&number) else { continue };
            let message = format!("the MCP server {} is no longer declared", server.key.name);
            let of_models = server.calls.into_iter().filter(|call| call.asked.is_of_model());
            of_models.for_each(|call| core.answer_call(call.agent, &call.id, Err(message.clone())));
        }
    }

    /// Lets requests continue whose servers have started or failed.
    fn release(&mut self, core: &mut Core) {
        let awaited =
            |agent: &AgentId| self.servers.values().any(|server| server.users.contains(agent) && server.is_awaited());
        let free: Vec<AgentId> = self.held.iter().copied().filter(|agent| !awaited(agent)).collect();
        for agent in free {
            self.held.remove(&agent);
            if core.agent(agent).is_some_and(waits_for_slot) {
                core.join_send_queue(agent);
            }
        }
    }

    fn take_prepared(&mut self, core: &mut Core) {
        for (agent, id, preparing) in self.preparing.extract_if(.., |(_, _, preparing)| preparing.is_complete()) {
            preparing.warnings().iter().for_each(|line| core.note(agent, LineKind::Note, line));
            let result = preparing.finish(core);
            core.answer_call(agent, &id, result);
        }
    }
}

/// The logins of the person, if processes share anything.
fn logins(core: &Core) -> Option<Logins> {
    core.config().shared_directory.as_deref().map(Logins::in_directory)
}

/// The refusals of the rules for the host of a server, to be checked against its addresses.
fn guard(url: &str, rules: &Rules) -> std::result::Result<Option<(Target, AllowedHosts)>, String> {
    let denied: Vec<HostPattern> = rules.deny.iter().filter_map(Rule::hosts).collect();
    if denied.is_empty() {
        return Ok(None);
    }
    let url = WebUrl::parse(url).map_err(|why| format!("its URL cannot be checked against the rules: {why}"))?;
    let hosts = AllowedHosts { allowed: Vec::new(), denied };
    hosts.check_denied(&url.target).map(|()| Some((url.target, hosts)))
}
