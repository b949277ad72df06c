//! Opens exactly the file at a canonical path: no symbolic link is followed on the way, so that a name that was replaced
//! after the path was resolved is an error and not another file. Only regular files are opened, and none of them blocks.
//!
//! Whatever this process reads of a workspace it reads through here, because commands can put anything there: a link to a
//! key, a pipe that nobody writes to, a device without an end.
//!
//! The kernel does this in one call, openat2(2); where it has none, each directory is opened in its parent.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

/// The file at one moment. A file that is replaced has another number, one that is only written has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

impl FileId {
    pub fn of(stat: &Stat) -> Self {
        // The fields have other types on other systems.
        #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
        Self { device: stat.st_dev as u64, inode: stat.st_ino as u64 }
    }
}

/// How a directory is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// By openat2(2).
    Kernel,
    /// One name after the other.
    Walk,
}

/// Some kernels and sandboxes refuse openat2(2).
static IS_REFUSED: AtomicBool = AtomicBool::new(!cfg!(target_os = "linux"));

#[cfg(target_os = "linux")]
const SEARCH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const SEARCH: OFlags = OFlags::RDONLY;

/// Opens a directory for looking up names in it.
///
/// # Errors
/// It does not exist, or a symbolic link is in its place or in that of a directory above it.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    if !IS_REFUSED.load(Ordering::Relaxed) {
        match open_directory_by(Lookup::Kernel, path) {
            Err(error) if is_refusal(&error) => IS_REFUSED.store(true, Ordering::Relaxed),
            result => return result,
        }
    }
    open_directory_by(Lookup::Walk, path)
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSYS | Errno::PERM))
}

/// Like [`open_directory`], by one of the two ways.
pub fn open_directory_by(lookup: Lookup, path: &Path) -> io::Result<OwnedFd> {
    let flags = SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, "/", flags, Mode::empty())?;
    let below = path.strip_prefix("/").map_err(|_| io::Error::from(Errno::INVAL))?;
    if below.as_os_str().is_empty() {
        return Ok(root);
    }
    if below.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(Errno::INVAL.into());
    }
    match lookup {
        Lookup::Kernel => open_by_kernel(&root, below, flags),
        Lookup::Walk => below.components().try_fold(root, |directory, name| {
            let name = Path::new(name.as_os_str());
            Ok(rustix::fs::openat(directory, name, flags | OFlags::NOFOLLOW, Mode::empty())?)
        }),
    }
}

#[cfg(target_os = "linux")]
fn open_by_kernel(root: &OwnedFd, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(root, below, flags | OFlags::NOFOLLOW, Mode::empty(), resolve)?)
}

#[cfg(not(target_os = "linux"))]
fn open_by_kernel(_: &OwnedFd, _: &Path, _: OFlags) -> io::Result<OwnedFd> {
    Err(Errno::NOSYS.into())
}

/// The entry of a directory, without following a link.
pub fn stat(directory: impl AsFd, name: &OsStr) -> io::Result<Stat> {
    Ok(rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Opens a regular file of a directory. Its type is checked before opening, because opening a pipe or a device can
/// block or have side effects, and again afterwards, because it may have been replaced meanwhile.
pub fn open_file(directory: impl AsFd, name: &OsStr, access: OFlags) -> io::Result<(File, Stat)> {
    let found = stat(&directory, name)?;
    require_regular(&found)?;
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(&directory, name, flags, Mode::empty())?);
    let opened = rustix::fs::fstat(&file)?;
    require_regular(&opened)?;
    if FileId::of(&opened) != FileId::of(&found) {
        return Err(io::Error::other("was replaced while it was being opened"));
    }
    Ok((file, opened))
}

pub fn require_regular(stat: &Stat) -> io::Result<()> {
    use rustix::fs::FileType;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        FileType::Symlink => Err(io::Error::other("was replaced by a symbolic link")),
        _ => Err(io::Error::other("not a regular file")),
    }
}

