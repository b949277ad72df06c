//! Where agents work: in this process, or in the server that holds the data directory. In both cases this program is a client
//! of that loop.

use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::Agent;
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::cli::arguments::Arguments;
use crate::cli::client::{Client, RESPONSE_TIMEOUT, no_response, refusal, server_ended};
use crate::cli::config::{Loaded, ProcessEnvironment};
use crate::cli::links::{Links, News};
use crate::cli::stdio::print_note;
use crate::cli::{config, connect, data_directory, opening, process, serve};
use crate::domain::config::Config;
use crate::domain::wire::{Request, Response};
use crate::reactor::{Reactor, Signals, Source};
use crate::repl::{Repl, Turn, Waiting};
use crate::socket::{self, Listener};
use crate::store::{self, Store};

/// How long a server that ends may take until the data directory is free.
const END_TIMEOUT: Duration = Duration::from_secs(2);

pub enum Host {
    Local { repl: Box<Repl>, directory: Option<PathBuf> },
    Remote { reactor: Box<Reactor>, directory: PathBuf, ready: Vec<RawFd> },
}

/// How a [`Host`] is opened.
pub struct HostOptions<'a> {
    pub arguments: &'a Arguments,
    pub env: &'a ProcessEnvironment,
    /// How long to wait for another process that holds the data directory.
    pub deadline: Option<Instant>,
    /// The configuration of a loop in this process.
    pub configure: &'a dyn Fn(Loaded) -> Result<Config>,
    /// Whether a loop in this process serves other clients. A run that ends by itself would end their work too, so they
    /// wait for it.
    pub listens: bool,
    /// A loop in this process only reads what is stored, which another process may hold.
    pub reads_only: bool,
    /// Only the exit code of the run says that something is stored: its requests need not wait for the disk.
    pub tells_at_end: bool,
    /// Checks the server that holds the data directory.
    pub check_server: &'a dyn Fn(&mut Client) -> Result<()>,
}

impl<'a> HostOptions<'a> {
    /// For a run that ends by itself.
    pub fn for_run(
        (arguments, env): (&'a Arguments, &'a ProcessEnvironment),
        deadline: Option<Instant>,
        configure: &'a dyn Fn(Loaded) -> Result<Config>,
    ) -> Self {
        Self {
            arguments,
            env,
            deadline,
            configure,
            listens: false,
            reads_only: false,
            tells_at_end: true,
            check_server: &|_| Ok(()),
        }
    }

    /// For a program that other terminals and scripts may use meanwhile.
    pub fn for_others(
        (arguments, env): (&'a Arguments, &'a ProcessEnvironment),
        configure: &'a dyn Fn(Loaded) -> Result<Config>,
        check_server: &'a dyn Fn(&mut Client) -> Result<()>,
    ) -> Self {
        Self { listens: true, tells_at_end: false, check_server, ..Self::for_run((arguments, env), None, configure) }
    }
}

impl Host {
    /// The server that holds the data directory, or a loop in this process. Returns also the configuration that was read.
    pub fn open(options: &HostOptions) -> Result<(Self, Config)> {
        let give_up = Instant::now() + END_TIMEOUT;
        loop {
            match Self::open_once(options) {
                // A server that is being killed closes its connections before it releases the store.
                Err(error) if error.kind == ErrorKind::Network && Instant::now() < give_up => {
                    let directory = config::load(options.arguments, options.env).config().data_directory.clone();
                    let left = give_up.saturating_duration_since(Instant::now());
                    opening::await_end(directory.as_deref().and_then(store::holder), left);
                }
                opened => return opened,
            }
        }
    }

    /// Holds no loop; used while one is closed and another opened.
    pub fn placeholder() -> Result<Self> {
        Ok(Self::Remote { reactor: Box::new(Reactor::new()?), directory: PathBuf::new(), ready: Vec::new() })
    }

