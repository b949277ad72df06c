//! Requests of the server's clients. Each does what a command would do, under the same rules. An error is a response, and
//! the connection goes on.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, ClientId};
use crate::commands::{CommandContext, Last, agent_called, change_of_client, or_ended, parse_client_command};
use crate::domain::approval::Policy;
use crate::domain::change::{Change, MailAct, Setting, Shown};
use crate::domain::flow::{InputResult, Origin};
use crate::domain::mcp::ClientServer;
use crate::domain::scrollback::LineKind;
use crate::domain::wire::{Followed, NewAgent, Request, Response};
use crate::repl::core::archive::{bring_back, called_or_archived, mark_print_run};
use crate::repl::core::begin::Beginning;
use crate::repl::core::files::attach_image;
use crate::repl::core::spawn::project_directory;
use crate::repl::core::{Core, agent_gone, last_addressed, require_answered};
use crate::repl::event::Event;
use crate::repl::json::{approvals_as_json, commands_as_json, describe};
use crate::repl::mail_waits::awaited_agents;
use crate::repl::openings::explain_stale_configuration;
use crate::repl::server::{Awaited, TurnBounds};
use crate::repl::tool_requests::call_for_client;
use crate::repl::{Repl, Turn};

enum Answer {
    Now(Value),
    /// With later responses, or not at all.
    Later,
    /// At once; then the program ends.
    Exit,
}

impl Repl {
    /// Handles the requests of all clients, a bounded number of each.
    pub(super) fn handle_requests(&mut self) -> Turn {
        while let Some((client, request)) = self.server.next_request(&mut self.core) {
            let before = self.core.store().ticket();
            let answer = self.apply_request(client, request);
            // The next request finds all effects of this one applied.
            self.apply_effects();
            let has_stored = self.core.store().ticket() > before;
            let (response, turn) = match answer {
                Ok(Answer::Later) => continue,
                Ok(Answer::Now(value)) if has_stored => {
                    self.server.finish_stored(&mut self.core, client, Response::Done(value));
                    continue;
                }
                Ok(Answer::Now(value)) => (Response::Done(value), Turn::Continue),
                Ok(Answer::Exit) => (Response::Done(Value::Null), Turn::Exit),
                Err(error) => (Response::from(&error), Turn::Continue),
            };
            self.server.respond(client, &response);
            if turn == Turn::Exit {
                return turn;
            }
        }
        self.attached().read();
        Turn::Continue
    }

    /// Sends the open questions and the commands of agents to the clients that follow them, if they have changed.
    pub(super) fn send_followed(&mut self) {
        for (client, agent) in self.server.take_clients_for_commands(&self.core) {
            let commands = commands_as_json(&self.core, agent);
            self.server.respond(client, &Response::Commands(commands));
        }
        for client in self.server.take_clients_for_questions(&self.core) {
            self.server.respond(client, &Response::Questions(approvals_as_json(&self.core)));
        }
    }

    fn apply_request(&mut self, client: ClientId, request: Request) -> Result<Answer> {
        match request {
            Request::Attach { opening, is_read_only, terminal, directory } => {
                self.attach_client(client, *opening, is_read_only, (&terminal, directory))?;
            }
            Request::Follow(followed) => self.follow(client, followed)?,
            Request::Turn { agent, text, max_requests, approval, is_attended, takes_commands, retry_ms } => {
                let approval: Option<Policy> = approval.as_deref().map(str::parse).transpose()?;
                let policy = approval.or((!is_attended).then_some(Policy::Never));
                let usual = self.core.config().settings.retry_time;
                let retry_time = (!is_attended).then(|| retry_ms.map_or(usual, Duration::from_millis));
                let bounds = TurnBounds { most: max_requests, policy, is_attended, retry_time };
                self.begin_client_turn(client, &agent, (text, takes_commands), bounds)?;
            }
            Request::Team { agent, plan } => self.begin_client_run(client, &agent, &plan)?,
            Request::Cut => {
                if let Some(agent) = self.server.cancel_turn(&mut self.core, client)? {
                    self.apply_change(Origin::Internal, agent, Change::Interrupt)?;
                }
            }
            Request::Run { agent, directory, argv } => {
                return self.run_command(client, (agent.as_deref(), directory.as_deref()), &argv);
            }
            Request::Open { agent, last_in, new } => {
                let is_own = self.server.is_own(client);
                return self.open_for_client(agent.as_deref(), last_in.as_deref(), new, is_own).map(Answer::Now);
            }
            Request::Image { agent, image } => {
                let agent = agent_called(self.core.roster(), &agent)?;
                return Ok(Answer::Now(json!({"marker": attach_image(&mut self.core, agent, &image)?})));
            }
            Request::Schema { agent, schema } => {
                let agent = agent_called(self.core.roster(), &agent)?;
                return Ok(Answer::Now(self.set_schema(agent, &schema)?.into()));
            }
            of_terminal @ (Request::Keys { .. }
            | Request::Size { .. }
            | Request::Redraw
            | Request::Edited { .. }
            | Request::Pasted { .. }) => unreachable!("only attached terminals send {of_terminal:?}"),
        }
        Ok(Answer::Later)
    }

