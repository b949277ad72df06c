//! The `glob` tool: files whose path matches a pattern.

use std::ops::ControlFlow;

use globset::{GlobBuilder, GlobMatcher};
use serde_json::Value;

use super::walk::{WalkEnd, WalkRoot, is_directory, too_many_entries};
use super::{
    Environment, INTERRUPTED, Job, Judged, Output, PATH_ALIASES, Prepared, Question, Run, ToolSpec, one_line, visible,
};
use crate::domain::tool::{Reach, ToolDeclaration};
use crate::policy::paths::Access;

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "glob",
        description: "Finds files whose path matches a glob pattern. A pattern without a slash, such as *.rs, matches \
            file names in every directory; one with a slash, such as src/**/*.rs, matches the path relative to `path`. \
            Paths are sorted. Files ignored by .gitignore or .ignore are skipped.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "pattern": {"type": "string",
                    "description": "The glob pattern, relative to `path`: *, **, ?, [a-z] and {a,b} are supported."},
                "path": {"type": "string", "description": "The directory to search. Default: the working directory."}
            },
            "required": ["pattern"],
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

/// In bytes. The memory that a compiled pattern takes grows with it.
const MAX_PATTERN_LENGTH: usize = 1000;

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let (pattern, path) = read(arguments);
    matcher(pattern)?;
    let directory_to_search = env.locate(path, Access::Read)?;
    let directory = if path == "." { String::new() } else { format!(" in {}", visible(path)) };
    Ok(Question::to_read(format!("glob: {}{directory}", one_line(pattern, 100)), directory_to_search))
}

/// The pattern, and the directory in which a call searches.
pub fn read(arguments: &Value) -> (&str, &str) {
    (arguments["pattern"].as_str().unwrap_or_default(), arguments["path"].as_str().unwrap_or("."))
}

/// Matches paths relative to the start of a walk.
pub fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    if pattern.is_empty() || pattern.len() > MAX_PATTERN_LENGTH {
        return Err(format!("a glob pattern must have 1 to {MAX_PATTERN_LENGTH} bytes (got {})", pattern.len()));
    }
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(format!("the pattern {pattern:?} must be relative and without `..`; pass the directory as `path`"));
    }
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let any_directory = if pattern.contains('/') { "" } else { "**/" };
    let glob =
        GlobBuilder::new(&format!("{any_directory}{pattern}")).literal_separator(true).empty_alternates(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| format!("{pattern:?} is not a valid glob pattern: {}", error.kind()))
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (pattern, path) = read(&call.arguments);
    let root = WalkRoot::new(path, call.question.path(), env, None);
    let (matcher, root) = match matcher(pattern).and_then(|matcher| Ok((matcher, root?))) {
        Ok(found) => found,
        Err(message) => return Output::failure(message),
    };
    let mut files = Vec::new();
    let end = root.walk(job, |entry| {
        if !is_directory(entry) && matcher.is_match(root.relative(entry)) {
            files.push(root.display_path(entry.path(), env));
        }
        if files.len() > MAX_LISTED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    output(files, end, env)
}

/// The output for the model about the files that match.
pub fn output(mut files: Vec<String>, end: WalkEnd, env: &Environment) -> Output {
    let mut bytes = 0;
    let fitting = files.iter().take_while(|file| {
        bytes += file.len() + 1;
        bytes <= env.output_cap
    });
    let shown = fitting.count().min(MAX_LISTED);
    let is_truncated = shown < files.len();
    files.truncate(shown);
    match end {
        WalkEnd::Cancelled => return Output::failure(INTERRUPTED),
        WalkEnd::TooManyEntries => files.push(too_many_entries()),
        _ if is_truncated => files.push(format!("[only the first {shown} files are listed; use a narrower pattern]")),
        _ if files.is_empty() => files.push("[no files found]".into()),
        WalkEnd::Complete | WalkEnd::Stopped => {}
    }
    Output::success(files.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_slash_matches_in_every_directory_and_one_with_a_slash_from_the_start() {
        for (pattern, path, expected) in [
            ("*.rs", "a.rs", true),
            ("*.rs", "src/deep/a.rs", true),
            ("./*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/deep/er/a.rs", true),
            ("**/test_{a,b}.py", "x/test_b.py", true),
            ("a{,b}.c", "a.c", true),
            ("[ab].c", "c.c", false),
        ] {
            assert_eq!(matcher(pattern).unwrap().is_match(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_refused() {
        for pattern in ["", "a[", "{a", "[z-a]", "/etc/*", "../*", &"a".repeat(1001)] {
            assert!(matcher(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_full_of_stars_is_matched_quickly() {
        assert!(!matcher(&"*a".repeat(400)).unwrap().is_match("a".repeat(399)));
        assert!(!matcher(&format!("{}b", "**/".repeat(300))).unwrap().is_match("a/".repeat(400)));
    }
}
