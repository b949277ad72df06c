//! The supervisor's part: makes the namespaces and starts the init process in them. The supervisor itself stays outside of every Landlock domain, so that it can end all processes.

mod file_rules;
mod init;
mod limits;
mod mounts;
mod network;
mod powers;
mod sockets;
mod syscalls;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use fork::{Fork, fork};
use nix::sched::CloneFlags;
use rustix::process::Pid;

use super::covers::Covers;
use super::{Descriptors, Level, Plan, Report, Sharing, variables};
use crate::base::descriptors::send_with;
use crate::base::error::system_message;
use crate::base::file::TemporaryDirectory;
use crate::domain::sandbox::Network;

/// What the init process needs: the plan, and what only the supervisor can find out.
struct InitPlan {
    plan: Plan,
    /// Sockets of other programs, which a read-only mount does not protect from `connect`.
    sockets: Vec<PathBuf>,
    /// Where temporary files go if `/tmp` is not private.
    temporary: Option<PathBuf>,
}

/// A running command, and what has to be checked after its end.
pub struct Started {
    /// The command, or the init process that runs it.
    pub process: Pid,
    reports: Option<UnixStream>,
    _temporary: Option<TemporaryDirectory>,
    /// Until all processes have ended.
    _covers: Covers,
}

/// Starts a program with the restrictions of its plan, unless this becomes true: the signal handler that sets it is also
/// that of the init process.
///
/// # Errors
/// The report that the caller should send.
pub fn start(
    plan: Plan,
    mut descriptors: Descriptors,
    program: &OsStr,
    arguments: &[OsString],
    is_terminated: &AtomicBool,
) -> Result<Started, Report> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(descriptors.take_input()).process_group(0);
    command.env_clear().envs(variables::given_variables(&plan.variables, &[]));
    if plan.level == Level::None {
        powers::close().map_err(|error| Report::NotStarted(format!("privileges: {error}")))?;
        let child = command.envs(plan.own_variables).spawn().map_err(|error| not_started(program, &error))?;
        let process = Pid::from_child(&child);
        return Ok(Started { process, reports: None, _temporary: None, _covers: Covers::hold(&[]) });
    }
    let temporary = (!plan.level.has_namespaces()).then(TemporaryDirectory::create).transpose();
    let temporary = temporary.map_err(|error| Report::NotStarted(format!("temporary directory: {error}")))?;
    let sockets = sockets::to_mask(&plan.sockets);
    let covers = Covers::hold(&plan.covers);
    if plan.level.has_namespaces() {
        match (plan.sharing, descriptors.shared.as_slice()) {
            (Sharing::Join, [user, network]) => join_namespaces(user, network).map_err(Report::NotStarted)?,
            (sharing, shared) => {
                make_namespaces(&plan.network).map_err(Report::Unavailable)?;
                if let (Sharing::Offer, [socket]) = (sharing, shared) {
                    offer_namespaces(socket).map_err(Report::NotStarted)?;
                }
            }
        }
    }
    // The end of the socket tells those who wait for them.
    descriptors.shared.clear();
    // Only now: the maps of a user namespace cannot be written by a process that is closed to others.
    powers::close().map_err(|error| Report::Unavailable(format!("privileges: {error}")))?;
    let init = InitPlan { plan, sockets, temporary: temporary.as_ref().map(|directory| directory.path().to_owned()) };
    command.env("TMPDIR", init.temporary.as_deref().unwrap_or(Path::new("/tmp")));
    let (reports, process) = start_init(&init, descriptors, command, is_terminated)
        .map_err(|error| Report::NotStarted(format!("cannot start the init process: {error}")))?;
    Ok(Started { process, reports: Some(reports), _temporary: temporary, _covers: covers })
}

fn not_started(program: &OsStr, error: &io::Error) -> Report {
    if error.kind() == io::ErrorKind::NotFound && Path::new(program).components().count() == 1 {
        let program = program.display();
        return Report::NotStarted(format!("cannot run {program}: it is not in PATH, or its interpreter is missing"));
    }
    Report::NotStarted(format!("cannot run {}: {}", program.display(), system_message(error)))
}

/// Forks: this process has one thread, and starting the program anew would take longer than all that the init process does.
fn start_init(
    init: &InitPlan,
    descriptors: Descriptors,
    command: Command,
    is_terminated: &AtomicBool,
) -> io::Result<(UnixStream, Pid)> {
    let (reports, theirs) = UnixStream::pair()?;
    match fork()? {
        Fork::Child => {
            drop(reports);
            // Unwinding would drop what the supervisor still needs.
            let run = AssertUnwindSafe(|| init::main(init, descriptors, command, &theirs, is_terminated));
            std::process::exit(catch_unwind(run).unwrap_or(init::NOT_STARTED).into())
        }
        Fork::Parent(process) => Ok((reports, Pid::from_raw(process).expect("fork gives the id of a process"))),
    }
}

/// The namespaces that every command has for itself.
const OWN: CloneFlags = CloneFlags::CLONE_NEWPID
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS)
    .union(CloneFlags::CLONE_NEWCGROUP);

/// Moves this process into new namespaces, and its children into a new PID namespace.
fn make_namespaces(network: &Network) -> Result<(), String> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWUSER | OWN;
    if *network != Network::Host {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    nix::sched::unshare(flags).map_err(|error| format!("new namespaces: {error}"))?;
    let write = |file: &str, text: &str| fs::write(file, text).map_err(|error| format!("{file}: {error}"));
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/gid_map", &format!("{gid} {gid} 1"))?;
    write("/proc/self/uid_map", &format!("{uid} {uid} 1"))
}

/// Joins the namespaces of user and network that another supervisor has made. The user namespace is needed because it
/// owns the other one.
fn join_namespaces(user: &OwnedFd, network: &OwnedFd) -> Result<(), String> {
    let join = |namespace: &OwnedFd, kind| nix::sched::setns(namespace, kind);
    join(user, CloneFlags::CLONE_NEWUSER)
        .and_then(|()| join(network, CloneFlags::CLONE_NEWNET))
        .map_err(|error| format!("the namespaces of the background commands: {error}"))?;
    nix::sched::unshare(OWN).map_err(|error| format!("new namespaces: {error}"))
}

/// Sends descriptors of the namespaces of user and network, for [`join_namespaces`].
fn offer_namespaces(socket: &OwnedFd) -> Result<(), String> {
    let send = || -> io::Result<()> {
        let socket = UnixStream::from(socket.try_clone()?);
        for namespace in [fs::File::open("/proc/self/ns/user")?, fs::File::open("/proc/self/ns/net")?] {
            send_with(&socket, &[0], Some(namespace.as_fd()))?;
        }
        Ok(())
    };
    send().map_err(|error| format!("sharing the network: {error}"))
}

impl Started {
    /// After the end of all processes: the reports.
    pub fn finish(self) -> Vec<Report> {
        self.reports.as_ref().map(Report::receive).unwrap_or_default()
    }
}
