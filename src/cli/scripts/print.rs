//! The output of the subcommands for scripts: tables and text without control characters, or lines of JSON.

use std::io::Write as _;

use serde_json::Value;

use crate::base::text::{sanitise, width};
use crate::cli::stdio::{print_line, print_note};

/// The columns of `ps`.
pub const AGENTS: &[&str] = &["number", "name", "status", "queued", "unread", "model", "tokens", "id", "activity"];
/// The columns of `sessions`.
pub const SESSIONS: &[&str] = &["number", "label", "columns", "rows", "read_only"];

/// The columns of `status`.
pub const STATUS: &[&str] = &["process", "version", "memory", "descriptors", "threads", "agents", "clients"];

/// Prints a list of objects, as lines of JSON or as a table. An empty table has no heading.
pub fn table(list: &Value, columns: &[&str], is_json: bool) {
    let rows = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if is_json || rows.is_empty() {
        rows.iter().all(|row| print_line(&row.to_string()));
        return;
    }
    let is_present = |column: &&str| rows.iter().any(|row| row.get(*column).is_some());
    let columns: Vec<&str> = columns.iter().copied().filter(is_present).collect();
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
        if !print_line(text.trim_end()) {
            return;
        }
    }
}

/// Prints open questions, as lines of JSON, or each as a line with its id and below it the full text.
pub fn questions(list: &Value, is_json: bool) {
    for question in list.as_array().into_iter().flatten() {
        if is_json {
            print_line(&question.to_string());
            continue;
        }
        let columns = ["id", "label", "tool", "directory"].map(|name| cell(&question[name]));
        print_line(&format!("{}  {}s", columns.join("  "), cell(&question["age"])));
        for line in question["detail"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            print_line(&format!("    {}", sanitise(line)));
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

pub struct Printer {
    is_json: bool,
    is_closed: bool,
    /// The type of the last chunk, if the next one of that type continues its line.
    open: Option<String>,
}

impl Printer {
    pub fn new(is_json: bool) -> Self {
        Self { is_json, is_closed: false, open: None }
    }

    /// Whether the reader of standard output has gone.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Prints a chunk, given as JSON. Text output leaves out status and usage.
    pub fn chunk(&mut self, chunk: &Value) {
        if self.is_json {
            return self.put(&format!("{chunk}\n"));
        }
        let text = |name: &str| chunk[name].as_str().unwrap_or_default();
        let kind = text("type");
        match kind {
            "text" | "thinking" => {
                let starts_line = self.open.as_deref() != Some(kind);
                let mark = if starts_line && kind == "thinking" { "~ " } else { "" };
                if starts_line {
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
            "mail" => self.block("· ", &format!("message from {}", text("from"))),
            _ => {}
        }
    }

    pub fn missed(&mut self, count: u64) {
        self.end();
        print_note(&format!("{count} older chunks are not available any more"));
    }

    pub fn end(&mut self) {
        if self.open.take().is_some() {
            self.put("\n");
        }
    }

    /// Prints lines, each with the mark before it.
    fn block(&mut self, mark: &str, text: &str) {
        self.end();
        let text = sanitise(text);
        let lines: String = text.lines().map(|line| format!("{mark}{line}\n")).collect();
        self.put(&lines);
    }

    fn put(&mut self, text: &str) {
        let mut out = std::io::stdout().lock();
        self.is_closed |= out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err();
    }
}
