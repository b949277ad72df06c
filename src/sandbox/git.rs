//! Files that git obeys in a repository: its git directory, and the files and directories that its configuration names.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::search::directories_below;
use crate::base::beneath::{read, read_followed};
use crate::domain::places::PROTECTED_IN_GIT;

/// Files that configure git for a person, below the home directory.
const PERSONAL: [&str; 2] = [".gitconfig", ".config/git/config"];
/// How deep configuration files may include each other.
const MAX_INCLUDES: usize = 4;
/// In bytes; a longer configuration is not read.
const MAX_CONFIGURATION: u64 = 1 << 20;
/// Of a file that names a directory, in bytes.
const MAX_NAME: u64 = 16 << 10;

/// The git directory of the repository that a working tree belongs to.
pub fn git_directory(root: &Path) -> Option<PathBuf> {
    match GitDirectory::of(&root.join(".git"))? {
        GitDirectory::Main(directory) | GitDirectory::Worktree { common: directory, .. } => Some(directory),
    }
}

/// The directory with the index and the `HEAD` of a working tree, if it belongs to the repository with this git directory.
pub fn own_git_directory(root: &Path, repository: &Path) -> Option<PathBuf> {
    let (own, common) = match GitDirectory::of(&root.join(".git"))? {
        GitDirectory::Main(directory) => (directory.clone(), directory),
        GitDirectory::Worktree { own, common } => (own, common),
    };
    (common.canonicalize().ok()? == repository.canonicalize().ok()?).then_some(own)
}

pub enum GitDirectory {
    Main(PathBuf),
    Worktree {
        own: PathBuf,
        /// That of the repository which the worktree belongs to.
        common: PathBuf,
    },
}

impl GitDirectory {
    /// Follows a `.git` as git does (gitrepository-layout(5)). A file counts only if the repository names it in turn, since
    /// a command could have written it to open a directory of its choice.
    pub fn of(git: &Path) -> Option<Self> {
        let found = git.symlink_metadata().ok()?;
        if found.is_dir() {
            return Some(Self::Main(git.to_owned()));
        }
        let text = text_of(git).filter(|_| found.is_file())?;
        let own = git.parent()?.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
        let back = text_of(&own.join("gitdir"))?;
        let is_named = own.join(back.trim()).canonicalize().ok()? == git.canonicalize().ok()?;
        let parent = own.parent().filter(|parent| parent.ends_with("worktrees"))?;
        let common = parent.parent().filter(|common| is_named && common.join("objects").is_dir())?.to_owned();
        Some(Self::Worktree { own, common })
    }
}

/// A short file, through no symbolic link of its own directory.
fn text_of(path: &Path) -> Option<String> {
    let real = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    String::from_utf8(read(&real, MAX_NAME).ok()?).ok()
}

/// The protected files of a git directory, and those of its submodules and worktrees, whose names may have slashes.
/// `None` if it has too many directories.
pub fn protected_in(git: &Path) -> Option<Vec<PathBuf>> {
    let mut protected: Vec<PathBuf> = PROTECTED_IN_GIT.iter().map(|name| git.join(name)).collect();
    for parent in ["modules", "worktrees"] {
        let inner = directories_below(&git.join(parent))?;
        let inner = inner.iter().filter(|inner| inner.join("HEAD").exists());
        let paths = inner.flat_map(|inner| PROTECTED_IN_GIT.iter().map(move |name| inner.join(name)));
        protected.extend(paths.filter(|path| path.symlink_metadata().is_ok()));
    }
    Some(protected)
}

/// The files that git reads or runs because of configuration files.
#[derive(Debug, Default)]
pub struct Named {
    /// Included files and the directory of hooks, in absolute paths.
    pub paths: Vec<PathBuf>,
    /// Configuration files that git reads and this process does not: too long, or no regular files.
    pub unread: Vec<PathBuf>,
}

/// The files that the configurations of a repository and of the person name. `top` is the working tree.
pub fn named_by_configuration(git: &Path, top: &Path, home: Option<&Path>) -> Named {
    let own = ["config", "config.worktree"].map(|name| git.join(name));
    let personal = PERSONAL.iter().filter_map(|name| Some(home?.join(name)));
    let mut named = Named::default();
    own.into_iter().chain(personal).for_each(|file| read_configuration(&file, top, home, MAX_INCLUDES, &mut named));
    named
}

fn read_configuration(file: &Path, top: &Path, home: Option<&Path>, depth: usize, named: &mut Named) {
    let text = match read_followed(file, MAX_CONFIGURATION) {
        Ok(text) => text,
        // Git does not read it either.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::PermissionDenied
            ) =>
        {
            return;
        }
        Err(_) => return named.unread.push(file.to_owned()),
    };
    let text = String::from_utf8_lossy(&text);
    for (section, key, value) in settings(&text) {
        let path = match (value.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(&value),
        };
        match (section.as_str(), key.as_str()) {
            ("core", "hookspath") => named.paths.push(top.join(path)),
            ("include" | "includeif", "path") => {
                let included = file.parent().unwrap_or(top).join(path);
                if depth > 0 {
                    read_configuration(&included, top, home, depth - 1, named);
                } else {
                    named.unread.push(included.clone());
                }
                named.paths.push(included);
            }
            _ => {}
        }
    }
}

/// The section without its second part, the key and the value of each line, the names in lower case (git-config(1)).
fn settings(text: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    for mut line in joined.lines().map(str::trim) {
        if let Some((head, rest)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            section = head.split([' ', '\t', '"', '.']).next().unwrap_or_default().to_ascii_lowercase();
            line = rest.trim();
        }
        if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) {
            found.push((section.clone(), key.trim().to_ascii_lowercase(), unquoted(value.trim())));
        }
    }
    found
}

/// A value without its quotes and the comment after it.
fn unquoted(value: &str) -> String {
    let (mut text, mut is_quoted) = (String::new(), false);
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '\\' => text.extend(characters.next()),
            '#' | ';' if !is_quoted => break,
            character => text.push(character),
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_configuration_names_hooks_and_included_files() {
        let top = tempfile::tempdir().unwrap();
        let git = top.path().join(".git");
        fs::create_dir(&git).unwrap();
        let text = "[core]\n\tbare = false\n\tHooksPath = \".hus#ky\" ; a comment\n# [core] hooksPath = no\n\
                    [include] path = ../shared\n[includeIf \"gitdir:~/x/[a]\"]\npath=~/mine\n";
        fs::write(git.join("config"), text).unwrap();
        fs::write(top.path().join("shared"), "[core]\nhookspath = \\\nother\n").unwrap();
        let home = Path::new("/nowhere");
        let named = named_by_configuration(&git, top.path(), Some(home));
        let expected = [top.path().join(".hus#ky"), top.path().join("other"), git.join("../shared"), home.join("mine")];
        assert_eq!(named.paths, expected);
        assert!(named.unread.is_empty());
    }
}
