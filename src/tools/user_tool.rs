//! Tools that are programs of the person or of a trusted project.
//!
//! `PROGRAM --schema` prints the name, the description and the parameters as JSON; a call gets its arguments as JSON on standard
//! input, and its standard output is the result. Both run in the sandbox with a time limit, as commands do.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::{missing_arguments, parse_object};
use super::capture::{Capture, Sink};
use super::command::{self, Ending, Outcome, Program};
use super::file_access::{not_readable, reason};
use super::server_process::working_level;
use super::{
    Environment, Job, Judged, NetworkRequest, Output, Prepared, Question, Run, ToolSpec, mcp, network, one_line,
    snapshots, visible,
};
use crate::base::text::{sanitise, shortened};
use crate::domain::rule::{Rule, Subject};
use crate::domain::tool::{Reach, ToolDeclaration};
use crate::domain::tool_schema;
use crate::domain::user_tool::{FileIdentity, UserTool, UserToolEntry};
use crate::sandbox::{Level, Promise};

/// The common part of all user tools. Models get the declaration of each tool instead.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration { name: "user tool", description: "", parameters: r#"{"type": "object"}"# },
    aliases: &[],
    reach: Reach::Writes,
    judged: Judged::UserTool,
    check: |_, _| Ok(Question::new("user tool".into(), Vec::new())),
    run: Run::OnThread(run),
};

/// How long a program may take to print its schema.
const SCHEMA_LIMIT: Duration = Duration::from_secs(10);
/// A longer schema is refused, in bytes.
const MAX_SCHEMA: usize = 64 << 10;
/// In characters; longer descriptions are cut.
const MAX_DESCRIPTION: usize = 8_000;
/// The kept part of standard error, in bytes.
const MAX_ERRORS: usize = 8 << 10;
/// The shown part of standard error beside a schema, in columns.
const ERROR_WIDTH: usize = 160;

/// A call of a user tool. The program checks the arguments, but for those that are required.
pub fn prepare(tool: &UserTool, arguments: &str, env: &Environment) -> Result<Prepared, String> {
    let expected = |problem: &str| format!("{problem}; the arguments of {} are {}", tool.entry.name, tool.parameters);
    let arguments = parse_object(arguments).map_err(|problem| expected(&problem))?;
    let schema: Value = serde_json::from_str(&tool.parameters).expect("it was written as JSON");
    let missing = missing_arguments(&arguments, &schema, "");
    if !missing.is_empty() {
        return Err(expected(&missing.join("; ")));
    }
    let shown = Value::from(arguments.clone());
    let summary = if arguments.is_empty() { String::new() } else { shown.to_string() };
    let mut detail = mcp::detail(&shown);
    detail.push(format!("program: {}", visible(&tool.entry.command.join(" "))));
    let request = NetworkRequest::for_hosts(tool.entry.net.clone(), &env.sandbox);
    detail.push(format!("working directory: {}", visible(&env.working_directory.to_string_lossy())));
    detail.push(format!("time limit: {:?}", limit(&tool.entry, env)));
    detail.push(network::summary(&tool.entry.net, &env.sandbox));
    let title = format!("{}: {}", tool.entry.name, one_line(&summary, 100)).trim_end().to_owned();
    let question = Question { network: request, ..Question::new(title, detail) };
    let call = json!({"tool": tool.entry.name, "arguments": arguments});
    Ok(Prepared { arguments: call, question, promise: env.promise() })
}

/// The rule that allows calls of the same tool.
pub fn rule(call: &Value) -> Option<Rule> {
    Rule::new(Subject::Tool, call["tool"].as_str()?).ok()
}

fn limit(entry: &UserToolEntry, env: &Environment) -> Duration {
    entry.timeout.unwrap_or(env.bash_timeout)
}

