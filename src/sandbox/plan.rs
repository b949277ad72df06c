//! What one call may see and do, in absolute paths without symbolic links. The helpers get it as JSON on a socket, so that
//! no other process reads it in their command lines.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Level;
use crate::domain::places::{DENIED, MOVED, OWN, PROTECTED, PROTECTED_IN_GIT, TOOL_CHAINS, Use, matches};
use crate::domain::sandbox::{Network, SandboxSettings};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub level: Level,
    pub network: Network,
    /// Where the command starts.
    pub directory: PathBuf,
    pub home: Option<PathBuf>,
    /// The workspace first.
    pub writable: Vec<PathBuf>,
    /// Below the home directory, which is empty otherwise, or below another one that is covered.
    pub readable: Vec<PathBuf>,
    /// The same, written to in an overlay.
    pub caches: Vec<PathBuf>,
    /// Symbolic links below the home directory, and where they lead to.
    pub links: Vec<(PathBuf, PathBuf)>,
    pub denied: Vec<PathBuf>,
    /// Below writable places; need not exist.
    pub protected: Vec<PathBuf>,
    /// Names of variables besides the usual ones.
    pub variables: Vec<String>,
    pub limits: Limits,
}

/// Bounds of each process or of the whole call. In bytes, but for numbers of processes and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads of the call.
    pub processes: u64,
    pub open_files: u64,
    /// Size of a file.
    pub file: u64,
    /// Private memory of a process.
    pub memory: u64,
    /// All files together that the call writes outside of the workspace: in `/tmp`, in shared memory and in caches. They are
    /// kept in memory.
    pub scratch: u64,
}

impl Default for Limits {
    /// Generous: they stop what runs away, not what is large.
    fn default() -> Self {
        let memory = memory();
        Self { processes: 8192, open_files: 65_536, file: 16 << 30, memory, scratch: (memory / 2).min(4 << 30) }
    }
}

/// Three quarters of the machine's memory.
fn memory() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let info = rustix::system::sysinfo();
        (info.totalram.saturating_mul(u64::from(info.mem_unit)) / 4 * 3).max(2 << 30)
    }
    #[cfg(not(target_os = "linux"))]
    {
        16 << 30
    }
}

/// Why no plan can be made for a directory, as a message for the model.
pub type Refusal = String;

/// The directories of a call.
pub struct Places<'a> {
    /// What the agent works on.
    pub workspace: &'a Path,
    /// Whether the workspace is a worktree of ours, which lies in our data directory.
    pub is_own_worktree: bool,
    pub directory: &'a Path,
    /// Writable besides the workspace.
    pub more: &'a [PathBuf],
}

impl Plan {
    /// # Errors
    /// The workspace is a directory that commands must not see.
    pub fn new(
        places: &Places<'_>,
        settings: &SandboxSettings,
        home: Option<&Path>,
        level: Level,
        limits: Limits,
    ) -> Result<Self, Refusal> {
        let home = home.map(real).filter(|home| home.is_absolute() && home.parent().is_some());
        let denied = denied(home.as_deref(), settings);
        let workspace = real(places.workspace);
        if workspace.parent().is_none() {
            return Err("commands cannot run with / as the workspace: start polylogue in another directory".into());
        }
        let is_denied = |path: &Path| denied.iter().any(|denied| path.starts_with(denied));
        if is_denied(&workspace) && !places.is_own_worktree {
            return Err(format!("commands cannot run in {}: it is on the deny list", workspace.display()));
        }
        let mut plan = Self {
            level,
            network: settings.network,
            directory: real(places.directory),
            writable: vec![workspace.clone()],
            readable: Vec::new(),
            caches: Vec::new(),
            links: Vec::new(),
            protected: Vec::new(),
            variables: settings.variables.clone(),
            limits,
            home,
            denied: denied.clone(),
        };
        plan.writable.extend(places.more.iter().map(|path| real(path)));
        let more = settings.write.iter().map(|path| real(path));
        plan.writable.extend(more.filter(|path| !is_denied(path) && path.parent().is_some() && path.exists()));
        plan.add_tool_chains(&is_denied);
        let more = settings.read.iter().map(|path| real(path));
        plan.readable.extend(more.filter(|path| !is_denied(path) && path.exists()));
        plan.protect();
        Ok(plan)
    }

