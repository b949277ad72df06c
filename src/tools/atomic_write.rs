//! Replaces files atomically: a reader sees the old content or the new, never a part.
//!
//! The new content is written to a temporary file in the same directory, synced, and renamed over the old file. A symbolic
//! link is followed and stays a link. Owner and permission bits are kept. A file with several names (hard links) is written
//! in place, and so is one that must not be replaced: as an editor would do it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Access as Permission, AtFlags, Mode, OFlags, Stat};

use super::file_access::reason;
use super::file_versions::{self, FileVersion, KnownFiles};
use super::locate::{Located, Opener};
use super::snapshots::OpenStep;
use super::{Environment, Prepared};
use crate::base::beneath::{self, FileId, open_directory, open_file};
use crate::policy::paths::{Access, Verdict};

/// A file and its directory at one moment, as shown in a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// `None` if it does not exist.
    directory: Option<FileId>,
    /// `None` if it does not exist.
    file: Option<FileId>,
    pub version: FileVersion,
}

impl Snapshot {
    /// The file at a canonical path, and its content if it is not too large to compare.
    pub fn take(path: &Path) -> io::Result<(Self, Option<Vec<u8>>)> {
        let directory =
            open_directory(directory_of(path)).and_then(|fd| Ok((FileId::of(&rustix::fs::fstat(&fd)?), fd)));
        let (id, fd) = match directory {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Self { directory: None, file: None, version: FileVersion::Absent }, None));
            }
            Err(error) => return Err(error),
        };
        match open_file(&fd, name_of(path), OFlags::RDONLY) {
            Ok((file, stat)) => {
                let (version, content) = file_versions::read(file)?;
                Ok((Self { directory: Some(id), file: Some(FileId::of(&stat)), version }, content))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok((Self { directory: Some(id), file: None, version: FileVersion::Absent }, None))
            }
            Err(error) => Err(error),
        }
    }
}

/// How a file was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    Replaced,
    /// Not atomically; the text says why.
    InPlace(String),
}

impl Written {
    /// The message for the model about it.
    pub fn note(&self) -> String {
        match self {
            Self::Replaced => String::new(),
            Self::InPlace(why) => format!("; written in place: {why}"),
        }
    }
}

/// A file to be written, symbolic links resolved.
pub struct Target {
    pub file: Located,
    /// Of the file that exists there now.
    pub old: Option<Stat>,
}

impl Target {
    pub fn find(path: &str, env: &Environment) -> Result<Self, String> {
        if path.ends_with('/') || path.ends_with("/.") || path.ends_with("..") {
            return Err(format!("{path}: names a directory, not a file"));
        }
        let mut file = env.locate(path, Access::Write)?;
        let old = match rustix::fs::lstat(&file.path).map_err(io::Error::from) {
            Ok(old) => old,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { file, old: None }),
            Err(error) => return Err(format!("{path}: cannot be written: {}", reason(&error))),
        };
        beneath::require_regular(&old).map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => format!("{path}: is a directory"),
            _ => format!("{path}: {}", reason(&error)),
        })?;
        // The rename needs permission for the directory only and would replace a read-only file.
        let writable = rustix::fs::access(&file.path, Permission::WRITE_OK).map_err(io::Error::from);
        writable.map_err(|error| format!("{path}: cannot be written: {}", reason(&error)))?;
        Opener::new(env).check_names(&old).map_err(|message| format!("{path}: {message}"))?;
        if old.st_nlink > 1 && file.verdict == Verdict::Free {
            // One of its other names may be protected.
            file.verdict = Verdict::AskProtected;
        }
        Ok(Self { file, old: Some(old) })
    }

    /// # Errors
    /// A message for the model: the path of the call leads to another file than the one that was shown.
    pub fn require_same_file(&self, call: &Prepared) -> Result<(), String> {
        let is_same = call.question.file.as_ref().is_none_or(|shown| shown.path == self.file.path);
        let now = self.file.path.display();
        if is_same { Ok(()) } else { Err(format!("{now}: the path leads to another file than when the call was made")) }
    }

    /// The message for the person beside the change.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let links = self.old.map(|old| old.st_nlink).filter(|links| *links > 1);
        links.map(|links| format!("the file has {links} names (hard links); all of them will change")).into_iter()
    }

    /// Keeps the file as it is, before the tool of this name writes this content.
    pub fn record_step(&self, tool: &str, content: &str, env: &Environment) -> Option<OpenStep> {
        Some(env.recorder.as_ref()?.before_write(tool, &self.file.path, content.as_bytes()))
    }

    /// Writes the file, if it is still in the state that the user was shown, and records the new version.
    ///
    /// # Errors
    /// A message for the model: the file has changed, or cannot be written. It is unchanged then.
    pub fn write(&self, content: &str, shown: Option<Snapshot>, known: &KnownFiles) -> Result<Written, String> {
        let path = &self.file.path;
        let message = |what: &str, error: io::Error| format!("{}: {what}: {}", path.display(), reason(&error));
        let changed = || format!("{}: file changed since the call was made; read it again", path.display());
        let is_as_shown = || shown.is_none_or(|shown| Snapshot::take(path).is_ok_and(|(now, _)| now == shown));
        if !is_as_shown() {
            return Err(changed());
        }
        let directory =
            make_directory(directory_of(path)).map_err(|error| message("cannot create the directory", error))?;
        let place = Place { directory, name: name_of(path), temporary: None };
        if shown.is_some_and(|shown| shown.directory.is_some() && shown.directory != place.id().ok()) {
            return Err(changed());
        }
        // As late as possible: a change between this check and the rename is lost.
        let is_unchanged = || shown.is_none_or(|shown| place.is_in(&shown));
        let written = place.write(content.as_bytes(), self.old.as_ref(), None, is_unchanged);
        let written = written.map_err(|error| message("cannot be written", error))?.ok_or_else(changed)?;
        known.record(path, FileVersion::of_bytes(content.as_bytes()));
        Ok(written)
    }
}

