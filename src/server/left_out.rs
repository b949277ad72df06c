//! Stands where the server was left out of the program: nobody can listen, and nobody is there to be reached.

use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::base::error::{Error, Result};

/// A socket at which clients come in. There never is one.
#[derive(Debug)]
pub struct Listener(());

impl Listener {
    /// Makes the socket of this data directory.
    ///
    /// # Errors
    /// Always: the server was left out.
    pub fn bind(_: &Path) -> Result<Self> {
        Err(Error::left_out("server"))
    }
}

/// A connection to whoever serves this data directory: nobody that this program could talk with.
///
/// # Errors
/// None.
pub fn connect(_: &Path) -> Result<Option<UnixStream>> {
    Ok(None)
}
