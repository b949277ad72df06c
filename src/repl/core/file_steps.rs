//! What tool calls changed in files: from the journals of the tools into the store.

#[cfg(feature = "hosts")]
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::file_change::FileStep;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::repl::core::log::append_before_request;
use crate::repl::event::Event;
use crate::team::changes::{ChangeSource, changed_files, not_shown};
use crate::tools::Environment;
use crate::tools::snapshots::Snapshots;

/// The copies of files before their changes.
pub(in crate::repl) fn snapshots(core: &mut Core) -> Result<Snapshots> {
    let usual = core.factory.environments.usual();
    usual.environment.snapshots.clone().ok_or_else(|| Error::usage("nothing is kept without a data directory"))
}

/// Stores the changes of a tool call, or of a turn that began with a message. Until that succeeds, they stay in the journal.
pub(crate) fn keep_step(core: &mut Core, step: &FileStep, turn: Option<MessageId>) {
    core.emit(Event::FilesChanged { agent: step.agent });
    let label = core.roster.label_of(step.agent);
    core.factory.environments.last_writers().record(step, &label);
    match core.store.keep_file_step(step, turn) {
        Ok(()) => {
            if let Ok(snapshots) = snapshots(core) {
                snapshots.forget(&step.id);
            }
        }
        Err(error) => {
            let text = format!("these changes are not stored yet, the next start stores them: {error}");
            core.note(step.agent, LineKind::Error, &text);
        }
    }
}

/// Names the agents whose host may change files, or whose files are being compared after its turn.
#[cfg(feature = "hosts")]
pub(crate) fn set_host_turns(core: &mut Core, agents: BTreeSet<AgentId>) {
    core.host_turns = agents;
}

/// Whether the host of an agent may still change files.
pub(in crate::repl) fn has_host_turn(core: &Core, agent: AgentId) -> bool {
    core.host_turns.contains(&agent)
}

/// Tells the model which files changed, unless it is working: then it notices, because it has to read them again. An archived
/// agent reads it when it is back; a killed one is not told.
pub(crate) fn tell_model(core: &mut Core, agent: AgentId, text: Option<String>) {
    let Some(text) = text else { return };
    if core.roster.get(agent).is_none() {
        let _ = core.store.append(agent, vec![Body::System(text)], core.clock.unix_ms());
        return;
    }
    let stored = core.append_event(agent, Body::System(text));
    remember(core, agent, stored);
}

/// The same for an agent whose turn has begun and whose first request is held back.
pub(crate) fn tell_held_model(core: &mut Core, agent: AgentId, text: String) {
    let stored = append_before_request(core, agent, Body::System(text));
    remember(core, agent, stored);
}

fn remember(core: &mut Core, agent: AgentId, stored: Result<Vec<Message>>) {
    if let Ok(messages) = stored {
        core.roster.with(agent, |agent| agent.remember(messages));
    }
}

/// The last lines of the messages of commits of an agent's work.
pub(in crate::repl) fn trailers(core: &Core, agent: AgentId) -> Vec<String> {
    let stored = || core.store.agent(agent).ok().flatten();
    let (name, model) = match core.roster.get(agent) {
        Some(agent) => (agent.identity.label(), Some(agent.inputs.endpoint.shown_name().to_string())),
        None => (core.roster.label_of(agent), stored().and_then(|row| row.endpoint)),
    };
    let fill = |line: &String| {
        let is_filled = model.is_some() || !line.contains("{model}");
        is_filled.then(|| line.replace("{agent}", &name).replace("{model}", model.as_deref().unwrap_or_default()))
    };
    core.config.worktree.trailers.iter().filter_map(fill).collect()
}

/// Our worktree in which an agent works, or worked until it was killed or archived.
pub(in crate::repl) fn worktree_of(core: &Core, agent: AgentId) -> Option<PathBuf> {
    if let Some(agent) = core.roster.get(agent) {
        return agent.inputs.environment.worktree.clone();
    }
    let directory = directory_of(core, agent)?;
    core.factory.environments.worktree_around(&directory).filter(|root| root.exists())
}

/// Where an agent works, or worked until it was killed or archived.
pub(in crate::repl) fn directory_of(core: &Core, agent: AgentId) -> Option<PathBuf> {
    match core.roster.get(agent) {
        Some(agent) => Some(agent.inputs.environment.working_directory.clone()),
        None => Some(PathBuf::from(core.store.agent(agent).ok()??.directory?)),
    }
}

/// Whether an agent, which may have been killed, works in a project.
pub(in crate::repl) fn is_in(core: &Core, agent: AgentId, project: &Path) -> bool {
    directory_of(core, agent).is_some_and(|directory| core.factory.environments.is_in(&directory, project))
}

/// The environment in which git runs for the program itself.
pub(crate) fn environment_of_git(core: &mut Core) -> Arc<Environment> {
    core.factory.environments.usual().environment
}

/// What is needed to find out what an agent has changed.
pub(crate) fn changes_of(core: &mut Core, agent: AgentId) -> Result<ChangeSource> {
    let worktree = worktree_of(core, agent);
    let kept = snapshots(core);
    let snapshots = if worktree.is_some() { kept.ok() } else { Some(kept?) };
    let environment = environment_of_git(core);
    Ok(ChangeSource {
        label: core.roster.label_of(agent),
        worktree: worktree.map(|root| (root, environment)),
        files: changed_files(&core.store, agent, MessageId(0), None)?,
        snapshots,
        not_shown: not_shown(&core.store, agent)?,
    })
}
