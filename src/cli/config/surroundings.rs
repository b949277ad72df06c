//! What the configuration is looked for in: the variables of the environment, and the directory of the start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, ErrorKind, Result};

/// Looks a variable up.
pub type Variables = Box<dyn Fn(&str) -> Option<OsString>>;

/// Where the program was started.
pub struct Surroundings {
    /// The value of a variable, if it is set.
    pub variable: Variables,
    /// The working directory.
    pub directory: PathBuf,
}

impl Surroundings {
    /// Those of this process.
    ///
    /// # Errors
    /// The working directory is gone.
    pub fn of_process() -> Result<Self> {
        let directory = std::env::current_dir()?;
        Ok(Self { variable: Box::new(|name| std::env::var_os(name)), directory })
    }

    /// A variable that is set and not empty.
    pub fn set(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The same, as text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.set(name)?.into_string().ok()
    }

    /// The person's home.
    pub fn home(&self) -> Option<PathBuf> {
        self.directory_in("HOME")
    }

    /// `$XDG_CONFIG_HOME/polylogue`, by default `~/.config/polylogue` (XDG Base Directory Specification).
    pub fn config_directory(&self) -> Option<PathBuf> {
        self.base("XDG_CONFIG_HOME", Path::new(".config"))
    }

    /// `$XDG_DATA_HOME/polylogue`, by default `~/.local/share/polylogue`.
    ///
    /// # Errors
    /// Nobody knows where the home is.
    pub fn data_directory(&self) -> Result<PathBuf> {
        self.base("XDG_DATA_HOME", Path::new(".local/share")).ok_or_else(|| {
            Error::new(ErrorKind::Usage, "neither XDG_DATA_HOME nor HOME is set: say --data-dir DIR or --ephemeral")
        })
    }

    fn base(&self, name: &str, below_home: &Path) -> Option<PathBuf> {
        let base = self.directory_in(name).or_else(|| self.home().map(|home| home.join(below_home)))?;
        Some(base.join("polylogue"))
    }

    /// The specification has relative paths ignored.
    fn directory_in(&self, name: &str) -> Option<PathBuf> {
        self.set(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}