    fn open_once(options: &HostOptions) -> Result<(Self, Config)> {
        let loaded = config::load(options.arguments, options.env);
        let config = loaded.config().clone();
        let host = match Self::remote(options, &config)? {
            Some(host) => host,
            None => Self::local(options, loaded)?,
        };
        Ok((host, config))
    }

    fn remote(options: &HostOptions, config: &Config) -> Result<Option<Self>> {
        let Some(directory) = config.data_directory.clone() else { return Ok(None) };
        let Some(mut client) = connect::find_server(options.arguments, config)? else { return Ok(None) };
        (options.check_server)(&mut client)?;
        Ok(Some(Self::Remote { reactor: Box::new(Reactor::new()?), directory, ready: Vec::new() }))
    }

    fn local(options: &HostOptions, loaded: Loaded) -> Result<Self> {
        process::prepare();
        let config = Config { supervisor: process::own_binary()?, ..(options.configure)(loaded)? };
        let directory = config.data_directory.clone();
        if let Some(directory) = directory.as_deref().filter(|_| options.reads_only) {
            let repl = Box::new(Repl::open(config, Store::open_read_only(directory)?, Clock::system())?);
            return Ok(Self::Local { repl, directory: None });
        }
        let Some(mut store) = opening::open(directory.as_deref(), options.deadline)? else {
            // It was started at the same time.
            let config = config::load(options.arguments, options.env).config().clone();
            return Self::remote(options, &config)?.ok_or_else(server_ended);
        };
        config.notes.iter().for_each(|note| print_note(note));
        if !options.listens {
            // One sync at the end, not one more of the database file.
            store.leave_log();
        }
        // Before agents are loaded that others may want to reach.
        let listener = directory.as_deref().filter(|_| options.listens).map(Listener::bind).transpose();
        let mut repl = Box::new(Repl::open(config, store, Clock::system())?);
        if options.tells_at_end {
            repl.wait_for_disk_at_end();
        }
        match listener {
            Ok(listener) => listener.into_iter().for_each(|listener| repl.serve(listener)),
            Err(error) => {
                print_note(&format!("other terminals and scripts cannot use these agents: {}", error.message))
            }
        }
        Ok(Self::Local { repl, directory })
    }

    /// Sends a request and waits for its response. Not while other descriptors are polled.
    pub fn request(&mut self, request: &Request) -> Result<Value> {
        let limit = (!self.is_local()).then_some(RESPONSE_TIMEOUT);
        self.request_for(request, limit)
    }

