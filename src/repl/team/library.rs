//! What a program that hosts the loop asks of the coordinator. Nothing happens but in [`Repl::turn`].

use std::rc::Rc;

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::repl::Repl;
use crate::repl::team::RunId;
use crate::repl::team::members::Work;
use crate::team::coordinator::event::Event;
use crate::team::coordinator::health::Health;
use crate::team::coordinator::member::Member;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::settings::Settings;
use crate::team::coordinator::workflow::Workflow;

impl Repl {
    /// Sets these members on a task. Each is an agent of its own when it is first asked: a child of `origin` that knows
    /// nothing of its conversation, and dies when its part is over; its conversation stays in the store. Who kills the
    /// asker interrupts the run.
    ///
    /// ```
    /// # use polylogue::base::clock::Clock;
    /// # use polylogue::domain::config::Config;
    /// # use polylogue::repl::Repl;
    /// # use polylogue::store::Store;
    /// use polylogue::team::coordinator::member::Member;
    /// use polylogue::team::coordinator::settings::{Aggregation, Settings, Strategy};
    ///
    /// # fn main() -> polylogue::base::error::Result<()> {
    /// # let mut house = Repl::open(Config::default(), Store::in_memory()?, Clock::system(), None)?;
    /// let root = house.list()[0].id;
    /// let settings =
    ///     Settings { strategy: Strategy::Parallel, aggregation: Aggregation::Vote, ..Settings::default() };
    /// let run = house.run_task(root, Member::list("ada,grace,emmy")?, "what is it?", settings)?;
    /// let outcome = loop {
    ///     house.turn(None)?;
    ///     house.take_events(&run).iter().for_each(|event| println!("{}", event.json_line(run.as_str())));
    ///     if let Some(outcome) = house.outcome(&run) {
    ///         break outcome;
    ///     }
    /// };
    /// assert_eq!(outcome.answer.as_deref(), Some("what is it?")); // the usual model repeats what it is told
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The asker does not live, there is no task, a setting is out of bounds, two members have one name, a model is not
    /// configured, or nothing may be written; nothing has happened then.
    pub fn run_task(&mut self, origin: AgentId, members: Vec<Member>, text: &str, settings: Settings) -> Result<RunId> {
        self.begin_run(origin, None, Work::Members(members), text, settings)
    }

    /// The same for a workflow, whose steps are the members. The strategy of the settings does not matter.
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
        self.begin_run(origin, None, Work::Workflow(workflow), text, settings)
    }

    /// What has happened in a run since this was last asked. Empties; nothing for a run that is not remembered.
    pub fn take_events(&mut self, run: &RunId) -> Vec<Event> {
        self.team.run_mut(run).map(|run| std::mem::take(&mut run.events)).unwrap_or_default()
    }

    /// What became of a run; none while it goes on. The last 32 that have ended are remembered, and the store has all.
    pub fn outcome(&self, run: &RunId) -> Option<Rc<Outcome>> {
        self.team.run(run)?.outcome.clone()
    }

    /// Which agents play now in a run, with the names of their members; members before the judge.
    pub fn players(&self, run: &RunId) -> Vec<(String, AgentId)> {
        let Some(run) = self.team.run(run) else { return Vec::new() };
        run.agents.iter().map(|(agent_id, agent)| (run.task.member(*agent_id).name.clone(), *agent)).collect()
    }

    /// Ends a run with what there is: its members are stopped in the next turn. One that has ended stays as it is.
    pub fn interrupt_run(&mut self, run: &RunId) {
        let now = self.core.clock.now();
        self.team.interrupt(run, now);
    }

    /// How members have fared in all runs of this process, by name.
    pub fn health(&self) -> &Health {
        &self.team.health
    }
}
