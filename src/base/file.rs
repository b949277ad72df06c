//! Files whose path somebody else has written, a project or a model: opened so that nothing can wait or happen.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// What is done about a path that is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// The file at its end is opened.
    Followed,
    /// It is refused: it could lead to what its writer has no business to show.
    Refused,
}

/// Opens a regular file to read it, and nothing else: a pipe would wait for its writer for ever. It is looked at before
/// it is opened, because opening a device can do something, and again after, because it may have been exchanged.
///
/// # Errors
/// It cannot be opened, or is no regular file.
pub fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    let (found, refusal) = match links {
        Links::Followed => (fs::metadata(path)?, OFlags::empty()),
        Links::Refused => (fs::symlink_metadata(path)?, OFlags::NOFOLLOW),
    };
    require_regular(&found)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | refusal;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    require_regular(&file.metadata()?)?;
    Ok(file)
}

fn require_regular(found: &fs::Metadata) -> io::Result<()> {
    match found.file_type() {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::other("it is no regular file")),
    }
}

/// This directory and those above it, up to the root of its repository. Outside of a repository only this one: what lies
/// above may be anybody's.
pub fn ancestors_in_repository(directory: &Path) -> impl Iterator<Item = &Path> {
    let is_root = |place: &&Path| place.join(".git").symlink_metadata().is_ok();
    let root = directory.ancestors().find(is_root).unwrap_or(directory);
    directory.ancestors().take_while(move |place| place.starts_with(root))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_links_where_they_are_followed() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        fs::write(at("file"), "x").unwrap();
        symlink("file", at("link")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let opens = |name: &str, links| open_regular(&at(name), links).is_ok();
        assert!(opens("file", Links::Refused) && opens("link", Links::Followed));
        assert!(!opens("link", Links::Refused) && !opens("pipe", Links::Followed) && !opens("", Links::Followed));
    }
}
