//! Which worktrees of one repository would conflict with each other, or with the branch that they left, if they were landed
//! as they are now.
//!
//! Git merges them in memory (git-merge-tree(1), since 2.38). What it writes is in a directory of ours: nothing changes in the
//! repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::branch_diff::{SCRATCH, base, objects_in, stage_in};
use super::git::Git;
use super::worktree::{IDENTITY, Left};
use super::{Environment, Job, Outcome};
use crate::sandbox;

/// With what a worktree conflicts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Other {
    /// The branch that it left.
    Branch(String),
    Worktree(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub root: PathBuf,
    pub other: Other,
    /// Relative to the repository.
    pub files: Vec<String>,
}

/// The lines that differ between a worktree and where it left its branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    pub added: usize,
    pub removed: usize,
}

/// A worktree as it was when it was looked at.
#[derive(Debug)]
struct Seen {
    /// A commit of all that is in it, committed or not.
    commit: String,
    /// The git directory of its repository.
    common: PathBuf,
    /// The branch that it left.
    target: Option<String>,
    size: Size,
    /// It differs from where it left its branch, perhaps only in modes or binary files.
    is_changed: bool,
}

/// The worktrees that were looked at, and the conflicts among them. What git writes for it is deleted with it.
#[derive(Debug)]
pub struct Survey {
    seen: BTreeMap<PathBuf, Seen>,
    conflicts: Vec<Conflict>,
    /// Where git writes, beside the worktrees.
    place: PathBuf,
}

impl Survey {
    /// Nothing is known yet. `worktrees` is the directory of all worktrees.
    pub fn new(worktrees: &Path) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let place = worktrees.join(format!("{SCRATCH}{}-survey-{count}", std::process::id()));
        Self { seen: BTreeMap::new(), conflicts: Vec::new(), place }
    }

    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// How much a worktree differs; `None`: it was not looked at.
    pub fn size(&self, root: &Path) -> Option<Size> {
        self.seen.get(root).map(|seen| seen.size)
    }

    /// Looks at those of the worktrees that have changed or were not looked at yet, and at the branches that they left. Other
    /// worktrees are forgotten.
    ///
    /// # Errors
    /// Git could not be run. A worktree that cannot be compared is left out.
    pub fn update(
        mut self,
        worktrees: &BTreeSet<PathBuf>,
        changed: &BTreeSet<PathBuf>,
        env: &Environment,
        job: &Job,
    ) -> Outcome<Self> {
        self.seen.retain(|root, _| worktrees.contains(root) && !changed.contains(root));
        let known: BTreeSet<PathBuf> = self.seen.keys().cloned().collect();
        self.conflicts.retain(|found| match &found.other {
            Other::Worktree(other) => known.contains(&found.root) && known.contains(other),
            Other::Branch(_) => false,
        });
        for root in worktrees.difference(&known) {
            if let Ok(seen) = look(root, &self.place, env, job) {
                self.seen.insert(root.clone(), seen);
            }
            if job.is_cancelled() {
                return Err("interrupted".into());
            }
        }
        let repositories: BTreeSet<PathBuf> = self.seen.values().map(|seen| seen.common.clone()).collect();
        for common in repositories {
            // In another repository it may work.
            if let Ok(found) = self.merge_in(&common, &known, env, job) {
                self.conflicts.extend(found);
            }
            if job.is_cancelled() {
                return Err("interrupted".into());
            }
        }
        Ok(self)
    }

    /// The conflicts in a repository, without those between two worktrees that were known before.
    fn merge_in(
        &self,
        common: &Path,
        known: &BTreeSet<PathBuf>,
        env: &Environment,
        job: &Job,
    ) -> Outcome<Vec<Conflict>> {
        let here: Vec<(&PathBuf, &Seen)> = self.seen.iter().filter(|(_, seen)| seen.common == common).collect();
        let Some((first, _)) = here.first() else { return Ok(Vec::new()) };
        let mut git = Git::to_look_at(first, env, job);
        git.variables = objects_in(&self.place, common);
        let mut tips: BTreeMap<&str, Option<String>> = BTreeMap::new();
        for target in here.iter().filter_map(|(_, seen)| seen.target.as_deref()) {
            let name = format!("refs/heads/{target}^{{commit}}");
            tips.entry(target).or_insert_with(|| git.run(first, &["rev-parse", "--verify", "--quiet", &name]).ok());
        }
        let (mut pairs, mut input) = (Vec::new(), String::new());
        for (at, (root, seen)) in here.iter().enumerate() {
            if let Some(target) = &seen.target
                && let Some(Some(tip)) = tips.get(target.as_str())
            {
                pairs.push((*root, Other::Branch(target.clone())));
                input.push_str(&format!("{tip} {}\n", seen.commit));
            }
            for (other, with) in &here[at + 1..] {
                // What one has landed or merged conflicts with the branch, not with the agent.
                let both_changed = seen.is_changed && with.is_changed;
                if both_changed && (!known.contains(*root) || !known.contains(*other)) {
                    pairs.push((*root, Other::Worktree((*other).clone())));
                    input.push_str(&format!("{} {}\n", seen.commit, with.commit));
                }
            }
        }
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let options = ["merge-tree", "--write-tree", "--stdin", "-z", "--name-only", "--no-messages"];
        let output = git.run_with_input(first, &options, Some(input.as_bytes()))?;
        let merges: Vec<(bool, Vec<String>)> = parse(&output).collect();
        if merges.len() != pairs.len() {
            return Err(format!("unexpected output of git merge-tree: {} of {} merges", merges.len(), pairs.len()));
        }
        let conflicts = pairs.into_iter().zip(merges).filter(|(_, (is_clean, _))| !is_clean);
        Ok(conflicts.map(|((root, other), (_, files))| Conflict { root: root.clone(), other, files }).collect())
    }
}

