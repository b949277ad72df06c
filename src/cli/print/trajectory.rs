//! The file of `--trajectory`.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process;

use crate::base::error::{Error, Result, system_message};
use crate::cli::client::RESPONSE_TIMEOUT;
use crate::cli::host::Host;
use crate::domain::wire::Request;

/// The file that the conversation is written to at the end of the run.
pub struct TrajectoryFile(PathBuf);

impl TrajectoryFile {
    /// Creates the file if it is not there, so that nothing is sent if it cannot be written.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(path: &Path) -> Result<Self> {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let path = opened.and_then(|_| fs::canonicalize(path)).map_err(|error| cannot_write(path, &error))?;
        Ok(Self(path))
    }

    /// Writes the conversation of an agent in place of what is there, with the permissions that the file has.
    ///
    /// # Errors
    /// It cannot be written; then the file stays as it was.
    pub fn write(&self, host: &mut Host, agent: &str) -> Result<()> {
        let Self(path) = self;
        let mut new = path.clone().into_os_string();
        new.push(format!(".{}.new", process::id()));
        let new = PathBuf::from(new);
        let Some(name) = new.to_str() else {
            return Err(Error::usage(format!("--trajectory {}: the name is not UTF-8", path.display())));
        };
        let request = Request::run_at(agent, ["export", &format!("atif {name}")]);
        let exported = host.request_for(&request, Some(RESPONSE_TIMEOUT));
        exported.map_err(|error| error.context(format!("--trajectory {}", path.display())))?;
        let replace =
            || fs::set_permissions(&new, fs::metadata(path)?.permissions()).and_then(|()| fs::rename(&new, path));
        replace().map_err(|error| cannot_write(path, &error))
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::usage(format!("cannot write --trajectory {}: {}", path.display(), system_message(error)))
}
