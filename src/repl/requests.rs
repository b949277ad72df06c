//! Requests of the server's clients. Each does what a command would do, under the same rules. An error is a response, and
//! the connection goes on.

use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::{Agent, PendingQuestion};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, ClientId};
use crate::commands::{agent_called, change_of_client, mail_as_json, read_of_client};
use crate::domain::approval::Policy;
use crate::domain::flow::{Change, Decision, InputResult, Origin};
use crate::domain::mail::MailId;
use crate::domain::mcp::ClientServer;
use crate::domain::rule::{Rule, Scope};
use crate::domain::wire::{MailAct, NewAgent, Request, Response};
use crate::repl::core::archive::{bring_back, called_or_archived, mark_print_run};
use crate::repl::core::files::attach_image;
use crate::repl::core::spawn::project_directory;
use crate::repl::core::{Core, agent_gone, last_addressed, or_ended, require_answered, take_mail};
use crate::repl::json::{
    agent_as_json, approvals_as_json, commands_as_json, conversations_as_json, describe, question_id, status_as_json,
    terminal_as_json,
};
use crate::repl::server::TurnBounds;
use crate::repl::{Repl, Turn, rules, steer};

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
            let before = self.core.store.ticket();
            let answer = self.apply_request(client, request);
            // The next request finds all effects of this one applied.
            self.apply_effects();
            let has_stored = self.core.store.ticket() > before;
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
            Request::Stop => return Ok(Answer::Exit),
            Request::Attach { opening, is_read_only, terminal, directory } => {
                self.attach_client(client, *opening, is_read_only, (&terminal, directory))?;
            }
            Request::Logs { agent, from, last, follows } => {
                self.server.begin_logs(&mut self.core, client, &agent, (from.as_ref(), last), follows)?;
            }
            Request::Approvals { follows: true } => self.server.begin_questions(&mut self.core, client),
            Request::Commands { agent, servers } => self.begin_commands(client, &agent, &servers)?,
            Request::Turn { agent, text, max_requests, approval, is_attended, takes_commands, retry_ms } => {
                let approval: Option<Policy> = approval.as_deref().map(str::parse).transpose()?;
                let policy = approval.or((!is_attended).then_some(Policy::Never));
                let usual = self.core.config.settings.retry_time;
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
            Request::Wait { agent, seconds } => {
                self.server.begin_wait(&mut self.core, client, &agent, seconds)?;
            }
            Request::Run { agent, argv } => return self.run_command(client, agent.as_deref(), &argv),
            other => return self.answer(client, other).map(Answer::Now),
        }
        Ok(Answer::Later)
    }

    /// Carries out a request that is answered at once.
    fn answer(&mut self, client: ClientId, request: Request) -> Result<Value> {
        Ok(match request {
            Request::Agents => self.core.roster.iter().map(|agent| agent_as_json(&self.core, agent)).collect(),
            Request::Sessions => self.attached_terminals(),
            Request::Mail { agent, from, act } => self.use_mailbox(agent.as_deref(), from.as_deref(), act)?,
            Request::Status => status_as_json(&self.core, self.server.client_count()),
            Request::New(new) => self.create_for_client(new, self.server.is_own(client))?,
            Request::Show { agent: Some(agent), .. } => {
                let id = called_or_archived(&mut self.core, &agent, true)?;
                describe(&self.core, id)?
            }
            Request::Show { agent: None, directory } => {
                let directory = directory.as_deref().and_then(project_directory);
                let Some(id) = self.core.store.last_addressed(directory.as_deref())? else { return Ok(Value::Null) };
                bring_back(&mut self.core, id, true)?;
                describe(&self.core, id)?
            }
            Request::Policy { agent, policy } => self.set_policy_named(&agent, &policy)?,
            Request::Image { agent, image } => {
                let agent = agent_called(&self.core.roster, &agent)?;
                json!({"marker": attach_image(&mut self.core, agent, &image)?})
            }
            Request::Conversations { directory } => conversations_as_json(&self.core, directory.as_deref())?,
            Request::Schema { agent, schema } => self.set_schema_named(&agent, &schema)?,
            Request::Send { agent, text } => self.submit_named(&agent, text)?,
            Request::Archive { agent } => {
                let agent = agent_called(&self.core.roster, &agent)?;
                let subtree = self.core.roster.subtree(agent);
                subtree.into_iter().for_each(|id| self.core.archive_when_idle(id));
                Value::Null
            }
            Request::StopAgents => json!({"stopped": self.stop_agents(None)?}),
            Request::Approvals { .. } => approvals_as_json(&self.core),
            Request::Answer { id, allow: false, reason, rules, .. } => {
                self.answer_question(&id, &rules, Decision::Deny(reason))?
            }
            Request::Answer { id, rules, is_for_session, .. } => {
                let scope = if is_for_session { Scope::Session } else { Scope::Project };
                let decision = if rules.is_empty() { Decision::Allow } else { Decision::Always(scope) };
                self.answer_question(&id, &rules, decision)?
            }
            Request::Stop
            | Request::Attach { .. }
            | Request::Logs { .. }
            | Request::Commands { .. }
            | Request::Turn { .. }
            | Request::Team { .. }
            | Request::Run { .. }
            | Request::Cut
            | Request::Wait { .. } => unreachable!("not answered at once"),
            of_terminal => unreachable!("only attached terminals send {of_terminal:?}"),
        })
    }

    /// Runs a command as it is entered in the chat. One that takes its time is answered when it has ended.
    fn run_command(&mut self, client: ClientId, agent: Option<&str>, argv: &[String]) -> Result<Answer> {
        let agent = match agent {
            Some(agent) => agent_called(&self.core.roster, agent)?,
            None => last_addressed(&self.core, None)?,
        };
        let (agent, change) = match read_of_client(argv, &self.core.command_context(agent, Vec::new()))? {
            InputResult::NewState(change, _) => (agent, change),
            InputResult::NewStateAt(agent, change) => (agent, change),
            InputResult::Continue(text) => return Ok(Answer::Now(json!({ "text": text }))),
            _ => return Err(Error::usage("the command needs a terminal")),
        };
        self.core.require_writable()?;
        let is_job = matches!(change, Change::Undo { .. } | Change::Land { .. });
        let origin = if is_job { Origin::Client(client) } else { Origin::Internal };
        self.apply_change(origin, agent, change)?;
        if is_job {
            self.server.begin_job(&mut self.core, client);
            return Ok(Answer::Later);
        }
        Ok(Answer::Now(json!({ "text": Value::Null })))
    }

    /// The mailbox of an agent, as the commands of the chat use it.
    fn use_mailbox(&mut self, agent: Option<&str>, from: Option<&str>, act: MailAct) -> Result<Value> {
        let named = |core: &Core, name: &str| or_ended(&core.store, agent_called(&core.roster, name), name);
        let agent = match agent {
            Some(name) => named(&self.core, name)?,
            None => last_addressed(&self.core, None)?,
        };
        let from = from.map(|name| named(&self.core, name)).transpose()?;
        if !matches!(act, MailAct::List) {
            self.core.require_writable()?;
        }
        match act {
            MailAct::List => {
                let mail = self.core.store.mail(agent, from)?;
                mail.iter().map(|mail| mail_as_json(&self.core.store, mail)).collect()
            }
            MailAct::Read(id) => {
                let mail = take_mail(&mut self.core, agent, id.map(MailId))?;
                mail.map_or(Ok(Value::Null), |mail| mail_as_json(&self.core.store, &mail))
            }
            MailAct::Send(text) => {
                let from = from.or_else(|| self.core.roster.nth(0)).ok_or_else(agent_gone)?;
                self.core.send_mail(from, agent, &text).map(|_| Value::Null)
            }
            MailAct::Delete(id) => self.core.delete_mail(agent, MailId(id)).map(|()| Value::Null),
        }
    }

    fn attached_terminals(&self) -> Value {
        let terminals = self.terminals.ids().into_iter().filter_map(|id| Some((id, self.terminals.get(id)?)));
        terminals.map(|(id, terminal)| terminal_as_json(&self.core, id, terminal)).collect()
    }

    fn create_for_client(&mut self, new: NewAgent, is_own: bool) -> Result<Value> {
        let NewAgent { name, directory, is_print_run, is_for_terminal, mut choices } = new;
        if !is_for_terminal {
            let policy = choices.approval.as_deref().map_or(Ok(Policy::Never), str::parse)?;
            // A client cannot ask anybody.
            let policy = if policy == Policy::Ask { Policy::Never } else { policy };
            choices.approval = Some(policy.name().to_owned());
        }
        // An unattended run is configured as its own agent is to be, which is not stored then. Agents of other clients get no
        // more than they name.
        let is_own_run = is_print_run && is_own && !self.core.config.settings.is_interactive;
        let id = self.create_in(name.as_deref(), &choices, directory.as_deref(), is_own_run)?;
        if is_print_run && !is_own_run {
            mark_print_run(&mut self.core, id)?;
        }
        describe(&self.core, id)
    }

    fn set_schema_named(&mut self, agent: &str, schema: &Value) -> Result<Value> {
        let agent = agent_called(&self.core.roster, agent)?;
        Ok(Value::Bool(self.set_schema(agent, schema)?))
    }

    /// A client has a person's consent to answer questions, so it may set how many there are; it may not end them all.
    fn set_policy_named(&mut self, agent: &str, policy: &str) -> Result<Value> {
        let agent = agent_called(&self.core.roster, agent)?;
        let policy: Policy = policy.parse()?;
        if policy == Policy::Yolo {
            return Err(Error::usage("yolo cannot be set by a client: use /approval yolo at a terminal"));
        }
        steer::set_policy(&mut self.core, Origin::Library, agent, policy).map(|()| Value::Null)
    }

    /// Text for the model, and never a command: not even where it begins with a slash.
    fn submit_named(&mut self, agent: &str, text: String) -> Result<Value> {
        let agent = agent_called(&self.core.roster, agent)?;
        require_text(&text)?;
        self.apply_change(Origin::Internal, agent, Change::Submit(text))?;
        let queued = self.core.roster.get(agent).ok_or_else(agent_gone)?.queue.len();
        Ok(json!({"queued": queued}))
    }

    /// Like [`Repl::submit_named`]; the client also gets the chunks of the turn. If it takes commands, the text may name a
    /// skill or a prompt.
    fn begin_client_turn(
        &mut self,
        client: ClientId,
        agent: &str,
        (text, takes_commands): (String, bool),
        mut bounds: TurnBounds,
    ) -> Result<()> {
        let agent = agent_called(&self.core.roster, agent)?;
        require_text(&text)?;
        if self.server.is_own(client) && self.core.roster.get(agent).is_some_and(|agent| agent.is_unrestricted) {
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
            self.server.forget_turn(&mut self.core, client);
        }
        outcome
    }

    /// The client is sent the commands of an agent, which has these servers as long as the client stays.
    fn begin_commands(&mut self, client: ClientId, agent: &str, servers: &[ClientServer]) -> Result<()> {
        let agent = agent_called(&self.core.roster, agent)?;
        for server in servers {
            server.check().map_err(|why| Error::usage(format!("MCP server {:?}: {why}", server.name)))?;
        }
        self.server.begin_commands(&mut self.core, client, agent);
        self.mcp.declare(&mut self.core, client, agent, servers);
        Ok(())
    }

    #[cfg(not(feature = "coordinator"))]
    fn begin_client_run(&mut self, _: ClientId, _: &str, _: &Value) -> Result<()> {
        Err(Error::not_built_in("coordinator"))
    }

    /// An error if no question with this id is open: it was answered, or never asked, or its text was another one.
    /// `rules` are given with the answer and must be those of the question.
    fn answer_question(&mut self, id: &str, rules: &[String], decision: Decision) -> Result<Value> {
        let (agent, pending) = question_called(&self.core, id, matches!(decision, Decision::Deny(_)))?;
        let offered = &pending.question.ways.rules;
        let is_offered = rules.len() == offered.len() && offered.iter().all(|rule| rules.contains(&rule.to_string()));
        if !rules.is_empty() && !is_offered {
            let message =
                format!("these are not the rules of the question: polylogue approve {id} --always prints them");
            return Err(Error::usage(message));
        }
        let (agent, question) = (agent.id(), pending.number);
        if matches!(decision, Decision::Deny(_)) {
            let refused: Vec<Rule> = offered.clone().into_iter().filter(|_| is_offered).collect();
            rules::deny(&mut self.core, agent, refused)?;
        }
        self.apply_change(Origin::Internal, agent, Change::Answer { question, decision }).map(|()| Value::Null)
    }
}

