//! Starts runs and their members. A member is created when it is first started, so that a run that ends early creates no
//! more agents than it needs.

use std::collections::BTreeMap;

use crate::agent::State;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::commands;
use crate::domain::message::Body;
use crate::domain::thinking::Thinking;
use crate::provider::thinking_for;
use crate::repl::Repl;
use crate::repl::apply::agent_gone;
use crate::repl::team::{Assignment, AttemptOutput, Run, RunId};
use crate::store::{Forked, Found, NewAgent, NewRun};
use crate::team::AgentFactory;
use crate::team::coordinator::member::Member;
use crate::team::coordinator::settings::{Settings, Strategy};
use crate::team::coordinator::task::{MemberId, Task};
use crate::team::coordinator::workflow::Workflow;

/// The most characters of a member's name in the name of its agent, which has at most 32 and may need a number.
const NAME_CHARACTERS: usize = 26;

pub(super) enum Work<'a> {
    /// In the order of the strategy.
    Members(Vec<Member>),
    /// The steps of a workflow.
    Workflow(&'a Workflow),
}

impl Repl {
    /// Stores and starts a run; its first steps follow in the next turn.
    pub(super) fn begin_run(
        &mut self,
        origin: AgentId,
        fork_point: Option<MessageId>,
        work: Work<'_>,
        text: &str,
        settings: Settings,
    ) -> Result<RunId> {
        self.require_writing()?;
        self.roster.get(origin).filter(|_| !self.is_summary_job(origin)).ok_or_else(agent_gone)?;
        let (id, now) = (RunId::random(), self.shared.clock.now());
        let Settings { strategy, aggregation, retry, ref judge, .. } = settings;
        let (judge, is_workflow) = (judge.clone(), matches!(work, Work::Workflow(_)));
        let task = match work {
            Work::Members(members) => Task::new(id.as_str(), text, members, settings, now)?,
            Work::Workflow(workflow) => Task::of_workflow(id.as_str(), text, workflow, settings, now)?,
        };
        let models = task.members().iter().filter_map(|member| member.model.as_deref());
        for model in models.chain(judge.as_deref()) {
            self.shared.factory.endpoint(model)?;
        }
        let new = NewRun {
            run: id.as_str(),
            origin,
            task: text,
            strategy: if is_workflow { "workflow" } else { strategy.name() },
            aggregation: aggregation.name(),
            keeps_members: fork_point.is_some(),
        };
        self.shared.store.begin_run(&new, self.shared.clock.unix_ms())?;
        self.team.runs.push(Run {
            id: id.clone(),
            task,
            origin,
            fork_point,
            pipeline: (!is_workflow && strategy == Strategy::Pipeline).then_some(None),
            is_interrupted: false,
            retry,
            agents: BTreeMap::new(),
            done: 0,
            is_ready: true,
            wait: None,
            events: Vec::new(),
            outcome: None,
        });
        self.count_tasks(origin);
        Ok(id)
    }

    /// Starts the first or a further attempt of a member.
    pub(super) fn start_member(&mut self, run: &RunId, member_id: MemberId, prompt: &str, attempt: u32) {
        let known = self.team.run(run).and_then(|run| run.agents.get(&member_id).copied());
        let asked = match known {
            Some(agent) => self.retry_member(agent, prompt),
            None => self.start_first_attempt(run, member_id, prompt),
        };
        if let Err(error) = asked {
            // The user may be talking with the agent for a moment; other errors do not go away.
            let is_retryable = known.is_some() && attempt > 1 && error.kind == ErrorKind::Usage;
            let now = self.shared.clock.now();
            self.team.with_task(run, now, |task, context| task.on_failure(member_id, &error, is_retryable, context));
        }
    }

    fn start_first_attempt(&mut self, run: &RunId, member_id: MemberId, prompt: &str) -> Result<()> {
        let agent = self.create_member(run, member_id)?;
        let before = self.shared.store.last_own_message(agent)?;
        let assignment = Assignment { run: run.clone(), member_id, before, output: AttemptOutput::default() };
        self.team.assignments.insert(agent, assignment);
        self.mail_input(run, agent, prompt);
        self.submit(None, agent, prompt.to_owned())
    }

