//! Where agents work, for lists: short names of directories, and their git branches, read from `.git/HEAD` without running
//! git (gitrepository-layout(5)).
//!
//! A branch is read when an agent begins or is first shown in its directory and when a turn there ends, never for each frame.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::agent::Agent;
use crate::base::file;

/// The most directories whose branches are remembered. With one more, all are read again when they are shown.
const MAX_DIRECTORIES: usize = 64;
/// Bytes of a file that are read: a branch is a path below `.git`.
const MAX_BYTES: u64 = 8 * 1024;
/// Hexadecimal digits that are shown of a commit without a branch.
const COMMIT_DIGITS: usize = 7;

/// The branches that were read.
#[derive(Debug, Default)]
pub struct Branches {
    read: HashMap<PathBuf, Option<String>>,
}

impl Branches {
    /// The branch of a directory, if it was read and is in a repository.
    pub fn get(&self, directory: &Path) -> Option<&str> {
        self.read.get(directory)?.as_deref()
    }

    /// Reads the branches of the first of these directories, for lists.
    pub fn read_first<'a>(&mut self, directories: impl Iterator<Item = &'a Path>) {
        for directory in directories {
            if self.read.len() == MAX_DIRECTORIES {
                break;
            }
            self.read(directory);
        }
    }

    /// Reads the branch unless it is known.
    pub fn read(&mut self, directory: &Path) {
        if !self.read.contains_key(directory) {
            self.refresh(directory);
        }
    }

    /// Reads the branch again.
    pub fn refresh(&mut self, directory: &Path) {
        if self.read.len() >= MAX_DIRECTORIES && !self.read.contains_key(directory) {
            self.read.clear();
        }
        self.read.insert(directory.to_owned(), branch_of(directory));
    }
}

/// Some directories, to give each a short name.
#[derive(Debug, Default)]
pub struct DirectoryNames(BTreeSet<PathBuf>);

impl FromIterator<PathBuf> for DirectoryNames {
    fn from_iter<T: IntoIterator<Item = PathBuf>>(directories: T) -> Self {
        Self(directories.into_iter().collect())
    }
}

impl DirectoryNames {
    /// The last part of a path, with as many before it as no other directory ends with.
    pub fn name(&self, directory: &Path) -> String {
        let is_other = |end: &Path| self.0.iter().any(|other| other != directory && other.ends_with(end));
        let parts: Vec<&OsStr> = directory.iter().collect();
        let ends = (1..parts.len()).map(|count| parts[parts.len() - count..].iter().collect::<PathBuf>());
        ends.into_iter().find(|end| !is_other(end)).unwrap_or_else(|| directory.to_owned()).display().to_string()
    }
}

/// Where some agents work.
pub struct Places<'a> {
    names: DirectoryNames,
    branches: &'a Branches,
}

impl<'a> Places<'a> {
    /// The places of these agents.
    pub fn of<'b>(agents: impl Iterator<Item = &'b Agent>, branches: &'a Branches) -> Self {
        Self { names: agents.map(|agent| agent.inputs.environment.place().to_owned()).collect(), branches }
    }

    /// Whether they work in more than one directory.
    pub fn are_several(&self) -> bool {
        self.names.0.len() > 1
    }

    /// The directory and the branch, if that was read.
    pub fn of_agent(&self, agent: &Agent) -> String {
        let environment = &agent.inputs.environment;
        if let Some(name) = environment.place_name() {
            return name;
        }
        let name = self.names.name(environment.place());
        let branch = self.branches.get(environment.place()).filter(|_| environment.remote.is_none());
        branch.map_or_else(|| name.clone(), |branch| format!("{name} {branch}"))
    }
}

