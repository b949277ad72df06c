//! The `read_file` tool: lines of a text file, with their numbers.
//!
//! Reading in the workspace needs no approval. Only regular files are opened, which neither block nor change when read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use super::capture::without_cut_end;
use super::file_access::reason;
use super::locate::Opener;
use super::{
    Environment, FILE_PATH_ALIASES, INTERRUPTED, Job, Judged, Output, Prepared, Question, Run, ToolSpec, visible,
};
use crate::base::text::counted;
use crate::domain::tool::{Reach, ToolDeclaration};
use crate::policy::paths::Access;

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "read_file",
        description: "Reads a text file. Each line is returned as its number, a tab and its text; the number and the \
            tab are not part of the file. Lines longer than 2000 characters are truncated. A partial result ends \
            with a line such as [lines 1-2000 of 5310; continue with offset 2001].",
        parameters: r#"{
            "type": "object",
            "properties": {
                "file_path": {"type": "string",
                    "description": "The file to read, absolute or relative to the working directory."},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line to read. Default: 1."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read. Default: 2000."}
            },
            "required": ["file_path"],
            "additionalProperties": false
        }"#,
    },
    aliases: &{
        let [a, b, c, d] = FILE_PATH_ALIASES;
        [a, b, c, d, ("absolute_path", "file_path"), ("start_line", "offset")]
    },
    reach: Reach::Reads,
    judged: Judged::Read,
    check,
    run: Run::OnThread(run),
};

const DEFAULT_LIMIT: u64 = 2000;

/// In characters.
const MAX_LINE_WIDTH: usize = 2000;

/// How far a file is read beyond the wanted lines to count all of its lines, in bytes.
const MAX_COUNTED: usize = 64 << 20;

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let (path, offset, limit) = read(arguments);
    let file = env.locate(path, Access::Read)?;
    let lines = format!(", lines {offset} to {}", offset.saturating_add(limit) - 1);
    let is_default = arguments.get("offset").is_none() && arguments.get("limit").is_none();
    let title = format!("read_file: {}{}", visible(path), if is_default { "" } else { &lines });
    Ok(Question::to_read(title, file))
}

/// The path, the first line and how many of them.
pub fn read(arguments: &Value) -> (&str, u64, u64) {
    let path = arguments["file_path"].as_str().unwrap_or_default();
    (path, arguments["offset"].as_u64().unwrap_or(1), arguments["limit"].as_u64().unwrap_or(DEFAULT_LIMIT))
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (path, offset, limit) = read(&call.arguments);
    let file = match Opener::new(env).open(call.question.path()) {
        Ok((file, _)) => file,
        Err(message) => return Output::failure(format!("{path}: {message}")),
    };
    // Before reading: if the file changes meanwhile, it counts as changed.
    env.known_files.record_current(call.question.path());
    excerpt(path, file, (offset, limit), env.output_cap, job)
}

/// The beginning of a file that a person attaches, as a call would return it.
///
/// # Errors
/// Why it cannot be read; the text follows the path and `: `.
pub fn read_beginning(path: &str, file: File, found: &Path, env: &Environment) -> Result<String, String> {
    let job = Job::new().map_err(|error| error.message)?;
    env.known_files.record_current(found);
    let read = excerpt(path, file, (1, DEFAULT_LIMIT), env.output_cap, &job);
    if read.is_error { Err(read.content) } else { Ok(read.content) }
}

/// The wanted lines of a file, for the model.
pub fn excerpt<'a>(path: &str, file: impl Read + 'a, (offset, limit): (u64, u64), cap: usize, job: &'a Job) -> Output {
    let mut excerpt = Excerpt::new(Box::new(file), offset, job);
    match excerpt.read(limit, cap) {
        Ok(()) => Output::success(excerpt.finish()),
        Err(ReadError::Cancelled) => Output::failure(INTERRUPTED),
        Err(ReadError::Binary) => Output::failure(format!("{path}: not a text file (contains NUL bytes)")),
        Err(ReadError::PastEnd { lines }) => {
            let lines = counted(usize::try_from(lines).unwrap_or(usize::MAX), "line", "lines");
            Output::failure(format!("{path}: offset {offset} is past the end of the file ({lines})"))
        }
        Err(ReadError::Io(error)) => Output::failure(format!("{path}: cannot be read: {}", reason(&error))),
    }
}

enum ReadError {
    Cancelled,
    Binary,
    PastEnd { lines: u64 },
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The wanted lines of a file.
struct Excerpt<'a> {
    file: BufReader<Box<dyn Read + 'a>>,
    job: &'a Job,
    first: u64,
    /// How many lines are in `text`.
    shown: u64,
    text: String,
    has_invalid_utf8: bool,
    /// Of the whole file; unknown if counting them takes too long.
    total: Option<u64>,
}