    /// As [`Host::request`]; the response may take so long, or any time.
    pub fn request_for(&mut self, request: &Request, limit: Option<Duration>) -> Result<Value> {
        let mut links = Links::default();
        let number = links.send(self, request, ())?;
        let give_up = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = give_up.map(|give_up| give_up.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(no_response());
            }
            let (turn, _) = links.turn(self, left)?;
            match links.next(|()| false) {
                Some((_, News::Response(Response::Done(value), _))) => {
                    links.close(self, number)?;
                    return Ok(value);
                }
                Some((_, News::Response(Response::Refused { kind, message }, _))) => {
                    return Err(refusal(&kind, message));
                }
                Some((_, News::Lost)) => return Err(server_ended()),
                None if turn == Turn::Exit => return Err(server_ended()),
                _ => {}
            }
        }
    }

    /// A new connection to the loop.
    pub fn connect(&mut self) -> Result<UnixStream> {
        match self {
            Self::Local { repl, .. } => repl.connect(),
            Self::Remote { directory, .. } => {
                socket::connect(directory)?.ok_or_else(|| Error::new(ErrorKind::System, server_ended().message))
            }
        }
    }

    /// Polls a descriptor until it was reported once; for neither, it is no longer polled.
    pub fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        match self {
            Self::Local { repl, .. } => repl.watch_external(fd, readable, writable),
            Self::Remote { reactor, .. } => reactor.watch(Source::External(fd), fd, readable, writable),
        }
    }

    /// One turn of the loop, which waits no longer than `limit`.
    pub fn turn(&mut self, limit: Option<Duration>) -> Result<Turn> {
        match self {
            Self::Local { repl, .. } => repl.turn(limit),
            Self::Remote { reactor, ready, .. } => {
                let mut events = Vec::new();
                reactor.wait(limit, &mut events)?;
                ready.extend(events.iter().filter_map(|event| match event.source {
                    Source::External(fd) => Some(fd),
                    _ => None,
                }));
                Ok(Turn::Continue)
            }
        }
    }

    /// The descriptors that were reported.
    pub fn take_ready(&mut self) -> Vec<RawFd> {
        match self {
            Self::Local { repl, .. } => repl.take_external_ready().into_iter().map(|(fd, _)| fd).collect(),
            Self::Remote { ready, .. } => std::mem::take(ready),
        }
    }

    pub fn is_local(&self) -> bool {
        matches!(self, Self::Local { .. })
    }

    /// From now on an agent of this process runs without a sandbox and asks nothing. A server never allows that.
    pub fn lift_restrictions(&mut self, agent: &str) -> Result<()> {
        match self {
            Self::Local { repl, .. } => repl.find_or_unarchive(agent, true).map(|id| repl.lift_restrictions(id)),
            Self::Remote { .. } => Err(Error::usage("only a process of its own can allow everything")),
        }
    }

    /// How many other agents of this process are at work, without those that ask, and how many commands run in the background.
    pub fn work_besides(&self, agent: &str) -> (usize, usize) {
        let Self::Local { repl, .. } = self else { return (0, 0) };
        let roster = repl.roster();
        let is_other = |id: &&AgentId| id.to_string() != agent && !roster.asking().contains(id);
        (roster.busy().iter().filter(is_other).count(), roster.iter().map(Agent::background_commands).sum())
    }

    /// Whether no agent of this process works or asks, and no command runs in the background.
    pub fn is_at_rest(&self) -> bool {
        let Self::Local { repl, .. } = self else { return true };
        let roster = repl.roster();
        roster.busy().is_empty() && roster.iter().all(|agent| agent.background_commands() == 0)
    }

    /// Interrupts all agents of this process, and waits no longer than this until they are at rest. Returns what was lost, in
    /// words.
    pub fn interrupt_all(&mut self, limit: Duration) -> Result<Option<String>> {
        let Self::Local { repl, .. } = self else { return Ok(None) };
        let busy: Vec<AgentId> = repl.roster().busy().iter().copied().collect();
        busy.into_iter().try_for_each(|agent| repl.interrupt(agent))?;
        let give_up = Instant::now() + limit;
        while !repl.roster().busy().is_empty() && Instant::now() < give_up {
            repl.turn(Some(limit))?;
        }
        Ok(repl.loss())
    }

    /// Serves the data directory while something needs this process, after a run whose background commands were kept. The
    /// process that was started for the run waits at the other end of the pipe, and ends with this code.
    pub fn go_on(mut self, pipe: OwnedFd, options: String, code: u8, at_end: impl FnOnce(&mut Self)) -> Result<()> {
        if let Self::Local { repl, directory: Some(directory) } = &mut self {
            repl.serve(Listener::bind(directory)?);
            repl.go_on(Waiting { pipe, log: directory.join(serve::LOG), options }, code, Signals::catch()?)?;
            while repl.is_needed() && repl.turn(None)? == Turn::Continue {}
            at_end(&mut self);
            self.leave()?;
        }
        Ok(())
    }

    /// Ends a loop of this process in order; it can still be polled. Returns what was lost, in words.
    pub fn leave(&mut self) -> Result<Option<String>> {
        let Self::Local { repl, directory } = self else { return Ok(None) };
        repl.leave()?;
        repl.notes_of_end().iter().for_each(|note| print_note(note));
        Ok(data_directory::loss(directory.as_deref(), repl.loss()))
    }
}
