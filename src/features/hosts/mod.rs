//! Hosts: other agent programs as models of agents here, over the Agent Client Protocol.
//!
//! ```text
//!   agent ── Effect::Prompt ──> Hosts ── session/prompt ──> process
//!   agent <── stream events ──  Hosts <── session/update ── process
//! ```
//! An agent whose model is `acp/NAME` has a session with that host. One process serves all agents that use the host in one
//! directory with the same powers. It runs in the sandbox and may use its own directories and network hosts besides the
//! workspace. Its requests for permission are decided by the rules and the policy of the agent.
//!
//! A host that takes MCP servers finds our tools about agents at a loopback address. A call of one is a call of the agent:
//!
//! ```text
//!   process ── tools/call ──> Hosts ── Said::CallsOurTool ──> agent ── Effect::ToolRequest ──> loop
//!   process <── result ────── Hosts <── Effect::OurToolResult ── agent
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `command` | `/hosts` |
//! | `component` | how the loop drives the hosts |
//! | `connection` | the messages of the protocol |
//! | `files` | what a host changes in a turn |
//! | `http` | a server on a loopback address, for one process |
//! | `options` | what can be chosen in a session |
//! | `session` | what an agent is told of what its host says |
//! | `updates` | the calls of hosts in the words of our tools |

mod command;
mod component;
mod connection;
mod files;
mod http;
mod options;
mod session;
mod updates;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::agent::{Agent, State as AgentState, Wait};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind};
use crate::base::id::AgentId;
use crate::base::json_rpc::{AUTH_REQUIRED, Fault};
use crate::domain::agent_host::AgentHost;
use crate::domain::approval::Policy;
use crate::domain::scrollback::LineKind;
use crate::domain::stream::StreamEvent;
use crate::features::Feature;
use crate::provider::host::HostPrompt;
use crate::repl::core::{Core, file_steps};
use crate::tools::line_process::{Ending, LineProcess, Starting};
use crate::tools::mcp_server::{self, Outcome};
use crate::tools::server_process::ServerProgram;
use connection::{Answer, Connection, Event, Opened};
use files::{LeftFiles, SharedWatch, TurnFiles};
use http::{Request, Server, Status};
use session::{Session, WITHDRAWN};

pub const FEATURE: Feature =
    Feature { commands: &[&command::HOSTS], component: Some(|| Box::<Hosts>::default()), ..Feature::new("hosts") };

/// Where the secret of a session begins in the address of our MCP server.
const MCP_PATH: &str = "/mcp/";
/// How long a host may take to end a turn that was cancelled.
const CANCEL_TIME_LIMIT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Hosts {
    processes: BTreeMap<u64, Process>,
    sessions: BTreeMap<AgentId, Session>,
    /// Of processes; never reused.
    numbers: u64,
    ending: Vec<Ending>,
    /// Of turns that no agent waits for.
    left: Vec<LeftFiles>,
    is_due: bool,
}

/// A host that is running or being started.
struct Process {
    key: Key,
    state: State,
    /// Our MCP server for it; `None` until it runs, or if it cannot connect to one.
    server: Option<Server>,
}

enum State {
    Starting(Starting),
    Running(Box<LineProcess>, Box<Connection>),
}

/// What the agents have in common that share a process.
#[derive(PartialEq, Eq)]
struct Key {
    host: AgentHost,
    directory: PathBuf,
    worktree: Option<PathBuf>,
    may_write: bool,
}

impl Process {
    /// What happens to protected files while it runs, if it can write any.
    fn watch(&self) -> Option<SharedWatch> {
        match &self.state {
            State::Running(process, _) => process.watch(),
            State::Starting(_) => None,
        }
    }
}

