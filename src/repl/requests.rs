//! Requests of the server's clients. Each does what a command would do, under the same rules. An error is a response, and
//! the connection goes on.

use serde_json::{Value, json};

use crate::agent::{Agent, State};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, ClientId};
use crate::base::process;
use crate::commands::agent_called_by_script;
use crate::domain::approval::Policy;
use crate::domain::flow::{Change, Decision, Origin};
use crate::domain::rule::{Rule, Rules, Scope};
use crate::domain::wire::{Permissions, Request, Response};
use crate::repl::core::agent_gone;
use crate::repl::json::{agent_as_json, approvals_as_json, describe, question_id, terminal_as_json};
use crate::repl::{Repl, Turn, rules};

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
            let answer = self.apply_request(client, request);
            // The next request finds all effects of this one applied.
            self.apply_effects();
            let (response, turn) = match answer {
                Ok(Answer::Later) => continue,
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

    fn apply_request(&mut self, client: ClientId, request: Request) -> Result<Answer> {
        match request {
            Request::Stop => return Ok(Answer::Exit),
            Request::Attach { agent, is_read_only, terminal } => {
                self.attached().attach(client, agent.as_deref(), is_read_only, &terminal)?;
            }
            Request::Logs { agent, from, last, follows } => {
                self.server.begin_logs(&mut self.core, client, &agent, (from.as_ref(), last), follows)?;
            }
            Request::Turn { agent, text, max_requests, approval } => {
                let approval = approval.as_deref().map(str::parse).transpose()?;
                self.begin_client_turn(client, &agent, text, (max_requests, approval))?;
            }
            Request::Cut => {
                if let Some(agent) = self.server.cancel_turn(&mut self.core, client)? {
                    self.apply_change(Origin::Internal, agent, Change::Interrupt)?;
                }
            }
            Request::Wait { agent, seconds } => {
                self.server.begin_wait(&mut self.core, client, &agent, seconds)?;
            }
            other => return self.answer(other).map(Answer::Now),
        }
        Ok(Answer::Later)
    }

    /// Carries out a request that is answered at once.
    fn answer(&mut self, request: Request) -> Result<Value> {
        Ok(match request {
            Request::Agents => self.core.roster.iter().map(|agent| agent_as_json(&self.core, agent)).collect(),
            Request::Sessions => {
                let terminals = self.terminals.ids().into_iter().filter_map(|id| Some((id, self.terminals.get(id)?)));
                terminals.map(|(id, terminal)| terminal_as_json(&self.core, id, terminal)).collect()
            }
            Request::Status => self.status_as_json(),
            Request::New { name, model, permissions } => {
                let permissions = permissions_of(permissions)?;
                let id = self.create(name.as_deref(), model.as_deref())?;
                rules::set_permissions(&mut self.core, id, permissions)?;
                describe(&self.core, id)?
            }
            Request::Show { agent: Some(agent) } => {
                describe(&self.core, agent_called_by_script(&self.core.roster, &agent)?)?
            }
            Request::Show { agent: None } => describe(&self.core, self.core.last_addressed()?)?,
            Request::Model { agent, model } => self.change_named(&agent, |_| Change::Model(model))?,
            Request::Send { agent, text } => self.submit_named(&agent, text)?,
            Request::Kill { agent, descendants: true, .. } => self.change_named(&agent, Change::KillDescendants)?,
            Request::Kill { agent, cascade, .. } => {
                self.change_named(&agent, |agent_id| Change::Kill { agent_id, cascade })?
            }
            Request::StopAgents => json!({"stopped": self.stop_agents(None)?}),
            Request::Interrupt { agent } => self.interrupt_named(&agent)?,
            Request::Approvals => approvals_as_json(&self.core),
            Request::Answer { id, allow: false, reason, .. } => {
                self.answer_question(&id, &[], Decision::Deny(reason))?
            }
            Request::Answer { id, rules, .. } => {
                let decision = if rules.is_empty() { Decision::Allow } else { Decision::Always(Scope::Project) };
                self.answer_question(&id, &rules, decision)?
            }
            Request::Stop
            | Request::Attach { .. }
            | Request::Logs { .. }
            | Request::Turn { .. }
            | Request::Cut
            | Request::Wait { .. } => unreachable!("not answered at once"),
            Request::Keys { .. } | Request::Size { .. } | Request::Redraw => {
                unreachable!("the server hands these out for attached terminals only")
            }
        })
    }

    fn change_named(&mut self, agent: &str, change: impl FnOnce(AgentId) -> Change) -> Result<Value> {
        let agent = agent_called_by_script(&self.core.roster, agent)?;
        self.apply_change(Origin::Internal, agent, change(agent)).map(|()| Value::Null)
    }

    /// Text for the model, and never a command: not even where it begins with a slash.
    fn submit_named(&mut self, agent: &str, text: String) -> Result<Value> {
        let agent = agent_called_by_script(&self.core.roster, agent)?;
        require_text(&text)?;
        self.apply_change(Origin::Internal, agent, Change::Submit(text))?;
        let queued = self.core.roster.get(agent).ok_or_else(agent_gone)?.queue.len();
        Ok(json!({"queued": queued}))
    }

    /// Like [`Repl::submit_named`]; the client also gets the chunks of the turn.
    fn begin_client_turn(
        &mut self,
        client: ClientId,
        agent: &str,
        text: String,
        (max_requests, approval): (Option<u32>, Option<Policy>),
    ) -> Result<()> {
        let agent = agent_called_by_script(&self.core.roster, agent)?;
        require_text(&text)?;
        self.require_policy(agent, approval)?;
        // The questions of a turn of a client are refused at once.
        if !self.server.has_turn_of(agent) {
            self.require_answered(agent)?;
        }
        let approval = approval.unwrap_or(Policy::Never);
        self.server.begin_turn(&mut self.core, client, agent, (max_requests, approval));
        let outcome = self.apply_change(Origin::Client(client), agent, Change::Submit(text));
        if outcome.is_err() {
            self.server.forget_turn(&mut self.core, client);
        }
        outcome
    }

    /// Fails if a client names more than an agent may do: only a person may give it more.
    fn require_policy(&self, agent: AgentId, wanted: Option<Policy>) -> Result<()> {
        let agent = self.core.roster.get(agent).ok_or_else(agent_gone)?;
        let (label, has) = (agent.identity.label(), agent.policy);
        match wanted.filter(|wanted| *wanted > has && *wanted != Policy::Ask) {
            Some(wanted) => Err(Error::usage(format!(
                "--approval {wanted} is more than {label} may do (policy {has}): set it there with /approval {wanted}, or \
                 leave out --continue and --resume for a new agent"
            ))),
            None => Ok(()),
        }
    }

    fn interrupt_named(&mut self, agent: &str) -> Result<Value> {
        let agent = agent_called_by_script(&self.core.roster, agent)?;
        let is_busy = |agent: &Agent| agent.state() != State::Idle || agent.summaries() > 0;
        let is_interrupted = self.core.roster.get(agent).is_some_and(is_busy);
        self.apply_change(Origin::Internal, agent, Change::Interrupt)?;
        Ok(json!({"interrupted": is_interrupted}))
    }

    /// An error if no question with this id is open: it was answered, or never asked, or its text was another one.
    /// `rules` are given with the answer and must be those of the question.
    fn answer_question(&mut self, id: &str, rules: &[String], decision: Decision) -> Result<Value> {
        let found = self.core.roster.questions().find(|(agent, pending)| question_id(agent, pending) == id);
        let Some((agent, pending)) = found else {
            return Err(Error::usage(format!(
                "no open question {id:?}: polylogue approvals lists those that are open"
            )));
        };
        let offered = &pending.question.ways.rules;
        let is_offered = rules.len() == offered.len() && offered.iter().all(|rule| rules.contains(&rule.to_string()));
        if !rules.is_empty() && !is_offered {
            let message =
                format!("these are not the rules of the question: polylogue approve {id} --always prints them");
            return Err(Error::usage(message));
        }
        let (agent, question) = (agent.id(), pending.number);
        self.apply_change(Origin::Internal, agent, Change::Answer { question, decision }).map(|()| Value::Null)
    }

    fn status_as_json(&self) -> Value {
        let usage = process::usage();
        json!({
            "process": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "memory": usage.memory,
            "descriptors": usage.descriptors,
            "threads": usage.threads,
            "agents": self.core.roster.len(),
            "clients": self.server.client_count(),
        })
    }
}

/// The policy and the rules that a client names for a new agent.
fn permissions_of(named: Permissions) -> Result<(Policy, Rules)> {
    let policy = named.approval.as_deref().map_or(Ok(Policy::Never), str::parse)?;
    let parse = |texts: Vec<String>, option: &str| -> Result<Vec<Rule>> {
        texts.iter().map(|text| text.parse().map(|rule: Rule| rule.from_source(&option))).collect()
    };
    let (allow, deny) = (parse(named.allow, "--allow")?, parse(named.deny, "--deny")?);
    // A client cannot ask anybody.
    let policy = if policy == Policy::Ask { Policy::Never } else { policy };
    Ok((policy, Rules { allow, ask: Vec::new(), deny }))
}

fn require_text(text: &str) -> Result<()> {
    if text.trim().is_empty() { Err(Error::usage("nothing to send: the text is empty")) } else { Ok(()) }
}
