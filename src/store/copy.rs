//! The copy of the database before its schema changes, named by the version that it has.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::lock::{io_error, private_file};
use super::schema;
use crate::base::error::Result;

/// The copy until it is complete.
const UNFINISHED: &str = "polylogue.copy.db";
const PAGES_AT_ONCE: i32 = 4096;

/// Copies a database whose schema is older than that of this program. Returns the file; `None` for a new database and for
/// one that is not older. After an error the database must not be changed.
pub(super) fn before_migration(conn: &Connection, dir: &Path) -> Result<Option<PathBuf>> {
    let (found, current) = schema::versions(conn)?;
    if found == 0 || found >= current {
        return Ok(None);
    }
    let (unfinished, path) = (dir.join(UNFINISHED), dir.join(format!("polylogue.v{found}.db")));
    write(conn, &unfinished).map_err(|error| error.context("cannot copy the database before its schema changes"))?;
    fs::rename(&unfinished, &path).map_err(|error| io_error(&path, &error))?;
    Ok(Some(path))
}

fn write(conn: &Connection, path: &Path) -> Result<()> {
    // A process that was killed while it copied has left them.
    for leftover in [path.to_owned(), beside(path, "-journal"), beside(path, "-wal")] {
        match fs::remove_file(&leftover) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io_error(&leftover, &error)),
            _ => {}
        }
    }
    drop(private_file(path)?);
    let mut copy = Connection::open(path)?;
    Backup::new(conn, &mut copy)?.run_to_completion(PAGES_AT_ONCE, Duration::ZERO, None)?;
    drop(copy);
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| io_error(path, &error))
}

/// A file that SQLite keeps beside a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
