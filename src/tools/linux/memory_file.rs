//! A file without a name, by `memfd_create(2)`: standard input of a command that is known as a whole.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};

use rustix::fs::{MemfdFlags, memfd_create};

/// A file with these bytes, at its start. The writer of a pipe could block.
pub fn with(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
