//! `/hosts` and `polylogue hosts`: the hosts, and whether their programs are there.

use std::path::Path;

use clap::ArgMatches;
use serde_json::json;

use crate::base::error::Result;
use crate::commands::{CommandContext, CommandSpec, ShellSpec, TwoColumns, WithoutServer};
use crate::domain::agent_host::AgentHost;
use crate::domain::flow::InputResult;
use crate::tools::user_tool::find_program;

pub const HOSTS: CommandSpec = CommandSpec {
    shell: Some(ShellSpec {
        without_server: WithoutServer::Reads,
        ..ShellSpec::list(
            "List agent programs that can be models (Claude Code, Codex and others)",
            &["model", "program", "state"],
        )
    }),
    ..CommandSpec::new("hosts", "list agent programs that can be models, such as Claude Code", run)
};

fn run(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    let hosts = &context.config.hosts;
    if context.clients.is_some() {
        let entry = |host: &AgentHost| {
            let state = if is_there(host, &context.config.working_directory) { "installed" } else { "missing" };
            json!({"model": model_of(host), "program": host.command.join(" "), "state": state, "install": host.install})
        };
        return Ok(InputResult::Data(hosts.iter().map(entry).collect()));
    }
    let mut list = TwoColumns::new(20);
    for host in hosts {
        let about = match (is_there(host, &context.config.working_directory), host.install) {
            (true, _) => host.command.join(" "),
            (false, Some(install)) => format!("not installed: {install}"),
            (false, None) => format!("not found: {} (command in [hosts.{}])", host.command.join(" "), host.name),
        };
        list.row(format!("{:<18} ", model_of(host)), &about);
    }
    let note = "to use one: /model acp/NAME, or /fork --host NAME (polylogue help hosts)";
    Ok(InputResult::Continue(Some(format!("{}\n{note}", list.to_text(context.columns())))))
}

fn model_of(host: &AgentHost) -> String {
    format!("{}/{}", crate::domain::endpoint::HOSTS, host.name)
}

/// Whether its program is installed.
pub fn is_there(host: &AgentHost, directory: &Path) -> bool {
    let program = host.command.first();
    program.is_some_and(|program| find_program(program, directory).is_some_and(|path| path.is_file()))
}
