//! Git worktrees of our own: one for an agent that is to work beside the others, not between them.
//!
//! ```text
//!   WORKTREES/AGENT/             the working tree; its name is the agent's id
//!   branch polylogue/AGENT       begins at the commit that was checked out; AGENT is the beginning of the id
//! ```
//!
//! Git runs as a command does, supervised and on a thread, and runs nothing of the repository's itself: no hooks, no file
//! system monitor. What was begun and not finished is undone; what holds work of anybody is never removed.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::capture::Capture;
use super::supervised::{self, Ending};
use super::{Environment, Job, Output, Running};
use crate::base::error::Result as HouseResult;
use crate::domain::tool::ToolCall;

/// How long one run of git may take. Checking out a large repository takes minutes.
const PATIENCE: Duration = Duration::from_secs(600);

/// How much of git's words is kept, in bytes.
const WORDS: usize = 8 << 10;

/// What makes git run programs of the repository's choice, and what would lead it elsewhere (git(1)).
const GIT: [&str; 14] = [
    "env",
    "-u",
    "GIT_DIR",
    "-u",
    "GIT_WORK_TREE",
    "-u",
    "GIT_INDEX_FILE",
    "-u",
    "GIT_COMMON_DIR",
    "git",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
];

/// The branch of the worktree in this directory.
pub fn branch_of(root: &Path) -> String {
    let name: String = root.file_name().unwrap_or_default().to_string_lossy().chars().take(6).collect();
    format!("polylogue/{name}")
}

/// Makes a worktree at `root`, of the repository around `directory`. The result is the directory in it that is to the
/// worktree what `directory` is to the repository, or words about why there is no worktree.
///
/// # Errors
/// No thread or no descriptor is left.
pub fn add(
    directory: PathBuf,
    root: PathBuf,
    env: Arc<Environment>,
    wake: Arc<dyn Fn() + Send + Sync>,
) -> HouseResult<Running> {
    Running::spawn(call("worktree add"), move |job| added(&directory, &root, &Git { env: &env, job }), wake)
}

/// Removes the worktree at `root` if nothing in it would be lost. The result is words for a person.
///
/// # Errors
/// No thread or no descriptor is left.
pub fn remove(root: PathBuf, env: Arc<Environment>, wake: Arc<dyn Fn() + Send + Sync>) -> HouseResult<Running> {
    Running::spawn(call("worktree remove"), move |job| removed(&root, &Git { env: &env, job }), wake)
}

fn call(name: &str) -> ToolCall {
    ToolCall { id: String::new(), name: name.into(), arguments: String::new() }
}

