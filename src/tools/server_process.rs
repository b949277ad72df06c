//! A process that serves for longer than one call: an MCP server on its standard input and output.
//!
//! It runs under [`super::supervisor`] in the sandbox, as a command of the `bash` tool does, and ends with all its
//! descendants when this process ends, however that happens. Only starting it blocks.

use std::io::{self, PipeReader, PipeWriter};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};

use super::command::{Program, Supervised, plan, try_level};
use super::network::{self, NetworkRequest};
use super::{Environment, supervisor};
use crate::domain::host::HostPattern;
use crate::domain::sandbox::Network;
use crate::proxy::{Announced, receive_listener};
use crate::sandbox::{Level, Plan, Report, Watch, send_descriptor};

/// How long the init process may take until it has opened a listener.
const LISTENER_TIME_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Default)]
pub struct ServerProgram {
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// Variables besides those of every command, with their values.
    pub variables: Vec<(String, String)>,
    /// The hosts that it may reach.
    pub hosts: Vec<HostPattern>,
    /// Whether it may write in the workspace.
    pub may_write: bool,
    /// Its own directories, which it may read and write besides.
    pub writable: Vec<PathBuf>,
    /// It is only started under this sandbox, in the words of `network::summary`; `None` if nobody was asked.
    pub promised: Option<String>,
    /// Whether the loop serves it at a loopback address.
    pub is_served: bool,
}

impl ServerProgram {
    /// The sandbox that it would get now, in words.
    pub fn sandbox(&self, env: &Environment) -> String {
        network::summary(&self.hosts, &env.sandbox)
    }

    /// Whether it would get another sandbox now than the promised one.
    pub fn breaks_promise(&self, env: &Environment) -> bool {
        self.promised.as_ref().is_some_and(|promised| *promised != self.sandbox(env))
    }
}

/// A process that was started. Dropping it ends it without waiting.
pub struct ServerProcess {
    /// The process that starts it and ends it.
    pub supervised: Supervised,
    /// Its standard input; `None` once closed. Does not block.
    pub input: Option<PipeWriter>,
    /// Its standard output. Does not block.
    pub output: PipeReader,
    /// Its standard error. Does not block.
    pub errors: PipeReader,
    /// Watches protected files; `None` if it cannot write any. Not for the event loop.
    pub watch: Option<Arc<Mutex<Watch>>>,
    /// A listener that the process can reach, and no other process unless it shares its network.
    pub listener: Option<TcpListener>,
    /// The proxy serves the process until this is dropped.
    _proxy: Option<Announced>,
}

impl ServerProcess {
    /// Starts it in the directory of the environment. Blocks until the sandbox is known to work; not for the event
    /// loop.
    ///
    /// # Errors
    /// Why it cannot be started. A program that cannot be run is detected later.
    pub fn start(server: &ServerProgram, env: &Environment) -> Result<Self, String> {
        working_level(env)?;
        if server.breaks_promise(env) {
            return Err(
                "the sandbox that works here is weaker than the one that was allowed; start it again to be asked or \
                        told about it"
                    .into(),
            );
        }
        let network = NetworkRequest::for_hosts(server.hosts.clone(), &env.sandbox);
        let writable: Vec<PathBuf> = server.writable.iter().filter(|path| ensure_path(path)).cloned().collect();
        let arguments: Vec<&str> = server.arguments.iter().map(String::as_str).collect();
        let program = Program {
            network: network.as_ref(),
            variables: &server.variables,
            is_read_only: !server.may_write,
            writable: &writable,
            is_lasting: true,
            ..Program::new(&arguments, &env.working_directory)
        };
        let mut plan = plan(&program, env)?;
        plan.has_input = true;
        plan.denied.retain(|denied| !is_login(denied, &writable, env));
        if !server.may_write {
            plan.writable = writable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        }
        let proxy = match (&plan.network, &env.proxy) {
            (Network::Hosts(hosts), Some(calls)) => {
                Some(calls.announce(network::hosts(hosts, &env.rules)).map_err(text)?)
            }
            _ => None,
        };
        let service = if server.is_served { Service::for_plan(&mut plan).map_err(text)? } else { Service::None };
        let watch = Watch::start(&plan).map(|watch| Arc::new(Mutex::new(watch)));
        let ((their_input, input), (output, their_output), (errors, their_errors)) = (pipe()?, pipe()?, pipe()?);
        let mut command = Command::new(&env.supervisor);
        command.args([supervisor::FLAG, supervisor::SANDBOX, "--"]).args(program.arguments);
        command.current_dir(program.directory).env_clear().envs(env.sandbox.variables());
        command.stdout(their_output).stderr(their_errors);
        for fd in [input.as_fd(), output.as_fd(), errors.as_fd()] {
            fcntl_setfl(fd, OFlags::NONBLOCK).map_err(text)?;
        }
        let supervised = Supervised::start(command).map_err(|error| {
            format!("cannot run {}: {}", env.supervisor.display(), super::file_access::reason(&error))
        })?;
        // If it cannot be sent, the supervisor has ended, which is found out next.
        let _ = plan
            .send(supervised.control(), proxy.as_ref().map(Announced::socket))
            .and_then(|()| send_descriptor(supervised.control(), their_input.as_fd()))
            .and_then(|()| service.theirs().map_or(Ok(()), |theirs| send_descriptor(supervised.control(), theirs)));
        let listener = service.listener();
        Ok(Self { supervised, input: Some(input), output, errors, watch, listener, _proxy: proxy })
    }