/// The files of the command in this directory as they are now: the program, and files that its arguments name.
pub fn identify(entry: &UserToolEntry, directory: &Path) -> Result<Vec<FileIdentity>, String> {
    let program = entry.command.first().map(String::as_str).unwrap_or_default();
    let found = find_program(program, directory).ok_or_else(|| format!("there is no program {program}"))?;
    let first = identity(&found).map_err(|error| format!("{}: {}", found.display(), not_readable(&error)))?;
    let words = entry.command.iter().skip(1).map(String::as_str);
    // `--config=FILE` names a file too.
    let words = words.flat_map(|word| [Some(word), word.split_once('=').map(|(_, value)| value)]).flatten();
    let others = words.map(|word| directory.join(word)).filter(|path| path.is_file());
    Ok(std::iter::once(first).chain(others.filter_map(|path| identity(&path).ok())).collect())
}

/// The file of a program: below this directory, or in `PATH`.
pub fn find_program(name: &str, directory: &Path) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(directory.join(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_absolute() && path.is_file())
}

fn identity(path: &Path) -> std::io::Result<FileIdentity> {
    let path = path.canonicalize()?;
    let found = fs::metadata(&path)?;
    Ok(FileIdentity {
        file: (found.dev(), found.ino()),
        size: found.size(),
        changed: [(found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())],
        path,
    })
}

/// Asks a program for its schema. Blocks; not for the event loop.
pub fn read_schema(
    entry: &UserToolEntry,
    files: Vec<FileIdentity>,
    env: &Environment,
    job: &Job,
) -> Result<UserTool, String> {
    let promised = Promise { level: working_level(env)?, has_no_gap: false };
    let mut printed = Printed { capture: None, limit: MAX_SCHEMA, ..Printed::default() };
    let (arguments, input) = (&["--schema"][..], &b""[..]);
    let call = Call { entry, files: &files, arguments, input, network: None, promised, is_asked_for: false };
    let Outcome { ending, .. } = call.run(env, &mut printed, SCHEMA_LIMIT, job)?;
    let errors = String::from_utf8_lossy(&printed.errors);
    let line = errors.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let said = if line.is_empty() { String::new() } else { format!(": {}", shortened(&sanitise(line), ERROR_WIDTH)) };
    match ending {
        Ending::Exited(Some(0)) => {}
        _ if printed.has_enough() => return Err(format!("--schema printed more than {} KiB", MAX_SCHEMA >> 10)),
        Ending::Exited(Some(code)) => return Err(format!("--schema ended with exit code {code}{said}")),
        Ending::TimedOut => return Err(format!("--schema timed out after {SCHEMA_LIMIT:?}{said}")),
        Ending::NotStarted(why) | Ending::Weaker(why) | Ending::Lost(why) => return Err(format!("not started: {why}")),
        Ending::Exited(None) | Ending::Interrupted => return Err("--schema was interrupted".into()),
    }
    let value: Value =
        serde_json::from_slice(&printed.output).map_err(|error| format!("--schema printed no JSON: {error}"))?;
    tool_of_schema(entry, files, &value)
}

/// The tool before its schema is read, for a call that was made in an earlier process.
pub fn known_by_name(entry: &UserToolEntry, directory: &Path) -> Result<UserTool, String> {
    let (description, parameters) = (String::new(), r#"{"type":"object"}"#.to_owned());
    Ok(UserTool { entry: entry.clone(), description, parameters, files: identify(entry, directory)? })
}

fn tool_of_schema(entry: &UserToolEntry, files: Vec<FileIdentity>, value: &Value) -> Result<UserTool, String> {
    let text = |name: &str| value[name].as_str().map(str::trim).unwrap_or_default();
    if text("name") != entry.name {
        let named = one_line(text("name"), 64);
        return Err(format!(
            "its schema is of a tool named {named:?}; name it {:?} or change the configuration",
            entry.name
        ));
    }
    if text("description").is_empty() {
        return Err("its schema has no description".into());
    }
    if !value["parameters"].is_object() {
        return Err("its schema has no parameters: they are a JSON schema of an object".into());
    }
    let normal = tool_schema::normalise(&value["parameters"]).map_err(|why| format!("its schema: {why}"))?;
    let about: String = text("description").chars().take(MAX_DESCRIPTION).collect();
    let description = normal.note.map_or_else(|| about.clone(), |note| format!("{about}\n{note}"));
    Ok(UserTool { entry: entry.clone(), description, parameters: normal.schema, files })
}

/// What to run for a call.
struct Call<'a> {
    entry: &'a UserToolEntry,
    files: &'a [FileIdentity],
    arguments: &'a [&'a str],
    input: &'a [u8],
    network: Option<&'a NetworkRequest>,
    promised: Promise,
    /// A model calls it, which was judged; its schema is read without that.
    is_asked_for: bool,
}

