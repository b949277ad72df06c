//! Rules of single directories in the text of a configuration file:
//!
//! ```toml
//! [projects."/home/ada/src/project"]
//! allow = ["bash(cargo test:*)"]
//! ```
//!
//! Rules are inserted into the text, so that comments and everything else stay.

use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::domain::rule::Rule;

/// The table of a configuration file that holds a table for each directory.
pub const TABLE: &str = "projects";
const ALLOW: &str = "allow";

/// The text with these rules among those that are allowed in the directory.
///
/// # Errors
/// The text is not TOML, or its form allows no insertion; then the person has to edit it.
pub fn with_rules(text: &str, directory: &Path, rules: &[Rule]) -> Result<String, String> {
    let name = directory.to_str().filter(|name| !name.chars().any(char::is_control));
    let name = name.ok_or("the name of the directory is not plain text")?;
    let mut known = allowed(text, name)?;
    let rules: Vec<String> = rules.iter().map(ToString::to_string).filter(|rule| !known.contains(rule)).collect();
    if rules.is_empty() {
        return Ok(text.to_owned());
    }
    let after = inserted(text, name, &rules)?;
    known.extend(rules);
    // Whatever the text looked like: it must contain the rules now, and nothing else may have changed.
    let is_right = allowed(&after, name).is_ok_and(|now| now == known) && others(&after, name) == others(text, name);
    if is_right {
        Ok(after)
    } else {
        Err(format!("add {} to {ALLOW} in [{TABLE}.{}]", known.join(", "), toml_string(name)))
    }
}

fn inserted(text: &str, name: &str, rules: &[String]) -> Result<String, String> {
    let list = rules.iter().map(|rule| toml_string(rule)).collect::<Vec<_>>().join(", ");
    let root = DeTable::parse(text).map_err(|error| error.message().to_owned())?.into_inner();
    let project = root.get(TABLE).and_then(|all| all.get_ref().as_table()?.get(name));
    let table = project.and_then(|project| project.get_ref().as_table());
    if let Some(array) = table.and_then(|table| table.get(ALLOW)) {
        return match last_of(array) {
            Some(last) => Ok(splice(text, last.end, &format!(", {list}"))),
            None => Ok(splice(text, array.span().start + 1, &list)),
        };
    }
    if let Some(first) = table.and_then(|table| table.iter().map(|(key, _)| key.span().start).min()) {
        return Ok(splice(text, first, &format!("{ALLOW} = [{list}]\n")));
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    Ok(format!("{text}{gap}[{TABLE}.{}]\n{ALLOW} = [{list}]\n", toml_string(name)))
}

fn last_of(array: &Spanned<DeValue<'_>>) -> Option<Range<usize>> {
    array.get_ref().as_array()?.iter().last().map(Spanned::span)
}

fn splice(text: &str, at: usize, new: &str) -> String {
    format!("{}{new}{}", &text[..at], &text[at..])
}

/// The rules that the text allows in this directory.
fn allowed(text: &str, name: &str) -> Result<Vec<String>, String> {
    let root = meaning(text)?;
    let list = match &root[TABLE][name][ALLOW] {
        Value::Null => &[],
        Value::Array(list) => list.as_slice(),
        _ => return Err(format!("{ALLOW} is not a list of rules")),
    };
    let text = |rule: &Value| rule.as_str().map(str::to_owned).ok_or(format!("{ALLOW} is not a list of rules"));
    list.iter().map(text).collect()
}

/// Everything else that the text says.
fn others(text: &str, name: &str) -> Option<Value> {
    let mut root = meaning(text).ok()?;
    let projects = root.as_object_mut()?.entry(TABLE).or_insert_with(|| json!({})).as_object_mut()?;
    projects.entry(name).or_insert_with(|| json!({})).as_object_mut()?.remove(ALLOW);
    Some(root)
}

/// What the text says, only for comparison.
fn meaning(text: &str) -> Result<Value, String> {
    let root = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    Ok(table_meaning(root.get_ref()))
}

fn table_meaning(table: &DeTable<'_>) -> Value {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), value_meaning(value.get_ref()))).collect()
}

fn value_meaning(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Integer(number) => json!([number.as_str(), number.radix()]),
        DeValue::Float(number) => json!({"float": number.as_str()}),
        DeValue::Datetime(time) => json!({"time": time.to_string()}),
        DeValue::Array(items) => items.iter().map(|item| value_meaning(item.get_ref())).collect(),
        DeValue::Table(table) => table_meaning(table),
    }
}

/// A basic string of TOML.
fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_rule_is_added_and_everything_else_stays_as_it_was() {
        let cargo = || rules(&["bash(cargo test:*)"]);
        for (before, after) in [
            ("", "[projects.\"/p\"]\nallow = [\"bash(cargo test:*)\"]\n"),
            (
                "model = \"echo\" # mine",
                "model = \"echo\" # mine\n\n[projects.\"/p\"]\nallow = [\"bash(cargo test:*)\"]\n",
            ),
            (
                "# top\n[projects.\"/p\"] # here\n# why\nallow = [\n  \"bash(ls)\", # one\n]\n\n[limits] # end\nretries = 1\n",
                "# top\n[projects.\"/p\"] # here\n# why\nallow = [\n  \"bash(ls)\", \"bash(cargo test:*)\", # one\n]\n\n[limits] # end\nretries = 1\n",
            ),
            ("[projects.\"/p\"]\nallow = [ ]\n", "[projects.\"/p\"]\nallow = [\"bash(cargo test:*)\" ]\n"),
            (
                "[projects.\"/p\"]\ndeny = [\"bash(rm:*)\"]\n",
                "[projects.\"/p\"]\nallow = [\"bash(cargo test:*)\"]\ndeny = [\"bash(rm:*)\"]\n",
            ),
            (
                "[projects.\"/q\"]\nallow = [\"bash(ls)\"]",
                "[projects.\"/q\"]\nallow = [\"bash(ls)\"]\n\n[projects.\"/p\"]\nallow = [\"bash(cargo test:*)\"]\n",
            ),
            (
                "[projects]\n\"/p\".allow = ['bash(a)']\n",
                "[projects]\n\"/p\".allow = ['bash(a)', \"bash(cargo test:*)\"]\n",
            ),
        ] {
            assert_eq!(with_rules(before, Path::new("/p"), &cargo()).as_deref(), Ok(after));
            assert_eq!(with_rules(after, Path::new("/p"), &cargo()).as_deref(), Ok(after), "it is not added twice");
        }
        let odd = with_rules("", Path::new("/a \"b\"\\c"), &rules(&["bash(echo \"x\\y\")"])).unwrap();
        assert_eq!(allowed(&odd, "/a \"b\"\\c").unwrap(), ["bash(echo \"x\\y\")"]);
    }

    #[test]
    fn a_text_that_cannot_be_added_to_is_refused_with_what_to_do() {
        let add = |text: &str| with_rules(text, Path::new("/p"), &rules(&["bash(ls)"])).unwrap_err();
        assert_eq!(add("projects = {}"), "add bash(ls) to allow in [projects.\"/p\"]");
        assert_eq!(add("[projects.\"/p\"]\nallow = 1"), "allow is not a list of rules");
        assert!(!add("[broken").is_empty());
    }
}
