//! `/limit`: limits on what an agent and all agents that models make below it may be and use.

use super::complete::{agent_names, complete_word};
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, usage_error};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::called::words_called;
use crate::domain::flow::{Change, InputResult, Shown};
use crate::domain::limits::{LimitName, LimitValue};

pub const LIMIT: CommandSpec = CommandSpec {
    name: "limit",
    aliases: &[],
    arguments: "[AGENT] [NAME VALUE]",
    about: "show or set the limits of a tree of agents",
    busy: WhenBusy::Runs,
    run,
    complete: |context, typed| {
        let names = LimitName::ALL.map(|name| format!("{} ", name.name()));
        complete_word(typed, names.into_iter().chain(agent_names(context, typed)))
    },
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let words: Vec<&str> = words_called(arguments).collect();
    let agent = |name: &str| agent_called(context.roster, name);
    match *words.as_slice() {
        [] => Ok(show(context.current)),
        [name] => agent(name).map(show),
        [name, value] => set(context.current, name, value),
        [of, name, value] => set(agent(of)?, name, value),
        _ => Err(usage_error("too many arguments: /limit [AGENT] [NAME VALUE]")),
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
    Ok(InputResult::NewState(Change::Limit { agent_id, name: found, value }, None))
}

fn read_value(name: LimitName, typed: &str) -> Option<LimitValue> {
    match typed {
        "none" => Some(LimitValue::None),
        "default" => Some(LimitValue::Default),
        number => name.value_of(number.parse().ok()?).map(LimitValue::Most),
    }
}
