//! `/team` in a chat: forks of the agent on the screen work on a task.

use std::fmt::Write as _;

use crate::agent::State;
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::base::text;
use crate::commands::parse_team_line;
use crate::domain::flow::Origin;
use crate::repl::coordinator::Coordinator;
use crate::repl::coordinator::members::RunOrigin;
use crate::repl::core::{Core, agent_gone};

const MAX_LISTED: usize = 10;
const TASK_CHARACTERS: usize = 40;

impl Coordinator {
    /// Starts a run with forks of this agent. They do not inherit its unfinished turn: they would continue it.
    pub(in crate::repl) fn begin_from_chat(
        &mut self,
        core: &mut Core,
        wanted_by: Origin,
        agent_id: AgentId,
        line: &str,
    ) -> Result<()> {
        let plan = parse_team_line(line, core.config())?;
        let agent = core.agent(agent_id).ok_or_else(agent_gone)?;
        let turn = agent.turn_message().filter(|_| agent.state() != State::Idle);
        let fork_point = match turn {
            Some(message) => MessageId(message.0 - 1),
            None => core.store().last_own_message(agent_id)?,
        };
        let run_origin = RunOrigin { agent: agent_id, fork_point: Some(fork_point), wanted_by };
        self.begin_run(core, run_origin, plan).map(drop)
    }

    /// Lists the newest runs, and the health of members since the program started.
    pub(in crate::repl) fn summary(&self, core: &Core) -> Result<String> {
        let runs = core.store().runs(MAX_LISTED)?;
        let mut text = String::new();
        for run in runs.iter().rev() {
            let task: String = text::sanitise(run.task.lines().next().unwrap_or_default()).into_owned();
            let task: String = task.chars().take(TASK_CHARACTERS).collect();
            let state = self.run_progress(&run.run).unwrap_or_else(|| run.state().to_owned());
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{}  {state}  {} {}  {task}", run.run, run.strategy, run.aggregation);
        }
        for (name, health) in self.health.iter() {
            let (tasks, rate) = (health.successes + health.failures, 100.0 * health.success_rate());
            let breaker = health.breaker.name();
            let tasks = text::counted(usize::try_from(tasks).unwrap_or(usize::MAX), "task", "tasks");
            let _ = writeln!(text, "{name}  {tasks}, {rate:.0} % succeeded, breaker {breaker}");
        }
        if text.is_empty() {
            text.push_str("no team tasks yet: start one with /team parallel vote \"TASK\"");
        }
        Ok(text.trim_end().to_owned())
    }

    fn run_progress(&self, name: &str) -> Option<String> {
        let run = self.open_runs().find(|run| run.id.as_str() == name)?;
        Some(format!("{} of {} done", run.done, run.task.members().len()))
    }
}
