//! The permissions of one call, in absolute paths without symbolic links. The helpers get them as JSON on a socket, so
//! that no other process reads them in their command lines.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Level;
use super::covers::can_cover;
use super::git::GitDirectory;
use super::protection::{Finder, Protection};
use super::search::{Index, Search, TIME_LIMIT};
use crate::base::file::git_in;
use crate::domain::places::{DENIED, MOVED, OWN, PROTECTED, TOOL_CHAINS, Use, matches};
use crate::domain::sandbox::{Network, SandboxSettings};

/// How often the open places are searched before they count as too large.
const MAX_SEARCHES: usize = 4;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub level: Level,
    pub network: Network,
    /// Where the command starts.
    pub directory: PathBuf,
    pub home: Option<PathBuf>,
    /// The home directory of the account, if that is another one.
    pub account_home: Option<PathBuf>,
    /// The workspace first.
    pub writable: Vec<PathBuf>,
    /// Below the home directory, which is empty otherwise, or below another covered one.
    pub readable: Vec<PathBuf>,
    /// Readable, and writable in an overlay.
    pub caches: Vec<PathBuf>,
    /// Empty directories below the home directory, which last until the end of the call: for caches that do not exist, and
    /// where only parts of a directory of caches are open.
    pub missing_caches: Vec<PathBuf>,
    /// Symbolic links below the home directory, with their targets.
    pub links: Vec<(PathBuf, PathBuf)>,
    pub denied: Vec<PathBuf>,
    /// Below writable places; need not exist.
    pub protected: Vec<PathBuf>,
    /// Symbolic links to protected files that cannot be replaced, with their contents.
    pub kept_links: Vec<(PathBuf, PathBuf)>,
    /// Why a command could change something protected nevertheless, one line each.
    #[serde(skip)]
    pub gaps: Vec<String>,
    /// Protected names that do not exist, where directories are kept while the command runs.
    pub covers: Vec<PathBuf>,
    /// Socket files in writable places.
    pub sockets: Vec<PathBuf>,
    /// The places that were searched, with the result.
    #[serde(skip)]
    pub(super) searched: Vec<PathBuf>,
    #[serde(skip)]
    pub(super) search: Search,
    #[serde(skip)]
    pub(super) index: Index,
    /// Names of variables besides the usual ones.
    pub variables: Vec<String>,
    /// Variables of this command alone, with their values. The helpers do not get them.
    pub own_variables: Vec<(String, String)>,
    /// Whether the command gets a standard input, which follows the plan.
    pub has_input: bool,
    /// Whether other commands run in its network namespace, or it in theirs; the descriptors follow the input.
    pub sharing: Sharing,
    /// Whether its network namespace gets a listener for a server of the loop. The socket on which the init process sends it
    /// follows those descriptors.
    pub is_served: bool,
    pub limits: ResourceLimits,
}

/// What the supervisor does with the namespaces of user and network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Sharing {
    /// It makes them for this command alone.
    #[default]
    Nothing,
    /// It makes them and sends descriptors of both on a socket that it gets.
    Offer,
    /// It gets descriptors of both and enters them.
    Join,
}

impl Sharing {
    /// How many descriptors the supervisor gets for it.
    pub(super) fn descriptors(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Offer => 1,
            Self::Join => 2,
        }
    }
}

/// Bounds of each process or of the whole call. In bytes, but for numbers of processes and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Processes and threads of the call.
    pub processes: u64,
    pub open_files: u64,
    /// Size of a file.
    pub file: u64,
    /// Private memory of a process.
    pub memory: u64,
    /// All files together that the call writes outside of the workspace: in `/tmp`, in shared memory and in caches.
    /// They are kept in memory.
    pub scratch: u64,
}

impl Default for ResourceLimits {
    /// Generous: they stop runaway programs, not large ones.
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
    /// The working directory tree of the agent.
    pub workspace: &'a Path,
    /// Whether the workspace is a worktree of ours, which lies in our data directory.
    pub is_own_worktree: bool,
    pub directory: &'a Path,
    /// Writable besides the workspace.
    pub more: &'a [PathBuf],
    /// Whether the command is git, run by this program: it changes the protected files of a repository.
    pub is_git: bool,
}

