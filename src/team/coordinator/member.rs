//! Who works on a task: names, models and roles, as the command line and files give them. Which agent plays a member is
//! the loop's business.

use std::collections::BTreeSet;

use super::settings::MOST_MEMBERS;
use crate::base::error::{Error, ErrorKind, Result};

/// Characters of a name.
const LONGEST_NAME: usize = 64;

/// One who works on a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// What it is called; no two members of a task have one name.
    pub name: String,
    /// `provider/model`; `None`: the model of whoever gives the task.
    pub model: Option<String>,
    /// What it is told to be, before it hears of the task.
    pub role: Option<String>,
}

impl Member {
    /// A member with this name, the usual model and no role.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// So many members without roles: `agent-1`, `agent-2` and so on.
    ///
    /// # Errors
    /// None, or more than [`MOST_MEMBERS`], are asked for.
    pub fn numbered(count: usize) -> Result<Vec<Self>> {
        match count {
            0 => Err(refusal("a task needs at least one member")),
            1..=MOST_MEMBERS => Ok((1..=count).map(|number| Self::new(format!("agent-{number}"))).collect()),
            _ => Err(too_many(count)),
        }
    }

    /// Reads `name[:provider/model][,..]`. A model may hold colons: only the first one ends the name.
    ///
    /// # Errors
    /// A name or a model is missing, or what [`check`] refuses.
    pub fn list(text: &str) -> Result<Vec<Self>> {
        let members = text.split(',').map(Self::parse).collect::<Result<Vec<_>>>()?;
        check(&members)?;
        Ok(members)
    }

    fn parse(text: &str) -> Result<Self> {
        let (name, model) = text.split_once(':').map_or((text, None), |(name, model)| (name, Some(model.trim())));
        let name = name.trim();
        if name.is_empty() {
            return Err(refusal("a member has no name: say name[:provider/model][,..]"));
        }
        if model.is_some_and(str::is_empty) {
            return Err(refusal(format!("which model is {name:?} to talk to? say {name}:provider/model")));
        }
        Ok(Self { model: model.map(str::to_owned), ..Self::new(name) })
    }
}

/// Whether these can work on a task together.
///
/// # Errors
/// There are too many, or two have one name, or a name is not made of letters, digits, `-`, `_` and `.`.
pub fn check(members: &[Member]) -> Result<()> {
    if members.len() > MOST_MEMBERS {
        return Err(too_many(members.len()));
    }
    let mut names = BTreeSet::new();
    for member in members {
        let name = member.name.as_str();
        if !is_name(name) {
            let shown: String = name.chars().take(LONGEST_NAME).collect();
            return Err(refusal(format!(
                "{shown:?} cannot be a member's name: take letters, digits, -, _ and ., at most {LONGEST_NAME}"
            )));
        }
        if !names.insert(name) {
            return Err(refusal(format!("there are two members {name:?}: give each a name of its own")));
        }
    }
    Ok(())
}

/// Whether a member, step, template or workflow can be called so: it stands in commands, on one line, between commas.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=LONGEST_NAME).contains(&name.chars().count()) && name.chars().all(is_plain)
}

fn too_many(count: usize) -> Error {
    refusal(format!("a task has at most {MOST_MEMBERS} members, not {count}"))
}

fn refusal(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_members_and_their_models_and_a_model_may_hold_colons() {
        let members = Member::list("a, b:work/big ,c:local/llama:8b").unwrap();
        let told: Vec<_> = members.iter().map(|m| (m.name.as_str(), m.model.as_deref())).collect();
        assert_eq!(told, [("a", None), ("b", Some("work/big")), ("c", Some("local/llama:8b"))]);
    }

    #[test]
    fn what_is_missing_or_there_twice_is_refused() {
        for (list, words) in [
            ("", "has no name"),
            ("a,,b", "has no name"),
            (":work/big", "has no name"),
            ("a:", "which model"),
            ("a,b,a", "two members \"a\""),
            ("a b", "cannot be a member's name"),
            ("a\u{1b}", "cannot be a member's name"),
        ] {
            let message = Member::list(list).unwrap_err().message;
            assert!(message.contains(words), "{list:?}: {message}");
        }
    }

    #[test]
    fn a_hundred_members_are_taken_and_one_more_is_not() {
        let hundred = Member::numbered(100).unwrap();
        assert_eq!((hundred[0].name.as_str(), hundred[99].name.as_str()), ("agent-1", "agent-100"));
        assert!(check(&hundred).is_ok());
        assert!(Member::numbered(101).is_err() && Member::numbered(0).is_err());
        let list: Vec<String> = (0..101).map(|n| n.to_string()).collect();
        assert!(Member::list(&list.join(",")).unwrap_err().message.contains("at most 100"));
    }
}
