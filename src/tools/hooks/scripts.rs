//! The files of a project that the command of a hook names. A person trusts them with the hook; while they are others than
//! those, the hook asks instead of being run.
//!
//! What such a file loads in turn, and what a command names only by a pattern or a variable, is not known here.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use crate::base::digest::sha256;

use crate::base::file::open_regular;
use crate::domain::hook::Hook;
use crate::domain::skill::Author;
use crate::tools::Environment;

/// What the shell replaces by the directory of the project.
const ROOTS: [&str; 4] = ["$CLAUDE_PROJECT_DIR", "${CLAUDE_PROJECT_DIR}", "$PWD", "${PWD}"];
/// In bytes; a larger file cannot be trusted.
const MAX_BYTES: u64 = 1 << 20;
const MAX_WORDS: usize = 256;
/// Of those that a command may enter.
const MAX_DIRECTORIES: usize = 16;
const HOW_TO_TRUST: &str = "to trust it, run polylogue config trust";

/// The paths in the project of this directory that a command may name, relative to it. They need not exist.
pub fn named_paths(command: &[String], root: &Path) -> BTreeSet<PathBuf> {
    let words = words(command);
    let mut paths: BTreeSet<PathBuf> = words.iter().filter_map(|word| below(word, root)).collect();
    // `cd scripts && ./check` names scripts/check.
    let entered: Vec<PathBuf> = paths.iter().filter(|path| root.join(path).is_dir()).cloned().collect();
    for directory in entered.iter().take(MAX_DIRECTORIES) {
        let relative = words.iter().filter(|word| !word.starts_with(['/', '$', '~']));
        paths.extend(relative.filter_map(|word| normal(&directory.join(word))));
    }
    paths
}

/// The words of a command that may be names of files, without quotes. What it only writes to or looks for is left out.
fn words(command: &[String]) -> Vec<String> {
    let mut words = Vec::new();
    for part in command {
        for (word, is_left_out) in split(part, true) {
            let pieces = split(&word, false).into_iter().filter(|_| word.contains(is_separator));
            let all = std::iter::once((word.clone(), is_left_out)).chain(pieces);
            words.extend(all.filter(|(_, is_left_out)| !is_left_out).map(|(word, _)| word));
        }
    }
    let values: Vec<String> = words.iter().filter_map(|word| Some(word.split_once('=')?.1.to_owned())).collect();
    words.extend(values);
    words.retain(|word| !word.is_empty());
    words.truncate(MAX_WORDS);
    words
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || ";|&()<>`".contains(c)
}

/// The words between separators, and whether each is only written to (`> FILE`) or looked for (`[ -f FILE ]`). Separators in
/// quotes count only if quotes do not.
fn split(text: &str, has_quotes: bool) -> Vec<(String, bool)> {
    let (mut words, mut quote, mut is_output, mut is_test) = (vec![(String::new(), false)], None, false, false);
    for c in text.chars() {
        let (word, is_left_out) = words.last_mut().expect("there is always one");
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c).filter(|_| has_quotes),
            (_, '\\') => {}
            (None, c) if is_separator(c) => {
                // Blanks between `>` and the name of the file.
                is_output = c == '>' || c.is_whitespace() && is_output && word.is_empty();
                is_test |= matches!(word.as_str(), "[" | "[[" | "test");
                is_test &= !matches!(word.as_str(), "]" | "]]") && !";|&\n".contains(c);
                words.push((String::new(), false));
            }
            (_, c) => {
                word.push(c);
                *is_left_out |= is_output || is_test;
            }
        }
    }
    words
}

/// Where a word leads to in the project.
fn below(word: &str, root: &Path) -> Option<PathBuf> {
    if let Some(rest) = ROOTS.iter().find_map(|name| word.strip_prefix(name)) {
        return normal(Path::new(rest.trim_start_matches('/')));
    }
    if let Some(rest) = word.strip_prefix("~/") {
        return normal(std::env::home_dir()?.join(rest).strip_prefix(root).ok()?);
    }
    let path = Path::new(word);
    match path.strip_prefix(root) {
        Ok(inside) => normal(inside),
        // What stands before it may be the directory of the project: `$(git rev-parse --show-toplevel)/check`.
        Err(_) if path.is_absolute() && !path.exists() => normal(Path::new(word.trim_start_matches('/'))),
        Err(_) if path.is_absolute() => None,
        Err(_) => normal(path),
    }
}

/// Without `.` and `..`; `None` if it leads out.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if !normal.pop() => return None,
            Component::ParentDir => {}
            Component::Normal(name) => normal.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal).filter(|path| !path.as_os_str().is_empty())
}

/// Whether there is a file at this path in the project, itself or by a link.
pub fn is_there(root: &Path, path: &Path) -> bool {
    real(root, path).is_some_and(|real| real.is_file())
}

fn real(root: &Path, path: &Path) -> Option<PathBuf> {
    root.join(path).canonicalize().ok().filter(|real| real.starts_with(root))
}

/// The bytes of a file in the project.
pub fn read(root: &Path, path: &Path) -> Result<Vec<u8>, String> {
    let real = real(root, path).ok_or("is missing")?;
    let mut bytes = Vec::new();
    let opened = open_regular(&real).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    opened.map_err(|_| "is not a regular file, or cannot be read")?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("is larger than {} KiB, which cannot be trusted", MAX_BYTES / 1024));
    }
    Ok(bytes)
}

