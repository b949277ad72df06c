//! The `write_file` tool: a whole file, in place of the old one.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::replace::Target;
use super::seen::{self, Stamp};
use super::{Environment, Job, Output, Prepared, Question, Run, ToolSpec, diff, visible};
use crate::domain::tool::{Reach, ToolDeclaration};

/// The row in the table of tools.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "write_file",
        description: "Writes a whole file, in place of the old one if there is one, and makes the directories that lead to it.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file; relative paths start in the working directory."},
                "content": {"type": "string", "description": "All that the file is to contain."}
            },
            "required": ["path", "content"],
            "additionalProperties": false
        }"#,
    },
    reach: Reach::Writes,
    check,
    run: Run::OnThread(run),
};

/// How many lines of a change a person is shown.
pub const SHOWN_LINES: usize = 40;

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let (path, content) = read(arguments);
    let target = Target::find(path, env)?;
    let basis = Stamp::of(&target.path).map_err(|error| format!("{path} cannot be looked at: {error}."))?;
    let lines = content.lines().count();
    let size = format!("{lines} lines, {} bytes", content.len());
    let (what, shown) = match &target.old {
        None => (format!("new, {size}"), diff::summary("", content, SHOWN_LINES).2),
        Some(old) => compare(&target.path, old, content, &size),
    };
    let mut detail = vec![format!("{}: {what}", visible(&target.path.to_string_lossy()))];
    detail.extend(shown);
    Ok(Question { title: format!("write_file: {} ({what})", visible(path)), detail, basis: Some(basis) })
}

fn read(arguments: &Value) -> (&str, &str) {
    (arguments["path"].as_str().unwrap_or_default(), arguments["content"].as_str().unwrap_or_default())
}

/// What a person is shown of the change to a file that is there.
fn compare(path: &Path, old: &fs::Metadata, content: &str, size: &str) -> (String, Vec<String>) {
    let Some(text) = seen::content(path).ok().flatten().and_then(|text| String::from_utf8(text).ok()) else {
        let shown = diff::summary("", content, SHOWN_LINES).2;
        return (format!("{size}, replaces {} bytes that are not shown", old.len()), shown);
    };
    let (removed, added, shown) = diff::summary(&text, content, SHOWN_LINES);
    let what = if text == content { "unchanged".into() } else { format!("-{removed} +{added} lines") };
    (what, shown)
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (path, content) = read(&call.arguments);
    if job.is_cancelled() {
        return Output::failure("[interrupted; nothing was written]");
    }
    let written = Target::find(path, env).and_then(|target| target.write(content, call.question.basis, &env.seen));
    match written {
        Ok(()) => Output::success(format!("{path} is written: {} bytes.", content.len())),
        Err(why) => Output::failure(format!("Nothing was written: {why}")),
    }
}
