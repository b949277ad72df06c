//! What a project brings along: `.polylogue/` in the working directory or above it, read only if the person trusts it.
//!
//! Trust is given to contents: what is read is digested, and the same bytes are used. The files that were trusted are
//! remembered in one of ours, a line each: the digest, a space, the directory.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::custom;
use super::file::{self, FoundFile};
use super::team::{self, DIRECTORIES};
use crate::base::error::{Error, ErrorKind, Result};

/// The directory of a project.
pub const DIRECTORY: &str = ".polylogue";
/// The file in the config directory that remembers what is trusted.
const TRUSTED: &str = "trusted";

/// What a project brings along.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its `.polylogue`, without links.
    pub directory: PathBuf,
    /// The bytes of its configuration; `None` if there is none.
    pub config: Option<std::result::Result<Vec<u8>, String>>,
    /// Its commands.
    pub commands: Vec<FoundFile>,
    /// Its templates and workflows.
    pub teams: Vec<FoundFile>,
}

impl Project {
    /// That of this directory, if there is one with anything in it.
    pub fn of(directory: &Path) -> Option<Self> {
        let found = file::upwards(directory, DIRECTORY)?;
        let directory = found.canonicalize().ok()?;
        let config = file::read_regular(&directory.join("config.toml")).transpose();
        let commands = file::files(&directory.join("commands"), custom::ENDS);
        let teams: Vec<FoundFile> = DIRECTORIES.iter().flat_map(|name| team::files(&directory.join(name))).collect();
        let has_anything = config.is_some() || !commands.is_empty() || !teams.is_empty();
        has_anything.then_some(Self { directory, config, commands, teams })
    }

    /// Its configuration file.
    pub fn file(&self) -> PathBuf {
        self.directory.join("config.toml")
    }

    /// What is trusted: names and contents of all that is used, as the 64 hexadecimal digits of a SHA-256.
    fn digest(&self) -> String {
        let mut all = Sha256::new();
        let config = self.config.iter().map(|config| ("config.toml".to_owned(), config));
        let others = self.commands.iter().chain(&self.teams);
        let others = others.map(|file| (file.path.display().to_string(), &file.bytes));
        for (name, bytes) in config.chain(others) {
            // Each by itself first: where one ends and the next begins must count too.
            all.update(Sha256::digest(name));
            all.update(Sha256::digest(bytes.as_deref().unwrap_or_default()));
        }
        all.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether these very contents are trusted.
    pub fn is_trusted(&self, config_directory: &Path) -> bool {
        let line = self.line();
        let trusted = fs::read_to_string(config_directory.join(TRUSTED)).unwrap_or_default();
        trusted.lines().any(|known| known == line)
    }

    /// Remembers that these contents are trusted, in place of earlier ones.
    ///
    /// # Errors
    /// The config directory cannot be written.
    pub fn trust(&self, config_directory: &Path) -> Result<()> {
        let path = self.directory.display().to_string();
        if path.contains('\n') {
            return Err(Error::new(ErrorKind::Usage, "a directory with a line break in its name cannot be trusted"));
        }
        make_private(config_directory)?;
        let file = config_directory.join(TRUSTED);
        let known = fs::read_to_string(&file).unwrap_or_default();
        let others = known.lines().filter(|line| line.split_once(' ').is_some_and(|(_, other)| other != path));
        let lines: String = others.map(|line| format!("{line}\n")).collect();
        write_private(&file, &format!("{lines}{}\n", self.line()))
            .map_err(|error| Error::from(error).context(file.display()))
    }

    fn line(&self) -> String {
        format!("{} {}", self.digest(), self.directory.display())
    }
}

/// Makes the config directory, for its owner alone.
///
/// # Errors
/// It cannot be made.
pub fn make_private(directory: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| Error::from(error).context(directory.display()))
}

/// All or nothing, and readable by nobody else.
fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    let new = file.with_extension(format!("new.{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut written = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    fs::rename(&new, file)
}