/// The open question with this id. An agent is enough to deny its question; to allow it, the id proves what was read.
fn question_called<'a>(core: &'a Core, id: &str, is_denied: bool) -> Result<(&'a Agent, &'a PendingQuestion)> {
    if let Some(found) = core.roster.questions().find(|(agent, pending)| question_id(agent, pending) == id) {
        return Ok(found);
    }
    let none = || Error::usage(format!("no open question {id:?}: polylogue approvals lists those that are open"));
    let agent = agent_called(&core.roster, id).map_err(|_| none())?;
    let found = core.roster.questions().find(|(asking, _)| asking.id() == agent);
    let (agent, pending) = found.ok_or_else(|| {
        let label = core.roster.label_of(agent);
        Error::usage(format!("{label} asks nothing: polylogue approvals lists the open questions"))
    })?;
    if !is_denied {
        let (label, question) = (agent.identity.label(), question_id(agent, pending));
        return Err(Error::usage(format!(
            "{label} asks the question {question}: polylogue approvals shows what it would run, polylogue approve \
             {question} allows it"
        )));
    }
    Ok((agent, pending))
}

/// Fails if a client names more than an agent may do: only a person may give it more.
fn require_policy(core: &Core, agent: AgentId, wanted: Option<Policy>) -> Result<()> {
    let agent = core.roster.get(agent).ok_or_else(agent_gone)?;
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
