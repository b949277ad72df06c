//! Brings an agent's work in its worktree to the branch from which the worktree was made.
//!
//! ```text
//!   WORKTREES/NAME ── commits ──► WORKTREES/.landing-NAME: git merges or rebases there
//!                                           │ conflicts: it is removed, nothing has changed
//!                                           ▼
//!                                  the branch goes on to the new commit, with the files where it is checked out
//! ```
//!
//! In a queue, the command that says whether work is done runs on the new commit first.
//!
//! The files of a person are touched only by the last step, which git refuses if one of them would be overwritten. No
//! program that the repository names is run, except, on the person's request, its hooks for the commit of uncommitted
//! changes; if it needs other programs, the person is told to merge.

mod recovery;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::done::{self, Checked};
use super::git::{CHECK_OUT, Git, own_directory};
use super::worktree::{Left, branch_of, equip, refuse_inner_programs};
use super::{Environment, Job, Outcome};
use crate::base::text::{self, counted};
use crate::domain::file_change::{LandMethod, LandRequest, Landed, NotLanded};
use crate::sandbox;

pub use recovery::{interrupted, recover};

/// Settings that would run programs, change more than asked for, or ask.
const PLAIN: [&str; 20] = [
    "-c",
    "commit.gpgSign=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "rebase.autoStash=false",
    "-c",
    "rebase.updateRefs=false",
    "-c",
    "rebase.rebaseMerges=false",
    "-c",
    "rerere.enabled=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "core.editor=false",
    "-c",
    "core.quotePath=false",
];

/// Files in git's directory during an operation that must be finished first.
const UNDER_WAY: [&str; 5] = ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"];

/// The hooks of a commit (githooks(5)).
const HOOKS: [&str; 3] = ["pre-commit", "prepare-commit-msg", "commit-msg"];

/// Begins the names of the worktrees in which branches are combined.
pub const LANDING: &str = ".landing-";
/// The last lines of the output of a check that has failed.
const MOST_LINES: usize = 10;
/// Maximum files named in a message.
const MOST_NAMED: usize = 10;

/// Lands the worktree at `root`. After an error nothing was landed.
pub fn land(root: &Path, request: &LandRequest, env: &Environment, job: &Job) -> Result<Landed, NotLanded> {
    Landing::prepare(root, env, job)?.land(request)
}

struct Landing<'a> {
    root: &'a Path,
    git: Git<'a>,
    /// The git directory of the repository.
    common: PathBuf,
    /// The branch that the worktree left.
    target: String,
    /// Where that is checked out.
    checkout: Option<PathBuf>,
}

/// A worktree of the repository, and the branch that is checked out there.
struct Checkout {
    path: PathBuf,
    branch: Option<String>,
}

impl<'a> Landing<'a> {
    fn prepare(root: &'a Path, env: &'a Environment, job: &'a Job) -> Outcome<Self> {
        let common = sandbox::git_directory(root).ok_or("its worktree is no longer part of a repository")?;
        let git = Git::to_remove(root, env, job).without_filters(root)?;
        let listed = git.run(root, &plain(&["worktree", "list", "--porcelain"]))?;
        let checkouts = checkouts(&listed);
        let left = Left::read(root).map(|left| left.branch);
        let target = left.or_else(|| checkouts.first()?.branch.clone()).filter(|branch| !branch.is_empty());
        let branch = branch_of(root);
        let target = target.ok_or_else(|| {
            format!("the worktree was not made from a branch: run git merge {branch} on the branch of your choice")
        })?;
        let checkout = checkouts.into_iter().find(|checkout| checkout.branch.as_ref() == Some(&target));
        let checkout = checkout.map(|checkout| checkout.path);
        if git.repository_names_programs() {
            return Err(format!(
                "the repository configures filters or merge drivers, which polylogue does not run: \
                 commit in {} and run git merge {branch} on {target}",
                root.display()
            ));
        }
        refuse_inner_programs(root, &git)?;
        Ok(Self { root, git, common, target, checkout })
    }

