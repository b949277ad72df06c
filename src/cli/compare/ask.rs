//! Asks the models, each in a turn of its own agent, over its own connection.

use std::time::{Duration, Instant};

use serde::Deserialize as _;

use super::{Answer, Answers, Ended};
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::arguments::Arguments;
use crate::cli::client::server_ended;
use crate::cli::config::{Loaded, ProcessEnvironment};
use crate::cli::connect;
use crate::cli::host::{Host, HostOptions};
use crate::cli::links::{Links, News};
use crate::cli::print::summary::Failure;
use crate::cli::print::{held_too_long, retry_ms};
use crate::cli::stdio::print_note;
use crate::cli::stdio::streams::LAST_OUTPUT_TIMEOUT;
use crate::domain::chunk::Chunk;
use crate::domain::wire::{NewAgent, Request, Response};
use crate::reactor::Signals;
use crate::repl::Turn;

/// The models that are asked, in a poll with the signals.
struct Asking<'a> {
    host: Host,
    /// With the place of each answer.
    links: Links<usize>,
    signals: Signals,
    answers: &'a mut Answers,
    deadline: Option<Instant>,
}

/// Asks all models and waits for their answers.
pub fn ask(
    (arguments, env): (&Arguments, &ProcessEnvironment),
    prompt: &str,
    answers: &mut Answers,
    deadline: Option<Instant>,
) -> Result<Ended> {
    let configure = |loaded: Loaded| loaded.unattended().into_config();
    let options = HostOptions::for_run((arguments, env), deadline, &configure);
    let (host, config) = Host::open(&options).map_err(|error| held_too_long(error, deadline))?;
    let new = connect::agent_for_run(&host, arguments, env, &config);
    let mut asking =
        Asking { host, links: Links::default(), signals: Signals::catch_termination()?, answers, deadline };
    let ended = asking.create(&new).and_then(|()| asking.begin(&new, prompt)).and_then(|()| asking.follow());
    asking.end().and(ended)
}

impl Asking<'_> {
    /// Creates an agent for each model.
    fn create(&mut self, new: &NewAgent) -> Result<()> {
        for answer in &mut self.answers.answers {
            let new = NewAgent { choices: new.choices.clone().with_model(&answer.model), ..new.clone() };
            let agent = self.host.request(&Request::create(new))?;
            answer.agent = agent["id"].as_str().unwrap_or_default().to_owned();
            answer.model = agent["model"].as_str().map_or_else(|| answer.model.clone(), str::to_owned);
        }
        Ok(())
    }

    fn begin(&mut self, new: &NewAgent, prompt: &str) -> Result<()> {
        for (at, answer) in self.answers.answers.iter().enumerate() {
            let request = Request::Turn {
                agent: answer.agent.clone(),
                text: prompt.to_owned(),
                max_requests: None,
                approval: new.choices.approval.clone(),
                is_attended: false,
                retry_ms: retry_ms(self.deadline),
                takes_commands: false,
            };
            self.links.send(&mut self.host, &request, at)?;
        }
        Ok(())
    }

    /// Reads what the loop sends until all turns are over.
    fn follow(&mut self) -> Result<Ended> {
        loop {
            self.answers.print_complete();
            if self.answers.are_complete() {
                return Ok(Ended::Complete);
            }
            let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Ended::Timeout);
            }
            if let Some(ended) = self.turn(left)? {
                return Ok(ended);
            }
        }
    }

    /// One turn of the loop. Returns why there are no further ones.
    fn turn(&mut self, limit: Option<Duration>) -> Result<Option<Ended>> {
        self.host.watch(self.signals.fd(), true, false)?;
        let (turn, ready) = self.links.turn(&mut self.host, limit)?;
        if turn == Turn::Exit {
            return Ok(Some(Ended::Signal(rustix::process::Signal::TERM.as_raw())));
        }
        if ready.contains(&self.signals.fd())
            && let Some(number) = self.signals.take_ending()
        {
            return Ok(Some(Ended::Signal(number)));
        }
        while let Some((number, news)) = self.links.next(|_| false) {
            let Some(at) = self.links.purpose(number).copied() else { continue };
            let News::Response(response, _) = news else { return Err(server_ended()) };
            if let Some(limit) = take(&mut self.answers.answers[at], response) {
                return Ok(Some(Ended::Limit(limit)));
            }
            if self.answers.answers[at].took.is_some() {
                self.links.close(&mut self.host, number)?;
            }
        }
        Ok(None)
    }

    /// Interrupts running turns and reads their remaining output for a moment. The agents are archived.
    fn end(mut self) -> Result<()> {
        for (number, _) in self.links.all() {
            self.links.cut(number);
        }
        let give_up = Instant::now() + LAST_OUTPUT_TIMEOUT;
        while !self.links.all().is_empty()
            && self.turn(Some(LAST_OUTPUT_TIMEOUT))?.is_none()
            && Instant::now() < give_up
        {}
        let made = self.answers.answers.iter().filter(|answer| !answer.agent.is_empty());
        for answer in made {
            let archived = Request::run(["archive", "--when-idle", "--", &answer.agent]);
            // A server that has ended archives it at its next start.
            let _ = self.host.request(&archived);
        }
        self.host.leave()?.map_or(Ok(()), |loss| Err(Error::new(ErrorKind::Store, loss)))
    }
}

/// Adds what the loop sent to an answer. Returns a description of the limit that ended its turn.
fn take(answer: &mut Answer, response: Response) -> Option<String> {
    match response {
        Response::Chunk(value) => {
            if let Ok(chunk) = Chunk::deserialize(&value) {
                if let Chunk::Question { title, .. } = &chunk {
                    print_note(&format!("refused: {title} (of {})", answer.model));
                }
                let _added = answer.summary.on_chunk(&chunk);
            }
        }
        Response::Done(result) => {
            answer.end();
            return result["limit"].as_str().map(str::to_owned);
        }
        Response::Refused { kind, message } => {
            answer.failure = Some(Failure { kind, message });
            answer.end();
        }
        _ => {}
    }
    None
}
