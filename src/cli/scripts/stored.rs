//! `ps` and `logs` without a server: reads the store without changing it, and gives the same data as a server.

use std::path::Path;

use serde_json::{Value, json};

use super::print::Printer;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::cli::arguments::Logs;
use crate::cli::stdio::print_note;
use crate::domain::chunk::{Chunk, Numbered, Status};
use crate::store::{Found, Store};

/// The epoch of chunks that were numbered here and not by a server.
const EPOCH: &str = "stored";

pub fn agents(directory: &Path) -> Result<Value> {
    let store = Store::open_read_only(directory)?;
    let registry = store.load_agents()?;
    let mut agents = Vec::new();
    for row in &registry.agents {
        let parent = store.living_ancestor(row.id)?.map(|id| id.to_string());
        // A chat that holds the store is in the middle of this turn.
        let status = match (row.was_busy, row.is_asking) {
            (true, true) => Status::AwaitingApproval,
            (true, false) => Status::Running,
            (false, _) => Status::Idle,
        };
        agents.push(json!({
            "id": row.id.to_string(),
            "number": row.ordinal,
            "name": row.name,
            "parent": parent,
            "status": status.name(),
            "activity": Value::Null,
            "model": row.endpoint,
            "queued": store.queued(row.id)?.len(),
            "unread": store.count_unread(row.id)?,
            "created_at": row.created_at,
        }));
    }
    registry.damaged.iter().for_each(|message| print_note(message));
    Ok(agents.into())
}

pub fn print_chunks(logs: &Logs, directory: &Path, printer: &mut Printer) -> Result<()> {
    let store = Store::open_read_only(directory)?;
    let agent = find_agent(&store, &logs.agent)?;
    let (messages, damaged) = store.full_log(agent)?;
    damaged.iter().for_each(|message| print_note(message));
    let chunks: Vec<Chunk> = messages.iter().flat_map(|message| Chunk::of_body(&message.body)).collect();
    let last = logs.last.map_or(usize::MAX, |last| usize::try_from(last).unwrap_or(usize::MAX));
    let from = logs.from.as_ref().filter(|from| from.epoch == EPOCH).map_or(0, |from| from.number);
    let first = chunks.len().saturating_sub(last).max(usize::try_from(from).unwrap_or(usize::MAX));
    for (number, chunk) in chunks.into_iter().enumerate().skip(first) {
        let line = Numbered { agent, number: number as u64, chunk }.to_line(EPOCH);
        // The line was just made from JSON.
        printer.chunk(&serde_json::from_str(&line).unwrap_or_default());
    }
    printer.end();
    Ok(())
}

/// Finds an agent by name, number or the beginning of its id.
fn find_agent(store: &Store, name: &str) -> Result<AgentId> {
    let message = match store.find(name)? {
        Found::One(id) => return Ok(id),
        Found::Ambiguous(ids) => {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            format!("ambiguous agent {name:?}, could be {}: type more of the id", ids.join(", "))
        }
        Found::None => {
            let number = name.parse::<i64>().ok();
            let rows = store.load_agents()?.agents;
            match rows.iter().find(|row| Some(row.ordinal) == number) {
                Some(row) => return Ok(row.id),
                None => format!("no agent {name:?}: polylogue ps lists them"),
            }
        }
    };
    Err(Error::usage(message))
}
