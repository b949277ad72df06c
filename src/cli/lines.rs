//! A chat in lines without a terminal: each line of standard input is what a person would enter, and what the chat prints goes
//! to standard output. It is a client of the loop with a terminal in line mode. At the end of the input it leaves as soon as
//! all agents are idle.

use std::os::fd::RawFd;
use std::time::Duration;

use super::arguments::{ALLOW_EVERYTHING, Arguments};
use super::client::{refusal, server_ended};
use super::config::{self, Loaded, ProcessEnvironment};
use super::host::{Host, HostOptions};
use super::links::{Links, News};
use super::stdio::input::Input;
use super::stdio::print_note;
use super::stdio::streams::{Streams, WriteError};
use super::{code, connect};
use crate::base::error::{Error, Result};
use crate::domain::choices::{Opening, Opens};
use crate::domain::config::Config;
use crate::domain::display::Abilities;
use crate::domain::wire::{Request, Response, TerminalFacts};
use crate::reactor::Signals;
use crate::repl::Turn;

/// Bytes of keys in one request.
const KEYS_PER_REQUEST: usize = 64 * 1024;

/// Whether a chat with these arguments reads lines: `--plain`, and standard input is no terminal.
pub fn is_meant(arguments: &Arguments, env: &ProcessEnvironment) -> bool {
    !rustix::termios::isatty(std::io::stdin()) && config::load(arguments, env).config().display.plain
}

pub fn run(arguments: &Arguments, env: &ProcessEnvironment) -> Result<u8> {
    if arguments.dangerously_allow_everything {
        return Err(Error::usage(format!("{ALLOW_EVERYTHING} needs a terminal, or --print")));
    }
    let loaded = config::load(arguments, env);
    let opening = connect::opening(arguments, &loaded)?;
    let is_new = opening.agent.is_none() && opening.opens == Opens::New;
    let configure = |loaded: Loaded| {
        // An existing conversation has a model of its own.
        let loaded = if is_new || arguments.model.is_some() { loaded } else { loaded.without_model_error() };
        let (record, records_texts) = (arguments.record.clone(), arguments.record_texts);
        Ok(Config { record, records_texts, ..loaded.into_config()? })
    };
    let options = HostOptions {
        listens: !arguments.read_only,
        reads_only: arguments.read_only,
        tells_at_end: false,
        ..HostOptions::for_run((arguments, env), None, &configure)
    };
    let (mut host, config) = Host::open(&options)?;
    let choices = if host.is_local() { opening.choices.clone() } else { config::choices(&config) };
    let opening = Box::new(Opening { choices, notes: loaded.notes(), ..opening });
    let mut links = Links::default();
    let attach = Request::Attach {
        opening,
        is_read_only: arguments.read_only,
        terminal: terminal_facts(),
        directory: Some(config.working_directory.clone()),
    };
    let link = links.send(&mut host, &attach, ())?;
    let (input, signals) = (Some(Input::of_process()?), Signals::catch_termination()?);
    Lines { host, links, link, input, streams: Streams::of_process()?, signals, ended: None }.run()
}

/// A terminal that prints lines.
fn terminal_facts() -> TerminalFacts {
    TerminalFacts {
        columns: 80,
        rows: 24,
        color: false,
        attributes: false,
        unicode: true,
        is_in_tmux: false,
        abilities: Abilities { is_plain: true, ..Abilities::default() },
        can_edit: false,
        can_view: false,
        can_paste: false,
        is_scripted: true,
    }
}

struct Lines {
    host: Host,
    links: Links<()>,
    link: u64,
    /// `None` after its end.
    input: Option<Input>,
    streams: Streams,
    signals: Signals,
    /// The exit code, once the chat has ended; what it printed last may still wait for the reader.
    ended: Option<u8>,
}

impl Lines {
    fn run(mut self) -> Result<u8> {
        let outcome = loop {
            match self.turn() {
                Ok(Some(code)) => break Ok(code),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
        };
        self.links.close(&mut self.host, self.link)?;
        let loss = self.host.leave()?;
        loss.iter().for_each(|loss| print_note(loss));
        outcome.map(|code| if code == code::DONE && loss.is_some() { code::FAILED } else { code })
    }

    /// Returns the exit code at the end.
    fn turn(&mut self) -> Result<Option<u8>> {
        self.watch()?;
        let is_ready = self.takes_input() && self.input.as_ref().is_some_and(Input::is_always_ready);
        let (turn, ready) = self.links.turn(&mut self.host, is_ready.then_some(Duration::ZERO))?;
        if let Some(number) = self.on_ready(&ready)? {
            return Ok(Some(code::of_signal(number)));
        }
        self.pass_input()?;
        if self.ended.is_none() {
            self.pass_output()?;
        }
        if turn == Turn::Exit {
            self.ended.get_or_insert(code::DONE);
        }
        match self.streams.error() {
            None => Ok(self.ended.filter(|_| !self.streams.is_waiting())),
            Some(WriteError::Closed) => Ok(Some(code::UNREAD)),
            Some(WriteError::Failed(message)) => Err(Error::usage(message)),
            Some(WriteError::Stalled(message)) => Err(Error::usage(message)),
        }
    }

    fn watch(&mut self) -> Result<()> {
        self.host.watch(self.signals.fd(), true, false)?;
        let streams: Vec<(RawFd, bool)> = self.streams.watched().collect();
        for (fd, writable) in streams {
            self.host.watch(fd, true, writable)?;
        }
        match self.input.as_ref().and_then(Input::watched) {
            Some(fd) => self.host.watch(fd, self.takes_input(), false),
            None => Ok(()),
        }
    }

    /// Whether the loop has taken what was typed before.
    fn takes_input(&self) -> bool {
        self.links.is_ready(self.link)
    }

    /// Returns the signal that ends the chat.
    fn on_ready(&mut self, ready: &[RawFd]) -> Result<Option<i32>> {
        let mut ending = None;
        for &fd in ready {
            if fd == self.signals.fd() {
                ending = ending.or(self.signals.take_ending());
            } else {
                self.streams.on_ready(fd);
            }
        }
        Ok(ending)
    }

    /// Passes on what can be read of the input. The last line may lack its end.
    fn pass_input(&mut self) -> Result<()> {
        let takes_input = self.takes_input();
        let Some(input) = self.input.as_mut().filter(|_| takes_input) else { return Ok(()) };
        let watched = input.watched();
        input.read_available()?;
        let mut keys = input.take();
        let is_over = input.has_ended();
        if is_over {
            watched.map_or(Ok(()), |fd| self.host.watch(fd, false, false))?;
            self.input = None;
            keys.push(b'\n');
        }
        let count = keys.len().div_ceil(KEYS_PER_REQUEST);
        for (at, keys) in keys.chunks(KEYS_PER_REQUEST).enumerate() {
            let request = Request::Keys { keys: keys.to_vec(), is_last: is_over && at + 1 == count };
            self.links.send_more(self.link, &request)?;
        }
        Ok(())
    }

    fn pass_output(&mut self) -> Result<()> {
        while let Some((_, news)) = self.links.next(|()| false) {
            match news {
                News::Response(Response::Frame(text), _) => self.streams.answer(&text),
                News::Response(Response::End(_), _) => {
                    self.ended = Some(code::DONE);
                    return Ok(());
                }
                News::Response(Response::Refused { kind, message }, _) => return Err(refusal(&kind, message)),
                News::Response(..) => {}
                News::Lost => return Err(server_ended()),
            }
        }
        Ok(())
    }
}
