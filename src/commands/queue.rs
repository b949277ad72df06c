//! `/queue`: text and commands that wait until the agent is idle. Entries are numbered from 1, the next one first.

use super::complete::complete_two_words;
use super::{CommandContext, CommandSpec, WhenBusy, usage_error};
use crate::agent::Queued;
use crate::base::error::Result;
use crate::base::text;
use crate::domain::flow::{Change, InputResult, QueueEdit};

pub const QUEUE: CommandSpec = CommandSpec {
    name: "queue",
    aliases: &[],
    arguments: "[edit N | drop N | up N | first N | clear]",
    about: "list or edit the queue",
    busy: WhenBusy::Runs,
    run,
    complete,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let queue = &context.agent()?.queue;
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let index = |number: &str| index(number, queue.len());
    let (edit, note) = match words[..] {
        [] => return Ok(InputResult::Continue(Some(list(queue.iter())))),
        ["clear"] => (QueueEdit::Clear, Some(format!("{} deleted", text::counted(queue.len(), "entry", "entries")))),
        ["edit", number] => (QueueEdit::TakeBack(index(number)?), None),
        ["drop", number] => {
            let at = index(number)?;
            (QueueEdit::Drop(at), Some(format!("deleted: {}", queue[at].line())))
        }
        ["up", number] => {
            let from = index(number)?;
            (QueueEdit::Move { from, to: from.saturating_sub(1) }, None)
        }
        ["first", number] => (QueueEdit::Move { from: index(number)?, to: 0 }, None),
        _ => return Err(usage_error(format!("unknown arguments {arguments:?}: /queue {}", QUEUE.arguments))),
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
