//! Runs git for the program itself: like a command, supervised and in the sandbox, and without any program that the repository
//! names: no hooks, file system monitor, filters or transports.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

use super::capture::{Capture, Sink};
use super::command::{self, Ending, Program};
use super::file_access::reason;
use super::{Environment, Job, Outcome};
use crate::sandbox;

/// For one run of git. Checking out a large repository takes minutes.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// Checks out the files of a worktree that was added with `--no-checkout`, as `git worktree add` does.
pub(super) const CHECK_OUT: [&str; 4] = ["reset", "--hard", "--quiet", "--no-recurse-submodules"];

/// How long a command waits at most for another one that uses the list of worktrees, which takes as long as it takes to remove
/// the files of one. An agent's command could hold the lock for ever.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_POLL: Duration = Duration::from_millis(10);

/// The most bytes of git's output that are read.
const MAX_OUTPUT: usize = 64 << 20;
/// The most bytes of its messages, and of a list of filters.
const MAX_MESSAGES: usize = 8 << 10;

/// Git without transports, which may be any program (git(1)); the others are values of options.
const VARIABLES: [(&str, &str); 3] =
    [("GIT_ALLOW_PROTOCOL", "none"), ("POLYLOGUE_EMPTY", ""), ("POLYLOGUE_FALSE", "false")];
const GIT: [&str; 3] = ["git", "-c", "core.fsmonitor=false"];
const NO_HOOKS: [&str; 2] = ["-c", "core.hooksPath=/dev/null"];

/// What git prints: warnings, for example of a file of the user that the sandbox hides, are no part of its output.
struct Streams {
    output: Capture,
    errors: Capture,
}

impl Sink for Streams {
    fn push(&mut self, bytes: &[u8]) {
        self.output.push(bytes);
    }

    fn push_errors(&mut self, bytes: &[u8]) {
        self.errors.push(bytes);
    }

    fn warn(&mut self, _: &str) {}
}

/// Runs git in the sandbox unless the job is cancelled.
pub(super) struct Git<'a> {
    pub env: &'a Environment,
    pub job: &'a Job,
    workspace: PathBuf,
    writable: Vec<PathBuf>,
    readable: Vec<PathBuf>,
    /// Options that turn off the filters of the repository.
    filters: Vec<String>,
    /// The repository configures merge drivers.
    has_drivers: bool,
    /// It runs the hooks that the repository has.
    runs_hooks: bool,
    /// Variables of git's environment.
    pub variables: Vec<(String, String)>,
    /// The most bytes of its output that are read.
    pub max_output: usize,
}

impl<'a> Git<'a> {
    /// For a repository and a worktree to come.
    pub(super) fn beside(directory: &Path, root: &Path, env: &'a Environment, job: &'a Job) -> Self {
        Self::in_workspace(directory, root.parent().map(Path::to_owned).into_iter().collect(), env, job)
    }

    /// To remove a worktree, which must not be a mount point.
    pub(super) fn to_remove(root: &Path, env: &'a Environment, job: &'a Job) -> Self {
        Self::in_workspace(root.parent().unwrap_or(root), sandbox::git_directory(root).into_iter().collect(), env, job)
    }

    /// To look at a worktree: it writes nothing in the repository.
    pub(super) fn to_look_at(root: &Path, env: &'a Environment, job: &'a Job) -> Self {
        let readable = sandbox::git_directory(root).into_iter().collect();
        Self { readable, ..Self::in_workspace(root.parent().unwrap_or(root), Vec::new(), env, job) }
    }

    /// For changes of a checked-out directory of a repository; `common` is its git directory. A command can make any
    /// repository look as if it were one of these directories, so git is told which it is.
    pub(super) fn at(checkout: &Path, common: &Path, env: &'a Environment, job: &'a Job) -> Outcome<Self> {
        let own = own_directory(checkout, common)?;
        let pinned = [("GIT_DIR", &*own), ("GIT_COMMON_DIR", common), ("GIT_WORK_TREE", checkout)];
        let variables = pinned.map(|(name, path)| (name.to_owned(), path.display().to_string())).to_vec();
        Ok(Self { variables, ..Self::in_workspace(checkout, vec![common.to_owned()], env, job) })
    }

