//! Creates and removes a git worktree for an agent.
//!
//! ```text
//!   WORKTREES/AGENT/             the working tree; its name is the agent's id
//!   branch polylogue/AGENT       starts at the current commit; AGENT is the first characters of the id
//! ```
//!
//! Git runs like a command, supervised and on a thread, and starts no program that the repository names: no hooks, file
//! system monitor, filters or transports. A worktree that could not be completed is removed; one with changes or commits of
//! its own is never removed.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::capture::Capture;
use super::command::{self, Ending, Program};
use super::file_access::reason;
use super::{Environment, Job, Output, Running};
use crate::base::error::Result as StartResult;
use crate::domain::tool::ToolCall;
use crate::sandbox;

/// For one run of git. Checking out a large repository takes minutes.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// The most bytes of git's output that are read.
const MAX_OUTPUT: usize = 8 << 10;

/// Git without variables that select another repository, and without programs that the repository configures (git(1)). A
/// partial clone would fetch missing objects through a transport that may be any program.
const GIT: [&str; 18] = [
    "env",
    "-u",
    "GIT_DIR",
    "-u",
    "GIT_WORK_TREE",
    "-u",
    "GIT_INDEX_FILE",
    "-u",
    "GIT_COMMON_DIR",
    "GIT_NO_LAZY_FETCH=1",
    "GIT_ALLOW_PROTOCOL=none",
    "POLYLOGUE_EMPTY=",
    "POLYLOGUE_FALSE=false",
    "git",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
];

/// The branch of the worktree at this path.
pub fn branch_of(root: &Path) -> String {
    let name: String = root.file_name().unwrap_or_default().to_string_lossy().chars().take(6).collect();
    format!("polylogue/{name}")
}

/// Adds a worktree at `root` of the repository that contains `directory`. The result is the directory in the worktree
/// that corresponds to `directory`, or why there is no worktree.
///
/// # Errors
/// No thread or no descriptor is left.
pub fn add(
    directory: PathBuf,
    root: PathBuf,
    env: Arc<Environment>,
    wake: Arc<dyn Fn() + Send + Sync>,
) -> StartResult<Running> {
    let run = move |job: &Job| match Git::beside(&directory, &root, &env, job).without_filters(&directory) {
        Ok(git) => run_add(&directory, &root, &git),
        Err(why) => Output::failure(why),
    };
    Running::spawn(call("worktree add"), run, wake)
}

/// Removes the worktree at `root` unless work would be lost. The result is a message for the user.
///
/// # Errors
/// No thread or no descriptor is left.
pub fn remove(root: PathBuf, env: Arc<Environment>, wake: Arc<dyn Fn() + Send + Sync>) -> StartResult<Running> {
    let run = move |job: &Job| match Git::to_remove(&root, &env, job).without_filters(&root) {
        Ok(git) => run_remove(&root, &git),
        Err(why) => Output::failure(kept(&root, &why)),
    };
    Running::spawn(call("worktree remove"), run, wake)
}

fn call(name: &str) -> ToolCall {
    ToolCall { id: String::new(), name: name.into(), arguments: String::new() }
}

fn run_add(directory: &Path, root: &Path, git: &Git) -> Output {
    let prefix = match prefix_in_repository(directory, git) {
        Ok(prefix) => prefix,
        Err(why) => return Output::failure(why),
    };
    let branch = branch_of(root);
    let parent = root.parent().unwrap_or(Path::new("/"));
    let created = DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|error| reason(&error));
    let arguments = ["worktree", "add", "--quiet", "-b", &branch, &root.to_string_lossy(), "HEAD"];
    match created.and_then(|()| git.run(directory, &arguments)) {
        Ok(_) if !git.job.is_cancelled() => {
            let inside = Some(root.join(prefix)).filter(|inside| inside.is_dir());
            Output::success(inside.unwrap_or(root.into()).to_string_lossy())
        }
        outcome => {
            undo(directory, root, git.env);
            Output::failure(outcome.err().unwrap_or("interrupted".into()))
        }
    }
}

/// The line in which git reports why it failed: the first that starts with `fatal: `, because hints may follow, else
/// the last.
fn error_line(output: &str) -> Option<&str> {
    output.lines().find(|line| line.starts_with("fatal: ")).or_else(|| output.lines().last())
}

