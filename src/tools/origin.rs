//! Which projects an agent belongs to: the files of a project (hooks, definitions, programs, skills, rules) apply to
//! agents that work in its directory or below, and in our worktrees of it.

use std::path::{Path, PathBuf};

use super::Environment;

/// Whether the files of the project in `project` apply in `directory`. `origins` has the originals of that directory,
/// if it is in a worktree of ours.
pub fn belongs(directory: &Path, origins: &[PathBuf], project: &Path) -> bool {
    directory.starts_with(project) || origins.iter().any(|origin| origin.starts_with(project))
}

impl Environment {
    /// Whether something from this project applies here; what comes from no project applies everywhere.
    pub fn is_of(&self, project: Option<&PathBuf>) -> bool {
        project.is_none_or(|project| belongs(&self.working_directory, &self.origins, project))
    }

    /// The copy of a project's directory in the worktree, if this is a worktree of that project.
    pub fn copy_of(&self, project: &Path) -> Option<PathBuf> {
        let worktree = self.worktree.as_ref()?;
        let below = self.origins.first()?.strip_prefix(project).ok()?;
        let copy = self.working_directory.ancestors().nth(below.components().count())?;
        copy.starts_with(worktree).then(|| copy.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_holds_in_its_directory_and_in_copies_of_it_and_nowhere_else() {
        let worktree = |directory: &str, origins: &[&str]| Environment {
            worktree: Some("/data/worktrees/abc".into()),
            origins: origins.iter().map(PathBuf::from).collect(),
            ..Environment::at(directory.into())
        };
        let here = Environment::at("/home/ada/repo/sub".into());
        let copy = worktree("/data/worktrees/abc/sub/deep", &["/home/ada/repo/sub/deep", "/home/ada/repo"]);
        for (environment, project, expected) in [
            (&here, "/home/ada/repo", true),
            (&here, "/home/ada/repo/sub", true),
            (&here, "/home/ada/repo/other", false),
            (&copy, "/home/ada/repo", true),
            (&copy, "/home/ada/repo/sub", true),
            (&copy, "/home/ada/repo/other", false),
            (&copy, "/home/ada/else", false),
            (&worktree("/data/worktrees/abc", &[]), "/home/ada/repo", false),
        ] {
            assert_eq!(environment.is_of(Some(&project.into())), expected, "{environment:?} {project}");
            assert!(environment.is_of(None));
        }
        let copied = |project: &str| copy.copy_of(Path::new(project));
        assert_eq!(copied("/home/ada/repo").as_deref(), Some(Path::new("/data/worktrees/abc")));
        assert_eq!(copied("/home/ada/repo/sub").as_deref(), Some(Path::new("/data/worktrees/abc/sub")));
        assert_eq!(
            (copied("/home/ada"), copied("/home/ada/else"), here.copy_of(Path::new("/home"))),
            (None, None, None)
        );
    }
}
