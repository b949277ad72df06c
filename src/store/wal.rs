//! The write-ahead log as a file: making it durable. Only SQLite knows what is in it. SQLite locks the database
//! and the `-shm` file, never the log, so a descriptor of the log can be opened and closed; one of the database could not.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::connection::{database_path, log_path};
use super::lock::io_error;
use crate::base::error::Result;
use crate::base::file::open_regular;

/// Bytes that [`rewrite`] holds at once.
const PIECE: usize = 1 << 20;

/// Device and inode of a file.
pub(super) type Identity = (u64, u64);

/// The log of an open database.
pub(super) struct LogFile {
    dir: PathBuf,
    /// Stays open, because the kernel reports a failed write only to descriptors that were open then.
    file: File,
    /// The files that SQLite has open.
    in_use: [(PathBuf, Identity); 2],
    /// A power cut leaves the file in its directory.
    is_in_directory: bool,
}

impl LogFile {
    /// `synced`: the log that an earlier process has synced together with its directory.
    pub(super) fn open(dir: &Path, synced: Option<Identity>) -> Result<Self> {
        let path = log_path(dir);
        let failed = |error: io::Error| io_error(&path, &error);
        let identified = |path: PathBuf| identity(&path).map(|identity| (path, identity));
        let in_use = [identified(database_path(dir)).map_err(failed)?, identified(path.clone()).map_err(failed)?];
        let file = open_regular(&path).map_err(failed)?;
        // SQLite may have put another one in its place.
        let is_in_directory = synced.is_some_and(|synced| synced == in_use[1].1);
        Ok(Self { dir: dir.to_owned(), file, in_use, is_in_directory })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.dir
    }

    /// Makes durable what was written to the log before the call.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if !self.is_in_directory {
            File::open(&self.dir)?.sync_all()?;
            self.is_in_directory = true;
        }
        Ok(())
    }

    /// A file in use that was removed or replaced: what is written to it is lost when it is closed.
    pub(super) fn vanished(&self) -> Option<&Path> {
        let is_gone = |(path, known): &&(PathBuf, _)| identity(path).ok() != Some(*known);
        self.in_use.iter().find(is_gone).map(|(path, _)| path.as_path())
    }
}

/// The log beside a database that is not empty.
pub(super) fn find(dir: &Path) -> Option<Identity> {
    let is_empty = fs::symlink_metadata(database_path(dir)).map_or(true, |found| found.len() == 0);
    if is_empty { None } else { identity(&log_path(dir)).ok() }
}

fn identity(path: &Path) -> io::Result<Identity> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Writes so much of the log once more as it is, and syncs it: after a failed sync the kernel takes pages for stored that are
/// not. The caller holds SQLite's write lock.
pub(super) fn rewrite(dir: &Path, length: u64) -> Result<()> {
    let path = log_path(dir);
    let rewritten = File::options().read(true).write(true).open(&path).and_then(|file| {
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < length {
            let count = file.read_at(&mut piece, at)?;
            if count == 0 {
                break;
            }
            file.write_all_at(&piece[..count], at)?;
            at += count as u64;
        }
        file.sync_all()
    });
    rewritten.map_err(|error| io_error(&path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_log_that_was_synced_counts_as_in_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::write(database_path(dir), "").unwrap();
        fs::write(log_path(dir), "log").unwrap();
        assert_eq!(find(dir), None, "SQLite removes the log of an empty database");
        fs::write(database_path(dir), "pages").unwrap();
        let synced = find(dir);
        assert!(synced.is_some() && LogFile::open(dir, synced).unwrap().is_in_directory);
        assert!(!LogFile::open(dir, None).unwrap().is_in_directory);
        fs::rename(log_path(dir), dir.join("old")).unwrap();
        fs::write(log_path(dir), "log").unwrap();
        assert!(!LogFile::open(dir, synced).unwrap().is_in_directory);
    }
}
