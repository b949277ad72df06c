//! The `bash` tool of environments that run elsewhere.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use super::call::{Ending, Request};
use super::connection::plan_of;
use super::{remote_of, script};
use crate::domain::tool::{Reach, ToolDeclaration};
use crate::sandbox::Watch;
use crate::tools::capture::{Capture, Sink};
use crate::tools::{
    Environment, INTERRUPTED, Job, Judged, Output, Prepared, Question, Run, ToolSpec, bash, is_in_background, one_line,
    protected_changes,
};

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "bash",
        description: "Runs a command where this environment is (the system prompt says where), with bash, or with sh if \
            there is no bash, and returns its output. stdout and stderr are combined; a non-zero exit code is reported on \
            the last line. Each call starts a new shell, without a terminal and without standard input. When the command \
            returns, the processes of its process group are killed, including background ones. Long output is truncated \
            in the middle; the result names a file with the full output, which read_file can read. With \
            run_in_background, the call returns at once and the command keeps running: use it for servers and for \
            commands that take minutes.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command to run."},
                "timeout": {"type": "integer", "minimum": 1, "maximum": 3600000,
                    "description": "Time limit in milliseconds. Default: 120000 (2 minutes)."},
                "description": {"type": "string",
                    "description": "What the command does, in 5 to 10 words, for the user."},
                "run_in_background": {"type": "boolean",
                    "description": "Return at once with an id for bash_output and bash_kill. Without `timeout`, there is no time limit. Default: false."},
                "workdir": {"type": "string", "description": "The directory to run in. Default: the working directory."}
            },
            "required": ["command"],
            "additionalProperties": false
        }"#,
    },
    aliases: bash::SPEC.aliases,
    reach: Reach::Writes,
    judged: Judged::RemoteCommand,
    check,
    run: Run::OnThread(run),
};

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let command = bash::checked_command(arguments)?;
    let mut detail = bash::shown_command(command, arguments, &directory(arguments, env)?);
    if is_in_background(arguments) {
        detail.push(bash::background_notice(env)?);
    }
    detail.extend(bash::shown_limit(arguments, env));
    let question = remote_of(env).question(format!("bash: {}", one_line(command, 100)), detail);
    Ok(Question { command_lines: command.lines().count(), ..question })
}

fn directory(arguments: &Value, env: &Environment) -> Result<PathBuf, String> {
    let remote = remote_of(env);
    match arguments["workdir"].as_str() {
        Some(written) => remote.absolute(written).map_err(|why| format!("`workdir`: {why}")),
        None => Ok(remote.directory().to_path_buf()),
    }
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    if job.is_cancelled() {
        return Output::failure("[interrupted before it was started]");
    }
    let mut capture = Capture::new(env.output_cap, &env.output_directory);
    let watch = watch(env);
    let ended = execute(call, env, &mut capture, job);
    let (notes, warnings) = changes(watch, env);
    let output = output(ended, capture, (call, env), &notes);
    Output { warnings, ..output }
}

/// Looks at the protected files of a workspace that is mounted in a container: a command may create some.
fn watch(env: &Environment) -> Option<Watch> {
    remote_of(env).is_contained().then(|| plan_of(env).ok())?.and_then(|plan| Watch::start(&plan))
}

/// What happened to them: for the model, and for the person.
fn changes(watch: Option<Watch>, env: &Environment) -> (String, Vec<String>) {
    let changes = watch.map(|mut watch| watch.changes()).unwrap_or_default();
    protected_changes("bash", &changes, &env.output_directory)
}

fn output(
    ended: Result<Ending, String>,
    capture: Capture,
    (call, env): (&Prepared, &Environment),
    notes: &str,
) -> Output {
    match ended {
        Ok(Ending::Status(code)) if code == "0" => {
            let content = with_notes(capture.finish(), notes);
            Output::success(if content.is_empty() { "[no output]".into() } else { content })
        }
        Ok(ending) => {
            let mut content = with_notes(capture.finish(), notes);
            if !content.is_empty() && !content.ends_with('\n') {
                content.push('\n');
            }
            let _ = write!(content, "{}", note(&ending, call, env));
            Output::failure(content)
        }
        Err(message) => Output::failure(format!("[not started: {message}]")),
    }
}

fn with_notes(content: String, notes: &str) -> String {
    let gap = if content.is_empty() || content.ends_with('\n') || notes.is_empty() { "" } else { "\n" };
    format!("{content}{gap}{notes}")
}

/// Runs the command of a call in the background. The result says how it ended; its output goes to `sink`.
pub fn run_in_background(call: &Prepared, env: &Environment, sink: &mut dyn Sink, job: &Job) -> Output {
    let watch = watch(env);
    let ended = execute(call, env, sink, job);
    let (notes, warnings) = changes(watch, env);
    let output = match ended {
        Ok(ending) => Output::success(notes + &note(&ending, call, env)),
        Err(message) => Output::failure(format!("[not started: {message}]")),
    };
    Output { warnings, ..output }
}

fn execute(call: &Prepared, env: &Environment, sink: &mut dyn Sink, job: &Job) -> Result<Ending, String> {
    let remote = remote_of(env);
    let command = call.arguments["command"].as_str().unwrap_or_default();
    let script = script::command(command, &directory(&call.arguments, env)?);
    let request = Request { script: &script, data: None, limit: bash::timeout(&call.arguments, env) };
    remote.connection.run(&request, job, &mut |bytes| {
        sink.push(bytes);
        true
    })
}

/// How it ended, in one line for the model.
fn note(ending: &Ending, call: &Prepared, env: &Environment) -> String {
    let remote = remote_of(env);
    match ending {
        Ending::Status(word) if word == "directory" => {
            let directory = directory(&call.arguments, env).unwrap_or_default();
            format!("[not started: working directory {}: cannot be entered]", directory.display())
        }
        Ending::Status(code) => format!("[exit code {code}]"),
        Ending::TimedOut => format!("[timed out after {:?}]", bash::timeout(&call.arguments, env)),
        Ending::Interrupted | Ending::Enough => INTERRUPTED.into(),
        Ending::Lost(why) => format!("[no exit code: {}]", remote.lost_message(why)),
    }
}
