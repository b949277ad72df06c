//! The `bash` tool: one command with a time limit, stdout and stderr read together.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::capture::{Capture, Sink};
use super::command::{self, Ending, Outcome, Program};
use super::file_access::{not_readable, reason};
use super::{
    Environment, Job, Judged, NetworkRequest, Output, Prepared, Question, Run, ToolSpec, one_line, remote, snapshots,
    visible,
};
use crate::base::text::counted;
use crate::domain::tool::{Reach, ToolDeclaration};
use crate::sandbox;

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "bash",
        description: "Runs a bash command and returns its output. stdout and stderr are combined; a non-zero exit code \
            is reported on the last line. Each call starts a new shell, without a terminal and without standard input. \
            When the command returns, all processes that it started are killed, including background ones. Commands run \
            in a sandbox: no network but the hosts in `network`, writes only in the working directory; files in /tmp and in \
            caches are discarded after the call. The user can change that in the configuration. Long output is truncated \
            in the middle; the result names a file with the full output. With run_in_background, the call returns at \
            once and the command keeps running: use it for servers and for commands that take minutes. While it runs, later \
            calls with the same `network` reach its ports on 127.0.0.1.",
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
                "workdir": {"type": "string", "description": "The directory to run in. Default: the working directory."},
                "network": {"type": "array", "items": {"type": "string"},
                    "description": "Hosts to reach by HTTP or HTTPS: example.org, *.example.org, example.org:8080."}
            },
            "required": ["command"],
            "additionalProperties": false
        }"#,
    },
    aliases: &[
        ("cmd", "command"),
        ("timeout_ms", "timeout"),
        ("timeoutMs", "timeout"),
        ("cwd", "workdir"),
        ("dir_path", "workdir"),
        ("is_background", "run_in_background"),
        ("background", "run_in_background"),
    ],
    reach: Reach::Writes,
    judged: Judged::Command,
    check,
    run: Run::OnThread(run),
};

/// In bytes. The kernel accepts 128 KiB in one argument (`MAX_ARG_STRLEN`, execve(2)).
const MAX_COMMAND_LENGTH: usize = 100_000;

/// How much of a list of protected files that were changed is shown to the model, in bytes.
const MAX_LISTED: usize = 16 << 10;
/// How many of them are shown to the person.
const MAX_WARNINGS: usize = 20;

/// The time limit of a command in the background: in effect none.
const NO_LIMIT: Duration = Duration::from_secs(300 * 24 * 3600);

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let command = checked_command(arguments)?;
    let mut detail = shown_command(command, arguments, &directory(arguments, env));
    if is_in_background(arguments) {
        detail.push(background_notice(env)?);
        detail.push("/undo does not revert the files that it changes".into());
    }
    detail.extend(shown_limit(arguments, env));
    let network = NetworkRequest::of(arguments, &env.sandbox)?;
    detail.push(network.as_ref().map_or_else(|| env.sandbox.summary(), |network| network.summary(&env.sandbox)));
    detail.extend(env.gaps());
    let command_lines = command.lines().count();
    Ok(Question { network, command_lines, ..Question::new(format!("bash: {}", one_line(command, 100)), detail) })
}

/// The command of a call.
pub(super) fn checked_command(arguments: &Value) -> Result<&str, String> {
    let command = arguments["command"].as_str().unwrap_or_default();
    if command.trim().is_empty() {
        return Err("`command` must not be empty".into());
    }
    if command.contains('\0') {
        return Err("`command` must not contain NUL characters; use printf '\\0'".into());
    }
    if command.len() > MAX_COMMAND_LENGTH {
        return Err(format!(
            "`command` has {} bytes (at most {MAX_COMMAND_LENGTH}); write a script with write_file and run it",
            command.len()
        ));
    }
    Ok(command)
}

