//! Rules that a person gives agents: in the answer to a question, and taken back. Agents never give any.

use std::path::{Path, PathBuf};

use crate::agent::Agent;
use crate::base::error::{Error, Result, system_message};
use crate::base::file;
use crate::base::id::AgentId;
use crate::domain::project_rules;
use crate::domain::rule::{Grant, Rule, Rules, Scope};
use crate::repl::core::{Core, agent_gone};

/// More refused calls are not reported.
const MAX_REFUSED: usize = 1000;

/// Gives the rules of an open question, or those that a person wrote instead, to an agent or to all that work in the
/// same directory. Does nothing if the question is closed.
pub(in crate::repl) fn grant(
    core: &mut Core,
    agent_id: AgentId,
    question: u64,
    scope: Scope,
    written: Option<&[Rule]>,
) -> Result<()> {
    let agent = core.agent(agent_id).ok_or_else(agent_gone)?;
    let Some(pending) = agent.question().filter(|pending| pending.number == question) else { return Ok(()) };
    let ways = &pending.question.ways;
    let rules: Vec<Rule> = written.unwrap_or(&ways.rules).iter().map(|rule| ways.given(rule.clone())).collect();
    if rules.is_empty() {
        return Err(Error::usage("no rule can allow this call: answer yes or no"));
    }
    let workspace = workspace_of(agent);
    let grants = rules.iter().map(|rule| Grant { rule: rule.clone(), workspace: workspace.clone() });
    match scope {
        Scope::Agent => {
            let mut all = agent.rules.clone();
            add(&mut all.own, grants);
            if !core.store.is_read_only() {
                core.store.set_rules(agent_id, all.to_stored().as_deref())?;
            }
            core.roster.with(agent_id, |agent| agent.rules = all);
        }
        Scope::Project => {
            let file = file_for(core, agent)?;
            save(&file, &workspace, &rules)?;
            let saved = |grant: Grant| Grant { rule: grant.rule.from_source(&file.display()), ..grant };
            add(&mut core.session_rules, grants.map(saved));
        }
        Scope::Session => add(&mut core.session_rules, grants),
    }
    Ok(())
}

/// Adds rules from a command line. What is allowed lasts while the process runs; what asks and what is refused also
/// lasts after that.
pub(in crate::repl) fn add_named(core: &mut Core, agent_id: AgentId, rules: Rules) -> Result<()> {
    let agent = core.agent(agent_id).ok_or_else(agent_gone)?;
    let (workspace, mut all) = (workspace_of(agent), agent.rules.clone());
    add(&mut all.own, rules.allow.into_iter().map(|rule| Grant { rule, workspace: workspace.clone() }));
    let add_new = |known: &mut Vec<Rule>, new: Vec<Rule>| {
        let new: Vec<Rule> = new.into_iter().filter(|rule| !known.contains(rule)).collect();
        known.extend(new);
    };
    add_new(&mut all.ask, rules.ask);
    add_new(&mut all.deny, rules.deny);
    if all == agent.rules {
        return Ok(());
    }
    if !core.store.is_read_only() {
        core.store.set_rules(agent_id, all.to_stored().as_deref())?;
    }
    core.roster.with(agent_id, |agent| agent.rules = all);
    Ok(())
}

/// Refuses an agent, and its future children, what the rules of its open question match. Does nothing if that is closed.
pub(in crate::repl) fn refuse(core: &mut Core, agent_id: AgentId, question: u64) -> Result<()> {
    let agent = core.agent(agent_id).ok_or_else(agent_gone)?;
    let Some(pending) = agent.question().filter(|pending| pending.number == question) else { return Ok(()) };
    let mut all = agent.rules.clone();
    let offered = pending.question.ways.rules.iter();
    let refused: Vec<Rule> = offered.filter(|rule| !all.deny.contains(rule)).cloned().collect();
    if refused.is_empty() {
        return Ok(());
    }
    all.deny.extend(refused);
    if !core.store.is_read_only() {
        core.store.set_rules(agent_id, all.to_stored().as_deref())?;
    }
    core.roster.with(agent_id, |agent| agent.rules = all);
    Ok(())
}

/// The file in which rules for the directory of this agent are saved.
fn file_for(core: &Core, agent: &Agent) -> Result<PathBuf> {
    if agent.inputs.environment.worktree.is_some() {
        return Err(Error::usage("rules for a worktree are not saved: it is removed with its agent"));
    }
    if let Some(remote) = &agent.inputs.environment.remote {
        return Err(Error::usage(format!(
            "rules for {} are not saved: allow it for this agent or session",
            remote.place
        )));
    }
    core.config.user_file.clone().ok_or_else(|| Error::usage("there is no configuration file"))
}