    fn in_workspace(workspace: &Path, writable: Vec<PathBuf>, env: &'a Environment, job: &'a Job) -> Self {
        Self {
            env,
            job,
            workspace: workspace.to_owned(),
            writable,
            readable: Vec::new(),
            filters: Vec::new(),
            has_drivers: false,
            runs_hooks: false,
            variables: Vec::new(),
            max_output: MAX_OUTPUT,
        }
    }

    /// Runs the hooks that the repository has.
    pub(super) fn with_hooks(self) -> Self {
        Self { runs_hooks: true, ..self }
    }

    /// After [`Self::without_filters`]: whether the repository configures filters, which are turned off, or merge drivers.
    /// Without them git's results differ.
    pub(super) fn repository_names_programs(&self) -> bool {
        !self.filters.is_empty() || self.has_drivers
    }

    /// Turns off the filters (gitattributes(5)) that the repository of this directory configures; those of the user's own
    /// configuration still run.
    pub(super) fn without_filters(mut self, directory: &Path) -> Result<Self, String> {
        // The first is an option of every run (`GIT`): git fails where nothing matches, and so it does only for another reason.
        let pattern = r"^(core\.fsmonitor$|filter\.|merge\..*\.driver$)";
        let listed = self.run(directory, &["config", "--show-scope", "--name-only", "--get-regexp", pattern])?;
        if listed.len() > MAX_MESSAGES / 2 {
            return Err("the repository configures too many filters to turn them off".into());
        }
        let own = || listed.lines().filter_map(key_of_repository);
        self.has_drivers = own().any(|key| key.starts_with("merge."));
        let names: BTreeSet<&str> = own().filter_map(filter_of).collect();
        if names.iter().any(|name| name.contains('=')) {
            return Err("the repository configures a filter with = in its name, which cannot be turned off".into());
        }
        let off = |name: &&str| {
            let variables = [("clean", "EMPTY"), ("smudge", "EMPTY"), ("process", "EMPTY"), ("required", "FALSE")];
            variables.map(|(key, value)| format!("--config-env=filter.{name}.{key}=POLYLOGUE_{value}"))
        };
        self.filters = names.iter().flat_map(off).collect();
        Ok(self)
    }

    /// The output of git without the last line end.
    pub(super) fn run(&self, directory: &Path, arguments: &[&str]) -> Result<String, String> {
        self.run_with_input(directory, arguments, None)
    }

    /// The same, with a standard input.
    pub(super) fn run_with_input(
        &self,
        directory: &Path,
        arguments: &[&str],
        input: Option<&[u8]>,
    ) -> Result<String, String> {
        if self.job.is_cancelled() {
            return Err("interrupted".into());
        }
        let _lock = self.lock_worktrees(directory, arguments);
        let filters: Vec<&str> = self.filters.iter().map(String::as_str).collect();
        let hooks: &[&str] = if self.runs_hooks { &[] } else { &NO_HOOKS };
        let arguments = [&GIT, hooks, &filters, arguments].concat();
        let variables = VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let variables = [&variables, &self.variables[..]].concat();
        let capture = |most| Capture::for_program(most, &self.env.output_directory);
        let mut streams = Streams { output: capture(self.max_output), errors: capture(MAX_MESSAGES) };
        let (workspace, writable) = (Some(&*self.workspace), &*self.writable);
        // Git itself runs without a sandbox if there is none: nothing is promised.
        let program = Program {
            workspace,
            writable,
            input,
            variables: &variables,
            readable: &self.readable,
            is_git: true,
            separates_errors: true,
            ..Program::new(&arguments, directory)
        };
        let outcome = command::run(&program, self.env, &mut streams, TIME_LIMIT, self.job)
            .map_err(|error| format!("cannot start git: {}", reason(&error)))?;
        let output = streams.output.finish().trim_end_matches('\n').to_owned();
        let said = [&output, &streams.errors.finish()].map(|text| text.trim()).join("\n").trim().to_owned();
        match outcome.ending {
            Ending::Exited(Some(0)) => Ok(output),
            // A hook says why in its own words.
            Ending::Exited(_) if self.runs_hooks && !said.is_empty() => Err(said),
            Ending::Exited(_) => Err(error_line(&said).unwrap_or("git failed without a message").to_owned()),
            Ending::TimedOut => Err(format!("git timed out after {TIME_LIMIT:?}")),
            Ending::Interrupted => Err("interrupted".into()),
            Ending::Lost(why) | Ending::NotStarted(why) | Ending::Weaker(why) => Err(why),
        }
    }
}

