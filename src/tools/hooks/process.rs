//! The process of one hook: in the sandbox that commands have, with its input in memory and both outputs bounded.

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::answer::MAX_LINE;
use crate::base::text::{sanitise, shortened};
use crate::domain::hook::Hook;
use crate::domain::skill::Author;
use crate::policy::paths::{Access, OWN, Verdict};
use crate::sandbox::{Level, Plan, Report, Watch, send_descriptor};
use crate::tools::command::{Ending, OutputReader, Pipe, Program, Supervised, plan};
use crate::tools::file_access::reason;
use crate::tools::linux::memory_file;
use crate::tools::{Environment, Job, supervisor};

/// In bytes, of each output. A hook that prints more is ended.
const MAX_OUTPUT: usize = 256 << 10;
/// The root of the project, for hooks that were written for Claude Code.
const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

/// Programs that load modules from the working directory for a text of the command line, and the options for that.
const INTERPRETERS: &[&str] = &["python", "node", "ruby", "tsx"];
const INLINE: &[&str] = &["-c", "-m", "-e", "-p", "-r", "--eval", "--print", "--require", "--import", "-"];
/// Programs that run what a file of the working directory says.
const RUNNERS: &[&str] = &[
    "ant",
    "bazel",
    "bun",
    "bundle",
    "bunx",
    "cargo",
    "cmake",
    "composer",
    "deno",
    "dotnet",
    "go",
    "gradle",
    "gradlew",
    "just",
    "make",
    "meson",
    "mvn",
    "ninja",
    "nox",
    "npm",
    "npx",
    "pdm",
    "pipenv",
    "pnpm",
    "poetry",
    "pre-commit",
    "pytest",
    "rake",
    "sbt",
    "task",
    "tox",
    "tsx",
    "uv",
    "uvx",
    "yarn",
];

/// How a hook has ended by itself.
#[derive(Debug, Default)]
pub struct Ended {
    pub code: Option<i32>,
    pub output: String,
    pub errors: String,
    /// What happened to protected files, one line each.
    pub changes: Vec<String>,
}

/// Why a hook has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Its program has not run.
    NotStarted(String),
    /// It took too long, printed too much, or says nothing that is understood.
    Failed(String),
}

/// What the shell exits with if it cannot run a command (POSIX, 2.8.2).
const SHELL_CANNOT_RUN: [i32; 2] = [126, 127];

/// Where a hook runs.
pub struct Place<'a> {
    pub directory: &'a Path,
    /// Otherwise it can read the workspace only.
    pub may_write: bool,
}

/// Runs a hook with this text as its standard input.
pub fn run(hook: &Hook, input: &str, place: &Place<'_>, env: &Environment, job: &Job) -> Result<Ended, Failure> {
    let mut env = env.clone();
    if hook.author == Author::Person {
        let files = own_files(hook, &env);
        env.sandbox.settings.shown.extend(files);
    }
    loop {
        let level = env.sandbox.level();
        if level == Level::None && env.sandbox.settings.is_enabled {
            let why = "needs a sandbox, which this system cannot build; polylogue doctor says more";
            return Err(Failure::NotStarted(why.into()));
        }
        match attempt(hook, input, place, &env, job)? {
            Some(ended) if runs_in_shell(hook) && ended.code.is_some_and(|code| SHELL_CANNOT_RUN.contains(&code)) => {
                return Err(Failure::NotStarted(first_line(&ended.errors, "its command cannot be run")));
            }
            Some(ended) => return Ok(ended),
            None => drop(env.sandbox.falls_from(level)),
        }
    }
}

