//! The process of one hook: in the sandbox that commands have, with its input in memory and both outputs bounded.

use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Command;

use crate::domain::hook::Hook;
use crate::domain::skill::Author;
use crate::policy::paths::{Access, OWN, Verdict};
use crate::sandbox::{Level, Report, send_input};
use crate::tools::command::{Ending, OutputReader, Pipe, Program, Supervised, plan};
use crate::tools::file_access::reason;
use crate::tools::linux::memory_file;
use crate::tools::{Environment, Job, supervisor};

/// In bytes, of each output. A hook that prints more is ended.
const MAX_OUTPUT: usize = 256 << 10;
/// The root of the project, for hooks that were written for Claude Code.
const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

/// How a hook has ended by itself.
#[derive(Debug, Default)]
pub struct Ended {
    pub code: Option<i32>,
    pub output: String,
    pub errors: String,
}

/// Runs a hook with this text as its standard input.
///
/// # Errors
/// It could not be started, took too long, or printed too much.
pub fn run(hook: &Hook, input: &str, env: &Environment, job: &Job) -> Result<Ended, String> {
    let mut env = env.clone();
    if hook.author == Author::Person {
        let files = own_files(hook, &env);
        env.sandbox.settings.shown.extend(files);
    }
    loop {
        let level = env.sandbox.level();
        if level == Level::None && env.sandbox.settings.is_enabled {
            return Err("needs a sandbox, which this system cannot build; polylogue doctor says more".into());
        }
        match attempt(hook, input, level, &env, job)? {
            Some(ended) => return Ok(ended),
            None => drop(env.sandbox.falls_from(level)),
        }
    }
}

/// `None`: this level of the sandbox cannot be built here.
fn attempt(hook: &Hook, input: &str, level: Level, env: &Environment, job: &Job) -> Result<Option<Ended>, String> {
    let arguments: Vec<&str> = hook.command.iter().map(String::as_str).collect();
    let mut plan = plan(&Program { promised: level, ..Program::new(&arguments, &env.working_directory) }, env)?;
    let top = hook.project.as_ref().or(env.worktree.as_ref()).unwrap_or(&env.working_directory);
    plan.own_variables.push((PROJECT_VARIABLE.into(), top.to_string_lossy().into_owned()));
    plan.has_input = true;
    let (input, (output, into_output), (errors, into_errors)) =
        (memory_file::with(input.as_bytes()).map_err(text)?, io::pipe().map_err(text)?, io::pipe().map_err(text)?);
    let mut command = Command::new(&env.supervisor);
    command.args([supervisor::FLAG, supervisor::SANDBOX, "--"]).args(&arguments);
    command.current_dir(&env.working_directory).env_clear().envs(env.sandbox.variables());
    command.stdout(into_output).stderr(into_errors);
    let mut outputs = Outputs { output: Captured::of(output)?, errors: Captured::of(errors)? };
    let mut supervised = Supervised::start(command).map_err(text)?;
    // If it cannot be sent, the supervisor has ended, which is found out next.
    let _ = plan.send(supervised.control(), None).and_then(|()| send_input(supervised.control(), input.as_fd()));
    let ending = supervised.watch(&mut outputs, hook.timeout, job);
    match (Report::receive(supervised.control()).into_iter().next(), ending) {
        (Some(Report::Unavailable(_)), _) => Ok(None),
        (Some(Report::NotStarted(why)), _)
        | (None, Ending::NotStarted(why) | Ending::Weaker(why) | Ending::Lost(why)) => Err(why),
        (None, Ending::TimedOut) => Err(format!("timed out after {:?}", hook.timeout)),
        (None, Ending::Interrupted) if outputs.has_enough() => {
            Err(format!("printed more than {} KiB", MAX_OUTPUT / 1024))
        }
        (None, Ending::Interrupted) => Err("interrupted".into()),
        (None, Ending::Exited(code)) => Ok(Some(outputs.ended(code))),
    }
}

fn words(hook: &Hook) -> impl Iterator<Item = &str> {
    hook.command.iter().flat_map(|part| part.split(|c: char| c.is_whitespace() || "'\";|&()<>".contains(c)))
}

/// Whether the command names a file in the workspace by a path or with an extension: agents can change it.
pub fn lies_in_workspace(hook: &Hook, env: &Environment) -> bool {
    let top = env.worktree.as_ref().unwrap_or(&env.working_directory);
    let files = words(hook).filter(|word| word.contains(['/', '.'])).map(|word| env.resolve(word));
    let mut files = files.filter_map(|path| path.canonicalize().ok()).filter(|path| path.is_file());
    files.any(|file| file.starts_with(top))
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

fn text(error: io::Error) -> String {
    reason(&error)
}

struct Captured {
    pipe: Pipe,
    bytes: Vec<u8>,
}

impl Captured {
    fn of(pipe: io::PipeReader) -> Result<Self, String> {
        Ok(Self { pipe: Pipe::new(pipe).map_err(text)?, bytes: Vec::new() })
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
    fn ended(&self, code: Option<i32>) -> Ended {
        Ended { code, output: self.output.text(), errors: self.errors.text() }
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
