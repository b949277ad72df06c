//! Prompts of MCP servers as commands: `/mcp__SERVER__PROMPT`, with arguments in their order or as `NAME=VALUE`.

use serde_json::{Map, Value};

use super::complete::before_last_word;
use super::custom::split;
use super::{CommandContext, usage_error};
use crate::base::error::Result;
use crate::domain::change::{Change, PromptRequest};
use crate::domain::flow::InputResult;
use crate::domain::mcp::McpPrompt;

/// The prompts that the shown agent has.
pub(super) fn all<'a>(context: &CommandContext<'a>) -> &'a [McpPrompt] {
    context.roster.get(context.current).map(|agent| &*agent.inputs.environment.mcp_prompts).unwrap_or_default()
}

pub(super) fn find<'a>(context: &CommandContext<'a>, name: &str) -> Option<&'a McpPrompt> {
    all(context).iter().find(|prompt| prompt.full_name == name)
}

pub(super) fn run(prompt: &McpPrompt, typed: &str) -> Result<InputResult> {
    let mut arguments: Map<String, Value> = Map::new();
    let mut by_place = Vec::new();
    for word in split(typed) {
        match word.split_once('=').filter(|(name, _)| prompt.arguments.iter().any(|(known, _)| known == name)) {
            Some((name, value)) => drop(arguments.insert(name.to_owned(), value.into())),
            None => by_place.push(word),
        }
    }
    let mut free = prompt.arguments.iter().map(|(name, _)| name);
    for word in by_place {
        let Some(name) = free.by_ref().find(|name| !arguments.contains_key(*name)) else {
            return Err(usage_error(format!("too many arguments (got {word:?}); usage: {}", usage(prompt))));
        };
        arguments.insert(name.clone(), word.into());
    }
    let is_missing = |(name, is_required): &&(String, bool)| *is_required && !arguments.contains_key(name);
    if let Some((name, _)) = prompt.arguments.iter().find(is_missing) {
        return Err(usage_error(format!("the argument {name} is missing; usage: {}", usage(prompt))));
    }
    let line = format!("/{} {typed}", prompt.full_name).trim_end().to_owned();
    let (server, name) = (prompt.server.clone(), prompt.name.clone());
    Ok(InputResult::NewState(Change::ServerPrompt(PromptRequest { server, name, arguments, line }), None))
}

/// The names of the arguments that were not given, to follow what was typed.
pub(super) fn complete(prompt: &McpPrompt, typed: &str) -> Vec<String> {
    let before = before_last_word(typed);
    let given = |name: &str| before.split(' ').any(|word| word.split_once('=').is_some_and(|(known, _)| known == name));
    let open = prompt.arguments.iter().filter(|(name, _)| !given(name));
    open.map(|(name, _)| format!("{before}{name}=")).collect()
}

fn usage(prompt: &McpPrompt) -> String {
    format!("/{} {}", prompt.full_name, prompt.usage()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt() -> McpPrompt {
        McpPrompt {
            server: "s".into(),
            name: "p.q".into(),
            full_name: "mcp__s__p_q".into(),
            about: String::new(),
            arguments: vec![("city".into(), true), ("state".into(), false)],
        }
    }

    #[test]
    fn arguments_have_a_place_or_a_name() {
        let arguments = |typed: &str| match run(&prompt(), typed) {
            Ok(InputResult::NewState(Change::ServerPrompt(request), _)) => {
                Ok(Value::Object(request.arguments).to_string())
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.message),
        };
        assert_eq!(arguments("'New York' NY").unwrap(), r#"{"city":"New York","state":"NY"}"#);
        assert_eq!(arguments("state=NY a=b").unwrap(), r#"{"city":"a=b","state":"NY"}"#);
        assert!(arguments("").unwrap_err().contains("city is missing; usage: /mcp__s__p_q city [state]"));
        assert!(arguments("a b c").unwrap_err().contains("too many arguments (got \"c\")"));
        assert_eq!(complete(&prompt(), "city=x s"), ["city=x state="]);
    }
}