impl Plan {
    /// # Errors
    /// The workspace is a directory that commands must not see.
    pub fn new(
        places: &Places<'_>,
        settings: &SandboxSettings,
        [home, account_home]: [Option<&Path>; 2],
        level: Level,
        limits: ResourceLimits,
        index: &Index,
    ) -> Result<Self, Refusal> {
        let is_home = |home: &PathBuf| home.is_absolute() && home.parent().is_some();
        let home = home.map(real).filter(is_home);
        let account_home = account_home.map(real).filter(is_home).filter(|account| Some(account) != home.as_ref());
        let denied = denied_paths(&[home.as_deref(), account_home.as_deref()], settings);
        let workspace = real(places.workspace);
        let is_denied = |path: &Path| denied.iter().any(|denied| path.starts_with(denied));
        check_workspace(&workspace, is_denied(&workspace) && !places.is_own_worktree)?;
        let mut plan = Self {
            level,
            network: settings.network.clone(),
            directory: real(places.directory),
            writable: vec![workspace.clone()],
            readable: Vec::new(),
            caches: Vec::new(),
            missing_caches: Vec::new(),
            links: Vec::new(),
            protected: Vec::new(),
            kept_links: Vec::new(),
            gaps: Vec::new(),
            covers: Vec::new(),
            sockets: Vec::new(),
            searched: Vec::new(),
            search: Search::default(),
            index: index.clone(),
            variables: settings.variables.clone(),
            own_variables: Vec::new(),
            has_input: false,
            is_served: false,
            sharing: Sharing::Nothing,
            limits,
            home,
            account_home,
            denied: denied.clone(),
        };
        plan.writable.extend(places.more.iter().map(|path| real(path)));
        let more = settings.write.iter().map(|path| real(path));
        plan.writable.extend(more.filter(|path| !is_denied(path) && path.parent().is_some() && path.exists()));
        plan.add_tool_chains(&is_denied);
        let more = settings.read.iter().map(|path| real(path));
        plan.readable.extend(more.filter(|path| !is_denied(path) && path.exists()));
        plan.readable.extend(settings.shown.iter().map(|path| real(path)).filter(|path| path.exists()));
        let repository = plan.open_repository();
        if !places.is_git && level != Level::None {
            plan.protect(&settings.guarded, repository);
            plan.sockets = std::mem::take(&mut plan.search.sockets);
        }
        Ok(plan)
    }

    /// The workspace of the agent.
    pub fn workspace(&self) -> &Path {
        self.writable.first().or(self.readable.first()).expect("every plan has a workspace")
    }

    /// The same plan without writable places except those that are discarded: what could be written can be read, the
    /// workspace first.
    pub fn read_only(mut self) -> Self {
        self.readable.splice(..0, std::mem::take(&mut self.writable));
        // There is nothing left to protect it from.
        self.protected.clear();
        self.kept_links.clear();
        self.gaps.clear();
        self.covers.clear();
        self
    }

    /// The plan for a long-lived process: protected names that do not exist are covered, so that it cannot change what
    /// somebody else creates there.
    pub fn lasting(mut self) -> Self {
        if !self.level.has_namespaces() {
            return self;
        }
        for root in &self.searched {
            let names = PROTECTED.iter().filter(|protected| protected.is_directory);
            let paths = names.map(|protected| root.join(protected.name)).filter(|path| can_cover(path));
            self.covers.extend(paths.filter(|path| !self.kept_links.iter().any(|(link, _)| link == path)));
        }
        let new = self.covers.iter().filter(|path| !self.protected.contains(path)).cloned();
        let new: Vec<PathBuf> = new.collect();
        // The whole of it, from its present content.
        self.protected.retain(|path| !new.iter().any(|cover| path.starts_with(cover)));
        self.protected.extend(new);
        self
    }

    fn add_tool_chains(&mut self, is_denied: &dyn Fn(&Path) -> bool) {
        for home in self.homes().cloned().collect::<Vec<_>>() {
            self.add_tool_chains_of(&home, is_denied);
        }
    }

    /// The home directories that the sandbox empties.
    pub fn homes(&self) -> impl Iterator<Item = &PathBuf> {
        self.home.iter().chain(&self.account_home)
    }

