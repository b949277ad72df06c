//! The `grep` tool: a search in files with ripgrep's libraries.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use globset::GlobMatcher;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use ignore::DirEntry;
use serde_json::Value;

use super::glob;
use super::locate::Opener;
use super::walk::{WalkEnd, WalkRoot, too_many_entries};
use super::{Environment, INTERRUPTED, Job, Judged, Output, Prepared, Question, Run, ToolSpec, one_line, visible};
use crate::base::text::counted;
use crate::domain::tool::{Reach, ToolDeclaration};
use crate::policy::paths::Access;

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "grep",
        description: "Searches files for lines that match a regular expression. The syntax is that of ripgrep, without \
            look-around and backreferences; each line is matched on its own. Files ignored by .gitignore or .ignore and \
            binary files are skipped.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The regular expression to search for."},
                "path": {"type": "string",
                    "description": "The file or directory to search. Default: the working directory."},
                "glob": {"type": "string",
                    "description": "Search only files that match this glob, such as *.rs or src/**/*.c."},
                "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"],
                    "description": "content (default): path:line:text; files_with_matches: paths; count: path:number of matching lines."},
                "context": {"type": "integer", "minimum": 0, "maximum": 20,
                    "description": "Lines to show before and after each match. Default: 0."},
                "ignore_case": {"type": "boolean", "description": "Match upper and lower case alike. Default: false."},
                "head_limit": {"type": "integer", "minimum": 1, "maximum": 1000,
                    "description": "Maximum number of matching lines, or of files in the other modes. Default: 100."}
            },
            "required": ["pattern"],
            "additionalProperties": false
        }"#,
    },
    aliases: &[
        ("file_path", "path"),
        ("filePath", "path"),
        ("directory", "path"),
        ("dir_path", "path"),
        ("workdir", "path"),
        ("query", "pattern"),
        ("regex", "pattern"),
        ("include", "glob"),
        ("include_pattern", "glob"),
        ("outputMode", "output_mode"),
        ("-C", "context"),
        ("-A", "context"),
        ("-B", "context"),
        ("-i", "ignore_case"),
        ("ignoreCase", "ignore_case"),
        ("limit", "head_limit"),
        ("headLimit", "head_limit"),
        // Line numbers are always shown.
        ("-n", ""),
    ],
    reach: Reach::Reads,
    judged: Judged::Read,
    check,
    run: Run::OnThread(run),
};

const DEFAULT_HEAD_LIMIT: u64 = 100;
/// In characters.
const MAX_LINE_WIDTH: usize = 300;
/// In bytes: for one line of a file, and for the compiled pattern.
const MEMORY_LIMIT: usize = 8 << 20;

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let pattern = arguments["pattern"].as_str().unwrap_or_default();
    if pattern.is_empty() {
        return Err("`pattern` must not be empty".into());
    }
    if let Some(pattern) = arguments["glob"].as_str() {
        glob::matcher(pattern)?;
    }
    let file = env.locate(path(arguments), Access::Read)?;
    let path = arguments["path"].as_str().map(|path| format!(" in {}", visible(path))).unwrap_or_default();
    Ok(Question::to_read(format!("grep: {}{path}", one_line(pattern, 100)), file))
}