    fn follow(&mut self, client: ClientId, followed: Followed) -> Result<()> {
        match followed {
            Followed::Chunks { agent, from, last, goes_on } => {
                self.server.begin_chunks(&mut self.core, client, &agent, (from.as_ref(), last), goes_on)
            }
            Followed::Questions => {
                self.server.begin_questions(&mut self.core, client);
                Ok(())
            }
            Followed::Commands { agent, servers } => self.begin_commands(client, &agent, &servers),
            Followed::Idle { agent, seconds, with_questions } => {
                let agent = or_ended(self.core.store(), agent_called(self.core.roster(), &agent), &agent)?;
                self.server.begin_wait(&mut self.core, client, Awaited::Rest(agent), (seconds, with_questions));
                Ok(())
            }
            Followed::Mail { agent, from, seconds } => {
                let agent = agent_called(self.core.roster(), &agent)?;
                let mut from = awaited_agents(&self.core, agent, &from)?;
                from.retain(|other| *other != agent);
                self.server.begin_wait(&mut self.core, client, Awaited::Mail { agent, from }, (seconds, false));
                Ok(())
            }
        }
    }

    /// Runs a command as it is entered in the chat. One that takes its time is answered when it has ended.
    fn run_command(
        &mut self,
        client: ClientId,
        (agent, directory): (Option<&str>, Option<&Path>),
        argv: &[String],
    ) -> Result<Answer> {
        let (spec, given) = parse_client_command(argv)?;
        let agent = match (agent, spec.runs_at_last) {
            (Some(agent), _) => agent_called(self.core.roster(), agent)?,
            (None, Some(last)) => last_addressed(&self.core, directory.filter(|_| last == Last::Here))?,
            (None, None) => self.core.roster().nth(0).ok_or_else(agent_gone)?,
        };
        let (clients, infos) = (Some(self.server.client_count()), self.terminals.infos(None));
        let context = CommandContext { clients, ..self.core.command_context(agent, infos) };
        let result = (spec.run)(&context, &given);
        drop(context);
        let (agent, change, data) = match result? {
            InputResult::NewState(change, _) => (agent, change, None),
            InputResult::NewStateAt(agent, change, data) => (agent, change, data),
            InputResult::Continue(text) => return Ok(Answer::Now(json!({"text": text, "data": null}))),
            InputResult::Data(data) => return Ok(Answer::Now(json!({"text": null, "data": data}))),
            InputResult::ToolCall(tool, arguments) => {
                let text = call_for_client(&mut self.core, agent, &tool, &arguments)?;
                return Ok(Answer::Now(json!({"text": text, "data": null})));
            }
            InputResult::Exit => return Ok(Answer::Exit),
            _ => return Err(Error::usage("the command needs a terminal")),
        };
        self.core.require_writable()?;
        let is_job =
            matches!(change, Change::Files(_) | Change::Stop(_) | Change::Show(Shown::Diff(_) | Shown::Models));
        let origin = match change {
            _ if is_job || matches!(change, Change::Mail(MailAct::Read(_))) => Origin::Client(client),
            // A client speaks for a person, who may set the policy.
            Change::Setting(Setting::Approval(_)) => Origin::Library,
            _ => Origin::Internal,
        };
        if is_job {
            self.server.begin_job(&mut self.core, client);
        }
        let told = if let Change::Tell { to, .. } = change { Some(to) } else { None };
        let outcome = self.apply_change(origin, agent, change);
        if is_job {
            if outcome.is_err() {
                self.server.forget_request(&mut self.core, client);
            }
            return outcome.map(|()| Answer::Later);
        }
        outcome?;
        let told = told.and_then(|to| self.core.agent(to)).map(|agent| json!({"queued": agent.queue.len()}));
        Ok(Answer::Now(json!({"text": null, "data": told.or(data)})))
    }

