//! `logs`: the chunks of an agent, from the server or, without one and for archived agents, from the store.

use std::path::Path;

use super::print::Printer;
use crate::base::error::Result;
use crate::cli::arguments::Logs;
use crate::cli::client::{self, Client};
use crate::cli::code;
use crate::cli::stdio::print_note;
use crate::commands::{archived_called, one_of};
use crate::domain::chunk::{Chunk, Numbered, begin_of_last};
use crate::domain::wire::{Followed, Request, Response};
use crate::store::Store;

/// The epoch of chunks that were numbered here and not by a server.
const EPOCH: &str = "stored";

/// Returns the exit code.
pub fn run(options: &Logs, directory: &Path) -> Result<u8> {
    let mut printer = Printer::new(options.json);
    let Some(mut client) = Client::connect(directory)? else {
        if options.follow {
            return Client::require(directory).map(|_| code::DONE);
        }
        print_stored(options, directory, &mut printer)?;
        return Ok(code::DONE);
    };
    if options.follow {
        client.wait_forever()?;
    }
    let Logs { agent, from, last, follow, .. } = options.clone();
    client.send(&Request::Follow(Followed::Chunks { agent, from, last, goes_on: follow }))?;
    while !printer.is_closed() {
        match client.receive()? {
            Response::Chunk(chunk) => printer.chunk(&chunk),
            Response::Missed(count) => printer.note_missed(count),
            // A server has no archived agents.
            Response::Refused { .. } if !follow && is_archived(options, directory) => {
                print_stored(options, directory, &mut printer)?;
                return Ok(code::DONE);
            }
            Response::Refused { kind, message } => return Err(client::refusal(&kind, message)),
            Response::Done(_) => break,
            _ => {}
        }
    }
    printer.end();
    Ok(code::DONE)
}

fn is_archived(options: &Logs, directory: &Path) -> bool {
    let store = Store::open_read_only(directory);
    store.is_ok_and(|store| archived_called(&store, &options.agent).is_ok())
}

fn print_stored(options: &Logs, directory: &Path, printer: &mut Printer) -> Result<()> {
    let (store, name) = (Store::open_read_only(directory)?, &options.agent);
    let agent = one_of(store.find(name)?, name, || format!("no agent {name:?}: polylogue ps lists them"))?;
    let (messages, damaged) = store.full_log(agent)?;
    damaged.iter().for_each(|message| print_note(message));
    let chunks: Vec<Chunk> = messages.iter().flat_map(|message| Chunk::of_body(&message.body)).collect();
    let numbered = || (0..).zip(chunks.iter().cloned()).collect::<Vec<(u64, Chunk)>>().into_iter().rev();
    let last =
        options.last.map(|count| begin_of_last(count, numbered()).unwrap_or(if count == 0 { u64::MAX } else { 0 }));
    let from = options.from.as_ref().filter(|from| from.epoch == EPOCH).map(|from| from.number);
    let first = usize::try_from(last.or(from).unwrap_or(0)).unwrap_or(usize::MAX);
    for (number, chunk) in chunks.into_iter().enumerate().skip(first) {
        let line = Numbered { agent, number: number as u64, chunk }.to_line(EPOCH);
        // The line was just made from JSON.
        printer.chunk(&serde_json::from_str(&line).unwrap_or_default());
    }
    printer.end();
    Ok(())
}