impl Call<'_> {
    fn run(&self, env: &Environment, sink: &mut dyn Sink, limit: Duration, job: &Job) -> Result<Outcome, String> {
        let program = self.files.first().map(|file| file.path.to_string_lossy()).unwrap_or_default();
        let words = self.entry.command.iter().skip(1).map(String::as_str);
        let arguments: Vec<&str> =
            std::iter::once(&*program).chain(words).chain(self.arguments.iter().copied()).collect();
        // A project opens nothing outside of itself.
        let is_inside = |path: &&PathBuf| self.entry.project.as_ref().is_none_or(|project| path.starts_with(project));
        let readable: Vec<PathBuf> = self.files.iter().map(|file| &file.path).filter(is_inside).cloned().collect();
        let mut program = Program {
            network: self.network,
            promised: self.promised,
            input: Some(self.input),
            variables: &self.entry.env,
            readable: &readable,
            separates_errors: true,
            ..Program::new(&arguments, &env.working_directory)
        };
        if let Some(file) = self.open_file(&program, env)? {
            self.check_powers(file)?;
            // A program that an agent has written runs with read permissions only, until a call of it was judged.
            program.is_read_only = !self.is_asked_for;
        }
        command::run(&program, env, sink, limit, job)
            .map_err(|error| format!("cannot run {}: {}", env.supervisor.display(), reason(&error)))
    }

    /// A file of the command that other programs can change.
    fn open_file(&self, program: &Program<'_>, env: &Environment) -> Result<Option<&FileIdentity>, String> {
        if env.sandbox.level() == Level::None {
            return Ok(None);
        }
        let open = command::plan(program, env)?.writable;
        Ok(self.files.iter().find(|file| open.iter().any(|directory| file.path.starts_with(directory))))
    }

    /// A file that gives a program more than commands have must not be open to other programs in its place.
    fn check_powers(&self, file: &FileIdentity) -> Result<(), String> {
        if self.entry.env.is_empty() && self.entry.net.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{} is where commands can change it: move it out of the workspace, or remove env and net of this tool",
            file.path.display()
        ))
    }
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    if job.is_cancelled() {
        return Output::failure("[interrupted before it was started]");
    }
    let name = call.arguments["tool"].as_str().unwrap_or_default();
    let Some(tool) = env.user_tools.iter().find(|tool| tool.entry.name == name) else {
        return Output::failure(format!("the tool {name} is no longer declared"));
    };
    if identify(&tool.entry, &env.working_directory).is_ok_and(|files| files != tool.files) {
        return Output::failure(
            "[not started: the program was changed after its schema was read; call it again: the schema is read again \
             before your next message]",
        );
    }
    let input = call.arguments["arguments"].to_string();
    let capture = Capture::new(env.output_cap, &env.output_directory);
    let mut printed = Printed { capture: Some(capture), limit: usize::MAX, ..Printed::default() };
    let what = tool.entry.command.join(" ");
    let watched = snapshots::watch(name, &what, env, job);
    let limit = limit(&tool.entry, env);
    let network = call.question.network.as_ref();
    let running = Call {
        entry: &tool.entry,
        files: &tool.files,
        arguments: &[],
        input: input.as_bytes(),
        network,
        promised: call.promise,
        is_asked_for: true,
    };
    let outcome = running.run(env, &mut printed, limit, job);
    let ending = outcome.as_ref().ok().map(|outcome| &outcome.ending);
    let has_run = ending.is_some_and(|ending| !matches!(ending, Ending::NotStarted(_) | Ending::Weaker(_)));
    let changed = watched.and_then(|watched| watched.finish(env, has_run, job.is_cancelled())).map(Box::new);
    let output = match outcome {
        Ok(outcome) => super::bash::output_of(name, printed.text(&outcome.ending), &outcome, limit, env),
        Err(message) => Output::failure(format!("[not started: {message}]")),
    };
    Output { changed, ..output }
}

