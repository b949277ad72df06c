//! Files that commands must not change in the open places: those with protected names, and those that git is configured
//! to obey, followed through every symbolic link.
//!
//! ```text
//!   CLAUDE.md -> AGENTS.md            the link is kept in its place, AGENTS.md is read-only
//!   .git/hooks/x -> ../../checks/x    checks/x is read-only: the link is in a directory that is
//! ```
//!
//! A mount keeps a file from being written and a link from being replaced. What mounts cannot protect is a gap, because
//! of which commands ask.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::git;
use super::search::{self, Search};
use crate::domain::places::PROTECTED;

/// Each makes mounts of itself and of the directories above it, which cannot be moved or removed then.
const MAX_PLACES: usize = 1_000;
/// How many of them may be missing.
const MAX_PATHS: usize = 10 * MAX_PLACES;
/// How many files in protected directories are checked.
const MAX_FILES: usize = 10_000;
/// As the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// Packages that were installed here bring instructions of their own; they are replaced as a whole.
const INSTALLED: &str = "node_modules";

#[derive(Debug, Default)]
pub struct Protection {
    /// Read-only with everything below; without symbolic links. Need not exist.
    pub paths: Vec<PathBuf>,
    /// Symbolic links that stay in their places, with what they contain.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Why commands could change something protected nevertheless, one line each.
    pub gaps: Vec<String>,
}

pub struct Finder<'a> {
    /// Where commands may write.
    open: &'a [PathBuf],
    home: Option<&'a Path>,
    paths: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
    gaps: BTreeSet<String>,
    /// Paths that still have to be followed.
    pending: Vec<PathBuf>,
    /// How many more files may be checked.
    left: usize,
}

impl<'a> Finder<'a> {
    pub fn new(open: &'a [PathBuf], home: Option<&'a Path>) -> Self {
        let (paths, links, gaps) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        Self { open, home, paths, links, gaps, pending: Vec::new(), left: MAX_FILES }
    }

    /// Protects what a search found below these directories, and the usual names at their tops.
    pub fn add_search(&mut self, roots: &[PathBuf], search: &Search) {
        for root in roots {
            // Parts of a git directory have to be written; the others follow below.
            let names = PROTECTED.iter().map(|protected| protected.name).filter(|name| *name != ".git");
            names.for_each(|name| self.add(root.join(name)));
        }
        search.repositories.iter().for_each(|git| self.add_repository(git, git.parent().unwrap_or(git)));
        let is_installed = |path: &Path| path.iter().any(|part| part == INSTALLED);
        search.protected.iter().filter(|path| !is_installed(path)).for_each(|path| self.add(path.clone()));
        if search.is_partial {
            self.gaps.insert(search::partial_search_warning());
        }
    }

    /// Protects a path and all of its targets.
    pub fn add(&mut self, path: PathBuf) {
        self.pending.push(path);
        while let Some(path) = self.pending.pop() {
            self.add_one(&path);
        }
    }

    /// Protects the files that git obeys in a git directory, and those that its configuration names.
    pub fn add_repository(&mut self, git: &Path, top: &Path) {
        match git::protected_in(git) {
            Some(paths) => paths.into_iter().for_each(|path| self.add(path)),
            None => drop(self.gaps.insert(format!("{} has too many directories to look at", git.display()))),
        }
        let named = git::named_by_configuration(git, top, self.home);
        named.paths.into_iter().for_each(|path| self.add(path));
        let unread = named.unread.iter();
        self.gaps.extend(unread.map(|file| format!("{} cannot be read as a configuration of git", file.display())));
    }

