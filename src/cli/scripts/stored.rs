//! `ps`, `logs` and `mail` without a server: on the store itself, with the same data as from a server.

use std::path::Path;

use serde_json::{Value, json};

use super::print::Printer;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::cli::arguments::Logs;
use crate::cli::stdio::print_note;
use crate::commands::{archived_called, one_of};
use crate::domain::chunk::{Chunk, Numbered, Status, begin_of_last};
use crate::domain::environment::EnvironmentSpec;
use crate::domain::flow::TurnEnd;
use crate::domain::title::title;
use crate::store::{AgentRow, Store, holder};

/// The epoch of chunks that were numbered here and not by a server.
const EPOCH: &str = "stored";

pub fn agents(directory: &Path) -> Result<Value> {
    let store = Store::open_read_only(directory)?;
    let registry = store.load_agents()?;
    // A turn that no running process holds was cut off by the end of a process.
    let is_held = holder(directory).is_some();
    let mut agents = Vec::new();
    for row in &registry.agents {
        let status = match (row.was_busy, row.is_asking) {
            (true, true) => Status::AwaitingApproval,
            (true, false) if is_held => Status::Running,
            (true, false) => Status::Interrupted,
            (false, _) if row.last_end == Some(TurnEnd::Interrupted) => Status::Interrupted,
            (false, _) if row.last_end == Some(TurnEnd::Failed) => Status::Failed,
            (false, _) => Status::Idle,
        };
        let mut agent = agent_as_json(row, store.living_ancestor(row.id)?, status.name());
        agent["queued"] = store.queued(row.id)?.len().into();
        agent["unread"] = store.count_unread(row.id)?.into();
        agent["tokens"] = row.used.tokens().into();
        agent["cost"] = row.used.cost.into();
        agents.push(agent);
    }
    registry.damaged.iter().for_each(|message| print_note(message));
    Ok(agents.into())
}

/// The archived agents. They are always read from the store: no process has them in memory.
pub fn archived_agents(directory: &Path) -> Result<Value> {
    let registry = Store::open_read_only(directory)?.archived_agents()?;
    registry.damaged.iter().for_each(|message| print_note(message));
    let archived = |row: &AgentRow| {
        let mut agent = agent_as_json(row, row.parent, "archived");
        agent["archived_at"] = row.archived_at.into();
        agent
    };
    Ok(registry.agents.iter().map(archived).collect())
}

/// The fields that listed and archived agents share.
fn agent_as_json(row: &AgentRow, parent: Option<AgentId>, status: &str) -> Value {
    json!({
        "id": row.id.to_string(),
        "number": row.number,
        "name": row.name,
        "title": title(&row.said),
        "directory": row.directory,
        "parent": parent.filter(|_| !row.is_begun).map(|id| id.to_string()),
        "status": status,
        "activity": Value::Null,
        "model": row.endpoint,
        "print_run": row.is_print_run,
        "team_run": row.team_run,
        "place": place_of(row),
        "created_at": row.created_at,
    })
}

/// Where an agent works, if not on this machine.
fn place_of(row: &AgentRow) -> Option<String> {
    let spec: EnvironmentSpec = row.environment.as_deref()?.parse().ok()?;
    spec.remote.map(|place| place.to_string())
}

/// Whether `logs` names an archived agent.
pub fn is_archived(logs: &Logs, directory: &Path) -> bool {
    let store = Store::open_read_only(directory);
    store.is_ok_and(|store| archived_called(&store, &logs.agent).is_ok())
}

pub fn print_chunks(logs: &Logs, directory: &Path, printer: &mut Printer) -> Result<()> {
    let store = Store::open_read_only(directory)?;
    let agent = find_agent(&store, &logs.agent)?;
    let (messages, damaged) = store.full_log(agent)?;
    damaged.iter().for_each(|message| print_note(message));
    let chunks: Vec<Chunk> = messages.iter().flat_map(|message| Chunk::of_body(&message.body)).collect();
    let numbered = || (0..).zip(chunks.iter().cloned()).collect::<Vec<(u64, Chunk)>>().into_iter().rev();
    let last = logs.last.map(|count| begin_of_last(count, numbered()).unwrap_or(if count == 0 { u64::MAX } else { 0 }));
    let from = logs.from.as_ref().filter(|from| from.epoch == EPOCH).map(|from| from.number);
    let first = usize::try_from(last.or(from).unwrap_or(0)).unwrap_or(usize::MAX);
    for (number, chunk) in chunks.into_iter().enumerate().skip(first) {
        let line = Numbered { agent, number: number as u64, chunk }.to_line(EPOCH);
        // The line was just made from JSON.
        printer.chunk(&serde_json::from_str(&line).unwrap_or_default());
    }
    printer.end();
    Ok(())
}

/// Fails where opening the store would create one.
pub fn require_stored(directory: &Path) -> Result<()> {
    match Store::exists(directory) {
        true => Ok(()),
        false => Err(Error::usage(format!("nothing is stored in {}", directory.display()))),
    }
}

/// The store, which must exist, for a command that ends with what it says to be stored.
pub fn open(directory: &Path) -> Result<Store> {
    require_stored(directory)?;
    Store::open(directory)?.sync_each_transaction()
}

/// The agent of this name, or the one that was sent a message last.
pub fn find_or_last(store: &Store, name: Option<&str>) -> Result<AgentId> {
    match name {
        Some(name) => find_agent(store, name),
        None => store.last_addressed(None)?.ok_or_else(|| Error::usage("name an agent: polylogue ps lists them")),
    }
}

/// Finds an agent that was not killed by any of its names, or a killed one by its id.
pub fn find_agent(store: &Store, name: &str) -> Result<AgentId> {
    one_of(store.find(name)?, name, || format!("no agent {name:?}: polylogue ps lists them"))
}
