//! The `write_file` tool: creates or overwrites a file.

use rustix::fs::Stat;
use serde_json::Value;

use super::atomic_write::{Snapshot, Target};
use super::diff::Summary;
use super::edit_file::MAX_REPORTED_LINES;
use super::file_access::reason;
use super::file_versions::changed_since_read;
use super::{Environment, FILE_PATH_ALIASES, Job, Judged, Output, Prepared, Question, Run, ToolSpec, visible};
use crate::base::text::counted;
use crate::domain::tool::{Reach, ToolDeclaration};

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "write_file",
        description: "Creates a file or overwrites it completely. Missing directories are created. Use edit_file to \
            change part of a file.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "file_path": {"type": "string",
                    "description": "The file to write, absolute or relative to the working directory."},
                "content": {"type": "string", "description": "The complete new content of the file."}
            },
            "required": ["file_path", "content"],
            "additionalProperties": false
        }"#,
    },
    aliases: &{
        let [a, b, c, d] = FILE_PATH_ALIASES;
        [a, b, c, d, ("text", "content"), ("contents", "content")]
    },
    reach: Reach::Writes,
    judged: Judged::Write,
    check,
    run: Run::OnThread(run),
};

/// Everything is shown: what a person allows is what they could read.
const ALL_LINES: usize = usize::MAX;

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let (path, content) = read(arguments);
    let target = Target::find(path, env)?;
    let (snapshot, old) =
        Snapshot::take(&target.file.path).map_err(|error| format!("{path}: cannot be read: {}", reason(&error)))?;
    let known = env.known_files.get(&target.file.path);
    if target.old.is_some() && known.is_some_and(|known| known != snapshot.version) {
        return Err(changed_since_read(path, &target.file.path, env));
    }
    let size = format!("{}, {}", counted(content.lines().count(), "line", "lines"), byte_count(content));
    let (change, shown) = match &target.old {
        None => (format!("new, {size}"), Summary::new("", content, ALL_LINES).lines),
        Some(stat) => describe_change(stat, old, content, &size),
    };
    let mut detail = vec![format!("{}: {change}", visible(&target.file.path.to_string_lossy()))];
    detail.extend(target.warnings());
    let mut question = Question::new(format!("write_file: {} ({change})", visible(path)), detail);
    question.add_diff(shown);
    Ok(Question { file: Some(target.file), snapshot: Some(snapshot), ..question })
}

fn old_text(target: &Target) -> Option<String> {
    let (_, content) = Snapshot::take(&target.file.path).ok()?;
    String::from_utf8(content?).ok()
}

fn read(arguments: &Value) -> (&str, &str) {
    (arguments["file_path"].as_str().unwrap_or_default(), arguments["content"].as_str().unwrap_or_default())
}

fn byte_count(content: &str) -> String {
    counted(content.len(), "byte", "bytes")
}

/// A summary of the change to an existing file, and its diff.
fn describe_change(stat: &Stat, old: Option<Vec<u8>>, content: &str, size: &str) -> (String, Vec<String>) {
    let Some(text) = old.and_then(|text| String::from_utf8(text).ok()) else {
        let shown = Summary::new("", content, ALL_LINES).lines;
        return (format!("{size}, replaces {} bytes (not text, or too large to show)", stat.st_size), shown);
    };
    let diff = Summary::new(&text, content, ALL_LINES);
    (if text == content { "unchanged".into() } else { diff.counts() }, diff.lines)
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (path, content) = read(&call.arguments);
    if job.is_cancelled() {
        return Output::failure("[interrupted; nothing was written]");
    }
    let mut changed = None;
    let written = Target::find(path, env).and_then(|target| {
        target.require_same_file(call)?;
        let old = target.old.as_ref().and_then(|_| old_text(&target));
        let recorded = target.record_step(SPEC.declaration.name, content, env);
        let written = target.write(content, call.question.snapshot, &env.known_files);
        changed = recorded.and_then(|step| step.finish(written.is_ok()));
        let written = written?;
        let verb = if target.old.is_some() { "overwrote" } else { "created" };
        let mut lines = vec![format!("{verb} {path} ({}){}", byte_count(content), written.note())];
        lines.extend(old.into_iter().flat_map(|old| Summary::new(&old, content, MAX_REPORTED_LINES).lines));
        Ok(lines.join("\n"))
    });
    let output = match written {
        Ok(content) => Output::success(content),
        Err(message) => Output::failure(format!("nothing was written: {message}")),
    };
    Output { changed: changed.map(Box::new), ..output }
}
