//! The output of the subcommands for scripts: tables and text without control characters, or lines of JSON.

use std::io::Write as _;

use serde_json::Value;

use crate::base::text::{dollars, escape_json, sanitise, width};
use crate::cli::stdio::{print_line, print_note};

/// The columns of `ps`.
pub const AGENTS: &[&str] =
    &["number", "name", "status", "queued", "unread", "model", "tokens", "cost", "team_run", "place", "id", "activity"];
/// The columns of `mail`.
pub const MAIL: &[&str] = &["id", "read", "from", "text"];
/// The columns of `sessions`.
pub const SESSIONS: &[&str] = &["number", "label", "columns", "rows", "read_only"];

/// The columns of `status`.
pub const STATUS: &[&str] = &["process", "version", "memory", "descriptors", "threads", "agents", "clients"];

/// Prints a list of objects, as lines of JSON or as a table. An empty table has no heading.
pub fn table(list: &Value, columns: &[&str], is_json: bool) {
    let rows = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if is_json || rows.is_empty() {
        rows.iter().all(|row| print_line(&escape_json(&row.to_string())));
        return;
    }
    // Most agents are in no team, and work on this machine.
    let is_present = |column: &&str| {
        rows.iter().any(|row| {
            row.get(*column).is_some_and(|value| !matches!(*column, "team_run" | "place") || !value.is_null())
        })
    };
    let columns: Vec<&str> = columns.iter().copied().filter(is_present).collect();
    let heading = columns.iter().map(|column| column.to_uppercase()).collect();
    let cells = |row: &Value| {
        let cells = columns.iter().map(|column| match row[*column].as_u64() {
            Some(bytes) if *column == "memory" => bytes_in_words(bytes),
            Some(cost) if *column == "cost" => format!("${}", dollars(cost)),
            _ => cell(&row[*column]),
        });
        cells.collect()
    };
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
            print_line(&escape_json(&question.to_string()));
            continue;
        }
        let columns = ["id", "label", "tool", "directory"].map(|name| cell(&question[name]));
        print_line(&format!("{}  {}s", columns.join("  "), cell(&question["age"])));
        for line in question["detail"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            print_line(&format!("    {}", sanitise(line)));
        }
    }
}

/// A number of bytes for a person, in the unit that leaves one to four digits before the point.
fn bytes_in_words(bytes: u64) -> String {
    const UNITS: [&str; 3] = ["KiB", "MiB", "GiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut number, mut unit) = (bytes as f64 / 1024.0, 0);
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        (number, unit) = (number / 1024.0, unit + 1);
    }
    format!("{number:.1} {}", UNITS[unit])
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
            return self.put(&format!("{}\n", escape_json(&chunk.to_string())));
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
        print_note(&format!("{count} older chunks are no longer available"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_unit_that_suits_them() {
        let shown = [0, 1023, 1024, 1536, (1 << 20) - 1, 12_345_678, 1 << 30, 1 << 41].map(bytes_in_words);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1024.0 KiB", "11.8 MiB", "1.0 GiB", "2048.0 GiB"]);
    }
}
