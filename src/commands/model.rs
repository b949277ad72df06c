//! `/model` and `/thinking`: which model answers and how much it thinks.

use super::complete::models;
use super::{CommandContext, CommandSpec, WhenBusy};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};
use crate::domain::thinking::Thinking;
use crate::provider::{check_thinking, credentials};

pub const MODEL: CommandSpec = CommandSpec {
    name: "model",
    aliases: &["m"],
    arguments: "[PROVIDER/MODEL]",
    about: "change the model; without argument: list models",
    // A running request is not affected; the next one goes to the new model.
    busy: WhenBusy::Runs,
    run: model,
    complete: |context, _| models(context),
};

pub const THINKING: CommandSpec = CommandSpec {
    name: "thinking",
    aliases: &[],
    arguments: "[off|low|medium|high|default|N]",
    about: "set how much the model thinks",
    busy: WhenBusy::Runs,
    run: thinking,
    complete: |_, _| Thinking::NAMES.map(str::to_owned).into(),
};

fn model(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    if arguments.is_empty() {
        return Ok(InputResult::Continue(Some(list(context))));
    }
    let endpoint = context.config.catalog.find(arguments)?;
    if context.agent()?.inputs.endpoint.full_name() == endpoint.full_name() {
        return Ok(InputResult::Continue(Some(format!("this agent already uses {}", endpoint.full_name()))));
    }
    if endpoint.key_command.is_none() {
        credentials::require(&endpoint, endpoint.key.as_ref())?;
    }
    Ok(InputResult::NewState(Change::Model(endpoint.full_name()), None))
}

/// Every configured model; the agent's own is marked.
fn list(context: &CommandContext) -> String {
    let current = context.agent().map(|agent| agent.inputs.endpoint.full_name()).unwrap_or_default();
    let mut names = models(context);
    if !names.contains(&current) {
        names.insert(0, current.clone());
    }
    let lines = names.iter().map(|name| format!("{} {name}", if *name == current { ">" } else { " " }));
    let others = context.config.catalog.0.iter().map(|entry| format!("  {}/NAME for any other model", entry.name));
    lines.chain(others).collect::<Vec<_>>().join("\n")
}

fn thinking(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    if !arguments.is_empty() {
        return Ok(InputResult::NewState(Change::Thinking(arguments.parse()?), None));
    }
    let inputs = &context.agent()?.inputs;
    let accepts = |level: &&str| level.parse().is_ok_and(|level| check_thinking(&inputs.endpoint, level).is_ok());
    let levels: Vec<&str> = Thinking::NAMES.into_iter().filter(accepts).collect();
    let model = inputs.endpoint.full_name();
    Ok(InputResult::Continue(Some(format!("thinking: {}; {model} accepts {}", inputs.thinking, levels.join(", ")))))
}
