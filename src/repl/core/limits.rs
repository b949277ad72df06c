//! The limits of trees of agents: what is compared, counted, stored, and what a person is told.

use crate::agent::{Agent, Objection, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::commands::TwoColumns;
use crate::domain::config::Config;
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::Origin;
use crate::domain::limits::{LimitName, LimitValue, MadeBy, SetLimit};
use crate::domain::message::Body;
use crate::domain::scrollback::LineKind;
use crate::repl::core::{Core, agent_gone};
use crate::repl::event::Event;
use crate::team::{MINUTE, Reached, Trees, tree_path};
use crate::tools::{Answers, Question};

impl Core {
    /// Who makes an agent that is created for this origin.
    pub(super) fn made_by(origin: Origin, is_member: bool) -> MadeBy {
        match origin {
            Origin::Agent(_) => MadeBy::Model,
            _ if is_member => MadeBy::Run,
            _ => MadeBy::Person,
        }
    }

    /// The limit that does not allow a model to make one more child of this agent.
    pub(in crate::repl) fn creation_limit(&self, parent: AgentId) -> Option<Reached> {
        self.trees.check_creation(&self.roster, parent, self.clock.unix_ms())
    }

    /// Fails if a limit does not allow this child.
    pub(super) fn require_creation(&self, parent: AgentId, made_by: MadeBy, endpoint: &Endpoint) -> Result<()> {
        if made_by == MadeBy::Model
            && let Some(reached) = self.creation_limit(parent)
        {
            return Err(Error::new(ErrorKind::Limit, self.limit_message(&reached)));
        }
        if !made_by.is_top() { self.require_price(parent, endpoint) } else { Ok(()) }
    }

    /// Fails if the agent's dollars are limited and nobody knows what this model costs.
    pub(in crate::repl) fn require_price(&self, agent: AgentId, endpoint: &Endpoint) -> Result<()> {
        if endpoint.facts.prices.is_some() || !self.trees.limits_money(&self.roster, agent) {
            return Ok(());
        }
        let (model, setting) = (endpoint.full_name(), LimitName::Usd.setting());
        let message = format!(
            "{setting} limits what this agent may spend, and the price of {model} is unknown: give the model \
             input_price and output_price in the configuration"
        );
        Err(Error::new(ErrorKind::Usage, message))
    }

    /// Says which limit was reached, of whose tree, and how it is raised.
    pub(in crate::repl) fn limit_message(&self, reached: &Reached) -> String {
        let Reached { agent, name, most } = reached;
        let (label, about, value) = (self.label_of(*agent), name.about(), name.shown(*most));
        let (typed, setting) = (self.limit_command(reached), name.setting());
        format!(
            "limit reached in the tree of {label}: {value} {about}; {typed} raises it, or {setting} in the \
                 configuration"
        )
    }

    /// What an agent does whose request is held back.
    pub(super) fn describe_hold(&self, reached: &Reached) -> String {
        format!("held at the limit of {} {}", reached.name.shown(reached.most), reached.name.about())
    }

    /// The command with which a person raises a limit.
    fn limit_command(&self, reached: &Reached) -> String {
        let number = self.roster.get(reached.agent).map_or(0, |agent| agent.identity.ordinal);
        format!("/limit {number} {} N", reached.name.name())
    }

    /// What the model is told whose call a limit does not allow.
    pub(in crate::repl) fn limit_message_for_model(&self, reached: &Reached) -> String {
        let Reached { agent, name, most } = reached;
        let (label, about, value) = (self.label_of(*agent), name.about(), name.shown(*most));
        format!(
            "limit reached: at most {value} {about} below {label}. No agent was created. Do not try again; work with \
             the agents that exist, or end those that are no longer needed"
        )
    }

    /// The question about a limit that a call has reached.
    pub(in crate::repl) fn limit_objection(&self, reached: &Reached) -> Objection {
        let Reached { agent, name, most } = reached;
        let label = self.label_of(*agent);
        let raised = self.trees.raised(&self.roster, reached).most.map(|most| name.shown(most)).unwrap_or_default();
        let title = format!("raise the limit from {} to {raised}", name.shown(*most));
        let detail = vec![
            format!("limit reached in the tree of {label}: {} {}", name.shown(*most), name.about()),
            format!("yes raises it to {raised} ({} sets another one)", self.limit_command(reached)),
            format!("no stops {label} and all agents that models made below it"),
        ];
        let answers = Answers { ask: "Raise this limit? ", yes: "raise it", no: "stop these agents" };
        let question = Question { answers, ..Question::new(title, detail) };
        Objection { question, refusal: self.limit_message_for_model(reached) }
    }

    /// The limit that holds back this agent's next request. A retry belongs to a request that was allowed.
    pub(in crate::repl) fn request_limit(&self, agent: AgentId) -> Option<Reached> {
        if !self.is_first_try(agent) {
            return None;
        }
        self.trees.check_request(&self.roster, agent, self.clock.unix_ms())
    }

    /// Holds an agent back, out of the send queue, so that no other agent waits for it. The person is told once.
    pub(in crate::repl) fn hold(&mut self, agent: AgentId, reached: Reached) {
        self.roster.leave_send_queue(agent);
        self.trees.hold(agent, reached);
        if self.trees.begin_to_ask(&reached) {
            self.trees.close_question(&reached);
            // A summary agent is on no screen.
            let place = tree_path(&self.roster, agent).first().copied().unwrap_or(agent);
            self.note(place, LineKind::Error, &format!("{}; /stop ends its work", self.limit_message(&reached)));
        }
        self.roster.with(agent, |agent| agent.view.touch());
    }

    /// Sets a limit of an agent, `None`: removes what was set. Agents that it held back go on if it allows it.
    ///
    /// # Errors
    /// The price of a model is not known, or the store cannot be written; nothing has changed then.
    pub(in crate::repl) fn set_limit(
        &mut self,
        agent: AgentId,
        name: LimitName,
        limit: Option<SetLimit>,
    ) -> Result<()> {
        self.store.set_limit(agent, name, limit)?;
        self.trees.set(agent, name, limit);
        self.emit(Event::LimitChanged);
        self.release_held();
        Ok(())
    }

    /// Sets a limit that a person typed: a budget counts from now on.
    ///
    /// # Errors
    /// As for [`Core::set_limit`], or the agent is gone, or the price of its model is not known.
    pub(in crate::repl) fn set_typed_limit(
        &mut self,
        agent: AgentId,
        name: LimitName,
        value: LimitValue,
    ) -> Result<()> {
        let endpoint = self.roster.get(agent).ok_or_else(agent_gone)?.talk.endpoint.clone();
        let most = match value {
            LimitValue::Most(most) => Some(most),
            LimitValue::None => None,
            LimitValue::Default => return self.set_limit(agent, name, None),
        };
        if name == LimitName::Usd && most.is_some() && endpoint.facts.prices.is_none() {
            let message = format!(
                "the price of {} is unknown, so its dollars cannot be limited: give the model input_price and \
                 output_price in the configuration",
                endpoint.full_name()
            );
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let limit = self.trees.starting_now(agent, name, most, self.clock.unix_ms());
        self.set_limit(agent, name, Some(limit))
    }

    /// The limits of an agent, with what counts against them, for a screen of so many columns.
    ///
    /// # Errors
    /// The agent is gone.
    pub(in crate::repl) fn describe_limits(&self, agent: AgentId, columns: Option<usize>) -> Result<String> {
        let label = self.roster.get(agent).ok_or_else(agent_gone)?.identity.label();
        let now = self.clock.unix_ms();
        let mut list = TwoColumns::new(31);
        for name in LimitName::ALL {
            let used = name.shown_used(self.trees.used(&self.roster, agent, name, now));
            let most = self.trees.limit(&self.roster, agent, name).most;
            let most = most.map_or_else(|| "no limit".into(), |most| format!("of {}", name.shown(most)));
            list.row(format!("  {:<10} {used:>8} {most}", name.name()), name.about());
        }
        Ok(format!("limits of {label} and of what models make below it:\n{}", list.to_text(columns)))
    }

    /// Doubles a limit that was reached.
    ///
    /// # Errors
    /// As for [`Core::set_limit`].
    pub(in crate::repl) fn raise_limit(&mut self, reached: &Reached) -> Result<()> {
        let limit = self.trees.raised(&self.roster, reached);
        self.set_limit(reached.agent, reached.name, Some(limit))
    }

    fn release_held(&mut self) {
        for agent in self.trees.take_released(&self.roster, self.clock.unix_ms()) {
            let waits = |agent: &Agent| agent.state() == State::WaitingForLlm;
            if self.roster.get(agent).is_some_and(waits) {
                self.roster.queue_for_slot(agent);
                self.roster.with(agent, |agent| agent.view.touch());
            }
        }
    }

    /// Counts what these messages of an agent say that a request used.
    pub(in crate::repl) fn count_spent(&mut self, agent: AgentId, bodies: &[Body]) {
        for body in bodies {
            if let Body::Usage(usage) = body {
                self.trees.count_usage(&self.roster, agent, usage);
            }
        }
    }

    /// An agent began or ended its work.
    pub(in crate::repl) fn count_work(&mut self, agent: AgentId, from: State, to: State) {
        let now = self.clock.unix_ms();
        match (from, to) {
            (State::Idle, _) => self.trees.on_busy(&self.roster, agent, now),
            (_, State::Idle) => self.trees.on_idle(&self.roster, agent, now),
            _ => {}
        }
    }

    /// Reads the stored limits and counts at the start.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(in crate::repl) fn restore_limits(&mut self) -> Result<()> {
        let now = self.clock.unix_ms();
        let stored = self.store.load_limits(now - MINUTE)?;
        let Config { tree_limits, counts_usd_from_start, .. } = self.config;
        self.trees = Trees::new(tree_limits, counts_usd_from_start, stored, &self.roster, now);
        Ok(())
    }

    /// Stores what was counted since the last call, in one transaction. What cannot be stored is counted in memory only.
    pub(in crate::repl) fn save_spent(&mut self) {
        let changed = self.trees.take_changed();
        if !changed.is_empty() && !self.store.is_read_only() {
            drop(self.store.set_spent(&changed));
        }
    }
}