/// Gives a file this content and these permissions, and creates it with its directories if it does not exist. `temporary` is the
/// name of the file that is renamed. False if `is_unchanged` says no.
pub fn write_state(
    path: &Path,
    (content, mode): (&[u8], u32),
    temporary: &OsStr,
    is_unchanged: impl Fn() -> bool,
) -> io::Result<bool> {
    let directory = make_directory(directory_of(path))?;
    let place = Place { directory, name: name_of(path), temporary: Some(temporary) };
    let old = match beneath::stat(&place.directory, place.name) {
        Ok(old) if beneath::require_regular(&old).is_ok() => Some(old),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => None,
    };
    Ok(place.write(content, old.as_ref(), Some(mode), is_unchanged)?.is_some())
}

/// Creates a symbolic link, replacing a file if there is one. False if `is_unchanged` says no.
pub fn write_link(path: &Path, target: &OsStr, temporary: &OsStr, is_unchanged: impl Fn() -> bool) -> io::Result<bool> {
    let directory = make_directory(directory_of(path))?;
    rustix::fs::symlinkat(target, &directory, temporary)?;
    let renamed = is_unchanged().then(|| rustix::fs::renameat(&directory, temporary, &directory, name_of(path)));
    if renamed != Some(Ok(())) {
        let _ = rustix::fs::unlinkat(&directory, temporary, AtFlags::empty());
    }
    Ok(renamed.transpose()?.is_some())
}

/// The name of a temporary file. Does not contain the target's name, which may have the maximum length already.
fn new_name() -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    OsString::from(format!(".polylogue-{}-{count}.new", std::process::id()))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Opens a directory, which is created with its parents if it does not exist. No symbolic link is followed.
pub fn make_directory(path: &Path) -> io::Result<OwnedFd> {
    match (open_directory(path), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            match rustix::fs::mkdirat(make_directory(parent)?, name_of(path), Mode::from_raw_mode(0o777)) {
                // Someone else created it meanwhile.
                Ok(()) | Err(rustix::io::Errno::EXIST) => open_directory(path),
                Err(error) => Err(error.into()),
            }
        }
        (result, _) => result,
    }
}

/// A name in an open directory.
struct Place<'a> {
    directory: OwnedFd,
    name: &'a OsStr,
    /// The name of the file that replaces it; by default another one each time.
    temporary: Option<&'a OsStr>,
}

