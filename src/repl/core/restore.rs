//! Reads at the start what the store has besides the agents: limits, queues, unread mail, comparisons and kills.

use crate::agent::Queued;
use crate::base::error::Result;
use crate::domain::config::Config;
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::repl::core::remove::restore_kills;
use crate::team::compare::Comparisons;
use crate::team::{MINUTE, Trees};

/// Also reads the git branches of the directories in which agents work.
pub(in crate::repl) fn restore(core: &mut Core) -> Result<()> {
    let Core { branches, roster, .. } = core;
    branches.read_first(roster.iter().map(|agent| agent.inputs.environment.working_directory.as_path()));
    restore_limits(core)?;
    restore_queues(core)?;
    for (agent, unread) in core.store.unread_mail()? {
        core.roster.with(agent, |agent| agent.unread = unread);
    }
    core.comparisons = Comparisons::from_stored(core.store.comparisons()?);
    restore_kills(core)
}

fn restore_limits(core: &mut Core) -> Result<()> {
    let now = core.clock.steady_ms();
    let stored = core.store.load_limits(now - MINUTE)?;
    let Config { tree_limits, counts_usd_from_start, .. } = core.config;
    core.trees = Trees::new(tree_limits, counts_usd_from_start, stored, &core.roster, now);
    Ok(())
}

fn restore_queues(core: &mut Core) -> Result<()> {
    for id in core.store.agents_with_queue()? {
        match core.store.queued(id) {
            Ok(queued) => {
                core.roster.with(id, |agent| agent.queue.extend(queued.into_iter().map(Queued::from)));
            }
            Err(error) => core.note(id, LineKind::Error, &format!("cannot read the queue: {error}")),
        }
    }
    Ok(())
}