    fn land(&self, request: &LandRequest) -> Result<Landed, NotLanded> {
        let (target, branch) = (&self.target, branch_of(self.root));
        let old =
            self.run(self.root, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{target}^{{commit}}")]);
        let old =
            old.map_err(|_| format!("the branch {target}, from which the worktree was made, no longer exists"))?;
        self.require_clean_checkout()?;
        let committed = self.commit(request)?;
        let tip = self.run(self.root, &["rev-parse", "HEAD"])?;
        let count = self.run(self.root, &["rev-list", "--count", &format!("{old}..{tip}")])?;
        let count: usize = count.parse().map_err(|_| format!("unexpected output of git: {count}"))?;
        // Uncommitted changes may be left.
        let is_up_to_date = committed.is_empty() || request.commit.is_some();
        let nothing = |what: String| NotLanded { why: format!("nothing to land: {what}"), is_up_to_date };
        if count == 0 {
            return Err(nothing(format!("{target} has all commits of {branch}{committed}")));
        }
        let request = &LandRequest { method: self.method(request.method, &old, &tip)?, ..request.clone() };
        let (new, failures) = self.combine(request, &old, &tip).map_err(|why| format!("{why}{committed}"))?;
        if new == old {
            // What has landed was rebased or squashed: it has the same changes in other commits.
            if request.method == LandMethod::Rebase {
                let _ = self.follow(&tip, &new);
            }
            return Err(nothing(format!("{target} has all changes of {branch}{committed}")));
        }
        // The command may have run for minutes.
        let now = Landing::prepare(self.root, self.git.env, self.git.job)?;
        now.advance(&old, &new).map_err(|why| format!("{why}{committed}"))?;
        let how = match request.method {
            LandMethod::Rebase => "rebased",
            LandMethod::Squash => "squashed",
            LandMethod::Merge if new == tip => "fast-forward",
            LandMethod::Merge => "merged",
        };
        let place = now.checkout.as_ref().map(|path| format!(" in {}", path.display())).unwrap_or_default();
        let mut text = format!("landed {} of {branch} on {target}{place} ({how})", counted(count, "commit", "commits"));
        if !committed.is_empty() && request.commit.is_some() && !request.verifies {
            text.push_str(&self.not_verified());
        }
        if request.method != LandMethod::Merge
            && let Err(why) = self.follow(&tip, &new)
        {
            text.push_str(&format!(
                "; the branch of the worktree was not moved there: {why}; git reset --keep {target} in it does that"
            ));
        }
        if !failures.is_empty() {
            text.push_str(&format!("\n{failures}"));
        }
        if request.commit.is_none() {
            text.push_str(&committed);
        }
        Ok(Landed { text, target: target.clone(), commits: (old, new) })
    }

    /// How it is landed if a person asks for this. A rebase leaves merges out, and with them how their conflicts were resolved.
    fn method(&self, asked: LandMethod, old: &str, tip: &str) -> Outcome<LandMethod> {
        if asked != LandMethod::Rebase {
            return Ok(asked);
        }
        let merges = self.run(self.root, &["rev-list", "--count", "--merges", &format!("{old}..{tip}")])?;
        Ok(if merges == "0" { LandMethod::Rebase } else { LandMethod::Merge })
    }

    /// Moves the branch of the worktree on as well, unless its agent has made commits meanwhile.
    fn follow(&self, tip: &str, new: &str) -> Outcome<()> {
        self.without_interruption(|git| {
            if git.run(self.root, &plain(&["rev-parse", "HEAD"]))? != tip {
                return Err("it has newer commits".into());
            }
            git.run(self.root, &plain(&["reset", "--quiet", "--keep", new])).map(drop)
        })
    }

    /// Calls `work` with a git that goes on when the landing is interrupted.
    fn without_interruption<T>(&self, work: impl FnOnce(&Git<'_>) -> Outcome<T>) -> Outcome<T> {
        let job = Job::new().map_err(|error| error.to_string())?;
        work(&Git::to_remove(self.root, self.git.env, &job))
    }

    /// Commits uncommitted changes, leaves them or refuses. Returns an addition to the message.
    fn commit(&self, request: &LandRequest) -> Outcome<String> {
        let (root, shown) = (self.root, self.root.display());
        let unmerged = self.run(root, &["diff", "--name-only", "--diff-filter=U"])?;
        if !unmerged.is_empty() {
            return Err(format!("{shown} has unresolved conflicts:\n{}", list_names(unmerged.lines())));
        }
        // What was copied there is the person's own.
        let copied = request.extras.copy.iter().map(|name| format!(":(exclude,top,literal){name}"));
        let paths: Vec<String> = ["--".to_owned(), ":(top)".to_owned()].into_iter().chain(copied).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let changed = self.run(root, &[&["status", "--porcelain"], &paths[..]].concat())?;
        match &request.commit {
            _ if changed.is_empty() => Ok(String::new()),
            None if request.only_committed => {
                Ok(format!("\nuncommitted changes in {shown} are left there; --commit MESSAGE commits them first"))
            }
            None => Err(format!(
                "uncommitted changes in {shown}; --commit MESSAGE commits them first:\n{}",
                list_names(changed.lines().map(path_in_status))
            )),
            Some(message) => {
                let message = with_trailers(message, request);
                self.run(root, &[&["add", "--all"], &paths[..]].concat())?;
                match request.verifies {
                    true => self.commit_verified(&message)?,
                    false => drop(self.run(root, &["commit", "--quiet", "--no-verify", "-m", &message])?),
                }
                Ok(format!("\nthe changes in {shown} are committed"))
            }
        }
    }

    /// Commits as the person would: with hooks, and signed if git is configured to.
    fn commit_verified(&self, message: &str) -> Outcome<()> {
        let root = self.root;
        // A repository with filters is refused before.
        let git = Git::to_remove(root, self.git.env, self.git.job).with_hooks();
        let sign: &[&str] = if self.signs() { &["-c", "commit.gpgSign=true"] } else { &[] };
        let arguments = [&PLAIN[..], sign, &["commit", "--quiet", "-m", message]].concat();
        git.run(root, &arguments).map(drop).map_err(|why| {
            format!("not committed, nothing was landed; without --verify no hook runs and nothing is signed:\n{why}")
        })
    }

    /// Whether the person's commits are signed.
    fn signs(&self) -> bool {
        self.git.run(self.root, &["config", "--type=bool", "commit.gpgSign"]).is_ok_and(|value| value == "true")
    }

    /// The note about a commit without hooks and signature.
    fn not_verified(&self) -> String {
        let git = Git::to_remove(self.root, self.git.env, self.git.job).with_hooks();
        let directory = git.run(self.root, &["rev-parse", "--git-path", "hooks"]);
        let is_there = |name: &&str| {
            let found = directory.as_ref().ok().and_then(|hooks| fs::metadata(self.root.join(hooks).join(name)).ok());
            found.is_some_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let hooks: Vec<&str> = HOOKS.into_iter().filter(is_there).collect();
        let hooks = (!hooks.is_empty()).then(|| format!("no hook was run ({})", hooks.join(", ")));
        let left_out: Vec<String> =
            hooks.into_iter().chain(self.signs().then(|| "the commit is not signed".to_owned())).collect();
        match left_out.is_empty() {
            true => String::new(),
            false => format!("; {}: --verify before --commit does that", left_out.join(", and ")),
        }
    }

    /// A person's files are touched only where git knows all of them.
    fn require_clean_checkout(&self) -> Outcome<()> {
        let Some(checkout) = &self.checkout else { return Ok(()) };
        let (target, shown) = (&self.target, checkout.display());
        let directory = own_directory(checkout, &self.common)?;
        if UNDER_WAY.iter().any(|name| directory.join(name).exists()) {
            return Err(format!("a merge or rebase is under way in {shown}: finish or abort it first"));
        }
        // In the sandbox only this one sees the files there.
        let git = Git::at(checkout, &self.common, self.git.env, self.git.job)?;
        let changed = git.run(checkout, &plain(&["status", "--porcelain", "--untracked-files=no"]))?;
        if changed.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{shown}, where {target} is checked out, has uncommitted changes; commit or stash them first:\n{}",
            list_names(changed.lines().map(path_in_status))
        ))
    }

    /// Merges, rebases or squashes in a worktree that is removed afterwards, and returns the new commit and
    /// what failed on the way.
    fn combine(&self, request: &LandRequest, old: &str, tip: &str) -> Outcome<(String, String)> {
        let name = self.root.file_name().unwrap_or_default().to_string_lossy();
        let place = self.root.with_file_name(format!("{LANDING}{name}"));
        self.remove(&place);
        // What a crash has left.
        drop(self.run(self.root, &["worktree", "prune"]));
        let (from, branch) = (if request.method == LandMethod::Rebase { tip } else { old }, branch_of(self.root));
        let outcome = self
            .run(
                self.root,
                &["worktree", "add", "--quiet", "--no-checkout", "--detach", &place.to_string_lossy(), from],
            )
            .and_then(|_| self.run(&place, &CHECK_OUT))
            .and_then(|_| match request.method {
                LandMethod::Rebase => self.run(&place, &["rebase", "--quiet", old]),
                LandMethod::Squash => {
                    self.run(&place, &["merge", "--quiet", "--squash", "--no-verify-signatures", tip])?;
                    if self.run(&place, &["diff", "--cached", "--quiet"]).is_ok() {
                        return Ok(String::new());
                    }
                    let message = request.commit.clone().unwrap_or_else(|| format!("Squash branch '{branch}'"));
                    let message = with_trailers(&message, request);
                    self.run(&place, &["commit", "--quiet", "--no-verify", "-m", &message])
                }
                LandMethod::Merge => {
                    let message = with_trailers(&format!("Merge branch '{branch}'"), request);
                    let options = ["merge", "--quiet", "--ff", "--no-edit", "--no-verify", "--no-verify-signatures"];
                    self.run(&place, &[&options[..], &["-m", &message, tip]].concat())
                }
            })
            .and_then(|_| self.run(&place, &["rev-parse", "HEAD"]));
        let outcome = outcome
            .map_err(|why| {
                let conflicts = self.run(&place, &["diff", "--name-only", "--diff-filter=U"]).unwrap_or_default();
                match conflicts.as_str() {
                    "" => why,
                    conflicts => format!(
                        "{branch} conflicts with {}, nothing was landed:\n{}\n\
                         merge {} into {branch} in the worktree {}, which an agent there can do, and land again",
                        self.target,
                        list_names(conflicts.lines()),
                        self.target,
                        self.root.display()
                    ),
                }
            })
            .and_then(|new| self.check(&place, request, (old, tip)).map(|failures| (new, failures)));
        self.remove(&place);
        outcome
    }

    /// Fails if the command that was asked for fails at `place`, where the result is checked out. Returns what could not be
    /// prepared there.
    fn check(&self, place: &Path, request: &LandRequest, commits: (&str, &str)) -> Outcome<String> {
        if request.check.is_empty() {
            return Ok(String::new());
        }
        let command = done::name_of(&request.check);
        let failures = self.equip(place, request);
        let Checked { failure: Some(why), output } = self.run_check(place, request)? else { return Ok(failures) };
        let whose = self.find_cause(place, request, commits);
        let output = text::last_lines(&output, MOST_LINES).join("\n");
        let parts = [output, failures].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
        Err(format!("{command} fails on {} with it ({why}){whose}, nothing was landed:\n{parts}", self.target))
    }

    /// Prepares a checkout as a new worktree. Returns what could not be prepared.
    fn equip(&self, place: &Path, request: &LandRequest) -> String {
        equip(self.checkout.as_deref().unwrap_or(self.root), place, &request.extras, &self.git)
    }

    fn run_check(&self, place: &Path, request: &LandRequest) -> Outcome<Checked> {
        done::check(&request.check, Some(place), self.git.env, self.git.job)
    }

    /// What makes the command fail besides this work: the branch as it is, or the first of the landings before it after which
    /// both fail together.
    fn find_cause(&self, place: &Path, request: &LandRequest, (old, tip): (&str, &str)) -> String {
        let before: Vec<&(Landed, String)> =
            request.before.iter().filter(|(landed, _)| landed.target == self.target).collect();
        let go_to = |commit: &str| {
            // What an earlier run has left there could make this one fail.
            self.run(place, &["clean", "--quiet", "-ffdx"]).ok()?;
            self.run(place, &["checkout", "--quiet", "--force", "--detach", commit]).ok()?;
            Some(self.equip(place, request)).filter(String::is_empty)
        };
        let Some((first, _)) = before.first() else {
            let alone = go_to(old).and_then(|_| self.run_check(place, request).ok());
            let fails = alone.is_some_and(|checked| checked.failure.is_some());
            return if fails { ", as it does without it".to_owned() } else { String::new() };
        };
        // `None`: it does not merge there.
        let passes_at = |commit: &str| {
            go_to(commit)?;
            let merged =
                self.run(place, &["merge", "--quiet", "--no-ff", "--no-commit", "--no-verify-signatures", tip]);
            let passes =
                merged.and_then(|_| self.run_check(place, request)).ok().map(|checked| checked.failure.is_none());
            drop(self.run(place, &["reset", "--quiet", "--hard"]));
            passes
        };
        match passes_at(&first.commits.0) {
            Some(true) => {}
            Some(false) => return ", also without what landed before it".to_owned(),
            None => return String::new(),
        }
        // After `low` landings it passes, after `high` it fails.
        let (mut low, mut high) = (0, before.len());
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            match passes_at(&before[middle - 1].0.commits.1) {
                Some(true) => low = middle,
                Some(false) => high = middle,
                None => return String::new(),
            }
        }
        format!(", but not without what {} has landed", before[high - 1].1)
    }

