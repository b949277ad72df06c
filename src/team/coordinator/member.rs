//! The members of a task: name, model and role, as the command line and files give them. Which agent acts as a member is
//! decided by the loop.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::settings::MAX_MEMBERS;
use crate::base::error::{Error, Result};

/// In characters.
const MAX_NAME: usize = 64;
/// What names of members, steps, templates and workflows are made of.
pub(super) const NAME_RULE: &str = "use up to 64 letters, digits, `-`, `_` and `.`";

/// One member of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its name, unique within the task.
    pub name: String,
    /// `provider/model`; `None`: the model of the agent that starts the task.
    pub model: Option<String>,
    /// Its system prompt.
    pub role: Option<String>,
    /// The name of its definition.
    pub agent: Option<String>,
}

impl Member {
    /// A member with the default model and no role.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// `count` members without roles: `agent-1`, `agent-2` and so on.
    ///
    /// # Errors
    /// `count` is 0 or more than `MAX_MEMBERS`.
    pub fn numbered(count: usize) -> Result<Vec<Self>> {
        match count {
            0 => Err(Error::usage("a task needs at least one member")),
            1..=MAX_MEMBERS => Ok((1..=count).map(|number| Self::new(format!("agent-{number}"))).collect()),
            _ => Err(too_many(count)),
        }
    }

    /// Parses `name[:provider/model][,...]`. Only the first colon ends the name: a model may contain colons.
    ///
    /// # Errors
    /// A name or a model is missing, there are too many members, or two have the same name.
    pub fn list(text: &str) -> Result<Vec<Self>> {
        let members = text.split(',').map(Self::parse).collect::<Result<Vec<_>>>()?;
        check(&members)?;
        Ok(members)
    }

    fn parse(text: &str) -> Result<Self> {
        let (name, model) = text.split_once(':').map_or((text, None), |(name, model)| (name, Some(model.trim())));
        let name = name.trim();
        if name.is_empty() {
            return Err(Error::usage("missing member name: use name[:provider/model][,...]"));
        }
        if model.is_some_and(str::is_empty) {
            return Err(Error::usage(format!("missing model after {name:?}: use {name}:provider/model")));
        }
        Ok(Self { model: model.map(str::to_owned), ..Self::new(name) })
    }
}

/// Checks that these members can work on one task.
pub fn check(members: &[Member]) -> Result<()> {
    if members.len() > MAX_MEMBERS {
        return Err(too_many(members.len()));
    }
    let mut names = BTreeSet::new();
    for member in members {
        let name = member.name.as_str();
        if !is_name(name) {
            let shown: String = name.chars().take(MAX_NAME).collect();
            return Err(Error::usage(format!("invalid member name {shown:?}: {NAME_RULE}")));
        }
        if !names.insert(name) {
            return Err(Error::usage(format!("duplicate member name {name:?}: give each member its own name")));
        }
    }
    Ok(())
}

/// Whether a member, step, template or workflow can have this name: it is used in commands and in comma-separated lists.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_NAME).contains(&name.chars().count()) && name.chars().all(is_plain)
}

fn too_many(count: usize) -> Error {
    Error::usage(format!("too many members: a task has at most {MAX_MEMBERS}, not {count}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_names_and_models_and_a_model_may_contain_colons() {
        let members = Member::list("a, b:work/big ,c:local/llama:8b").unwrap();
        let found: Vec<_> = members.iter().map(|m| (m.name.as_str(), m.model.as_deref())).collect();
        assert_eq!(found, [("a", None), ("b", Some("work/big")), ("c", Some("local/llama:8b"))]);
    }

    #[test]
    fn missing_invalid_and_duplicate_names_are_refused() {
        for (list, expected) in [
            ("", "missing member name"),
            ("a,,b", "missing member name"),
            (":work/big", "missing member name"),
            ("a:", "missing model"),
            ("a,b,a", "duplicate member name \"a\""),
            ("a b", "invalid member name"),
            ("a\u{1b}", "invalid member name"),
        ] {
            let message = Member::list(list).unwrap_err().message;
            assert!(message.contains(expected), "{list:?}: {message}");
        }
    }

    #[test]
    fn at_most_100_members() {
        let hundred = Member::numbered(100).unwrap();
        assert_eq!((hundred[0].name.as_str(), hundred[99].name.as_str()), ("agent-1", "agent-100"));
        assert!(check(&hundred).is_ok());
        assert!(Member::numbered(101).is_err() && Member::numbered(0).is_err());
        let list: Vec<String> = (0..101).map(|n| n.to_string()).collect();
        assert!(Member::list(&list.join(",")).unwrap_err().message.contains("at most 100"));
    }
}
