//! The write-ahead log as a file: its length, and making it durable. Only SQLite knows what is in it. SQLite locks the database
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

/// The log of an open database.
pub(super) struct LogFile {
    dir: PathBuf,
    /// Stays open, because the kernel reports a failed write only to descriptors that were open then.
    file: File,
    /// The files that SQLite has open, with their device and inode.
    in_use: [(PathBuf, (u64, u64)); 2],
    /// A power cut leaves the file in its directory.
    is_in_directory: bool,
}

impl LogFile {
    /// `is_in_directory`: an earlier process has created and synced it.
    pub(super) fn open(dir: &Path, is_in_directory: bool) -> Result<Self> {
        let path = log_path(dir);
        let failed = |error: io::Error| io_error(&path, &error);
        let identified = |path: PathBuf| identity(&path).map(|identity| (path, identity));
        let in_use = [identified(database_path(dir)).map_err(failed)?, identified(path.clone()).map_err(failed)?];
        let file = open_regular(&path).map_err(failed)?;
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

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// 0 if there is none.
pub(super) fn log_length(dir: &Path) -> u64 {
    fs::metadata(log_path(dir)).map_or(0, |found| found.len())
}

/// Writes the log once more as it is, and syncs it: after a failed sync the kernel takes pages for stored that are not. The
/// caller holds SQLite's write lock.
pub(super) fn rewrite(dir: &Path) -> Result<()> {
    let path = log_path(dir);
    let rewritten = File::options().read(true).write(true).open(&path).and_then(|file| {
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        loop {
            let count = file.read_at(&mut piece, at)?;
            if count == 0 {
                return file.sync_all();
            }
            file.write_all_at(&piece[..count], at)?;
            at += count as u64;
        }
    });
    rewritten.map_err(|error| io_error(&path, &error))
}
