//! Which files the tools of a model may open: the verdict about a path, by the tables of `domain::places`.
//!
//! A verdict is about a canonical path: absolute, without `.`, `..` and symbolic links. The caller resolves it and
//! opens exactly that file. Nothing here accesses the file system.

use std::ffi::OsStr;
use std::fmt::{self, Debug};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::domain::places::matches;
pub use crate::domain::places::{DENIED, MOVED, PROTECTED};

/// The use of a path by a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// Read a directory and everything below it.
    List,
    /// Create or change a file.
    Write,
}

/// The verdict on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Inside the workspace. Whether writing asks is a matter of the policy.
    Free,
    /// Outside of the workspace: asks once for this directory, or each time for this path if it is not a directory.
    AskOutside(PathBuf),
    /// Writing asks under every policy, because the file configures agents or git.
    AskProtected,
    /// Never opened for a model; the text names the kind of file.
    Denied(&'static str),
}

impl Verdict {
    /// The verdict if it turns out that the file configures agents or git.
    pub fn or_protected(self) -> Self {
        match self {
            Self::Free | Self::AskOutside(_) | Self::AskProtected => Self::AskProtected,
            Self::Denied(what) => Self::Denied(what),
        }
    }
}

/// Denied paths of the system.
pub const DENIED_SYSTEM: &[(&str, &str)] = &[
    ("/proc/PID", "environment and memory of processes"),
    ("/proc/kcore", "the memory of the system"),
    ("/proc/kmsg", "the log of the kernel"),
];

/// The name of our own data, configuration and socket in messages and in the manual.
pub const OWN: &str = "data and configuration of polylogue";

/// Below these every directory is the home of a user.
const HOMES: [&str; 2] = ["/home", "/Users"];
const ROOT_HOMES: [&str; 2] = ["/root", "/var/root"];

/// Where the denied files of this machine are. All paths are canonical.
#[derive(Debug, Default)]
pub struct DenyList {
    pub home: Option<PathBuf>,
    /// Our data and configuration.
    pub own: Vec<PathBuf>,
    /// Where the rows of [`DENIED`] lead that are symbolic links, or that a variable moves.
    pub linked: Linked,
}

/// Paths with what is there, which are looked up when the first verdict needs them.
pub struct Linked(LazyLock<Found, Box<dyn FnOnce() -> Found + Send>>);

type Found = Vec<(PathBuf, &'static str)>;

impl Linked {
    pub fn new(look_up: impl FnOnce() -> Found + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(look_up)))
    }
}

impl Default for Linked {
    fn default() -> Self {
        Self::new(Vec::new)
    }
}

impl Deref for Linked {
    type Target = [(PathBuf, &'static str)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Debug for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Where the tools of one agent may go. All paths are canonical.
#[derive(Debug, Clone, Copy)]
pub struct PathPolicy<'a> {
    /// The directory in which the agent works.
    pub workspace: &'a Path,
    /// The directory with the output of commands that was too long; its files may be read.
    pub outputs: &'a Path,
    /// The folders of skills; their files may be read, even in our configuration directory.
    pub skills: &'a [PathBuf],
    /// Files that are protected besides those with certain names.
    pub guarded: &'a [PathBuf],
    pub denied: &'a DenyList,
}

impl PathPolicy<'_> {
    pub fn verdict(&self, path: &Path, access: Access) -> Verdict {
        if access != Access::Write && self.is_skill(path) {
            return Verdict::Free;
        }
        if let Some(what) = self.denial_at(path) {
            return Verdict::Denied(what);
        }
        let in_workspace = path.strip_prefix(self.workspace).ok();
        if access == Access::Write && (is_protected(in_workspace.unwrap_or(path)) || self.is_guarded(path)) {
            return Verdict::AskProtected;
        }
        if in_workspace.is_some() || access == Access::Read && self.is_output(path) {
            return Verdict::Free;
        }
        Verdict::AskOutside(self.directory_to_ask_for(path, access))
    }

    /// The kind of denied file at this path; `None` if it is not denied.
    pub fn denial_at(&self, path: &Path) -> Option<&'static str> {
        let is_own = self.denied.own.iter().any(|own| path.starts_with(own) && !self.is_open_in(own, path));
        if is_own && !self.is_output(path) {
            return Some(OWN);
        }
        self.denied.find(path)
    }

    /// Whether something below this directory is denied. May be wrong in one way: true although there is nothing.
    pub fn may_contain_denied(&self, directory: &Path) -> bool {
        self.denied.may_be_below(directory)
    }