impl Hosts {
    /// An agent asks its host, or goes on with the turn whose calls are done.
    fn prompt(&mut self, core: &mut Core, agent: AgentId, prompt: HostPrompt) {
        let is_host = |session: &Session| session.host == prompt.host;
        if prompt.goes_on && self.sessions.get(&agent).is_some_and(|session| is_host(session) && session.has_turn()) {
            return;
        }
        let key = key_for(core, agent, &prompt.host);
        let is_same = |session: &&mut Session| {
            let process = self.processes.get(&session.process);
            process.is_some_and(|process| key.as_ref() == Ok(&process.key)) && session.is_known_by(&prompt)
        };
        if let Some(session) = self.sessions.get_mut(&agent).filter(is_same) {
            session.waiting = Some(prompt);
            return;
        }
        let mut prompt = prompt;
        if self.sessions.get(&agent).is_some_and(|session| session.is_rewound_by(&prompt)) {
            prompt.session = None;
        }
        self.leave_session(core, agent);
        match key.and_then(|key| self.process_for(core, agent, key)) {
            Ok(process) => drop(self.sessions.insert(agent, Session::new(prompt.host.clone(), process, prompt))),
            Err(error) => fail(core, agent, error),
        }
    }

    /// The process with this key, which is started for an agent if it does not run.
    fn process_for(&mut self, core: &mut Core, id: AgentId, key: Key) -> Result<u64, Error> {
        if let Some((number, _)) = self.processes.iter().find(|(_, process)| process.key == key) {
            return Ok(*number);
        }
        let Some(agent) = core.agent(id) else { return Err(Error::usage("the agent is gone")) };
        let mut program = ServerProgram {
            arguments: key.host.command.clone(),
            variables: key.host.env.clone(),
            hosts: key.host.net.clone(),
            may_write: key.may_write,
            writable: key.host.write.clone(),
            promised: None,
            is_served: true,
        };
        let environment = (*agent.inputs.environment).clone();
        let sandbox = program.sandbox(&environment);
        let about = describe(&key, &sandbox);
        program.promised = Some(sandbox);
        let starting = Starting::begin(program, Arc::new(environment), core.waker())?;
        core.note(id, LineKind::Note, &about);
        self.numbers += 1;
        self.processes.insert(self.numbers, Process { key, state: State::Starting(starting), server: None });
        Ok(self.numbers)
    }

    /// Everything that has happened to a process since the last turn.
    fn step_process(&mut self, core: &mut Core, number: u64) {
        self.begin(core, number);
        let now = core.now();
        let Some(State::Running(process, connection)) = self.state_of(number) else { return };
        connection.on_deadline(now);
        let end = process.take_end(now);
        process.take_lines().iter().for_each(|line| connection.on_line(line));
        let fault = process.take_fault();
        while let Some(State::Running(_, connection)) = self.state_of(number)
            && let Some(event) = connection.take_event()
        {
            self.on_event_of(core, number, event);
        }
        self.serve(core, number);
        if let Some(why) = fault.or(end) {
            self.fail_process(core, number, &why);
        }
    }

    /// Takes the requests of a process to our MCP server.
    fn serve(&mut self, core: &mut Core, number: u64) {
        for request in self.server_of(number).map(Server::take_requests).unwrap_or_default() {
            let connection = request.connection;
            if let Some((status, text)) = self.on_request(core, number, request) {
                self.respond(number, connection, status, &text);
            }
        }
    }

