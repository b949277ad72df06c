//! The `grep` tool: lines that match a regular expression.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use super::expression::Expression;
use super::glob;
use super::opening::open;
use super::walk::{End, Go, Start};
use super::wildcard::Wildcard;
use super::{Environment, Job, Output, Prepared, Question, Run, ToolSpec, one_line, visible};
use crate::domain::tool::{Reach, ToolDeclaration};

/// The row in the table of tools.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "grep",
        description: "Lists lines that match a regular expression (the syntax of Rust's regex: no look-around, no \
            backreferences) as path:line:text. What ignore files name and binary files are left out.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The regular expression; matched line by line."},
                "path": {"type": "string", "description": "A directory or a file; the working directory if left out."},
                "glob": {"type": "string", "description": "Only files like this, for example *.rs or src/**/*.c."},
                "context": {"type": "integer", "minimum": 0, "maximum": 20, "description": "Lines around each match."},
                "ignore_case": {"type": "boolean", "description": "Upper and lower case are the same."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 1000,
                    "description": "Matching lines, at most; 100 if left out."}
            },
            "required": ["pattern"],
            "additionalProperties": false
        }"#,
    },
    reach: Reach::Reads,
    check,
    run: Run::OnThread(run),
};

/// Matching lines, if the model does not say.
const USUAL_LIMIT: u64 = 100;
/// Characters of a line that are shown.
const LINE_WIDTH: usize = 300;
/// Memory for one line, and for what a pattern is compiled to, in bytes.
const MEMORY: usize = 8 << 20;
/// Bytes that are read of a file at a time.
const BUFFER: usize = 64 << 10;

fn check(arguments: &Value, _: &Environment) -> Result<Question, String> {
    let pattern = arguments["pattern"].as_str().unwrap_or_default();
    if pattern.is_empty() {
        return Err("`pattern` is empty and would match every line.".into());
    }
    if let Some(pattern) = arguments["glob"].as_str() {
        glob::matcher(pattern)?;
    }
    let place = arguments["path"].as_str().map(|path| format!(" in {}", visible(path))).unwrap_or_default();
    Ok(Question::of(format!("grep: {}{place}", one_line(pattern, 100)), Vec::new()))
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let arguments = &call.arguments;
    let start = Start::at(arguments["path"].as_str().unwrap_or("."), env, None);
    let found = start.and_then(|start| Ok((start, Search::of(arguments, job)?)));
    let (start, mut search) = match found {
        Ok(found) => found,
        Err(why) => return Output::failure(why),
    };
    let limit = arguments["limit"].as_u64().unwrap_or(USUAL_LIMIT);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Found { limit, room: env.output_cap, ..Found::default() };
    let end = start.walk(job, |entry| {
        let is_wanted = search.glob.as_ref().is_none_or(|glob| glob.is_match(&start.relative(entry).to_string_lossy()));
        if entry.kind().is_file() && is_wanted {
            found.path = start.shown(entry.path(), env);
            search.file(entry.path(), &mut found);
        }
        if found.is_full { Go::Stop } else { Go::On }
    });
    // Cancelled in the middle of the last file, the walk has come to its end all the same.
    if job.is_cancelled() { Output::failure("[interrupted]") } else { found.answer(end) }
}

fn expression(arguments: &Value) -> Result<Expression, String> {
    let pattern = arguments["pattern"].as_str().unwrap_or_default();
    let refusal = |why: &str| format!("{pattern:?} is no regular expression that can be searched for: {why}");
    if pattern.contains('\n') || pattern.contains("\\n") {
        return Err(refusal("lines are looked at one by one, and none holds a line break"));
    }
    Expression::new(pattern, arguments["ignore_case"] == true, MEMORY).map_err(|why| refusal(&why))
}

/// What is searched for, and how.
struct Search<'a> {
    expression: Expression,
    glob: Option<Wildcard>,
    /// Lines that are shown around each match.
    context: usize,
    job: &'a Job,
}

/// Why a file was not read to its end: what was found in it does not count.
struct PassedOver;