    /// A workspace inside our data is a worktree of ours.
    fn is_open_in(&self, own: &Path, path: &Path) -> bool {
        self.workspace != own && self.workspace.starts_with(own) && path.starts_with(self.workspace)
    }

    /// Whether a path is a guarded file.
    fn is_guarded(&self, path: &Path) -> bool {
        self.guarded.iter().any(|guarded| guarded == path)
    }

    fn is_skill(&self, path: &Path) -> bool {
        self.skills.iter().any(|folder| path.starts_with(folder)) && self.denied.find(path).is_none()
    }

    fn is_output(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        path.parent() == Some(self.outputs) && name.starts_with("bash-") && name.ends_with(".txt")
    }

    /// A directory with a person's files of all kinds is not allowed as a whole: there each file asks.
    fn directory_to_ask_for(&self, path: &Path, access: Access) -> PathBuf {
        match path.parent() {
            Some(parent) if access != Access::List && !self.denied.is_broad(parent) => parent.into(),
            _ => path.into(),
        }
    }
}

impl DenyList {
    /// The kind of denied file at this path, besides our own files.
    fn find(&self, path: &Path) -> Option<&'static str> {
        let linked = self.linked.iter().find(|(target, _)| path.starts_with(target)).map(|(_, what)| *what);
        linked.or_else(|| denied_of_system(path)).or_else(|| {
            let row = |below: &Path| DENIED.iter().find(|(row, _)| is_at_or_below(row, below)).map(|(_, what)| *what);
            self.below_homes(path).into_iter().find_map(row)
        })
    }

    /// Whether something of the list is below this directory. May be wrong in one way: true although there is nothing.
    pub fn may_be_below(&self, directory: &Path) -> bool {
        let is_above = |path: &Path| path.starts_with(directory);
        let is_above_row = |below: &Path| DENIED.iter().any(|(row, _)| is_above_row(row, below));
        HOMES.iter().chain(&ROOT_HOMES).any(|home| is_above(Path::new(home)))
            || is_above(Path::new("/proc"))
            || self.home.iter().chain(&self.own).any(|path| is_above(path))
            || self.linked.iter().any(|(path, _)| is_above(path))
            || self.below_homes(directory).into_iter().any(is_above_row)
    }

    /// The path relative to each home directory that it is in.
    fn below_homes<'a>(&self, path: &'a Path) -> Vec<&'a Path> {
        let own = self.home.iter().filter_map(|home| path.strip_prefix(home).ok());
        let root = ROOT_HOMES.iter().filter_map(|home| path.strip_prefix(home).ok());
        let others = HOMES.iter().filter_map(|homes| {
            let mut rest = path.strip_prefix(homes).ok()?.components();
            rest.next()?;
            Some(rest.as_path())
        });
        own.chain(root).chain(others).collect()
    }

    /// Whether it is a home directory, above one, or a directory in it where all programs have their files.
    pub fn is_broad(&self, directory: &Path) -> bool {
        let is_shared = |rest: &Path| matches!(rest.to_str(), Some("" | ".config" | ".local" | ".local/share"));
        self.below_homes(directory).iter().any(|rest| is_shared(rest))
            || HOMES.iter().any(|home| Path::new(home).starts_with(directory))
            || self.home.as_ref().is_some_and(|home| home.starts_with(directory))
    }
}

/// The directories outside of the workspace that a person allowed one agent to read. Forgotten with the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedDirectories(Vec<PathBuf>);

impl AllowedDirectories {
    pub fn allow(&mut self, directory: PathBuf) {
        if !self.0.contains(&directory) {
            self.0.push(directory);
        }
    }

    /// Whether this directory, or one above it, was allowed. A home directory and those above it allow only themselves.
    pub fn covers(&self, directory: &Path, denied: &DenyList) -> bool {
        let covers =
            |allowed: &PathBuf| directory == allowed || directory.starts_with(allowed) && !denied.is_broad(allowed);
        self.0.iter().any(covers)
    }
}

/// Whether one of the names is protected. File systems may ignore case.
fn is_protected(path: &Path) -> bool {
    path.components()
        .any(|part| PROTECTED.iter().any(|protected| part.as_os_str().eq_ignore_ascii_case(protected.name)))
}

fn denied_of_system(path: &Path) -> Option<&'static str> {
    let mut parts = path.strip_prefix("/proc").ok()?.components().filter_map(|part| part.as_os_str().to_str());
    let first = parts.next()?;
    let is_process = first.parse::<u32>().is_ok() || matches!(first, "self" | "thread-self");
    let row = |(row, _): &&(&str, &str)| match row.strip_prefix("/proc/") {
        Some("PID") => is_process,
        name => name == Some(first),
    };
    DENIED_SYSTEM.iter().find(row).map(|(_, what)| *what)
}

