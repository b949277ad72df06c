//! How scripts and people are told: tables and texts for people, a line of JSON each for programs. Nothing in a text may
//! steer the terminal.

use std::io::Write as _;

use serde_json::Value;

use crate::base::text::{sanitise, width};

/// The fields of an agent that a person is shown, in this order.
pub const AGENTS: &[&str] = &["number", "name", "status", "queued", "unread", "model", "tokens", "id", "activity"];
/// The fields of a terminal that a person is shown.
pub const SESSIONS: &[&str] = &["number", "label", "columns", "rows", "read_only"];

/// A list of objects, as lines of JSON or as a table of these fields; of nothing, not even a heading.
pub fn table(list: &Value, columns: &[&str], is_json: bool) {
    let rows = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if is_json || rows.is_empty() {
        rows.iter().all(|row| line(&row.to_string()));
        return;
    }
    let is_there = |column: &&str| rows.iter().any(|row| row.get(*column).is_some());
    let columns: Vec<&str> = columns.iter().copied().filter(is_there).collect();
    let heading = columns.iter().map(|column| column.to_uppercase()).collect();
    let cells = |row: &Value| columns.iter().map(|column| cell(&row[*column])).collect();
    let lines: Vec<Vec<String>> = std::iter::once(heading).chain(rows.iter().map(cells)).collect();
    let widest = |at: usize| lines.iter().map(|line| width(&line[at])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    for cells in &lines {
        let mut text = String::new();
        for (cell, widest) in cells.iter().zip(&widths) {
            text += cell;
            text += &" ".repeat(widest - width(cell) + 2);
        }
        if !line(text.trim_end()) {
            return;
        }
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => sanitise(text).replace(['\n', '\t'], " "),
        other => sanitise(&other.to_string()).into_owned(),
    }
}

/// A line on the standard output. False if nobody reads any more.
pub fn line(text: &str) -> bool {
    writeln!(std::io::stdout(), "{text}").is_ok()
}

/// A line beside the answer.
pub fn aside(words: &str) {
    // The terminal may be gone, and then nobody is left to tell.
    let _ = writeln!(std::io::stderr(), "polylogue: {}", sanitise(words));
}

/// Prints the chunks of one agent.
pub struct Printer {
    is_json: bool,
    is_closed: bool,
    /// The kind of text that was printed last, if more of it would stand behind it on the same line.
    open: Option<String>,
}

impl Printer {
    /// Nothing is printed yet.
    pub fn new(is_json: bool) -> Self {
        Self { is_json, is_closed: false, open: None }
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// One chunk, as a line of JSON tells it. A person is not told of status and usage.
    pub fn chunk(&mut self, chunk: &Value) {
        if self.is_json {
            return self.put(&format!("{chunk}\n"));
        }
        let text = |name: &str| chunk[name].as_str().unwrap_or_default();
        let kind = text("type");
        match kind {
            "text" | "thinking" => {
                let begins = self.open.as_deref() != Some(kind);
                let mark = if begins && kind == "thinking" { "~ " } else { "" };
                if begins {
                    self.end();
                }
                self.put(&format!("{mark}{}", sanitise(text("text"))));
                self.open = Some(kind.to_owned());
            }
            "user" => self.block("> ", text("text")),
            "note" | "mark" => self.block("· ", text("text")),
            "tool_call" => self.block("* ", text("title")),
            "tool_result" => self.block("  ", text("text")),
            "question" => self.block("? ", text("title")),
            "error" => self.block("! ", text("text")),
            "status" => self.end(),
            "mail" => self.block("· ", &format!("a letter from {}", text("from"))),
            _ => {}
        }
    }

    /// So many chunks were dropped before they could be read.
    pub fn missed(&mut self, count: u64) {
        self.end();
        aside(&format!("{count} pieces are not kept any more"));
    }

    /// Nothing follows for now: a text that is open ends its line.
    pub fn end(&mut self) {
        if self.open.take().is_some() {
            self.put("\n");
        }
    }

    /// Lines of their own, each with the mark in front.
    fn block(&mut self, mark: &str, text: &str) {
        self.end();
        let text = sanitise(text);
        let lines: String = text.lines().map(|line| format!("{mark}{line}\n")).collect();
        self.put(&lines);
    }

    fn put(&mut self, text: &str) {
        let mut out = std::io::stdout().lock();
        // Whoever closed the pipe has read enough.
        self.is_closed |= out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err();
    }
}
