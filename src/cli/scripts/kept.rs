//! What `ps` and `logs` answer where nobody serves: what is kept, read without touching it, in the form in which a server
//! answers.

use std::path::Path;

use serde_json::{Value, json};

use super::print::Printer;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::cli::arguments::Logs;
use crate::domain::chunk::{Chunk, Numbered, Status};
use crate::store::{Found, Store};

/// The epoch of numbers that no process gave.
const EPOCH: &str = "kept";

/// Everybody who lives.
pub fn agents(directory: &Path) -> Result<Value> {
    let store = Store::open_read_only(directory)?;
    let roll = store.load_agents()?;
    let mut agents = Vec::new();
    for row in &roll.agents {
        let parent = store.living_ancestor(row.id)?.map(|id| id.to_string());
        // Whoever is in the middle of a turn is so in an ordinary chat: that holds the store.
        let status = if row.was_busy { Status::Running } else { Status::Idle };
        agents.push(json!({
            "id": row.id.to_string(),
            "number": row.ordinal,
            "name": row.name,
            "parent": parent,
            "status": status.name(),
            "doing": Value::Null,
            "model": row.endpoint,
            "queued": store.queued(row.id)?.len(),
            "unread": store.count_unread(row.id)?,
            "created_at": row.created_at,
        }));
    }
    roll.damaged.iter().for_each(|words| super::print::aside(words));
    Ok(agents.into())
}

/// What an agent was told and said.
pub fn chunks(logs: &Logs, directory: &Path, printer: &mut Printer) -> Result<()> {
    let store = Store::open_read_only(directory)?;
    let agent = called(&store, &logs.agent)?;
    let (messages, damaged) = store.full_log(agent)?;
    damaged.iter().for_each(|words| super::print::aside(words));
    let chunks: Vec<Chunk> = messages.iter().flat_map(|message| Chunk::of_body(&message.body)).collect();
    let last = logs.last.map_or(usize::MAX, |last| usize::try_from(last).unwrap_or(usize::MAX));
    let from = logs.from.as_ref().filter(|from| from.epoch == EPOCH).map_or(0, |from| from.number);
    let first = chunks.len().saturating_sub(last).max(usize::try_from(from).unwrap_or(usize::MAX));
    for (number, chunk) in chunks.into_iter().enumerate().skip(first) {
        let line = Numbered { agent, number: number as u64, chunk }.to_line(EPOCH);
        // What was written as JSON a moment ago is some.
        printer.chunk(&serde_json::from_str(&line).unwrap_or_default());
    }
    printer.end();
    Ok(())
}

/// Who is meant: by name, number or the beginning of an id.
fn called(store: &Store, agent: &str) -> Result<AgentId> {
    let words = match store.find(agent)? {
        Found::One(id) => return Ok(id),
        Found::Ambiguous(ids) => {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            format!("{agent:?} may be any of {}: type more of it", ids.join(", "))
        }
        Found::None => {
            let number = agent.parse::<i64>().ok();
            let rows = store.load_agents()?.agents;
            match rows.iter().find(|row| Some(row.ordinal) == number) {
                Some(row) => return Ok(row.id),
                None => format!("there is no agent {agent:?}: polylogue ps lists them"),
            }
        }
    };
    Err(Error::new(ErrorKind::Usage, words))
}
