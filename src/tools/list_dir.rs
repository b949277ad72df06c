//! The `list_dir` tool: the entries of a directory.

use std::ops::ControlFlow;

use ignore::DirEntry;
use serde_json::Value;

use super::file_access::not_readable;
use super::walk::{WalkEnd, WalkRoot, is_directory};
use super::{Environment, INTERRUPTED, Job, Judged, Output, PATH_ALIASES, Prepared, Question, Run, ToolSpec, visible};
use crate::domain::tool::{Reach, ToolDeclaration};
use crate::policy::paths::Access;

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "list_dir",
        description: "Lists the entries of a directory, sorted by name. Directories end with a slash; symbolic links \
            show their target. Files ignored by .gitignore or .ignore are skipped. To list an ignored directory, pass it \
            as `path`.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The directory to list. Default: the working directory."},
                "depth": {"type": "integer", "minimum": 1, "maximum": 3,
                    "description": "How many levels of directories to list. Default: 1."}
            },
            "additionalProperties": false
        }"#,
    },
    aliases: PATH_ALIASES,
    reach: Reach::Reads,
    judged: Judged::Read,
    check,
    run: Run::OnThread(run),
};

const MAX_LISTED: usize = 500;

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let directory = env.locate(path(arguments), Access::Read)?;
    Ok(Question::to_read(format!("list_dir: {}", visible(path(arguments))), directory))
}

/// The directory of a call.
pub fn path(arguments: &Value) -> &str {
    arguments["path"].as_str().unwrap_or(".")
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let path = path(&call.arguments);
    let depth = usize::try_from(call.arguments["depth"].as_u64().unwrap_or(1)).unwrap_or(1);
    let root = match WalkRoot::new(path, call.question.path(), env, Some(depth)) {
        Ok(root) if root.path().is_dir() => root,
        Ok(_) => return Output::failure(format!("{path}: not a directory; use read_file")),
        Err(message) => return Output::failure(message),
    };
    if let Err(error) = std::fs::read_dir(root.path()) {
        return Output::failure(format!("{path}: {}", not_readable(&error)));
    }
    let mut lines = Lines::new(env);
    let end =
        root.walk(
            job,
            |entry| {
                if lines.push(line(&root, entry)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
    lines.output(end)
}

/// The output for the model about these entries.
pub fn output(mut entries: impl Iterator<Item = String>, end: WalkEnd, env: &Environment) -> Output {
    let mut lines = Lines::new(env);
    let has_all = entries.all(|line| lines.push(line));
    lines.output(if has_all { end } else { WalkEnd::Stopped })
}

/// The lines of a result, as many as it may have.
struct Lines {
    lines: Vec<String>,
    remaining: usize,
}

impl Lines {
    fn new(env: &Environment) -> Self {
        Self { lines: Vec::new(), remaining: env.output_cap }
    }

    /// Adds a line. Whether there was room.
    fn push(&mut self, line: String) -> bool {
        let Some(left) = self.remaining.checked_sub(line.len() + 1).filter(|_| self.lines.len() < MAX_LISTED) else {
            return false;
        };
        self.remaining = left;
        self.lines.push(line);
        true
    }

    fn output(self, end: WalkEnd) -> Output {
        let mut lines = self.lines;
        match end {
            WalkEnd::Cancelled => return Output::failure(INTERRUPTED),
            WalkEnd::Stopped | WalkEnd::TooManyEntries => {
                lines.push(format!(
                    "[only the first {} entries are listed; list a subdirectory or use glob]",
                    lines.len()
                ));
            }
            WalkEnd::Complete if lines.is_empty() => lines.push("[empty, or all entries are ignored]".into()),
            WalkEnd::Complete => {}
        }
        Output::success(lines.join("\n"))
    }
}

fn line(root: &WalkRoot, entry: &DirEntry) -> String {
    let name = visible(&root.relative(entry).to_string_lossy());
    if is_directory(entry) {
        return format!("{name}/");
    }
    if entry.path_is_symlink() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        return format!("{name} -> {}", visible(&target.to_string_lossy()));
    }
    let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
    if is_file { name } else { format!("{name} (not a regular file)") }
}
