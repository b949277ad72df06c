//! The part of the process's environment that the configuration depends on: variables and the working directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};

type LookUp = Box<dyn Fn(&str) -> Option<OsString>>;

/// Environment variables and working directory; tests bring their own.
pub struct ProcessEnvironment {
    pub variable: LookUp,
    pub directory: PathBuf,
}

impl ProcessEnvironment {
    /// The environment of this process.
    ///
    /// # Errors
    /// The working directory was removed.
    pub fn current() -> Result<Self> {
        let directory = std::env::current_dir()?;
        Ok(Self { variable: Box::new(|name| std::env::var_os(name)), directory })
    }

    /// The value of a variable that is set and not empty.
    pub fn set(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The same as UTF-8.
    pub fn text(&self, name: &str) -> Option<String> {
        self.set(name)?.into_string().ok()
    }

    pub fn home(&self) -> Option<PathBuf> {
        self.absolute_path("HOME")
    }

    /// `$XDG_CONFIG_HOME/polylogue`, by default `~/.config/polylogue` (XDG Base Directory Specification).
    pub fn config_directory(&self) -> Option<PathBuf> {
        self.base_directory("XDG_CONFIG_HOME", Path::new(".config"))
    }

    /// The directories of the user's skills, those that count first first.
    pub fn skill_directories(&self) -> Vec<PathBuf> {
        let own = self.config_directory().map(|directory| directory.join("skills"));
        let of_others =
            self.home().into_iter().flat_map(|home| [".agents/skills", ".claude/skills"].map(|name| home.join(name)));
        own.into_iter().chain(of_others).collect()
    }

    /// `$XDG_DATA_HOME/polylogue`, by default `~/.local/share/polylogue`.
    ///
    /// # Errors
    /// Neither variable is set.
    pub fn data_directory(&self) -> Result<PathBuf> {
        self.base_directory("XDG_DATA_HOME", Path::new(".local/share"))
            .ok_or_else(|| Error::usage("neither XDG_DATA_HOME nor HOME is set: use --data-dir DIR or --ephemeral"))
    }

    fn base_directory(&self, name: &str, below_home: &Path) -> Option<PathBuf> {
        let base = self.absolute_path(name).or_else(|| self.home().map(|home| home.join(below_home)))?;
        Some(base.join("polylogue"))
    }

    /// The specification says that relative paths are ignored.
    fn absolute_path(&self, name: &str) -> Option<PathBuf> {
        self.set(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}
