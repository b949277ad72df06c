//! What a person asks for with a line: at once, in the queue, or outside of it.

mod custom;
mod export;
mod lists;
mod matrix;
mod queue;
mod slips;
mod steer;
mod tell;

use crate::support::harness::Harness;
use crate::support::internals::{Body, Probe};

/// The user's messages and marks, in the order of the log.
fn done(app: &Harness, n: usize) -> Vec<String> {
    let line = |body| match body {
        Body::User(text) => Some(text),
        Body::Mark(label) => Some(format!("/mark {label}")),
        _ => None,
    };
    app.log(n).into_iter().filter_map(|message| line(message.body)).collect()
}

/// The lines that wait in the store for the agent, the next one first.
fn waiting(app: &Harness, n: usize) -> Vec<String> {
    let stored = app.repl.store().queued(app.id(n)).expect("the queue can be read");
    let queue = &app.agent(n).queue;
    let rows = queue.iter().map(|entry| (entry.id, entry.text.clone(), entry.is_command));
    let stored = stored.into_iter().map(|row| (row.id, row.text, row.is_command));
    assert!(rows.eq(stored), "what is in memory is what is stored");
    queue.iter().map(|entry| entry.line()).collect()
}
