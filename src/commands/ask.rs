//! `/ask`: one prompt for several agents, or for forks of this agent on several models.

use super::complete::{before_last_word, complete_word, models};
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, unknown_option, unquoted, usage_error};
use crate::agent::{Agent, Role};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::called::split_called;
use crate::domain::compare::AskTargets;
use crate::domain::flow::{Change, InputResult};
use crate::provider::credentials;

pub const ASK: CommandSpec = CommandSpec {
    name: "ask",
    aliases: &[],
    arguments: "all|AGENTS|--models M,N PROMPT",
    about: "ask several, compare the answers",
    busy: WhenBusy::Runs,
    run,
    complete,
};

const ALL: &str = "all";
const MODELS: &str = "--models";

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let (who, prompt) = split(arguments)?;
    let prompt = unquoted(prompt.trim());
    if prompt.is_empty() {
        return Err(usage_error(
            "no prompt given: /ask AGENT,AGENT PROMPT, /ask all PROMPT or /ask --models M,M PROMPT",
        ));
    }
    let targets = match who {
        Who::Agents(names) => AskTargets::Agents(agents(context, names)?),
        Who::Models(names) => AskTargets::Models(checked_models(context, names)?),
    };
    Ok(InputResult::NewState(Change::Ask { targets, prompt: prompt.to_owned() }, None))
}

/// The list in front of the prompt.
enum Who<'a> {
    Agents(&'a str),
    Models(&'a str),
}

fn split(arguments: &str) -> Result<(Who<'_>, &str)> {
    let first = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = arguments.split_at(first(arguments));
    let rest = rest.trim_start();
    let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
    match (option, value) {
        (MODELS, Some(value)) => Ok((Who::Models(value), rest)),
        (MODELS, None) => {
            let (list, prompt) = rest.split_at(first(rest));
            Ok((Who::Models(list), prompt))
        }
        (unknown, _) if unknown.starts_with("--") => Err(unknown_option("ask", unknown, &[MODELS])),
        _ => {
            let (list, prompt) = split_called(arguments);
            Ok((Who::Agents(list), prompt))
        }
    }
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

    #[test]
    fn the_list_precedes_the_prompt() {
        for (typed, list, prompt) in [
            ("all why?", "all", "why?"),
            ("2,web  why not", "2,web", "why not"),
            ("agent 2,web why 3", "agent 2,web", "why 3"),
            ("--models a/b,c say hello", "--models a/b,c", "say hello"),
            ("--models=a/b say", "--models a/b", "say"),
            ("--models", "--models ", ""),
            ("", "", ""),
        ] {
            let (who, rest) = split(typed).unwrap();
            let who = match who {
                Who::Agents(names) => names.to_owned(),
                Who::Models(names) => format!("--models {names}"),
            };
            assert_eq!((who.as_str(), rest.trim()), (list, prompt), "{typed}");
        }
        assert!(split("--modles a b").is_err_and(|error| error.message.contains("did you mean --models?")));
    }
}
