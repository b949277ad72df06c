//! `/hosts` and `polylogue hosts`: the hosts, and whether their programs are there.

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
        ..ShellSpec::list("List other agent programs that can answer", &["model", "program", "state"])
    }),
    ..CommandSpec::new("hosts", "list other agent programs that can answer", run)
};

fn run(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    let hosts = &context.config.hosts;
    if context.clients.is_some() {
        let entry = |host: &AgentHost| {
            let state = if is_there(context, host) { "installed" } else { "missing" };
            json!({"model": model_of(host), "program": host.command.join(" "), "state": state, "install": host.install})
        };
        return Ok(InputResult::Data(hosts.iter().map(entry).collect()));
    }
    let mut list = TwoColumns::new(20);
    for host in hosts {
        let about = match (is_there(context, host), host.install) {
            (true, _) => host.command.join(" "),
            (false, Some(install)) => format!("missing: {install}"),
            (false, None) => format!("missing: {}", host.command.join(" ")),
        };
        list.row(format!("{:<18} ", model_of(host)), &about);
    }
    let note = "/model acp/NAME or /fork -m acp/NAME uses one: polylogue help hosts";
    Ok(InputResult::Continue(Some(format!("{}\n{note}", list.to_text(context.columns())))))
}

fn model_of(host: &AgentHost) -> String {
    format!("{}/{}", crate::domain::endpoint::HOSTS, host.name)
}

fn is_there(context: &CommandContext, host: &AgentHost) -> bool {
    let program = host.command.first();
    program.is_some_and(|program| {
        find_program(program, &context.config.working_directory).is_some_and(|path| path.is_file())
    })
}
