//! A run whose agent works in a server, and continues there if this process is killed. The turns are requested one after
//! the other, so that at most one text of the run waits in the agent's queue.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use serde::Deserialize as _;
use serde_json::Value;

use super::Start;
use super::output::{Ending, PrintOutput};
use super::prompt::retry_ms;
use super::session::{Host, Progress};
use super::summary::Failure;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::agent_choice::{AgentChoice, no_name};
use crate::cli::arguments::Arguments;
use crate::cli::client::{Client, request_line, server_ended};
use crate::cli::config::ProcessEnvironment;
use crate::cli::connect;
use crate::cli::server_connection::ServerConnection;
use crate::cli::stdio::streams::LAST_OUTPUT_TIMEOUT;
use crate::domain::chunk::Chunk;
use crate::domain::config::Config;
use crate::domain::wire::{NewAgent, Request, Response};
use crate::repl::Turn;

pub struct ServerHost {
    server: ServerConnection,
    agent: String,
    /// The agent was made for this run or another one, and is archived when it ends.
    is_print_run: bool,
    /// Prompts that are not sent yet, oldest first.
    queue: VecDeque<String>,
    is_turn_running: bool,
    max_requests: Option<u32>,
    /// The policy that the command line names.
    approval: Option<String>,
    /// How long failed requests are tried again, if the command line says it.
    retry_ms: Option<u64>,
    requests: u32,
    /// The last wait of a request: its end, and the reason.
    wait: Option<(Instant, String)>,
    /// Set when the run cannot continue.
    ending: Option<Ending>,
}

impl ServerHost {
    fn new(client: Client, agent: &Value, max_requests: Option<u32>, approval: Option<String>) -> Result<Self> {
        Ok(Self {
            server: ServerConnection::new(client)?,
            agent: id_of(agent),
            is_print_run: agent["print_run"] == true,
            queue: VecDeque::new(),
            is_turn_running: false,
            max_requests,
            approval,
            retry_ms: None,
            requests: 0,
            wait: None,
            ending: None,
        })
    }

    fn start_next_turn(&mut self) -> Result<()> {
        if self.is_turn_running || self.ending.is_some() {
            return Ok(());
        }
        let Some(text) = self.queue.pop_front() else { return Ok(()) };
        let max_requests = self.max_requests.map(|max| max.saturating_sub(self.requests));
        if max_requests == Some(0) {
            self.ending = Some(Ending::max_turns());
            return Ok(());
        }
        let approval = self.approval.clone();
        let agent = self.agent.clone();
        let line = request_line(&Request::Turn {
            agent,
            text,
            max_requests,
            approval,
            is_attended: false,
            retry_ms: self.retry_ms,
            takes_commands: false,
        })?;
        self.server.write(&line);
        self.is_turn_running = true;
        Ok(())
    }

    /// Waits for events, and handles the server's responses.
    fn wait(&mut self, limit: Option<Duration>, output: &mut PrintOutput) -> Result<()> {
        self.server.turn(limit)?;
        self.handle_responses(output)
    }

    fn handle_responses(&mut self, output: &mut PrintOutput) -> Result<()> {
        while let Some((line, response)) = self.server.next()? {
            match response {
                Response::Chunk(value) => self.on_line(&value, || String::from_utf8_lossy(&line).into_owned(), output),
                Response::Missed(count) => output.on_missed(count),
                Response::Done(result) => self.on_turn_ended(&result),
                Response::Refused { kind, message } => {
                    self.is_turn_running = false;
                    self.ending = Some(Ending::Failed(Failure { kind, message }));
                }
                Response::Frame(_)
                | Response::Suspend {}
                | Response::Edit(_)
                | Response::View(_)
                | Response::Paste {}
                | Response::Questions(_)
                | Response::Commands(_)
                | Response::Back(_)
                | Response::End(_) => {}
            }
        }
        if self.server.has_ended() && self.ending.is_none() {
            self.is_turn_running = false;
            // Not of kind `network`, which is about a provider.
            self.ending = Some(Ending::Failed(Error::new(ErrorKind::System, server_ended().message).into()));
        }
        Ok(())
    }

    /// A chunk or a wait. A type that this version does not know is skipped.
    fn on_line(&mut self, value: &Value, line: impl FnOnce() -> String, output: &mut PrintOutput) {
        if value["type"] == "wait" {
            let length = Duration::from_millis(value["ms"].as_u64().unwrap_or_default());
            let reason = value["text"].as_str().unwrap_or_default();
            output.on_wait(length, reason, line);
            self.wait = Instant::now().checked_add(length).map(|until| (until, reason.to_owned()));
        } else if let Ok(chunk) = Chunk::deserialize(value) {
            output.on_chunk(&chunk, line);
        }
    }

