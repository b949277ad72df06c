//! What SQLite's errors mean to a person.

use rusqlite::ErrorCode;

use crate::base::error::{Error, ErrorKind};

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let words = error.sqlite_error_code().and_then(plain_words);
        Self::new(ErrorKind::Store, words.map_or_else(|| format!("the database: {error}"), str::to_owned))
    }
}

/// Words for what a person can do something about. Codes: <https://sqlite.org/rescode.html>.
const fn plain_words(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::DiskFull => "the disk is full, nothing more can be saved: free some space and try again",
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            "another program keeps the database locked: close it and try again"
        }
        ErrorCode::ReadOnly => "the database can only be read, not written",
        ErrorCode::DatabaseCorrupt => {
            "the database is damaged: keep a copy of the file; `sqlite3 polylogue.db .recover` saves what can be read"
        }
        ErrorCode::NotADatabase => "the file is not a database: move it away or choose another directory",
        ErrorCode::CannotOpen => "the database cannot be opened: is it there, and may you read and write it?",
        ErrorCode::PermissionDenied => "the database may not be touched: check who owns it",
        ErrorCode::SystemIoFailure => "the disk reported an error while the database was read or written",
        ErrorCode::OutOfMemory => "there is not enough memory for the database",
        _ => return None,
    })
}

/// Whether the error says that a value is there already which must be unique in `column` (`table.column`).
pub(super) fn is_duplicate(error: &rusqlite::Error, column: &str) -> bool {
    // SQLite tells which column only in its words: "UNIQUE constraint failed: agents.name".
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) && error.to_string().ends_with(column)
}
