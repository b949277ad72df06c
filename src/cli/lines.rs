//! A chat in lines without a terminal: each line of standard input is what a person would enter, and what the chat prints goes
//! to standard output. It is a client of the loop with a terminal in line mode. At the end of the input it leaves as soon as
//! all agents are idle.

use std::os::fd::RawFd;
use std::time::Duration;

use rustix::fs::{FileType, fstat};

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
use crate::domain::wire::{Request, Response, SERVER_ENDED, TerminalFacts};
use crate::reactor::Signals;
use crate::repl::Turn;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes of keys in one request.
const KEYS_PER_REQUEST: usize = 64 * 1024;

/// Whether a chat with these arguments reads lines: `--plain`, and standard input is no terminal.
pub fn is_meant(arguments: &Arguments) -> bool {
    arguments.plain && !rustix::termios::isatty(std::io::stdin())
}

pub fn run(arguments: &Arguments, env: &ProcessEnvironment) -> Result<u8> {
    if arguments.dangerously_allow_everything {
        return Err(Error::usage(format!("{ALLOW_EVERYTHING} needs a terminal, or --print")));
    }
    // Before a conversation is begun.
    if fstat(std::io::stdin()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory) {
        return Err(Error::usage("standard input is a directory: expected lines"));
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
        reads_only: arguments.read_only,
        tells_at_end: false,
        ..HostOptions::for_run((arguments, env), None, &configure)
    };
    let (mut host, config) = Host::open(&options)?;
    // The server may have a provider that is not configured here.
    let loaded = if host.is_local() { loaded } else { loaded.without_model_error() };
    loaded.check()?;
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
    Lines { host, links, link, input, last: None, streams: Streams::of_process()?, signals, ended: None }.run()
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
    /// The last byte of it.
    last: Option<u8>,
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
            self.ended.get_or_insert(code::FAILED);
        }
        if self.ended.is_some() {
            self.stop_reading()?;
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
        input.read_available()?;
        let mut keys = input.take();
        if self.last.is_none() && keys.starts_with(BYTE_ORDER_MARK) {
            keys.drain(..BYTE_ORDER_MARK.len());
        }
        self.last = keys.last().copied().or(self.last);
        let is_over = input.has_ended();
        if is_over {
            self.stop_reading()?;
            if self.last.is_some_and(|last| last != b'\n') {
                keys.push(b'\n');
            }
        }
        for keys in keys.chunks(KEYS_PER_REQUEST) {
            self.links.send_more(self.link, &Request::Keys { keys: keys.to_vec(), is_last: false })?;
        }
        match is_over {
            true => self.links.send_more(self.link, &Request::Keys { keys: Vec::new(), is_last: true }),
            false => Ok(()),
        }
    }

    fn stop_reading(&mut self) -> Result<()> {
        match self.input.take().and_then(|input| input.descriptor()) {
            Some(fd) => self.host.watch(fd, false, false),
            None => Ok(()),
        }
    }

    fn pass_output(&mut self) -> Result<()> {
        while let Some((_, news)) = self.links.next(|()| false) {
            match news {
                News::Response(Response::Frame(text), _) => self.streams.answer(&text),
                News::Response(Response::End(reason), _) => {
                    let is_cut = reason.starts_with(SERVER_ENDED);
                    if is_cut {
                        print_note(&reason);
                    }
                    self.ended = Some(if is_cut { code::FAILED } else { code::DONE });
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