    fn on_turn_ended(&mut self, result: &Value) {
        self.is_turn_running = false;
        let requests = result["requests"].as_u64().and_then(|count| u32::try_from(count).ok());
        self.requests = self.requests.saturating_add(requests.unwrap_or_default());
        if let Some(limit) = result["limit"].as_str() {
            self.ending = Some(Ending::Limit(limit.to_owned()));
        } else if result["limited"] == true {
            self.ending = Some(Ending::max_turns());
        }
    }
}

impl Host for ServerHost {
    fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.server.watch(fd, readable, writable)
    }

    fn take_ready(&mut self) -> Vec<RawFd> {
        self.server.take_ready()
    }

    fn turn(&mut self, limit: Option<Duration>, output: &mut PrintOutput) -> Result<Turn> {
        self.wait(limit, output)?;
        self.start_next_turn().map(|()| Turn::Continue)
    }

    fn send(&mut self, text: &str) -> Result<()> {
        self.queue.push_back(text.to_owned());
        self.start_next_turn()
    }

    fn interrupt(&mut self) -> Result<()> {
        if self.is_turn_running {
            self.server.write(&Request::Cut.to_line());
        }
        Ok(())
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }

    fn progress(&mut self) -> Result<Progress> {
        Ok(match &self.ending {
            Some(ending) => Progress::Stuck(ending.clone()),
            None if self.is_turn_running || !self.queue.is_empty() => Progress::Working,
            None => Progress::AtRest,
        })
    }

    /// Does not wait for ever: the server may not answer.
    fn leave(&mut self, output: &mut PrintOutput) -> Result<Option<Ending>> {
        self.queue.clear();
        self.interrupt()?;
        let give_up = Instant::now() + LAST_OUTPUT_TIMEOUT;
        while self.is_turn_running {
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(Some(left), output)?;
        }
        if self.is_print_run {
            self.server.write(&Request::Archive { agent: self.agent.clone(), when_idle: true }.to_line());
        }
        Ok(None)
    }

    fn waits_for(&self) -> Option<String> {
        let (_, reason) = self.wait.as_ref().filter(|(until, _)| *until > Instant::now())?;
        Some(reason.clone())
    }

    fn agent(&self) -> String {
        self.agent.clone()
    }

    fn requests(&self) -> u32 {
        self.requests
    }
}

/// The server that holds the data directory, if one does, with the agent that the command line selects; and whether that
/// answers in the form of the schema.
///
/// # Errors
/// The agent does not exist, the model is not configured, or the server does not answer.
pub fn host(
    arguments: &Arguments,
    env: &ProcessEnvironment,
    config: &Config,
    start: &Start,
) -> Result<Option<(Box<dyn Host>, bool)>> {
    let Some(mut client) = connect::find_server(arguments, config)? else { return Ok(None) };
    let choice = AgentChoice::of(arguments);
    if choice != AgentChoice::New && !(arguments.allow.is_empty() && arguments.deny.is_empty()) {
        return Err(Error::usage(
            "--allow and --deny hold for a new agent of the running server: leave out --continue and --resume, or stop the \
             server (polylogue stop)",
        ));
    }
    if choice != AgentChoice::New && arguments.schema.is_some() {
        return Err(Error::usage(
            "--schema holds for a new agent of the running server: leave out --continue and --resume, or stop the server \
             (polylogue stop)",
        ));
    }
    let new = connect::agent_for_run(arguments, env, config);
    let approval = new.choices.approval.clone();
    let chosen = choose_agent(&mut client, &choice, arguments.model.clone(), new)?;
    let agent = id_of(&chosen);
    for request in connect::parameters(arguments, &agent)? {
        client.request(&request).map_err(|error| error.context("--set"))?;
    }
    let set = start
        .output
        .schema
        .as_ref()
        .map(|schema| Request::Schema { agent: agent.clone(), schema: schema.value.clone() });
    let is_set = set.map(|request| client.request(&request)).transpose()? == Some(Value::Bool(true));
    let mut host = ServerHost::new(client, &chosen, arguments.max_turns, approval)?;
    host.retry_ms = retry_ms(start.deadline);
    Ok(Some((Box::new(host), is_set)))
}

/// The selected agent, or a new one. A selected one uses this model from now on, if there is one.
fn choose_agent(client: &mut Client, choice: &AgentChoice, model: Option<String>, new: NewAgent) -> Result<Value> {
    let agent = match choice {
        AgentChoice::New => return client.request(&Request::New(new)),
        AgentChoice::Last => None,
        AgentChoice::Named(name) => Some(name.clone()),
        AgentChoice::Unnamed => {
            return Err(no_name());
        }
    };
    let agent = client.request(&Request::Show { agent, directory: new.directory })?;
    if let Some(model) = model {
        client.request(&Request::Model { agent: id_of(&agent), model })?;
    }
    Ok(agent)
}

fn id_of(agent: &Value) -> String {
    agent["id"].as_str().unwrap_or_default().to_owned()
}
