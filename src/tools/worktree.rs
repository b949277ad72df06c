//! Creates and removes a git worktree for an agent.
//!
//! ```text
//!   WORKTREES/REPOSITORY@NAME/   the working tree
//!   branch polylogue/NAME        starts at the current commit
//! ```
//! Earlier versions called the working tree by the agent's id, and the branch by its first characters.
//!
//! Git runs like a command, supervised and on a thread, and starts no program that the repository names: no hooks, file
//! system monitor, filters or transports. A worktree that could not be completed is removed; one with changes or commits of
//! its own is never removed.

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use super::done::{self, Checked, check};
use super::file_access::reason;
use super::git::{CHECK_OUT, Git};
use super::{Environment, Job, Outcome};
use crate::base::beneath::{copy, read_followed};
use crate::base::{file, text};
use crate::domain::file_change::WorktreeExtras;
use crate::sandbox;

/// The beginning of a pointer (git-lfs, docs/spec.md).
const POINTER: &[u8; 42] = b"version https://git-lfs.github.com/spec/v1";
/// Maximum files that are checked.
const MOST_POINTERS: usize = 20;
/// Who makes a commit that only keeps something: the person need not have a name.
pub(super) const IDENTITY: [&str; 4] = ["-c", "user.name=polylogue", "-c", "user.email=polylogue@localhost"];
/// The last lines of the output of a set-up command that has failed.
const MOST_LINES: usize = 10;
/// Maximum submodules named in a message.
const MOST_NAMED: usize = 5;

/// Between the names of the repository and of the worktree.
pub const SEPARATOR: char = '@';

/// Maximum characters of a name that is made from a text.
const MAX_NAME: usize = 32;

/// The branch of the worktree at this path.
pub fn branch_of(root: &Path) -> String {
    let directory = root.file_name().unwrap_or_default().to_string_lossy();
    match directory.rsplit_once(SEPARATOR) {
        Some((_, name)) => format!("polylogue/{name}"),
        None => format!("polylogue/{}", directory.chars().take(6).collect::<String>()),
    }
}

/// A name for a worktree from the first words of a text: lower-case letters, digits and hyphens. Empty if it has none.
pub fn name_from(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = String::new();
    for word in words {
        let word = word.to_lowercase();
        if !name.is_empty() && name.chars().count() + 1 + word.chars().count() > MAX_NAME {
            break;
        }
        let hyphen = if name.is_empty() { "" } else { "-" };
        name.push_str(hyphen);
        name.extend(word.chars().take(MAX_NAME));
    }
    name
}

/// Of the file that says where a worktree left, in bytes.
const MAX_NOTE: u64 = 64 << 10;

/// Where a worktree left the repository.
pub(super) struct Left {
    /// The branch that was checked out there; empty if none was.
    pub branch: String,
    pub commit: String,
}

impl Left {
    /// None for a worktree of an earlier version.
    pub(super) fn read(root: &Path) -> Option<Self> {
        let text = String::from_utf8(read_followed(&left_file(root), MAX_NOTE).ok()?).ok()?;
        let (branch, commit) = text.trim_end().split_once('\n')?;
        Some(Self { branch: branch.to_owned(), commit: commit.to_owned() })
    }

    /// Notes what is checked out in a directory.
    fn note(root: &Path, directory: &Path, commit: &str, git: &Git) -> Result<(), String> {
        // It fails if no branch is checked out.
        let branch = git.run(directory, &["symbolic-ref", "--quiet", "--short", "HEAD"]).unwrap_or_default();
        file::replace(&left_file(root), format!("{branch}\n{commit}\n").as_bytes()).map_err(|error| reason(&error))
    }
}

/// Where is written what [`Left`] has.
fn left_file(root: &Path) -> PathBuf {
    notes(root.parent().unwrap_or(root)).join(root.file_name().unwrap_or_default())
}

/// The directory of what is noted about worktrees, beside that of the worktrees.
pub(super) fn notes(worktrees: &Path) -> PathBuf {
    worktrees.with_file_name("worktree-branches")
}

