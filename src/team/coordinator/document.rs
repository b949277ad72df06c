//! A template or workflow file, in TOML or JSON, as a tree with the line of each value, so that errors read
//! `file:line: key: message`. For JSON only the key is given: its parser keeps no lines.

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::unknown;
use crate::base::error::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
struct Node {
    /// From 1; 0 if it is not known.
    line: usize,
    value: Value,
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    String(String),
    Bool(bool),
    Array(Vec<Node>),
    Table(Vec<(String, Node)>),
    /// Types that no key takes: numbers, dates, null.
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    file: String,
    root: Node,
}

/// One table of a document, read key by key.
#[derive(Debug, Clone)]
pub(super) struct Table<'d> {
    file: &'d str,
    /// The path of keys to this table; empty for the document itself.
    path: String,
    node: &'d Node,
}

impl Document {
    /// Parses a file. `file` is used in errors; it is JSON if it ends with `.json` or the text starts with a brace.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self> {
        let is_json = file.ends_with(".json") || text.trim_start().starts_with('{');
        let root = if is_json { parse_json(file, text)? } else { parse_toml(file, text)? };
        Ok(Self { file: file.to_owned(), root })
    }

    pub(super) fn table(&self) -> Table<'_> {
        Table { file: &self.file, path: String::new(), node: &self.root }
    }
}

fn parse_json(file: &str, text: &str) -> Result<Node> {
    let value: Json = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        // The position is given in front; the parser repeats it at the end.
        let message = error.to_string();
        let message = message.rsplit_once(" at line").map_or(message.as_str(), |(message, _)| message);
        Error::usage(format!("{file}:{line}:{column}: invalid JSON: {message}"))
    })?;
    match from_json(value) {
        node @ Node { value: Value::Table(_), .. } => Ok(node),
        _ => Err(Error::usage(format!("{file}: expected an object: {{...}}"))),
    }
}

fn from_json(value: Json) -> Node {
    let value = match value {
        Json::String(text) => Value::String(text),
        Json::Bool(value) => Value::Bool(value),
        Json::Array(items) => Value::Array(items.into_iter().map(from_json).collect()),
        Json::Object(table) => Value::Table(table.into_iter().map(|(key, value)| (key, from_json(value))).collect()),
        Json::Null | Json::Number(_) => Value::Other,
    };
    Node { line: 0, value }
}

fn parse_toml(file: &str, text: &str) -> Result<Node> {
    let line_of = |at: usize| 1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count();
    match DeTable::parse(text) {
        Ok(table) => Ok(Node { line: 1, value: from_table(table.get_ref(), &line_of) }),
        Err(error) => {
            let line = line_of(error.span().map_or(0, |span| span.start));
            Err(Error::usage(format!("{file}:{line}: invalid TOML: {}", error.message())))
        }
    }
}

fn from_table(table: &DeTable<'_>, line_of: &dyn Fn(usize) -> usize) -> Value {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        let node = Node { line: line_of(key.span().start), value: from_toml(value.get_ref(), line_of) };
        (key.get_ref().clone().into_owned(), node)
    };
    let mut entries: Vec<_> = table.iter().map(entry).collect();
    entries.sort_by_key(|(_, node)| node.line);
    Value::Table(entries)
}

fn from_toml(value: &DeValue<'_>, line_of: &dyn Fn(usize) -> usize) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Array(items) => {
            let node = |item: &Spanned<DeValue<'_>>| Node {
                line: line_of(item.span().start),
                value: from_toml(item.get_ref(), line_of),
            };
            Value::Array(items.iter().map(node).collect())
        }
        DeValue::Table(table) => from_table(table, line_of),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) => Value::Other,
    }
}

