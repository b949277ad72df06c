//! The file of `--trajectory`.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access};

use crate::base::error::{Error, Result, system_message};
use crate::cli::host::Host;
use crate::domain::wire::Request;

/// How long it may take to read the conversation and to write the file.
const LIMIT: Duration = Duration::from_secs(60);

/// The file that the conversation is written to at the end of the run.
pub struct TrajectoryFile {
    path: String,
    /// It was not there before the run.
    is_new: bool,
}

impl TrajectoryFile {
    /// Creates the file if it is not there, so that nothing is sent if it cannot be written.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(path: &Path) -> Result<Self> {
        let fails = |why: &str| Error::usage(format!("cannot write --trajectory {}: {why}", path.display()));
        let is_new = !path.exists();
        if !is_new && !path.is_file() {
            return Err(fails("it is not a regular file"));
        }
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let found = opened.and_then(|_| fs::canonicalize(path)).map_err(|error| fails(&system_message(&error)))?;
        // Another file takes its place.
        if found.parent().is_some_and(|directory| access(directory, Access::WRITE_OK).is_err()) {
            return Err(fails("no permission to write in its directory"));
        }
        let path = found.into_os_string().into_string().map_err(|_| fails("its name is not UTF-8"))?;
        Ok(Self { path, is_new })
    }

    /// Writes the conversation of an agent in place of what is there.
    ///
    /// # Errors
    /// It cannot be written; then the file stays as it was.
    pub fn write(&self, host: &mut Host, agent: &str) -> Result<()> {
        let request = Request::run_at(agent, ["export", "--replace", "--", &format!("atif {}", self.path)]);
        let written = host.request_for(&request, Some(LIMIT)).map(drop);
        written.map_err(|error| error.context(format!("--trajectory {}", self.path)))
    }
}

impl Drop for TrajectoryFile {
    /// A run that has not begun leaves no empty file.
    fn drop(&mut self) {
        if self.is_new && fs::metadata(&self.path).is_ok_and(|found| found.len() == 0) {
            // Nothing is lost if it stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}
