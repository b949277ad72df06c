//! `polylogue mcp-server`: the tools about agents for any program that takes MCP servers, on standard input and output.
//!
//! ```text
//!   program ── JSON-RPC, one message a line ── McpServer ── requests of `domain::wire` ── the loop
//! ```
//! The program is an agent without turns: what it forks are its children, and mail to it waits until it reads it.

use serde_json::Value;

use super::arguments::Arguments;
use super::client::Client;
use super::config::{Loaded, ProcessEnvironment};
use super::host::{Host, HostOptions};
use super::links::News;
use super::stdio_peer::{StdioPeer, StdioServer};
use crate::base::error::{Error, Result};
use crate::domain::choices::Choices;
use crate::domain::wire::{Followed, NewAgent, Request, Response};
use crate::reactor::Signals;
use crate::tools::mcp_server::{Outcome, TOOLS, call_response, on_message};

/// The result of a call that cannot be made.
const NO_LOOP: &str = "the process that runs the agents has ended: start the MCP server again";

/// What a connection to the loop is for: a call, by the id of its request, or nothing that is answered.
type Call = Option<Value>;

struct McpServer {
    peer: StdioPeer<Call>,
    /// The agent that the program is.
    agent: String,
    /// It may have children, or mail on the way.
    is_used: bool,
}

/// Runs until standard input ends. Returns the exit code.
pub fn run(arguments: &Arguments, env: &ProcessEnvironment) -> Result<u8> {
    let signals = Signals::catch_termination()?;
    let check_server = |_: &mut Client| match arguments.allow.is_empty() && arguments.deny.is_empty() {
        true => Ok(()),
        false => Err(Error::usage(
            "--allow and --deny have no effect on the agents of the running server: put the rules into config.toml, or \
             stop the server (polylogue stop)",
        )),
    };
    let configure = |loaded: Loaded| loaded.without_model_error().into_config();
    let (mut host, config) = Host::open(&HostOptions::for_others((arguments, env), &configure, &check_server))?;
    let choices =
        Choices { model: arguments.model.clone(), approval: arguments.approval.clone(), ..Choices::default() };
    let new = NewAgent {
        directory: Some(config.working_directory),
        // A person can attach a terminal and answer.
        is_for_terminal: true,
        choices,
        ..NewAgent::default()
    };
    let agent = host.request(&Request::create(new))?["id"].as_str().unwrap_or_default().to_owned();
    McpServer { peer: StdioPeer::new(host, signals)?, agent, is_used: false }.run()
}

impl McpServer {
    fn run(mut self) -> Result<u8> {
        let code = self.serve()?;
        if !self.is_used {
            // It does no harm if it stays.
            drop(self.peer.links.send(&mut self.peer.host, &Request::run(["delete", &self.agent]), None));
        }
        self.leave()?;
        Ok(code)
    }

    /// The request for a call. Its arguments were limited, not checked.
    fn request_for(&self, name: &str, arguments: &Value) -> Request {
        let agent = self.agent.clone();
        match (name, arguments["timeout"].as_f64()) {
            ("wait", Some(seconds)) => {
                let from = arguments["from"].as_array().into_iter().flatten();
                let from = from.filter_map(|name| name.as_str().map(str::to_owned)).collect();
                Request::Follow(Followed::Mail { agent, from, seconds: Some(seconds) })
            }
            _ => Request::run_at(&agent, ["call-tool", name, &arguments.to_string()]),
        }
    }
}

impl StdioServer for McpServer {
    type Purpose = Call;

    fn peer(&mut self) -> &mut StdioPeer<Call> {
        &mut self.peer
    }

    fn on_line(&mut self, line: &[u8]) -> Result<()> {
        match on_message(line, TOOLS) {
            Outcome::Answered(text) | Outcome::Malformed(text) => self.peer.send(text),
            Outcome::Accepted => {}
            Outcome::Call { id, name, arguments } => {
                self.is_used |= matches!(name, "fork" | "send_mail");
                let request = self.request_for(name, &arguments);
                if let Err(error) = self.peer.links.send(&mut self.peer.host, &request, Some(id.clone())) {
                    self.peer.send(call_response(&id, &error.message, true));
                }
            }
            Outcome::Withdrawn(id) => {
                let withdrawn = self.peer.links.all().into_iter().filter(|(_, call)| call.as_ref() == Some(&id));
                for (number, _) in withdrawn.collect::<Vec<_>>() {
                    self.peer.links.close(&mut self.peer.host, number)?;
                }
            }
        }
        Ok(())
    }

    fn on_news(&mut self, number: u64, news: News) -> Result<()> {
        let call = self.peer.links.purpose(number).cloned().flatten();
        self.peer.links.close(&mut self.peer.host, number)?;
        let Some(call) = call else { return Ok(()) };
        let response = match news {
            News::Response(Response::Done(value), _) => {
                call_response(&call, value["text"].as_str().unwrap_or_default(), false)
            }
            News::Response(Response::Refused { message, .. }, _) => call_response(&call, &message, true),
            News::Response(..) => return Ok(()),
            News::Lost => call_response(&call, NO_LOOP, true),
        };
        self.peer.send(response);
        Ok(())
    }
}