    /// The workspace of the agent.
    pub fn workspace(&self) -> &Path {
        &self.writable[0]
    }

    fn add_tool_chains(&mut self, is_denied: &dyn Fn(&Path) -> bool) {
        let Some(home) = self.home.clone() else { return };
        for (below, access) in TOOL_CHAINS {
            let named = home.join(below);
            let Ok(path) = named.canonicalize() else { continue };
            if is_denied(&path) || home.starts_with(&path) {
                continue;
            }
            if path != named {
                self.links.push((named, path.clone()));
            }
            // What lies elsewhere can be read there anyway.
            if *access == Use::Cache && path.is_dir() {
                self.caches.push(path);
            } else if path.starts_with(&home) {
                self.readable.push(path);
            }
        }
    }

    /// Finds the git directories of all writable places, opens those outside of them, and lists what is protected.
    fn protect(&mut self) {
        for root in self.writable.clone() {
            // Parts of a git directory have to be written; the others follow below.
            let names = PROTECTED.iter().map(|(name, _)| *name).filter(|name| *name != ".git");
            self.protected.extend(names.map(|name| root.join(name)));
            let found = git_directories_below(&root);
            let found = found.iter().filter(|git| self.writable.iter().any(|root| git.starts_with(root)));
            found.for_each(|git| self.protected.extend(protected_in(git)));
        }
        let workspace = self.workspace().to_owned();
        let around = workspace.ancestors().map(|above| above.join(".git"));
        let around: Vec<PathBuf> = around.filter(|git| git.symlink_metadata().is_ok()).collect();
        // The repository, and those that it is a submodule of.
        around.iter().for_each(|git| self.show_working_tree(git));
        if let Some(git) = around.first() {
            self.open_git(git);
        }
        self.protected.sort();
        self.protected.dedup();
    }

    /// Opens the git directory of the workspace, but for what is protected in it.
    fn open_git(&mut self, git: &Path) {
        let common = match GitDirectory::of(git) {
            Some(GitDirectory::Main(directory)) => directory,
            Some(GitDirectory::Worktree { own, common }) => {
                self.protected.push(git.to_owned());
                self.protect_git(&own);
                common
            }
            None => return,
        };
        self.protect_git(&common);
        let is_open = self.writable.iter().any(|root| common.starts_with(root));
        if !is_open && !self.denied.iter().any(|denied| common.starts_with(denied)) {
            self.writable.push(common);
        }
    }

    /// Opens the whole working tree to read: git takes what it does not see for deleted.
    fn show_working_tree(&mut self, git: &Path) {
        let Some(top) = git.parent() else { return };
        let holds_home = self.home.as_ref().is_some_and(|home| home.starts_with(top));
        let is_denied = self.denied.iter().any(|denied| top.starts_with(denied));
        if top != self.workspace() && top.parent().is_some() && !holds_home && !is_denied {
            self.readable.push(top.to_owned());
        }
    }

    fn protect_git(&mut self, git: &Path) {
        self.protected.extend(protected_in(git));
    }
}

/// The protected files of a git directory, and those of its submodules and worktrees, whose names may have slashes.
fn protected_in(git: &Path) -> Vec<PathBuf> {
    let mut protected: Vec<PathBuf> = PROTECTED_IN_GIT.iter().map(|name| git.join(name)).collect();
    for parent in ["modules", "worktrees"] {
        let inner = directories_below(&git.join(parent));
        let inner = inner.iter().filter(|inner| inner.join("HEAD").exists());
        let paths = inner.flat_map(|inner| PROTECTED_IN_GIT.iter().map(move |name| inner.join(name)));
        protected.extend(paths.filter(|path| path.symlink_metadata().is_ok()));
    }
    protected
}

/// The git directories in a tree, and those that symbolic links of that name lead to.
fn git_directories_below(root: &Path) -> Vec<PathBuf> {
    let below = directories_below(root);
    let all = std::iter::once(root).chain(below.iter().map(PathBuf::as_path));
    all.map(|directory| directory.join(".git"))
        .filter(|git| git.is_dir())
        .filter_map(|git| git.canonicalize().ok())
        .collect()
}

