//! The text that `/review` gives to the reviewers: the changes of a working tree, with the names of new files.

use std::path::Path;

use super::git::Git;
use super::{Environment, Job, Outcome};
use crate::base::text::counted;
use crate::sandbox;

/// The most bytes of a diff that the reviewers get; they can read the files.
const MAX_DIFF: usize = 128 << 10;
/// New files whose names are listed.
const MAX_NEW: usize = 200;

/// The task for the reviewers of the working tree around `directory`; empty if there are no changes.
pub fn task(directory: &Path, base: Option<&str>, env: &Environment, job: &Job) -> Outcome<String> {
    let root = directory.ancestors().find(|above| sandbox::git_directory(above).is_some());
    let root = root.ok_or_else(|| format!("{} is in no git repository", directory.display()))?;
    let common = sandbox::git_directory(root).ok_or("the repository cannot be read")?;
    let mut git = Git::at(root, &common, env, job)?.without_filters(root)?;
    // Nothing is written, not even what git knows of the files.
    git.variables.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
    let commit = |name: &str| {
        let found =
            git.run(root, &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")]);
        found.map(|hash| hash.trim().to_owned())
    };
    let head = commit("HEAD").map_err(|_| "the repository has no commits yet")?;
    let since = match base {
        None => head,
        Some(base) => {
            let known = commit(base).map_err(|_| format!("{base:?} is no commit of this repository"))?;
            git.run(root, &["merge-base", &head, &known])
                .map_err(|_| format!("{base} and HEAD have no common commit"))?
        }
    };
    let since = since.trim();
    let listed = git.run(root, &["ls-files", "--others", "--exclude-standard"])?;
    let new: Vec<&str> = listed.lines().collect();
    git.max_output = MAX_DIFF;
    let options = ["-c", "core.quotePath=false", "diff", "--no-ext-diff", "--no-textconv", "--no-color"];
    let diff = git.run(root, &[&options[..], &["--stat", "--patch", since]].concat())?;
    if diff.trim().is_empty() && new.is_empty() {
        return Ok(String::new());
    }
    let against = base.map_or_else(|| "the last commit".to_owned(), |base| format!("the point where it left {base}"));
    let mut text = format!(
        "Review the changes of the working tree in {} against {against}. Read the files around a change where the diff \
         does not show enough. Change nothing.",
        root.display()
    );
    if !new.is_empty() {
        let names = new.iter().take(MAX_NEW).map(|name| format!("\n  {name}"));
        let count = counted(new.len(), "new file", "new files");
        text.push_str(&format!("\n\n{count}, not in the diff; read them:{}", names.collect::<String>()));
    }
    Ok(format!("{text}\n\n{diff}"))
}
