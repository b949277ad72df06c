//! `/agents` and `polylogue ps`: all agents as a tree or as data, and the archived ones.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use clap::{ArgGroup, ArgMatches, Command};
use serde_json::{Value, json};

use super::arguments::flag;
use super::{CommandContext, CommandSpec, ShellSpec, TwoColumns, WithoutServer};
use crate::agent::{Agent, State, Wait};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::base::text;
use crate::base::text::dollars;
use crate::domain::called::name_and_title;
use crate::domain::chunk::Status;
use crate::domain::definition::AgentDefinition;
use crate::domain::environment::EnvironmentSpec;
use crate::domain::flow::InputResult;
use crate::domain::title::title;
use crate::store::{AgentRow, holder};
use crate::team::Places;

/// Columns of the tree and the titles for models and scripts; a terminal has two fifths of its columns for them.
const MOST_FIRST: usize = 64;
/// Columns of a title, at least; a deep tree moves the rest of its row.
const LEAST_TITLE: usize = 12;
/// Columns of the task of a team.
const MOST_TASK: usize = 40;

pub const AGENTS: CommandSpec = CommandSpec {
    aliases: &["ps"],
    arguments: "[--all | --definitions]",
    shell: Some(ShellSpec {
        name: Some("ps"),
        without_server: WithoutServer::Reads,
        ..ShellSpec::list("List the agents; without a server, the stored ones", &[])
    }),
    define,
    ..CommandSpec::new("agents", "list all agents as a tree, or archived ones", run)
};

fn define(command: Command) -> Command {
    command
        .arg(flag("archived", "List the archived agents instead"))
        .arg(flag("all", "List the archived agents too"))
        .arg(flag("definitions", "List the definitions that children can begin with"))
        .group(ArgGroup::new("what").args(["archived", "all", "definitions"]))
}

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    if context.clients.is_some() {
        return agents_as_json(context, given).map(InputResult::Data);
    }
    let text = if given.get_flag("archived") {
        archived_list(context)?.unwrap_or_else(|| "no agent is archived".into())
    } else if given.get_flag("all") {
        [Some(agent_tree(context)), archived_list(context)?].into_iter().flatten().collect::<Vec<_>>().join("\n")
    } else if given.get_flag("definitions") {
        definition_list(context)?
    } else {
        agent_tree(context)
    };
    Ok(InputResult::Continue(Some(text)))
}

fn agents_as_json(context: &CommandContext, given: &ArgMatches) -> Result<Value> {
    if given.get_flag("definitions") {
        let definitions = context.agent()?.inputs.environment.definitions_here();
        let row = |definition: &AgentDefinition| {
            let author = definition.author.name();
            json!({"name": definition.name, "author": author, "description": definition.description})
        };
        return Ok(definitions.map(row).collect());
    }
    let mut rows = Vec::new();
    if !given.get_flag("archived") {
        rows.extend(context.roster.iter().map(|agent| agent_as_json(context, agent)));
        if context.store.is_read_only() {
            describe_as_stored(context, &mut rows)?;
        }
    }
    if given.get_flag("archived") || given.get_flag("all") {
        rows.extend(context.store.archived_agents()?.agents.iter().map(archived_as_json));
    }
    Ok(rows.into())
}

/// Describes agents as they are stored where another process may run them: this one has restored them as well as it could.
fn describe_as_stored(context: &CommandContext, rows: &mut [Value]) -> Result<()> {
    let is_held = context.config.data_directory.as_deref().and_then(holder).is_some();
    let stored = context.store.load_agents()?.agents;
    for row in rows {
        let Some(agent) = stored.iter().find(|agent| row["id"] == agent.id.to_string()) else { continue };
        row["directory"] = agent.directory.as_deref().into();
        row["model"] = agent.endpoint.as_deref().into();
        if agent.was_busy {
            let status = match is_held {
                _ if agent.is_asking => Status::AwaitingApproval,
                true => Status::Running,
                // The process that ran it was killed.
                false => Status::Interrupted,
            };
            row["status"] = status.name().into();
        }
    }
    Ok(())
}

/// A listed agent, for clients.
pub fn agent_as_json(context: &CommandContext, agent: &Agent) -> Value {
    let id = agent.id();
    json!({
        "id": id.to_string(),
        "number": agent.identity.number(),
        "name": agent.identity.name,
        "title": agent.title,
        "directory": agent.inputs.environment.place().to_string_lossy(),
        "parent": context.roster.shown_parent(id).map(|parent| parent.to_string()),
        "status": agent.status().name(),
        "activity": activity_of(context, agent),
        "model": agent.inputs.endpoint.full_name(),
        "place": agent.inputs.environment.remote.as_ref().map(|remote| remote.place.to_string()),
        "unread": agent.unread,
        "queued": agent.queue.len(),
        "tokens": agent.used.tokens(),
        "cost": agent.used.cost,
        "print_run": agent.identity.is_print_run,
        "team_run": agent.identity.team_run.as_deref(),
        "created_at": agent.identity.created_at,
        "age": context.unix_ms.saturating_sub(agent.identity.created_at).max(0) / 1000,
    })
}

