//! Looks through the open places for files that later programs obey, and for sockets. A tree may be too large for that: the
//! search has a time limit, and tells when it was met.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use crate::domain::places::{GIT_MARKS, PROTECTED};

/// A tree of some hundred thousand files takes no longer, if it was read before. This is time of the processor: on a busy
/// machine no less is protected.
pub const TIME_LIMIT: Duration = Duration::from_millis(500);
/// How many times longer a search may take by the clock, where the machine is busy or the disk slow.
const MAX_DELAY: u32 = 4;
/// How many directories of one place are remembered.
const MAX_DIRECTORIES: usize = 100_000;
/// How many places are remembered.
const MAX_PLACES: usize = 32;
/// Two changes within this time may have the same timestamp.
const CLOCK_TICK: Duration = Duration::from_millis(100);
const GIT: &str = ".git";
/// How many entries below one directory are visited when no time is measured.
const MAX_ENTRIES: usize = 20_000;

/// What is said of a partial search.
pub fn partial_search_warning() -> String {
    let why = "the workspace was not searched whole: it is too large, or the machine too busy";
    format!("{why} (it may take {TIME_LIMIT:?})")
}

/// What was found in some trees.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// Everything that has a protected name, but for git directories.
    pub protected: Vec<PathBuf>,
    /// Git directories, also with another name.
    pub repositories: Vec<PathBuf>,
    pub sockets: Vec<PathBuf>,
    /// The time limit was met.
    pub is_partial: bool,
}

/// The results of earlier searches for each directory, so that only changed directories are read again. Copies share
/// it.
#[derive(Debug, Clone, Default)]
pub struct Index(Arc<Mutex<HashMap<Vec<PathBuf>, Place>>>);

/// The results for one set of directories.
type Place = Arc<Mutex<HashMap<PathBuf, Listing>>>;

/// Device and inode of a directory, and when an entry was last added or removed (inode(7)), which no command can set.
type Stamp = (u64, u64, i64, i64);

/// The relevant entries of one directory.
#[derive(Debug, Clone, Default)]
struct Listing {
    stamp: Stamp,
    directories: Vec<OsString>,
    protected: Vec<OsString>,
    sockets: Vec<OsString>,
    has_repository: bool,
    is_repository: bool,
}

impl Index {
    fn of(&self, roots: &[PathBuf]) -> Place {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > MAX_PLACES {
            all.clear();
        }
        all.entry(roots.to_vec()).or_default().clone()
    }

    /// Searches these directories, the nearest entries first.
    pub fn search(&self, roots: &[PathBuf], limit: Duration) -> Search {
        let (until, start) = (Instant::now() + MAX_DELAY * limit, processor_time());
        let listings = self.of(roots);
        let mut listings = listings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut search = Search::default();
        let mut queue: VecDeque<PathBuf> = roots.iter().cloned().collect();
        while let Some(directory) = queue.pop_front() {
            if processor_time().saturating_sub(start) >= limit || Instant::now() >= until {
                search.is_partial = true;
                break;
            }
            let Ok(found) = directory.symlink_metadata() else { continue };
            let stamp = (found.dev(), found.ino(), found.ctime(), found.ctime_nsec());
            if let Some(known) = listings.get(&directory).filter(|known| known.stamp == stamp) {
                search.add(&directory, known, &mut queue);
                continue;
            }
            let is_settled = is_settled(&found);
            let listing = Listing { stamp, ..Listing::read(&directory) };
            search.add(&directory, &listing, &mut queue);
            if is_settled && listings.len() < MAX_DIRECTORIES {
                listings.insert(directory, listing);
            } else {
                listings.remove(&directory);
            }
        }
        search
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or_default())
}

/// Whether a directory changed long enough ago that a further change will have another timestamp.
fn is_settled(found: &Metadata) -> bool {
    let changed = Duration::new(found.ctime().unsigned_abs(), found.ctime_nsec().unsigned_abs() as u32);
    (SystemTime::UNIX_EPOCH + changed).elapsed().is_ok_and(|since| since > CLOCK_TICK)
}