/// Forgets the origin of a removed worktree.
pub fn forget(root: &Path) {
    drop(fs::remove_file(left_file(root)));
}

/// What became of a worktree to add.
pub enum AddedWorktree {
    Added {
        /// The directory in it that corresponds to the one it was made for.
        directory: PathBuf,
        /// What git has not checked out there, for the person; empty if all is there.
        incomplete: String,
    },
    /// Nothing was added: the branch exists already.
    BranchExists,
}

/// Adds a worktree at `root` of the repository that contains `directory`. After an error there is none.
pub fn add(
    directory: &Path,
    root: &Path,
    extras: &WorktreeExtras,
    env: &Environment,
    job: &Job,
) -> Outcome<AddedWorktree> {
    let git = Git::beside(directory, root, env, job).without_filters(directory)?;
    let (prefix, commit) = place_in_repository(directory, &git)?;
    let branch = branch_of(root);
    if !git.run(directory, &["for-each-ref", "--format=%(refname)", &format!("refs/heads/{branch}")])?.is_empty() {
        return Ok(AddedWorktree::BranchExists);
    }
    let parent = root.parent().unwrap_or(Path::new("/"));
    let created = DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|error| reason(&error));
    let arguments = ["worktree", "add", "--quiet", "--no-checkout", "-b", &branch, &root.to_string_lossy(), "HEAD"];
    // Before git runs there is no branch that an error would have to remove.
    created.and_then(|()| Left::note(root, directory, &commit, &git))?;
    // While files are checked out, others may add worktrees.
    match git.run(directory, &arguments).and_then(|_| git.run(root, &CHECK_OUT)) {
        Ok(_) if !git.job.is_cancelled() => {
            let inside = Some(root.join(prefix)).filter(|inside| inside.is_dir());
            let inside = inside.unwrap_or(root.into());
            let missing = incomplete(root, &git);
            let failures = equip(directory, root, extras, &git);
            if job.is_cancelled() {
                undo(directory, root, git.env);
                return Err("interrupted".into());
            }
            let incomplete = [missing, failures].into_iter().filter(|part| !part.is_empty());
            Ok(AddedWorktree::Added { directory: inside, incomplete: incomplete.collect::<Vec<_>>().join("\n") })
        }
        outcome => {
            undo(directory, root, git.env);
            Err(outcome.err().unwrap_or("interrupted".into()))
        }
    }
}

/// Gives a new worktree what it gets besides a checkout, from the repository around `directory`. Returns what failed, for the
/// person; empty if nothing did.
pub(super) fn equip(directory: &Path, root: &Path, extras: &WorktreeExtras, git: &Git) -> String {
    let parts = [copy_files(directory, root, &extras.copy, git), set_up(root, &extras.setup, git)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The most bytes of a file that is copied to a new worktree.
const MAX_COPIED: u64 = 64 << 20;

/// Copies files that git does not track from the repository. Returns what could not be copied, for the person.
fn copy_files(directory: &Path, root: &Path, names: &[String], git: &Git) -> String {
    if names.is_empty() {
        return String::new();
    }
    let top = match git.run(directory, &["rev-parse", "--show-toplevel"]) {
        Ok(top) => PathBuf::from(top),
        Err(why) => return format!("no file was copied: {why}"),
    };
    let copied = |name: &String| {
        let relative = Path::new(name);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(format!("{name}: not a path in the repository"));
        }
        let to = root.join(relative);
        if to.symlink_metadata().is_ok() {
            return Ok(());
        }
        let found = top.join(relative);
        make_directories(root, relative.parent().unwrap_or(Path::new("")))
            .and_then(|()| copy(&found, &to, MAX_COPIED))
            .and_then(|()| fs::set_permissions(&to, fs::metadata(&found)?.permissions()))
            .map_err(|error| format!("{name}: {}", reason(&error)))
    };
    let failures: Vec<String> = names.iter().filter_map(|name| copied(name).err()).collect();
    if failures.is_empty() { String::new() } else { format!("not copied: {}", failures.join("; ")) }
}

/// Makes directories below `root`. A branch may have a link in their place, which is not followed.
fn make_directories(root: &Path, relative: &Path) -> io::Result<()> {
    let mut at = root.to_owned();
    for part in relative.components() {
        at.push(part);
        match at.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("{} is not a directory", at.display()))),
            Err(_) => fs::create_dir(&at)?,
        }
    }
    Ok(())
}

