//! Looks for skills again when a turn begins, on a thread, because files may be slow. Changes apply from the next
//! request on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::agent::Agent;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::project::ProjectDirectories;
use crate::domain::scrollback::LineKind;
use crate::domain::skill::{Skill, SkillList};
use crate::repl::core::Core;
use crate::repl::jobs::Jobs;
use crate::repl::jobs::tasks::Kind;
use crate::tools::Job;
use crate::tools::skill::find;

/// A directory is not searched again within this time.
const PAUSE: Duration = Duration::from_secs(2);

impl Jobs {
    /// Looks for the skills of an agent's directory, unless a search is running or ended recently. A hanging disk
    /// blocks one thread.
    pub(super) fn find_skills(&mut self, core: &Core, agent: AgentId) {
        // One that works elsewhere has no skills.
        let known = core.agent(agent).filter(|agent| agent.inputs.environment.remote.is_none());
        let Some(known) = known else { return };
        let directory = known.inputs.environment.working_directory.clone();
        let origins = known.inputs.environment.origins.clone();
        let is_recent = |(searched, at): &(PathBuf, Moment)| *searched == directory && core.now() < *at + PAUSE;
        if self.tasks.has_any(&[Kind::FindSkills])
            || self.last_skill_search.as_ref().is_some_and(is_recent)
            || origins.is_empty() && is_just_read(core, &directory)
        {
            return;
        }
        let (person, trusted) = (core.config().skill_directories.clone(), core.config().trusted_instructions.clone());
        let searched = directory.clone();
        let work = move |_: &Job| Ok(find::skills(&person, &ProjectDirectories::of(&searched), &origins, &trusted));
        // Without a thread the known skills stay.
        drop(self.tasks.spawn(core, (Kind::FindSkills, agent, None), work, move |jobs, core, found| {
            jobs.last_skill_search = Some((directory.clone(), core.now()));
            if let Ok(list) = found {
                learn(core, directory, agent, list);
            }
        }));
    }

    /// Looks for the skills of a new agent whose directory no agent had before.
    pub(super) fn find_skills_of_new(&mut self, core: &Core, agent: AgentId) {
        let lacks =
            |agent: &Agent| core.factory().environments.lacks_skills(&agent.inputs.environment.working_directory);
        if core.agent(agent).is_some_and(lacks) {
            self.find_skills(core, agent);
        }
    }
}

/// Whether the skills of a directory came with a configuration that was read just now.
fn is_just_read(core: &Core, directory: &Path) -> bool {
    let pause = i64::try_from(PAUSE.as_millis()).unwrap_or_default();
    let read_at = core.config().skills_read_at.filter(|_| core.config().working_directory == directory);
    read_at.is_some_and(|at| (0..pause).contains(&(core.clock().unix_ms() - at)))
}

/// Gives the agents of a directory its skills, and tells one of them what has changed.
fn learn(core: &mut Core, directory: PathBuf, agent: AgentId, list: SkillList) {
    let Some(before) = core.agent(agent).map(|agent| agent.inputs.environment.skills.clone()) else { return };
    let is_new = core.factory().environments.lacks_skills(&directory);
    if *before == list && !is_new {
        return;
    }
    let list = Arc::new(list);
    core.factory_mut().environments.learn_skills(directory.clone(), list.clone());
    for id in core.roster().ids() {
        core.edit(id, |agent| {
            let environment = &mut agent.inputs.environment;
            if environment.working_directory == directory && environment.skills != list {
                Arc::make_mut(environment).set_skills(list.clone());
            }
        });
    }
    if let Some(note) = note(&before, &list).filter(|_| !is_new) {
        core.note(agent, LineKind::Note, &note);
    }
}

/// The differences, in one line.
fn note(before: &SkillList, now: &SkillList) -> Option<String> {
    let names = |skills: Vec<&Skill>| skills.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>().join(", ");
    let added = now.skills.iter().filter(|skill| before.find(&skill.name).is_none()).collect();
    let changed = |skill: &&Skill| before.find(&skill.name).is_some_and(|known| known != *skill);
    let changed = now.skills.iter().filter(changed).collect();
    let gone = before.skills.iter().filter(|skill| now.find(&skill.name).is_none()).collect();
    let parts = [("new", names(added)), ("changed", names(changed)), ("gone", names(gone))];
    let parts: Vec<String> =
        parts.iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| format!("{what}: {names}")).collect();
    let is_worse = now.problems.iter().any(|problem| !before.problems.contains(problem));
    match (parts.is_empty(), is_worse) {
        (true, false) => None,
        (true, true) => Some("skills: /skills says what is wrong with some".into()),
        (false, _) => Some(format!("skills: {}", parts.join("; "))),
    }
}