/// The path of a directory relative to the root of its repository, if that can have worktrees.
fn prefix_in_repository(directory: &Path, git: &Git) -> Result<String, String> {
    let shown = directory.display();
    match git.run(directory, &["rev-parse", "--is-inside-work-tree"]) {
        Ok(answer) if answer.ends_with("true") => {}
        Ok(_) => return Err(format!("{shown} is in a bare repository or inside .git; use the directory of a project")),
        Err(why) if why.contains("not a git repository") => return Err(format!("{shown} is not in a git repository")),
        Err(why) => return Err(why),
    }
    let superproject = git.run(directory, &["rev-parse", "--show-superproject-working-tree"])?;
    if !superproject.is_empty() {
        return Err(format!("{shown} is in a submodule of {superproject}; worktrees of submodules are not supported"));
    }
    git.run(directory, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
        .map_err(|_| format!("the repository of {shown} has no commits; a worktree needs one to start from"))?;
    git.run(directory, &["rev-parse", "--show-prefix"])
}

/// Removes a worktree in which no agent has worked yet. Runs also if the job was cancelled.
fn undo(directory: &Path, root: &Path, env: &Environment) {
    let Ok(job) = Job::new() else { return };
    let git = Git::beside(directory, root, env, &job);
    // Each step handles what the one before it may have left.
    drop(git.run(directory, &["worktree", "remove", "--force", "--force", &root.to_string_lossy()]));
    drop(std::fs::remove_dir_all(root));
    drop(git.run(directory, &["worktree", "prune"]));
    drop(git.run(directory, &["branch", "-D", &branch_of(root)]));
}

fn run_remove(root: &Path, git: &Git) -> Output {
    let (shown, branch) = (root.display(), branch_of(root));
    match unsaved_work(root, &branch, git) {
        Ok(None) => {}
        Ok(Some(what)) => return Output::success(kept(root, what)),
        Err(why) => return Output::failure(kept(root, &why)),
    }
    let outcome = git.run(root, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).and_then(|common| {
        let common = PathBuf::from(common);
        // Without --force, so that git checks for changes again.
        git.run(&common, &["worktree", "remove", &root.to_string_lossy()])?;
        git.run(&common, &["branch", "-D", &branch])
    });
    match outcome {
        Ok(_) => Output::success(format!("removed the worktree {shown}, which had no changes")),
        Err(why) => Output::failure(format!("cannot remove the worktree {shown}: {why}")),
    }
}

fn kept(root: &Path, why: &str) -> String {
    format!("kept the worktree {} (branch {}): {why}", root.display(), branch_of(root))
}

/// What would be lost with a worktree. Ignored files do not count.
fn unsaved_work(root: &Path, branch: &str, git: &Git) -> Result<Option<&'static str>, String> {
    if !git.run(root, &["status", "--porcelain"])?.is_empty() {
        return Ok(Some("it has uncommitted changes"));
    }
    let (exclude, branch) = (format!("--exclude={branch}"), format!("refs/heads/{branch}"));
    let elsewhere = ["--not", &exclude, "--branches", "--tags", "--remotes"];
    let arguments = [&["rev-list", "-n", "1", "HEAD", &branch][..], &elsewhere].concat();
    Ok((!git.run(root, &arguments)?.is_empty()).then_some("it has commits that are on no other branch"))
}

/// Runs git in the sandbox unless the job is cancelled.
struct Git<'a> {
    env: &'a Environment,
    job: &'a Job,
    workspace: PathBuf,
    writable: Vec<PathBuf>,
    /// Options that turn off the filters of the repository.
    filters: Vec<String>,
}

impl<'a> Git<'a> {
    /// For a repository and a worktree to come.
    fn beside(directory: &Path, root: &Path, env: &'a Environment, job: &'a Job) -> Self {
        let worktrees = root.parent().map(Path::to_owned).into_iter().collect();
        Self { env, job, workspace: directory.to_owned(), writable: worktrees, filters: Vec::new() }
    }

    /// To remove a worktree, which must not be a mount point.
    fn to_remove(root: &Path, env: &'a Environment, job: &'a Job) -> Self {
        let workspace = root.parent().unwrap_or(root).to_owned();
        let writable = sandbox::git_directory(root).into_iter().collect();
        Self { env, job, workspace, writable, filters: Vec::new() }
    }

    /// Turns off the filters (gitattributes(5)) that the repository of this directory configures; those of the user's own
    /// configuration still run.
    ///
    /// # Errors
    /// As for [`Git::run`].
    fn without_filters(mut self, directory: &Path) -> Result<Self, String> {
        // It fails if there are none.
        let listed = self.run(directory, &["config", "--show-scope", "--name-only", "--get-regexp", r"^filter\."]);
        let listed = listed.unwrap_or_default();
        if listed.len() > MAX_OUTPUT / 2 {
            return Err("the repository configures too many filters to turn them off".into());
        }
        let names: BTreeSet<&str> = listed.lines().filter_map(filter_of_repository).collect();
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
    ///
    /// # Errors
    /// The reason that git prints, or why it could not be run.
    fn run(&self, directory: &Path, arguments: &[&str]) -> Result<String, String> {
        if self.job.is_cancelled() {
            return Err("interrupted".into());
        }
        let filters: Vec<&str> = self.filters.iter().map(String::as_str).collect();
        let arguments = [&GIT[..], &filters, arguments].concat();
        let mut capture = Capture::new(MAX_OUTPUT, &self.env.output_directory);
        let (workspace, writable) = (Some(&*self.workspace), &*self.writable);
        // Git itself runs without a sandbox where there is none: nothing is promised.
        let program = Program { workspace, writable, is_git: true, ..Program::new(&arguments, directory) };
        let outcome = command::run(&program, self.env, &mut capture, TIME_LIMIT, self.job)
            .map_err(|error| format!("cannot start git: {}", reason(&error)))?;
        let output = capture.finish().trim_end_matches('\n').to_owned();
        match outcome.ending {
            Ending::Exited(Some(0)) => Ok(output),
            Ending::Exited(Some(127)) => Err("git is not installed".into()),
            Ending::Exited(_) => Err(error_line(&output).unwrap_or("git failed without a message").to_owned()),
            Ending::TimedOut => Err(format!("git timed out after {TIME_LIMIT:?}")),
            Ending::Interrupted => Err("interrupted".into()),
            Ending::Lost(why) | Ending::NotStarted(why) | Ending::Weaker(why) => Err(why),
        }
    }
}

/// The name of the filter that a line of `git config --show-scope --name-only` sets for the repository.
fn filter_of_repository(line: &str) -> Option<&str> {
    let (scope, key) = line.split_once('\t')?;
    let name = key.strip_prefix("filter.")?.rsplit_once('.')?.0;
    matches!(scope, "local" | "worktree").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_the_repository_are_found_and_those_of_the_user_are_not() {
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
