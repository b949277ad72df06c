//! The `bash` tool: one command, run supervised with a time limit, both of its outputs read as one.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::capture::Capture;
use super::supervised::{self, Ending};
use super::{Environment, Job, Output, Prepared, Question, Run, ToolSpec, one_line, visible};
use crate::domain::tool::{Reach, ToolDeclaration};

/// The row in the table of tools.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "bash",
        description: "Runs a bash command in the working directory and returns its output (stdout and stderr together) \
            and its exit code. There is no terminal and no input. Whatever the command started is ended with it: nothing \
            can be left running in the background. Long output is shortened in the middle and kept whole in a file.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command, as for bash -c."},
                "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 3600000,
                    "description": "After how many milliseconds it is ended; two minutes if left out."}
            },
            "required": ["command"],
            "additionalProperties": false
        }"#,
    },
    reach: Reach::Writes,
    check,
    run: Run::OnThread(run),
};

/// The longest command in bytes. The kernel takes 128 KiB in one argument (`MAX_ARG_STRLEN`, execve(2)).
const LONGEST_COMMAND: usize = 100_000;

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let command = arguments["command"].as_str().unwrap_or_default();
    if command.trim().is_empty() {
        return Err("`command` is empty.".into());
    }
    if command.contains('\0') {
        return Err("`command` contains a NUL character, which no command can; write it as \\0 for printf.".into());
    }
    if command.len() > LONGEST_COMMAND {
        return Err(format!(
            "`command` has {} bytes and may have {LONGEST_COMMAND}: write a script with write_file and run that.",
            command.len()
        ));
    }
    let mut detail: Vec<String> = command.lines().map(visible).collect();
    detail.push(format!("in {}", visible(&env.working_directory.to_string_lossy())));
    detail.push(format!("for at most {:?}", timeout(arguments, env)));
    Ok(Question::of(format!("bash: {}", one_line(command, 100)), detail))
}

fn timeout(arguments: &Value, env: &Environment) -> Duration {
    arguments["timeout_ms"].as_u64().map_or(env.bash_timeout, Duration::from_millis)
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let arguments = &call.arguments;
    let command = arguments["command"].as_str().unwrap_or_default();
    if job.is_cancelled() {
        return Output::failure("[interrupted before it was started]");
    }
    let (limit, mut capture) = (timeout(arguments, env), Capture::new(env.output_cap, &env.output_directory));
    match supervised::run(&["bash", "-c", command], &env.working_directory, env, &mut capture, limit, job) {
        Ok(ending) => answer(capture.finish(), &ending, limit),
        Err(error) => {
            let (supervisor, directory) = (env.supervisor.display(), env.working_directory.display());
            Output::failure(format!("The command was not run: {error} ({supervisor} in {directory})."))
        }
    }
}

fn answer(mut content: String, ending: &Ending, limit: Duration) -> Output {
    let note = match ending {
        Ending::Exited(Some(0)) if content.is_empty() => "[no output]".into(),
        Ending::Exited(Some(0)) => return Output::success(content),
        Ending::Exited(Some(code)) => format!("[exit code {code}]"),
        Ending::Exited(None) => "[the command was cut off: something killed its supervisor]".into(),
        Ending::TimedOut => format!("[timed out after {limit:?}]"),
        Ending::Interrupted => "[interrupted]".into(),
        Ending::Lost(why) => format!("[the command was lost: {why}]"),
    };
    if !content.is_empty() && !content.ends_with('\n') {
        content.push('\n');
    }
    let _ = write!(content, "{note}");
    Output { content, is_error: !matches!(ending, Ending::Exited(Some(0))) }
}
