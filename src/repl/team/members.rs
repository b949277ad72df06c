//! How a run begins, and how its members come to be: each when it is first asked, so that a run which is decided early
//! has made no more agents than it needed.

use std::collections::BTreeMap;

use crate::agent::{Role, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::commands;
use crate::domain::config::RetryPolicy;
use crate::domain::flow::Origin;
use crate::domain::message::Body;
use crate::repl::Repl;
use crate::repl::core::agent_gone;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::team::{Heard, Part, Run, RunId};
use crate::store::{Found, NewRun};
use crate::team::coordinator::member::Member;
use crate::team::coordinator::settings::{Settings, Strategy};
use crate::team::coordinator::task::{Task, Who};
use crate::team::coordinator::workflow::Workflow;

/// Characters of a member's name that its agent takes over: a number may have to stand behind them, and an agent's name
/// has 32.
const NAME_CHARACTERS: usize = 26;

/// Who is to work.
pub(super) enum Work<'a> {
    /// These, in the order that the settings say.
    Members(Vec<Member>),
    /// The steps of this, in its order.
    Workflow(&'a Workflow),
}

impl Repl {
    /// A run begins with the next turn of the loop.
    pub(super) fn begin_run(
        &mut self,
        origin: AgentId,
        knows: Option<MessageId>,
        work: Work<'_>,
        text: &str,
        settings: Settings,
    ) -> Result<RunId> {
        self.core.require_writable()?;
        self.core.roster.get(origin).filter(|agent| agent.role != Role::Summary).ok_or_else(agent_gone)?;
        let (id, now) = (RunId::random(), self.core.clock.now());
        let Settings { strategy, aggregation, retry, ref judge, .. } = settings;
        let (judge, is_workflow) = (judge.clone(), matches!(work, Work::Workflow(_)));
        let task = match work {
            Work::Members(members) => Task::new(id.as_str(), text, members, settings, now)?,
            Work::Workflow(workflow) => Task::of_workflow(id.as_str(), text, workflow, settings, now)?,
        };
        let models = task.members().iter().filter_map(|member| member.model.as_deref());
        for model in models.chain(judge.as_deref()) {
            self.core.factory.endpoint(model)?;
        }
        let new = NewRun {
            run: id.as_str(),
            origin,
            task: text,
            strategy: if is_workflow { "workflow" } else { strategy.name() },
            aggregation: aggregation.name(),
            keeps_members: knows.is_some(),
        };
        self.core.store.begin_run(&new, self.core.clock.unix_ms())?;
        self.team.runs.push(Run {
            id: id.clone(),
            task,
            origin,
            knows,
            pipeline: (!is_workflow && strategy == Strategy::Pipeline).then_some(None),
            is_interrupted: false,
            retry,
            agents: BTreeMap::new(),
            over: 0,
            has_news: true,
            wait: None,
            events: Vec::new(),
            outcome: None,
        });
        self.count_tasks(origin);
        Ok(id)
    }

    /// One is asked: for the first time, or again.
    pub(super) fn start_member(&mut self, run: &RunId, agent_id: Who, prompt: &str, attempt: u32) {
        let known = self.team.run(run).and_then(|run| run.agents.get(&agent_id).copied());
        let asked = match known {
            Some(agent) => self.ask_again(agent, prompt),
            None => self.ask_first(run, agent_id, prompt),
        };
        if let Err(error) = asked {
            // Somebody else may talk with it just now; nothing else that went wrong here will be right soon.
            let is_retryable = known.is_some() && attempt > 1 && error.kind == ErrorKind::Usage;
            let now = self.core.clock.now();
            self.team.with_task(run, now, |task, context| task.on_failure(agent_id, &error, is_retryable, context));
        }
    }

    fn ask_first(&mut self, run: &RunId, agent_id: Who, prompt: &str) -> Result<()> {
        let agent = self.bear(run, agent_id)?;
        let before = self.core.store.last_own_message(agent)?;
        let part = Part { run: run.clone(), agent_id, before, heard: Heard::default() };
        self.team.parts.insert(agent, part);
        self.hand_on(run, agent, prompt);
        self.submit(Origin::Internal, agent, prompt.to_owned())
    }

    /// In a pipeline what a stage is told is a letter of the one before, too. It has read it already: nobody is to tell it
    /// of something unread. What no letter carries, or a store that refuses, does not keep it from its work.
    fn hand_on(&mut self, run: &RunId, agent: AgentId, letter: &str) {
        if let Some(from) = self.team.run(run).and_then(|run| run.pipeline.flatten()) {
            let delivered = self.core.send_mail(from, agent, letter);
            drop(delivered.and_then(|id| self.core.read_mail(agent, Some(id))));
        }
    }

    /// Nothing of what has failed is known to it: its message is taken back before it is told anew.
    fn ask_again(&mut self, agent: AgentId, prompt: &str) -> Result<()> {
        let part = self.team.parts.get_mut(&agent).ok_or_else(agent_gone)?;
        part.heard = Heard::default();
        let before = part.before;
        if self.core.roster.get(agent).is_some_and(|agent| agent.state() != State::Idle || !agent.queue.is_empty()) {
            return Err(Error::new(ErrorKind::Usage, "a person talks with it"));
        }
        let messages = self.core.append_event(agent, Body::Rewind(before))?;
        self.core.remember(agent, messages);
        self.submit(Origin::Internal, agent, prompt.to_owned())
    }

    /// The agent that is to play this member: a child of the asker.
    fn bear(&mut self, run: &RunId, agent_id: Who) -> Result<AgentId> {
        let Run { task, origin, knows, retry, .. } = self.team.run(run).ok_or_else(agent_gone)?;
        let (member, origin, retry) = (task.member(agent_id).clone(), *origin, *retry);
        let knows = knows.filter(|_| agent_id != Who::Judge);
        let spec = Spawn {
            name: Some(self.free_name(&member.name)?),
            model: member.model,
            system: member.role,
            role: Role::Member,
            retry: Some(RetryPolicy { retries: 0, ..retry }),
            has_tools: agent_id != Who::Judge,
            run: Some(run.as_str().to_owned()),
            ..Spawn::new(origin, Origin::Internal, knows.map_or(Inherit::Nothing, Inherit::UpTo))
        };
        let id = self.core.spawn(spec)?;
        if let Some(run) = self.team.run_mut(run) {
            run.agents.insert(agent_id, id);
        }
        Ok(id)
    }

    /// A name that nobody has: that of the member as far as an agent can be called so, with a number behind it where
    /// somebody is.
    fn free_name(&self, member: &str) -> Result<String> {
        let letters = member.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '-' });
        let plain: String = letters.take(NAME_CHARACTERS).collect();
        let plain = plain.trim_start_matches(|c: char| !c.is_alphabetic());
        let stem = if plain.is_empty() { "member" } else { plain };
        let names = (1_u64..).map(|n| if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") });
        for name in names.filter(|name| commands::checked_name(name).is_ok()) {
            if matches!(self.core.store.find(&name)?, Found::None) {
                return Ok(name);
            }
        }
        unreachable!("there is no end of numbers")
    }
}
