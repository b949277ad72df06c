//! `/set`: the parameters of the requests of an agent.

use std::collections::BTreeMap;

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest, usage_error};
use crate::agent::Agent;
use crate::base::error::Result;
use crate::domain::change::{Change, Setting};
use crate::domain::flow::InputResult;
use crate::domain::parameters::{Parameter, ParameterName};
use crate::provider::find;
use crate::provider::parameters::check;

/// Runs at once: a running request is not affected, the next one has the new value.
pub const SET: CommandSpec = CommandSpec {
    arguments: "[NAME [VALUE|default]]",
    is_for_clients: true,
    define: |command| command.arg(positional("name", "NAME")).arg(positional("value", "VALUE")),
    rest: Some(Rest::AsTyped("value")),
    complete: Some(complete),
    ..CommandSpec::new("set", "set a parameter of requests, such as temperature; without argument: show all", run)
};

/// The value that removes a parameter.
const DEFAULT: &str = "default";

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let agent = context.agent()?;
    let (Some(name), Some(value)) = (value_of(given, "name"), value_of(given, "value")) else {
        let only = value_of(given, "name").map(str::parse).transpose()?;
        return Ok(InputResult::Continue(Some(describe_parameters(agent, only.as_ref()))));
    };
    let name: ParameterName = name.parse()?;
    let value = match value {
        DEFAULT => None,
        typed => Some(name.read(typed)?),
    };
    if let Some(value) = &value {
        check(&agent.inputs.endpoint, &name, value)?;
    } else if !agent.inputs.parameters.iter().any(|(own, _)| *own == name) {
        return Err(usage_error(format!("{name} is not set for this agent: /set lists the parameters in use")));
    }
    Ok(InputResult::NewState(Change::Setting(Setting::Parameter(name, value)), None))
}

/// The parameters that hold, each with where it was set, and the names of the others.
fn describe_parameters(agent: &Agent, only: Option<&ParameterName>) -> String {
    let (endpoint, own) = (&agent.inputs.endpoint, &agent.inputs.parameters);
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for (name, set) in endpoint.parameters.iter().chain(own.iter()) {
        let unsent = check(endpoint, name, &set.value).err().map(|error| format!("; not sent: {}", error.message));
        let value = set.value.as_str().map_or_else(|| set.value.to_string(), str::to_owned);
        rows.insert(name.to_string(), format!("{value}  ({}{})", set.source, unsent.unwrap_or_default()));
    }
    let model = endpoint.full_name();
    if let Some(limit) = endpoint.facts.max_output {
        rows.entry("max_output".into()).or_insert_with(|| format!("{limit}  (max_output of {model})"));
    }
    rows.entry("thinking".into()).or_insert_with(|| format!("{}  (setting thinking)", agent.inputs.thinking));
    if let Some(name) = only {
        return rows.get(&name.to_string()).map_or_else(|| format!("{name}: default"), |row| format!("{name}: {row}"));
    }
    let known = find(&endpoint.kind).map(|spec| spec.parameters).unwrap_or_default();
    let others: Vec<&str> =
        known.iter().map(|parameter| parameter.name()).filter(|name| !rows.contains_key(*name)).collect();
    let mut lines: Vec<String> = rows.into_iter().map(|(name, row)| format!("{name}: {row}")).collect();
    if !others.is_empty() {
        lines.push(format!("not set, {model} decides: {}", others.join(", ")));
    }
    lines.join("\n")
}

fn complete(context: &CommandContext, typed: &str) -> Vec<String> {
    if typed.contains(char::is_whitespace) {
        return Vec::new();
    }
    let kind = context.agent().ok().and_then(|agent| find(&agent.inputs.endpoint.kind));
    let known = kind.map(|spec| spec.parameters).unwrap_or_default();
    let names = known.iter().chain([&Parameter::Thinking]).map(|parameter| format!("{} ", parameter.name()));
    names.collect()
}
