//! How agents are called in commands, by tools and on the command line: by name, by number as `7` or `agent 7`, by id, or by
//! the first characters of the id.

use crate::base::id::AgentId;

/// Minimum characters of an id that name an agent.
const LEAST_OF_ID: usize = 4;
/// The word before a number.
pub const AGENT: &str = "agent";

/// The names of an agent.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub id: AgentId,
    /// Its number, if it has one.
    pub number: Option<i64>,
    /// Its name, if it has one.
    pub name: Option<&'a str>,
}

/// The label of an agent: its name, else `agent 7`, else the beginning of its id.
pub fn label(name: Option<&str>, number: Option<i64>, id: AgentId) -> String {
    match (name, number) {
        (Some(name), _) => name.to_owned(),
        (None, Some(number)) => format!("{AGENT} {number}"),
        (None, None) => id.short(),
    }
}

/// The name and the title of an agent in a list, of those that it has.
pub fn name_and_title(name: Option<&str>, title: &str) -> Option<String> {
    match (name, title) {
        (None, "") => None,
        (Some(name), "") => Some(name.to_owned()),
        (None, title) => Some(title.to_owned()),
        (Some(name), title) => Some(format!("{name}: {title}")),
    }
}

/// The agent that is called so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This agent.
    One(AgentId),
    /// No agent.
    None,
    /// Any of these.
    Ambiguous(Vec<AgentId>),
}

impl Found {
    /// The agent, if there is exactly one.
    pub fn one(self) -> Option<AgentId> {
        if let Self::One(id) = self { Some(id) } else { None }
    }
}

/// The number in `7` or `agent 7`.
pub fn number_in(text: &str) -> Option<i64> {
    let digits = match text.strip_prefix(AGENT) {
        Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim_start(),
        _ => text,
    };
    is_number(digits).then(|| digits.parse().ok())?
}

/// Whether a text has digits only.
pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A name without the quotes around it.
pub fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}

/// Finds an agent. A name comes before an id, that before a number, and that before the beginning of an id.
pub fn find_called(known: &[Known<'_>], text: &str) -> Found {
    let text = unquoted(text);
    let (id, number) = (text.parse::<AgentId>().ok(), number_in(text));
    let of = |is_meant: &dyn Fn(&Known<'_>) -> bool| -> Vec<AgentId> {
        known.iter().filter(|known| is_meant(known)).map(|known| known.id).collect()
    };
    let begins = |known: &Known<'_>| text.len() >= LEAST_OF_ID && known.id.to_string().starts_with(text);
    let ways: [&dyn Fn(&Known<'_>) -> bool; 4] = [
        &|known| known.name == Some(text),
        &|known| Some(known.id) == id,
        &|known| number.is_some() && known.number == number,
        &begins,
    ];
    let found = ways.into_iter().map(of).find(|found| !found.is_empty());
    match found.unwrap_or_default().as_slice() {
        [] => Found::None,
        [id] => Found::One(*id),
        several => Found::Ambiguous(several.to_vec()),
    }
}

/// Splits off the first word, which may name an agent, also as `agent 7`, in quotes, or in a list with commas.
pub fn split_called(arguments: &str) -> (&str, &str) {
    let arguments = arguments.trim_start();
    let quoted = arguments.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    if let Some((inner, rest)) = quoted.filter(|(inner, _)| number_in(inner).is_some()) {
        return (inner, rest.trim_start());
    }
    let first = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    let mut end = first(arguments);
    while arguments[..end].rsplit(',').next() == Some(AGENT) {
        let rest = arguments[end..].trim_start();
        let word = &rest[..first(rest)];
        if !is_number(word.split(',').next().unwrap_or_default()) {
            break;
        }
        end = arguments.len() - rest.len() + word.len();
    }
    (&arguments[..end], arguments[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_an_id_a_number_and_the_beginning_of_an_id_name_an_agent() {
        let ids = [[1; 16], [2; 16], [2; 16]].map(AgentId::from_bytes);
        let ids = [ids[0], ids[1], AgentId::from_bytes([2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3])];
        let names = [None, Some("scout"), Some("agent")];
        let known = [0, 1, 2].map(|at| Known { id: ids[at], number: [Some(0), Some(7), None][at], name: names[at] });
        let find = |text: &str| find_called(&known, text);
        let whole = ids[1].to_string();
        for text in ["scout", "7", "agent 7", "agent  7", &whole] {
            assert_eq!(find(text), Found::One(ids[1]), "{text}");
        }
        assert_eq!(find("agent"), Found::One(ids[2]));
        assert_eq!(find(&ids[0].to_string()[..4]), Found::One(ids[0]));
        assert_eq!(find(&whole[..4]), Found::Ambiguous(vec![ids[1], ids[2]]));
        for text in ["", "8", "agent 8", "agent x", "agent7", "agent -7", "+7", &whole[..3], "Scout"] {
            assert_eq!(find(text), Found::None, "{text}");
        }
    }

    #[test]
    fn a_number_after_the_word_agent_belongs_to_it() {
        for (text, called, rest) in [
            ("agent 7 hello there", "agent 7", "hello there"),
            ("agent  7", "agent  7", ""),
            ("\"agent 7\" hello", "agent 7", "hello"),
            ("\"hello 7\" x", "\"hello", "7\" x"),
            ("2,agent 3,web why", "2,agent 3,web", "why"),
            ("agent 1,agent 2 why 3", "agent 1,agent 2", "why 3"),
            ("agent x", "agent", "x"),
            ("7  agent 8", "7", "agent 8"),
            ("", "", ""),
        ] {
            assert_eq!(split_called(text), (called, rest), "{text}");
        }
    }
}