/// The command, the model's description of it, and where it runs, as a question shows them.
pub(super) fn shown_command(command: &str, arguments: &Value, directory: &Path) -> Vec<String> {
    let mut detail: Vec<String> = command.lines().map(visible).collect();
    if let Some(description) = arguments["description"].as_str() {
        detail.push(format!("description: {}", one_line(description, 200)));
    }
    detail.push(format!("working directory: {}", visible(&directory.to_string_lossy())));
    detail
}

/// The text of a question about a command in the background.
pub(super) fn background_notice(env: &Environment) -> Result<String, String> {
    env.tool("bash_output").map_err(|message| format!("`run_in_background`: {message}"))?;
    Ok("in the background: runs until it ends or is killed, or until its agent or polylogue ends".into())
}

/// The time limit of a command, if it has one.
pub(super) fn shown_limit(arguments: &Value, env: &Environment) -> Option<String> {
    let has_limit = !is_in_background(arguments) || arguments["timeout"].is_u64();
    has_limit.then(|| format!("time limit: {:?}", timeout(arguments, env)))
}

fn directory(arguments: &Value, env: &Environment) -> PathBuf {
    arguments["workdir"].as_str().map_or_else(|| env.working_directory.clone(), |path| env.resolve(path))
}

fn check_directory(directory: &Path) -> Result<(), String> {
    let problem = match fs::metadata(directory) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "not a directory".into(),
        Err(error) => not_readable(&error),
    };
    Err(format!("working directory {}: {problem}", directory.display()))
}

pub(super) fn timeout(arguments: &Value, env: &Environment) -> Duration {
    let usual = if is_in_background(arguments) { NO_LIMIT } else { env.bash_timeout };
    arguments["timeout"].as_u64().map_or(usual, Duration::from_millis)
}

/// Whether the call returns while the command runs.
pub fn is_in_background(arguments: &Value) -> bool {
    arguments["run_in_background"] == true
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    if job.is_cancelled() {
        return Output::failure("[interrupted before it was started]");
    }
    let command = call.arguments["command"].as_str().unwrap_or_default();
    let mut capture = Capture::new(env.output_cap, &env.output_directory);
    let watched = snapshots::watch(SPEC.declaration.name, command, env, job);
    let outcome = execute(call, env, &mut LiveOutput { capture: &mut capture, job }, job);
    let ending = outcome.as_ref().ok().map(|outcome| &outcome.ending);
    let has_run = ending.is_some_and(|ending| !matches!(ending, Ending::NotStarted(_) | Ending::Weaker(_)));
    let changed = watched.and_then(|watched| watched.finish(env, has_run, job.is_cancelled())).map(Box::new);
    let output = match outcome {
        Ok(outcome) => output_of(SPEC.declaration.name, capture.finish(), &outcome, timeout(&call.arguments, env), env),
        Err(message) => Output::failure(message),
    };
    Output { changed, ..output }
}

/// Keeps the output, and lets a person see its end while the command runs.
struct LiveOutput<'a> {
    capture: &'a mut Capture,
    job: &'a Job,
}

impl Sink for LiveOutput<'_> {
    fn push(&mut self, bytes: &[u8]) {
        self.job.append_output(bytes);
        self.capture.push(bytes);
    }
}

/// Runs the command of a call in the background. The result says how it ended; its output goes to `sink`.
pub fn run_in_background(call: &Prepared, env: &Environment, sink: &mut dyn Sink, job: &Job) -> Output {
    if env.remote.is_some() {
        return remote::run_in_background(call, env, sink, job);
    }
    let outcome = match execute(call, env, sink, job) {
        Ok(outcome) => outcome,
        Err(message) => return Output::failure(format!("[{message}]")),
    };
    let (mut content, warnings) = notes(SPEC.declaration.name, String::new(), &outcome, env);
    match &outcome.ending {
        Ending::Exited(Some(0)) => content.push_str("[exit code 0]"),
        ending => content = ending_output(content, ending, timeout(&call.arguments, env)).content,
    }
    Output { warnings, ..Output::success(content) }
}

