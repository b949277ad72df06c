//! `/ask`: one prompt for several agents, or for forks of this agent on several models.

use clap::ArgMatches;

use super::arguments::{option, positional, unquoted, value_of};
use super::complete::{before_last_word, complete_word, models};
use super::{CommandContext, CommandSpec, Rest, agent_called, usage_error};
use crate::agent::{Agent, Role};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::called::split_called;
use crate::domain::change::Change;
use crate::domain::compare::{AskTargets, CompareChange};
use crate::domain::flow::InputResult;
use crate::provider::credentials;

pub const ASK: CommandSpec = CommandSpec {
    arguments: "all|AGENTS|--models M,N PROMPT",
    define: |command| {
        let models = option("models", "M,N", "Ask forks of this agent on these models");
        command.arg(models).arg(positional("prompt", "AGENTS PROMPT"))
    },
    rest: Some(Rest::AsTyped("prompt")),
    complete: Some(complete),
    ..CommandSpec::new("ask", "ask several, compare the answers", run)
};

const ALL: &str = "all";
const MODELS: &str = "--models";

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let typed = value_of(given, "prompt").unwrap_or_default();
    let (targets, prompt) = match value_of(given, "models") {
        Some(list) => (AskTargets::Models(checked_models(context, list)?), typed),
        None => {
            let (list, prompt) = split_called(typed);
            (AskTargets::Agents(agents(context, list)?), prompt)
        }
    };
    let prompt = unquoted(prompt);
    if prompt.is_empty() {
        return Err(usage_error(
            "no prompt given: /ask AGENT,AGENT PROMPT, /ask all PROMPT or /ask --models M,M PROMPT",
        ));
    }
    Ok(InputResult::NewState(Change::Compare(CompareChange::Ask { targets, prompt: prompt.to_owned() }), None))
}

/// The agents of a list, each once.
fn agents(context: &CommandContext, names: &str) -> Result<Vec<AgentId>> {
    if names == ALL {
        let is_asked = |agent: &&Agent| agent.role == Role::Normal;
        return Ok(context.roster.iter().filter(is_asked).map(Agent::id).collect());
    }
    let mut found = Vec::new();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        let id = agent_called(context.roster, name)?;
        if !found.contains(&id) {
            found.push(id);
        }
    }
    Ok(found)
}

/// The models of a list as `provider/model`, if each can be asked.
fn checked_models(context: &CommandContext, names: &str) -> Result<Vec<String>> {
    let names = names.split(',').filter(|name| !name.is_empty());
    let models = names.map(|name| {
        let endpoint = context.config.catalog.find(name)?;
        if endpoint.key_command.is_none() {
            credentials::require(&endpoint, endpoint.key.as_ref())?;
        }
        Ok(endpoint.full_name())
    });
    let models = models.collect::<Result<Vec<String>>>()?;
    if models.is_empty() {
        return Err(usage_error("no model given: /ask --models PROVIDER/MODEL,PROVIDER/MODEL PROMPT"));
    }
    Ok(models)
}

/// Completes the last name of the list.
fn complete(context: &CommandContext, typed: &str) -> Vec<String> {
    let is_models = before_last_word(typed).trim_end() == MODELS;
    if !is_models && typed.contains(' ') {
        return Vec::new();
    }
    let word = typed.rsplit(' ').next().unwrap_or_default();
    let list = &word[..word.rfind(',').map_or(0, |at| at + 1)];
    let in_list = |name: String| format!("{list}{name}");
    if is_models {
        return complete_word(typed, models(context).into_iter().map(in_list));
    }
    let names: Vec<String> = context.roster.iter().map(|agent| in_list(agent.identity.word())).collect();
    let first = [ALL, MODELS].map(|word| format!("{word} "));
    first.into_iter().filter(|_| list.is_empty()).chain(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::arguments::parse_line;

    #[test]
    fn the_list_precedes_the_prompt() {
        for (typed, list, prompt) in [
            ("all why?", "all", "why?"),
            ("2,web  why not", "2,web", "why not"),
            ("agent 2,web why 3", "agent 2,web", "why 3"),
            ("--models a/b,c say hello", "--models a/b,c", "say hello"),
            ("--models=a/b say", "--models a/b", "say"),
            ("", "", ""),
        ] {
            let given = parse_line(&ASK, typed).unwrap();
            let rest = value_of(&given, "prompt").unwrap_or_default();
            let (who, rest) = match value_of(&given, "models") {
                Some(models) => (format!("--models {models}"), rest),
                None => (split_called(rest).0.to_owned(), split_called(rest).1),
            };
            assert_eq!((who.as_str(), rest.trim()), (list, prompt), "{typed}");
        }
        assert!(parse_line(&ASK, "--modles a b").is_err_and(|error| error.message.contains("did you mean --models?")));
        assert!(parse_line(&ASK, "--models").is_err_and(|error| error.message.contains("--models needs a value")));
    }
}