/// Why a hook is not run in the project at this directory, in one line: a file that it names is not the trusted one.
pub fn changed(hook: &Hook, root: &Path) -> Option<String> {
    for script in &hook.scripts {
        let why = match (read(root, &script.path).map(|bytes| sha256(&bytes)), &script.digest) {
            (Ok(now), Some(trusted)) if now == *trusted => continue,
            (Err(why), _) => why,
            (Ok(_), Some(_)) => format!("was changed since you trusted it: {HOW_TO_TRUST}"),
            (Ok(_), None) => format!("is not trusted: {HOW_TO_TRUST}"),
        };
        return Some(format!("{} {why}", root.join(&script.path).display()));
    }
    let is_known = |path: &PathBuf| hook.scripts.iter().any(|script| script.path == *path);
    // A word like `test` is rather a program than a file that has appeared meanwhile.
    let is_path = |path: &PathBuf| path.to_string_lossy().contains(['/', '.']);
    let new = named_paths(&hook.command, root)
        .into_iter()
        .filter(is_path)
        .find(|path| !is_known(path) && is_there(root, path));
    new.map(|path| format!("{} is new since you trusted the hook: {HOW_TO_TRUST}", root.join(path).display()))
}

/// Where a hook runs: one of a project in the directory of that project. In a worktree this is the copy, if its files are
/// the trusted ones, and the project itself otherwise, so that no agent gets rid of a hook by changing its copy.
///
/// # Errors
/// The hook is not run, because its files are not the trusted ones, in one line.
pub fn place(hook: &Hook, env: &Environment) -> Result<PathBuf, String> {
    let project = hook.project.as_ref().filter(|_| hook.author == Author::Project);
    let Some(project) = project else { return Ok(env.working_directory.clone()) };
    let is_here = env.working_directory.starts_with(project);
    let copy = env.copy_of(project).filter(|copy| !is_here && changed(hook, copy).is_none());
    match copy {
        Some(copy) => Ok(copy),
        None => changed(hook, project).map_or_else(|| Ok(project.clone()), Err),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;
    use crate::domain::hook::{HookEvent, HookScript};

    fn hook(command: &str, root: &Path) -> Hook {
        let command = vec!["sh".into(), "-c".into(), command.into()];
        let digest = |path: &PathBuf| read(root, path).ok().map(|bytes| sha256(&bytes));
        let scripts = named_paths(&command, root).into_iter().filter(|path| is_there(root, path));
        let scripts = scripts.map(|path| HookScript { digest: digest(&path), path }).collect();
        Hook {
            event: HookEvent::PreTool,
            matcher: String::new(),
            command,
            timeout: Duration::from_secs(1),
            is_required: false,
            author: Author::Project,
            has_claude_names: true,
            source: String::new(),
            project: Some(root.to_owned()),
            scripts,
        }
    }

    fn project() -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap().join("project");
        for (path, text) in [("scripts/x.py", "1"), ("a b/c.sh", "2"), ("check", "3"), ("../outside", "4")] {
            let path = root.join(path);
            fs::create_dir_all(root.join("scripts")).unwrap();
            fs::create_dir_all(root.join("a b")).unwrap();
            fs::write(path, text).unwrap();
        }
        (top, root)
    }

    #[test]
    fn the_files_that_a_command_names_are_found_however_they_are_written() {
        let (_top, root) = project();
        let absolute = format!("{}/scripts/x.py --fast", root.display());
        for (command, expected) in [
            ("./scripts/x.py", &["scripts/x.py"][..]),
            ("python3 \"$CLAUDE_PROJECT_DIR\"/scripts/x.py", &["scripts/x.py"]),
            ("\"${CLAUDE_PROJECT_DIR}/a b/c.sh\"", &["a b/c.sh"]),
            ("sh -c 'cd scripts && ./x.py || true'", &["scripts/x.py"]),
            ("$(git rev-parse --show-toplevel)/scripts/x.py", &["scripts/x.py"]),
            (&absolute, &["scripts/x.py"]),
            ("node --require=./check <scripts/x.py", &["check", "scripts/x.py"]),
            ("sh check;sh scripts/../scripts/x.py", &["check", "scripts/x.py"]),
            ("cat >> scripts/x.py; date > \"check\"", &[]),
            ("[[ -f check ]] && test -e scripts/x.py || sh -c 'test -f check && true'", &[]),
            ("[ -x check ] && sh check", &["check"]),
            ("cat ../outside /etc/passwd; echo scripts", &[]),
        ] {
            let found: Vec<PathBuf> = hook(command, &root).scripts.into_iter().map(|script| script.path).collect();
            assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{command}");
        }
    }

    #[test]
    fn a_file_that_is_changed_replaced_removed_or_new_is_noticed() {
        let (_top, root) = project();
        let hook = hook("scripts/x.py && scripts/y.py", &root);
        assert_eq!(changed(&hook, &root), None);
        fs::write(root.join("scripts/y.py"), "new").unwrap();
        assert!(
            changed(&hook, &root)
                .unwrap()
                .ends_with("y.py is new since you trusted the hook: to trust it, run polylogue config trust")
        );
        fs::remove_file(root.join("scripts/y.py")).unwrap();
        let script = root.join("scripts/x.py");
        fs::write(&script, "other").unwrap();
        assert!(changed(&hook, &root).unwrap().contains("x.py was changed since you trusted it"));
        fs::remove_file(&script).unwrap();
        assert!(changed(&hook, &root).unwrap().ends_with("x.py is missing"));
        symlink("../../outside", &script).unwrap();
        assert!(changed(&hook, &root).is_some(), "a link out of the project");
        fs::remove_file(&script).unwrap();
        fs::write(&script, "1").unwrap();
        assert_eq!(changed(&hook, &root), None);
        let untrusted = Hook { scripts: vec![HookScript { path: "check".into(), digest: None }], ..hook };
        assert!(changed(&untrusted, &root).unwrap().contains("check is not trusted"));
    }
}
