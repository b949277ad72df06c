//! `/limit`: limits on what an agent and all agents that models make below it may be and use.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::complete::{agent_names, complete_word};
use super::{CommandContext, CommandSpec, agent_called, usage_error};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::change::{Change, Setting, Shown};
use crate::domain::flow::InputResult;
use crate::domain::limits::{LimitName, LimitValue};

pub const LIMIT: CommandSpec = CommandSpec {
    arguments: "[AGENT] [NAME VALUE]",
    define: |command| {
        command.arg(positional("first", "AGENT")).arg(positional("second", "NAME")).arg(positional("third", "VALUE"))
    },
    complete: Some(|context, typed| {
        let names = LimitName::ALL.map(|name| format!("{} ", name.name()));
        complete_word(typed, names.into_iter().chain(agent_names(context)))
    }),
    ..CommandSpec::new("limit", "show or set the limits of a tree of agents", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let agent = |name: &str| agent_called(context.roster, name);
    match ["first", "second", "third"].map(|id| value_of(given, id)) {
        [None, ..] => Ok(show(context.current)),
        [Some(name), None, _] => agent(name).map(show),
        [Some(name), Some(value), None] => set(context.current, name, value),
        [Some(of), Some(name), Some(value)] => set(agent(of)?, name, value),
    }
}

fn show(agent_id: AgentId) -> InputResult {
    InputResult::NewState(Change::Show(Shown::Limits(agent_id)), None)
}

fn set(agent_id: AgentId, name: &str, value: &str) -> Result<InputResult> {
    let found = LimitName::find(name).ok_or_else(|| {
        let names = LimitName::ALL.map(LimitName::name).join(", ");
        usage_error(format!("unknown limit {name:?}: expected one of {names}"))
    })?;
    let value = read_value(found, value).ok_or_else(|| {
        usage_error(format!(
            "invalid value {value:?} for {name}: expected a number of {}, none or default",
            found.about()
        ))
    })?;
    Ok(InputResult::NewState(Change::Setting(Setting::Limit { agent_id, name: found, value }), None))
}

fn read_value(name: LimitName, typed: &str) -> Option<LimitValue> {
    match typed {
        "none" => Some(LimitValue::None),
        "default" => Some(LimitValue::Default),
        number => name.value_of(number.parse().ok()?).map(LimitValue::Most),
    }
}