/// What an agent does or asks, as a terminal shows it; `None` if it is idle.
pub fn activity_of(context: &CommandContext, agent: &Agent) -> Option<String> {
    match agent.question() {
        Some(pending) => Some(format!("asks: {}", pending.question.title)),
        None => agent.view.is_spinning().then(|| (context.activity)(agent.id())),
    }
}

fn archived_as_json(row: &AgentRow) -> Value {
    let environment: Option<EnvironmentSpec> = row.environment.as_deref().and_then(|spec| spec.parse().ok());
    json!({
        "id": row.id.to_string(),
        "number": row.number,
        "name": row.name,
        "title": title(&row.said),
        "directory": row.directory,
        "parent": row.parent.filter(|_| !row.is_begun).map(|parent| parent.to_string()),
        "status": "archived",
        "activity": Value::Null,
        "model": row.endpoint,
        "place": environment.and_then(|spec| spec.remote).map(|place| place.to_string()),
        "print_run": row.is_print_run,
        "team_run": row.team_run,
        "created_at": row.created_at,
        "archived_at": row.archived_at,
    })
}

/// The definitions with which children of this agent can begin.
fn definition_list(context: &CommandContext) -> Result<String> {
    let mut list = TwoColumns::new(25);
    for definition in context.agent()?.inputs.environment.definitions_here() {
        let tools = definition.tools.as_ref().map(|tools| format!("; tools: {}", tools.join(", "))).unwrap_or_default();
        let model = definition.model.as_ref().map(|model| format!("; {model}")).unwrap_or_default();
        let policy = definition.policy.map(|policy| format!("; {policy}")).unwrap_or_default();
        let about = format!("{}{tools}{model}{policy} ({})", definition.description, definition.source.display());
        list.row(format!("{:<16} {:<8}", definition.name, definition.author.name()), &about);
    }
    let text = list.to_text(context.columns());
    if text.is_empty() {
        return Ok("no definitions: agents/NAME.md beside config.toml is one (polylogue help environments)".into());
    }
    Ok(text)
}

/// The archived agents, those of `--print` runs under their own heading, the newest first.
fn archived_list(context: &CommandContext) -> Result<Option<String>> {
    let (runs, others): (Vec<AgentRow>, Vec<AgentRow>) =
        context.store.archived_agents()?.agents.into_iter().rev().partition(|row| row.is_print_run);
    let mut parts = Vec::new();
    for (heading, rows) in [("archived:", others), ("polylogue -p runs, archived:", runs)] {
        if rows.is_empty() {
            continue;
        }
        let row = |row: &AgentRow| ("  ".to_owned(), list_name(row), about_archived(context, row));
        parts.push(format!("{heading}\n{}", table(context, rows.iter().map(row).collect())));
    }
    Ok((!parts.is_empty()).then(|| parts.join("\n")))
}

fn list_name(row: &AgentRow) -> String {
    name_and_title(row.name.as_deref(), &title(&row.said)).unwrap_or_else(|| row.label())
}

fn about_archived(context: &CommandContext, row: &AgentRow) -> Vec<String> {
    let directory = row.directory.as_deref().map(Path::new).and_then(Path::file_name);
    vec![
        row.id.short(),
        age(context.unix_ms - row.created_at),
        row.team_run.as_ref().map(|run| format!("team {run}")).unwrap_or_default(),
        directory.unwrap_or_default().to_string_lossy().into_owned(),
        row.endpoint.clone().unwrap_or_default(),
    ]
}

/// Rows of a sign or an indentation, a title, and other facts about the agent, the most important first. On a terminal
/// titles are shortened, and what does not fit is left out.
fn table(context: &CommandContext, rows: Vec<(String, String, Vec<String>)>) -> String {
    let columns = context.columns();
    let widest = rows.iter().map(|(sign, title, _)| text::width(sign) + text::width(title)).max().unwrap_or_default();
    let first = widest.min(columns.map_or(MOST_FIRST, |columns| columns * 2 / 5));
    let mut list = TwoColumns::new(first + 1);
    for (sign, title, parts) in rows {
        let room = first.saturating_sub(text::width(&sign)).max(LEAST_TITLE);
        let left = format!("{sign}{}", text::shortened(&title, room));
        let room = columns.map(|columns| columns.saturating_sub((first + 1).max(text::width(&left)) + 1));
        let mut right = String::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let longer = if right.is_empty() { part } else { format!("{right}  {part}") };
            if !right.is_empty() && room.is_some_and(|room| text::width(&longer) > room) {
                break;
            }
            right = longer;
        }
        list.row(left, right);
    }
    list.to_text(columns)
}