/// `None`: this level of the sandbox cannot be built here.
fn attempt(
    hook: &Hook,
    input: &str,
    place: &Place<'_>,
    env: &Environment,
    job: &Job,
) -> Result<Option<Ended>, Failure> {
    let not_started = |error: io::Error| Failure::NotStarted(reason(&error));
    let arguments: Vec<&str> = hook.command.iter().map(String::as_str).collect();
    let plan = plan_of(hook, &arguments, place, env).map_err(Failure::NotStarted)?;
    let input = memory_file::with(input.as_bytes()).map_err(not_started)?;
    let (output, into_output) = io::pipe().map_err(not_started)?;
    let (errors, into_errors) = io::pipe().map_err(not_started)?;
    let mut command = Command::new(&env.supervisor);
    command.args([supervisor::FLAG, supervisor::SANDBOX, "--"]).args(&arguments);
    command.current_dir(place.directory).env_clear().envs(env.sandbox.variables());
    command.stdout(into_output).stderr(into_errors);
    let captured = |pipe| Captured::of(pipe).map_err(not_started);
    let mut outputs = Outputs { output: captured(output)?, errors: captured(errors)? };
    let watch = Watch::start(&plan);
    let mut supervised = Supervised::start(command).map_err(not_started)?;
    // If it cannot be sent, the supervisor has ended, which is found out next.
    let _ = plan.send(supervised.control(), None).and_then(|()| send_descriptor(supervised.control(), input.as_fd()));
    let ending = supervised.watch(&mut outputs, hook.timeout, job);
    let changes = watch.map(|mut watch| watch.changes()).unwrap_or_default();
    let told = |why: String| Failure::Failed(changes.iter().fold(why, |why, change| format!("{why}; {change}")));
    match (Report::receive(supervised.control()).into_iter().next(), ending) {
        (Some(Report::Unavailable(_)), _) => Ok(None),
        (Some(Report::NotStarted(why)), _)
        | (None, Ending::NotStarted(why) | Ending::Weaker(why) | Ending::Lost(why)) => Err(Failure::NotStarted(why)),
        (None, Ending::TimedOut) => Err(told(format!("timed out after {:?}", hook.timeout))),
        (None, Ending::Interrupted) if outputs.has_enough() => {
            Err(told(format!("printed more than {} KiB", MAX_OUTPUT / 1024)))
        }
        (None, Ending::Interrupted) => Err(told("interrupted".into())),
        (None, Ending::Exited(code)) => Ok(Some(Ended { changes, ..outputs.finish(code) })),
    }
}

/// What a hook may see and write: as a command, but for what its agent may not write either.
fn plan_of(hook: &Hook, arguments: &[&str], place: &Place<'_>, env: &Environment) -> Result<Plan, String> {
    let program = Program { is_read_only: !place.may_write, ..Program::new(arguments, place.directory) };
    let mut plan = plan(&program, env)?;
    let is_seen = place.directory.starts_with(plan.workspace());
    let holds_home = plan.home.as_ref().is_some_and(|home| home.starts_with(place.directory));
    if !is_seen && !holds_home {
        // The project of a worktree, or the whole of it around a directory below.
        plan.readable.push(place.directory.to_owned());
    }
    let top = match hook.author {
        Author::Project => place.directory,
        Author::Person => env.worktree.as_deref().unwrap_or(place.directory),
    };
    plan.own_variables.push((PROJECT_VARIABLE.into(), top.to_string_lossy().into_owned()));
    plan.has_input = true;
    Ok(plan)
}

fn words(hook: &Hook) -> impl Iterator<Item = &str> {
    hook.command.iter().flat_map(|part| part.split(|c: char| c.is_whitespace() || "'\";|&()<>".contains(c)))
}

/// Whether agents can change what a hook does: the command names a file in the workspace by a path or with an extension, or
/// programs that take what they run from the directory that they are started in.
pub fn lies_in_workspace(hook: &Hook, env: &Environment) -> bool {
    let top = env.worktree.as_ref().unwrap_or(&env.working_directory);
    let files = words(hook).filter(|word| word.contains(['/', '.'])).map(|word| env.resolve(word));
    let mut files = files.filter_map(|path| path.canonicalize().ok()).filter(|path| path.is_file());
    files.any(|file| file.starts_with(top)) || runs_from_directory(hook) || env.has_unsafe_path()
}

