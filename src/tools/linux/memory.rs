//! Files that exist in memory only (memfd_create(2)).

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, memfd_create};

/// An empty file.
pub fn file(name: &str) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC)?))
}
