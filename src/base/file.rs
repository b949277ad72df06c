//! Opens files whose path comes from a project or a model, without blocking or side effects, and creates private files.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// A new directory for temporary files that only its owner can enter, removed with all that is in it in the end. Files that
/// cannot be removed stay, as those of any program might.
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    pub fn create() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("polylogue-{}", uuid::Uuid::new_v4().simple()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path.canonicalize()?))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens a regular file for reading. A symbolic link is refused: its target could be private. Its type is checked before
/// opening, because opening a pipe or a device can block or have side effects, and afterwards, because the file may have
/// been replaced meanwhile.
pub fn open_regular(path: &Path) -> io::Result<File> {
    require_regular(&fs::symlink_metadata(path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    require_regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens or creates a file that only its owner can read, and corrects its permissions. Its content stays. Symbolic
/// links and special files are refused: a pipe would block.
pub fn open_private(path: &Path) -> io::Result<File> {
    refuse_irregular(path)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    let found = file.metadata()?;
    require_regular(&found)?;
    if found.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Refuses a path where there is anything but a regular file. A missing file is not an error.
pub fn refuse_irregular(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(io::Error::other("is a symbolic link: remove it")),
        Ok(found) if found.is_dir() => Err(io::Error::other("is a directory: remove it")),
        Ok(found) if !found.is_file() => Err(io::Error::other("is not a regular file: remove it")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates a file that only its owner can read.
pub fn create_private(path: &Path, content: &[u8]) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
}

/// Appends a line to a text file, which is created if there is none.
pub fn append_line(path: &Path, line: &str) -> io::Result<()> {
    let ends_in_line = match open_regular(path) {
        Ok(mut file) => {
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            text.is_empty() || text.ends_with(b"\n")
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error),
    };
    let text = format!("{}{line}\n", if ends_in_line { "" } else { "\n" });
    File::options().append(true).create(true).open(path)?.write_all(text.as_bytes())
}

/// Replaces the content of a file at once: a reader finds all of the old or all of the new content, also after a crash.
/// A symbolic link, the owner and the mode are kept; a new file, with its directory, is readable by its owner only.
/// After an error the file is unchanged.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
        target => target?,
    };
    let found = match fs::metadata(&target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => Some(found?),
    };
    if let Some(found) = &found {
        require_regular(found)?;
        // It must be writable itself: replacing it needs only its directory.
        File::options().write(true).open(&target)?;
    } else if let Some(directory) = target.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let new = target.with_file_name(format!(".{name}.new.{}", std::process::id()));
    let written = write_beside(&new, content, found.as_ref()).and_then(|()| fs::rename(&new, &target));
    if written.is_err() {
        // It may not have been created.
        let _ = fs::remove_file(&new);
    }
    written
}

fn write_beside(new: &Path, content: &[u8], found: Option<&fs::Metadata>) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(new)?;
    if let Some(found) = found {
        // Only an administrator can give a file to someone else.
        if (found.uid(), found.gid()) != (file.metadata()?.uid(), file.metadata()?.gid()) {
            std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()))?;
        }
        file.set_permissions(found.permissions())?;
    }
    file.write_all(content)?;
    file.sync_all()
}

fn require_regular(found: &fs::Metadata) -> io::Result<()> {
    match found.file_type() {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::other("not a regular file")),
    }
}

/// The sticky bit marks an empty directory that this program keeps in place of a protected name.
pub const COVER_MARK: u32 = 0o1000;

/// Whether a path is such a directory, or one that a killed process has left.
pub fn is_cover(path: &Path) -> bool {
    let is_marked = path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.mode() & COVER_MARK != 0);
    is_marked && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// The `.git` of a directory; git ignores an empty one.
pub fn git_in(directory: &Path) -> Option<PathBuf> {
    let git = directory.join(".git");
    (git.symlink_metadata().is_ok() && !is_cover(&git)).then_some(git)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let top = tempfile::tempdir().unwrap();
        let path = |name: &str| top.path().join(name);
        fs::write(path("file"), "x").unwrap();
        symlink("file", path("link")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        let opens = |name: &str| open_regular(&path(name)).is_ok();
        assert!(opens("file") && !opens("link") && !opens("pipe") && !opens(""));
    }
}