pub fn path(arguments: &Value) -> &str {
    arguments["path"].as_str().unwrap_or(".")
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let root = WalkRoot::new(path(&call.arguments), call.question.path(), env, None);
    let (root, mut search) = match root.and_then(|root| Ok((root, Search::new(&call.arguments, env, job)?))) {
        Ok(found) => found,
        Err(message) => return Output::failure(message),
    };
    let mut results = Results::new(&call.arguments, env);
    let end = root.walk(job, |entry| {
        if search.is_wanted(&root, entry) {
            results.path = root.display_path(entry.path(), env);
            search.search_file(entry, &mut results);
        }
        if results.is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    // The walk is also complete if the job was cancelled during the last file.
    if job.is_cancelled() { Output::failure(INTERRUPTED) } else { results.output(end) }
}

fn compile(arguments: &Value) -> Result<RegexMatcher, String> {
    let pattern = arguments["pattern"].as_str().unwrap_or_default();
    RegexMatcherBuilder::new()
        .case_insensitive(arguments["ignore_case"] == true)
        .line_terminator(Some(b'\n'))
        .crlf(true)
        .size_limit(MEMORY_LIMIT)
        .dfa_size_limit(MEMORY_LIMIT)
        .build(pattern)
        .map_err(|error| format!("invalid regular expression {pattern:?}: {error}"))
}

/// The arguments of one search.
pub struct Search<'a> {
    matcher: RegexMatcher,
    glob: Option<GlobMatcher>,
    searcher: Searcher,
    opener: Opener<'a>,
    job: &'a Job,
}

impl<'a> Search<'a> {
    pub fn new(arguments: &Value, env: &'a Environment, job: &'a Job) -> Result<Self, String> {
        let context = usize::try_from(arguments["context"].as_u64().unwrap_or(0)).unwrap_or(0);
        let glob = arguments["glob"].as_str().map(glob::matcher).transpose()?;
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MEMORY_LIMIT))
            .before_context(context)
            .after_context(context)
            .build();
        Ok(Self { matcher: compile(arguments)?, glob, searcher, opener: Opener::new(env), job })
    }

    fn is_wanted(&self, root: &WalkRoot, entry: &DirEntry) -> bool {
        entry.file_type().is_some_and(|kind| kind.is_file()) && self.is_wanted_path(root.relative(entry))
    }

    /// Whether a file with this path from the start has to be searched.
    pub fn is_wanted_path(&self, path: &Path) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.is_match(path))
    }

    /// Skips a file that cannot be read, is binary, or has a line longer than [`MEMORY_LIMIT`].
    fn search_file(&mut self, entry: &DirEntry, results: &mut Results) {
        if let Ok((file, _)) = self.opener.open(entry.path()) {
            self.search(file, results);
        }
    }

    /// Searches the content of a file, with the path in `results`.
    pub fn search(&mut self, content: impl Read, results: &mut Results) {
        let before = results.checkpoint();
        let reader = CancellableReader { content, job: self.job };
        let mut sink = FileSink { results, matches: 0, is_binary: false, has_gap: false };
        let outcome = self.searcher.search_reader(&self.matcher, reader, &mut sink);
        if outcome.is_err() || sink.is_binary {
            results.restore(before)
        }
    }
}

/// Fails as soon as the job is cancelled, so that a search in a large file ends early.
struct CancellableReader<'a, R> {
    content: R,
    job: &'a Job,
}

