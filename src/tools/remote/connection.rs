//! The processes that hold connections and containers, each shared by all calls of one place.
//!
//! ```text
//!   Connections ──▶ Connection (of a host) ──▶ Link  ssh -M: up to 8 calls at once, then another one
//!               └─▶ Connection (of an environment) ──▶ Link  podman run: one container
//! ```
//!
//! A link is started by the first call that needs it, on the thread of that call; others wait for it. It ends with the last
//! environment that has it, and when this program ends, however that happens: its standard input ends then.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::call::{Channel, Ending, Prefix, Request};
use super::container_command::{self, Container};
use super::ssh_command::{self, Ssh};
use crate::base::id::AgentId;
use crate::domain::remote_place::RemotePlace;
use crate::domain::sandbox::Network;
use crate::sandbox::{Level, Places, Plan, Watch};
use crate::tools::file_access::reason;
use crate::tools::{Environment, Job};

/// How long a connection may take; ssh itself gives up before.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
/// How long a container may take, whose image may have to be fetched.
const START_LIMIT: Duration = Duration::from_secs(600);

/// Connections to one host at once.
const MAX_LINKS: usize = 4;

/// How long a call waits for others to end before it fails.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How often a waiting call checks whether it was cancelled.
const POLL: Duration = Duration::from_millis(50);

/// A control socket has a longer path: the kernel takes 108 bytes, and ssh adds 17 for a moment.
const MAX_SOCKET_DIRECTORY: usize = 70;

/// All connections of this program. Environments hold them; here they are found again.
#[derive(Default)]
pub struct Connections(Vec<(RemotePlace, PathBuf, Weak<Connection>)>);

impl Connections {
    /// The connection to a place. Environments of one host share it, and so do those with the same container and directory.
    pub fn find(&mut self, place: &RemotePlace, local: &Environment) -> Result<Arc<Connection>, String> {
        let (key, directory) = match place {
            RemotePlace::Ssh { host, .. } => {
                (RemotePlace::Ssh { host: host.clone(), directory: String::new() }, PathBuf::new())
            }
            container => (container.clone(), local.working_directory.clone()),
        };
        self.0.retain(|(.., connection)| connection.strong_count() > 0);
        let known = self.0.iter().find(|(place, at, _)| (place, at) == (&key, &directory));
        if let Some(connection) = known.and_then(|(.., connection)| connection.upgrade()) {
            return Ok(connection);
        }
        let connection = Arc::new(Connection::new(place, local)?);
        self.0.push((key, directory, Arc::downgrade(&connection)));
        Ok(connection)
    }
}

/// How a place is reached.
enum How {
    Ssh(Ssh),
    Container(Box<Container>),
}

/// One place, and the processes that hold it.
pub struct Connection {
    how: How,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    links: Vec<Link>,
    is_starting: bool,
    /// How often starting one has failed, and why the last time.
    failures: u64,
    failure: String,
    /// Of the control sockets; made when first needed.
    directory: Option<PathBuf>,
    count: u64,
}

struct Link {
    /// The socket of a connection, or the name of a container.
    name: OsString,
    holder: Channel,
    /// Calls that use it.
    used: usize,
    /// It did not work once. Its process may take long to end.
    is_discarded: bool,
}

impl Link {
    fn new(name: OsString, holder: Channel) -> Self {
        Self { name, holder, used: 0, is_discarded: false }
    }

    fn has_room(&mut self, most: usize) -> bool {
        self.used < most && !self.is_discarded && !self.holder.has_ended()
    }

    /// Whether a call uses it or may use it later.
    fn is_needed(&mut self) -> bool {
        self.used > 0 || !self.is_discarded && !self.holder.has_ended()
    }
}

/// The right to use a link for one call.
struct Lease<'a> {
    connection: &'a Connection,
    name: OsString,
}

impl Connection {
    fn new(place: &RemotePlace, local: &Environment) -> Result<Self, String> {
        let withheld = local.sandbox.settings.withheld.clone();
        let find = |name: &str| find_program(name, local);
        let how = match place {
            RemotePlace::Ssh { host, .. } => {
                let program = find("ssh").ok_or("there is no ssh here: install an OpenSSH client")?;
                How::Ssh(Ssh { program, host: host.clone(), withheld })
            }
            RemotePlace::Container { image } => {
                let podman = find("podman");
                let is_podman = podman.is_some();
                let program = podman
                    .or_else(|| find("docker"))
                    .ok_or("there is neither podman nor docker here: install podman")?;
                How::Container(Box::new(contained(program, is_podman, image, local)?))
            }
        };
        Ok(Self { how, state: Mutex::default(), changed: Condvar::new() })
    }