impl<'a> Search<'a> {
    fn of(arguments: &Value, job: &'a Job) -> Result<Self, String> {
        let context = usize::try_from(arguments["context"].as_u64().unwrap_or(0)).unwrap_or(0);
        let glob = arguments["glob"].as_str().map(glob::matcher).transpose()?;
        Ok(Self { expression: expression(arguments)?, glob, context, job })
    }

    /// A file that cannot be read, is binary, or has a line that no memory is spent on, is passed over.
    fn file(&mut self, path: &Path, found: &mut Found) {
        let (lines, matches, room) = (found.lines.len(), found.matches, found.room);
        let Ok(file) = open(path) else { return };
        if self.lines(file, found).is_err() {
            found.lines.truncate(lines);
            (found.matches, found.room, found.is_full) = (matches, room, false);
        }
    }

    fn lines(&mut self, file: File, found: &mut Found) -> Result<(), PassedOver> {
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let mut window = Window { size: self.context, ..Window::default() };
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = reader.by_ref().take(MEMORY as u64).read_until(b'\n', &mut line).map_err(|_| PassedOver)?;
            if read == MEMORY || line.contains(&0) || self.job.is_cancelled() {
                return Err(PassedOver);
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if read == 0 || !window.take(number, text, self.expression.is_match(text), found) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The lines around matches.
#[derive(Default)]
struct Window {
    size: usize,
    /// The newest lines that are not shown, at most `size`.
    before: VecDeque<(u64, Vec<u8>)>,
    /// How many lines are still shown although they do not match.
    after: usize,
    last_shown: Option<u64>,
}

impl Window {
    /// Looks at the next line. Whether more are wanted.
    fn take(&mut self, number: u64, text: &[u8], is_match: bool, found: &mut Found) -> bool {
        if is_match {
            return self.take_match(number, text, found);
        }
        if self.after > 0 {
            self.after -= 1;
            self.last_shown = Some(number);
            return found.push('-', number, text);
        }
        self.before.push_back((number, text.to_vec()));
        if self.before.len() > self.size {
            self.before.pop_front();
        }
        true
    }

    fn take_match(&mut self, number: u64, text: &[u8], found: &mut Found) -> bool {
        if found.matches >= found.limit {
            found.is_full = true;
            return false;
        }
        let first = self.before.front().map_or(number, |(first, _)| *first);
        let is_gap = self.size > 0 && self.last_shown.is_some_and(|last| last + 1 < first);
        let fits = (!is_gap || found.take("--".into()))
            && self.before.drain(..).all(|(number, text)| found.push('-', number, &text))
            && found.push(':', number, text);
        found.matches += usize::from(fits);
        (self.after, self.last_shown) = (self.size, Some(number));
        fits
    }
}

/// Lines for the model.
#[derive(Default)]
struct Found {
    lines: Vec<String>,
    path: String,
    matches: usize,
    limit: usize,
    /// Bytes that still fit.
    room: usize,
    is_full: bool,
}

impl Found {
    /// Whether there is room for more.
    fn push(&mut self, mark: char, number: u64, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        let mut shown: String = visible(&text).chars().take(LINE_WIDTH + 1).collect();
        if let Some((cut, _)) = shown.char_indices().nth(LINE_WIDTH) {
            shown.truncate(cut);
            shown.push('…');
        }
        self.take(format!("{}{mark}{}{mark}{shown}", self.path, number))
    }

    fn take(&mut self, line: String) -> bool {
        match self.room.checked_sub(line.len() + 1) {
            Some(left) => {
                self.room = left;
                self.lines.push(line);
            }
            None => self.is_full = true,
        }
        !self.is_full
    }

    fn answer(mut self, end: End) -> Output {
        if end == End::TooMuch {
            self.lines.push("[not everything was looked at, there is too much: look in a directory below]".into());
        } else if self.is_full {
            let words = format!("[stopped after {} matching lines; there may be more]", self.matches);
            self.lines.push(words);
        } else if self.lines.is_empty() {
            self.lines.push("[no line matches]".into());
        }
        Output::success(self.lines.join("\n"))
    }
}
