//! What scripts ask of a server, a subcommand each: one request, and the answer on the standard output. `ps` and `logs` are
//! answered from the store where nobody serves.

mod kept;
mod print;

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::arguments::{Command, Logs};
use super::client::Client;
use super::code;
use crate::base::error::Result;
use crate::domain::chunk::Status;
use crate::domain::wire::{LONGEST_LINE, Request, Response};
use print::Printer;
pub use print::{aside, line};

/// Carries one of them out. The exit code.
///
/// # Errors
/// What the server or the store refuses, or that nobody serves.
pub fn run(command: &Command, directory: &Path) -> Result<u8> {
    match command {
        Command::Ps { json } => {
            print::table(&agents(directory)?, print::AGENTS, *json);
        }
        Command::Logs(logs) => return look(logs, directory),
        Command::Send { agent, text } => {
            let ask = Request::Send { agent: agent.clone(), text: text_of(text)? };
            Client::require(directory)?.ask(&ask)?;
        }
        Command::Kill { agent, cascade } => {
            Client::require(directory)?.ask(&Request::Kill { agent: agent.clone(), cascade: *cascade })?;
        }
        Command::Interrupt { agent } => {
            Client::require(directory)?.ask(&Request::Interrupt { agent: agent.clone() })?;
        }
        Command::Wait { agent, timeout } => return wait(agent, *timeout, directory),
        Command::Sessions { json } => {
            let sessions = Client::require(directory)?.ask(&Request::Sessions)?;
            print::table(&sessions, print::SESSIONS, *json);
        }
        Command::Stop => stop(directory)?,
        _ => unreachable!("main sends only these here"),
    }
    Ok(code::DONE)
}

/// The agents of the server or, without one, of the store.
pub fn agents(directory: &Path) -> Result<Value> {
    match Client::connect(directory)? {
        Some(mut client) => client.ask(&Request::Agents),
        None => kept::agents(directory),
    }
}

/// The words behind `send`, or what comes in.
fn text_of(words: &[String]) -> Result<String> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let mut text = String::new();
    // One byte more than a request can have: then it is refused, and no stream without an end is kept.
    std::io::stdin().lock().take(LONGEST_LINE as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Prints chunks, from the server or from what is kept.
fn look(logs: &Logs, directory: &Path) -> Result<u8> {
    let mut printer = Printer::new(logs.json);
    let Some(mut client) = Client::connect(directory)? else {
        if logs.follow {
            return Client::require(directory).map(|_| code::DONE);
        }
        kept::chunks(logs, directory, &mut printer)?;
        return Ok(code::DONE);
    };
    if logs.follow {
        client.be_patient()?;
    }
    let ask =
        Request::Logs { agent: logs.agent.clone(), from: logs.from.clone(), last: logs.last, follows: logs.follow };
    client.tell(&ask)?;
    while !printer.is_closed() {
        match client.next()? {
            Response::Chunk(chunk) => printer.chunk(&chunk),
            Response::Missed(count) => printer.missed(count),
            Response::Refused { kind, message } => return Err(super::client::refusal(&kind, message)),
            Response::Done(_) => break,
            Response::Frame(_) | Response::Suspend | Response::End(_) => {}
        }
    }
    printer.end();
    Ok(code::DONE)
}

/// Waits until an agent is at rest. How that came about is the exit code.
fn wait(agent: &str, timeout: Option<f64>, directory: &Path) -> Result<u8> {
    let mut client = Client::require(directory)?;
    // The server keeps the time: it knows when the request came.
    client.be_patient()?;
    let answer = client.ask(&Request::Wait { agent: agent.to_owned(), seconds: timeout })?;
    let status = answer.as_str().or_else(|| answer["status"].as_str()).unwrap_or_default();
    line(status);
    Ok(match status {
        _ if status == Status::Idle.name() => code::DONE,
        _ if status == Status::Interrupted.name() => code::INTERRUPTED,
        _ if status == Status::Dead.name() => code::FAILED,
        _ => code::LIMIT,
    })
}

/// The answer may come before the server has ended: that is over when it hangs up.
fn stop(directory: &Path) -> Result<()> {
    let mut client = Client::require(directory)?;
    client.be_patient()?;
    let _: Value = client.ask(&Request::Stop)?;
    while client.next().is_ok() {}
    Ok(())
}
