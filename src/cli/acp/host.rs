//! Where the agents of the editor work: in this process, or in the server that holds the data directory. In both cases
//! this program is a client of that loop.

use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::arguments::Arguments;
use crate::cli::client::{Client, server_ended};
use crate::cli::config::{Loaded, ProcessEnvironment};
use crate::cli::stdio::print_note;
use crate::cli::{config, connect, data_directory, opening, process};
use crate::domain::config::Config;
use crate::domain::custom::CustomCommand;
use crate::domain::wire::Request;
use crate::reactor::{Reactor, Source};
use crate::repl::{Repl, Turn};
use crate::socket::{self, Listener};
use crate::store;

/// How long a server that ends may take until the data directory is free.
const END_TIMEOUT: Duration = Duration::from_secs(2);

pub enum Host {
    Local { repl: Box<Repl>, directory: Option<PathBuf> },
    Remote { reactor: Reactor, directory: PathBuf, ready: Vec<RawFd> },
}

impl Host {
    /// The server that holds the data directory, or a loop in this process. Returns also the custom commands.
    ///
    /// # Errors
    /// The configuration is invalid, or the store cannot be used.
    pub fn open(arguments: &Arguments, env: &ProcessEnvironment) -> Result<(Self, Vec<CustomCommand>)> {
        let give_up = Instant::now() + END_TIMEOUT;
        loop {
            match Self::open_once(arguments, env) {
                // A server that is being killed closes its connections before it releases the store.
                Err(error) if error.kind == ErrorKind::Network && Instant::now() < give_up => {
                    let directory = config::load(arguments, env).config().data_directory.clone();
                    let left = give_up.saturating_duration_since(Instant::now());
                    opening::await_end(directory.as_deref().and_then(store::holder), left);
                }
                opened => return opened,
            }
        }
    }

    fn open_once(arguments: &Arguments, env: &ProcessEnvironment) -> Result<(Self, Vec<CustomCommand>)> {
        let loaded = config::load(arguments, env);
        let commands = loaded.config().commands.clone();
        let host = match Self::remote(arguments, &loaded)? {
            Some(host) => host,
            None => Self::local(arguments, env, loaded)?,
        };
        Ok((host, commands))
    }

    fn remote(arguments: &Arguments, loaded: &Loaded) -> Result<Option<Self>> {
        let Some(directory) = loaded.config().data_directory.clone() else { return Ok(None) };
        let Some(mut client) = connect::find_server(arguments, loaded.config())? else { return Ok(None) };
        require_same_version(&mut client)?;
        if let Some(option) = arguments.permission_option() {
            return Err(Error::usage(format!(
                "{option} has no effect on the agents of the running server: leave it out and choose a mode in the \
                 editor, or stop the server (polylogue stop)"
            )));
        }
        Ok(Some(Self::Remote { reactor: Reactor::new()?, directory, ready: Vec::new() }))
    }

    fn local(arguments: &Arguments, env: &ProcessEnvironment, loaded: Loaded) -> Result<Self> {
        process::prepare();
        let config = Config { supervisor: process::own_binary()?, ..loaded.into_config()? };
        let directory = config.data_directory.clone();
        let Some(store) = opening::open(directory.as_deref(), None)? else {
            // It was started at the same time.
            return Self::remote(arguments, &config::load(arguments, env))?.ok_or_else(server_ended);
        };
        config.notes.iter().for_each(|note| print_note(note));
        // Before agents are loaded that others may want to reach.
        let listener = directory.as_deref().map(Listener::bind).transpose();
        let mut repl = Box::new(Repl::open(config, store, Clock::system())?);
        match listener {
            Ok(listener) => listener.into_iter().for_each(|listener| repl.serve(listener)),
            Err(error) => {
                print_note(&format!("other terminals and scripts cannot use these agents: {}", error.message))
            }
        }
        Ok(Self::Local { repl, directory })
    }

    /// A new connection to the loop.
    ///
    /// # Errors
    /// The server has ended, or there is no free descriptor.
    pub fn connect(&mut self) -> Result<UnixStream> {
        match self {
            Self::Local { repl, .. } => repl.connect(),
            Self::Remote { directory, .. } => {
                socket::connect(directory)?.ok_or_else(|| Error::new(ErrorKind::System, server_ended().message))
            }
        }
    }

    /// Polls a descriptor until it was reported once; for neither, it is no longer polled.
    ///
    /// # Errors
    /// The descriptor cannot be polled.
    pub fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        match self {
            Self::Local { repl, .. } => repl.watch_external(fd, readable, writable),
            Self::Remote { reactor, .. } => reactor.watch(Source::External(fd), fd, readable, writable),
        }
    }

    /// One turn of the loop, which waits no longer than `limit`.
    ///
    /// # Errors
    /// The poll fails.
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

    /// Ends a loop of this process in order.
    ///
    /// # Errors
    /// The poll fails.
    pub fn leave(self) -> Result<()> {
        let Self::Local { mut repl, directory } = self else { return Ok(()) };
        repl.leave()?;
        let loss = repl.loss();
        drop(repl);
        if let Some(loss) = data_directory::loss(directory.as_deref(), loss) {
            print_note(&loss);
        }
        Ok(())
    }
}

/// An editor would wait for questions that a server of another version does not send.
fn require_same_version(client: &mut Client) -> Result<()> {
    let status = client.request(&Request::Status)?;
    let (own, other) = (env!("CARGO_PKG_VERSION"), status["version"].as_str().unwrap_or("unknown"));
    if other == own {
        return Ok(());
    }
    let message = format!("the running server is of version {other}, this program of {own}: stop it (polylogue stop)");
    Err(Error::new(ErrorKind::System, message))
}