/// The directories below one, the nearest first, without those in git directories. Not all of a large tree.
fn directories_below(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut next, mut entries) = (vec![root.to_owned()], 0, 0);
    while let Some(directory) = found.get(next).cloned() {
        next += 1;
        for child in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            entries += 1;
            if child.file_type().is_ok_and(|kind| kind.is_dir()) && child.file_name() != ".git" {
                found.push(child.path());
            }
            if entries == MAX_ENTRIES {
                return found.split_off(1);
            }
        }
    }
    found.split_off(1)
}

/// The git directory of the repository that a working tree belongs to.
pub fn git_directory(root: &Path) -> Option<PathBuf> {
    match GitDirectory::of(&root.join(".git"))? {
        GitDirectory::Main(directory) | GitDirectory::Worktree { common: directory, .. } => Some(directory),
    }
}

/// How many entries of a tree are looked at for repositories.
const MAX_ENTRIES: usize = 4_096;

enum GitDirectory {
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
    fn of(git: &Path) -> Option<Self> {
        let found = git.symlink_metadata().ok()?;
        if found.is_dir() {
            return Some(Self::Main(git.to_owned()));
        }
        let text = std::fs::read_to_string(git).ok().filter(|_| found.is_file())?;
        let own = git.parent()?.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
        let back = std::fs::read_to_string(own.join("gitdir")).ok()?;
        let is_named = own.join(back.trim()).canonicalize().ok()? == git.canonicalize().ok()?;
        let parent = own.parent().filter(|parent| parent.ends_with("worktrees"))?;
        let common = parent.parent().filter(|common| is_named && common.join("objects").is_dir())?.to_owned();
        Some(Self::Worktree { own, common })
    }
}

/// Without symbolic links, as far as the path exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Everything on the deny list that exists.
fn denied(home: Option<&Path>, settings: &SandboxSettings) -> Vec<PathBuf> {
    let mut denied: Vec<PathBuf> = settings.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let rows = || DENIED.iter().map(|(below, _)| below).chain(OWN);
    let mut below: Vec<PathBuf> = rows().filter_map(|row| Some(home?.join(row))).collect();
    for (variable, part) in MOVED {
        let moved = std::env::var_os(variable).map(PathBuf::from).filter(|moved| moved.is_absolute());
        let Some(moved) = moved else { continue };
        let rest = rows().filter_map(|row| Path::new(row).strip_prefix(part).ok());
        // A whole directory that is denied has no rest.
        below.extend(rest.map(|rest| if rest.as_os_str().is_empty() { moved.clone() } else { moved.join(rest) }));
    }
    for row in below {
        denied.extend(matching(&row).iter().filter_map(|path| path.canonicalize().ok()));
    }
    denied.sort();
    denied.dedup();
    denied
}

/// The path itself, or all that match if its last part is a pattern.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    if !name.contains('*') {
        return vec![pattern.to_owned()];
    }
    let siblings = pattern.parent().and_then(|parent| parent.read_dir().ok()).into_iter().flatten().flatten();
    siblings
        .filter(|sibling| matches(&name, &sibling.file_name().to_string_lossy()))
        .map(|sibling| sibling.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn plan_in(workspace: &Path, home: &Path) -> Result<Plan, Refusal> {
        let places = Places { workspace, is_own_worktree: false, directory: workspace, more: &[] };
        Plan::new(&places, &SandboxSettings::default(), Some(home), Level::Namespaces, Limits::default())
    }

    #[test]
    fn a_workspace_on_the_deny_list_is_refused() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".ssh/keys")).unwrap();
        assert!(plan_in(&home.path().join(".ssh/keys"), home.path()).unwrap_err().contains("deny list"));
        assert!(plan_in(Path::new("/"), home.path()).is_err());
        let home = home.path().canonicalize().unwrap();
        assert_eq!(plan_in(&home, &home).unwrap().denied, [home.join(".ssh")]);
    }

    #[test]
    fn a_git_file_that_its_repository_does_not_name_opens_nothing() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let (work, own) = (top.join("work"), top.join("victim/worktrees/one"));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(top.join("victim/objects")).unwrap();
        fs::write(work.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(plan_in(&work, &top.join("home")).unwrap().writable, std::slice::from_ref(&work));
        fs::write(own.join("gitdir"), format!("{}\n", work.join(".git").display())).unwrap();
        assert_eq!(plan_in(&work, &top.join("home")).unwrap().writable, [work, top.join("victim")]);
    }
}
