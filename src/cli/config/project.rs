//! The configuration of a project: `.polylogue/` in the working directory or above it, used only if the user trusts it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::base::digest::{Digest as _, Sha256};
use crate::base::project::ProjectDirectories;

use super::file::{self, FoundFile};
use super::{custom, user_tools};
use crate::base::error::{Error, Result};
use crate::base::text::hex;

pub const DIRECTORY: &str = ".polylogue";
/// Directories beside a configuration file, with the files of `team_files`.
pub const TEMPLATES: &str = "templates";
pub const WORKFLOWS: &str = "workflows";

#[derive(Debug, Clone)]
pub struct Project {
    /// Its `.polylogue`, with symbolic links resolved.
    pub directory: PathBuf,
    /// The directory that contains its `.polylogue`, with symbolic links resolved.
    pub root: PathBuf,
    /// The bytes of its configuration file, if there is one.
    pub config: Option<std::result::Result<Vec<u8>, String>>,
    pub commands: Vec<FoundFile>,
    pub teams: Vec<FoundFile>,
    /// The programs in its `tools`.
    pub programs: Vec<FoundFile>,
}

/// The templates or workflows in a directory.
pub fn team_files(directory: &Path) -> Vec<FoundFile> {
    file::files(directory, &["toml", "json"])
}

impl Project {
    /// The nearest one, if it has any of these files.
    pub fn of(directories: &ProjectDirectories) -> Option<Self> {
        let found = directories.nearest_folder(DIRECTORY)?;
        let directory = found.canonicalize().ok()?;
        let root = found.parent()?.to_owned();
        let config = file::read_regular(&directory.join("config.toml")).transpose();
        let commands = file::files(&directory.join("commands"), custom::EXTENSIONS);
        let teams: Vec<FoundFile> =
            [TEMPLATES, WORKFLOWS].iter().flat_map(|name| team_files(&directory.join(name))).collect();
        let programs = file::all_files(&directory.join(user_tools::DIRECTORY));
        let has_anything = config.is_some() || !commands.is_empty() || !teams.is_empty() || !programs.is_empty();
        has_anything.then_some(Self { directory, root, config, commands, teams, programs })
    }

    pub fn file(&self) -> PathBuf {
        self.directory.join("config.toml")
    }

    /// Every file that is used, with its contents or why they cannot be read.
    pub fn files(&self) -> impl Iterator<Item = (PathBuf, &std::result::Result<Vec<u8>, String>)> {
        let config = self.config.iter().map(|config| (self.file(), config));
        let others = self.commands.iter().chain(&self.teams).chain(&self.programs);
        config.chain(others.map(|file| (file.path.clone(), &file.bytes)))
    }

    /// SHA-256 of the names and contents of all files that are used, in hexadecimal.
    pub fn digest(&self) -> String {
        let mut all = Sha256::new();
        for (path, bytes) in self.files() {
            // Each is hashed by itself first, so that moving bytes from one to the next changes the result.
            all.update(Sha256::digest(path.as_os_str().as_encoded_bytes()));
            all.update(Sha256::digest(bytes.as_deref().unwrap_or_default()));
        }
        hex(all.finalize())
    }
}

/// Creates a directory that only its owner can access.
pub fn create_private(directory: &Path) -> Result<()> {
    let result = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    result.map_err(|error| Error::from(error).context(directory.display()))
}

/// Replaces the file atomically; only its owner can read it.
pub fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    let new = file.with_extension(format!("new.{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut file_writer = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file_writer.write_all(text.as_bytes())?;
    file_writer.sync_all()?;
    fs::rename(&new, file)
}
