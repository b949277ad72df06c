//! Starts runs and their members. A member is created when it is first started, so that a run that ends early creates no
//! more agents than it needs.

use crate::agent::{Role, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::commands;
use crate::domain::called::Found;
use crate::domain::config::RetryPolicy;
use crate::domain::flow::Origin;
use crate::repl::coordinator::{Assignment, AttemptOutput, Coordinator, Run, RunId};
use crate::repl::core::queue::retry_turn;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::core::{Core, agent_gone, model};
use crate::store::NewRun;
use crate::team::coordinator::member::Member;
use crate::team::coordinator::plan::{Plan, Work};
use crate::team::coordinator::settings::{Settings, Strategy};
use crate::team::coordinator::task::{MemberId, Task};

/// The most characters of a member's name in the name of its agent, which has at most 32 and may need a number.
const NAME_CHARACTERS: usize = 26;

/// For whom a run works.
pub(super) struct RunOrigin {
    pub agent: AgentId,
    /// For a run in a chat: the last message that the members inherit.
    pub fork_point: Option<MessageId>,
    pub wanted_by: Origin,
}

/// The members' work, if all their models are configured.
fn plan_task(core: &mut Core, run: &RunId, origin: AgentId, plan: Plan) -> Result<Task> {
    let Plan { task: text, work, settings } = plan;
    let agent = core.agent(origin).filter(|agent| agent.role != Role::Summary).ok_or_else(agent_gone)?;
    let usual_model = agent.usual_endpoint().full_name();
    let (now, judge) = (core.now(), settings.judge.clone());
    let environment = agent.inputs.environment.clone();
    let provider = agent.usual_endpoint().provider.clone();
    // The model of a definition counts before the usual one.
    let define = |member: &mut Member| -> Result<()> {
        let Some(name) = &member.agent else { return Ok(()) };
        let definition = environment.definition(name).map_err(Error::usage)?;
        member.model = member.model.take().or_else(|| definition.model_beside(&provider).map(str::to_owned));
        Ok(())
    };
    let task = match work {
        Work::Members(mut members) => {
            members.iter_mut().try_for_each(define)?;
            Task::new(run.as_str(), &text, members, settings, now)?
        }
        Work::Workflow(mut workflow) => {
            workflow.steps.iter_mut().try_for_each(|step| define(&mut step.member))?;
            Task::of_workflow(run.as_str(), &text, &workflow, settings, now)?
        }
    };
    let task = task.with_usual_model(usual_model);
    let models = task.members().iter().filter_map(|member| member.model.as_deref());
    for model in models.chain(judge.as_deref()) {
        model::endpoint(core, model)?;
    }
    Ok(task)
}

impl Coordinator {
    /// Stores and starts a run; its first steps follow in the next turn.
    pub(super) fn begin_run(&mut self, core: &mut Core, run_origin: RunOrigin, plan: Plan) -> Result<RunId> {
        core.require_writable()?;
        let Settings { strategy, aggregation, retry, .. } = plan.settings;
        let is_workflow = matches!(plan.work, Work::Workflow(_));
        let (id, text) = (RunId::random(), plan.task.clone());
        let task = plan_task(core, &id, run_origin.agent, plan)?;
        let new = NewRun {
            run: id.as_str(),
            origin: run_origin.agent,
            task: &text,
            strategy: if is_workflow { "workflow" } else { strategy.name() },
            aggregation: aggregation.name(),
            keeps_members: run_origin.fork_point.is_some(),
        };
        core.store().begin_run(&new, core.clock().unix_ms())?;
        let pipeline = (!is_workflow && strategy == Strategy::Pipeline).then_some(None);
        let origin = run_origin.agent;
        self.runs.push(Run::new(id.clone(), task, run_origin, pipeline, retry));
        self.publish_progress(core, origin);
        Ok(id)
    }

    /// Starts the first or a further attempt of a member.
    pub(super) fn start_member(
        &mut self,
        core: &mut Core,
        run: &RunId,
        member_id: MemberId,
        prompt: &str,
        attempt: u32,
    ) {
        let known = self.run(run).and_then(|run| run.agents.get(&member_id).copied());
        let outcome = match known {
            Some(agent) => self.retry_member(core, agent),
            None => self.start_first_attempt(core, run, member_id, prompt),
        };
        if let Err(error) = outcome {
            // The user may be talking with the agent for a moment; other errors do not go away.
            let is_retryable = known.is_some() && attempt > 1 && error.kind == ErrorKind::Usage;
            let now = core.now();
            self.with_task(run, now, |task, context| task.on_failure(member_id, &error, is_retryable, context));
        }
    }

    fn start_first_attempt(&mut self, core: &mut Core, run: &RunId, member_id: MemberId, prompt: &str) -> Result<()> {
        let agent = self.create_member(core, run, member_id)?;
        let assignment = Assignment { run: run.clone(), member_id, output: AttemptOutput::default() };
        self.assignments.insert(agent, assignment);
        self.mail_input(core, run, agent, prompt);
        core.begin_turn(Origin::Internal, agent, prompt.to_owned())
    }

    /// In a pipeline the input of a stage is also mail from the previous one, marked as read. The stage works without it if it
    /// cannot be delivered.
    fn mail_input(&self, core: &mut Core, run: &RunId, agent: AgentId, input: &str) {
        if let Some(from) = self.run(run).and_then(|run| run.pipeline.flatten()) {
            let delivered = core.send_mail(from, agent, input);
            drop(delivered.and_then(|id| core.read_mail(agent, Some(id))));
        }
    }

    /// Tries the failed attempt again from its last complete point.
    fn retry_member(&mut self, core: &mut Core, agent: AgentId) -> Result<()> {
        let assignment = self.assignments.get_mut(&agent).ok_or_else(agent_gone)?;
        assignment.output = AttemptOutput::default();
        if core.agent(agent).is_some_and(|agent| agent.state() != State::Idle || !agent.queue.is_empty()) {
            return Err(Error::usage("in use by the user"));
        }
        retry_turn(core, Origin::Internal, agent)
    }

    /// Creates the agent of a member as a child of the origin.
    fn create_member(&mut self, core: &mut Core, run: &RunId, member_id: MemberId) -> Result<AgentId> {
        let Run { task, origin, wanted_by, fork_point, retry, .. } = self.run(run).ok_or_else(agent_gone)?;
        let (member, retry) = (task.member(member_id).clone(), *retry);
        let inherited = fork_point.filter(|_| member_id != MemberId::Judge);
        let name = free_name(core, &member.name)?;
        let spec = Spawn {
            name: Some(name.clone()),
            model: member.model,
            system: member.role,
            definition: member.agent,
            role: Role::Member,
            retry: Some(RetryPolicy { retries: Some(0), ..retry }),
            has_tools: member_id != MemberId::Judge,
            run: Some(run.as_str().to_owned()),
            ..Spawn::new(*origin, origin_of_members(*wanted_by), inherited.map_or(Inherit::Nothing, Inherit::UpTo))
        };
        let agent = core.spawn(spec)?;
        if let Some(run) = self.run_mut(run) {
            run.agents.insert(member_id, agent);
            run.names.insert(member.name, name);
        }
        Ok(agent)
    }
}

/// A free agent name: that of the member, adapted, with a number if it is taken.
fn free_name(core: &Core, member: &str) -> Result<String> {
    let allowed = member.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '-' });
    let plain: String = allowed.take(NAME_CHARACTERS).collect();
    let plain = plain.trim_start_matches(|c: char| !c.is_alphabetic());
    let stem = if plain.is_empty() { "member" } else { plain };
    let names = (1_u64..).map(|n| if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") });
    for name in names.filter(|name| commands::checked_name(name).is_ok()) {
        if matches!(core.store().find(&name)?, Found::None) {
            return Ok(name);
        }
    }
    unreachable!("there is no end of numbers")
}

/// No terminal follows a member.
fn origin_of_members(wanted_by: Origin) -> Origin {
    if let Origin::Agent(_) = wanted_by { wanted_by } else { Origin::Internal }
}