    /// The answer to a request, unless it is a call, which is answered later.
    fn on_request(&mut self, core: &mut Core, number: u64, request: Request) -> Option<(Status, String)> {
        let secret = request.path.strip_prefix(MCP_PATH);
        let is_it = |session: &Session| session.process == number && secret == Some(session.secret.as_str());
        let session = self.sessions.iter_mut().find(|(_, session)| is_it(session));
        let Some((agent, session)) = session.map(|(agent, session)| (*agent, session)) else {
            return Some((Status::NotFound, String::new()));
        };
        if request.method != "POST" {
            return Some((Status::NotAllowed, String::new()));
        }
        let has_tools = core.config().settings.has_tools;
        let inputs = core.agent(agent).map(|agent| &agent.inputs).filter(|inputs| has_tools && inputs.has_tools);
        let tools = inputs.map(|inputs| inputs.environment.tools.as_slice()).unwrap_or_default();
        match mcp_server::on_message(&request.body, tools) {
            Outcome::Answered(text) => Some((Status::Ok, text)),
            Outcome::Accepted => Some((Status::Accepted, String::new())),
            Outcome::Malformed(text) => Some((Status::BadRequest, text)),
            Outcome::Call { id, name, arguments } => {
                session.on_our_tool_call((request.connection, id), name, &arguments);
                None
            }
            Outcome::Withdrawn(id) => {
                if let Some(call) = session.on_withdrawn(&id) {
                    core.with_agent(agent, |agent, context| {
                        agent.refuse_host_calls(WITHDRAWN, |id| id == call, context)
                    });
                }
                Some((Status::Accepted, String::new()))
            }
        }
    }

    fn state_of(&mut self, number: u64) -> Option<&mut State> {
        self.processes.get_mut(&number).map(|process| &mut process.state)
    }

    /// Begins the handshake with a process that was started.
    fn begin(&mut self, core: &mut Core, number: u64) {
        let Some(State::Starting(starting)) = self.state_of(number) else { return };
        let mut started = match starting.take() {
            None => return,
            Some(Ok(started)) => started,
            Some(Err(why)) => return self.fail_process(core, number, &format!("was not started: {why}")),
        };
        let listener = started.listener.take();
        match LineProcess::new(started, ("hosts", number), core.reactor()) {
            Ok(process) => {
                let connection = Connection::start(core.now());
                // Without a server it has no tools of ours.
                let server = |listener| Server::new(listener, ("hosts", number), core.reactor()).ok();
                let server = listener.and_then(server);
                if let Some(known) = self.processes.get_mut(&number) {
                    known.state = State::Running(Box::new(process), Box::new(connection));
                    known.server = server;
                }
            }
            Err(error) => self.fail_process(core, number, &format!("was not started: {}", error.message)),
        }
    }

    fn on_event_of(&mut self, core: &mut Core, number: u64, event: Event) {
        match event {
            Event::Opened { agent, request, result } => self.on_opened(core, (number, agent, request), result),
            Event::Update { session, update } => {
                if let Some((agent, session)) = self.session_of(number, &session) {
                    session.on_update(&update);
                    if let Some(commands) = session.take_commands() {
                        core.edit(agent, |agent| {
                            if *agent.inputs.environment.host_commands != *commands {
                                Arc::make_mut(&mut agent.inputs.environment).host_commands = commands.into();
                            }
                        });
                    }
                    let Some(session) = self.sessions.get_mut(&agent) else { return };
                    if session.end_flood() {
                        self.cancel(core, agent);
                    }
                }
            }
            Event::Options { session, options } => {
                if let Some((_, session)) = self.session_of(number, &session) {
                    session.on_options(&options);
                }
            }
            Event::Note { agent, text } => {
                let host = self.sessions.get(&agent).map(|session| session.host.clone()).unwrap_or_default();
                core.note(agent, LineKind::Error, &format!("{host}: {text}"));
            }
            Event::Permission { session, request, params } => {
                let answer = match self.session_of(number, &session) {
                    Some((_, session)) => session.on_permission(request, &params),
                    None => Some((request, None)),
                };
                self.answer(number, answer);
            }
            Event::Ended { session, request, result } => {
                if let Some((agent, session)) = self.session_of(number, &session)
                    && session.turn == Some(request)
                {
                    self.on_ended(core, agent, result);
                }
            }
            Event::Failed(why) => self.fail_process(core, number, &why),
        }
    }

