//! Copies the write-ahead log into the database, so that no power cut loses or mixes anything although the connection of the
//! event loop never syncs.
//!
//! SQLite restarts the log, and overwrites it from its first frame on, when all of it is copied and nobody reads it. The
//! connection that does so with `synchronous = OFF` syncs neither the new header nor anything before it. Two things
//! could go wrong after a power cut: pages that were copied but not synced are missing while their frames are overwritten;
//! or the old header is there with the frames of which only the first are old, and SQLite replays these, an old state, over
//! newer pages. The order of the steps excludes both:
//!
//! ```text
//!   guard     a read transaction: until it ends, the log is not restarted, and nothing behind it is copied
//!   salts     read: whose log it is that the guard holds (before the guard, a commit might restart it in between)
//!   log       synced
//!   pages     copied by a connection with `synchronous = NORMAL`, which syncs the database if it has copied all
//!   mark      the salts of the log and the number N of frames that were copied, synced, in a file of its own
//!   guard     ends: the log may be restarted, if no commit has followed: then it has exactly N frames
//! ```
//! When the store is opened, a log with the salts of the mark and fewer than N whole frames was restarted, so all of it is in
//! the database, and what was written over it was never synced: it is emptied. Without a power cut its header is the new one.
//!
//! After a step has failed, nothing is copied any more and the guard stays: the kernel may have dropped what it could not
//! write, and reports that only once.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::connection::{connect, log_path};
use super::lock::{io_error, private_file};
use super::wal::{LogFile, Salts};
use crate::base::error::{Error, Result};

const FILE: &str = "polylogue.checkpoint";
const MARK_BYTES: usize = 16;

/// Something that is about to be written to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncStep {
    /// The log is synced.
    Log,
    /// A checkpoint begins: the guard is taken, the salts are read, and the log is synced.
    Guard,
    /// Pages are copied from the log into the database, which is synced.
    Pages,
    /// The mark is written and synced.
    Mark,
}

/// Called before each step; an error is that of the step.
pub(super) type BeforeStep = dyn Fn(SyncStep) -> io::Result<()> + Send + Sync;

/// What is copied of the log with these salts: all frames before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    salts: Salts,
    frames: u32,
}

impl Mark {
    fn to_bytes(self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..8].copy_from_slice(&self.salts);
        bytes[8..12].copy_from_slice(&self.frames.to_be_bytes());
        let sum = crc32fast::hash(&bytes[..12]);
        bytes[12..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// `None` for a mark that was cut while it was written: the log was not restarted then.
    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; MARK_BYTES] = bytes.try_into().ok()?;
        let mark =
            Self { salts: bytes[..8].try_into().ok()?, frames: u32::from_be_bytes(bytes[8..12].try_into().ok()?) };
        (mark.to_bytes() == bytes).then_some(mark)
    }
}

/// Why nothing is copied any more.
pub(super) enum Failure {
    /// The log could not be synced.
    Log(io::Error),
    Copy(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Copy(error.into())
    }
}

pub(super) struct Checkpoints {
    dir: PathBuf,
    /// The read transaction that forbids a restart of the log.
    guard: Option<Connection>,
    has_failed: bool,
}

impl Checkpoints {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), guard: None, has_failed: false }
    }

    /// Copies what is in the log now. Returns whether that was all of it.
    pub(super) fn run(&mut self, log: &mut LogFile, before: &BeforeStep) -> std::result::Result<bool, Failure> {
        if self.has_failed {
            return Ok(false);
        }
        let outcome = self.copy(log, before);
        self.has_failed = outcome.is_err();
        outcome
    }

    fn copy(&mut self, log: &mut LogFile, before: &BeforeStep) -> std::result::Result<bool, Failure> {
        let guard = self.connect()?;
        before(SyncStep::Guard).map_err(Failure::Log)?;
        guard.execute_batch("BEGIN")?;
        guard.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        self.guard = Some(guard);
        let salts = log.salts().map_err(Failure::Log)?;
        log.sync().map_err(Failure::Log)?;
        self.step(before, SyncStep::Pages)?;
        let copier = self.connect()?;
        copier.execute_batch("PRAGMA synchronous = NORMAL")?;
        let (is_busy, frames, copied) = checkpoint(&copier)?;
        // The guard of a log that was copied before does not forbid its restart: then these are numbers of another log.
        if let Some(salts) = salts.filter(|_| copied > 0)
            && log.salts().map_err(Failure::Log)? == Some(salts)
        {
            self.step(before, SyncStep::Mark)?;
            self.write(Mark { salts, frames: copied })?;
        }
        self.guard = None;
        Ok(!is_busy && frames == copied)
    }

    /// A connection that copies nothing when it is closed.
    fn connect(&self) -> std::result::Result<Connection, Failure> {
        let conn = connect(&self.dir, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(Failure::Copy)?;
        leave_log(&conn).map_err(Failure::Copy)?;
        Ok(conn)
    }

    fn step(&self, before: &BeforeStep, step: SyncStep) -> std::result::Result<(), Failure> {
        before(step).map_err(|error| Failure::Copy(io_error(&self.dir, &error)))
    }

    fn write(&self, mark: Mark) -> std::result::Result<(), Failure> {
        let path = self.dir.join(FILE);
        let failed = |error: io::Error| Failure::Copy(io_error(&path, &error));
        let is_new = !path.exists();
        let file = private_file(&path).map_err(Failure::Copy)?;
        file.write_all_at(&mark.to_bytes(), 0).and_then(|()| file.sync_data()).map_err(failed)?;
        if is_new { File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed) } else { Ok(()) }
    }
}

/// Has SQLite leave the log as it is when the connection is closed.
pub(super) fn leave_log(conn: &Connection) -> Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}

/// Whether another connection was in the way, how many frames the log has, and how many of them are copied.
fn checkpoint(conn: &Connection) -> rusqlite::Result<(bool, u32, u32)> {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        // -1: there is no log.
        let frames = |column| row.get::<_, i64>(column).map(|count| u32::try_from(count).unwrap_or(0));
        Ok((row.get(0)?, frames(1)?, frames(2)?))
    })
}

/// Whether a power cut has left a log that was restarted but has its old header. Nobody may hold the store meanwhile.
pub(super) fn has_overwritten_log(dir: &Path) -> Result<bool> {
    let Some(mark) = fs::read(dir.join(FILE)).ok().and_then(|bytes| Mark::of_bytes(&bytes)) else { return Ok(false) };
    let mut log = LogFile::new(dir);
    let is_overwritten =
        log.salts().and_then(|salts| Ok(salts == Some(mark.salts) && log.whole_frames()? < mark.frames));
    is_overwritten.map_err(|error| io_error(&log_path(dir), &error))
}

/// Empties the log that a power cut has left so.
pub(super) fn discard_overwritten_log(dir: &Path) -> Result<()> {
    if !has_overwritten_log(dir)? {
        return Ok(());
    }
    let path = log_path(dir);
    let emptied = File::options().write(true).open(&path).and_then(|log| log.set_len(0).and_then(|()| log.sync_all()));
    emptied.map_err(|error| io_error(&path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_was_cut_or_changed_is_none() {
        let mark = Mark { salts: *b"saltsalt", frames: 77 };
        let bytes = mark.to_bytes();
        assert_eq!(Mark::of_bytes(&bytes), Some(mark));
        for at in 0..MARK_BYTES {
            assert_eq!(Mark::of_bytes(&bytes[..at]), None);
            let mut changed = bytes;
            changed[at] ^= 1;
            assert_eq!(Mark::of_bytes(&changed), None, "byte {at}");
        }
    }
}
