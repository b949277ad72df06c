//! `status`: what the process that runs the agents uses.

use clap::ArgMatches;
use serde_json::json;

use super::{CommandContext, CommandSpec, ShellSpec};
use crate::base::error::Result;
use crate::base::process;
use crate::domain::flow::InputResult;

pub(super) const STATUS: CommandSpec = CommandSpec {
    shell: Some(ShellSpec::list(
        "Show what the server uses: memory in bytes, descriptors, threads",
        &["process", "version", "memory", "descriptors", "threads", "agents", "clients"],
    )),
    ..CommandSpec::new("status", "show what the server uses", run)
};

fn run(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    let usage = process::usage();
    Ok(InputResult::Data(json!({
        "process": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "memory": usage.memory,
        "descriptors": usage.descriptors,
        "threads": usage.threads,
        "agents": context.roster.len(),
        "clients": context.clients,
    })))
}
