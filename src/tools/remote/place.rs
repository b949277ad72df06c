//! Remote paths: the meaning of a written path before anything is looked up, and whether its target may be opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::call::Request;
use super::project::normal;
use super::{Remote, script};
use crate::domain::remote_place::RemotePlace;
use crate::policy::paths::{Access, DenyList, PathPolicy, Verdict};
use crate::tools::locate::{Located, denial_message};
use crate::tools::{Environment, Job, visible};

/// How long a script that checks one file may take.
pub const LOOK_LIMIT: Duration = Duration::from_secs(60);

/// The most bytes of a path.
const MAX_PATH: usize = 4096;

impl Remote {
    /// The path that a model wrote: absolute, without `.` and `..`.
    pub fn absolute(&self, written: &str) -> Result<PathBuf, String> {
        if written.is_empty() || written.contains(char::is_control) || written.len() > MAX_PATH {
            return Err("the path must not be empty, have control characters or more than 4096 bytes".into());
        }
        if written == "~" || written.starts_with("~/") {
            return Err(format!("{written}: use an absolute path, or one relative to the working directory"));
        }
        Ok(normal(&self.directory.join(written)))
    }

    /// The meaning of a path for the question and the rules. It is looked up when the call runs.
    pub fn locate(&self, written: &str, access: Access) -> Result<Located, String> {
        let path = self.absolute(written)?;
        let verdict = match self.verdict(&path, access, None) {
            Verdict::Denied(what) => return Err(denial_message(written, what)),
            Verdict::AskOutside(directory) => Verdict::AskOutside(self.display_path(&directory)),
            verdict => verdict,
        };
        Ok(Located { path: self.display_path(&path), verdict })
    }

    /// Whether the target of a path may be opened: it is what was judged, or needs no question.
    ///
    /// # Errors
    /// A message for the model that follows the path and `: `.
    pub fn check(&self, judged: &Path, found: &Path, access: Access, home: &Path) -> Result<(), String> {
        match self.verdict(found, access, Some(home)) {
            Verdict::Denied(what) => Err(format!("access denied: {what}; tools never open it")),
            Verdict::Free => Ok(()),
            _ if judged == found => Ok(()),
            _ => Err(format!(
                "leads to {}; use that path, so that the user can be asked",
                visible(&found.to_string_lossy())
            )),
        }
    }

    /// Checks that the working directory is still the one that was entered.
    pub fn require_workspace(&self, workspace: &Path) -> Result<(), String> {
        let (was, is) = (self.directory.display(), workspace.display());
        match workspace {
            workspace if workspace == self.directory => Ok(()),
            workspace if workspace.as_os_str().is_empty() => {
                Err(format!("the working directory {was} no longer exists on {}", self.name()))
            }
            _ => Err(format!("the working directory {was} now leads to {is}; the user can enter it with /env")),
        }
    }

    /// Whether files at this path are never opened.
    pub fn is_denied(&self, path: &Path, home: &Path) -> bool {
        matches!(self.verdict(path, Access::Read, Some(home)), Verdict::Denied(_))
    }

    fn verdict(&self, path: &Path, access: Access, home: Option<&Path>) -> Verdict {
        let denied = DenyList { home: home.map(Path::to_path_buf), ..DenyList::default() };
        let policy = PathPolicy {
            workspace: &self.directory,
            outputs: Path::new(""),
            skills: &[],
            guarded: &[],
            denied: &denied,
        };
        match policy.verdict(path, access) {
            // Paths that are not mounted are the container's own.
            Verdict::AskOutside(_) if self.is_contained() => Verdict::Free,
            verdict => verdict,
        }
    }

    /// A path there, as questions and rules name it.
    pub fn display_path(&self, path: &Path) -> PathBuf {
        match &self.place {
            RemotePlace::Ssh { host, .. } => PathBuf::from(format!("ssh:{host}:{}", path.to_string_lossy())),
            _ => path.to_path_buf(),
        }
    }

    /// The path to show to the model: relative to the working directory if it is below that, else absolute.
    pub fn relative(&self, path: &Path) -> String {
        visible(&path.strip_prefix(&self.directory).unwrap_or(path).to_string_lossy())
    }

    /// The directory in which agents work.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Whether a path is one of the files on this machine that hold the output of commands.
pub fn is_saved_output(path: &str, env: &Environment) -> bool {
    let (path, outputs) = (Path::new(path), &env.output_directory);
    let policy = PathPolicy {
        workspace: Path::new("/nowhere"),
        outputs,
        skills: &[],
        guarded: &[],
        denied: &DenyList::default(),
    };
    path.is_absolute() && policy.verdict(path, Access::Read) == Verdict::Free
}

/// The directory of a place as it is there.
pub fn directory_there(remote: &Remote, job: &Job) -> Result<String, String> {
    let written = match &remote.place {
        RemotePlace::Ssh { directory, .. } => directory.clone(),
        _ => remote.directory.to_string_lossy().into_owned(),
    };
    let script = script::find_directory(&written);
    let found = remote.collect(&Request { script: &script, data: None, limit: LOOK_LIMIT }, MAX_PATH, job)?;
    let name = remote.name();
    match found.status.as_deref() {
        Some("ok") => match String::from_utf8(found.output) {
            Ok(path) if path.starts_with('/') && !path.contains(char::is_control) => Ok(path),
            _ => Err(format!("{written} on {name}: its path has characters that cannot be used here")),
        },
        Some("none") => Err(format!("{written} on {name}: no such directory")),
        _ => Err(format!("{written} on {name}: permission denied")),
    }
}
