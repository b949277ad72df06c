//! The output of the subcommands for scripts: tables and text without control characters, or lines of JSON.

use std::io::Write as _;

use serde_json::Value;

use crate::base::id::AgentId;
use crate::base::text::{dollars, escape_json, sanitise, shortened, width};
use crate::cli::stdio::{print_line, print_note};

/// The columns of `ps`.
pub const AGENTS: &[&str] = &[
    "number",
    "name",
    "title",
    "status",
    "queued",
    "unread",
    "directory",
    "branch",
    "model",
    "tokens",
    "cost",
    "team_run",
    "place",
    "id",
    "activity",
];
/// Those of them that are left out where no agent has them.
const RARE: [&str; 6] = ["name", "directory", "branch", "team_run", "place", "activity"];
/// The columns of `ps --definitions`.
pub const DEFINITIONS: &[&str] = &["name", "author", "description"];
/// The columns of `mail`.
pub const MAIL: &[&str] = &["id", "read", "from", "text"];

/// Prints a list of objects, as lines of JSON or as a table. An empty table has no heading.
pub fn table(list: &Value, columns: &[&str], is_json: bool) {
    let rows = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if is_json || rows.is_empty() {
        rows.iter().all(|row| print_line(&escape_json(&row.to_string())));
        return;
    }
    let is_present = |column: &&str| {
        rows.iter().any(|row| row.get(*column).is_some_and(|value| !RARE.contains(column) || !value.is_null()))
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
    for line in laid_out(&columns, lines, terminal_columns()) {
        if !print_line(&line) {
            return;
        }
    }
}

/// How rows are narrowed for a terminal, step by step until all fits: a column is shortened to this many characters or,
/// with 0, left out.
const NARROWED: [(&str, usize); 15] = [
    ("team_run", 0),
    ("unread", 0),
    ("queued", 0),
    ("place", LEAST_SHORTENED),
    ("name", LEAST_SHORTENED),
    ("title", 40),
    ("tokens", 0),
    ("cost", 0),
    ("model", LEAST_SHORTENED),
    ("title", 32),
    ("model", 0),
    ("branch", 0),
    ("place", 0),
    ("directory", 0),
    ("title", LEAST_SHORTENED),
];
const LEAST_SHORTENED: usize = 16;

/// The columns of the terminal on standard output.
fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The rows of a table as lines, no wider than the terminal.
fn laid_out(columns: &[&str], mut rows: Vec<Vec<String>>, terminal: Option<usize>) -> Vec<String> {
    let mut columns = columns.to_vec();
    let widths = |rows: &[Vec<String>]| -> Vec<usize> {
        let count = rows.first().map_or(0, Vec::len);
        (0..count).map(|at| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0)).collect()
    };
    // The last column is cut instead.
    let before_last = |rows: &[Vec<String>]| {
        let widths = widths(rows);
        widths.split_last().map_or(0, |(last, others)| {
            others.iter().map(|width| width + 2).sum::<usize>() + *last.min(&LEAST_SHORTENED)
        })
    };
    let is_narrow = |rows: &[Vec<String>]| terminal.is_some_and(|terminal| before_last(rows) > terminal);
    if let Some(at) = columns.iter().position(|column| *column == "id").filter(|_| is_narrow(&rows)) {
        for row in &mut rows {
            row[at] = row[at].parse::<AgentId>().map_or_else(|_| row[at].clone(), |id| id.short());
        }
    }
    for (name, most) in NARROWED {
        let Some(at) = columns.iter().position(|column| *column == name).filter(|_| is_narrow(&rows)) else { continue };
        if most > 0 {
            rows.iter_mut().for_each(|row| row[at] = shortened(&row[at], most).into_owned());
        } else {
            columns.remove(at);
            rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    let widths = widths(&rows);
    let line = |cells: &Vec<String>| {
        let mut line = String::new();
        for (cell, widest) in cells.iter().zip(&widths) {
            line += cell;
            line += &" ".repeat(widest - width(cell) + 2);
        }
        let line = line.trim_end();
        terminal.map_or_else(|| line.to_owned(), |terminal| shortened(line, terminal).into_owned())
    };
    rows.iter().map(line).collect()
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

    pub fn note_missed(&mut self, count: u64) {
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
    fn a_table_is_no_wider_than_the_terminal() {
        let row = |cells: [&str; 6]| cells.map(str::to_owned).to_vec();
        let rows = || {
            vec![
                row(["NUMBER", "NAME", "QUEUED", "MODEL", "ID", "ACTIVITY"]),
                row(["0", "reviewer", "0", "openrouter/anthropic/claude-sonnet", "abcdef", "running a tool … 12 s"]),
            ]
        };
        let columns = ["number", "name", "queued", "model", "id", "activity"];
        let whole = laid_out(&columns, rows(), None);
        assert!(whole[1].ends_with("abcdef  running a tool … 12 s"), "{whole:?}");
        assert_eq!(laid_out(&columns, rows(), Some(200)), whole);
        let narrow = laid_out(&columns, rows(), Some(60));
        assert!(narrow[0].starts_with("NUMBER  NAME      MODEL") && narrow[1].contains("abcdef"), "{narrow:?}");
        for terminal in 10..120 {
            let lines = laid_out(&columns, rows(), Some(terminal));
            assert!(lines.iter().all(|line| width(line) <= terminal), "{terminal}: {lines:?}");
        }
    }

    #[test]
    fn titles_come_first_then_directories_and_ids_that_are_long_enough() {
        let row = |cells: [&str; 8]| cells.map(str::to_owned).to_vec();
        let columns = ["number", "title", "status", "directory", "branch", "model", "id", "activity"];
        let (id, title) = ("tn2xnoAAAAAAAAAAAAAAAA", "find out why the parser refuses tabs");
        let rows = vec![
            row(["NUMBER", "TITLE", "STATUS", "DIRECTORY", "BRANCH", "MODEL", "ID", "ACTIVITY"]),
            row(["0", title, "idle", "api", "main", "openai/gpt", id, "-"]),
        ];
        let line = |terminal| laid_out(&columns, rows.clone(), terminal).remove(1);
        assert!(line(Some(160)).contains(&format!("{title}  idle    api        main    openai/gpt  {id}")));
        let narrow = line(Some(80));
        assert!(
            narrow.starts_with("0       find out why the parser refuses…  idle") && narrow.contains("api"),
            "{narrow}"
        );
        assert!(narrow.contains("tn2xno") && !narrow.contains(id), "{narrow}");
    }

    #[test]
    fn bytes_are_shown_in_the_unit_that_suits_them() {
        let shown = [0, 1023, 1024, 1536, (1 << 20) - 1, 12_345_678, 1 << 30, 1 << 41].map(bytes_in_words);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1024.0 KiB", "11.8 MiB", "1.0 GiB", "2048.0 GiB"]);
    }
}