/// What a worktree of ours is called: `shop:fix-total`.
pub fn name_of(root: &Path) -> Option<String> {
    let (repository, name) = root.file_name()?.to_str()?.rsplit_once(SEPARATOR)?;
    Some(format!("{repository}:{name}"))
}

/// Runs the command that sets a new worktree up. Returns why it failed, for the person.
fn set_up(root: &Path, words: &[String], git: &Git) -> String {
    if words.is_empty() || git.job.is_cancelled() {
        return String::new();
    }
    let command = done::name_of(words);
    match check(words, Some(root), git.env, git.job) {
        Ok(Checked { failure: None, .. }) => String::new(),
        Ok(Checked { failure: Some(why), output }) => {
            format!("{command} failed ({why}):\n{}", text::last_lines(&output, MOST_LINES).join("\n"))
        }
        Err(why) => format!("{command} was not run: {why}"),
    }
}

/// What git has not checked out in a new worktree, for the person, with the commands that do; empty if all is there.
fn incomplete(root: &Path, git: &Git) -> String {
    let has_submodules = root.join(".gitmodules").symlink_metadata().is_ok();
    let arguments = ["config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$"];
    let listed = has_submodules.then(|| git.run(root, &arguments)).and_then(Result::ok);
    let submodules: Vec<String> = listed
        .iter()
        .flat_map(|listed| listed.lines())
        .filter_map(|line| Some(line.split_once(' ')?.1.to_owned()))
        .collect();
    let is_empty = |path: &&String| fs::read_dir(root.join(path)).is_ok_and(|mut entries| entries.next().is_none());
    let submodules: Vec<&String> = submodules.iter().filter(is_empty).collect();
    let files = git.run(root, &["ls-files", "--", ":(top,attr:filter=lfs)"]).unwrap_or_default();
    let is_pointer = files.lines().take(MOST_POINTERS).any(|path| is_pointer(&root.join(path)));
    let submodules = (!submodules.is_empty()).then(|| {
        let names: Vec<&str> = submodules.iter().take(MOST_NAMED).map(|name| name.as_str()).collect();
        let more = if submodules.len() > MOST_NAMED { ", ..." } else { "" };
        format!("submodules are empty ({}{more}): git submodule update --init --recursive fills them", names.join(", "))
    });
    let pointers = is_pointer.then(|| "files of Git LFS are pointers: git lfs pull fills them".to_owned());
    submodules.into_iter().chain(pointers).collect::<Vec<_>>().join("\n")
}