/// Whether the command names programs that run what the directory says in which they are started.
fn runs_from_directory(hook: &Hook) -> bool {
    let words: Vec<&str> = words(hook).filter(|word| !word.is_empty()).collect();
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let has_text = hook.command.iter().any(|part| part.contains("<<"));
    words.iter().enumerate().any(|(at, word)| {
        let name = name(word);
        let mut options = words[at + 1..].iter().take_while(|word| word.starts_with('-'));
        let is_inline = has_text || options.any(|option| INLINE.contains(option));
        RUNNERS.contains(&name.as_str()) || is_inline && INTERPRETERS.iter().any(|known| name.starts_with(known))
    })
}

/// The files that the command of a person's hook names: it may lie in the home directory, which commands do not see.
fn own_files(hook: &Hook, env: &Environment) -> Vec<PathBuf> {
    let paths = words(hook).filter(|word| word.starts_with(['/', '~'])).map(|word| env.resolve(word));
    let files = paths.filter_map(|path| path.canonicalize().ok()).filter(|path| path.is_file());
    let is_open = |path: &PathBuf| match env.path_policy().verdict(path, Access::Read) {
        Verdict::Denied(what) => what == OWN,
        _ => true,
    };
    files.filter(is_open).collect()
}

/// Whether a shell reads the command.
fn runs_in_shell(hook: &Hook) -> bool {
    matches!(&hook.command[..], [shell, option, _] if matches!(&**shell, "sh" | "bash") && option == "-c")
}

fn first_line(text: &str, otherwise: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    shortened(&sanitise(line.unwrap_or(otherwise)), MAX_LINE).into_owned()
}

struct Captured {
    pipe: Pipe,
    bytes: Vec<u8>,
}

impl Captured {
    fn of(pipe: io::PipeReader) -> io::Result<Self> {
        Ok(Self { pipe: Pipe::new(pipe)?, bytes: Vec::new() })
    }

    fn read(&mut self) {
        self.pipe.read(|bytes| {
            let room = (MAX_OUTPUT + 1).saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
        });
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

struct Outputs {
    output: Captured,
    errors: Captured,
}

impl Outputs {
    fn finish(&self, code: Option<i32>) -> Ended {
        Ended { code, output: self.output.text(), errors: self.errors.text(), changes: Vec::new() }
    }
}

impl OutputReader for Outputs {
    fn outputs(&self) -> impl Iterator<Item = &Pipe> {
        [&self.output.pipe, &self.errors.pipe].into_iter()
    }

    fn read(&mut self) {
        self.output.read();
        self.errors.read();
    }

    fn has_enough(&self) -> bool {
        [&self.output, &self.errors].iter().any(|captured| captured.bytes.len() > MAX_OUTPUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::hook::HookEvent;

    #[test]
    fn agents_can_change_a_hook_that_runs_what_is_in_the_workspace() {
        let top = tempfile::tempdir().unwrap();
        let (workspace, elsewhere) = (top.path().join("work"), top.path().join("elsewhere"));
        for directory in [&workspace, &elsewhere] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("check.py"), "").unwrap();
        }
        let env = Environment::at(workspace.canonicalize().unwrap());
        let outside = format!("python3 {}/check.py", elsewhere.canonicalize().unwrap().display());
        for (command, expected) in [
            ("jq -e '.tool_input.command | test(\"rm\")'", false),
            (&*outside, false),
            ("python3 ./check.py", true),
            ("python3 check.py", true),
            ("python3.11 -c 'import json'", true),
            ("cat | python3 -m checks", true),
            ("python3 <<'END'\nimport json\nEND", true),
            ("node -e 'require(\"x\")'", true),
            ("make -s check", true),
            ("test -f x && /usr/bin/npm run -s check", true),
        ] {
            let hook = Hook {
                event: HookEvent::PreTool,
                matcher: String::new(),
                command: vec!["sh".into(), "-c".into(), command.into()],
                timeout: std::time::Duration::from_secs(1),
                is_required: false,
                author: Author::Person,
                has_claude_names: false,
                source: String::new(),
                project: None,
                scripts: Vec::new(),
            };
            assert_eq!(lies_in_workspace(&hook, &env), expected, "{command}");
        }
    }
}
