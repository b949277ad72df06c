//! Programs that are tools: before a request of an agent is sent, it is looked on a thread whether their files have changed,
//! and new ones are asked for their schemas. The request waits for that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::id::AgentId;
use crate::domain::scrollback::LineKind;
use crate::domain::tool::ToolCall;
use crate::domain::user_tool::{FileIdentity, UserTool, UserToolEntry};
use crate::features::Feature;
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;
use crate::repl::core::programs::{gets_programs, is_for, request_again};
use crate::repl::event::Event;
use crate::tools::{Environment, Job, Output, Running, user_tool};

pub const FEATURE: Feature = Feature { component: Some(|| Box::<UserTools>::default()), ..Feature::new("user-tools") };

/// Programs that are asked at once.
const AT_ONCE: usize = 8;

/// Working directory and worktree: the output of a program may depend on them.
type Place = (PathBuf, Option<PathBuf>);

/// What is known of one tool.
#[derive(Debug, Clone)]
struct Known {
    entry: UserToolEntry,
    files: Vec<FileIdentity>,
    /// Or why it is not offered.
    found: Result<UserTool, String>,
}

/// Programs that are being checked.
struct Check {
    place: Place,
    running: Running,
    found: Arc<Mutex<Vec<Known>>>,
    /// Agents whose requests wait for it.
    agents: BTreeSet<AgentId>,
}

#[derive(Default)]
struct UserTools {
    known: BTreeMap<Place, Vec<Known>>,
    checks: Vec<Check>,
    /// Agents whose requests have waited and may continue.
    checked: BTreeSet<AgentId>,
    /// An agent was removed, perhaps the last one of its place.
    has_unused: bool,
}

impl UserTools {
    /// Whether the request of an agent has to wait until its programs have been looked at.
    fn hold(&mut self, core: &mut Core, agent: AgentId) -> bool {
        if self.checked.remove(&agent) || core.config().user_tools.is_empty() || !gets_programs(core, agent) {
            return false;
        }
        let Some(found) = core.agent(agent) else { return false };
        let environment = found.inputs.environment.clone();
        let entries = core.config().user_tools.iter().filter(|entry| is_for(found, entry.project.as_ref()));
        let entries: Vec<UserToolEntry> = entries.cloned().collect();
        if entries.is_empty() {
            return false;
        }
        let place = (environment.working_directory.clone(), environment.worktree.clone());
        if let Some(check) = self.checks.iter_mut().find(|check| check.place == place) {
            check.agents.insert(agent);
            return true;
        }
        let known = self.known.get(&place).cloned().unwrap_or_default();
        match Check::start(place, entries, known, environment, core) {
            Ok(check) => self.checks.push(Check { agents: BTreeSet::from([agent]), ..check }),
            Err(why) => {
                core.note(agent, LineKind::Error, &format!("tools: {why}"));
                return false;
            }
        }
        true
    }

    fn finish(&mut self, core: &mut Core, check: Check) {
        let found = std::mem::take(&mut *check.found.lock().unwrap_or_else(PoisonError::into_inner));
        let before = self.known.insert(check.place.clone(), found).unwrap_or_default();
        let is_new = |known: &&Known| !before.iter().any(|before| before.found == known.found);
        let found = &self.known[&check.place];
        let lines: Vec<String> = found
            .iter()
            .filter(is_new)
            .filter_map(|known| Some(format!("tool {}: {}", known.entry.name, known.found.as_ref().err()?)))
            .collect();
        let tools: Arc<[UserTool]> = found.iter().filter_map(|known| known.found.clone().ok()).collect();
        for agent in check.agents {
            lines.iter().for_each(|line| core.note(agent, LineKind::Error, line));
            core.edit(agent, |agent| {
                if *agent.inputs.environment.user_tools != *tools {
                    Arc::make_mut(&mut agent.inputs.environment).user_tools = tools.clone();
                }
            });
            if request_again(core, agent) {
                self.checked.insert(agent);
            }
        }
    }
}

impl Check {
    fn start(
        place: Place,
        entries: Vec<UserToolEntry>,
        known: Vec<Known>,
        env: Arc<Environment>,
        core: &Core,
    ) -> Result<Self, String> {
        let found = Arc::new(Mutex::new(Vec::new()));
        let slot = found.clone();
        let work = move |job: &Job| {
            let all = look(&entries, &known, &env, job);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = all;
            Output::success("")
        };
        let call = ToolCall { id: String::new(), name: "schemas".into(), arguments: String::new() };
        let running = Running::spawn(call, work, core.waker()).map_err(|error| error.message)?;
        Ok(Self { place, running, found, agents: BTreeSet::new() })
    }
}

/// Looks at all programs; those that are new or were changed are asked for their schemas.
fn look(entries: &[UserToolEntry], known: &[Known], env: &Environment, job: &Job) -> Vec<Known> {
    let one = |entry: &UserToolEntry| {
        let files = match user_tool::identify(entry, &env.working_directory) {
            Ok(files) => files,
            Err(why) => return Known { entry: entry.clone(), files: Vec::new(), found: Err(why) },
        };
        let before = known.iter().find(|known| known.entry == *entry && known.files == files);
        before.cloned().unwrap_or_else(|| {
            let found = user_tool::read_schema(entry, files.clone(), env, job);
            Known { entry: entry.clone(), files, found }
        })
    };
    let part = |entries: &[UserToolEntry]| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = entries.iter().map(|entry| scope.spawn(move || one(entry))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<Known>>()
        })
    };
    entries.chunks(AT_ONCE).flat_map(part).collect()
}

impl Component for UserTools {
    fn on_event(&mut self, event: &Event, _: &mut Core) {
        match event {
            Event::Removed { agent, .. } | Event::Interrupted { agent, .. } => {
                self.checked.remove(agent);
                for check in &mut self.checks {
                    check.agents.remove(agent);
                }
                // Nobody waits for it: its programs are ended.
                self.checks.retain(|check| !check.agents.is_empty());
            }
            _ => {}
        }
        self.has_unused |= matches!(event, Event::Removed { .. });
    }

    fn holds_request(&mut self, core: &mut Core, agent: AgentId) -> bool {
        self.hold(core, agent)
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        let done: Vec<Check> = self.checks.extract_if(.., |check| check.running.is_complete()).collect();
        done.into_iter().for_each(|check| self.finish(core, check));
        if std::mem::take(&mut self.has_unused) {
            let is_used = |(directory, worktree): &Place| {
                let mut environments = core.roster().iter().map(|agent| &agent.inputs.environment);
                environments.any(|at| at.working_directory == *directory && at.worktree == *worktree)
            };
            self.known.retain(|place, _| is_used(place));
        }
    }
}