fn execute(call: &Prepared, env: &Environment, sink: &mut dyn Sink, job: &Job) -> Result<Outcome, String> {
    let command = call.arguments["command"].as_str().unwrap_or_default();
    let directory = directory(&call.arguments, env);
    check_directory(&directory)?;
    let arguments = ["bash", "--norc", "--noprofile", "-c", command];
    let program = Program {
        network: call.question.network.as_ref(),
        promised: call.promise,
        is_lasting: is_in_background(&call.arguments),
        ..Program::new(&arguments, &directory)
    };
    command::run(&program, env, sink, timeout(&call.arguments, env), job).map_err(|error| {
        let (supervisor, directory) = (env.supervisor.display(), directory.display());
        format!("cannot run {supervisor} in {directory}: {}", reason(&error))
    })
}

/// The result of an ended program, with refusals and changes of protected files.
pub(super) fn output_of(tool: &str, content: String, outcome: &Outcome, limit: Duration, env: &Environment) -> Output {
    let (content, warnings) = notes(tool, content, outcome, env);
    Output { warnings, ..ending_output(content, &outcome.ending, limit) }
}

/// Adds refusals, and changes of protected files, about which the person is warned too.
fn notes(tool: &str, mut content: String, outcome: &Outcome, env: &Environment) -> (String, Vec<String>) {
    let has_failed = matches!(outcome.ending, Ending::Exited(Some(code)) if code != 0);
    let plan = outcome.plan.as_ref().filter(|_| has_failed);
    let cause = plan.and_then(|plan| sandbox::likely_cause(plan, &content));
    let (listed, warnings) = protected_changes(tool, &outcome.changes, &env.output_directory);
    let notes = listed.lines().map(str::to_owned);
    let refused = outcome.refused.iter().map(|why| format!("[network: {}]", visible(why)));
    for line in refused.chain(notes).chain(cause.map(|cause| format!("[{cause}]"))) {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        let _ = writeln!(content, "{line}");
    }
    (content, warnings)
}

/// Changes of protected files: lines for the model, and for the person. If they are too many to show, all of them are
/// in a file.
pub fn protected_changes(tool: &str, changes: &[String], directory: &Path) -> (String, Vec<String>) {
    let mut listed = Capture::new(MAX_LISTED, directory);
    changes.iter().for_each(|change| listed.warn(change));
    let mut warnings: Vec<String> =
        changes.iter().take(MAX_WARNINGS).map(|change| format!("{tool}: {}", visible(change))).collect();
    if let Some(more) = changes.len().checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
        let whole = listed.path().map(|path| format!("; all are in {}", path.display()));
        let more = counted(more, "more protected file was", "more protected files were");
        warnings.push(format!("{tool}: {more} created or changed{}", whole.unwrap_or_default()));
    }
    (listed.finish(), warnings)
}

fn ending_output(mut content: String, ending: &Ending, limit: Duration) -> Output {
    let note = match ending {
        Ending::Exited(Some(0)) if content.is_empty() => return Output::success("[no output]"),
        Ending::Exited(Some(0)) => return Output::success(content),
        Ending::NotStarted(why) => format!("[not started: {why}]"),
        Ending::Weaker(why) => {
            format!("[not started: {}; call again to ask the user to run it nevertheless]", visible(why))
        }
        Ending::Exited(Some(code)) => format!("[exit code {code}]"),
        Ending::Exited(None) => "[no exit code: the process that runs commands was killed]".into(),
        Ending::TimedOut => format!("[timed out after {limit:?}]"),
        Ending::Interrupted => super::INTERRUPTED.into(),
        Ending::Lost(why) => format!("[no exit code: {why}]"),
    };
    if !content.is_empty() && !content.ends_with('\n') {
        content.push('\n');
    }
    let _ = write!(content, "{note}");
    Output::failure(content)
}
