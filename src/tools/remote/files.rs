//! `read_file`, `write_file`, `edit_file` and `multi_edit` of remote environments.
//!
//! A file is read whole, changed here, and written there only if it is unchanged since.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::call::Request;
use super::fetch::{Fetched, Kind, MAX_READ, problem};
use super::place::{LOOK_LIMIT, is_saved_output};
use super::{Remote, remote_of, script};
use crate::base::text::counted;
use crate::domain::tool::Reach;
use crate::policy::paths::Access;
use crate::tools::diff::Summary;
use crate::tools::edit_file::{MAX_REPORTED_LINES, Replacement};
use crate::tools::file_versions::{FileVersion, MAX_FILE_SIZE};
use crate::tools::{
    Environment, Job, Judged, Output, PathVerdict, Prepared, Question, Run, ToolSpec, edit_file, multi_edit, read_file,
    visible, write_file,
};

pub const READ: ToolSpec =
    ToolSpec { judged: Judged::RemoteFile, check: check_read, run: Run::OnThread(read), ..read_file::SPEC };

pub const WRITE: ToolSpec =
    ToolSpec { judged: Judged::RemoteFile, check: check_write, run: Run::OnThread(write), ..write_file::SPEC };

pub const EDIT: ToolSpec = ToolSpec {
    judged: Judged::RemoteFile,
    check: |arguments, env| check_edit("edit_file", &[Replacement::of(arguments, "")], arguments, env),
    run: Run::OnThread(|call, env, job| edit(&[Replacement::of(&call.arguments, "")], call, env, job)),
    ..edit_file::SPEC
};

pub const MULTI_EDIT: ToolSpec = ToolSpec {
    judged: Judged::RemoteFile,
    check: |arguments, env| check_edit("multi_edit", &multi_edit::replacements(arguments), arguments, env),
    run: Run::OnThread(|call, env, job| edit(&multi_edit::replacements(&call.arguments), call, env, job)),
    ..multi_edit::SPEC
};

fn path_in(arguments: &Value) -> &str {
    arguments["file_path"].as_str().unwrap_or_default()
}

/// The question about a change of a file: what is done, and the diff, for each of its parts.
fn question_about_change(
    env: &Environment,
    title_and_path: (String, &str),
    parts: Vec<(String, Vec<String>)>,
) -> Result<Question, String> {
    let (mut detail, mut diffs) = (Vec::new(), Vec::new());
    for (about, lines) in parts {
        detail.push(about);
        // Above them the path is written.
        diffs.push(detail.len() + 1..detail.len() + 1 + lines.len());
        detail.extend(lines);
    }
    Ok(Question { diffs, ..question(remote_of(env), title_and_path, detail, Reach::Writes)? })
}

/// The question about a path, which rules judge.
pub fn question(
    remote: &Remote,
    (title, path): (String, &str),
    mut detail: Vec<String>,
    reach: Reach,
) -> Result<Question, String> {
    let access = if reach == Reach::Reads { Access::Read } else { Access::Write };
    let file = remote.locate(path, access)?;
    let shown = visible(&file.path.to_string_lossy());
    match &file.verdict {
        PathVerdict::AskOutside(directory) if reach == Reach::Reads => {
            let scope = if *directory == file.path { "" } else { " and everything else below its directory" };
            detail = vec![shown, format!("yes allows this agent to read it{scope}")];
        }
        _ => detail.insert(0, shown),
    }
    Ok(Question { file: Some(file), ..remote.question(title, detail) })
}

fn check_read(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let path = path_in(arguments);
    if is_saved_output(path, env) {
        return (read_file::SPEC.check)(arguments, env);
    }
    let (_, offset, limit) = read_file::read(arguments);
    let lines = format!(", lines {offset} to {}", offset.saturating_add(limit) - 1);
    let is_default = arguments.get("offset").is_none() && arguments.get("limit").is_none();
    let title = format!("read_file: {}{}", visible(path), if is_default { "" } else { &lines });
    question(remote_of(env), (title, path), Vec::new(), Reach::Reads)
}

fn read(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (path, offset, limit) = read_file::read(&call.arguments);
    if is_saved_output(path, env) {
        return match read_file::SPEC.run {
            Run::OnThread(run) => run(call, env, job),
            Run::InEventLoop(_) => Output::failure("[not a tool of a thread]"),
        };
    }
    let remote = remote_of(env);
    let fetched = remote.absolute(path).and_then(|judged| {
        let fetched = remote.fetch(&judged, Access::Read, job).map_err(|why| format!("{path}: {why}"))?;
        require_file(path, &fetched).map(|()| fetched)
    });
    let fetched = match fetched {
        Ok(fetched) => fetched,
        Err(message) => return Output::failure(message),
    };
    record(remote, &fetched, env);
    let is_whole = fetched.is_whole();
    let mut output = read_file::excerpt(path, Cursor::new(fetched.content), (offset, limit), env.output_cap, job);
    if !is_whole && !output.is_error {
        let size = fetched.size;
        output
            .content
            .push_str(&format!("[the file has {size} bytes; read_file reads the first {MAX_READ} there; use bash]"));
    }
    output
}

fn require_file(path: &str, fetched: &Fetched) -> Result<(), String> {
    match fetched.kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(format!("{path}: is a directory; use list_dir")),
        Kind::Other => Err(format!("{path}: not a regular file")),
        Kind::Absent => Err(format!("{path}: does not exist")),
    }
}

