//! `/land` and `/diff` of agents that work in a git worktree.

use std::path::PathBuf;

use serde_json::json;

use crate::agent::{Agent, State};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::file_change::{LandRequest, NotLanded};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::core::remove::Reach;
use crate::repl::core::{Core, drafts, file_steps};
use crate::repl::event::{Event, JobResult};
use crate::repl::jobs::Jobs;
use crate::repl::jobs::tasks::Kind;
use crate::team::changes::AgentChanges;
use crate::tools::done::name_of;
use crate::tools::{Job, landing, worktree};

impl Jobs {
    /// Brings the work in the worktree of an agent, which may have been killed, to the branch that it left.
    pub(super) fn land(
        &mut self,
        core: &mut Core,
        origin: Origin,
        shown_at: AgentId,
        agent: AgentId,
        request: LandRequest,
    ) -> Result<()> {
        let root = self.own_worktree(core, agent)?;
        let request = configured(core, agent, request);
        let (environment, label) = (file_steps::environment_of_git(core), core.roster().label_of(agent));
        let check = core.agent(agent).map(|agent| agent.done_command(core.config())).filter(|check| !check.is_empty());
        let unchecked = check.map(|check| format!("\nnot run on the result, as /land --all does: {}", name_of(&check)));
        let unchecked = unchecked.unwrap_or_default();
        let (line, kills_agent_after) = (line_of(core, shown_at, agent, &request), request.kills_agent_after);
        let (task, there) = ((Kind::Land, agent, Some(root.clone())), root.clone());
        let work = move |job: &Job| Ok(landing::land(&there, &request, &environment, job));
        self.tasks.spawn(core, task, work, move |jobs, core, outcome| {
            let mut outcome = outcome.map_err(NotLanded::from).flatten();
            let is_free = |agent: &Agent| agent.state() == State::Idle && agent.queue.is_empty();
            let is_idle = core.roster().in_worktree(&root).all(is_free);
            let ends = outcome.is_ok() && kills_agent_after && is_idle;
            if let Ok(landed) = &mut outcome {
                landed.text.push_str(&unchecked);
                if kills_agent_after && !is_idle {
                    landed.text.push_str("\nthe agent was not ended: it has got work meanwhile");
                }
            }
            let shown_at = if ends { survivor(core, shown_at, &[agent]) } else { shown_at };
            if ends {
                jobs.release_worktree(root.clone(), shown_at);
                if let (Ok(landed), Err(error)) = (&mut outcome, core.kill(agent, Reach::Agent)) {
                    landed.text.push_str(&format!("\nthe agent was not ended: {error}"));
                }
            }
            if outcome.is_ok() {
                jobs.on_landed(core, agent, root, shown_at);
            }
            let outcome = match outcome {
                Ok(landed) => Ok(JobResult { data: json!([landed.as_json(&label)]), text: landed.text }),
                // A client that asked for something else as well gets an error.
                Err(left) if matches!(origin, Origin::Client(_)) && !kills_agent_after => {
                    Ok(JobResult { data: json!([left.as_json(&label)]), text: left.why })
                }
                Err(left) => Err(Error::usage(left.why)),
            };
            report(core, origin, shown_at, &line, outcome);
        })
    }

    /// Throws the worktree of an agent away. The agents that work there are killed first: none can write there meanwhile.
    pub(super) fn discard(&mut self, core: &mut Core, origin: Origin, shown_at: AgentId, agent: AgentId) -> Result<()> {
        let root = self.own_worktree(core, agent)?;
        let at: Vec<AgentId> = core.roster().in_worktree(&root).map(Agent::id).collect();
        if at.iter().any(|there| core.roster().parent(*there).is_none()) {
            return Err(Error::usage(
                "agent 0 works in this worktree and cannot be killed: /land or git worktree remove",
            ));
        }
        let shown_at = survivor(core, shown_at, &at);
        let (environment, now) = (file_steps::environment_of_git(core), core.clock().unix_ms());
        at.into_iter().try_for_each(|there| core.kill(there, Reach::Agent).map(drop))?;
        let (task, there) = ((Kind::Discard, agent, Some(root.clone())), root.clone());
        let work = move |job: &Job| worktree::discard(&there, now, &environment, job);
        self.tasks.spawn(core, task, work, move |_, core, outcome| {
            if !root.exists() {
                core.factory_mut().environments.forget_origin(&root);
            }
            report(core, origin, shown_at, "", outcome.map_err(Error::usage));
        })
    }

    /// Completes or takes back landings that the end of an earlier process has interrupted.
    pub(super) fn recover_landings(&mut self, core: &mut Core, shown_at: AgentId) {
        for root in core.factory().environments.interrupted_landings() {
            let environment = file_steps::environment_of_git(core);
            let (task, there) = ((Kind::Land, shown_at, Some(root.clone())), root);
            let work = move |job: &Job| landing::recover(&there, &environment, job);
            let begun = self.tasks.spawn(core, task, work, move |_, core, outcome| match outcome {
                Ok(None) => {}
                Ok(Some(text)) => core.note(shown_at, LineKind::Note, &text),
                Err(why) => core.note(shown_at, LineKind::Error, &why),
            });
            if let Err(error) = begun {
                core.note(shown_at, LineKind::Error, &error.message);
            }
        }
    }