/// The output of a program.
#[derive(Default)]
struct Printed {
    /// Takes standard output; without it, the output is kept here.
    capture: Option<Capture>,
    output: Vec<u8>,
    /// Of `output`, in bytes.
    limit: usize,
    errors: Vec<u8>,
}

impl Printed {
    /// The result: standard output, and if the call has failed, standard error as well.
    fn text(self, ending: &Ending) -> String {
        let mut text = self.capture.map(Capture::finish).unwrap_or_default();
        let errors = String::from_utf8_lossy(&self.errors);
        if !matches!(ending, Ending::Exited(Some(0))) && !errors.trim().is_empty() {
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("{gap}{}", errors.trim_end()));
        }
        text
    }
}

impl Sink for Printed {
    fn push(&mut self, bytes: &[u8]) {
        match &mut self.capture {
            Some(capture) => capture.push(bytes),
            None => self.output.extend_from_slice(bytes),
        }
    }

    fn push_errors(&mut self, bytes: &[u8]) {
        let room = MAX_ERRORS.saturating_sub(self.errors.len());
        self.errors.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn has_enough(&self) -> bool {
        self.output.len() > self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> UserToolEntry {
        UserToolEntry {
            name: "count".into(),
            command: vec!["/bin/true".into()],
            env: Vec::new(),
            net: Vec::new(),
            timeout: None,
            project: None,
            source: String::new(),
        }
    }

    #[test]
    fn a_schema_that_does_not_fit_is_refused_with_the_reason() {
        let fine = json!({"name": "count", "description": "Counts.", "parameters": {"type": "object"}});
        let tool = tool_of_schema(&entry(), Vec::new(), &fine).expect("a tool");
        assert_eq!((&*tool.description, &*tool.parameters), ("Counts.", r#"{"properties":{},"type":"object"}"#));
        for (key, value, problem) in [
            ("name", json!("bash"), "a tool named \"bash\""),
            ("name", Value::Null, "a tool named \"\""),
            ("description", json!(" "), "no description"),
            ("parameters", json!([]), "no parameters"),
            ("parameters", json!({"type": "string"}), "not an object"),
        ] {
            let mut lie = fine.clone();
            lie[key] = value;
            let why = tool_of_schema(&entry(), Vec::new(), &lie).unwrap_err();
            assert!(why.contains(problem), "{why}");
        }
    }

    #[test]
    fn a_program_that_is_replaced_has_another_identity() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("program");
        let at = |text: &str| {
            fs::write(&path, text).expect("a file");
            let entry = UserToolEntry { command: vec![path.to_str().expect("UTF-8").into()], ..entry() };
            identify(&entry, directory.path()).expect("a file")
        };
        assert_ne!(at("one"), at("three"));
        let found = |command: &[&str]| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            identify(&UserToolEntry { command, ..entry() }, directory.path()).map(|files| files.len())
        };
        assert!(found(&["no-such-program"]).is_err());
        assert_eq!((found(&["sh"]), found(&["./program"])), (Ok(1), Ok(1)));
        assert_eq!(found(&["sh", "program", "--config=program", "other"]), Ok(3));
    }
}
