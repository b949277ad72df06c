//! `/queue`: text and commands that wait until the agent is idle. Entries are numbered from 1, the next one first.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::complete::complete_two_words;
use super::{CommandContext, CommandSpec, usage_error};
use crate::agent::Queued;
use crate::base::error::Result;
use crate::base::text;
use crate::domain::change::{Change, QueueEdit};
use crate::domain::flow::InputResult;

pub const QUEUE: CommandSpec = CommandSpec {
    arguments: "[edit N | drop N | up N | first N | clear]",
    define: |command| command.arg(positional("edit", "EDIT")).arg(positional("number", "N")),
    complete: Some(complete),
    ..CommandSpec::new("queue", "list or edit the queue", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let queue = &context.agent()?.queue;
    let index = |number: &str| index(number, queue.len());
    let (edit, note) = match (value_of(given, "edit"), value_of(given, "number")) {
        (None, _) => return Ok(InputResult::Continue(Some(list(queue.iter())))),
        (Some("clear"), None) => {
            (QueueEdit::Clear, Some(format!("{} deleted", text::counted(queue.len(), "entry", "entries"))))
        }
        (Some("edit"), Some(number)) => (QueueEdit::TakeBack(index(number)?), None),
        (Some("drop"), Some(number)) => {
            let at = index(number)?;
            (QueueEdit::Drop(at), Some(format!("deleted: {}", queue[at].line())))
        }
        (Some("up"), Some(number)) => {
            let from = index(number)?;
            (QueueEdit::Move { from, to: from.saturating_sub(1) }, None)
        }
        (Some("first"), Some(number)) => (QueueEdit::Move { from: index(number)?, to: 0 }, None),
        (Some(edit), _) => return Err(usage_error(format!("unknown arguments {edit:?}: /queue {}", QUEUE.arguments))),
    };
    Ok(InputResult::NewState(Change::EditQueue(edit), note))
}

fn index(number: &str, entries: usize) -> Result<usize> {
    let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    index.filter(|index| *index < entries).ok_or_else(|| {
        let entries = text::counted(entries, "entry", "entries");
        usage_error(format!("no entry {number:?} in a queue of {entries}: /queue lists them"))
    })
}

fn list<'a>(queue: impl ExactSizeIterator<Item = &'a Queued>) -> String {
    if queue.len() == 0 {
        return "nothing is queued".into();
    }
    let line = |(at, entry): (usize, &Queued)| format!("{:<3} {}", at + 1, entry.line().replace('\n', "\n    "));
    queue.enumerate().map(line).collect::<Vec<_>>().join("\n")
}

fn complete(context: &CommandContext, typed: &str) -> Vec<String> {
    let count = context.agent().map_or(0, |agent| agent.queue.len());
    let numbers: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
    let verbs = ["edit ", "drop ", "up ", "first ", "clear"].map(str::to_owned);
    complete_two_words(typed, verbs.into(), |_| numbers)
}