    /// What of the network commands reach there, for texts.
    pub fn network(&self) -> &'static str {
        match &self.how {
            How::Ssh(_) => "with the network of that machine",
            How::Container(container) if container.has_network => "with network",
            How::Container(_) => "without network",
        }
    }

    /// Runs a script there. It is begun again once if the connection was dead before it began.
    pub fn run(&self, request: &Request<'_>, job: &Job, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<Ending, String> {
        let mut has_failed = false;
        loop {
            let lease = match self.lease(job)? {
                Some(lease) => lease,
                None => return Ok(Ending::Interrupted),
            };
            let mut channel = Channel::start(&self.enter(&lease.name), request)
                .map_err(|error| format!("cannot run {}: {}", self.program().display(), reason(&error)))?;
            let ending = channel.run(request.limit, job, take);
            match &ending {
                Ending::Lost(why) if !channel.has_begun() && has_failed => return Err(self.unreachable(why)),
                Ending::Lost(_) if !channel.has_begun() => {
                    has_failed = true;
                    self.discard(&lease.name);
                }
                _ => return Ok(ending),
            }
        }
    }

    /// Waits for a link with room; none if the job was cancelled meanwhile.
    fn lease(&self, job: &Job) -> Result<Option<Lease<'_>>, String> {
        let since = Instant::now();
        let mut state = self.lock();
        let failures = state.failures;
        loop {
            state.links.retain_mut(Link::is_needed);
            let most = self.most_calls();
            let mut live = state.links.iter_mut().filter_map(|link| link.has_room(most).then_some(link));
            if let Some(link) = live.next() {
                link.used += 1;
                return Ok(Some(Lease { connection: self, name: link.name.clone() }));
            }
            if state.failures > failures {
                return Err(state.failure.clone());
            }
            if job.is_cancelled() {
                return Ok(None);
            }
            if !state.is_starting && state.links.len() < self.most_links() {
                state.is_starting = true;
                let name = self.new_name(&mut state);
                drop(state);
                let started = name.and_then(|name| self.start(name, job));
                state = self.lock();
                state.is_starting = false;
                match started {
                    Ok(link) => state.links.extend(link),
                    Err(why) => (state.failures, state.failure) = (state.failures + 1, why),
                }
                self.changed.notify_all();
                continue;
            }
            if since.elapsed() > MAX_WAIT && !state.is_starting {
                return Err(format!("{} commands run there already: end some of them", state.links.len() * most));
            }
            state = self.changed.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Starts a link; none if the job was cancelled.
    fn start(&self, name: OsString, job: &Job) -> Result<Option<Link>, String> {
        let (prefix, limit) = match &self.how {
            How::Ssh(ssh) => (ssh.hold(Path::new(&name)), CONNECT_LIMIT),
            How::Container(container) => (container.hold(&name.to_string_lossy()), START_LIMIT),
        };
        // It ends when its input does.
        let request = Request { script: "exec cat >/dev/null", data: None, limit };
        let mut holder = Channel::start(&prefix, &request)
            .map_err(|error| format!("cannot run {}: {}", self.program().display(), reason(&error)))?;
        match holder.begin(limit, job) {
            Ok(()) => Ok(Some(Link::new(name, holder))),
            Err(Ending::Interrupted) => Ok(None),
            Err(Ending::Lost(why)) => Err(self.unreachable(&why)),
            Err(_) => Err(self.unreachable(&format!("no answer within {} s", limit.as_secs()))),
        }
    }

    fn new_name(&self, state: &mut State) -> Result<OsString, String> {
        state.count += 1;
        if let How::Container(_) = &self.how {
            return Ok(format!("polylogue-{}", AgentId::random()).into());
        }
        let directory = match &state.directory {
            Some(directory) => directory.clone(),
            None => {
                let directory = new_directory()
                    .map_err(|error| format!("cannot make a directory for the socket of ssh: {}", reason(&error)))?;
                state.directory.insert(directory).clone()
            }
        };
        Ok(directory.join(state.count.to_string()).into())
    }

    /// A link that did not work is not used again; calls that use it go on.
    fn discard(&self, name: &OsString) {
        let mut state = self.lock();
        for link in state.links.iter_mut().filter(|link| link.name == *name) {
            link.is_discarded = true;
            link.holder.close();
        }
        // The master of a connection that is broken may wait for long.
        state.links.retain(|link| link.name != *name || link.used > 1);
    }

    fn enter(&self, name: &OsString) -> Prefix {
        match &self.how {
            How::Ssh(ssh) => ssh.enter(Path::new(name)),
            How::Container(container) => container.enter(&name.to_string_lossy()),
        }
    }

    fn program(&self) -> &Path {
        match &self.how {
            How::Ssh(ssh) => &ssh.program,
            How::Container(container) => &container.program,
        }
    }

    fn unreachable(&self, why: &str) -> String {
        match &self.how {
            How::Ssh(ssh) => ssh.unreachable(why),
            How::Container(container) => container.not_started(why),
        }
    }

    fn most_calls(&self) -> usize {
        if matches!(self.how, How::Ssh(_)) { ssh_command::MAX_SESSIONS } else { container_command::MAX_COMMANDS }
    }

    /// A second container would have other processes and other files.
    fn most_links(&self) -> usize {
        if matches!(self.how, How::Ssh(_)) { MAX_LINKS } else { 1 }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.links.clear();
        // The processes have ended, but for those of a container that is removed.
        state.directory.take().into_iter().for_each(|directory| drop(fs::remove_dir_all(directory)));
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        state.links.iter_mut().filter(|link| link.name == self.name).for_each(|link| link.used -= 1);
        drop(state);
        self.connection.changed.notify_all();
    }
}

