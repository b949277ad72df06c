//! Copies the write-ahead log into the database, by SQLite's checkpoints on connections of their own. A passive checkpoint on a
//! connection with `synchronous = NORMAL` syncs the log before it copies, and the database when it has copied all; it never
//! waits for the connection of the event loop, nor that for it.
//!
//! A commit after a complete checkpoint restarts the log, which costs the event loop one sync, that of the new header. A read
//! transaction on a second connection, the brake, forbids that; nothing behind it is copied, so it is renewed with each copy:
//!
//! ```text
//!   log   |######## copied ########|==== to be copied ====|-- commits -->
//!                                  ^ old brake            ^ new brake
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::connection::{connect, log_path};
use super::lock::io_error;
use super::wal;
use crate::base::error::{Error, Result};

/// Bytes at the beginning of the log, and before each page in it (<https://www.sqlite.org/fileformat2.html#walformat>).
const FILE_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// Something that is about to be written to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncStep {
    /// The log is synced.
    Log,
    /// The log is copied into the database.
    Copy,
}

/// Called before each step; an error is that of the step.
pub(super) type BeforeStep = dyn Fn(SyncStep) -> io::Result<()> + Send + Sync;

pub(super) struct CopyFailure {
    pub(super) error: Error,
    /// It can be tried again. After other failures the kernel may have dropped what it could not write, and the log must stay as
    /// it is until the next start.
    pub(super) is_disk_full: bool,
}

impl From<rusqlite::Error> for CopyFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self { is_disk_full: error.sqlite_error_code() == Some(ErrorCode::DiskFull), error: error.into() }
    }
}

impl From<Error> for CopyFailure {
    fn from(error: Error) -> Self {
        Self { error, is_disk_full: false }
    }
}

pub(super) struct Copier {
    dir: PathBuf,
    brake: Option<Connection>,
}

impl Copier {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), brake: None }
    }

    pub(super) fn has_brake(&self) -> bool {
        self.brake.is_some()
    }

    /// Copies what is in the log now. Without `keeps_brake`, the next commit restarts a log that is copied completely. Returns the
    /// length up to which the log is copied, 0 if another connection copies just now.
    pub(super) fn copy(&mut self, keeps_brake: bool, before: &BeforeStep) -> std::result::Result<u64, CopyFailure> {
        // The old one ends when the new one has begun.
        self.brake = if keeps_brake { Some(self.begin_brake()?) } else { None };
        before(SyncStep::Copy).map_err(|error| CopyFailure {
            is_disk_full: error.kind() == io::ErrorKind::StorageFull,
            error: io_error(&log_path(&self.dir), &error),
        })?;
        Ok(checkpoint(&self.connect()?, "PASSIVE")?.map_or(0, |log| log.copied))
    }

    fn begin_brake(&self) -> std::result::Result<Connection, CopyFailure> {
        let brake = self.connect()?;
        brake.execute_batch("BEGIN")?;
        brake.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(brake)
    }

    /// A connection that copies nothing when it is closed.
    fn connect(&self) -> std::result::Result<Connection, CopyFailure> {
        let conn = connect(&self.dir, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        conn.execute_batch("PRAGMA synchronous = NORMAL")?;
        leave_log(&conn)?;
        Ok(conn)
    }
}

/// Has SQLite leave the log as it is when the connection is closed.
pub(super) fn leave_log(conn: &Connection) -> Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}

/// Bytes of the pages in the log. Its file may be longer, because it stays so when SQLite begins the log anew.
pub(super) struct Log {
    pub(super) length: u64,
    /// Up to this length it is copied into the database.
    pub(super) copied: u64,
}

/// Runs a checkpoint of this mode; `NOOP` copies nothing. `None` if another connection copies just now.
pub(super) fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<Option<Log>> {
    checkpoint_of(conn, mode, frame(conn)?)
}

fn checkpoint_of(conn: &Connection, mode: &str, frame: u64) -> rusqlite::Result<Option<Log>> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        // Both are -1 then.
        let bytes = |frames: i64| u64::try_from(frames).ok().map(|frames| frames * frame);
        let (length, copied) = (bytes(row.get(1)?), bytes(row.get(2)?));
        Ok(length.zip(copied).map(|(length, copied)| Log { length, copied }))
    })
}

/// Whether the database has all that is in the log.
pub(super) fn is_copied(conn: &Connection) -> bool {
    matches!(checkpoint(conn, "NOOP"), Ok(Some(log)) if log.copied == log.length)
}

/// Bytes of a page in the log.
fn frame(conn: &Connection) -> rusqlite::Result<u64> {
    let page: u32 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    Ok(FRAME_HEADER + u64::from(page))
}

/// The length of the log after each commit of this connection.
pub(super) fn follow_length(conn: &mut Connection) -> Result<Arc<AtomicU64>> {
    let frame = frame(conn)?;
    let length = checkpoint_of(conn, "NOOP", frame)?.map_or(0, |log| log.length);
    let length = Arc::new(AtomicU64::new(length));
    let followed = Arc::clone(&length);
    conn.wal_hook(Some(move |_: &mut Wal, frames| {
        followed.store(u64::try_from(frames).unwrap_or(0) * frame, Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(length)
}

/// Makes a log that a killed or failed process left durable, and empties it. If a sync of that process failed, parts of the log
/// may exist in memory only, and after a power cut everything that follows them would be lost.
pub(super) fn settle(conn: &Connection, dir: &Path) -> Result<()> {
    let length = checkpoint(conn, "NOOP")?.map_or(u64::MAX, |log| FILE_HEADER + log.length);
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let rewritten = wal::rewrite(dir, length);
    conn.execute_batch("ROLLBACK")?;
    rewritten?;
    match checkpoint(conn, "TRUNCATE") {
        // It is copied later then, like any other log.
        Err(error) if !matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy)) => {
            Err(error.into())
        }
        _ => Ok(()),
    }
}
