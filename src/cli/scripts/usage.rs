//! `usage`: tokens and cost, read from the store.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::print;
use crate::base::error::Result;
use crate::base::text::dollars;
use crate::cli::arguments::UsageBy;
use crate::domain::called::label;
use crate::store::{Store, UsageTotal};

/// The columns of `usage`.
const COLUMNS: &[&str] = &[
    "day",
    "number",
    "name",
    "model",
    "requests",
    "input",
    "cached",
    "written",
    "output",
    "reasoning",
    "cost",
    "priced",
    "tree_tokens",
    "tree_cost",
];

pub fn run(by: UsageBy, is_json: bool, directory: &Path) -> Result<()> {
    let store = Store::open_read_only(directory)?;
    let mut rows: Vec<Value> = match by {
        UsageBy::Day => {
            let days = store.usage_by_day()?;
            days.iter().map(|(day, total)| with(json!({ "day": day }), total, is_json)).collect()
        }
        UsageBy::Model => {
            let models = store.usage_by_model()?;
            // Earlier versions did not store the model.
            let name = |model: &Option<String>| model.clone().or_else(|| (!is_json).then(|| "unknown".into()));
            models.iter().map(|(model, total)| with(json!({ "model": name(model) }), total, is_json)).collect()
        }
        UsageBy::Agent => {
            let agents = store.usage_by_agent()?;
            let agents = agents.iter().filter(|agent| agent.tree.requests > 0);
            agents
                .map(|agent| {
                    let parent = agent.parent.map(|id| id.to_string());
                    let mut row = json!({ "number": agent.number, "name": agent.name });
                    if !is_json && agent.number.is_none() {
                        row["name"] = label(agent.name.as_deref(), None, agent.id).into();
                    }
                    if is_json {
                        row["id"] = agent.id.to_string().into();
                        row["parent"] = parent.into();
                        row["is_running"] = agent.is_running.into();
                    }
                    row["tree_tokens"] = agent.tree.input.saturating_add(agent.tree.output).into();
                    row["tree_cost"] = cost(&agent.tree, is_json);
                    with(row, &agent.own, is_json)
                })
                .collect()
        }
    };
    if !is_json && rows.len() > 1 {
        let total = match by {
            UsageBy::Day => json!({ "day": "total" }),
            UsageBy::Agent => json!({ "name": "total" }),
            UsageBy::Model => json!({ "model": "total" }),
        };
        rows.push(with(total, &store.usage(None)?, false));
    }
    print::table(&Value::Array(rows), COLUMNS, is_json);
    Ok(())
}

/// Adds the columns of a sum to a row.
fn with(mut row: Value, total: &UsageTotal, is_json: bool) -> Value {
    let mut columns = Map::new();
    columns.insert("requests".into(), total.requests.into());
    columns.insert("input".into(), total.input.into());
    columns.insert("cached".into(), total.cached.into());
    columns.insert("written".into(), total.written.into());
    columns.insert("output".into(), total.output.into());
    columns.insert("reasoning".into(), total.reasoning.into());
    columns.insert("cost".into(), cost(total, is_json));
    // A table says it only where a part of the cost is unknown.
    if is_json || (1..total.requests).contains(&total.priced) {
        columns.insert("priced".into(), total.priced.into());
    }
    if let Some(row) = row.as_object_mut() {
        row.append(&mut columns);
    }
    row
}

/// The cost: for scripts in billionths of a US dollar, for a person in dollars. An unknown one is null.
fn cost(total: &UsageTotal, is_json: bool) -> Value {
    match total.priced {
        0 => Value::Null,
        _ if is_json => total.cost.into(),
        _ => format!("${}", dollars(total.cost)).into(),
    }
}