impl Drop for Survey {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.place));
    }
}

/// Makes a commit of all that is in a worktree, in a directory of ours.
fn look(root: &Path, place: &Path, env: &Environment, job: &Job) -> Result<Seen, String> {
    let common = sandbox::git_directory(root).ok_or("it is no longer part of a repository")?;
    let mut git = Git::to_look_at(root, env, job).without_filters(root)?;
    if git.repository_names_programs() {
        return Err("the repository configures programs that polylogue does not run".into());
    }
    let (base, _) = base(root, &git)?;
    stage_in(place, root, &common, &mut git)?;
    let tree = git.run(root, &["write-tree"])?;
    let commit = ["commit-tree", &tree, "-p", "HEAD", "-m", "as it is now"];
    let commit = git.run(root, &[&IDENTITY[..], &commit].concat())?;
    let options = ["diff", "--cached", "--no-ext-diff", "--no-textconv", "--no-color", "--shortstat", &base];
    let stat = git.run(root, &options)?;
    let (size, is_changed) = (size_in(&stat), !stat.trim().is_empty());
    let target = Left::read(root).map(|left| left.branch).filter(|branch| !branch.is_empty());
    Ok(Seen { commit, common, target, size, is_changed })
}

/// From `3 files changed, 8 insertions(+), 2 deletions(-)`, of which each part may be missing.
fn size_in(shortstat: &str) -> Size {
    let count = |what: &str| {
        let part = shortstat.split(',').find(|part| part.contains(what))?;
        part.split_whitespace().next()?.parse().ok()
    };
    Size { added: count("insertion").unwrap_or(0), removed: count("deletion").unwrap_or(0) }
}

/// The merges in an output of `git merge-tree --stdin -z --name-only --no-messages`: whether each is clean, and the files that
/// conflict. A merge is `STATUS NUL TREE NUL [FILE NUL]... NUL`, where the status 1 means clean.
fn parse(output: &str) -> impl Iterator<Item = (bool, Vec<String>)> {
    let mut fields = output.split('\0');
    std::iter::from_fn(move || {
        let status = fields.next().map(str::trim).filter(|status| !status.is_empty())?;
        let _tree = fields.next()?;
        let files = fields.by_ref().take_while(|file| !file.is_empty()).map(str::to_owned).collect();
        Some((status == "1", files))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_are_told_apart() {
        let output = ["0\0be48\0f\0g\0\0", "1\0", "1e3f\0\0", "1\0e77f\0\0"].concat();
        let merges: Vec<_> = parse(&output).collect();
        assert_eq!(merges, [(false, vec!["f".to_owned(), "g".to_owned()]), (true, vec![]), (true, vec![])]);
        assert_eq!(parse("").count(), 0);
    }

    #[test]
    fn the_size_of_a_change_is_read() {
        let size = |added, removed| Size { added, removed };
        assert_eq!(size_in(" 3 files changed, 8 insertions(+), 2 deletions(-)"), size(8, 2));
        assert_eq!(size_in(" 1 file changed, 1 deletion(-)"), size(0, 1));
        assert_eq!(size_in(""), size(0, 0));
    }
}
