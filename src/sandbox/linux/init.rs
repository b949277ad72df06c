//! The init process: restricts itself and starts the command. With namespaces it is process 1, whose end makes the
//! kernel kill all others.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, wait};

use super::{InitPlan, file_rules, limits, mounts, network, not_started, powers, syscalls};
use crate::domain::sandbox::Network;
use crate::sandbox::report::{receive_input, receive_text, standard_input};
use crate::sandbox::{Descriptors, Level, Report};

/// The exit code if the command was not started, as in shells; the report says why.
const NOT_STARTED: u8 = 126;

/// Runs `-- PROGRAM ARGUMENT...` (the arguments after [`super::INIT_FLAG`]).
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter().skip(1);
    let Some(program) = args.next() else { return ExitCode::from(NOT_STARTED) };
    let mut command = Command::new(program);
    command.args(args).process_group(0);
    match run(command) {
        Ok(code) => ExitCode::from(code),
        Err(report) => {
            report.answer();
            ExitCode::from(NOT_STARTED)
        }
    }
}

fn run(mut command: Command) -> Result<u8, Report> {
    let unavailable = |step: &str, error: &dyn std::fmt::Display| Report::Unavailable(format!("{step}: {error}"));
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| unavailable("death signal", &error))?;
    // The supervisor may have ended before that: then nothing can be read.
    let (init, mut descriptors) = receive().map_err(|error| Report::NotStarted(format!("plan: {error}")))?;
    command.stdin(descriptors.take_input());
    if init.plan.level.has_namespaces() {
        mounts::build(&init)?;
        if init.plan.network != Network::Host {
            network::start_loopback().map_err(|error| unavailable("loopback interface", &error))?;
        }
        if let Network::Hosts(hosts) = &init.plan.network {
            let variables = network::start_proxy(hosts, descriptors.proxy);
            command.envs(variables.map_err(|error| Report::NotStarted(format!("proxy: {error}")))?);
        }
    }
    command.envs(init.plan.own_variables.iter().cloned());
    powers::give_up().map_err(|error| unavailable("capabilities", &error))?;
    powers::lock().map_err(|error| unavailable("privileges", &error))?;
    file_rules::restrict(&init).map_err(Report::Unavailable)?;
    limits::set(init.plan.level, &init.plan.limits).map_err(|error| unavailable("resource limits", &error))?;
    syscalls::restrict(&init).map_err(Report::Unavailable)?;
    if init.plan.level == Level::Landlock {
        let error = command.exec();
        return Err(not_started(command.get_program(), &error));
    }
    let child = command.spawn().map_err(|error| not_started(command.get_program(), &error))?;
    Ok(wait_for(Pid::from_child(&child)))
}

/// Receives the plan of the supervisor.
fn receive() -> io::Result<(InitPlan, Descriptors)> {
    let from = standard_input()?;
    let (text, proxy) = receive_text(&from)?;
    let init: InitPlan = serde_json::from_str(&text).map_err(io::Error::other)?;
    let input = receive_input(&from, init.plan.has_input)?;
    Ok((init, Descriptors { proxy, input, shared: Vec::new() }))
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