impl Listing {
    fn read(directory: &Path) -> Self {
        let (mut listing, mut marks) = (Self::default(), 0);
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            marks += usize::from(GIT_MARKS.iter().any(|mark| name == *mark));
            if kind.is_dir() && name == GIT {
                listing.has_repository = true;
            } else if is_protected(&name) {
                listing.protected.push(name);
            } else if kind.is_dir() {
                listing.directories.push(name);
            } else if kind.is_socket() {
                listing.sockets.push(name);
            }
        }
        Self { is_repository: marks == GIT_MARKS.len(), ..listing }
    }
}

impl Search {
    fn add(&mut self, directory: &Path, listing: &Listing, queue: &mut VecDeque<PathBuf>) {
        queue.extend(listing.directories.iter().map(|name| directory.join(name)));
        self.protected.extend(listing.protected.iter().map(|name| directory.join(name)));
        self.sockets.extend(listing.sockets.iter().map(|name| directory.join(name)));
        self.repositories.extend(listing.has_repository.then(|| directory.join(GIT)));
        self.repositories.extend(listing.is_repository.then(|| directory.to_owned()));
    }
}

fn is_protected(name: &OsStr) -> bool {
    PROTECTED.iter().any(|protected| name.eq_ignore_ascii_case(protected.name))
}

/// The directories below one, the nearest first, without those in git directories and those of objects. `None` if the tree is
/// too large.
pub fn directories_below(root: &Path) -> Option<Vec<PathBuf>> {
    let (mut found, mut next, mut entries) = (vec![root.to_owned()], 0, 0);
    while let Some(directory) = found.get(next).cloned() {
        next += 1;
        let has_objects = directory.ends_with("objects");
        for child in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = child.file_name();
            if has_objects && is_of_objects(&name) {
                continue;
            }
            entries += 1;
            if child.file_type().is_ok_and(|kind| kind.is_dir()) && name != GIT {
                found.push(child.path());
            }
            if entries == MAX_ENTRIES {
                return None;
            }
        }
    }
    Some(found.split_off(1))
}

/// Whether a directory of objects has this one for some of them (gitrepository-layout(5)).
fn is_of_objects(name: &OsStr) -> bool {
    name == "pack" || name.len() == 2 && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn names(paths: &[PathBuf], root: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            paths.iter().map(|path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_search_finds_what_was_added_since_the_last_one() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path();
        let index = Index::default();
        let search = || index.search(&[root.to_owned()], TIME_LIMIT);
        fs::create_dir_all(root.join("a/b/.git/x/.git")).unwrap();
        fs::create_dir_all(root.join("c/.claude/.agents")).unwrap();
        // The directories are read until their times are old enough, then remembered.
        while index.of(&[root.to_owned()]).lock().unwrap().len() < 4 {
            assert_eq!(names(&search().repositories, root), ["a/b/.git"]);
            assert_eq!(names(&search().protected, root), ["c/.claude"]);
        }
        fs::write(root.join("a/Agents.md"), "x").unwrap();
        fs::rename(root.join("a/b"), root.join("c/d")).unwrap();
        let _listener = UnixListener::bind(root.join("c/d/socket")).unwrap();
        fs::create_dir_all(root.join("bare/objects")).unwrap();
        fs::create_dir_all(root.join("bare/refs")).unwrap();
        fs::write(root.join("bare/HEAD"), "x").unwrap();
        let found = search();
        assert_eq!(names(&found.repositories, root), ["bare", "c/d/.git"]);
        assert_eq!(names(&found.protected, root), ["a/Agents.md", "c/.claude"]);
        assert_eq!(names(&found.sockets, root), ["c/d/socket"]);
        assert!(!found.is_partial);
        assert!(index.search(&[root.to_owned()], Duration::ZERO).is_partial);
    }
}