    /// In a pipeline the input of a stage is also mail from the previous one, marked as read. The stage works without it if it
    /// cannot be delivered.
    fn mail_input(&mut self, run: &RunId, agent: AgentId, input: &str) {
        if let Some(from) = self.team.run(run).and_then(|run| run.pipeline.flatten()) {
            let delivered = self.send_mail(from, agent, input);
            drop(delivered.and_then(|id| self.take_mail(agent, Some(id))));
        }
    }

    /// Removes the failed attempt from the conversation and sends the prompt again.
    fn retry_member(&mut self, agent: AgentId, prompt: &str) -> Result<()> {
        let assignment = self.team.assignments.get_mut(&agent).ok_or_else(agent_gone)?;
        assignment.output = AttemptOutput::default();
        let before = assignment.before;
        if self.roster.get(agent).is_some_and(|agent| agent.state() != State::Idle || !agent.queue.is_empty()) {
            return Err(Error::new(ErrorKind::Usage, "in use by the user"));
        }
        self.log_event(agent, Body::Rewind(before))?;
        self.submit(None, agent, prompt.to_owned())
    }

    /// Creates the agent of a member as a child of the origin.
    fn create_member(&mut self, run: &RunId, member_id: MemberId) -> Result<AgentId> {
        let Run { task, origin, fork_point, .. } = self.team.run(run).ok_or_else(agent_gone)?;
        let (member, origin, fork_point) =
            (task.member(member_id).clone(), *origin, fork_point.filter(|_| member_id != MemberId::Judge));
        let parent = self.roster.get(origin).ok_or_else(agent_gone)?;
        let endpoint = match &member.model {
            Some(model) => self.shared.factory.endpoint(model)?,
            None => parent.talk.endpoint.clone(),
        };
        let new = NewAgent {
            id: AgentId::random(),
            name: Some(self.free_name(&member.name)?),
            parent: origin,
            fork_point: fork_point.unwrap_or_default(),
            endpoint: Some(endpoint.full_name()),
            environment: Some(parent.talk.environment.spec.clone()),
        };
        let before = parent.talk.thinking;
        let thinking = thinking_for(&endpoint, before);
        let forked =
            self.store_member(run, &new, &member, fork_point.is_some(), (thinking != before).then_some(thinking))?;
        let child = self.roster.with(origin, |parent| {
            parent.emit_logged(&forked.in_parent.body);
            parent.remember(vec![forked.in_parent]);
            // The history is loaded from the store: the origin may have continued since the run started.
            let mut child = AgentFactory::fork(parent, &forked.row, endpoint, None);
            child.talk.thinking = thinking;
            child.talk.has_tools = member_id != MemberId::Judge;
            child.talk.system = member.role.map_or_else(|| child.talk.system.clone(), Into::into);
            child
        });
        self.roster.add(child.ok_or_else(agent_gone)?, Some(origin));
        if let Some(run) = self.team.run_mut(run) {
            run.agents.insert(member_id, new.id);
        }
        Ok(new.id)
    }

    /// Stores a new member in one transaction.
    fn store_member(
        &mut self,
        run: &RunId,
        new: &NewAgent,
        member: &Member,
        fork_point: bool,
        thinking: Option<Thinking>,
    ) -> Result<Forked> {
        self.together(|repl| {
            let (store, now) = (&repl.shared.store, repl.shared.clock.unix_ms());
            let forked = if fork_point { store.fork(new, now)? } else { store.slice(new, Vec::new(), now)? };
            if let Some(thinking) = thinking {
                store.set_thinking(new.id, Some(&thinking.to_string()))?;
            }
            if let Some(role) = &member.role {
                store.set_system(new.id, Some(role))?;
            }
            store.join_run(new.id, run.as_str())?;
            Ok(forked)
        })
    }

    /// A free agent name: that of the member, adapted, with a number if it is taken.
    fn free_name(&self, member: &str) -> Result<String> {
        let letters = member.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '-' });
        let plain: String = letters.take(NAME_CHARACTERS).collect();
        let plain = plain.trim_start_matches(|c: char| !c.is_alphabetic());
        let stem = if plain.is_empty() { "member" } else { plain };
        let names = (1_u64..).map(|n| if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") });
        for name in names.filter(|name| commands::checked_name(name).is_ok()) {
            if matches!(self.shared.store.find(&name)?, Found::None) {
                return Ok(name);
            }
        }
        unreachable!("there is no end of numbers")
    }
}
