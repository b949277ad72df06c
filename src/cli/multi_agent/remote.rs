//! A run whose agents work in the process that holds the data directory: a server, or a chat. It is interrupted there if this
//! process ends.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::report::Report;
use super::session::Host;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::arguments::Arguments;
use crate::cli::client::{Client, no_response, refusal, request_line, server_ended};
use crate::cli::config::ProcessEnvironment;
use crate::cli::connect;
use crate::cli::server_connection::ServerConnection;
use crate::domain::config::Config;
use crate::domain::wire::{Request, Response};
use crate::repl::Turn;
use crate::team::coordinator::plan::Plan;

/// How long the server may take to end a run that was interrupted.
const END_TIMEOUT: Duration = Duration::from_secs(10);

pub struct ServerHost {
    server: ServerConnection,
    outcome: Option<Value>,
    limit: Option<String>,
    /// When an interrupted run must have ended.
    give_up: Option<Instant>,
}

impl ServerHost {
    /// Begins the run in the server that holds the data directory, if one does.
    ///
    /// # Errors
    /// The server refuses the plan, or does not answer.
    pub fn begin(
        arguments: &Arguments,
        env: &ProcessEnvironment,
        config: &Config,
        plan: &Plan,
    ) -> Result<Option<Self>> {
        let Some(mut client) = connect::find_server(arguments, config)? else { return Ok(None) };
        let approval = arguments.approval.clone().or_else(|| env.text("POLYLOGUE_APPROVAL"));
        let new = client.request(&Request::New(connect::agent_for_run(arguments, config, approval)))?;
        let agent = new["id"].as_str().unwrap_or_default().to_owned();
        match start(&mut client, arguments, &agent, plan) {
            Ok(()) => Self::new(client).map(Some),
            Err(error) => {
                // The first error says more than one of the clean-up.
                let _ = client.request(&Request::Archive { agent, when_idle: true });
                Err(error)
            }
        }
    }

    fn new(client: Client) -> Result<Self> {
        Ok(Self { server: ServerConnection::new(client)?, outcome: None, limit: None, give_up: None })
    }

    fn handle_responses(&mut self, report: &mut Report) -> Result<()> {
        while let Some((_, response)) = self.server.next()? {
            match response {
                Response::Chunk(event) => self.on_event(&event, report),
                Response::Done(outcome) => self.outcome = Some(outcome),
                Response::Refused { kind, message } => return Err(refusal(&kind, message)),
                _ => {}
            }
        }
        if self.server.has_ended() && self.outcome.is_none() {
            // Not of kind `network`, which is about a provider.
            return Err(Error::new(ErrorKind::System, server_ended().message));
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Value, report: &mut Report) {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        match text("type") {
            "refused" => report.streams.note_refused_call(text("title")),
            "limit" => self.limit = Some(text("text").to_owned()),
            _ => report.on_event(event),
        }
    }
}

/// Sends the plan; the first event says that the run has begun.
fn start(client: &mut Client, arguments: &Arguments, agent: &str, plan: &Plan) -> Result<()> {
    for request in connect::parameters(arguments, agent)? {
        client.request(&request).map_err(|error| error.context("--set"))?;
    }
    let request = Request::Team { agent: agent.to_owned(), plan: plan.to_json() };
    request_line(&request)?;
    client.send(&request)
}

impl Host for ServerHost {
    fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.server.watch(fd, readable, writable)
    }

    fn take_ready(&mut self) -> Vec<RawFd> {
        self.server.take_ready()
    }

    fn turn(&mut self, limit: Option<Duration>, report: &mut Report) -> Result<Turn> {
        let left = self.give_up.map(|give_up| give_up.saturating_duration_since(Instant::now()));
        if self.outcome.is_none() && left.is_some_and(|left| left.is_zero()) {
            return Err(Error::new(ErrorKind::System, no_response().message));
        }
        self.server.turn(limit.into_iter().chain(left).min())?;
        self.handle_responses(report).map(|()| Turn::Continue)
    }

    fn interrupt(&mut self) {
        self.server.write(&Request::Cut.to_line());
        self.give_up = self.give_up.or_else(|| Instant::now().checked_add(END_TIMEOUT));
    }

    fn limit_reached(&self) -> Option<String> {
        self.limit.clone()
    }

    fn outcome(&self) -> Option<Value> {
        self.outcome.clone()
    }

    fn leave(&mut self) -> Result<Option<String>> {
        Ok(None)
    }
}
