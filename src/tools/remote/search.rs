//! `glob`, `grep` and `list_dir` of remote environments.
//!
//! `find` and `grep` there find candidate files; patterns are matched here, as on this machine.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use memchr::memmem;
use serde_json::Value;

use super::call::Request;
use super::files::question;
use super::listing::{Kind, Listing, SEARCH_LIMIT};
use super::script::Wanted;
use super::{Remote, pattern, remote_of, script};
use crate::base::id::AgentId;
use crate::domain::tool::Reach;
use crate::tools::grep::{Results, Search};
use crate::tools::walk::WalkEnd;
use crate::tools::{
    Environment, INTERRUPTED, Job, Judged, Output, Prepared, Question, Run, ToolSpec, glob, grep, list_dir, one_line,
    visible,
};

pub const GLOB: ToolSpec =
    ToolSpec { judged: Judged::RemoteFile, check: check_glob, run: Run::OnThread(run_glob), ..glob::SPEC };
pub const GREP: ToolSpec =
    ToolSpec { judged: Judged::RemoteFile, check: check_grep, run: Run::OnThread(run_grep), ..grep::SPEC };
pub const LIST_DIR: ToolSpec =
    ToolSpec { judged: Judged::RemoteFile, check: check_list, run: Run::OnThread(run_list), ..list_dir::SPEC };

/// Files whose content is read at once.
const FILES_AT_ONCE: usize = 100;
/// Of each file, in blocks of 64 KiB.
const BLOCKS: u64 = 64;
/// Of all files that are read at once, in bytes.
const MAX_AT_ONCE: usize = 64 << 20;

fn check_glob(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let (pattern, path) = glob::read(arguments);
    glob::matcher(pattern)?;
    let place = if path == "." { String::new() } else { format!(" in {}", visible(path)) };
    let title = format!("glob: {}{place}", one_line(pattern, 100));
    question(remote_of(env), (title, path), Vec::new(), Reach::Reads)
}

fn run_glob(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (pattern, path) = glob::read(&call.arguments);
    let remote = remote_of(env);
    let found = glob::matcher(pattern)
        .and_then(|matcher| Ok((matcher, list(remote, path, &Wanted { depth: None, lines: None }, job)?)));
    let (matcher, listing) = match found {
        Ok(found) => found,
        Err(message) => return failure(message),
    };
    let is_wanted = |path: &Path| matcher.is_match(listing.relative(path));
    let entries = listing.entries.iter().filter(|entry| entry.kind != Kind::Directory && is_wanted(&entry.path));
    let files = entries.map(|entry| remote.relative(&entry.path)).collect();
    glob::output(files, end(&listing), env)
}

fn list(remote: &Remote, path: &str, wanted: &Wanted<'_>, job: &Job) -> Result<Listing, String> {
    let judged = remote.absolute(path)?;
    remote.list(&judged, wanted, job).map_err(|why| if why == INTERRUPTED { why } else { format!("{path}: {why}") })
}

fn failure(message: String) -> Output {
    Output::failure(message)
}

fn end(listing: &Listing) -> WalkEnd {
    if listing.is_cut { WalkEnd::TooManyEntries } else { WalkEnd::Complete }
}

fn check_list(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let path = list_dir::path(arguments);
    question(remote_of(env), (format!("list_dir: {}", visible(path)), path), Vec::new(), Reach::Reads)
}

fn run_list(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let path = list_dir::path(&call.arguments);
    let depth = usize::try_from(call.arguments["depth"].as_u64().unwrap_or(1)).unwrap_or(1);
    let remote = remote_of(env);
    let listing = match list(remote, path, &Wanted { depth: Some(depth), lines: None }, job) {
        Ok(listing) if listing.is_file => return Output::failure(format!("{path}: not a directory; use read_file")),
        Ok(listing) => listing,
        Err(message) => return failure(message),
    };
    let line = |entry: &super::listing::Entry| {
        let name = visible(&listing.relative(&entry.path).to_string_lossy());
        match entry.kind {
            Kind::Directory => format!("{name}/"),
            Kind::Link => format!("{name} -> {}", visible(&entry.target)),
            Kind::File => name,
            Kind::Other => format!("{name} (not a regular file)"),
        }
    };
    list_dir::output(listing.entries.iter().map(line), end(&listing), env)
}

fn check_grep(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let pattern = arguments["pattern"].as_str().unwrap_or_default();
    if pattern.is_empty() {
        return Err("`pattern` must not be empty".into());
    }
    if let Some(pattern) = arguments["glob"].as_str() {
        glob::matcher(pattern)?;
    }
    let path = arguments["path"].as_str().map(|path| format!(" in {}", visible(path))).unwrap_or_default();
    let title = format!("grep: {}{path}", one_line(pattern, 100));
    question(remote_of(env), (title, grep::path(arguments)), Vec::new(), Reach::Reads)
}

fn run_grep(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (remote, arguments) = (remote_of(env), &call.arguments);
    let pattern = arguments["pattern"].as_str().unwrap_or_default();
    let lines = pattern::superset(pattern, arguments["ignore_case"] == true);
    let found = Search::new(arguments, env, job).and_then(|search| {
        let wanted = Wanted { depth: None, lines: lines.as_deref() };
        Ok((search, list(remote, grep::path(arguments), &wanted, job)?))
    });
    let (mut search, listing) = match found {
        Ok(found) => found,
        Err(message) => return failure(message),
    };
    let entries = listing.entries.iter().filter(|entry| entry.kind == Kind::File);
    let files: Vec<&Path> = entries
        .map(|entry| entry.path.as_path())
        .filter(|path| search.is_wanted_path(listing.relative(path)))
        .collect();
    let mut results = Results::new(arguments, env);
    for part in files.chunks(FILES_AT_ONCE) {
        let contents = match contents(remote, part, job) {
            Ok(contents) => contents,
            Err(message) => return failure(message),
        };
        for (path, content) in contents {
            results.path = remote.relative(&path);
            search.search(Cursor::new(content), &mut results);
            if results.is_full {
                return results.output(end(&listing));
            }
        }
    }
    results.output(end(&listing))
}

/// The start of each of these files.
fn contents(remote: &Remote, files: &[&Path], job: &Job) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let separator = format!("s{}", AgentId::random());
    let script = script::contents(files, &separator, BLOCKS);
    let found = remote.collect(&Request { script: &script, data: None, limit: SEARCH_LIMIT }, MAX_AT_ONCE, job)?;
    let mark = format!("\n{separator}=");
    let parts: Vec<usize> = memmem::find_iter(&found.output, mark.as_bytes()).collect();
    let ends = parts.iter().skip(1).copied().chain([found.output.len()]);
    let file = |(start, end): (usize, usize)| {
        let part = &found.output[start + mark.len()..end];
        let line = part.iter().position(|byte| *byte == b'\n')?;
        let number: usize = std::str::from_utf8(&part[..line]).ok()?.parse().ok()?;
        Some((files.get(number)?.to_path_buf(), part[line + 1..].to_vec()))
    };
    Ok(parts.iter().copied().zip(ends).filter_map(file).collect())
}
