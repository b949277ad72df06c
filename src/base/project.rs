//! The directories of a project, in which files for agents are looked for.

use std::cell::OnceCell;
use std::fs::FileType;
use std::path::{Path, PathBuf};

use super::file::git_in;

/// Folders that a project may have in each of its directories.
const FOLDERS: [&str; 3] = [".polylogue", ".claude", ".agents"];

/// A directory and those above it up to the root of its repository, the nearest first, without symbolic links. Outside of a
/// repository only the directory itself: those above it may belong to other users.
#[derive(Debug, Default)]
pub struct ProjectDirectories {
    directories: Vec<PathBuf>,
    /// What each directory has under the names of [`FOLDERS`], read when it is first needed.
    folders: OnceCell<Vec<[Option<FileType>; FOLDERS.len()]>>,
}

impl ProjectDirectories {
    /// Those of a directory; none if it does not exist.
    pub fn of(directory: &Path) -> Self {
        let Ok(directory) = directory.canonicalize() else { return Self::default() };
        let root = directory.ancestors().find(|path| git_in(path).is_some()).unwrap_or(&directory);
        let inside = directory.ancestors().take_while(|path| path.starts_with(root));
        Self { directories: inside.map(Path::to_owned).collect(), folders: OnceCell::new() }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Path> {
        self.directories.iter().map(PathBuf::as_path)
    }

    /// The directory itself.
    pub fn nearest(&self) -> Option<&Path> {
        self.iter().next()
    }

    /// The root of the repository, or the directory itself.
    pub fn root(&self) -> Option<&Path> {
        self.iter().next_back()
    }

    /// The directories with these paths, as `.claude/skills`, below each directory: the nearest first, in the order of the
    /// paths. Neither they nor the folders that they are in may be links.
    pub fn places(&self, paths: &[&str]) -> Vec<PathBuf> {
        let of = |index: usize| paths.iter().filter_map(move |path| self.inside(index, path));
        let is_directory = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        (0..self.directories.len()).flat_map(of).filter(is_directory).collect()
    }

    /// The nearest file or directory with such a path. If its folder is a link, nothing in it counts.
    pub fn nearest_file(&self, path: &str) -> Option<PathBuf> {
        let mut paths = (0..self.directories.len()).filter_map(|index| self.inside(index, path));
        paths.find(|path| path.symlink_metadata().is_ok())
    }

    /// The nearest of these folders, which may be a link.
    pub fn nearest_folder(&self, folder: &str) -> Option<PathBuf> {
        let is_there = |index: &usize| self.kind(*index, folder).is_some();
        let mut paths = (0..self.directories.len()).filter(is_there).map(|index| self.directories[index].join(folder));
        paths.find(|path| path.is_dir())
    }

    /// This path below a directory, whose folder is there and no link.
    fn inside(&self, index: usize, path: &str) -> Option<PathBuf> {
        let (folder, _) = path.split_once('/')?;
        self.kind(index, folder).filter(FileType::is_dir).map(|_| self.directories[index].join(path))
    }

    fn kind(&self, index: usize, folder: &str) -> Option<FileType> {
        let read = || {
            let kind = |path: PathBuf| path.symlink_metadata().ok().map(|found| found.file_type());
            self.iter().map(|above| FOLDERS.map(|name| kind(above.join(name)))).collect()
        };
        let at = FOLDERS.iter().position(|known| *known == folder)?;
        self.folders.get_or_init(read)[index][at]
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn directories_end_at_the_repository_and_links_out_of_the_project_do_not_count() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let at = |path: &str| top.join(path);
        for path in ["out/skills", "project/.git/x", "project/.claude/skills", "project/sub/dir", "project/.agents"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        symlink(at("out"), at("project/sub/.claude")).unwrap();
        symlink(at("out/skills"), at("project/.agents/skills")).unwrap();
        symlink(at("project/sub/dir"), at("link")).unwrap();
        let found = ProjectDirectories::of(&at("link"));
        let expected = ["project/sub/dir", "project/sub", "project"].map(at);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        assert_eq!((found.nearest(), found.root()), (Some(&*expected[0]), Some(&*expected[2])));
        assert_eq!(found.places(&[".claude/skills", ".agents/skills"]), [at("project/.claude/skills")]);
        assert_eq!(found.nearest_file(".claude/skills"), Some(at("project/.claude/skills")));
        assert_eq!(found.nearest_folder(".claude"), Some(at("project/sub/.claude")));
        assert_eq!(found.nearest_folder(".polylogue"), None);
        assert_eq!(ProjectDirectories::of(&at("out")).iter().collect::<Vec<_>>(), [at("out")]);
        assert_eq!(ProjectDirectories::of(&at("none")).iter().count(), 0);
    }
}
