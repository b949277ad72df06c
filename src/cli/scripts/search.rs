//! `search`: full-text search over all messages, read from the store.

use std::path::Path;

use serde_json::{Value, json};

use super::print;
use crate::base::clock::{date_and_time, unix_ms};
use crate::base::error::Result;
use crate::cli::stdio::print_note;
use crate::domain::search::{SearchQuery, excerpt};
use crate::store::{SearchHit, Store};

const COLUMNS: &[&str] = &["agent", "time", "kind", "text"];
/// Characters of a message in the table.
const EXCERPT: usize = 100;

/// Returns whether something was found.
pub fn run(typed: &[String], most: usize, is_json: bool, directory: &Path) -> Result<bool> {
    // A shell has removed the quotes: what was one word there is a phrase.
    let quoted = |word: &String| if word.contains(' ') { format!("\"{word}\"") } else { word.clone() };
    // Complete words are searched for as whole words.
    let typed = typed.iter().map(quoted).collect::<Vec<_>>().join(" ") + " ";
    let query = SearchQuery::parse(&typed, unix_ms())?;
    let store = Store::open_read_only(directory)?;
    let hits = store.search(&query, most)?;
    let rows: Vec<Value> = hits.iter().map(|hit| row(hit, &query, is_json)).collect();
    print::table(&Value::Array(rows), COLUMNS, is_json);
    let unindexed = store.unindexed()?;
    if unindexed > 0 {
        print_note(&format!("{unindexed} older messages are not searched yet: a chat or server indexes them"));
    }
    Ok(!hits.is_empty())
}

fn row(hit: &SearchHit, query: &SearchQuery, is_json: bool) -> Value {
    if is_json {
        return json!({
            "message": hit.id.0,
            "agent": hit.agent.to_string(),
            "number": hit.number,
            "name": hit.name,
            "is_running": hit.is_running,
            "kind": hit.kind,
            "tool": hit.tool,
            "created_at": hit.created_at,
            "text": hit.content,
        });
    }
    let text = excerpt(&hit.content, query.words(), EXCERPT);
    let text = hit.tool.as_ref().map(|tool| format!("{tool}: {text}")).unwrap_or(text);
    json!({ "agent": hit.label(), "time": date_and_time(hit.created_at), "kind": hit.kind_name(), "text": text })
}