/// Whether a file is what Git LFS stores in place of another one.
fn is_pointer(path: &Path) -> bool {
    let mut begin = [0; POINTER.len()];
    file::open_regular(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *POINTER
}

/// The path of a directory relative to the root of its repository, if that can have worktrees, and the commit that is
/// checked out.
fn place_in_repository(directory: &Path, git: &Git) -> Result<(String, String), String> {
    let shown = directory.display();
    let options = ["--is-inside-work-tree", "--show-superproject-working-tree", "--show-prefix"];
    let answer = match git.run(directory, &[&["rev-parse"][..], &options].concat()) {
        Ok(answer) => answer,
        Err(why) if why.contains("not a git repository") => return Err(format!("{shown} is not in a git repository")),
        Err(why) => return Err(why),
    };
    let Some(rest) = answer.strip_prefix("true") else {
        return Err(format!("{shown} is in a bare repository or inside .git; use the directory of a project"));
    };
    let rest = rest.strip_prefix('\n').unwrap_or(rest);
    // It is absolute, and printed only if there is one.
    if let Some(superproject) = rest.lines().next().filter(|line| line.starts_with('/')) {
        return Err(format!("{shown} is in a submodule of {superproject}; worktrees of submodules are not supported"));
    }
    let commit = git
        .run(directory, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
        .map_err(|_| format!("the repository of {shown} has no commits; a worktree needs one to start from"))?;
    Ok((rest.to_owned(), commit))
}

/// Removes a worktree in which no agent has worked yet. Runs also if the job was cancelled.
fn undo(directory: &Path, root: &Path, env: &Environment) {
    let Ok(job) = Job::new() else { return };
    let git = Git::beside(directory, root, env, &job);
    // Each step handles what the one before it may have left.
    drop(git.run(directory, &["worktree", "remove", "--force", "--force", &root.to_string_lossy()]));
    drop(fs::remove_dir_all(root));
    drop(git.run(directory, &["worktree", "prune"]));
    drop(git.run(directory, &["branch", "-D", &branch_of(root)]));
}

/// Removes the worktree at `root` unless work would be lost. The result is a message for the person.
pub fn remove(root: &Path, env: &Environment, job: &Job) -> Outcome<String> {
    let (shown, branch) = (root.display(), branch_of(root));
    let git = Git::to_remove(root, env, job).without_filters(root).map_err(|why| kept_message(root, &why))?;
    if let Some(what) = unsaved_work(root, &branch, &git).map_err(|why| kept_message(root, &why))? {
        return Ok(kept_message(root, what));
    }
    let outcome = git.run(root, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).and_then(|common| {
        let common = PathBuf::from(common);
        // Without --force, so that git checks for changes again.
        git.run(&common, &["worktree", "remove", &root.to_string_lossy()])?;
        git.run(&common, &["branch", "-D", &branch])
    });
    match outcome {
        Ok(_) => Ok(format!("removed the worktree {shown}, which had no changes")),
        Err(why) => Err(format!("cannot remove the worktree {shown}: {why}")),
    }
}

/// Discarded work is kept so long, as a ref.
const KEPT_DAYS: i64 = 30;
/// Where those refs are.
const DISCARDED: &str = "refs/polylogue/discarded";

/// Removes the worktree at `root` with all that is in it. Its last state is kept as a ref, which the message names.
pub fn discard(root: &Path, unix_ms: i64, env: &Environment, job: &Job) -> Outcome<String> {
    let git = Git::to_remove(root, env, job).without_filters(root)?;
    let (branch, now) = (branch_of(root), unix_ms / 1000);
    let common = PathBuf::from(git.run(root, &["rev-parse", "--path-format=absolute", "--git-common-dir"])?);
    refuse_inner_programs(root, &git).map_err(|why| kept_message(root, &why))?;
    git.run(root, &["-c", "core.safecrlf=false", "add", "--all"])?;
    if let Some(inner) = inner_repositories(root, &git)?.first() {
        return Err(kept_message(root, &format!("{inner} is a repository of its own, which a ref would not keep")));
    }
    let kept = keep(&branch, now, root, &git)?;
    git.run(&common, &["worktree", "remove", "--force", &root.to_string_lossy()])?;
    let mut text = format!("discarded {branch}; to restore it within {KEPT_DAYS} days: git branch {branch} {kept}");
    let deleted = git.run(&common, &["branch", "-D", &branch]).and_then(|_| forget_old(now, &common, &git));
    if let Err(why) = deleted {
        text.push_str(&format!("; git says: {why}"));
    }
    Ok(text)
}

/// Keeps what is staged in a worktree, its `HEAD` and its branch as a ref, and returns that.
fn keep(branch: &str, now: i64, root: &Path, git: &Git) -> Result<String, String> {
    let (tree, head) = (git.run(root, &["write-tree"])?, git.run(root, &["rev-parse", "HEAD"])?);
    let tip = git.run(root, &["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{branch}")])?;
    let message = format!("{branch} as it was discarded");
    let own = ["commit-tree", &tree, "-m", &message, "-p", &head];
    let of_branch: &[&str] = if tip.is_empty() || tip == head { &[] } else { &["-p", &tip] };
    let commit = git.run(root, &[&IDENTITY[..], &own, of_branch].concat())?;
    let name = branch.rsplit_once('/').map_or(branch, |(_, name)| name);
    let kept = format!("{DISCARDED}/{name}-{now}");
    git.run(root, &["update-ref", &kept, &commit])?;
    Ok(kept)
}

/// Removes the refs that were kept long enough.
fn forget_old(now: i64, common: &Path, git: &Git) -> Result<(), String> {
    for old in git.run(common, &["for-each-ref", "--format=%(refname)", DISCARDED])?.lines() {
        let at = old.rsplit_once('-').and_then(|(_, at)| at.parse::<i64>().ok());
        if at.is_some_and(|at| at < now - KEPT_DAYS * 24 * 60 * 60) {
            git.run(common, &["update-ref", "-d", old])?;
        }
    }
    Ok(())
}

/// The repositories in the worktree that are in its index, of which git keeps only the commits.
fn inner_repositories(root: &Path, git: &Git) -> Result<Vec<String>, String> {
    let staged = git.run(root, &["ls-files", "--stage", "-z"])?;
    let links = staged.split('\0').filter(|entry| entry.starts_with("160000 "));
    let paths = links.filter_map(|entry| entry.split_once('\t').map(|(_, path)| path.to_owned()));
    Ok(paths.filter(|path| root.join(path).join(".git").symlink_metadata().is_ok()).collect())
}

/// Fails if a repository in the worktree is in its index and has a configuration that an agent can write: git would run the
/// programs that it names.
pub(super) fn refuse_inner_programs(root: &Path, git: &Git) -> Result<(), String> {
    let common = sandbox::git_directory(root).ok_or("it is no longer part of a repository")?;
    let is_of_agent = |path: &String| {
        let at = root.join(path).join(".git");
        let pointed = read_followed(&at, MAX_NOTE).ok().and_then(|text| String::from_utf8(text).ok());
        let to = pointed.and_then(|text| Some(root.join(path).join(text.trim().strip_prefix("gitdir: ")?)));
        let to = to.and_then(|to| to.canonicalize().ok());
        !to.is_some_and(|to| common.canonicalize().is_ok_and(|common| to.starts_with(common)))
    };
    match inner_repositories(root, git)?.into_iter().find(is_of_agent) {
        None => Ok(()),
        Some(path) => Err(format!("{path} is a repository of its own, which may name programs: move it away")),
    }
}

fn kept_message(root: &Path, why: &str) -> String {
    format!("kept the worktree {} (branch {}): {why}", root.display(), branch_of(root))
}

/// What would be lost with a worktree. Ignored files do not count.
fn unsaved_work(root: &Path, branch: &str, git: &Git) -> Result<Option<&'static str>, String> {
    refuse_inner_programs(root, git)?;
    if !git.run(root, &["status", "--porcelain"])?.is_empty() {
        return Ok(Some("it has uncommitted changes"));
    }
    let (exclude, branch) = (format!("--exclude={branch}"), format!("refs/heads/{branch}"));
    let elsewhere = ["--not", &exclude, "--branches", "--tags", "--remotes"];
    let arguments = [&["rev-list", "-n", "1", "HEAD", &branch][..], &elsewhere].concat();
    Ok((!git.run(root, &arguments)?.is_empty()).then_some("it has commits that are on no other branch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_called_as_their_worktrees() {
        let branch = |directory: &str| branch_of(&Path::new("/data/worktrees").join(directory));
        assert_eq!(branch("shop@fix-total"), "polylogue/fix-total");
        assert_eq!(branch("a@b@fix"), "polylogue/fix");
        assert_eq!(branch("U5FOmHCHScmahNrA55S-Yg"), "polylogue/U5FOmH");
    }

    #[test]
    fn a_name_has_the_first_words_of_a_text() {
        for (text, expected) in [
            ("json", "json"),
            ("Add a --json flag!", "add-a-json-flag"),
            ("fix.lock", "fix-lock"),
            ("make the total count the lines and not the prices", "make-the-total-count-the-lines"),
            ("Über_größe", "über-größe"),
            (&"x".repeat(99), &"x".repeat(MAX_NAME)),
            ("?!", ""),
        ] {
            assert_eq!(name_from(text), expected, "{text}");
        }
    }
}