    fn add_tool_chains_of(&mut self, home: &Path, is_denied: &dyn Fn(&Path) -> bool) {
        // Elsewhere nothing covers the home directory: a directory would be created in the real one.
        let is_covered = home.is_dir() && !self.writable.iter().any(|open| home.starts_with(open));
        let is_emptied =
            |path: &Path| TOOL_CHAINS.iter().any(|(row, access)| *access == Use::Empty && path.starts_with(row));
        for (below, access) in TOOL_CHAINS {
            let named = home.join(below);
            if *access == Use::Empty {
                self.missing_caches.extend(Some(named).filter(|_| is_covered));
                continue;
            }
            let Ok(path) = named.canonicalize() else {
                let is_missing = named.symlink_metadata().is_err() && !is_emptied(Path::new(below));
                if is_covered && *access == Use::Cache && is_missing {
                    self.missing_caches.push(named);
                }
                continue;
            };
            if is_denied(&path) || home.starts_with(&path) {
                continue;
            }
            if path != named {
                self.links.push((named, path.clone()));
            }
            // Caches elsewhere can be read anyway.
            if *access == Use::Cache && path.is_dir() {
                self.caches.push(path);
            } else if path.starts_with(home) {
                self.readable.push(path);
            }
        }
    }

    /// Lists what is protected in the open places and in the repository of the workspace.
    fn protect(&mut self, guarded: &[PathBuf], repository: Option<(PathBuf, GitDirectory)>) {
        self.search = self.index.search(&self.searched, TIME_LIMIT);
        // Directories that were read are remembered, so that the next search gets further.
        for _ in 1..MAX_SEARCHES {
            if self.search.is_partial {
                self.search = self.index.search(&self.searched, TIME_LIMIT);
            }
        }
        let mut finder = Finder::new(&self.writable, self.home.as_deref());
        finder.add_search(&self.searched, &self.search);
        let is_inside = |path: &&PathBuf| self.searched.iter().any(|root| path.starts_with(root));
        guarded.iter().filter(is_inside).for_each(|path| finder.add(path.clone()));
        if let Some((git, directory)) = repository {
            let top = git.parent().unwrap_or(&git);
            let common = match directory {
                GitDirectory::Main(common) => common,
                GitDirectory::Worktree { own, common } => {
                    finder.add(git.clone());
                    finder.add_repository(&own, top);
                    common
                }
            };
            finder.add_repository(&common, top);
        }
        let Protection { paths, links, gaps } = finder.finish();
        (self.protected, self.kept_links, self.gaps) = (paths, links, gaps);
    }

    /// Opens the git directory of the workspace, and shows the working tree. Returns the `.git` and its target.
    fn open_repository(&mut self) -> Option<(PathBuf, GitDirectory)> {
        self.searched = self.writable.clone();
        let workspace = self.workspace().to_owned();
        let around: Vec<PathBuf> = workspace.ancestors().filter_map(git_in).collect();
        // The repository, and those that it is a submodule of.
        around.iter().for_each(|git| self.show_working_tree(git));
        let git = around.into_iter().next()?;
        let directory = GitDirectory::of(&git)?;
        let (GitDirectory::Main(common) | GitDirectory::Worktree { common, .. }) = &directory;
        let is_open = self.writable.iter().any(|root| common.starts_with(root));
        if !is_open && !self.denied.iter().any(|denied| common.starts_with(denied)) {
            self.writable.push(common.clone());
        }
        Some((git, directory))
    }

    /// Makes the whole working tree readable: git takes files that it cannot see for deleted.
    fn show_working_tree(&mut self, git: &Path) {
        let Some(top) = git.parent() else { return };
        let holds_home = self.home.as_ref().is_some_and(|home| home.starts_with(top));
        let is_denied = self.denied.iter().any(|denied| top.starts_with(denied));
        if top != self.workspace() && top.parent().is_some() && !holds_home && !is_denied {
            self.readable.push(top.to_owned());
        }
    }
}

/// Without symbolic links, as far as the path exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn check_workspace(workspace: &Path, is_denied: bool) -> Result<(), Refusal> {
    if workspace.parent().is_none() {
        return Err("commands cannot run with / as the workspace: start polylogue in another directory".into());
    }
    if is_denied {
        return Err(format!("commands cannot run in {}: it is on the deny list", workspace.display()));
    }
    Ok(())
}

/// Everything on the deny list that exists.
fn denied_paths(homes: &[Option<&Path>], settings: &SandboxSettings) -> Vec<PathBuf> {
    let mut denied: Vec<PathBuf> = settings.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let rows = || DENIED.iter().map(|(below, _)| below).chain(OWN);
    let mut below: Vec<PathBuf> = homes.iter().flatten().flat_map(|home| rows().map(|row| home.join(row))).collect();
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
        let places = Places { workspace, is_own_worktree: false, directory: workspace, more: &[], is_git: false };
        Plan::new(
            &places,
            &SandboxSettings::default(),
            [Some(home), None],
            Level::Namespaces,
            ResourceLimits::default(),
            &Index::default(),
        )
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