impl<'a> Excerpt<'a> {
    fn new(file: Box<dyn Read + 'a>, first: u64, job: &'a Job) -> Self {
        let (file, text) = (BufReader::new(file), String::new());
        Self { file, job, first, shown: 0, text, has_invalid_utf8: false, total: None }
    }

    /// Reads up to `limit` lines and about `cap` bytes, at least one line.
    fn read(&mut self, limit: u64, cap: usize) -> Result<(), ReadError> {
        for skipped in 0..self.first - 1 {
            if self.skip_text_line()? == 0 {
                return Err(ReadError::PastEnd { lines: skipped });
            }
        }
        let mut consumed = self.first - 1;
        while self.shown < limit {
            let Some(line) = self.next_line(cap)? else { break };
            consumed += 1;
            if self.shown > 0 && self.text.len() + line.len() > cap {
                break;
            }
            self.text.push_str(&line);
            self.shown += 1;
        }
        if self.shown == 0 && self.first > 1 {
            return Err(ReadError::PastEnd { lines: consumed });
        }
        self.total = self.count_rest()?.map(|rest| consumed + rest);
        Ok(())
    }

    /// The next line with its number, or `None` at the end of the file. It is cut to [`MAX_LINE_WIDTH`] and to `cap`.
    fn next_line(&mut self, cap: usize) -> Result<Option<String>, ReadError> {
        let mut bytes = Vec::new();
        let max_bytes = cap.min(4 * MAX_LINE_WIDTH);
        if self.file.by_ref().take(max_bytes as u64).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        if bytes.contains(&0) {
            return Err(ReadError::Binary);
        }
        let is_cut = bytes.len() == max_bytes && !bytes.ends_with(b"\n") && self.skip_text_line()? > 0;
        let text = String::from_utf8_lossy(if is_cut { without_cut_end(&bytes) } else { &bytes });
        self.has_invalid_utf8 |= matches!(text, std::borrow::Cow::Owned(_));
        let number = self.first + self.shown;
        let content = text.trim_end_matches(['\r', '\n']);
        Ok(Some(match content.char_indices().nth(MAX_LINE_WIDTH) {
            Some((end, _)) => format!("{number}\t{}… [line truncated]\n", &content[..end]),
            None if is_cut => format!("{number}\t{content}… [line truncated]\n"),
            None => format!("{number}\t{text}"),
        }))
    }

    /// Skips the rest of a line, however long, and returns its length in bytes. A sparse file may be one line of NUL
    /// bytes that takes minutes to read: the first of them ends this.
    fn skip_text_line(&mut self) -> Result<usize, ReadError> {
        let mut skipped = 0;
        loop {
            let (length, is_end) = self.skip_part(true)?;
            skipped += length;
            if is_end {
                return Ok(skipped);
            }
        }
    }

    /// Skips the buffered part of a line. Returns its length in bytes, and whether the line or the file ends there.
    fn skip_part(&mut self, is_text: bool) -> Result<(usize, bool), ReadError> {
        if self.job.is_cancelled() {
            return Err(ReadError::Cancelled);
        }
        let buffer = self.file.fill_buf()?;
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let is_end = newline.is_some() || buffer.is_empty();
        let length = newline.map_or(buffer.len(), |index| index + 1);
        if is_text && buffer[..length].contains(&0) {
            return Err(ReadError::Binary);
        }
        self.file.consume(length);
        Ok((length, is_end))
    }

    /// How many lines follow, unless there are more than [`MAX_COUNTED`] bytes.
    fn count_rest(&mut self) -> Result<Option<u64>, ReadError> {
        let (mut bytes, mut lines, mut is_within_line) = (0, 0, false);
        while bytes <= MAX_COUNTED {
            match self.skip_part(false)? {
                (0, _) => return Ok(Some(lines + u64::from(is_within_line))),
                (length, is_end) => {
                    bytes += length;
                    is_within_line = !is_end;
                    lines += u64::from(is_end);
                }
            }
        }
        Ok(None)
    }

    fn finish(self) -> String {
        let mut notes = Vec::new();
        let last = self.first + self.shown - 1;
        if self.shown == 0 {
            notes.push("the file is empty".to_owned());
        } else if self.total != Some(last) {
            let rest = match self.total {
                Some(total) => format!(" of {total}"),
                None => "; the file has more lines".into(),
            };
            notes.push(format!("lines {}-{last}{rest}; continue with offset {}", self.first, last + 1));
        } else if self.first > 1 {
            notes.push(format!("lines {}-{last} of {last}", self.first));
        }
        if self.has_invalid_utf8 {
            notes.push("bytes that are not valid UTF-8 are shown as \u{fffd}".to_owned());
        }
        let mut content = self.text;
        if !notes.is_empty() {
            if !content.is_empty() && !content.ends_with('\n') {
                content.push('\n');
            }
            content.push_str(&format!("[{}]", notes.join("; ")));
        }
        content
    }
}
