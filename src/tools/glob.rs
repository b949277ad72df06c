//! The `glob` tool: files whose names match a pattern.

use serde_json::Value;

use super::walk::{End, Go, Start};
use super::wildcard::{Braces, Wildcard};
use super::{Environment, Job, Output, Prepared, Question, Run, ToolSpec, one_line, visible};
use crate::domain::tool::{Reach, ToolDeclaration};

/// The row in the table of tools.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "glob",
        description: "Lists files whose path matches a pattern like src/**/*.rs, sorted. A pattern without a slash matches \
            names in every directory. What ignore files (.gitignore, .ignore) name is left out.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "With *, **, ?, [a-z] and {a,b}; from `path` on."},
                "path": {"type": "string", "description": "Where to look; the working directory if left out."}
            },
            "required": ["pattern"],
            "additionalProperties": false
        }"#,
    },
    reach: Reach::Reads,
    check,
    run: Run::OnThread(run),
};

/// How many files are listed.
const MOST_FILES: usize = 500;

/// The longest pattern in bytes; what it is compiled to grows with it.
const LONGEST_PATTERN: usize = 1000;

fn check(arguments: &Value, _: &Environment) -> Result<Question, String> {
    let (pattern, path) = read(arguments);
    matcher(pattern)?;
    let place = if path == "." { String::new() } else { format!(" in {}", visible(path)) };
    Ok(Question::of(format!("glob: {}{place}", one_line(pattern, 100)), Vec::new()))
}

fn read(arguments: &Value) -> (&str, &str) {
    (arguments["pattern"].as_str().unwrap_or_default(), arguments["path"].as_str().unwrap_or("."))
}

/// What matches paths from where the walk begins.
///
/// # Errors
/// Words for the model: it is no pattern.
pub fn matcher(pattern: &str) -> Result<Wildcard, String> {
    if pattern.is_empty() || pattern.len() > LONGEST_PATTERN {
        return Err(format!("A pattern has between 1 and {LONGEST_PATTERN} bytes."));
    }
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(format!("The pattern {pattern:?} leads out of the directory: say where to look in `path`."));
    }
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let anywhere = if pattern.contains('/') { String::new() } else { "**/".into() };
    Wildcard::new(&format!("{anywhere}{pattern}"), Braces::Alternatives)
        .map_err(|why| format!("{pattern:?} is no pattern: {why}."))
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let (pattern, path) = read(&call.arguments);
    let found = matcher(pattern).and_then(|matcher| Ok((matcher, Start::at(path, env, None)?)));
    let (matcher, start) = match found {
        Ok(found) => found,
        Err(why) => return Output::failure(why),
    };
    let mut files = Vec::new();
    let end = start.walk(job, |entry| {
        if !entry.kind().is_dir() && matcher.is_match(&start.relative(entry).to_string_lossy()) {
            files.push(start.shown(entry.path(), env));
        }
        if files.len() > MOST_FILES { Go::Stop } else { Go::On }
    });
    answer(files, end, env)
}

fn answer(mut files: Vec<String>, end: End, env: &Environment) -> Output {
    let mut bytes = 0;
    let fitting = files.iter().take_while(|file| {
        bytes += file.len() + 1;
        bytes <= env.output_cap
    });
    let shown = fitting.count().min(MOST_FILES);
    let is_cut = shown < files.len();
    files.truncate(shown);
    match end {
        End::Interrupted => return Output::failure("[interrupted]"),
        End::TooMuch => {
            files.push("[not everything was looked at, there is too much: look in a directory below]".into())
        }
        _ if is_cut => files.push(format!("[there are more than these {shown}: narrow the pattern]")),
        _ if files.is_empty() => files.push("[no file matches]".into()),
        End::Complete | End::Enough => {}
    }
    Output::success(files.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_slash_matches_at_every_depth_and_one_with_a_slash_from_the_start_on() {
        for (pattern, path, expected) in [
            ("*.rs", "a.rs", true),
            ("*.rs", "src/deep/a.rs", true),
            ("./*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/deep/er/a.rs", true),
            ("**/test_{a,b}.py", "x/test_b.py", true),
            ("[ab].c", "c.c", false),
        ] {
            assert_eq!(matcher(pattern).unwrap().is_match(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_in_words() {
        for pattern in ["", "a[", "{a", "/etc/*", "../*", &"a".repeat(1001)] {
            assert!(matcher(pattern).is_err(), "{pattern}");
        }
    }
}