    /// Why it was not started after all, if that is known.
    pub fn refusal(&self) -> Option<String> {
        let report = Report::receive(self.supervised.control()).into_iter().next();
        report.map(|(Report::NotStarted(why) | Report::Unavailable(why))| why)
    }
}

/// Where the listener comes from at which the loop serves a process.
enum Service {
    /// There is none that the process could reach.
    None,
    /// It has the network of this process.
    Here(TcpListener),
    /// From its network namespace, on the first of these sockets; the other one is for its supervisor.
    There(UnixStream, UnixStream),
}

impl Service {
    fn for_plan(plan: &mut Plan) -> io::Result<Self> {
        if plan.network == Network::Host || plan.level == Level::None {
            return TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(Self::Here);
        }
        if !plan.level.has_namespaces() {
            return Ok(Self::None);
        }
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(LISTENER_TIME_LIMIT))?;
        plan.is_served = true;
        Ok(Self::There(ours, theirs))
    }

    fn theirs(&self) -> Option<BorrowedFd<'_>> {
        if let Self::There(_, theirs) = self { Some(theirs.as_fd()) } else { None }
    }

    /// Waits for it. `None` if the process cannot be served; why it was not started is found out later.
    fn listener(self) -> Option<TcpListener> {
        match self {
            Self::None => None,
            Self::Here(listener) => Some(listener),
            Self::There(ours, theirs) => {
                drop(theirs);
                receive_listener(&ours).ok().flatten()
            }
        }
    }
}

/// The strongest level that works here.
pub(super) fn working_level(env: &Environment) -> Result<Level, String> {
    let mut failed = String::new();
    loop {
        let level = env.sandbox.level();
        if level == Level::None && env.sandbox.settings.is_enabled {
            return Err(format!("needs a sandbox, which this system cannot build{failed}; polylogue doctor says more"));
        }
        match if level == Level::None { Ok(()) } else { try_level(env) } {
            Ok(()) => return Ok(level),
            Err(why) => failed = format!(" ({why})"),
        }
        env.sandbox.falls_from(level);
    }
}

/// Whether a path that commands cannot open is the login of the program itself: it lies in one of its own directories,
/// neither deeper nor in the home directory, and is not ours.
fn is_login(denied: &Path, own: &[PathBuf], env: &Environment) -> bool {
    let ours = env.denied.own.iter().chain(&env.sandbox.settings.hidden).filter_map(|path| path.canonicalize().ok());
    let is_in = |own: &PathBuf| {
        let own = own.canonicalize().unwrap_or_else(|_| own.clone());
        let is_home = env.denied.home.as_ref().is_some_and(|home| home.starts_with(&own));
        !is_home && (denied == own || denied.parent() == Some(&own))
    };
    own.iter().any(is_in) && !ours.into_iter().any(|ours| denied.starts_with(&ours) || ours.starts_with(denied))
}

/// Creates a missing directory, because the sandbox can only open what exists. A name with an extension is a file, which is
/// not created: false if it is missing.
fn ensure_path(path: &Path) -> bool {
    path.exists() || path.extension().is_none() && std::fs::create_dir_all(path).is_ok()
}

fn pipe() -> Result<(PipeReader, PipeWriter), String> {
    io::pipe().map_err(text)
}

fn text(error: impl Into<io::Error>) -> String {
    super::file_access::reason(&error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::paths::DenyList;

    #[test]
    fn a_program_may_open_its_own_login_and_nothing_else_that_is_denied() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = directory.path().canonicalize().expect("a path");
        for name in [".claude", ".codex", ".config/gh", ".config/polylogue"] {
            std::fs::create_dir_all(home.join(name)).expect("a directory");
        }
        let mut env = Environment::at(home.clone());
        env.denied = Arc::new(DenyList {
            home: Some(home.clone()),
            own: vec![home.join(".config/polylogue")],
            ..DenyList::default()
        });
        for (denied, own, expected) in [
            (".claude/.credentials.json", ".claude", true),
            (".claude/.credentials.json", ".codex", false),
            (".config/gh/hosts.yml", ".config", false),
            (".config/polylogue", ".config", false),
            (".ssh", "", false),
        ] {
            assert_eq!(is_login(&home.join(denied), &[home.join(own)], &env), expected, "{denied} {own}");
        }
    }
}
