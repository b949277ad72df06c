//! The `list_dir` tool: what is in a directory.

use serde_json::Value;

use super::walk::{End, Entry, Go, Start};
use super::{Environment, Job, Output, Prepared, Question, Run, ToolSpec, visible};
use crate::domain::tool::{Reach, ToolDeclaration};

/// The row in the table of tools.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "list_dir",
        description: "Lists what is in a directory, sorted; directories end with a slash, links show where they lead. What \
            ignore files (.gitignore, .ignore) name is left out, unless that very directory is asked for.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The directory; the working directory if left out."},
                "depth": {"type": "integer", "minimum": 1, "maximum": 3,
                    "description": "How many levels of directories; 1 if left out."}
            },
            "additionalProperties": false
        }"#,
    },
    reach: Reach::Reads,
    check,
    run: Run::OnThread(run),
};

/// How many entries are listed.
const MOST_ENTRIES: usize = 500;

fn check(arguments: &Value, _: &Environment) -> Result<Question, String> {
    Ok(Question::of(format!("list_dir: {}", visible(path(arguments))), Vec::new()))
}

fn path(arguments: &Value) -> &str {
    arguments["path"].as_str().unwrap_or(".")
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let path = path(&call.arguments);
    let depth = usize::try_from(call.arguments["depth"].as_u64().unwrap_or(1)).unwrap_or(1);
    let start = match Start::at(path, env, Some(depth)) {
        Ok(start) if start.is_directory() => start,
        Ok(_) => return Output::failure(format!("{path} is no directory; read_file reads files.")),
        Err(why) => return Output::failure(why),
    };
    if let Err(error) = std::fs::read_dir(start.root()) {
        return Output::failure(format!("{path} cannot be listed: {error}."));
    }
    let (mut lines, mut room) = (Vec::new(), env.output_cap);
    let end = start.walk(job, |entry| {
        let line = line(&start, entry);
        let Some(left) = room.checked_sub(line.len() + 1).filter(|_| lines.len() < MOST_ENTRIES) else {
            return Go::Stop;
        };
        room = left;
        lines.push(line);
        Go::On
    });
    match end {
        End::Interrupted => return Output::failure("[interrupted]"),
        End::Enough | End::TooMuch => {
            let words = format!("[there are more than these {}: list a directory below, or use glob]", lines.len());
            lines.push(words);
        }
        End::Complete if lines.is_empty() => lines.push("[nothing, or nothing that is not ignored]".into()),
        End::Complete => {}
    }
    Output::success(lines.join("\n"))
}

fn line(start: &Start, entry: &Entry) -> String {
    let name = visible(&start.relative(entry).to_string_lossy());
    match entry.kind() {
        kind if kind.is_dir() => format!("{name}/"),
        kind if kind.is_symlink() => {
            let end = std::fs::read_link(entry.path()).unwrap_or_default();
            format!("{name} -> {}", visible(&end.to_string_lossy()))
        }
        kind if kind.is_file() => name,
        _ => format!("{name} (no regular file)"),
    }
}
