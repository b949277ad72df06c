//! The `read_file` tool: some lines of a text file.
//!
//! Reading is free: nobody is asked. So it opens regular files only, of which none can block or change by being read, and
//! refuses `/proc/PID`, where environments and memory of processes lie open. It does not know which other files are
//! secret (keys, our own configuration and data): keeping those from a tool is the sandbox's and the policy's affair.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use serde_json::Value;

use super::capture::without_cut_end;
use super::opening::open;
use super::{Environment, Job, Output, Prepared, Question, Run, ToolSpec, visible};
use crate::domain::tool::{Reach, ToolDeclaration};

/// The row in the table of tools.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "read_file",
        description: "Returns lines of a text file as they are. The last line of the answer, in brackets, says where to go \
            on if that is not all.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file; relative paths start in the working directory."},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line wanted; 1 if left out."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines; 2000 if left out."}
            },
            "required": ["path"],
            "additionalProperties": false
        }"#,
    },
    reach: Reach::Reads,
    check,
    run: Run::OnThread(run),
};

const DEFAULT_LIMIT: u64 = 2000;

fn check(arguments: &Value, _: &Environment) -> Result<Question, String> {
    let (path, offset, limit) = read(arguments);
    if path.is_empty() || path.contains('\0') {
        return Err("`path` must be the path of a file: it is empty or contains a NUL character.".into());
    }
    let lines = format!(", lines {offset} to {}", offset.saturating_add(limit) - 1);
    let is_default = arguments.get("offset").is_none() && arguments.get("limit").is_none();
    let title = format!("read_file: {}{}", visible(path), if is_default { "" } else { &lines });
    Ok(Question::of(title, Vec::new()))
}

fn read(arguments: &Value) -> (&str, u64, u64) {
    let path = arguments["path"].as_str().unwrap_or_default();
    (path, arguments["offset"].as_u64().unwrap_or(1), arguments["limit"].as_u64().unwrap_or(DEFAULT_LIMIT))
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (path, offset, limit) = read(&call.arguments);
    let file = match open(&env.resolve(path)) {
        Ok(file) => file,
        Err(why) => return Output::failure(format!("{path} {why}.")),
    };
    // Before the model is told: should the file change meanwhile, it counts as changed.
    env.seen.look(&env.resolve(path));
    let mut part = Part::of(file);
    match part.read(offset, limit, env.output_cap, job) {
        Ok(end) => part.answer(path, &end),
        Err(error) => Output::failure(format!("{path} could not be read: {error}.")),
    }
}

/// Why reading stopped.
enum End {
    OfFile,
    OfLines,
    OfRoom,
    InsideLine,
    NoText,
    Interrupted,
}

/// The part of a file that was asked for.
struct Part {
    file: BufReader<File>,
    /// How many lines were passed over.
    before: u64,
    /// How many lines are in the text, a cut one included.
    lines: u64,
    text: Vec<u8>,
}

impl Part {
    fn of(file: File) -> Self {
        Self { file: BufReader::new(file), before: 0, lines: 0, text: Vec::new() }
    }

    /// Passes over the lines before `first`, then takes up to `limit` lines and about `cap` bytes.
    fn read(&mut self, first: u64, limit: u64, cap: usize, job: &Job) -> io::Result<End> {
        while self.before + 1 < first {
            match self.pass_line(job)? {
                Some(0) => return Ok(End::OfFile),
                Some(_) => self.before += 1,
                None => return Ok(End::Interrupted),
            }
        }
        while self.lines < limit {
            let start = self.text.len();
            if self.take_line(cap)? == 0 {
                return Ok(End::OfFile);
            }
            if self.text[start..].contains(&0) {
                return Ok(End::NoText);
            }
            if self.text.len() > cap {
                return Ok(self.cut(start, cap));
            }
            self.lines += 1;
        }
        Ok(if self.file.fill_buf()?.is_empty() { End::OfFile } else { End::OfLines })
    }

    /// Passes over one line, however long: how many bytes it had, or nothing if the job was cancelled.
    fn pass_line(&mut self, job: &Job) -> io::Result<Option<usize>> {
        let mut passed = 0;
        while !job.is_cancelled() {
            let buffer = self.file.fill_buf()?;
            let newline = buffer.iter().position(|byte| *byte == b'\n');
            let (length, is_end) = (newline.map_or(buffer.len(), |at| at + 1), newline.is_some() || buffer.is_empty());
            self.file.consume(length);
            passed += length;
            if is_end {
                return Ok(Some(passed));
            }
        }
        Ok(None)
    }

    /// Takes one line, or as much of it as shows that it does not fit. How many bytes came.
    fn take_line(&mut self, cap: usize) -> io::Result<usize> {
        let room = (cap + 1).saturating_sub(self.text.len()) as u64;
        io::Read::take(&mut self.file, room).read_until(b'\n', &mut self.text)
    }

    /// Takes back the line from `start` on, which did not fit; if it is the first, as much as fits is left.
    fn cut(&mut self, start: usize, cap: usize) -> End {
        if start > 0 {
            self.text.truncate(start);
            return End::OfRoom;
        }
        self.text.truncate(cap);
        let length = without_cut_end(&self.text).len();
        self.text.truncate(length);
        self.lines += 1;
        End::InsideLine
    }

    fn answer(self, path: &str, end: &End) -> Output {
        let (first, last) = (self.before + 1, self.before + self.lines);
        let next = last + 1;
        let note = match end {
            End::Interrupted => return Output::failure("[interrupted]"),
            End::NoText => return Output::failure(format!("{path} is no text: it contains NUL bytes.")),
            End::OfFile if self.lines == 0 && last == 0 => "the file is empty".into(),
            End::OfFile if self.lines == 0 => return Output::failure(format!("{path} has only {last} lines.")),
            End::OfFile => String::new(),
            End::InsideLine => format!("line {last} is too long and cut here; the next one is at offset {next}"),
            End::OfLines | End::OfRoom => format!("lines {first} to {last}; go on with offset {next}"),
        };
        Output::success(with_note(&self.text, &note))
    }
}

/// The text, and below it in brackets what there is to say of it.
fn with_note(text: &[u8], note: &str) -> String {
    let text = String::from_utf8_lossy(text);
    let replaced = matches!(text, Cow::Owned(_)).then_some("bytes that are not UTF-8 are shown as \u{fffd}");
    let notes: Vec<&str> = [note].into_iter().filter(|note| !note.is_empty()).chain(replaced).collect();
    let mut content = text.into_owned();
    if !notes.is_empty() {
        let gap = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
        content.push_str(&format!("{gap}[{}]", notes.join("; ")));
    }
    content
}