/// Remembers what the agent has seen. Files that are too large for that cannot be edited.
fn record(remote: &Remote, fetched: &Fetched, env: &Environment) {
    if fetched.is_whole() && fetched.size <= MAX_FILE_SIZE {
        env.known_files.record(&key(remote, &fetched.path), FileVersion::of_bytes(&fetched.content));
    }
}

/// The key by which a remote file is known: not a path of this machine, unless it is the same file.
fn key(remote: &Remote, path: &Path) -> PathBuf {
    remote.display_path(path)
}

fn check_write(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let (path, content) = (path_in(arguments), arguments["content"].as_str().unwrap_or_default());
    let size =
        format!("{}, {}", counted(content.lines().count(), "line", "lines"), counted(content.len(), "byte", "bytes"));
    let parts =
        vec![(format!("{size}; replaces the file if there is one"), Summary::new("", content, usize::MAX).lines)];
    question_about_change(env, (format!("write_file: {} ({size})", visible(path)), path), parts)
}

fn write(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (path, content) = (path_in(&call.arguments), call.arguments["content"].as_str().unwrap_or_default());
    let written = start(path, env, job).and_then(|(remote, fetched)| {
        if fetched.kind != Kind::Absent {
            require_file(path, &fetched)?;
            let known = env.known_files.get(&key(remote, &fetched.path));
            if known.is_some_and(|known| known != FileVersion::of_bytes(&fetched.content)) {
                return Err(format!("{path}: {}", problem("changed")));
            }
        }
        let note = replace(remote, path, &fetched, content, env, job)?;
        let verb = if fetched.kind == Kind::Absent { "created" } else { "overwrote" };
        let mut lines = vec![format!("{verb} {path} ({}){note}", counted(content.len(), "byte", "bytes"))];
        let old = String::from_utf8(fetched.content).ok().filter(|_| fetched.kind == Kind::File);
        lines.extend(old.into_iter().flat_map(|old| Summary::new(&old, content, MAX_REPORTED_LINES).lines));
        Ok(lines.join("\n"))
    });
    match written {
        Ok(content) => Output::success(content),
        Err(message) => Output::failure(format!("nothing was written: {message}")),
    }
}

fn start<'a>(path: &str, env: &'a Environment, job: &Job) -> Result<(&'a Remote, Fetched), String> {
    if job.is_cancelled() {
        return Err("interrupted".into());
    }
    let remote = remote_of(env);
    let judged = remote.absolute(path)?;
    let fetched = remote.fetch(&judged, Access::Write, job).map_err(|why| format!("{path}: {why}"))?;
    Ok((remote, fetched))
}

/// Writes the file if it is unchanged since it was read. Returns a note for the model.
fn replace(
    remote: &Remote,
    path: &str,
    old: &Fetched,
    content: &str,
    env: &Environment,
    job: &Job,
) -> Result<&'static str, String> {
    let script = script::write(&old.path, &old.checksum, content.len());
    let request = Request { script: &script, data: Some(content.as_bytes()), limit: LOOK_LIMIT };
    let ended = remote.collect(&request, 0, job)?;
    let word = ended.status.unwrap_or_default();
    if !matches!(word.as_str(), "ok" | "linked") {
        return Err(format!("{path}: {}", problem(&word)));
    }
    env.known_files.record(&key(remote, &old.path), FileVersion::of_bytes(content.as_bytes()));
    Ok(if word == "linked" { "; written in place, because it has other names (hard links)" } else { "" })
}

fn check_edit(tool: &str, all: &[Replacement<'_>], arguments: &Value, env: &Environment) -> Result<Question, String> {
    let path = path_in(arguments);
    if all.is_empty() {
        return Err("`edits` must not be empty".into());
    }
    all.iter().try_for_each(Replacement::check)?;
    let part = |replacement: &Replacement<'_>| {
        (replacement.scope().to_owned(), Summary::new(replacement.from, replacement.to, usize::MAX).lines)
    };
    question_about_change(env, (format!("{tool}: {}", visible(path)), path), all.iter().map(part).collect())
}

fn edit(all: &[Replacement<'_>], call: &Prepared, env: &Environment, job: &Job) -> Output {
    let path = path_in(&call.arguments);
    let edited = start(path, env, job).and_then(|(remote, fetched)| {
        if fetched.kind == Kind::Absent {
            return Err(format!("{path}: does not exist; use write_file to create it"));
        }
        require_file(path, &fetched)?;
        if fetched.size > MAX_FILE_SIZE || !fetched.is_whole() {
            return Err(format!(
                "{path}: file is larger than the limit of edits ({} MiB); use bash",
                MAX_FILE_SIZE >> 20
            ));
        }
        match env.known_files.get(&key(remote, &fetched.path)) {
            None => return Err(format!("{path}: file has not been read yet; read it with read_file first")),
            Some(version) if version != FileVersion::of_bytes(&fetched.content) => {
                return Err(format!("{path}: {}", problem("changed")));
            }
            Some(_) => {}
        }
        let old = std::str::from_utf8(&fetched.content)
            .map_err(|_| format!("{path}: not valid UTF-8; use bash to change it"))?;
        let (new, matches) = edit_file::apply_all(all, old, path)?;
        let note = replace(remote, path, &fetched, &new, env, job)?;
        let mut lines = vec![format!("edited {path} ({}){note}", counted(matches, "replacement", "replacements"))];
        lines.extend(Summary::new(old, &new, MAX_REPORTED_LINES).lines);
        Ok(lines.join("\n"))
    });
    match edited {
        Ok(content) => Output::success(content),
        Err(message) => Output::failure(format!("nothing was changed: {message}")),
    }
}