    /// The host has ended the turn of an agent, which hears of it once its files are compared.
    fn on_ended(&mut self, core: &Core, agent: AgentId, result: Result<Value, Fault>) {
        let Some(session) = self.sessions.get_mut(&agent) else { return };
        let result = result.map_err(|fault| error_of(&session.host, fault));
        let (files, end) = (session.files.take(), session.turn_end(false));
        let watch = self.processes.get(&session.process).and_then(Process::watch);
        match files.and_then(|files| files.compare(core, end, watch)) {
            Some(comparison) => session.ended = Some((comparison, result)),
            None => session.on_ended(result),
        }
    }

    /// Stores what the turns have changed that have ended, and tells their agents of the end.
    fn end_turns(&mut self, core: &mut Core) {
        for session in self.sessions.values_mut() {
            if let Some((comparison, result)) = session.ended.take_if(|(comparison, _)| comparison.is_complete()) {
                comparison.keep(core);
                session.on_ended(result);
                self.is_due = true;
            }
        }
    }

    /// Sets the files of a turn aside that no agent waits for.
    fn leave_files(&mut self, agent: AgentId, is_at_exit: bool) {
        let Some(session) = self.sessions.get_mut(&agent) else { return };
        if let Some(files) = session.files.take() {
            let watch = self.processes.get(&session.process).and_then(Process::watch);
            self.left.push(LeftFiles::Stopping(files, session.turn_end(is_at_exit), watch));
        }
        if let Some((comparison, result)) = session.ended.take() {
            self.left.push(LeftFiles::Comparing(comparison));
            session.on_ended(result);
        }
    }

    /// Compares the files that were set aside once the processes have ended that are to end, and stores the changes.
    fn keep_left_files(&mut self, core: &mut Core) {
        let has_stopped = self.ending.is_empty();
        let left = std::mem::take(&mut self.left).into_iter();
        self.left = left.filter_map(|left| left.go_on(core, has_stopped)).collect();
    }

    /// Tells the core whose files may still change.
    fn name_open_turns(&self, core: &mut Core) {
        let is_open = |session: &Session| session.files.is_some() || session.ended.is_some();
        let open = self.sessions.iter().filter(|(_, session)| is_open(session)).map(|(agent, _)| *agent);
        file_steps::set_host_turns(core, open.chain(self.left.iter().map(LeftFiles::agent)).collect());
    }

    fn session_of(&mut self, number: u64, id: &str) -> Option<(AgentId, &mut Session)> {
        let is_it = |session: &Session| session.process == number && session.id.as_deref() == Some(id);
        self.sessions.iter_mut().find(|(_, session)| is_it(session)).map(|(agent, session)| (*agent, session))
    }

    fn answer(&mut self, number: u64, answers: impl IntoIterator<Item = Answer>) {
        if let Some(State::Running(_, connection)) = self.state_of(number) {
            answers.into_iter().for_each(|answer| connection.permit(answer));
        }
    }

    fn on_answer(&mut self, agent: AgentId, call: &str, is_allowed: bool) {
        let Some(session) = self.sessions.get_mut(&agent) else { return };
        let (number, answer) = (session.process, session.on_answer(call, is_allowed));
        self.answer(number, answer);
    }

    fn on_opened(
        &mut self,
        core: &mut Core,
        (number, agent, request): (u64, AgentId, u64),
        result: Result<Box<Opened>, Fault>,
    ) {
        let is_taken = |id: &str| {
            id.is_empty()
                || self.sessions.values().any(|other| other.process == number && other.id.as_deref() == Some(id))
        };
        let result = match result {
            Ok(opened) if is_taken(&opened.session) => Err(Fault::params("gave no session, or that of another agent")),
            result => result,
        };
        let is_it = |session: &&mut Session| session.process == number && session.opening == Some(request);
        let Some(session) = self.sessions.get_mut(&agent).filter(is_it) else {
            // The agent has left it.
            if let (Ok(opened), Some(State::Running(_, connection))) = (result, self.state_of(number)) {
                connection.close(&opened.session);
            }
            return;
        };
        match result {
            Ok(opened) => {
                session.on_opened(&opened);
                self.choose_model(core, number, agent, *opened);
            }
            // A session that cannot be loaded is replaced by a new one with the transcript.
            Err(_) if session.forget_known() => session.opening = None,
            Err(fault) => {
                let error = error_of(&session.host, fault);
                self.sessions.remove(&agent);
                fail(core, agent, error);
            }
        }
    }