/// Whether a path below a home is that of a row, or below it.
pub fn is_at_or_below(row: &str, path: &Path) -> bool {
    let mut parts = path.components();
    row.split('/').all(|name| parts.next().is_some_and(|part| matches(name, &part.as_os_str().to_string_lossy())))
}

/// Whether a path below a home is that of a row, or above it.
fn is_above_row(row: &str, path: &Path) -> bool {
    let mut names = row.split('/');
    path.components().all(|part| names.next().is_some_and(|name| matches(name, &part.as_os_str().to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "/home/ada/.local/share/polylogue";
    const OUTPUTS: &str = "/home/ada/.local/share/polylogue/outputs";

    const GUARDED: &str = "/home/ada/src/project/scripts/check";
    const SKILL: &str = "/home/ada/.config/polylogue/skills/notes";

    fn denied() -> DenyList {
        DenyList {
            home: Some("/home/ada".into()),
            own: vec![DATA.into(), "/home/ada/.config/polylogue".into()],
            linked: Linked::new(|| vec![("/mnt/keys".into(), "SSH keys")]),
        }
    }

    fn verdict_in(workspace: &str, path: impl AsRef<Path>, access: Access) -> Verdict {
        let skills = [SKILL.into(), "/home/ada/.ssh/skill".into()];
        let (workspace, outputs) = (Path::new(workspace), Path::new(OUTPUTS));
        let policy = PathPolicy { workspace, outputs, skills: &skills, guarded: &[GUARDED.into()], denied: &denied() };
        policy.verdict(path.as_ref(), access)
    }

    fn verdict(path: &str, access: Access) -> Verdict {
        verdict_in("/home/ada/src/project", path, access)
    }

    fn is_denied(path: &str) -> bool {
        [Access::Read, Access::List, Access::Write]
            .iter()
            .all(|access| matches!(verdict(path, *access), Verdict::Denied(_)))
    }

    #[test]
    fn keys_logins_histories_and_our_own_files_are_denied_everywhere() {
        for path in [
            "/home/ada/.ssh",
            "/home/ada/.ssh/id_ed25519",
            "/home/ada/.SSH/id_ed25519",
            "/root/.ssh/id_rsa",
            "/home/grace/.aws/credentials",
            "/Users/ada/.netrc",
            "/home/ada/.cargo/credentials.toml",
            "/home/ada/.cargo/credentials",
            "/home/ada/.docker/config.json",
            "/home/ada/.config/gh/hosts.yml",
            "/home/ada/.bash_history",
            "/home/ada/.zsh_history.new",
            "/home/ada/.python_history",
            "/home/ada/.local/share/fish/fish_history",
            "/home/ada/.claude/.credentials.json",
            "/home/ada/.local/share/polylogue/polylogue.db",
            "/home/ada/.config/polylogue/config.toml",
            "/mnt/keys/id_rsa",
            "/proc/1/environ",
            "/proc/self/mem",
            "/proc/77/task/78/environ",
            "/proc/kcore",
        ] {
            assert!(is_denied(path), "{path}");
        }
        for path in ["/home/ada/.sshd", "/home/ada/src/.ssh", "/home/ada/.cargo/config.toml", "/proc/cpuinfo", "/etc"] {
            assert!(!is_denied(path), "{path}");
        }
    }

    #[test]
    fn what_is_denied_stays_denied_in_a_workspace_that_contains_it() {
        let verdict = |path: &str| verdict_in("/home/ada", path, Access::Read);
        assert_eq!(verdict("/home/ada/notes"), Verdict::Free);
        assert_eq!(verdict("/home/ada/.ssh/id_rsa"), Verdict::Denied("SSH keys"));
        assert_eq!(verdict("/home/ada/.local/share/polylogue/polylogue.db"), Verdict::Denied(OWN));
    }

    #[test]
    fn the_files_of_a_skill_may_be_read_and_not_written_and_what_is_private_stays_so() {
        let in_skill = |name: &str| Path::new(SKILL).join(name);
        assert_eq!(verdict_in("/w", in_skill("scripts/run"), Access::Read), Verdict::Free);
        assert_eq!(verdict_in("/w", SKILL, Access::List), Verdict::Free);
        assert_eq!(verdict_in("/w", in_skill("SKILL.md"), Access::Write), Verdict::Denied(OWN));
        assert_eq!(verdict_in("/w", "/home/ada/.config/polylogue/skills", Access::List), Verdict::Denied(OWN));
        assert_eq!(verdict_in("/w", "/home/ada/.ssh/skill/x", Access::Read), Verdict::Denied("SSH keys"));
    }

    #[test]
    fn of_our_data_the_worktree_of_the_agent_and_saved_output_are_open() {
        let in_data = |name: &str| Path::new(DATA).join(name);
        assert_eq!(verdict_in("/w", in_data("outputs/bash-1-2-3.txt"), Access::Read), Verdict::Free);
        assert!(matches!(verdict_in("/w", in_data("outputs/bash-1-2-3.txt"), Access::Write), Verdict::AskOutside(_)));
        for name in ["outputs/other", "outputs", "outputs/bash-1/x.txt", "worktrees/abc/f"] {
            assert_eq!(verdict_in("/w", in_data(name), Access::Read), Verdict::Denied(OWN), "{name}");
        }
        let worktree = in_data("worktrees/abc");
        let read = |name: &str| verdict_in(worktree.to_str().unwrap(), in_data(name), Access::Read);
        assert_eq!(read("worktrees/abc/f"), Verdict::Free);
        assert_eq!(read("worktrees/other/f"), Verdict::Denied(OWN));
        assert_eq!(verdict_in(DATA, in_data("polylogue.db"), Access::Read), Verdict::Denied(OWN));
    }

    #[test]
    fn a_guarded_file_asks_when_written_and_not_when_read() {
        assert_eq!(verdict(GUARDED, Access::Write), Verdict::AskProtected);
        assert_eq!(verdict(GUARDED, Access::Read), Verdict::Free);
        assert_eq!(verdict("/home/ada/src/project/scripts/other", Access::Write), Verdict::Free);
    }

    #[test]
    fn protected_names_ask_when_written_and_not_when_read() {
        let path = |name: &str| format!("/home/ada/src/project/{name}");
        for name in
            [".git/config", "sub/.git/hooks/pre-commit", "AGENTS.md", "a/b/claude.md", ".mcp.json", ".polylogue/x"]
        {
            assert_eq!(verdict(&path(name), Access::Write), Verdict::AskProtected, "{name}");
            assert_eq!(verdict(&path(name), Access::Read), Verdict::Free, "{name}");
        }
        assert_eq!(verdict(&path(".gitignore"), Access::Write), Verdict::Free);
        assert_eq!(verdict("/home/ada/src/other/.git/config", Access::Write), Verdict::AskProtected);
        let inside = "/w/.claude/worktrees/x";
        assert_eq!(verdict_in(inside, Path::new(inside).join("main.rs"), Access::Write), Verdict::Free);
    }

    #[test]
    fn outside_of_the_workspace_the_directory_asks_and_in_a_home_each_file() {
        let outside = |path: &str| Verdict::AskOutside(path.into());
        assert_eq!(verdict("/home/ada/src/project2/f", Access::Read), outside("/home/ada/src/project2"));
        assert_eq!(verdict("/etc/hosts", Access::Write), outside("/etc"));
        assert_eq!(verdict("/etc", Access::List), outside("/etc"));
        assert_eq!(verdict("/home/ada/notes", Access::Read), outside("/home/ada/notes"));
        assert_eq!(verdict("/home/grace/notes", Access::Read), outside("/home/grace/notes"));
        assert_eq!(verdict("/swapfile", Access::Read), outside("/swapfile"));
    }

    #[test]
    fn an_allowed_directory_covers_what_is_below_unless_it_is_a_home() {
        let mut allowed = AllowedDirectories::default();
        for directory in ["/etc", "/home/ada", "/"] {
            allowed.allow(directory.into());
        }
        let covers = |path: &str| allowed.covers(Path::new(path), &denied());
        assert!(covers("/etc") && covers("/etc/apt") && covers("/home/ada") && covers("/"));
        assert!(!covers("/usr") && !covers("/etcetera") && !covers("/home/ada/notes"));
    }

    #[test]
    fn a_directory_may_contain_something_denied_if_a_row_is_below_it() {
        for (directory, expected) in [
            ("/", true),
            ("/home", true),
            ("/home/ada", true),
            ("/home/ada/.config", true),
            ("/home/ada/.local/share", true),
            ("/home/grace/.cargo", true),
            ("/mnt", true),
            ("/home/ada/src", false),
            ("/home/ada/src/project", false),
            ("/etc", false),
        ] {
            assert_eq!(denied().may_be_below(Path::new(directory)), expected, "{directory}");
        }
    }
}
