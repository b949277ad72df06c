//! The commands that only read: which of them may run unasked, and what they read.
//!
//! Only what the tables name can be free. A command is judged by its options too, because many harmless programs write
//! files or run others with the right option. Programs that run other programs (`env`, `xargs`, `timeout`, `sh -c`) are
//! in no table. The tables follow what was measured with the GNU, util-linux and git programs of 2026.

mod git;
mod options;
mod programs;

use super::shell::SimpleCommand;
use crate::base::text;
use options::Reason;

/// How much of a simple command a reason shows, in columns.
const MAX_SHOWN: usize = 60;
/// More directories that a command may be in are not followed.
const MAX_DIRECTORIES: usize = 4;

/// Something that a free command reads; whether it may is left to the rules for paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Read {
    /// As the command names it; relative to the directory of the command.
    pub path: String,
    pub extent: Extent,
}

/// How much is read at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// The file, or the names in the directory.
    One,
    /// The path is a pattern, even if a file has this name: bash replaces it by matching files.
    Pattern,
    /// The file, or every file in the directory; symbolic links are followed.
    Entries,
    /// The file or everything below the directory; symbolic links below it are not followed.
    Tree,
}

/// Commands after which others may mean something else, because they change the shell.
const SHELL_STATE: &[&str] = &[
    ".",
    "alias",
    "builtin",
    "cd",
    "command",
    "declare",
    "enable",
    "eval",
    "exec",
    "export",
    "hash",
    "let",
    "local",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "set",
    "shopt",
    "source",
    "test",
    "trap",
    "typeset",
    "unalias",
    "unset",
    "[",
];

/// What all commands of a script read, without duplicates. Of commands that a rule allows, only the standard input is
/// judged.
///
/// `directory` is where the script runs, if that is not the directory of the agent. With `sandboxed`, programs that a
/// repository can make run other programs are free as well.
///
/// # Errors
/// A command is not known to only read; the message names it.
pub fn reads(
    commands: &[SimpleCommand],
    directory: Option<&str>,
    sandboxed: bool,
    is_allowed: &dyn Fn(&SimpleCommand) -> bool,
) -> Result<Vec<Read>, String> {
    let mut directories = vec![directory.unwrap_or_default().to_owned()];
    let mut all: Vec<Read> = Vec::new();
    let mut is_shell_changed = false;
    for command in commands {
        let in_own_directory = directories == [""];
        let (program, is_allowed) = (command.program(), is_allowed(command));
        let free = if is_shell_changed {
            Err("a command before it changes the shell")
        } else {
            reads_of(command, sandboxed, in_own_directory)
        };
        let mut reads = match free {
            Ok(reads) => reads,
            Err(_) if is_allowed => {
                is_shell_changed |= SHELL_STATE.contains(&program);
                Vec::new()
            }
            Err(reason) => return Err(format!("{}: {reason}", text::shortened(&command.canonical(), MAX_SHOWN))),
        };
        if program == "cd" && !reads.is_empty() {
            // It may fail or run in a subshell: what follows may be in any of the directories.
            let entered: Vec<String> = directories.iter().map(|from| join(from, &reads[0].path)).collect();
            directories.extend(entered);
        }
        reads.extend(command.input.iter().map(|path| Read { path: path.clone(), extent: Extent::One }));
        for directory in &directories {
            all.extend(reads.iter().map(|read| Read { path: join(directory, &read.path), ..*read }));
        }
        if directories.len() > MAX_DIRECTORIES {
            return Err("cd: too often in one command".into());
        }
    }
    all.extend(directories.into_iter().map(|path| Read { path, extent: Extent::One }));
    all.retain(|read| !read.path.is_empty());
    all.sort();
    all.dedup();
    Ok(all)
}

fn reads_of(command: &SimpleCommand, sandboxed: bool, in_own_directory: bool) -> Result<Vec<Read>, Reason> {
    if !command.assignments.is_empty() {
        return Err("an assignment");
    }
    let name = options::program_name(command.program())?;
    match name {
        "git" if in_own_directory => git::reads(command.arguments(), sandboxed),
        // Another directory may contain a repository that an agent wrote, with a configuration that runs programs.
        "git" => Err("the repository may run programs"),
        _ => programs::reads(name, command.arguments()),
    }
}

fn join(directory: &str, path: &str) -> String {
    if directory.is_empty() || path.starts_with('/') { path.to_owned() } else { format!("{directory}/{path}") }
}
