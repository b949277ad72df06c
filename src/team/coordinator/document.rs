//! A template or a workflow as a person wrote it, in TOML or in JSON: a tree that knows where its parts stand, so that
//! every fault is told as `file:line: key: words`. JSON is told by its keys alone: its parser keeps no lines.

use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use super::settings::unknown;
use crate::base::error::{Error, ErrorKind, Result};

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
struct Node {
    /// From 1; 0 where that is not known.
    line: usize,
    value: Value,
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Truth(bool),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
    /// What nothing here is: a number, a date, null.
    Other,
}

/// A whole document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    file: String,
    root: Node,
}

/// One table of a document, to be read key by key.
#[derive(Debug, Clone)]
pub(super) struct Table<'d> {
    file: &'d str,
    /// How a person would write the way to it; empty for the document itself.
    path: String,
    node: &'d Node,
}

impl Document {
    /// Reads a document; `file` is only for errors. What ends in `.json` or begins with a brace is JSON, else it is
    /// TOML.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self> {
        let is_json = file.ends_with(".json") || text.trim_start().starts_with('{');
        let root = if is_json { json(file, text)? } else { toml(file, text)? };
        Ok(Self { file: file.to_owned(), root })
    }

    pub(super) fn table(&self) -> Table<'_> {
        Table { file: &self.file, path: String::new(), node: &self.root }
    }
}

fn json(file: &str, text: &str) -> Result<Node> {
    let value: Json = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        // The parser puts the place behind its words, where people do not look for it.
        let words = error.to_string();
        let words = words.rsplit_once(" at line").map_or(words.as_str(), |(words, _)| words);
        fault(format!("{file}:{line}:{column}: this is not JSON: {words}"))
    })?;
    match of_json(value) {
        node @ Node { value: Value::Table(_), .. } => Ok(node),
        _ => Err(fault(format!("{file}: expected a table: {{...}}"))),
    }
}

fn of_json(value: Json) -> Node {
    let value = match value {
        Json::String(text) => Value::Text(text),
        Json::Bool(truth) => Value::Truth(truth),
        Json::Array(list) => Value::List(list.into_iter().map(of_json).collect()),
        Json::Object(table) => Value::Table(table.into_iter().map(|(key, value)| (key, of_json(value))).collect()),
        Json::Null | Json::Number(_) => Value::Other,
    };
    Node { line: 0, value }
}

fn toml(file: &str, text: &str) -> Result<Node> {
    let line = |at: usize| 1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count();
    match DeTable::parse(text) {
        Ok(table) => Ok(Node { line: 1, value: of_table(table.get_ref(), &line) }),
        Err(error) => {
            let line = line(error.span().map_or(0, |span| span.start));
            Err(fault(format!("{file}:{line}: this is not TOML: {}", error.message())))
        }
    }
}

fn of_table(table: &DeTable<'_>, line: &dyn Fn(usize) -> usize) -> Value {
    let entry = |value: &toml::Spanned<DeValue<'_>>, key: &str, at: usize| {
        (key.to_owned(), Node { line: line(at), value: of_toml(value.get_ref(), line) })
    };
    let mut entries: Vec<_> = table.iter().map(|(key, value)| entry(value, key.get_ref(), key.span().start)).collect();
    entries.sort_by_key(|(_, node)| node.line);
    Value::Table(entries)
}

fn of_toml(value: &DeValue<'_>, line: &dyn Fn(usize) -> usize) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Boolean(truth) => Value::Truth(*truth),
        DeValue::Array(list) => {
            let node = |one: &toml::Spanned<DeValue<'_>>| Node {
                line: line(one.span().start),
                value: of_toml(one.get_ref(), line),
            };
            Value::List(list.iter().map(node).collect())
        }
        DeValue::Table(table) => of_table(table, line),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) => Value::Other,
    }
}

