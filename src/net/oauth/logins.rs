//! The file with the logins of a person, which the processes of the program share.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

use super::tokens::Login;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::file;

/// In the data directory.
const FILE: &str = "mcp-logins.json";
const LOCK: &str = "mcp-logins.lock";

/// Logins by the URL of their server.
type All = BTreeMap<String, Login>;

/// The logins in a directory. Copies name the same file.
#[derive(Debug, Clone)]
pub struct Logins {
    directory: PathBuf,
}

struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // A process that is just being started may have a copy of the descriptor.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Logins {
    pub fn in_directory(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The token for a server, renewed if it has expired or is the one that the server has refused. `None` without a login.
    /// Waits for other processes and for the network.
    ///
    /// # Errors
    /// The token could not be renewed: of the kind [`ErrorKind::Auth`] if only a new login helps.
    pub fn token(&self, server: &str, refused: Option<&str>) -> Result<Option<String>> {
        let is_usable = |login: &Login| !login.is_stale() && refused != Some(&*login.access_token);
        match self.read()?.get(server) {
            None => return Ok(None),
            Some(login) if is_usable(login) => return Ok(Some(login.access_token.clone())),
            Some(_) => {}
        }
        // Two processes must not use the same refresh token.
        let lock = self.lock()?;
        let mut all = self.read()?;
        let Some(login) = all.get_mut(server) else { return Ok(None) };
        if !is_usable(login) {
            match login.renewed() {
                Ok(renewed) => *login = renewed,
                Err(_) if refused.is_none() && !login.has_expired() => return Ok(Some(login.access_token.clone())),
                Err(error) => return Err(error),
            }
        }
        let token = login.access_token.clone();
        // The token can be used even if it cannot be kept.
        let _ = self.write(&all);
        drop(lock);
        Ok(Some(token))
    }

    /// When a login was last added, renewed or removed; `None` without any.
    pub fn changed_at(&self) -> Option<SystemTime> {
        self.path().metadata().and_then(|found| found.modified()).ok()
    }

    /// Whether there is a login at this server.
    pub fn has(&self, server: &str) -> bool {
        self.read().is_ok_and(|all| all.contains_key(server))
    }

    /// What the login at a server may do, if that is known.
    pub(super) fn scope(&self, server: &str) -> Option<String> {
        self.read().ok()?.remove(server)?.scope
    }

    /// Whether a login could be added.
    pub(super) fn require_usable(&self) -> Result<()> {
        let _lock = self.lock()?;
        self.read().map(drop)
    }

    /// Forgets the login at a server. Returns whether there was one.
    pub fn forget(&self, server: &str) -> Result<bool> {
        let had = self.read()?.contains_key(server);
        if had {
            self.store(server, None)?;
        }
        Ok(had)
    }

    pub(super) fn store(&self, server: &str, login: Option<Login>) -> Result<()> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        match login {
            Some(login) => drop(all.insert(server.to_owned(), login)),
            None => drop(all.remove(server)),
        }
        self.write(&all)
    }

    fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    fn lock(&self) -> Result<Lock> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let file = file::open_private(&self.directory.join(LOCK))?;
        flock(&file, FlockOperation::LockExclusive).map_err(std::io::Error::from)?;
        Ok(Lock(file))
    }

    fn read(&self) -> Result<All> {
        let path = self.path();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(All::new()),
            Err(error) => return Err(Error::from(error).context(path.display())),
        };
        let damaged = |error| format!("{} cannot be read ({error}): remove it, and log in again", path.display());
        serde_json::from_slice(&text).map_err(|error| Error::new(ErrorKind::System, damaged(error)))
    }

    fn write(&self, all: &All) -> Result<()> {
        let text = serde_json::to_string_pretty(all).expect("logins are JSON");
        file::replace(&self.path(), text.as_bytes()).map_err(|error| Error::from(error).context(self.path().display()))
    }
}