fn added(directory: &Path, root: &Path, git: &Git) -> Output {
    let prefix = match prefix_in_repository(directory, git) {
        Ok(prefix) => prefix,
        Err(why) => return Output::failure(why),
    };
    let branch = branch_of(root);
    let parent = root.parent().unwrap_or(Path::new("/"));
    let made = DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|error| error.to_string());
    let words = ["worktree", "add", "--quiet", "-b", &branch, &root.to_string_lossy(), "HEAD"];
    match made.and_then(|()| git.run(directory, &words)) {
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

/// The line in which git says why it failed: the first that says so, for hints may follow (`Stopping at filesystem
/// boundary`), else the last.
fn reason_in(said: &str) -> Option<&str> {
    said.lines().find(|line| line.starts_with("fatal: ")).or_else(|| said.lines().last())
}

/// Where a directory lies in its repository, if a worktree can be made of that.
fn prefix_in_repository(directory: &Path, git: &Git) -> Result<String, String> {
    let place = directory.display();
    match git.run(directory, &["rev-parse", "--is-inside-work-tree"]) {
        Ok(answer) if answer.ends_with("true") => {}
        Ok(_) => return Err(format!("{place} is in a bare repository or inside .git: start in files of a project")),
        Err(why) if why.contains("not a git repository") => return Err(format!("{place} is in no git repository")),
        Err(why) => return Err(why),
    }
    let around = git.run(directory, &["rev-parse", "--show-superproject-working-tree"])?;
    if !around.is_empty() {
        return Err(format!("{place} is in a submodule of {around}: worktrees of submodules are not made"));
    }
    git.run(directory, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
        .map_err(|_| format!("the repository of {place} has no commit yet: a worktree begins at one"))?;
    git.run(directory, &["rev-parse", "--show-prefix"])
}

/// Nobody has worked there yet: whatever is there goes. Also after an interrupt, which has no say in this.
fn undo(directory: &Path, root: &Path, env: &Environment) {
    let Ok(job) = Job::new() else { return };
    let git = Git { env, job: &job };
    // Each step is for the case that the one before it found nothing, or too little to do.
    drop(git.run(directory, &["worktree", "remove", "--force", "--force", &root.to_string_lossy()]));
    drop(std::fs::remove_dir_all(root));
    drop(git.run(directory, &["worktree", "prune"]));
    drop(git.run(directory, &["branch", "-D", &branch_of(root)]));
}

fn removed(root: &Path, git: &Git) -> Output {
    let (place, branch) = (root.display(), branch_of(root));
    match what_would_be_lost(root, &branch, git) {
        Ok(None) => {}
        Ok(Some(what)) => return Output::success(format!("the worktree {place} (branch {branch}) is kept: {what}")),
        Err(why) => return Output::failure(format!("the worktree {place} (branch {branch}) is kept: {why}")),
    }
    let gone = git.run(root, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).and_then(|common| {
        let common = PathBuf::from(common);
        // Not forced: git looks once more whether something has changed.
        git.run(&common, &["worktree", "remove", &root.to_string_lossy()])?;
        git.run(&common, &["branch", "-D", &branch])
    });
    match gone {
        Ok(_) => Output::success(format!("the worktree {place} had nothing new in it and is removed")),
        Err(why) => Output::failure(format!("the worktree {place} could not be removed: {why}")),
    }
}

/// What there is in a worktree and nowhere else. What git ignores does not count.
fn what_would_be_lost(root: &Path, branch: &str, git: &Git) -> Result<Option<&'static str>, String> {
    if !git.run(root, &["status", "--porcelain"])?.is_empty() {
        return Ok(Some("it has changes"));
    }
    let (exclude, branch) = (format!("--exclude={branch}"), format!("refs/heads/{branch}"));
    let elsewhere = ["--not", &exclude, "--branches", "--tags", "--remotes"];
    let words = [&["rev-list", "-n", "1", "HEAD", &branch][..], &elsewhere].concat();
    Ok((!git.run(root, &words)?.is_empty()).then_some("it has commits that are nowhere else"))
}

/// Git, as long as the job is not cancelled.
struct Git<'a> {
    env: &'a Environment,
    job: &'a Job,
}

impl Git<'_> {
    /// What git says, without the last line end.
    ///
    /// # Errors
    /// What git says if it fails, or what kept it from running.
    fn run(&self, directory: &Path, words: &[&str]) -> Result<String, String> {
        if self.job.is_cancelled() {
            return Err("interrupted".into());
        }
        let words = [&GIT[..], words].concat();
        let mut capture = Capture::new(WORDS, &self.env.output_directory);
        let ending = supervised::run(&words, directory, self.env, &mut capture, PATIENCE, self.job)
            .map_err(|error| format!("git could not be started: {error}"))?;
        let said = capture.finish().trim_end_matches('\n').to_owned();
        match ending {
            Ending::Exited(Some(0)) => Ok(said),
            Ending::Exited(Some(127)) => Err("git is not installed".into()),
            Ending::Exited(_) => Err(reason_in(&said).unwrap_or("git failed without words").to_owned()),
            Ending::TimedOut => Err(format!("git took longer than {PATIENCE:?}")),
            Ending::Interrupted => Err("interrupted".into()),
            Ending::Lost(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_line_that_says_so_and_not_a_hint_behind_it() {
        let said = "fatal: not a git repository (or any parent up to mount point /mnt)\nStopping at filesystem boundary \
                    (GIT_DISCOVERY_ACROSS_FILESYSTEM not set).";
        assert!(reason_in(said).is_some_and(|why| why.contains("not a git repository")));
        assert_eq!(reason_in("Preparing\nerror: no"), Some("error: no"));
        assert_eq!(reason_in(""), None);
    }
}
