//! The init process: restricts itself and starts the command. With namespaces it is process 1, whose end makes the
//! kernel kill all others.

use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, wait};
use rustix::stdio::dup2_stdin;

use super::{InitPlan, file_rules, limits, mounts, network, not_started, powers, syscalls};
use crate::domain::sandbox::Network;
use crate::sandbox::{Descriptors, Level, Report};

/// The exit code if the command was not started, as in shells; the report says why.
pub const NOT_STARTED: u8 = 126;

/// Runs the command to its end, and reports on the socket why it could not be started. The exit code.
pub fn main(
    init: &InitPlan,
    descriptors: Descriptors,
    command: Command,
    reports: &UnixStream,
    is_terminated: &AtomicBool,
) -> u8 {
    run(init, descriptors, command, reports, is_terminated).unwrap_or_else(|report| {
        report.send(reports);
        NOT_STARTED
    })
}

fn run(
    init: &InitPlan,
    descriptors: Descriptors,
    mut command: Command,
    reports: &UnixStream,
    is_terminated: &AtomicBool,
) -> Result<u8, Report> {
    let unavailable = |step: &str, error: &dyn std::fmt::Display| Report::Unavailable(format!("{step}: {error}"));
    // That was the supervisor's control socket.
    dup2_stdin(reports).map_err(|error| unavailable("standard input", &error))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| unavailable("death signal", &error))?;
    if has_ended(reports) {
        return Ok(NOT_STARTED);
    }
    if init.plan.level.has_namespaces() {
        mounts::build(init)?;
        if init.plan.network != Network::Host {
            network::start_loopback().map_err(|error| unavailable("loopback interface", &error))?;
        }
        if let Network::Hosts(hosts) = &init.plan.network {
            let variables = network::start_proxy(hosts, descriptors.proxy, init.plan.is_served);
            command.envs(variables.map_err(|error| Report::NotStarted(format!("proxy: {error}")))?);
        }
        if let Some(socket) = descriptors.service {
            network::listen(socket, network::SERVICE)
                .map_err(|error| Report::NotStarted(format!("listener: {error}")))?;
        }
    }
    command.envs(init.plan.own_variables.iter().cloned());
    powers::give_up().map_err(|error| unavailable("capabilities", &error))?;
    powers::lock().map_err(|error| unavailable("privileges", &error))?;
    file_rules::restrict(init).map_err(Report::Unavailable)?;
    limits::set(init.plan.level, &init.plan.limits).map_err(|error| unavailable("resource limits", &error))?;
    syscalls::restrict(init).map_err(Report::Unavailable)?;
    if is_terminated.load(Ordering::Acquire) {
        return Ok(NOT_STARTED);
    }
    if init.plan.level == Level::Landlock {
        let error = command.exec();
        return Err(not_started(command.get_program(), &error));
    }
    let child = command.spawn().map_err(|error| not_started(command.get_program(), &error))?;
    Ok(wait_for(Pid::from_child(&child)))
}

/// Whether the supervisor ended before its end was to kill this process: it held the other side of the socket.
fn has_ended(reports: &UnixStream) -> bool {
    let mut polled = [PollFd::new(reports, PollFlags::IN)];
    let count = poll(&mut polled, Some(&Timespec::default()));
    count.is_err() || polled[0].revents().contains(PollFlags::HUP)
}

/// Reaps processes until this one has ended. Its exit code, or 128 plus the signal that ended it.
fn wait_for(command: Pid) -> u8 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                let code = status.exit_status().or(signal).and_then(|code| u8::try_from(code).ok());
                return code.unwrap_or(NOT_STARTED);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return NOT_STARTED,
        }
    }
}