impl<'d> Table<'d> {
    /// Refuses unknown keys.
    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        let stranger = self.entries().iter().find(|(key, _)| !known.contains(&key.as_str()));
        stranger.map_or(Ok(()), |(key, node)| {
            let message = unknown("key", key, key, known.iter().copied()).message;
            Err(self.error_at(node.line, &self.path, &message))
        })
    }

    /// A string that is not blank.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'d str>> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text)),
            Some(_) => Err(self.error(key, "expected a string that is not empty")),
        }
    }

    /// `true` or `false`; false if the key is missing.
    pub(super) fn boolean(&self, key: &str) -> Result<bool> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(self.error(key, "expected true or false")),
        }
    }

    /// An array of strings; empty if the key is missing.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<&'d str>> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        let text = |item: &'d Node| if let Value::String(text) = &item.value { Some(text.as_str()) } else { None };
        let texts = match &node.value {
            Value::Array(items) => items.iter().map(text).collect(),
            _ => None,
        };
        texts.ok_or_else(|| self.error(key, "expected an array of strings: [\"...\", \"...\"]"))
    }

    /// An array of tables; empty if the key is missing.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<Self>> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        let items = match &node.value {
            Value::Array(items) if items.iter().all(|item| matches!(item.value, Value::Table(_))) => items,
            _ => return Err(self.error(key, &format!("expected an array of tables: [[{key}]]"))),
        };
        let table = |(number, node)| Table { file: self.file, path: format!("{}[{number}]", self.path_to(key)), node };
        Ok((1..).zip(items).map(table).collect())
    }

    pub(super) fn parsed<T: std::str::FromStr<Err = Error>>(&self, key: &str) -> Result<Option<T>> {
        let parse = |text: &str| text.parse().map_err(|error: Error| self.error(key, &error.message));
        self.text(key)?.map(parse).transpose()
    }

    /// An error at the value of `key`, or at the table itself if the key is missing.
    pub(super) fn error(&self, key: &str, message: &str) -> Error {
        let line = self.get(key).unwrap_or(self.node).line;
        self.error_at(line, &self.path_to(key), message)
    }

    fn error_at(&self, line: usize, path: &str, message: &str) -> Error {
        let position = if line == 0 { self.file.to_owned() } else { format!("{}:{line}", self.file) };
        let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
        Error::usage(format!("{position}: {path}{message}"))
    }

    fn path_to(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn get(&self, key: &str) -> Option<&'d Node> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    fn entries(&self) -> &'d [(String, Node)] {
        match &self.node.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str =
        "name = \"n\"\nyes = true\nlist = [\"a\", \"b\"]\n\n[[steps]]\nname = \"s\"\n[[steps]]\nnmae = 3\n";
    const JSON: &str = r#"{"name":"n","yes":true,"list":["a","b"],"steps":[{"name":"s"},{"nmae":3}]}"#;

    #[test]
    fn toml_and_json_give_the_same_tree_and_toml_its_lines() {
        for (text, line) in [(TOML, ":7"), (JSON, "")] {
            let document = Document::parse("w", text).expect("valid");
            let table = document.table();
            assert_eq!(
                (table.text("name"), table.boolean("yes"), table.boolean("no")),
                (Ok(Some("n")), Ok(true), Ok(false))
            );
            assert_eq!(table.texts("list"), Ok(vec!["a", "b"]));
            let steps = table.tables("steps").expect("tables");
            assert_eq!(steps[0].text("name"), Ok(Some("s")));
            let line_of_key = if line.is_empty() { "" } else { ":8" };
            let message = steps[1].only(&["name", "model"]).unwrap_err().message;
            assert!(message.starts_with(&format!("w{line_of_key}: steps[2]: unknown key \"nmae\"")), "{message}");
            assert!(message.contains("did you mean name?"), "{message}");
            assert_eq!(steps[1].error("name", "is missing").message, format!("w{line}: steps[2].name: is missing"));
        }
    }

    #[test]
    fn values_of_a_wrong_type_are_errors_with_a_position() {
        let document = Document::parse("w", "a = 1\nb = \" \"\nc = [1]\nd = [\"x\"]\n").expect("valid");
        let table = document.table();
        assert!(table.text("a").unwrap_err().message.starts_with("w:1: a: expected a string"));
        assert!(table.text("b").unwrap_err().message.starts_with("w:2: b: expected a string"));
        assert!(table.boolean("b").unwrap_err().message.starts_with("w:2: b: expected true"));
        assert!(table.texts("c").unwrap_err().message.starts_with("w:3: c: expected an array of strings"));
        assert!(table.tables("d").unwrap_err().message.starts_with("w:4: d: expected an array of tables"));
    }

    #[test]
    fn syntax_errors_have_a_position() {
        for (file, text, expected) in [
            ("w", "name = \"n\"\nsteps = [", "w:2: invalid TOML"),
            ("w.json", "name = 1", "w.json:1:2: invalid JSON"),
            ("w", "{\n\"a\": }", "w:2:6: invalid JSON"),
            ("w.json", "[]", "w.json: expected an object"),
            ("w.json", "", "w.json:1:0: invalid JSON"),
        ] {
            let message = Document::parse(file, text).unwrap_err().message;
            assert!(message.starts_with(expected), "{text:?}: {message}");
            assert!(!message.contains('\n') && !message.contains("at line"), "{message}");
        }
    }
}
