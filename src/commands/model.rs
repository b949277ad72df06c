//! `/model` and `/thinking`: which model answers and how much it thinks.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::complete::models;
use super::{CommandContext, CommandSpec, Rest};
use crate::base::error::Result;
use crate::domain::change::{Change, Setting, Shown};
use crate::domain::endpoint::ModelFacts;
use crate::domain::flow::InputResult;
use crate::domain::thinking::Thinking;
use crate::provider::{check_thinking, credentials};

/// Runs at once: a running request is not affected, the next one goes to the new model.
pub const MODEL: CommandSpec = CommandSpec {
    is_for_clients: true,
    aliases: &["m"],
    arguments: "[PROVIDER/MODEL]",
    define: |command| command.arg(positional("model", "PROVIDER/MODEL")),
    rest: Some(Rest::AsTyped("model")),
    ..CommandSpec::new("model", "change the model; without argument: list models", model)
};

pub const THINKING: CommandSpec = CommandSpec {
    arguments: "[off|low|medium|high|default|N]",
    define: |command| command.arg(positional("level", "LEVEL")),
    complete: Some(|context, _| levels(context).into_iter().collect()),
    ..CommandSpec::new("thinking", "set how much the model thinks", thinking)
};

fn model(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let Some(name) = value_of(given, "model") else {
        return Ok(InputResult::NewState(Change::Show(Shown::Models), None));
    };
    let endpoint = context.config.catalog.find(name)?;
    if context.agent()?.inputs.endpoint.full_name() == endpoint.full_name() {
        return Ok(InputResult::Continue(Some(format!("this agent already uses {}", endpoint.full_name()))));
    }
    if endpoint.key_command.is_none() {
        credentials::require(&endpoint, endpoint.key.as_ref())?;
    }
    Ok(InputResult::NewState(Change::Setting(Setting::Model(endpoint.full_name())), None))
}

/// Whether a model is typed at the end of this line.
pub fn names_model(typed: &str) -> bool {
    ["/model ", "/m "].iter().any(|command| typed.starts_with(command)) || typed.contains("--model ")
}

/// Every known model, with its context and prices where they are known; the agent's own is marked.
pub fn model_list(context: &CommandContext) -> String {
    let current = context.agent().map(|agent| agent.inputs.endpoint.full_name()).unwrap_or_default();
    let mut names = models(context);
    if !names.contains(&current) {
        names.insert(0, current.clone());
    }
    let lines = names.iter().map(|name| {
        let mark = if *name == current { ">" } else { " " };
        let facts = context.config.catalog.find(name).map(|endpoint| endpoint.facts).unwrap_or_default();
        format!("{mark} {name}{}", describe_facts(&facts))
    });
    let others = context.config.catalog.configured().map(|entry| format!("  {}/NAME for any other model", entry.name));
    lines.chain(others).collect::<Vec<_>>().join("\n")
}

/// `  131,072 tokens, $0.15 in, $0.60 out`, as far as known.
fn describe_facts(facts: &ModelFacts) -> String {
    let dollars = |price: u64| format!("${}", (price as f64 / 1e4).round() / 100.0);
    let mut parts: Vec<String> = facts.context.map(|tokens| format!("{tokens} tokens")).into_iter().collect();
    parts.extend(
        facts
            .prices
            .map(|prices| format!("about {} in, {} out per million", dollars(prices.input), dollars(prices.output))),
    );
    parts.extend((facts.tools == Some(false)).then(|| "no tools".to_owned()));
    if parts.is_empty() { String::new() } else { format!("  ({})", parts.join(", ")) }
}

fn thinking(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let inputs = &context.agent()?.inputs;
    if let Some(level) = value_of(given, "level") {
        let level = level.parse()?;
        check_thinking(&inputs.endpoint, level)?;
        return Ok(InputResult::NewState(Change::Setting(Setting::Thinking(level)), None));
    }
    let (model, levels) = (inputs.endpoint.full_name(), levels(context).join(", "));
    Ok(InputResult::Continue(Some(format!("thinking: {}; {model} accepts {levels}", inputs.thinking))))
}

/// The levels that the model of the agent accepts, with those that its server lists.
fn levels(context: &CommandContext) -> Vec<String> {
    let Ok(agent) = context.agent() else { return Vec::new() };
    let endpoint = &agent.inputs.endpoint;
    let listed = endpoint.facts.efforts.names().filter(|name| !Thinking::NAMES.contains(name));
    let accepts = |level: &&str| level.parse().is_ok_and(|level| check_thinking(endpoint, level).is_ok());
    Thinking::NAMES.into_iter().chain(listed).filter(accepts).map(str::to_owned).collect()
}