/// A new directory that only this user can enter, with a path that is short enough.
fn new_directory() -> std::io::Result<PathBuf> {
    let usual = std::env::temp_dir();
    let above = if usual.as_os_str().len() > MAX_SOCKET_DIRECTORY { PathBuf::from("/tmp") } else { usual };
    let directory = above.join(format!("polylogue-{}", AgentId::random()));
    DirBuilder::new().mode(0o700).create(&directory)?;
    Ok(directory)
}

/// The first program of this name in a directory that no agent can write to.
fn find_program(name: &str, local: &Environment) -> Option<PathBuf> {
    let path = local.program_path.clone().or_else(|| std::env::var_os("PATH"))?;
    let workspace = local.path_policy().workspace.to_path_buf();
    let is_safe = |directory: &PathBuf| {
        let real = fs::canonicalize(directory).unwrap_or_else(|_| directory.clone());
        directory.is_absolute() && !real.starts_with(&workspace)
    };
    std::env::split_paths(&path).filter(is_safe).map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// What of a workspace is denied and protected.
pub fn plan_of(local: &Environment) -> Result<Plan, String> {
    let workspace = local.path_policy().workspace;
    let places =
        Places { workspace, is_own_worktree: local.worktree.is_some(), directory: workspace, more: &[], is_git: false };
    // Which sandbox this system can build does not matter to a container.
    local.sandbox.clone().at_level(Level::Namespaces).plan(&places)
}

/// The container for a workspace: what is denied must not be in it, and what is protected is mounted read-only.
fn contained(program: PathBuf, is_podman: bool, image: &str, local: &Environment) -> Result<Container, String> {
    let workspace = local.path_policy().workspace.to_path_buf();
    let shown = workspace.display();
    let plan = plan_of(local)?;
    // Makes the directories of hooks that do not exist: a command could make them otherwise.
    drop(Watch::start(&plan));
    let is_inside = |path: &&PathBuf| path.starts_with(&workspace) && path.symlink_metadata().is_ok();
    if let Some(denied) = plan.denied.iter().find(is_inside) {
        return Err(format!("{shown} contains {}, which tools never open: use a directory below it", denied.display()));
    }
    let mut protected: Vec<PathBuf> = plan.protected.iter().filter(is_inside).cloned().collect();
    protected.sort();
    protected.dedup();
    if let Some((link, _)) = plan.kept_links.iter().find(|(link, _)| link.starts_with(&workspace)) {
        return Err(format!("{} is a symbolic link, which a container could replace: remove it", link.display()));
    }
    if let Some(gap) = plan.gaps.first() {
        return Err(format!("a container could change protected files here: {gap}"));
    }
    // Directories above them could be moved away otherwise.
    let above = protected.iter().flat_map(|path| path.ancestors().skip(1).take_while(|above| *above != workspace));
    let mut kept: Vec<PathBuf> = above.map(Path::to_path_buf).collect();
    kept.sort();
    kept.dedup();
    let odd = |path: &&PathBuf| path.to_str().is_none_or(|path| path.contains([',', '"', '\n']));
    if let Some(odd) = std::iter::once(&workspace).chain(&kept).chain(&protected).find(odd) {
        return Err(format!("{}: a path with a comma or a quote cannot be mounted", odd.display()));
    }
    let user = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    Ok(Container {
        program,
        is_podman,
        image: image.to_owned(),
        workspace,
        kept,
        protected,
        has_network: local.sandbox.settings.network == Network::Host,
        memory: local.sandbox.limits.memory,
        user,
        withheld: local.sandbox.settings.withheld.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link whose process goes on when its input has ended, as the master of a broken connection may.
    fn stubborn_link(name: &str) -> Link {
        let arguments = ["-c".into(), "exec sleep 1000".into()].into();
        let prefix = Prefix { program: "sh".into(), arguments, is_line: false, withheld: Vec::new() };
        let request = Request { script: "", data: None, limit: CONNECT_LIMIT };
        Link::new(name.into(), Channel::start(&prefix, &request).unwrap())
    }

    #[test]
    fn a_link_that_did_not_work_is_not_leased_again_and_goes_with_its_last_call() {
        let ssh = Ssh { program: "/nowhere/ssh".into(), host: "h".into(), withheld: Vec::new() };
        let connection = Connection { how: How::Ssh(ssh), state: Mutex::default(), changed: Condvar::new() };
        let used = Link { used: 2, ..stubborn_link("broken") };
        connection.lock().links = vec![used, stubborn_link("other")];
        connection.discard(&"broken".into());
        let job = Job::new().unwrap();
        let lease = connection.lease(&job).unwrap().expect("a link");
        assert_eq!(lease.name, "other");
        assert_eq!(connection.lock().links.len(), 2, "calls still use the first");
        for _ in 0..2 {
            drop(Lease { connection: &connection, name: "broken".into() });
        }
        drop(connection.lease(&job).unwrap());
        assert_eq!(connection.lock().links.len(), 1);
    }
}