impl Place<'_> {
    fn id(&self) -> io::Result<FileId> {
        Ok(FileId::of(&rustix::fs::fstat(&self.directory)?))
    }

    fn is_in(&self, state: &Snapshot) -> bool {
        match open_file(&self.directory, self.name, OFlags::RDONLY) {
            Ok((file, stat)) => {
                Some(FileId::of(&stat)) == state.file
                    && file_versions::read(file).is_ok_and(|(version, _)| version == state.version)
            }
            Err(error) => error.kind() == io::ErrorKind::NotFound && state.file.is_none(),
        }
    }

    /// `None` if `is_unchanged` says no. Without `mode`, the permissions stay.
    fn write(
        &self,
        content: &[u8],
        old: Option<&Stat>,
        mode: Option<u32>,
        is_unchanged: impl Fn() -> bool,
    ) -> io::Result<Option<Written>> {
        let Some(old) = old else { return self.replace(content, None, mode, is_unchanged) };
        if old.st_nlink > 1 {
            return self.write_in_place(
                content,
                old,
                mode,
                format!("it has {} hard links", old.st_nlink),
                is_unchanged,
            );
        }
        match self.replace(content, Some(old), mode, &is_unchanged) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let why = "its directory or owner does not allow to replace it".into();
                self.write_in_place(content, old, mode, why, is_unchanged)
            }
            result => result,
        }
    }

    fn replace(
        &self,
        content: &[u8],
        old: Option<&Stat>,
        mode: Option<u32>,
        is_unchanged: impl Fn() -> bool,
    ) -> io::Result<Option<Written>> {
        let new = NewFile::create(self)?;
        new.fill(content, old, mode)?;
        if !is_unchanged() {
            return Ok(None);
        }
        new.rename()?;
        // Only makes the rename survive a power failure, and some file systems cannot; the content is synced already.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let _ = rustix::fs::openat(&self.directory, ".", flags, Mode::empty()).map(rustix::fs::fsync);
        Ok(Some(Written::Replaced))
    }

    fn write_in_place(
        &self,
        content: &[u8],
        old: &Stat,
        mode: Option<u32>,
        why: String,
        is_unchanged: impl Fn() -> bool,
    ) -> io::Result<Option<Written>> {
        let (mut file, opened) = open_file(&self.directory, self.name, OFlags::WRONLY)?;
        if FileId::of(&opened) != FileId::of(old) || !is_unchanged() {
            return Ok(None);
        }
        file.write_all(content)?;
        file.set_len(content.len() as u64)?;
        mode.map_or(Ok(()), |mode| rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)))?;
        file.sync_all()?;
        Ok(Some(Written::InPlace(why)))
    }
}

/// A temporary file, removed on drop unless it has replaced the target.
struct NewFile<'a> {
    file: File,
    name: OsString,
    target: &'a Place<'a>,
    is_renamed: std::cell::Cell<bool>,
}

impl<'a> NewFile<'a> {
    fn create(target: &'a Place<'a>) -> io::Result<Self> {
        let name = target.temporary.map_or_else(new_name, OsStr::to_owned);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&target.directory, &name, flags, Mode::from_raw_mode(0o666))?;
        Ok(Self { file: file.into(), name, target, is_renamed: false.into() })
    }

    /// Sets the old file's owner and mode before the content, so that it is never more readable than the old file.
    fn fill(&self, content: &[u8], old: Option<&Stat>, mode: Option<u32>) -> io::Result<()> {
        if let Some(old) = old {
            self.file.set_permissions(Permissions::from_mode(0o600))?;
            let new = self.file.metadata()?;
            if (old.st_uid, old.st_gid) != (new.uid(), new.gid()) {
                std::os::unix::fs::fchown(&self.file, Some(old.st_uid), Some(old.st_gid))?;
            }
            let mode = Mode::from_raw_mode(old.st_mode) & Mode::from_raw_mode(0o777);
            rustix::fs::fchmod(&self.file, mode)?;
        }
        (&self.file).write_all(content)?;
        mode.map_or(Ok(()), |mode| rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode)))?;
        self.file.sync_all()
    }

    fn rename(&self) -> io::Result<()> {
        let directory = &self.target.directory;
        rustix::fs::renameat(directory, &self.name, directory, self.target.name)?;
        self.is_renamed.set(true);
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed.get() {
            let _ = rustix::fs::unlinkat(&self.target.directory, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn place<'a>(directory: &tempfile::TempDir, name: &'a str) -> Place<'a> {
        let directory = directory.path().canonicalize().unwrap();
        Place { directory: open_directory(&directory).unwrap(), name: OsStr::new(name), temporary: None }
    }

    #[test]
    fn a_temporary_file_that_cannot_be_renamed_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("d")).unwrap();
        assert!(place(&directory, "d").replace(b"new", None, None, || true).is_err());
        assert_eq!(place(&directory, "f").replace(b"new", None, None, || false).unwrap(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_is_never_more_readable_than_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let place = place(&directory, "secret");
        let new = NewFile::create(&place).unwrap();
        new.fill(b"new", Some(&rustix::fs::stat(&path).unwrap()), None).unwrap();
        assert_eq!(new.file.metadata().unwrap().mode() & 0o777, 0o600);
    }
}
