//! The `grep` tool: lines that match a regular expression.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use serde_json::Value;

use super::glob;
use super::opening::open;
use super::walk::{End, Go, Start};
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
        let is_wanted = search.glob.as_ref().is_none_or(|glob| glob.is_match(start.relative(entry)));
        if entry.file_type().is_some_and(|kind| kind.is_file()) && is_wanted {
            found.path = start.shown(entry.path(), env);
            search.file(entry.path(), &mut found);
        }
        if found.is_full { Go::Stop } else { Go::On }
    });
    // Cancelled in the middle of the last file, the walk has come to its end all the same.
    if job.is_cancelled() { Output::failure("[interrupted]") } else { found.answer(end) }
}

fn regex(arguments: &Value) -> Result<RegexMatcher, String> {
    let pattern = arguments["pattern"].as_str().unwrap_or_default();
    RegexMatcherBuilder::new()
        .case_insensitive(arguments["ignore_case"] == true)
        .line_terminator(Some(b'\n'))
        .size_limit(MEMORY)
        .dfa_size_limit(MEMORY)
        .build(pattern)
        .map_err(|error| format!("{pattern:?} is no regular expression that can be searched for: {error}"))
}

/// What is searched for, and how.
struct Search<'a> {
    regex: RegexMatcher,
    glob: Option<GlobMatcher>,
    searcher: Searcher,
    job: &'a Job,
}

impl<'a> Search<'a> {
    fn of(arguments: &Value, job: &'a Job) -> Result<Self, String> {
        let context = usize::try_from(arguments["context"].as_u64().unwrap_or(0)).unwrap_or(0);
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MEMORY))
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .build();
        let glob = arguments["glob"].as_str().map(glob::matcher).transpose()?;
        Ok(Self { regex: regex(arguments)?, glob, searcher, job })
    }

    /// A file that cannot be read, is binary, or has a line that no memory is spent on, is passed over.
    fn file(&mut self, path: &Path, found: &mut Found) {
        let (lines, matches, room) = (found.lines.len(), found.matches, found.room);
        let Ok(file) = open(path) else { return };
        let searched = self.searcher.search_reader(&self.regex, Stoppable { file, job: self.job }, &mut *found);
        if searched.is_err() || found.is_binary {
            found.lines.truncate(lines);
            (found.matches, found.room, found.is_binary, found.is_full) = (matches, room, false, false);
        }
    }
}

/// A file that ends when the job is cancelled.
struct Stoppable<'a> {
    file: File,
    job: &'a Job,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.job.is_cancelled() { Err(io::Error::other("cancelled")) } else { self.file.read(buffer) }
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
    is_binary: bool,
    is_full: bool,
}

impl Found {
    /// Whether there is room for more.
    fn push(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let mut shown: String = visible(text).chars().take(LINE_WIDTH + 1).collect();
        if let Some((cut, _)) = shown.char_indices().nth(LINE_WIDTH) {
            shown.truncate(cut);
            shown.push('…');
        }
        self.take(format!("{}{mark}{}{mark}{shown}", self.path, number.unwrap_or_default()))
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

impl Sink for &mut Found {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches >= self.limit {
            self.is_full = true;
            return Ok(false);
        }
        let fits = self.push(':', found.line_number(), found.bytes());
        self.matches += usize::from(fits);
        Ok(fits)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.push('-', context.line_number(), context.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        Ok(self.take("--".into()))
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.is_binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}
