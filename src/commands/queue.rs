//! `/queue`: what waits its turn, and in which order. Its entries are counted from 1, the next one first.

use super::complete::behind_first;
use super::{CommandContext, CommandSpec, WhenBusy, usage};
use crate::agent::Queued;
use crate::base::error::Result;
use crate::base::text;
use crate::domain::flow::{Change, InputResult, QueueEdit};

/// `/queue`.
pub const QUEUE: CommandSpec = CommandSpec {
    name: "queue",
    aliases: &[],
    arguments: "[edit N | drop N | up N | first N | clear]",
    about: "what waits its turn",
    busy: WhenBusy::Runs,
    run,
    complete,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let queue = &context.agent()?.queue;
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let place = |number: &str| place(number, queue.len());
    let (edit, note) = match words[..] {
        [] => return Ok(InputResult::Continue(Some(list(queue.iter())))),
        ["clear"] => {
            (QueueEdit::Clear, Some(format!("{} thrown away", text::counted(queue.len(), "entry", "entries"))))
        }
        ["edit", number] => (QueueEdit::TakeBack(place(number)?), None),
        ["drop", number] => {
            let at = place(number)?;
            (QueueEdit::Drop(at), Some(format!("thrown away: {}", queue[at].line())))
        }
        ["up", number] => {
            let from = place(number)?;
            (QueueEdit::Move { from, to: from.saturating_sub(1) }, None)
        }
        ["first", number] => (QueueEdit::Move { from: place(number)?, to: 0 }, None),
        _ => return Err(usage("say /queue, or edit, drop, up or first with a number behind it, or clear")),
    };
    Ok(InputResult::NewState(Change::EditQueue(edit), note))
}

fn place(number: &str, entries: usize) -> Result<usize> {
    let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let words = || format!("{number:?} is no place in a queue of {entries}: /queue shows them");
    place.filter(|place| *place < entries).ok_or_else(|| usage(&words()))
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
    behind_first(typed, verbs.into(), |_| numbers)
}
