//! What a new conversation begins with: the one table for `polylogue`, `-p` and clients of a server.
//!
//! | of it | flag | variable | configuration, a trusted project's first |
//! |---|---|---|---|
//! | model | `--model` | `POLYLOGUE_MODEL` | `model`, else the first provider with a key |
//! | thinking | `--set thinking=` | `POLYLOGUE_THINKING` | that of the model, of the provider, `thinking` |
//! | environment, system prompt | `--append-system-prompt` adds to it | | `environments.coding`, `AGENTS.md` |
//! | policy | `--approval` | `POLYLOGUE_APPROVAL` | `approval` |
//! | rules | `--allow`, `--deny`, and the lists of tools | | `rules`; all of them hold |
//! | parameters | `--set` | | those of the model and of the provider |
//! | tools | `--no-tools` | `POLYLOGUE_TOOLS_ENABLED` | `tools.enabled` |
//!
//! A source takes precedence over those on its right. Nothing is taken from another agent.

use std::collections::BTreeMap;

use super::Loaded;
use crate::base::error::{Error, Result};
use crate::cli::arguments::Arguments;
use crate::domain::choices::Choices;
use crate::domain::config::Config;
use crate::domain::environment::DEFAULT_ENVIRONMENT;
use crate::domain::parameters::{Parameter, ParameterName};
use crate::domain::rule::Rule;
use crate::provider::thinking_for;
use crate::team::Environments;

/// The choices for a new conversation in the working directory of this process, for a server that has its own
/// configuration.
pub fn choices(config: &Config) -> Choices {
    let resolved = Environments::new(config, None).usual();
    let tools = resolved.environment.tools.iter().map(|tool| tool.declaration.name);
    let is_own = config.environments.iter().any(|entry| entry.name == DEFAULT_ENVIRONMENT);
    Choices {
        environment: is_own.then(|| tools.collect::<Vec<_>>().join("+")).filter(|tools| !tools.is_empty()),
        system: Some(format!("{}{}", resolved.system, config.added_prompt())),
        ..choices_here(config)
    }
}

/// The same for a process that runs the agents itself: the environment is that of its configuration.
pub fn choices_here(config: &Config) -> Choices {
    let endpoint = &config.endpoint;
    let is_thinking = |name: &ParameterName| *name == ParameterName::Known(Parameter::Thinking);
    let thinking = endpoint.parameters.thinking().unwrap_or(config.thinking);
    let parameters = endpoint.parameters.iter().filter(|(name, _)| !is_thinking(name));
    let texts = |rules: &[Rule]| rules.iter().map(ToString::to_string).collect();
    Choices {
        // Without a model the server's default is used: it may have a key that this process has not.
        model: config.hint.is_none().then(|| endpoint.full_name()),
        thinking: config.hint.is_none().then(|| thinking_for(endpoint, thinking).to_string()),
        environment: None,
        system: None,
        approval: Some(config.policy.name().to_owned()),
        allow: texts(&config.rules.allow),
        ask: texts(&config.rules.ask),
        deny: texts(&config.rules.deny),
        parameters: parameters.map(|(name, set)| (name.to_string(), set.value.clone())).collect(),
        no_tools: !config.settings.has_tools,
    }
}

/// The changes that the options of the command line make to an existing conversation.
pub fn options(arguments: &Arguments, loaded: &Loaded) -> Result<Choices> {
    let mut parameters = BTreeMap::new();
    let mut thinking = None;
    for text in &arguments.set {
        let (name, value) = text.split_once('=').ok_or_else(|| Error::usage("--set: expected NAME=VALUE"))?;
        let name: ParameterName = name.trim().parse()?;
        let value = name.read(value)?;
        if name == ParameterName::Known(Parameter::Thinking) {
            thinking = value.as_str().map(str::to_owned);
        } else {
            parameters.insert(name.to_string(), value);
        }
    }
    Ok(Choices {
        model: arguments.model.is_some().then(|| loaded.config().endpoint.full_name()),
        thinking,
        approval: arguments.approval.is_some().then(|| loaded.config().policy.name().to_owned()),
        allow: arguments.allow.clone(),
        deny: arguments.deny.clone(),
        parameters,
        no_tools: arguments.no_tools,
        ..Choices::default()
    })
}