    /// The nearest places, if there are too many.
    pub fn finish(mut self) -> Protection {
        let is_below = |path: &Path| path.ancestors().skip(1).any(|above| self.paths.contains(above));
        let mut paths: Vec<PathBuf> = self.paths.iter().filter(|path| !is_below(path)).cloned().collect();
        let mut links: Vec<(PathBuf, PathBuf)> = self.links.into_iter().filter(|(link, _)| !is_below(link)).collect();
        // Missing paths need no mount, but take space in the plan.
        let existing = paths.iter().filter(|path| path.symlink_metadata().is_ok()).count();
        if existing + links.len() > MAX_PLACES || paths.len() > MAX_PATHS {
            self.gaps.insert(format!("it has more than {MAX_PLACES} protected files"));
            paths.sort_by_key(|path| path.components().count());
            links.sort_by_key(|(link, _)| link.components().count());
            links.truncate(MAX_PLACES / 2);
            paths.truncate(MAX_PLACES - links.len());
            paths.sort();
        }
        Protection { paths, links, gaps: self.gaps.into_iter().collect() }
    }

    fn add_one(&mut self, path: &Path) {
        let Some(place) = self.follow(path) else { return };
        let is_inside = self.open.iter().any(|root| place.starts_with(root) && place != *root);
        if !is_inside {
            if self.open.iter().any(|root| root.starts_with(&place)) {
                self.gaps.insert(format!(
                    "{} leads to {}, which contains the workspace",
                    path.display(),
                    place.display()
                ));
            }
            return;
        }
        if path.ends_with(".git") && place != *path && place.is_dir() {
            return self.add_repository(&place, path.parent().unwrap_or(path));
        }
        if !self.paths.insert(place.clone()) {
            return;
        }
        match place.symlink_metadata() {
            Ok(found) => self.look_into(place, &found),
            Err(_) if place != *path && path.is_symlink() => {
                self.gaps.insert(format!("{} leads to {}, which does not exist", path.display(), place.display()));
            }
            Err(_) => {}
        }
    }

    /// Other paths to or from something that becomes read-only: other names of files, and links in directories.
    fn look_into(&mut self, place: PathBuf, found: &Metadata) {
        let mut directories = vec![place.clone()];
        if !found.is_dir() {
            self.check_names(&place, found);
            directories.clear();
        }
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let Some(fewer) = self.left.checked_sub(1) else {
                    self.gaps.insert(format!("more than {MAX_FILES} files in it are protected"));
                    return;
                };
                self.left = fewer;
                let Ok(found) = entry.metadata() else { continue };
                if found.is_symlink() {
                    self.pending.push(entry.path());
                } else if found.is_dir() {
                    directories.push(entry.path());
                } else {
                    self.check_names(&entry.path(), &found);
                }
            }
        }
    }

    /// A file can be written by each of its names.
    fn check_names(&mut self, path: &Path, found: &Metadata) {
        if found.is_file() && found.nlink() > 1 {
            self.gaps.insert(format!("{} has other names (hard links)", path.display()));
        }
    }

    /// The target of a path, resolved name by name as the kernel does; its end need not exist. Notes the links that
    /// commands could replace.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let mut place = PathBuf::from("/");
        let mut rest: Vec<OsString> = Vec::new();
        let push = |rest: &mut Vec<OsString>, path: &Path| {
            rest.extend(path.components().rev().map(|part| part.as_os_str().to_owned()));
        };
        push(&mut rest, path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            match Path::new(&name).components().next() {
                Some(Component::RootDir) => place = "/".into(),
                Some(Component::ParentDir) => drop(place.pop()),
                Some(Component::Normal(_)) => {
                    place.push(&name);
                    let Ok(target) = fs::read_link(&place) else { continue };
                    links += 1;
                    if links > MAX_LINKS || place.starts_with("/proc") {
                        self.gaps.insert(format!("the target of {} is unknown", path.display()));
                        return None;
                    }
                    push(&mut rest, &target);
                    if self.open.iter().any(|root| place.starts_with(root)) {
                        self.links.insert(place.clone(), target);
                    }
                    place.pop();
                }
                _ => {}
            }
        }
        Some(place)
    }
}
