//! The changes in a worktree since its branch left, committed or not.
//!
//! The files are added to a copy of the index, and their contents to a directory of ours: nothing changes in the
//! repository.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::file_access::reason;
use super::git::{Git, own_directory};
use super::snapshots::MOST_IN_INDEX;
use super::worktree::{Left, branch_of, refuse_inner_programs};
use super::{Environment, Job, Outcome};
use crate::base::beneath::copy;
use crate::domain::diff::{FileDiff, parse_git};
use crate::sandbox;

/// The most bytes of a diff that are shown.
const MAX_DIFF: usize = 4 << 20;

/// Begins the names of directories beside the worktrees that only last as long as a comparison.
pub const SCRATCH: &str = ".diff-";

/// What was done in a worktree.
pub struct BranchDiff {
    /// Which branch, and since when.
    pub heading: String,
    /// The branch that it left.
    pub target: String,
    /// Their paths are relative to the worktree.
    pub files: Vec<FileDiff>,
}

/// The diff of the worktree at `root`.
pub fn diff(root: &Path, env: &Environment, job: &Job) -> Outcome<BranchDiff> {
    compare(root, env, job).map_err(|why| format!("cannot compare {}: {why}", root.display()))
}

fn compare(root: &Path, env: &Environment, job: &Job) -> Result<BranchDiff, String> {
    let common = sandbox::git_directory(root).ok_or("it is no longer part of a repository")?;
    let mut git = Git::to_look_at(root, env, job).without_filters(root)?;
    let (base, target) = base(root, &git)?;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Several can run at the same time.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let place = root.with_file_name(format!("{SCRATCH}{}-{count}", std::process::id()));
    drop(fs::remove_dir_all(&place));
    let compared = stage_in(&place, root, &common, &mut git).and_then(|()| {
        git.max_output = MAX_DIFF;
        let prefixes = ["--src-prefix=a/", "--dst-prefix=b/"];
        let options = ["diff", "--cached", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--patch"];
        let patch = git.run(root, &[&["-c", "core.quotePath=false"], &options[..], &prefixes, &[&base]].concat())?;
        if !is_cut(&patch) {
            return Ok(parse_git(&patch));
        }
        let options = ["diff", "--cached", "--no-ext-diff", "--no-renames", "--name-only", "-z", &base];
        let names = git.run(root, &options)?;
        let about = "not shown, all changes together are too large";
        let file = |name: &str| FileDiff { path: name.into(), about: about.into(), ..FileDiff::default() };
        Ok(names.split('\0').filter(|name| !name.is_empty()).map(file).collect())
    });
    drop(fs::remove_dir_all(&place));
    let (branch, short) = (branch_of(root), base.get(..7).unwrap_or(&base));
    let files = compared?;
    let heading = match files.is_empty() {
        true => format!("nothing has changed since {branch} left {target} at {short}"),
        false => format!("{branch} since it left {target} at {short}, committed or not"),
    };
    Ok(BranchDiff { heading, target, files })
}

/// Stages all changes of a worktree in a copy of its index. Until the end of `git`, that index and the new objects are in
/// `place`.
pub(super) fn stage_in(place: &Path, root: &Path, common: &Path, git: &mut Git) -> Result<(), String> {
    refuse_inner_programs(root, git)?;
    let index = own_directory(root, common)?.join("index");
    let prepare = || {
        DirBuilder::new().recursive(true).mode(0o700).create(place.join("objects"))?;
        drop(fs::remove_file(place.join("index")));
        // Commands in the worktree can put anything there.
        copy(&index.canonicalize()?, &place.join("index"), MOST_IN_INDEX)
    };
    prepare().map_err(|error| reason(&error))?;
    git.variables = objects_in(place, common);
    git.variables.push(("GIT_INDEX_FILE".into(), place.join("index").display().to_string()));
    git.run(root, &["-c", "core.safecrlf=false", "add", "--all"]).map(drop)
}

/// The variables by which git writes new objects to a directory of ours.
pub(super) fn objects_in(place: &Path, common: &Path) -> Vec<(String, String)> {
    vec![
        ("GIT_OBJECT_DIRECTORY".into(), place.join("objects").display().to_string()),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), quote_path(&common.join("objects"))),
    ]
}

/// Whether the middle of an output was left out (`tools::capture`): no line of a diff begins like this.
fn is_cut(patch: &str) -> bool {
    patch.lines().any(|line| line.starts_with('[') && line.contains(" bytes omitted; "))
}

/// The commit at which the worktree's branch began, and the branch. Later landings, and merges from there, are not part
/// of the changes.
pub(super) fn base(root: &Path, git: &Git) -> Result<(String, String), String> {
    let merge_base = |commit: &str| git.run(root, &["merge-base", "HEAD", commit]);
    let Some(Left { branch, commit }) = Left::read(root) else {
        let listed = git.run(root, &["worktree", "list", "--porcelain"])?;
        let head = listed.lines().find_map(|line| line.strip_prefix("HEAD "));
        return Ok((merge_base(head.ok_or("the repository has no commits")?)?, "the repository".into()));
    };
    let on_branch = if branch.is_empty() { None } else { merge_base(&format!("refs/heads/{branch}")).ok() };
    let target = if branch.is_empty() { "the repository".into() } else { branch };
    Ok((on_branch.map_or_else(|| merge_base(&commit), Ok)?, target))
}

/// For a list that colons separate (git(1)).
pub(super) fn quote_path(path: &Path) -> String {
    format!("\"{}\"", path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\""))
}
