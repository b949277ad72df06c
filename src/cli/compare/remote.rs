//! Models whose agents work in the server that holds the data directory. Each turn has a connection of its own.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Deserialize as _;

use super::{Answer, Answers, Ended};
use crate::base::error::{Error, Result};
use crate::cli::client::Client;
use crate::cli::print::summary::Failure;
use crate::domain::chunk::Chunk;
use crate::domain::wire::{NewAgent, Request, Response};
use crate::reactor::Signals;

/// # Errors
/// A model is not configured, or the server refuses or ends.
pub fn run(
    mut client: Client,
    directory: &Path,
    new: &NewAgent,
    prompt: &str,
    answers: &mut Answers,
    deadline: Option<Instant>,
) -> Result<Ended> {
    let mut signals = Signals::catch_termination()?;
    for answer in &mut answers.answers {
        let new = NewAgent { choices: new.choices.clone().with_model(&answer.model), ..new.clone() };
        let agent = client.request(&Request::New(new))?;
        answer.agent = agent["id"].as_str().unwrap_or_default().to_owned();
        answer.model = agent["model"].as_str().map_or_else(|| answer.model.clone(), str::to_owned);
    }
    let mut clients = Vec::new();
    for answer in &answers.answers {
        let mut client = Client::require(directory)?;
        let (agent, text, approval) = (answer.agent.clone(), prompt.to_owned(), new.choices.approval.clone());
        client.send(&Request::Turn {
            agent,
            text,
            max_requests: None,
            approval,
            is_attended: false,
            takes_commands: false,
        })?;
        clients.push(client);
    }
    let ended = follow(&mut clients, &mut signals, answers, deadline)?;
    if !matches!(ended, Ended::Complete) {
        for (client, answer) in clients.iter_mut().zip(&answers.answers) {
            if answer.took.is_none() {
                client.send(&Request::Cut)?;
            }
        }
    }
    for answer in &answers.answers {
        client.request(&Request::Archive { agent: answer.agent.clone(), when_idle: true })?;
    }
    Ok(ended)
}

/// Reads what the server sends until all turns are over.
fn follow(
    clients: &mut [Client],
    signals: &mut Signals,
    answers: &mut Answers,
    deadline: Option<Instant>,
) -> Result<Ended> {
    loop {
        for (client, answer) in clients.iter_mut().zip(&mut answers.answers) {
            while answer.took.is_none() && client.has_line() {
                take(answer, client.receive()?);
            }
        }
        answers.print_complete();
        if answers.are_complete() {
            return Ok(Ended::Complete);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Ended::Timeout);
        }
        let open = clients.iter().zip(&answers.answers).map(|(client, answer)| (client, answer.took.is_none()));
        let readable = wait(open, signals, left.and_then(|left| Timespec::try_from(left).ok()))?;
        if let Some(number) = signals.take_ending() {
            return Ok(Ended::Signal(number));
        }
        for at in readable {
            // A part of a line is followed by the rest at once.
            take(&mut answers.answers[at], clients[at].receive()?);
        }
    }
}

/// Waits until the server has sent something, and returns which connections can be read.
fn wait<'a>(
    clients: impl Iterator<Item = (&'a Client, bool)>,
    signals: &Signals,
    limit: Option<Timespec>,
) -> Result<Vec<usize>> {
    let open: Vec<(usize, BorrowedFd<'_>)> =
        clients.enumerate().filter(|(_, (_, is_open))| *is_open).map(|(at, (client, _))| (at, client.fd())).collect();
    let mut polled: Vec<PollFd<'_>> = open.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    polled.push(PollFd::from_borrowed_fd(signals.borrowed_fd(), PollFlags::IN));
    match poll(&mut polled, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(Error::from(std::io::Error::from(error))),
    }
    let is_ready = |(at, fd): (&(usize, BorrowedFd<'_>), &PollFd<'_>)| (!fd.revents().is_empty()).then_some(at.0);
    Ok(open.iter().zip(&polled).filter_map(is_ready).collect())
}

fn take(answer: &mut Answer, response: Response) {
    match response {
        Response::Chunk(value) => {
            if let Ok(chunk) = Chunk::deserialize(&value) {
                let _added = answer.summary.on_chunk(&chunk);
            }
        }
        Response::Done(_) => answer.end(),
        Response::Refused { kind, message } => {
            answer.failure = Some(Failure { kind, message });
            answer.end();
        }
        Response::Missed(_)
        | Response::Frame(_)
        | Response::Suspend {}
        | Response::Edit(_)
        | Response::View(_)
        | Response::Paste {}
        | Response::Commands(_)
        | Response::Questions(_)
        | Response::Back(_)
        | Response::End(_) => {}
    }
}