    /// Chooses the configured model.
    fn choose_model(&mut self, core: &mut Core, number: u64, agent: AgentId, opened: Opened) {
        let Some(Process { key, state: State::Running(_, connection), .. }) = self.processes.get_mut(&number) else {
            return;
        };
        match (&key.host.model, opened.choices.model) {
            (Some(model), Some(mut choice)) => connection.choose((agent, &opened.session), "model", &mut choice, model),
            (Some(_), None) => {
                let name = &key.host.name;
                let text = format!("{name} has no option for its model: remove model from [hosts.{name}]");
                core.note(agent, LineKind::Error, &text);
            }
            (None, _) => {}
        }
    }

    /// Opens the session of an agent, sends its prompt, delivers what has arrived, or cancels its turn.
    fn step_session(&mut self, core: &mut Core, id: AgentId) {
        let now = core.now();
        let is_at_fork = self.sessions.get(&id).is_some_and(|session| self.is_at_fork(session));
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let number = session.process;
        let Some(process) = self.processes.get_mut(&number) else {
            session.tell(core, id);
            if !session.has_turn() || !core.agent(id).is_some_and(wants_reply) {
                self.sessions.remove(&id);
            }
            return;
        };
        let State::Running(_, connection) = &mut process.state else { return };
        if !connection.is_ready() {
            return;
        }
        if session.id.is_none() && session.opening.is_none() {
            let opening = session.opening(id, is_at_fork);
            let url = |server: &Server| format!("http://{}{MCP_PATH}{}", server.address(), session.secret);
            let server = process.server.as_ref().map(|server| (mcp_server::NAME, url(server)));
            session.opening = connection.open((id, opening), &process.key.directory, server, now);
        }
        if !core.agent(id).is_some_and(wants_reply) {
            session.waiting = None;
            cancel_turn(session, connection, now);
        }
        if session.id.is_some() && session.turn.is_none() && session.waiting.is_some() && session.files.is_none() {
            session.files = TurnFiles::record(core, id, &process.key);
        }
        if let (Some(session_id), None) = (session.id.clone(), session.turn)
            && session.files.as_ref().is_none_or(TurnFiles::is_recorded)
            && let Some(prompt) = session.waiting.take()
        {
            choose_for_prompt(core, (id, &session_id), session, connection, &prompt);
            let text = session.begin_turn(&prompt);
            session.turn = Some(connection.prompt(id, &session_id, &text, &prompt.files));
            if let Some(files) = &mut session.files {
                files.message = core.store().last_own_message(id).ok();
            }
        }
        if session.turn.is_none() && session.waiting.is_none() {
            self.leave_files(id, false);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let (answers, responses) = (session.tell(core, id), session.take_responses());
        self.answer(number, answers);
        self.send_responses(number, &responses);
        if self.sessions.get(&id).is_some_and(|session| session.gives_up_at().is_some_and(|at| at <= now)) {
            let seconds = CANCEL_TIME_LIMIT.as_secs();
            self.fail_process(core, number, &format!("did not stop within {seconds} s after Esc, and was ended"));
        }
    }

    fn server_of(&mut self, number: u64) -> Option<&mut Server> {
        self.processes.get_mut(&number)?.server.as_mut()
    }

    /// Sends responses to requests to our MCP server, by connection.
    fn send_responses(&mut self, number: u64, responses: &[(u64, String)]) {
        responses.iter().for_each(|(connection, text)| self.respond(number, *connection, Status::Ok, text));
    }

    fn respond(&mut self, number: u64, connection: u64, status: Status, text: &str) {
        let has_more = self.server_of(number).is_some_and(|server| server.respond(connection, status, text));
        self.is_due |= has_more;
    }

    /// Cancels the turn of an agent. Whatever it is asked next begins another one.
    fn cancel(&mut self, core: &mut Core, agent: AgentId) {
        let Some(session) = self.sessions.get_mut(&agent) else { return };
        let process = self.processes.get_mut(&session.process);
        if let Some(Process { state: State::Running(_, connection), .. }) = process {
            cancel_turn(session, connection, core.now());
        }
        session.waiting = None;
        let (number, responses) = (session.process, session.take_responses());
        self.send_responses(number, &responses);
        self.is_due = true;
    }

    /// Whether the parent's session still ends where the fork branches off, so that the host can fork it.
    fn is_at_fork(&self, session: &Session) -> bool {
        let Some(known) = session.known() else { return false };
        let parent = self.sessions.values().find(|parent| parent.id.as_ref() == Some(&known.id));
        parent.is_some_and(|parent| parent.process == session.process && parent.has_ended_turn(known.turn))
    }

    fn write(&mut self, core: &mut Core, number: u64) {
        let Some(State::Running(process, connection)) = self.state_of(number) else { return };
        connection.take_messages().iter().for_each(|message| process.push(message));
        if let Err(error) = process.write(core.reactor()) {
            self.fail_process(core, number, &error.message);
        }
    }

    /// Ends a process that has failed, and the turns of its agents.
    fn fail_process(&mut self, core: &mut Core, number: u64, why: &str) {
        let Some(process) = self.processes.get(&number) else { return };
        let host = &process.key.host;
        let mut message = format!("{}: {why}", host.name);
        if !command::is_there(host, &process.key.directory) {
            match host.install {
                Some(install) => message.push_str(&format!("; install it with {install}")),
                None => message.push_str(&format!("; check command in [hosts.{}]", host.name)),
            }
        }
        for agent in self.sessions.keys().copied().collect::<Vec<_>>() {
            if self.sessions.get(&agent).is_some_and(|session| session.process == number) {
                self.leave_files(agent, false);
            }
        }
        self.end(core, number);
        self.sessions.retain(|agent, session| {
            let is_theirs = session.process == number;
            if is_theirs {
                session.fail(Error::new(ErrorKind::Protocol, message.clone()));
            }
            !is_theirs || core.agent(*agent).is_some_and(wants_reply)
        });
        self.is_due = true;
    }

    /// Ends a process without waiting for its end.
    fn end(&mut self, core: &mut Core, number: u64) {
        let Some(Process { state, server, .. }) = self.processes.remove(&number) else { return };
        if let Some(server) = server {
            server.end(core.reactor());
        }
        if let State::Running(process, _) = state {
            let now = core.now();
            self.ending.push(process.end(now, core.reactor()));
        }
    }

    fn end_unused(&mut self, core: &mut Core) {
        let is_unused = |number: &u64| !self.sessions.values().any(|session| session.process == *number);
        let unused: Vec<u64> = self.processes.keys().copied().filter(is_unused).collect();
        unused.into_iter().for_each(|number| self.end(core, number));
    }

    fn forget(&mut self, core: &mut Core, agent: AgentId) {
        self.leave_session(core, agent);
        self.is_due = true;
    }

    /// Ends the session of an agent, whose turn is cancelled.
    fn leave_session(&mut self, core: &mut Core, agent: AgentId) {
        self.leave_files(agent, false);
        let Some(mut session) = self.sessions.remove(&agent) else { return };
        let (number, id) = (session.process, session.id.clone());
        if let (Some(id), Some(State::Running(_, connection))) = (id, self.state_of(number)) {
            if session.turn.is_some() {
                connection.cancel(&id);
            }
            connection.close(&id);
        }
        self.answer(number, session.cancel(core.now()));
        self.send_responses(number, &session.take_responses());
        self.write(core, number);
    }
}

/// Chooses the mode and the level of thinking in a session that a prompt is about to be sent to.
fn choose_for_prompt(
    core: &mut Core,
    (id, session_id): (AgentId, &str),
    session: &mut Session,
    connection: &mut Connection,
    prompt: &HostPrompt,
) {
    let Some(agent) = core.agent(id) else { return };
    // A summary has no tools and is no plan.
    let plans = agent.policy() == Policy::Plan && agent.inputs.has_tools;
    let is_own_level = agent.inputs.parameters.thinking().is_some();
    if let Some((choice, mode)) = session.choose_mode(plans) {
        connection.choose((id, session_id), "mode", choice, mode);
    }
    match session.choose_thinking(prompt.thinking) {
        Ok(Some((choice, value))) => connection.choose((id, session_id), "thinking level", choice, &value),
        Err(why) if is_own_level => core.note(id, LineKind::Error, &why),
        Ok(None) | Err(_) => {}
    }
}

/// The process that an agent needs for this host.
fn key_for(core: &Core, id: AgentId, name: &str) -> Result<Key, Error> {
    let hosts = &core.config().hosts;
    let Some(host) = hosts.iter().find(|host| host.name == name).cloned() else {
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        let message =
            format!("unknown host {name:?}: add [hosts.{name}] to config.toml, or use one of {}", names.join(", "));
        return Err(Error::usage(message));
    };
    let Some(agent) = core.agent(id) else { return Err(Error::usage("the agent is gone")) };
    let environment = &agent.inputs.environment;
    if environment.remote.is_some() {
        return Err(Error::usage("hosts run on this machine only: choose another model for this agent with /model"));
    }
    let (directory, worktree) = (environment.working_directory.clone(), environment.worktree.clone());
    Ok(Key { host, directory, worktree, may_write: may_write(agent) })
}

/// Asks the host to end the turn, and answers what it has asked.
fn cancel_turn(session: &mut Session, connection: &mut Connection, now: Moment) {
    if let (Some(id), true) = (session.id.clone(), session.is_awaited()) {
        if session.ended.is_none() {
            connection.cancel(&id);
        }
        session.cancel(now + CANCEL_TIME_LIMIT).into_iter().for_each(|answer| connection.permit(answer));
    }
}

/// Whether the agent waits for its host: for its reply, for calls that it carries out, or for a slot for its next request.
fn wants_reply(agent: &Agent) -> bool {
    if !agent.request_endpoint().is_host() || agent.is_stopping() {
        return false;
    }
    match agent.state() {
        AgentState::WaitingForLlm => {
            !matches!(agent.wait(), Wait::Nothing | Wait::Hooks | Wait::Retry { .. } | Wait::Key)
        }
        state => state.is_at_calls(),
    }
}

/// Whether the process of an agent may write in the workspace.
fn may_write(agent: &Agent) -> bool {
    let can = |name: &str| agent.inputs.environment.tools.iter().any(|tool| tool.declaration.name == name);
    agent.policy() != Policy::Plan && agent.inputs.has_tools && (can("bash") || can("write_file"))
}

fn fail(core: &mut Core, agent: AgentId, error: Error) {
    core.with_agent(agent, |agent, context| agent.on_host_events(vec![StreamEvent::Error(error)], context));
}

fn error_of(host: &str, fault: Fault) -> Error {
    let kind = if fault.code == AUTH_REQUIRED { ErrorKind::Auth } else { ErrorKind::Protocol };
    Error::new(kind, format!("{host}: {}", fault.message))
}

/// What a person is told when a host is started.
fn describe(key: &Key, sandbox: &str) -> String {
    let access = if key.may_write { "it may change files in" } else { "it reads" };
    format!("starting {}: {access} {}; {sandbox}", key.host.command.join(" "), key.directory.display())
}