    fn remove(&self, place: &Path) {
        if !place.exists() {
            return;
        }
        let _ = self.without_interruption(|git| {
            let removed =
                git.run(self.root, &plain(&["worktree", "remove", "--force", "--force", &place.to_string_lossy()]));
            drop(fs::remove_dir_all(place));
            removed.and(git.run(self.root, &plain(&["worktree", "prune"])))
        });
    }

    /// Moves the branch on to the new commit, with the files where it is checked out.
    fn advance(&self, old: &str, new: &str) -> Outcome<()> {
        let target = &self.target;
        self.require_clean_checkout()?;
        if self.run(self.root, &["rev-parse", &format!("refs/heads/{target}")])? != old {
            return Err(format!("{target} has moved on meanwhile: land again"));
        }
        let Some(checkout) = &self.checkout else {
            let reference = format!("refs/heads/{target}");
            let moved = self.run(self.root, &["update-ref", "-m", "polylogue land", &reference, new, old]).map(drop);
            return moved.or_else(|why| if self.is_at(new) { Ok(()) } else { Err(why) });
        };
        let options = ["diff", "--name-only", "-z", "--no-renames", "--diff-filter=A", old, new];
        let added = self.run(self.root, &options)?;
        let added = added.split('\0').filter(|name| !name.is_empty());
        let in_the_way = added.filter(|name| checkout.join(name).symlink_metadata().is_ok());
        let in_the_way = list_names(in_the_way);
        if !in_the_way.is_empty() {
            return Err(format!("{}: untracked files would be overwritten:\n{in_the_way}", checkout.display()));
        }
        let git = Git::at(checkout, &self.common, self.git.env, self.git.job)?;
        recovery::begin(self.root, checkout, old, new)?;
        let arguments = ["merge", "--quiet", "--ff-only", "--no-overwrite-ignore", "--no-verify-signatures", new];
        let moved = git.run(checkout, &plain(&arguments)).map(drop);
        let failure = |why: &str| format!("{target} stays as it was in {}: {why}", checkout.display());
        match moved {
            Err(why) if self.git.job.is_cancelled() => match self.take_back() {
                _ if self.is_at(new) => Ok(()),
                Ok(()) => Err(failure(&why)),
                Err(left) => Err(format!("{}\n{left}", failure(&why))),
            },
            // Git has moved it, or has refused before it changed anything.
            moved => {
                recovery::end(self.root);
                moved.map_err(|why| failure(&why))
            }
        }
    }

