//! Errors of the store: messages for SQLite's result codes, and errors of our own.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::base::error::{Error, ErrorKind};

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let message = error.sqlite_error_code().and_then(message_of);
        Self::new(ErrorKind::Store, message.map_or_else(|| format!("database error: {error}"), str::to_owned))
    }
}

const LOCKED: &str = "the database is locked by another program: close it and try again";

/// The error of a database that another program holds.
pub(super) fn locked() -> Error {
    store_error(LOCKED)
}

/// A message for the codes that a person can do something about (<https://sqlite.org/rescode.html>).
const fn message_of(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::DiskFull => "the disk is full: free some space and try again",
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => LOCKED,
        ErrorCode::ReadOnly => "the database is read-only",
        ErrorCode::DatabaseCorrupt => {
            "the database is damaged: make a copy of the file, then run `sqlite3 polylogue.db .recover` to save what can \
             be read"
        }
        ErrorCode::NotADatabase => "polylogue.db is not a database: move it away or choose another directory",
        ErrorCode::CannotOpen => "cannot open the database: check that it exists and that you may read and write it",
        ErrorCode::PermissionDenied => "no permission to use the database: check its owner",
        ErrorCode::SystemIoFailure => "the disk reported an error while the database was read or written",
        ErrorCode::OutOfMemory => "not enough memory for the database",
        _ => return None,
    })
}

/// Whether the error is a violated UNIQUE constraint on `column` (`table.column`).
pub(super) fn is_duplicate(error: &rusqlite::Error, column: &str) -> bool {
    // SQLite names the column only in its message: "UNIQUE constraint failed: agents.name".
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) && error.to_string().ends_with(column)
}

/// An error of the store that does not come from SQLite.
pub(super) fn store_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Store, message)
}

/// The error with the directory in front, for errors at startup.
pub(super) fn in_directory(dir: &Path, error: Error) -> Error {
    error.context(format_args!("the store in {}", dir.display()))
}