impl<R: Read> Read for CancellableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.job.is_cancelled() { Err(io::Error::other("cancelled")) } else { self.content.read(buffer) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputMode {
    Content,
    FilesWithMatches,
    Count,
}

/// The results from all files so far.
pub struct Results {
    mode: OutputMode,
    lines: Vec<String>,
    /// The file that is being searched.
    pub path: String,
    /// Matching lines in content mode, else files.
    count: usize,
    limit: usize,
    remaining_bytes: usize,
    /// The limit is reached.
    pub is_full: bool,
}

/// The lengths to which [`Results`] go back if a file turns out to be binary.
struct Checkpoint {
    lines: usize,
    count: usize,
    remaining_bytes: usize,
}

impl Results {
    pub fn new(arguments: &Value, env: &Environment) -> Self {
        let mode = match arguments["output_mode"].as_str() {
            Some("files_with_matches") => OutputMode::FilesWithMatches,
            Some("count") => OutputMode::Count,
            _ => OutputMode::Content,
        };
        let limit = arguments["head_limit"].as_u64().unwrap_or(DEFAULT_HEAD_LIMIT);
        Self {
            mode,
            lines: Vec::new(),
            path: String::new(),
            count: 0,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            remaining_bytes: env.output_cap,
            is_full: false,
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint { lines: self.lines.len(), count: self.count, remaining_bytes: self.remaining_bytes }
    }

    fn restore(&mut self, to: Checkpoint) {
        self.lines.truncate(to.lines);
        (self.count, self.remaining_bytes, self.is_full) = (to.count, to.remaining_bytes, false);
    }

    /// Adds a match or file if the limit allows. Whether it was added.
    fn push_counted(&mut self, line: impl FnOnce(&str) -> String) -> bool {
        self.is_full |= self.count >= self.limit;
        let is_added = !self.is_full && self.push(line(&self.path));
        self.count += usize::from(is_added);
        is_added
    }

    /// Adds a line if it fits. Whether it did.
    fn push(&mut self, line: String) -> bool {
        match self.remaining_bytes.checked_sub(line.len() + 1) {
            Some(left) => {
                self.remaining_bytes = left;
                self.lines.push(line);
            }
            None => self.is_full = true,
        }
        !self.is_full
    }

    /// The output for the model.
    pub fn output(mut self, end: WalkEnd) -> Output {
        if self.is_full {
            let is_content = self.mode == OutputMode::Content;
            let (one, many) =
                if is_content { ("matching line", "matching lines") } else { ("matching file", "matching files") };
            let matching = counted(self.count, one, many);
            self.lines.push(if self.count >= self.limit {
                format!("[stopped after {matching}; raise head_limit or narrow the search]")
            } else {
                format!("[output limit reached after {matching}; narrow the search]")
            });
        } else if end == WalkEnd::TooManyEntries {
            self.lines.push(too_many_entries());
        } else if self.lines.is_empty() {
            self.lines.push("[no matches found]".into());
        }
        Output::success(self.lines.join("\n"))
    }
}

struct FileSink<'a> {
    results: &'a mut Results,
    matches: u64,
    is_binary: bool,
    /// Lines were left out before the next one that is shown.
    has_gap: bool,
}

impl FileSink<'_> {
    fn push_gap(&mut self) -> bool {
        !std::mem::take(&mut self.has_gap) || self.results.push("--".into())
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        match self.results.mode {
            OutputMode::Count => Ok(true),
            OutputMode::FilesWithMatches => Ok(false),
            OutputMode::Content => {
                let number = found.line_number().unwrap_or_default();
                let is_within_limit = self.results.count < self.results.limit;
                Ok((!is_within_limit || self.push_gap())
                    && self.results.push_counted(|path| format_line(path, ':', number, found.bytes())))
            }
        }
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        let is_full = self.results.count >= self.results.limit;
        // After the last match that fits, lines before a further match would stand alone.
        if self.results.mode != OutputMode::Content || is_full && *found.kind() == SinkContextKind::Before {
            return Ok(true);
        }
        let line = format_line(&self.results.path, '-', found.line_number().unwrap_or_default(), found.bytes());
        Ok(self.push_gap() && self.results.push(line))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.has_gap = self.results.mode == OutputMode::Content;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.is_binary = finish.binary_byte_offset().is_some();
        if self.matches > 0 && !self.is_binary {
            match self.results.mode {
                OutputMode::Content => {}
                OutputMode::FilesWithMatches => drop(self.results.push_counted(str::to_owned)),
                OutputMode::Count => drop(self.results.push_counted(|path| format!("{path}:{}", self.matches))),
            }
        }
        Ok(())
    }
}

/// `path:12:text` for a match, `path-12-text` for a line around it.
fn format_line(path: &str, separator: char, number: u64, line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut text: String = visible(&String::from_utf8_lossy(line)).chars().take(MAX_LINE_WIDTH + 1).collect();
    if let Some((cut, _)) = text.char_indices().nth(MAX_LINE_WIDTH) {
        text.truncate(cut);
        text.push('…');
    }
    format!("{path}{separator}{number}{separator}{text}")
}