    /// Whether the branch has this commit, although the landing was interrupted.
    fn is_at(&self, commit: &str) -> bool {
        let arguments = ["rev-parse", &format!("refs/heads/{}", self.target)];
        self.without_interruption(|git| git.run(self.root, &plain(&arguments))).is_ok_and(|found| found == commit)
    }

    fn run(&self, directory: &Path, arguments: &[&str]) -> Outcome<String> {
        self.git.run(directory, &plain(arguments))
    }
}

/// The message of a commit with the lines that end it.
fn with_trailers(message: &str, request: &LandRequest) -> String {
    if request.trailers.is_empty() {
        return message.to_owned();
    }
    let message = message.trim_end();
    let is_trailer = |line: &str| {
        let name = line.split_once(": ").map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    // The trailers of a message are its last paragraph (git-interpret-trailers(1)).
    let has_trailers = message.rsplit_once("\n\n").is_some_and(|(_, last)| last.lines().all(is_trailer));
    let space = if has_trailers { "\n" } else { "\n\n" };
    format!("{message}{space}{}", request.trailers.join("\n"))
}

fn plain<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&PLAIN[..], arguments].concat()
}

/// From `git worktree list --porcelain`; the main working tree is the first.
fn checkouts(listed: &str) -> Vec<Checkout> {
    let mut found: Vec<Checkout> = Vec::new();
    for line in listed.lines() {
        if let Some(path) = line.strip_prefix("worktree ") {
            found.push(Checkout { path: path.into(), branch: None });
        } else if let (Some(branch), Some(checkout)) = (line.strip_prefix("branch refs/heads/"), found.last_mut()) {
            checkout.branch = Some(branch.to_owned());
        }
    }
    found
}