    /// The worktree of an agent. Fails while an agent is at work there, or while it is landed or discarded.
    pub(super) fn own_worktree(&self, core: &Core, agent: AgentId) -> Result<PathBuf> {
        let root = file_steps::worktree_of(core, agent).ok_or_else(|| has_no_worktree(core, agent))?;
        if let Some(busy) = core.roster().in_worktree(&root).find(|agent| agent.state() != State::Idle) {
            let label = core.roster().label_of(busy.id());
            return Err(Error::usage(format!("{label} is at work in the worktree: wait, or press Esc there")));
        }
        if [Kind::Land, Kind::Discard].iter().any(|kind| self.tasks.is_running_in(*kind, &root)) {
            let label = core.roster().label_of(agent);
            return Err(Error::usage(format!(
                "the worktree of {label} is already being landed or discarded: wait for the note"
            )));
        }
        Ok(root)
    }

    /// Finds out what an agent has changed, and reports it as a text.
    pub(in crate::repl) fn diff(
        &mut self,
        core: &mut Core,
        origin: Origin,
        shown_at: AgentId,
        agent: AgentId,
    ) -> Result<()> {
        let source = file_steps::changes_of(core, agent)?;
        let task = (Kind::Diff, agent, source.worktree.as_ref().map(|(root, _)| root.clone()));
        let work = move |job: &Job| source.read(job);
        self.tasks.spawn(core, task, work, move |_, core, outcome| {
            let result = |changes: AgentChanges| JobResult { text: changes.to_string(), data: changes.as_json() };
            report(core, origin, shown_at, "", outcome.map(result).map_err(Error::usage));
        })
    }

    /// Whether the request of an agent has to wait because its worktree is being landed: what it would change there would be
    /// left behind.
    pub(super) fn holds_for_landing(&mut self, core: &mut Core, agent: AgentId) -> bool {
        let root = core.agent(agent).and_then(|agent| agent.inputs.environment.worktree.as_deref());
        let is_landing = root.is_some_and(|root| self.tasks.is_running_in(Kind::Land, root));
        if is_landing && self.held.insert(agent) {
            core.note(agent, LineKind::Note, "waiting: the worktree is being landed");
        }
        is_landing
    }

    pub(super) fn on_landed(&mut self, core: &mut Core, agent: AgentId, root: PathBuf, shown_at: AgentId) {
        let text = "The user landed the commits of this worktree. Files may have changed, read them again before you edit them.";
        match self.held.contains(&agent) {
            true => file_steps::tell_held_model(core, agent, text.to_owned()),
            false => file_steps::tell_model(core, agent, Some(text.to_owned())),
        }
        core.emit(Event::FilesChanged { agent });
        if core.agent(agent).is_none() {
            // Nothing would be lost with it any more.
            self.release_worktree(root, shown_at);
        }
    }
}

pub(super) fn has_no_worktree(core: &Core, agent: AgentId) -> Error {
    let label = core.roster().label_of(agent);
    Error::usage(format!(
        "{label} does not work in a git worktree of its own: /fork --worktree creates an agent that does"
    ))
}

/// Where a note is shown when some agents have ended: where it was typed, or at the parent of that agent.
fn survivor(core: &Core, typed_at: AgentId, ended: &[AgentId]) -> AgentId {
    let parent = if ended.contains(&typed_at) { core.roster().parent(typed_at) } else { None };
    parent.unwrap_or(typed_at)
}

/// Shows a person or a client the outcome of a task. If it failed, the typed line becomes the draft again, unless it is
/// empty; a client still has it.
pub(super) fn report(
    core: &mut Core,
    origin: Origin,
    shown_at: AgentId,
    line: &str,
    outcome: Result<impl Into<JobResult>>,
) {
    match (origin, outcome.map(Into::into)) {
        (Origin::Client(client), outcome) => core.emit(Event::ClientJobEnded { client, outcome }),
        (origin, Ok(JobResult { text, .. })) => {
            core.note(shown_at, LineKind::Note, &text);
            notify_view(core, origin, text);
        }
        (_, Err(error)) => {
            if !line.is_empty() {
                drafts::return_refused(core, shown_at, origin, line);
            }
            core.note(shown_at, LineKind::Error, &error.message);
            notify_view(core, origin, error.message);
        }
    }
}

/// A view hides the notes of conversations.
fn notify_view(core: &mut Core, origin: Origin, text: String) {
    if let Some(terminal) = origin.terminal() {
        core.emit(Event::JobReported { terminal, text });
    }
}

/// A request with what the configuration says of it.
pub(super) fn configured(core: &Core, agent: AgentId, request: LandRequest) -> LandRequest {
    let is_in = |project: &PathBuf| file_steps::is_in(core, agent, project);
    let extras = core.config().worktree_extras(is_in);
    LandRequest { trailers: file_steps::trailers(core, agent), extras, ..request }
}

/// The name by which a command finds an agent.
pub(super) fn name_to_type(core: &Core, agent: AgentId) -> String {
    let identity = core.agent(agent).map(|agent| &agent.identity);
    let number = || Some(identity?.number()?.to_string());
    identity.and_then(|identity| identity.name.clone()).or_else(number).unwrap_or_else(|| agent.short())
}

/// The line to type again.
fn line_of(core: &Core, typed_at: AgentId, agent: AgentId, request: &LandRequest) -> String {
    let named = if typed_at == agent { String::new() } else { format!(" {}", name_to_type(core, agent)) };
    let way = request.method.option().map(|option| format!(" --{option}")).unwrap_or_default();
    let commit = request.commit.as_ref().map(|message| format!(" --commit {message}")).unwrap_or_default();
    let verify = if request.verifies { " --verify" } else { "" };
    let only = if request.only_committed { " --only-committed" } else { "" };
    format!("/land{named}{way}{verify}{only}{commit}")
}
