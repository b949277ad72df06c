//! The coordinator for programs that embed the loop. Runs make progress only in [`Repl::turn`].

use std::rc::Rc;

use serde_json::Value;

use crate::agent::{Agent, State};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, ClientId};
use crate::commands::agent_called;
use crate::domain::flow::Origin;
use crate::repl::Repl;
use crate::repl::coordinator::RunId;
use crate::repl::coordinator::members::RunOrigin;
use crate::repl::core::archive::archive_when_idle;
use crate::team::coordinator::event::Event;
use crate::team::coordinator::member::Member;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::plan::{Plan, Work};
use crate::team::coordinator::settings::Settings;
use crate::team::coordinator::workflow::Workflow;

impl Repl {
    /// Starts a task with these members. Each becomes an agent when it is first started: a child of `origin` that inherits
    /// nothing of its conversation and is removed when it is done; its conversation stays in the store. Killing `origin`
    /// interrupts the run.
    ///
    /// ```
    /// use polylogue::multi_agent::{Aggregation, Member, Settings, Strategy};
    /// # use polylogue::{Clock, Config, Repl, Store};
    ///
    /// # fn main() -> polylogue::Result<()> {
    /// # let mut repl = Repl::open(Config::default(), Store::in_memory()?, Clock::system())?;
    /// let root = repl.list()[0].id;
    /// let settings =
    ///     Settings { strategy: Strategy::Parallel, aggregation: Aggregation::Vote, ..Settings::default() };
    /// let run = repl.run_task(root, Member::list("ada,grace,emmy")?, "what is it?", settings)?;
    /// let outcome = loop {
    ///     repl.turn(None)?;
    ///     repl.take_events(&run).iter().for_each(|event| println!("{}", event.json_line(run.as_str())));
    ///     if let Some(outcome) = repl.outcome(&run) {
    ///         break outcome;
    ///     }
    /// };
    /// assert_eq!(outcome.answer.as_deref(), Some("what is it?")); // the default model repeats its input
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `origin` does not exist, the task is empty, a setting is out of bounds, a name is used twice, a model is not
    /// configured, or the store is read-only; then nothing has changed.
    pub fn run_task(&mut self, origin: AgentId, members: Vec<Member>, text: &str, settings: Settings) -> Result<RunId> {
        self.run_plan(origin, Plan { task: text.to_owned(), work: Work::Members(members), settings })
    }

    /// Starts a workflow, whose steps are the members. The strategy of the settings is ignored.
    ///
    /// # Errors
    /// As for [`Repl::run_task`].
    pub fn run_workflow(
        &mut self,
        origin: AgentId,
        workflow: &Workflow,
        text: &str,
        settings: Settings,
    ) -> Result<RunId> {
        self.run_plan(origin, Plan { task: text.to_owned(), work: Work::Workflow(workflow.clone()), settings })
    }

    fn run_plan(&mut self, agent: AgentId, plan: Plan) -> Result<RunId> {
        let origin = RunOrigin { agent, fork_point: None, wanted_by: Origin::Library };
        self.coordinator.begin_run(&mut self.core, origin, plan)
    }

    /// The events of a run since the last call; none for an unknown run.
    pub fn take_events(&mut self, run: &RunId) -> Vec<Event> {
        self.coordinator.run_mut(run).map(|run| std::mem::take(&mut run.events)).unwrap_or_default()
    }

    /// The outcome of a finished run. The last 32 are kept in memory; the store has all.
    pub fn outcome(&self, run: &RunId) -> Option<Rc<Outcome>> {
        self.coordinator.run(run)?.outcome.clone()
    }

    /// Ends a run with the answers that there are: its members are stopped in the next turn. A finished run stays as it is.
    pub fn interrupt_run(&mut self, run: &RunId) {
        let now = self.core.now();
        self.coordinator.interrupt(run, now);
    }
}

impl Repl {
    /// Starts the run of a client below an agent that was made for it.
    pub(in crate::repl) fn begin_client_run(&mut self, client: ClientId, agent: &str, plan: &Value) -> Result<()> {
        let id = agent_called(self.core.roster(), agent)?;
        let is_unused = |agent: &Agent| agent.identity.is_print_run && agent.state() == State::Idle;
        if !self.core.agent(id).is_some_and(is_unused) {
            return Err(Error::usage(format!("{agent} was not made for a run: create an agent with print_run first")));
        }
        let begun = self.begin_plan(client, id, plan);
        if begun.is_err() {
            archive_when_idle(&mut self.core, id);
        }
        begun
    }

    fn begin_plan(&mut self, client: ClientId, id: AgentId, plan: &Value) -> Result<()> {
        let plan = Plan::read(plan, &self.core.config().team)?;
        plan.check_models(&self.core.config().catalog)?;
        let origin = RunOrigin { agent: id, fork_point: None, wanted_by: Origin::Client(client) };
        self.coordinator.begin_run(&mut self.core, origin, plan)?;
        self.server.begin_run(&mut self.core, client, id);
        Ok(())
    }
}
