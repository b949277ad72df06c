//! The part of the process's environment that the configuration depends on: variables and the working directory.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::base::error::{Error, Result, system_message};

type LookUp = Box<dyn Fn(&str) -> Option<OsString>>;

/// Environment variables and working directory; tests bring their own.
pub struct ProcessEnvironment {
    pub variable: LookUp,
    pub directory: PathBuf,
}

impl ProcessEnvironment {
    /// The environment of this process.
    pub fn current() -> Result<Self> {
        let directory = std::env::current_dir()?;
        Ok(Self { variable: Box::new(|name| std::env::var_os(name)), directory })
    }

    /// The same in another directory, which this process enters.
    pub fn entering(self, directory: &Path) -> Result<Self> {
        std::env::set_current_dir(directory)
            .map_err(|error| Error::usage(format!("--cwd {}: {}", directory.display(), system_message(&error))))?;
        Ok(Self { directory: std::env::current_dir()?, ..self })
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
    pub fn data_directory(&self) -> Option<PathBuf> {
        self.base_directory("XDG_DATA_HOME", Path::new(".local/share"))
    }

    pub fn writable_data_directory(&self) -> std::result::Result<PathBuf, String> {
        let directory = self.data_directory().ok_or("neither XDG_DATA_HOME nor HOME is set")?;
        // It is created in the nearest one that exists.
        let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let checked = match existing.is_dir() {
            true => access(existing, Access::WRITE_OK | Access::EXEC_OK),
            false => Err(Errno::NOTDIR),
        };
        checked.map(|()| directory.clone()).map_err(|error| {
            format!("{} cannot be written: {}", directory.display(), system_message(&std::io::Error::from(error)))
        })
    }

    /// `polylogue-UID` in `$TMPDIR`, by default `/tmp`. It replaces a data directory that cannot be used.
    pub fn temporary_data_directory(&self) -> Result<PathBuf> {
        let base = self.absolute_path("TMPDIR").unwrap_or_else(|| "/tmp".into());
        let user = geteuid();
        let directory = base.join(format!("polylogue-{}", user.as_raw()));
        let failed = |message: &str| Error::usage(format!("{}: {message}", directory.display()));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(&system_message(&error))),
            _ => {}
        }
        let found = directory.symlink_metadata().map_err(|error| failed(&system_message(&error)))?;
        match found.is_dir() && found.uid() == user.as_raw() && found.mode() & 0o077 == 0 {
            true => Ok(directory),
            false => Err(failed("not a directory that only you can use")),
        }
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