    /// One agent, which is brought back if it is archived: the named one, the one of the directory, or a new one.
    fn open_for_client(
        &mut self,
        agent: Option<&str>,
        last_in: Option<&Path>,
        new: Option<Box<NewAgent>>,
        is_own: bool,
    ) -> Result<Value> {
        let last = match last_in.filter(|_| agent.is_none()) {
            Some(directory) => self.core.store().last_addressed(project_directory(directory).as_deref())?,
            None => None,
        };
        let id = match (agent, last, new) {
            (Some(agent), ..) => called_or_archived(&mut self.core, agent, true)?,
            (None, Some(last), _) => bring_back(&mut self.core, last, true).map(|()| last)?,
            (None, None, Some(new)) => self.create_for_client(*new, is_own)?,
            (None, None, None) => return Err(Error::usage("nothing to open: name an agent")),
        };
        describe(&self.core, id)
    }

    fn create_for_client(&mut self, new: NewAgent, is_own: bool) -> Result<AgentId> {
        let NewAgent { id, name, directory, is_print_run, is_for_terminal, mut choices } = new;
        if !is_for_terminal {
            let policy = choices.approval.as_deref().map_or(Ok(Policy::Never), str::parse)?;
            // A client cannot ask anybody.
            let policy = if policy == Policy::Ask { Policy::Never } else { policy };
            choices.approval = Some(policy.name().to_owned());
        }
        // An unattended run is configured as its own agent is to be, which is not stored then. Agents of other clients get no
        // more than they name.
        let is_own_run = is_print_run && is_own && !self.core.config().settings.is_interactive;
        let (directory, choices) = (directory.as_deref(), &choices);
        let new = Beginning { id, name, directory, choices, is_print_run: is_own_run, may_be_root: false };
        let id =
            self.create_in(new).map_err(|error| if is_own { error } else { explain_stale_configuration(error) })?;
        if is_print_run && !is_own_run {
            mark_print_run(&mut self.core, id)?;
        }
        Ok(id)
    }

    /// Sends a text to an agent; the client gets the chunks of the turn. If it takes commands, the text may name a skill or a
    /// prompt.
    fn begin_client_turn(
        &mut self,
        client: ClientId,
        agent: &str,
        (text, takes_commands): (String, bool),
        mut bounds: TurnBounds,
    ) -> Result<()> {
        let agent = agent_called(self.core.roster(), agent)?;
        require_text(&text)?;
        if self.server.is_own(client) && self.core.agent(agent).is_some_and(|agent| agent.is_unrestricted) {
            bounds.policy = None;
        }
        require_policy(&self.core, agent, bounds.policy)?;
        // The questions of a turn of a client are refused at once.
        if !self.server.has_turn_of(agent) {
            require_answered(&self.core, agent)?;
        }
        let change = match takes_commands {
            true => change_of_client(text, &self.core.command_context(agent, Vec::new()))?,
            false => Change::Submit(text),
        };
        self.server.begin_turn(&mut self.core, client, agent, bounds);
        if matches!(change, Change::ServerPrompt(_)) {
            self.server.await_text(client);
        }
        let outcome = self.apply_change(Origin::Client(client), agent, change);
        if outcome.is_err() {
            self.server.forget_request(&mut self.core, client);
        }
        outcome
    }

    /// The client is sent the commands of an agent, which has these servers as long as the client stays.
    fn begin_commands(&mut self, client: ClientId, agent: &str, servers: &[ClientServer]) -> Result<()> {
        let agent = agent_called(self.core.roster(), agent)?;
        for server in servers {
            server.check().map_err(|why| Error::usage(format!("MCP server {:?}: {why}", server.name)))?;
        }
        self.server.begin_commands(&mut self.core, client, agent);
        if cfg!(not(feature = "mcp")) && !servers.is_empty() {
            self.core.note(agent, LineKind::Note, "MCP servers are not started: rebuild with --features mcp");
        }
        self.core.emit(Event::CommandsBegun { client, agent, servers: servers.to_vec() });
        Ok(())
    }

    #[cfg(not(feature = "coordinator"))]
    fn begin_client_run(&mut self, _: ClientId, _: &str, _: &Value) -> Result<()> {
        Err(Error::not_built_in("coordinator"))
    }
}

/// Fails if a client names more than an agent may do: only a person may give it more.
fn require_policy(core: &Core, agent: AgentId, wanted: Option<Policy>) -> Result<()> {
    let agent = core.agent(agent).ok_or_else(agent_gone)?;
    let (label, has) = (agent.identity.label(), agent.policy);
    match wanted.filter(|wanted| *wanted > has && *wanted != Policy::Ask) {
        Some(wanted) => Err(Error::usage(format!(
            "--approval {wanted} is more than {label} may do (policy {has}): set it there with /approval {wanted}, or \
             leave out --continue and --resume for a new agent"
        ))),
        None => Ok(()),
    }
}

fn require_text(text: &str) -> Result<()> {
    if text.trim().is_empty() { Err(Error::usage("nothing to send: the text is empty")) } else { Ok(()) }
}