impl<'d> Table<'d> {
    /// Refuses keys that nobody reads, with the nearest that somebody does.
    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        let stranger = self.entries().iter().find(|(key, _)| !known.contains(&key.as_str()));
        stranger.map_or(Ok(()), |(key, node)| {
            let words = unknown("key", key, key, known.iter().copied()).message;
            Err(self.told(node.line, &self.path, &words))
        })
    }

    /// A text, not blank, if there is one.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'d str>> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::Text(text)) if !text.trim().is_empty() => Ok(Some(text)),
            Some(_) => Err(self.refuse(key, "expected a text in quotes, not empty")),
        }
    }

    /// `true` or `false`; false if it is not there.
    pub(super) fn truth(&self, key: &str) -> Result<bool> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(false),
            Some(Value::Truth(truth)) => Ok(*truth),
            Some(_) => Err(self.refuse(key, "expected true or false")),
        }
    }

    /// A list of texts; none if it is not there.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<&'d str>> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        let texts = match &node.value {
            Value::List(list) => list
                .iter()
                .map(|one| if let Value::Text(text) = &one.value { Some(text.as_str()) } else { None })
                .collect(),
            _ => None,
        };
        texts.ok_or_else(|| self.refuse(key, "expected a list of texts: [\"...\", \"...\"]"))
    }

    /// A list of tables; none if it is not there.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<Self>> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        let list = match &node.value {
            Value::List(list) if list.iter().all(|one| matches!(one.value, Value::Table(_))) => list,
            _ => return Err(self.refuse(key, &format!("expected a list of tables: [[{key}]]"))),
        };
        let table = |(at, node)| Table { file: self.file, path: format!("{}[{at}]", self.at(key)), node };
        Ok((1..).zip(list).map(table).collect())
    }

    /// What a text stands for.
    pub(super) fn parsed<T: std::str::FromStr<Err = Error>>(&self, key: &str) -> Result<Option<T>> {
        let parse = |text: &str| text.parse().map_err(|error: Error| self.refuse(key, &error.message));
        self.text(key)?.map(parse).transpose()
    }

    /// A fault of what stands behind `key`, or of the table itself, if that is empty or not there.
    pub(super) fn refuse(&self, key: &str, words: &str) -> Error {
        let line = self.get(key).unwrap_or(self.node).line;
        self.told(line, &self.at(key), words)
    }

    fn told(&self, line: usize, path: &str, words: &str) -> Error {
        let place = if line == 0 { self.file.to_owned() } else { format!("{}:{line}", self.file) };
        let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
        fault(format!("{place}: {path}{words}"))
    }

    fn at(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            (path, "") => path.to_owned(),
            ("", key) => key.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
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

fn fault(words: String) -> Error {
    Error::new(ErrorKind::Usage, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str =
        "name = \"n\"\nyes = true\nlist = [\"a\", \"b\"]\n\n[[steps]]\nname = \"s\"\n[[steps]]\nnmae = 3\n";
    const JSON: &str = r#"{"name":"n","yes":true,"list":["a","b"],"steps":[{"name":"s"},{"nmae":3}]}"#;

    #[test]
    fn the_same_is_read_from_both_and_only_toml_knows_lines() {
        for (text, line) in [(TOML, ":7"), (JSON, "")] {
            let document = Document::parse("w", text).expect("it is well formed");
            let table = document.table();
            assert_eq!(
                (table.text("name"), table.truth("yes"), table.truth("no")),
                (Ok(Some("n")), Ok(true), Ok(false))
            );
            assert_eq!(table.texts("list"), Ok(vec!["a", "b"]));
            let steps = table.tables("steps").expect("they are tables");
            assert_eq!(steps[0].text("name"), Ok(Some("s")));
            let line_of_key = if line.is_empty() { "" } else { ":8" };
            let words = steps[1].only(&["name", "model"]).unwrap_err().message;
            assert!(words.starts_with(&format!("w{line_of_key}: steps[2]: there is no key \"nmae\"")), "{words}");
            assert!(words.contains("did you mean name?"), "{words}");
            assert_eq!(steps[1].refuse("name", "is missing").message, format!("w{line}: steps[2].name: is missing"));
        }
    }

    #[test]
    fn a_value_of_another_kind_is_refused_where_it_stands() {
        let document = Document::parse("w", "a = 1\nb = \" \"\nc = [1]\nd = [\"x\"]\n").expect("it is well formed");
        let table = document.table();
        assert!(table.text("a").unwrap_err().message.starts_with("w:1: a: expected a text"));
        assert!(table.text("b").unwrap_err().message.starts_with("w:2: b: expected a text"));
        assert!(table.truth("b").unwrap_err().message.starts_with("w:2: b: expected true"));
        assert!(table.texts("c").unwrap_err().message.starts_with("w:3: c: expected a list of texts"));
        assert!(table.tables("d").unwrap_err().message.starts_with("w:4: d: expected a list of tables"));
    }

    #[test]
    fn what_is_neither_is_refused_with_its_place() {
        for (file, text, words) in [
            ("w", "name = \"n\"\nsteps = [", "w:2: this is not TOML"),
            ("w.json", "name = 1", "w.json:1:2: this is not JSON"),
            ("w", "{\n\"a\": }", "w:2:6: this is not JSON"),
            ("w.json", "[]", "w.json: expected a table"),
            ("w.json", "", "w.json:1:0: this is not JSON"),
        ] {
            let message = Document::parse(file, text).unwrap_err().message;
            assert!(message.starts_with(words), "{text:?}: {message}");
            assert!(!message.contains('\n') && !message.contains("at line"), "{message}");
        }
    }
}
