//! `/env`: a child of this agent in another environment; without arguments, shows this agent's environment.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest, TwoColumns, WhenBusy};
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::environment::{EnvironmentNames, EnvironmentSpec};
use crate::domain::flow::InputResult;
use crate::domain::remote_place::RemotePlace;
use crate::tools::{self, worktree};

pub const ENV: CommandSpec = CommandSpec {
    arguments: "[list | SPEC]",
    define: |command| command.arg(positional("spec", "SPEC")),
    rest: Some(Rest::AsTyped("spec")),
    busy: WhenBusy::Parks,
    complete: Some(complete),
    ..CommandSpec::new("env", "create a child in another environment, or show it", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    match value_of(given, "spec").unwrap_or_default() {
        "" => Ok(InputResult::Continue(Some(description(context)))),
        "list" => Ok(InputResult::Continue(Some(list(context)))),
        spec => {
            let spec: EnvironmentSpec = spec.parse()?;
            with_names(context, |names| names.resolve(&spec))?;
            Ok(InputResult::NewState(Change::environment(spec.to_string()), None))
        }
    }
}

fn with_names<T>(context: &CommandContext, f: impl FnOnce(EnvironmentNames) -> T) -> T {
    let tools: Vec<&str> = tools::all().map(|tool| tool.declaration.name).collect();
    f(EnvironmentNames { entries: &context.config.environments, tools: &tools })
}

fn description(context: &CommandContext) -> String {
    let Some(agent) = context.roster.get(context.current) else { return String::new() };
    let here = &agent.inputs.environment;
    let tools: Vec<&str> = here.tools.iter().map(|tool| tool.declaration.name).collect();
    let tools = if tools.is_empty() { "none".into() } else { tools.join(", ") };
    let mut list = TwoColumns::new(12);
    list.row("environment", here.spec.to_string());
    list.row("directory", here.place().display().to_string());
    if let Some(remote) = &here.remote {
        list.row("place", remote.place.to_string());
        list.row("/undo", "cannot bring back files that are changed there");
    }
    list.row("tools", tools);
    here.worktree.iter().for_each(|root| list.row("branch", worktree::branch_of(root)));
    here.sources.iter().for_each(|source| list.row("read from", source.to_string()));
    list.to_text(context.columns())
}

fn list(context: &CommandContext) -> String {
    let mut list = TwoColumns::new(12);
    with_names(context, |names| names.list()).into_iter().for_each(|(name, about)| list.row(name, about));
    list.row("ssh:HOST:DIR", "a directory of another machine, by ssh");
    list.row("container:IMAGE", "a container with this directory (podman or docker)");
    let hint =
        "join environments and tools with +, set the directory with @: readonly+bash@../other, coding+ssh:web1:/srv";
    format!("{}\n{hint}", list.to_text(context.columns()))
}

/// Completes the name after the last `+`.
fn complete(context: &CommandContext, typed: &str) -> Vec<String> {
    if typed.contains('@') || RemotePlace::start_in(typed).is_some() {
        return Vec::new();
    }
    let before = typed.rfind('+').map_or("", |at| &typed[..=at]);
    let names = with_names(context, |names| names.list()).into_iter().map(|(name, _)| name);
    let tools = tools::all().map(|tool| tool.declaration.name.to_owned());
    let list = before.is_empty().then(|| "list".to_owned());
    let places = ["ssh:", "container:"].map(str::to_owned);
    names.chain(list).chain(tools).chain(places).map(|name| format!("{before}{name}")).collect()
}