/// Opens the regular file at a canonical path.
pub fn open_path(path: &Path) -> io::Result<(File, Stat)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    open_file(open_directory(path.parent().unwrap_or(Path::new("/")))?, name, OFlags::RDONLY)
}

/// The content of the regular file at a canonical path.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let (file, found) = open_path(path)?;
    let mut content = Vec::new();
    // It may grow while it is read.
    if u64::try_from(found.st_size).is_ok_and(|size| size <= max) {
        file.take(max.saturating_add(1)).read_to_end(&mut content)?;
        if content.len() as u64 <= max {
            return Ok(content);
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

/// Like [`read`], but follows symbolic links as programs do.
pub fn read_followed(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    read(&path.canonicalize()?, max)
}

/// Copies the regular file at a canonical path to a new file, with the time of its last change.
pub fn copy(from: &Path, to: &Path, max: u64) -> io::Result<()> {
    let (from, found) = open_path(from)?;
    let changed = from.metadata()?.modified()?;
    if u64::try_from(found.st_size).is_ok_and(|size| size > max) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut copy = File::create_new(to)?;
    io::copy(&mut from.take(max), &mut copy)?;
    copy.set_modified(changed)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Both ways, or only the second where the kernel lacks the first.
    fn ways(path: &Path) -> Vec<Lookup> {
        let has_openat2 = open_directory_by(Lookup::Kernel, path).is_ok();
        [Lookup::Kernel, Lookup::Walk].into_iter().filter(|way| *way == Lookup::Walk || has_openat2).collect()
    }

    #[test]
    fn no_link_is_followed_wherever_it_is_in_the_path() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("real/deep")).unwrap();
        fs::write(top.join("real/deep/f"), "x").unwrap();
        symlink("real", top.join("link")).unwrap();
        symlink("f", top.join("real/deep/link")).unwrap();
        symlink("/proc/self/cwd", top.join("magic")).unwrap();
        for way in ways(&top) {
            let open = |name: &str| open_directory_by(way, &top.join(name));
            assert!(open("real/deep").is_ok() && open_directory_by(way, Path::new("/")).is_ok(), "{way:?}");
            for name in ["link", "link/deep", "magic", "none", "real/deep/f", "real/../real"] {
                assert!(open(name).is_err(), "{way:?} {name}");
            }
            let deep = open("real/deep").unwrap();
            let mut text = String::new();
            open_file(&deep, OsStr::new("f"), OFlags::RDONLY).unwrap().0.read_to_string(&mut text).unwrap();
            assert_eq!(text, "x");
            assert!(open_file(&deep, OsStr::new("link"), OFlags::RDONLY).is_err());
        }
        assert!(open_directory_by(Lookup::Walk, Path::new("/proc/self/cwd")).is_err());
        assert!(open_directory_by(Lookup::Walk, Path::new("relative")).is_err());
    }

    #[test]
    fn pipes_devices_and_sockets_are_refused_at_once() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        assert!(std::process::Command::new("mkfifo").arg(top.join("pipe")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
        for path in [top.join("pipe"), top.join("socket"), "/dev/null".into()] {
            assert_eq!(open_path(&path).unwrap_err().to_string(), "not a regular file", "{}", path.display());
        }
        assert_eq!(open_path(&top).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(open_path(Path::new("/")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn reading_is_bounded_and_follows_only_where_it_is_asked_to() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        fs::write(top.join("f"), "text").unwrap();
        symlink("f", top.join("link")).unwrap();
        symlink("/dev/zero", top.join("endless")).unwrap();
        assert_eq!(read(&top.join("f"), 4).unwrap(), b"text");
        assert_eq!(read(&top.join("f"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(read(&top.join("link"), 4).is_err());
        assert_eq!(read_followed(&top.join("link"), 4).unwrap(), b"text");
        assert_eq!(read_followed(&top.join("endless"), 4).unwrap_err().to_string(), "not a regular file");
        assert_eq!(read_followed(Path::new("/proc/self/status"), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