/// Takes back a rule that was given to this agent or to all that work in its directory.
pub(in crate::repl) fn revoke(core: &mut Core, agent_id: AgentId, rule: &Rule) -> Result<()> {
    let agent = core.agent(agent_id).ok_or_else(agent_gone)?;
    let (workspace, mut all) = (workspace_of(agent), agent.rules.clone());
    let saved = core.session_rules().iter().find(|grant| grant.rule.says_as(rule) && grant.workspace == workspace);
    if let Some(file) = saved.and_then(|grant| grant.rule.source()) {
        return Err(Error::usage(format!("{rule} is saved in {file}: remove it there (polylogue config edit)")));
    }
    let is_kept = |grant: &Grant| !grant.rule.says_as(rule) || grant.workspace != workspace;
    let before = all.own.len() + core.session_rules().len();
    all.own.retain(is_kept);
    let session: Vec<Grant> = core.session_rules().iter().filter(|grant| is_kept(grant)).cloned().collect();
    if all.own.len() + session.len() == before {
        return Err(Error::usage(format!("{rule} was given neither to this agent nor to this session")));
    }
    let stored =
        if core.store.is_read_only() { Ok(()) } else { core.store.set_rules(agent_id, all.to_stored().as_deref()) };
    // Less is allowed in any case, at least until the program exits.
    core.session_rules = session;
    core.roster.with(agent_id, |agent| agent.rules = all);
    stored
}

/// Notes a call that was refused because the user may not be asked.
pub(in crate::repl) fn note_refused(core: &mut Core, agent_id: AgentId, message: String) {
    if core.refused.len() < MAX_REFUSED {
        core.refused.push((agent_id, message));
    }
}

/// The refused calls since the last time, with their agents.
pub(in crate::repl) fn take_refused(core: &mut Core) -> Vec<(AgentId, String)> {
    std::mem::take(&mut core.refused)
}

pub(in crate::repl) fn has_refused(core: &Core) -> bool {
    !core.refused.is_empty()
}

/// The rules that apply to an agent, one per line, with their sources.
pub(in crate::repl) fn describe(core: &Core, agent_id: AgentId) -> Result<String> {
    let agent = core.agent(agent_id).ok_or_else(agent_gone)?;
    let workspace = workspace_of(agent);
    let mut lines = Vec::new();
    let mut list = |name: &str, rule: &Rule, source: &str| lines.push(format!("{name:<6} {rule}  ({source})"));
    let given = |grants: &[Grant]| -> Vec<Rule> {
        grants.iter().filter(|grant| grant.workspace == workspace).map(|grant| grant.rule.clone()).collect()
    };
    for rule in given(&agent.rules.own) {
        list("allow", &rule, rule.source().unwrap_or("this agent"));
    }
    given(&core.session_rules).iter().for_each(|rule| list("allow", rule, rule.source().unwrap_or("this session")));
    agent.rules.ask.iter().for_each(|rule| list("ask", rule, rule.source().unwrap_or("this agent")));
    agent.rules.deny.iter().for_each(|rule| list("deny", rule, rule.source().unwrap_or("this agent")));
    let configured = &agent.inputs.environment.rules;
    for (name, rules) in [("allow", &configured.allow), ("ask", &configured.ask), ("deny", &configured.deny)] {
        rules.iter().for_each(|rule| list(name, rule, rule.source().unwrap_or("configuration")));
    }
    if lines.is_empty() {
        lines.push("no rules: a at a question allows calls like it from then on (polylogue help approval)".into());
    }
    Ok(lines.join("\n"))
}

/// Where the relative patterns of an agent's rules begin.
pub(in crate::repl) fn workspace_of(agent: &Agent) -> PathBuf {
    agent.inputs.environment.workspace().to_path_buf()
}

fn add(known: &mut Vec<Grant>, new: impl Iterator<Item = Grant>) {
    for grant in new {
        if !known.contains(&grant) {
            known.push(grant);
        }
    }
}

/// Adds rules for a directory to the user's configuration file, which is created if it does not exist.
fn save(path: &Path, directory: &Path, rules: &[Rule]) -> Result<()> {
    let fail = |error: std::io::Error| {
        Error::usage(format!("the rule was not saved: {}: {}", path.display(), system_message(&error)))
    };
    let before = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.map_err(fail)?,
    };
    let after = project_rules::with_rules(&before, directory, rules)
        .map_err(|why| Error::usage(format!("the rule was not saved: {}: {why}", path.display())))?;
    file::replace(path, after.as_bytes()).map_err(fail)
}
