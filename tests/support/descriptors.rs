//! The open descriptors of a process (proc(5)).

use std::path::PathBuf;

/// The connections to the database that are open at once: the loop's, two brakes and a copier, which come when the log is
/// copied. SQLite keeps the descriptors of closed ones while another one has a lock, and uses them again (pUnused in os_unix.c).
pub const MOST_CONNECTIONS: usize = 4;

#[derive(Debug)]
pub struct Descriptors {
    /// At most [`MOST_CONNECTIONS`].
    pub of_database: usize,
    /// Those of the write-ahead log: one more, which syncs it.
    pub of_log: usize,
    /// What the others are open on, sorted.
    pub others: Vec<PathBuf>,
}

impl Descriptors {
    /// Of the process with this id, or of `self`.
    pub fn of(process: &str) -> Self {
        let entries = std::fs::read_dir(format!("/proc/{process}/fd")).expect("a process on Linux").flatten();
        let mut others: Vec<PathBuf> = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
        others.sort();
        let mut take = |name: &str| others.extract_if(.., |file| file.ends_with(name)).count();
        Self { of_database: take("polylogue.db"), of_log: take("polylogue.db-wal"), others }
    }
}