impl Git<'_> {
    /// Holds back a command that reads or changes the list of worktrees while another one does: git fails if it finds a
    /// worktree that is only half added or removed ("failed to read .git/worktrees/NAME/commondir").
    fn lock_worktrees(&self, directory: &Path, arguments: &[&str]) -> Option<OwnedFd> {
        // A branch is deleted if no worktree has it.
        if !arguments.contains(&"worktree") && !arguments.starts_with(&["branch", "-D"]) {
            return None;
        }
        let lock = open(common_directory(directory)?, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let start = Instant::now();
        while flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
            && start.elapsed() < LOCK_PATIENCE
            && !self.job.is_cancelled()
        {
            std::thread::sleep(LOCK_POLL);
        }
        Some(lock)
    }
}

/// The git directory that all worktrees of a repository share, of any directory in one of them, or of itself.
fn common_directory(directory: &Path) -> Option<PathBuf> {
    let is_one = directory.join("objects").is_dir() && directory.join("HEAD").is_file();
    is_one.then(|| directory.to_owned()).or_else(|| directory.ancestors().find_map(sandbox::git_directory))
}

/// The directory with the index and the `HEAD` of a working tree of the repository with this git directory.
pub(super) fn own_directory(checkout: &Path, common: &Path) -> Result<PathBuf, String> {
    sandbox::own_git_directory(checkout, common)
        .ok_or_else(|| format!("{} is no working tree of this repository", checkout.display()))
}

/// The key that a line of `git config --show-scope --name-only` sets for the repository.
fn key_of_repository(line: &str) -> Option<&str> {
    let (scope, key) = line.split_once('\t')?;
    matches!(scope, "local" | "worktree").then_some(key)
}

/// The name of the filter that a key configures.
fn filter_of(key: &str) -> Option<&str> {
    Some(key.strip_prefix("filter.")?.rsplit_once('.')?.0)
}

/// The line in which git reports why it failed: the first that starts with `fatal: `, because hints may follow, else
/// the last.
fn error_line(output: &str) -> Option<&str> {
    output.lines().find(|line| line.starts_with("fatal: ")).or_else(|| output.lines().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_the_repository_are_found_and_those_of_the_user_are_not() {
        let filter_of_repository = |line| key_of_repository(line).and_then(filter_of);
        assert_eq!(filter_of_repository("local\tfilter.a.b.smudge"), Some("a.b"));
        assert_eq!(filter_of_repository("worktree\tfilter.x.clean"), Some("x"));
        for other in ["global\tfilter.lfs.smudge", "local\tuser.name", "local\tfilter.x", "command\tfilter.x.clean"] {
            assert_eq!(filter_of_repository(other), None, "{other}");
        }
    }

    #[test]
    fn the_error_line_is_not_the_hint_after_it() {
        let output = "fatal: not a git repository (or any parent up to mount point /mnt)\nStopping at filesystem boundary \
                    (GIT_DISCOVERY_ACROSS_FILESYSTEM not set).";
        assert!(error_line(output).is_some_and(|why| why.contains("not a git repository")));
        assert_eq!(error_line("Preparing\nerror: no"), Some("error: no"));
        assert_eq!(error_line(""), None);
    }
}