/// The branch that is checked out in the repository of this directory, or the beginning of the commit.
fn branch_of(directory: &Path) -> Option<String> {
    let repository = directory.ancestors().find_map(file::git_in)?;
    // In a worktree or a submodule `.git` is a file that names the directory.
    let head = match read_file(&repository) {
        Some(link) => repository.parent()?.join(link.trim().strip_prefix("gitdir: ")?).join("HEAD"),
        None => repository.join("HEAD"),
    };
    // Old versions of git made it a symbolic link.
    if let Ok(reference) = std::fs::read_link(&head) {
        return Some(name_of(reference.to_str()?));
    }
    let head = read_file(&head)?;
    let head = head.trim();
    match head.strip_prefix("ref: ") {
        Some(reference) => Some(name_of(reference)),
        None => head.get(..COMMIT_DIGITS).map(str::to_owned),
    }
}

fn name_of(reference: &str) -> String {
    reference.strip_prefix("refs/heads/").unwrap_or(reference).to_owned()
}

/// The beginning of a regular file: others could block the loop, or have no end.
fn read_file(path: &Path) -> Option<String> {
    let mut text = String::new();
    file::open_regular(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_branch_is_that_of_the_nearest_repository() {
        let home = tempfile::tempdir().unwrap();
        let (main, tree) = (home.path().join("main"), home.path().join("tree"));
        fs::create_dir_all(main.join(".git/worktrees/tree")).unwrap();
        fs::create_dir_all(main.join("below")).unwrap();
        fs::create_dir_all(&tree).unwrap();
        fs::write(main.join(".git/HEAD"), "ref: refs/heads/topic/one\n").unwrap();
        fs::write(main.join(".git/worktrees/tree/HEAD"), "0123456789abcdef\n").unwrap();
        fs::write(tree.join(".git"), "gitdir: ../main/.git/worktrees/tree\n").unwrap();
        assert_eq!(branch_of(&main.join("below")).as_deref(), Some("topic/one"));
        assert_eq!(branch_of(&tree).as_deref(), Some("0123456"));
        fs::write(main.join(".git/HEAD"), "").unwrap();
        assert_eq!(branch_of(&main), None);
        fs::remove_file(main.join(".git/HEAD")).unwrap();
        std::os::unix::fs::symlink("refs/heads/old/way", main.join(".git/HEAD")).unwrap();
        assert_eq!(branch_of(&main).as_deref(), Some("old/way"));
    }

    #[test]
    fn a_pipe_in_place_of_a_file_does_not_block() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".git")).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let pipe = |path: &Path| rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0);
        pipe(&home.path().join(".git/HEAD")).unwrap();
        assert_eq!(branch_of(home.path()), None);
        let below = home.path().join("below");
        fs::create_dir(&below).unwrap();
        pipe(&below.join(".git")).unwrap();
        assert_eq!(branch_of(&below), None);
    }

    #[test]
    fn directories_with_the_same_last_part_have_more_of_their_path_in_their_name() {
        let all = ["/home/a/api", "/home/b/api", "/home/b/web", "/srv/b/api", "/"];
        let names: DirectoryNames = all.iter().map(PathBuf::from).collect();
        let named = all.map(|directory| names.name(Path::new(directory)));
        assert_eq!(named, ["a/api", "home/b/api", "web", "srv/b/api", "/"]);
        assert_eq!(names.name(Path::new("/work/docs")), "docs");
    }

    #[test]
    fn the_number_of_remembered_branches_is_bounded() {
        let mut branches = Branches::default();
        for number in 0..3 * MAX_DIRECTORIES {
            branches.read(Path::new(&format!("/nowhere/{number}")));
            assert!(branches.read.len() <= MAX_DIRECTORIES);
        }
    }

    #[test]
    fn a_known_branch_is_read_again_only_on_request() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".git")).unwrap();
        let check_out =
            |name: &str| fs::write(home.path().join(".git/HEAD"), format!("ref: refs/heads/{name}")).unwrap();
        let mut branches = Branches::default();
        assert_eq!(branches.get(home.path()), None);
        check_out("one");
        branches.read(home.path());
        check_out("two");
        branches.read(home.path());
        assert_eq!(branches.get(home.path()), Some("one"));
        branches.refresh(home.path());
        assert_eq!(branches.get(home.path()), Some("two"));
    }
}
