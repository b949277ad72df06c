//! Opening the database file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::in_directory;
use super::lock::io_error;
use crate::base::error::Result;
use crate::base::file::refuse_irregular;

const FILE: &str = "polylogue.db";

/// How long a statement waits for another program that holds the file. Short, because the event loop is blocked
/// meanwhile.
const BUSY_TIMEOUT: Duration = Duration::from_millis(50);

/// Size of the cache of prepared statements: more than this module has.
const STATEMENTS: usize = 64;

pub(super) fn database_path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

pub(super) fn log_path(dir: &Path) -> PathBuf {
    dir.join(format!("{FILE}-wal"))
}

/// Whether another process may be writing, or has left writes outside the main file.
pub(super) fn has_wal(dir: &Path) -> bool {
    log_path(dir).metadata().is_ok_and(|found| found.len() > 0)
}

/// SQLite opens these beside the database and follows symbolic links.
const COMPANIONS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Opens the existing file. URIs are off, so that a path that looks like one is still a path.
pub(super) fn connect(dir: &Path, mode: OpenFlags) -> Result<Connection> {
    refuse_links(dir)?;
    Connection::open_with_flags(database_path(dir), mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| in_directory(dir, error.into()))
}

fn refuse_links(dir: &Path) -> Result<()> {
    COMPANIONS.iter().try_for_each(|companion| {
        let path = dir.join(format!("{FILE}{companion}"));
        refuse_irregular(&path).map_err(|error| io_error(&path, &error))
    })
}

/// Opens the file as immutable. On a read-only medium, where no log can be created beside it, this is the
/// only way to read it (<https://www.sqlite.org/uri.html>, `immutable`).
pub(super) fn connect_immutable(dir: &Path) -> Result<Connection> {
    refuse_links(dir)?;
    let path = database_path(dir).display().to_string();
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let mode = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Ok(Connection::open_with_flags(format!("file:{path}?immutable=1"), mode)?)
}

pub(super) fn configure(conn: &Connection) -> Result<()> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // Otherwise SQLite, which is built with STAT4, compiles a statement anew for each value that is bound to it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}
