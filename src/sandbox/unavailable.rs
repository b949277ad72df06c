//! Systems other than Linux: no level can be built.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use rustix::process::Pid;

use super::{Descriptors, Level, Plan, Report, variables};

/// A command that runs.
pub struct Started {
    pub process: Pid,
}

/// Starts a program if its plan restricts nothing.
pub fn start(
    plan: Plan,
    mut descriptors: Descriptors,
    program: &OsStr,
    arguments: &[OsString],
    _: &AtomicBool,
) -> Result<Started, Report> {
    if plan.level != Level::None {
        return Err(Report::Unavailable("there is no sandbox on this system".into()));
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(descriptors.take_input()).process_group(0);
    command.env_clear().envs(variables::given_variables(&plan.variables, &[])).envs(plan.own_variables);
    let failed = |error: io::Error| Report::NotStarted(format!("cannot run {}: {error}", program.display()));
    Ok(Started { process: Pid::from_child(&command.spawn().map_err(failed)?) })
}

impl Started {
    /// After the end of all processes: the reports.
    pub fn finish(self) -> Vec<Report> {
        Vec::new()
    }
}
