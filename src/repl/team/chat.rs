//! `/team`: the agent on the screen gives a task to children that know what it knows.

use std::fmt::Write as _;

use crate::agent::State;
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::base::text;
use crate::commands::{TeamOrder, team_order};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::core::agent_gone;
use crate::repl::team::members::Work;

/// Runs that are listed, the newest first.
const LISTED: usize = 10;
/// Characters of a task in the list.
const TASK_CHARACTERS: usize = 40;

impl Repl {
    /// Children of this agent work on a task. What it is in the middle of they are not told: they would go on with it.
    pub(in crate::repl) fn team_by_person(&mut self, agent_id: AgentId, line: &str) -> Result<()> {
        let TeamOrder { task, members, settings } = team_order(line, &self.core.config.team)?;
        let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        let turn = agent.turn_message().filter(|_| agent.state() != State::Idle);
        let knows = match turn {
            Some(message) => MessageId(message.0 - 1),
            None => self.core.store.last_own_message(agent_id)?,
        };
        self.begin_run(agent_id, Some(knows), Work::Members(members), &task, settings).map(drop)
    }

    /// Which tasks there are and were, and how members have fared since the start of the program.
    pub(in crate::repl) fn show_team(&mut self, origin: Origin, agent_id: AgentId) -> Result<()> {
        let runs = self.core.store.runs(LISTED)?;
        let mut words = String::new();
        for run in runs.iter().rev() {
            let task: String = text::sanitise(run.task.lines().next().unwrap_or_default()).into_owned();
            let task: String = task.chars().take(TASK_CHARACTERS).collect();
            let state = self.run_words(&run.run).unwrap_or_else(|| run.state().to_owned());
            // Writing into a string cannot fail.
            let _ = writeln!(words, "{}  {state}  {} {}  {task}", run.run, run.strategy, run.aggregation);
        }
        for (name, health) in self.team.health.iter() {
            let (tasks, rate) = (health.successes + health.failures, 100.0 * health.success_rate());
            let breaker = health.breaker.name();
            let tasks = text::counted(usize::try_from(tasks).unwrap_or(usize::MAX), "task", "tasks");
            let _ = writeln!(words, "{name}  {tasks}, {rate:.0} % answered, breaker {breaker}");
        }
        if words.is_empty() {
            words.push_str("no task was given to several agents yet: /team parallel vote \"TASK\" does");
        }
        self.tell(origin, agent_id, LineKind::Note, words.trim_end());
        Ok(())
    }

    /// How far a run is that goes on.
    fn run_words(&self, name: &str) -> Option<String> {
        let run = self.team.open_runs().find(|run| run.id.as_str() == name)?;
        Some(format!("{} of {} done", run.over, run.task.members().len()))
    }
}