/// The path in a line of `git status --porcelain`.
fn path_in_status(line: &str) -> &str {
    line.get(3..).unwrap_or(line)
}

/// One name a line, the first ones.
fn list_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let mut lines: Vec<String> = names.iter().take(MOST_NAMED).map(|name| format!("  {name}")).collect();
    if names.len() > MOST_NAMED {
        lines.push(format!("  and {} more", names.len() - MOST_NAMED));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_of_each_checkout_is_read() {
        let listed = "worktree /a b\nHEAD 1\nbranch refs/heads/main\n\nworktree /c\nHEAD 2\ndetached\n";
        let found: Vec<_> = checkouts(listed).into_iter().map(|found| (found.path, found.branch)).collect();
        assert_eq!(found, [("/a b".into(), Some("main".to_owned())), ("/c".into(), None)]);
    }

    #[test]
    fn trailers_join_those_that_a_message_has() {
        let request = LandRequest { trailers: vec!["By: x".into()], ..LandRequest::default() };
        for (message, expected) in [
            ("fix: it", "fix: it\n\nBy: x"),
            ("fix\n\nbody: with words\nand more", "fix\n\nbody: with words\nand more\n\nBy: x"),
            ("fix\n\nSigned-off-by: a\n", "fix\n\nSigned-off-by: a\nBy: x"),
        ] {
            assert_eq!(with_trailers(message, &request), expected);
        }
    }

    #[test]
    fn the_first_names_are_listed() {
        assert_eq!(list_names(["a", "b"].into_iter()), "  a\n  b");
        assert_eq!(list_names(["x"; 12].into_iter()).lines().last(), Some("  and 2 more"));
        assert_eq!(path_in_status(" M a b"), "a b");
    }
}