/// All living agents, children below their nearest living ancestor.
pub fn agent_tree(context: &CommandContext) -> String {
    let mut rows = Vec::new();
    let mut open: Vec<(AgentId, usize)> =
        context.roster.shown_below(None).into_iter().rev().map(|id| (id, 0)).collect();
    let places = Places::of(context.roster.iter(), context.branches);
    let mut run = None;
    while let Some((id, depth)) = open.pop() {
        let Some(agent) = context.roster.get(id) else { continue };
        let team_run = agent.identity.team_run.as_deref();
        if team_run.is_some() && team_run != run {
            rows.extend(team_run.map(|team_run| run_row(context, team_run, depth)));
        }
        run = team_run;
        let depth = depth + usize::from(team_run.is_some());
        rows.push(tree_row(context, &places, agent, depth));
        open.extend(in_groups(context, id).into_iter().rev().map(|child| (child, depth + 1)));
    }
    table(context, rows)
}

/// The children of an agent, oldest first, with the members of a run together where its first one is.
fn in_groups(context: &CommandContext, parent: AgentId) -> Vec<AgentId> {
    let children = context.roster.shown_below(Some(parent));
    let run_of = |id: &AgentId| context.roster.get(*id).and_then(|agent| agent.identity.team_run.clone());
    let mut grouped = Vec::with_capacity(children.len());
    for (at, child) in children.iter().enumerate() {
        match run_of(child) {
            None => grouped.push(*child),
            Some(run) if children[..at].iter().any(|earlier| run_of(earlier).as_ref() == Some(&run)) => {}
            Some(run) => {
                grouped.extend(children[at..].iter().filter(|other| run_of(other).as_ref() == Some(&run)));
            }
        }
    }
    grouped
}

/// The heading above the members of a run.
fn run_row(context: &CommandContext, run: &str, depth: usize) -> (String, String, Vec<String>) {
    let (state, task) = state_and_task(context, run).unwrap_or_default();
    let task = text::sanitise(task.lines().next().unwrap_or_default()).into_owned();
    let task = text::shortened(&task, MOST_TASK);
    (format!("  {}", "  ".repeat(depth.min(16))), format!("team {run}"), vec![state.to_owned(), task.into_owned()])
}

#[cfg(feature = "coordinator")]
fn state_and_task(context: &CommandContext, run: &str) -> Option<(&'static str, String)> {
    context.store.run(run).ok().flatten().map(|stored| (stored.state(), stored.task))
}

#[cfg(not(feature = "coordinator"))]
fn state_and_task(_: &CommandContext, _: &str) -> Option<(&'static str, String)> {
    None
}

/// What an agent does or waits for.
fn state_in_words<'a>(context: &'a CommandContext, agent: &'a Agent) -> Cow<'a, str> {
    let state = match (agent.state(), agent.wait()) {
        _ if agent.is_compacting() => "compacting",
        (State::WaitingForLlm, Wait::Slot | Wait::Hooks | Wait::Key | Wait::Retry { .. }) => {
            return (context.activity)(agent.id()).into();
        }
        (State::WaitingForLlm, _) if !agent.partial_text().is_empty() => "replying",
        (State::ExecutingTool, _) if agent.waits_for_tool_slot_since().is_some() || agent.waits_for_server() => {
            return (context.activity)(agent.id()).into();
        }
        (State::ExecutingTool, _) if !agent.has_live_tool() => agent.work_of_loop(),
        (State::Idle, _) if agent.summaries() > 0 => "waiting for a summary",
        (State::Idle, _) if agent.has_background_work() => "waiting for its team",
        (State::Idle, _) if agent.is_interrupted() => "interrupted",
        (State::Idle, _) if agent.has_failed() => "failed",
        (state, _) => state.name(),
    };
    state.into()
}

fn tree_row(context: &CommandContext, places: &Places, agent: &Agent, depth: usize) -> (String, String, Vec<String>) {
    // A deep chain of forks stays readable.
    let indent = "  ".repeat(depth.min(16));
    let here = if agent.id() == context.current { "> " } else { "  " };
    let state = state_in_words(context, agent);
    let mail = if agent.unread == 0 {
        String::new()
    } else {
        format!(", {}", text::counted(agent.unread, "unread message", "unread messages"))
    };
    let queued = if agent.queue.is_empty() { String::new() } else { format!(", {} queued", agent.queue.len()) };
    let background = match agent.background_commands() {
        0 => String::new(),
        count => format!(", {} in the background", text::counted(count, "command", "commands")),
    };
    let cost = agent.used.cost.filter(|cost| *cost > 0).map(|cost| format!("${}", dollars(cost))).unwrap_or_default();
    let parts = vec![
        format!("{state}{queued}{mail}{background}"),
        places.of_agent(agent),
        agent.inputs.endpoint.full_name(),
        age(context.unix_ms - agent.identity.created_at),
        format!("{} tokens", agent.used.tokens()),
        cost,
        agent.id().short(),
    ];
    (format!("{here}{indent}{:<3} ", agent.identity.digits()), agent.listed(), parts)
}

pub(super) fn age(ms: i64) -> String {
    text::age(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}
