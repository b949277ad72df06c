//! Tools of environments that run elsewhere: on another machine by the system's ssh, or in a container.
//!
//! ```text
//!   tool thread ── ssh or podman exec ──▶ sh there, with a script that came on its standard input
//!      │                                    └─ the command, in the process group of that shell
//!      └─ Connection: one process that holds the connection, or the container, for all agents of one place
//! ```
//!
//! Nothing is installed there: POSIX `sh` and the utilities of POSIX do all the work (`script`). A tool thread never waits
//! for longer than its time limit, and the event loop never waits at all: what would need a look at a file is found out when
//! the call runs, not when it is judged. A question therefore shows the text of a change, not the diff, and the path as it was
//! written; a path that turns out to lead elsewhere is refused with the path to use instead.
//!
//! The commands of a call end when its standard input ends: at a time limit, at an interrupt, and when the connection is cut.

mod bash;
mod call;
mod connection;
mod container_command;
mod fetch;
mod files;
mod frame;
mod listing;
mod pattern;
mod place;
mod project;
mod script;
mod search;
mod skill;
mod ssh_command;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Environment, Job, Outcome, Question, ToolSpec};
use crate::domain::remote_place::RemotePlace;
pub use bash::run_in_background;
use call::{Ending, Request};
pub use connection::{Connection, Connections};
use place::directory_there;
pub use project::RemoteProject;

/// The tools of this machine that have remote counterparts, under the same names.
const SPECS: &[&ToolSpec] = &[
    &bash::SPEC,
    &files::READ,
    &files::WRITE,
    &files::EDIT,
    &files::MULTI_EDIT,
    &search::GLOB,
    &search::GREP,
    &search::LIST_DIR,
    &skill::SPEC,
];

/// The tool with this name for remote environments; one that concerns no files and no commands is the same.
pub fn counterpart(tool: &'static ToolSpec) -> &'static ToolSpec {
    SPECS.iter().find(|spec| spec.declaration.name == tool.declaration.name).copied().unwrap_or(tool)
}

/// Where the tools of an environment run, if that is not this machine.
pub struct Remote {
    /// With the directory as it is there: absolute, without symbolic links.
    pub place: RemotePlace,
    /// The directory in which agents work there.
    directory: PathBuf,
    /// How questions and rules name it.
    workspace: PathBuf,
    connection: Arc<Connection>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.place)
    }
}

impl Remote {
    /// A place whose directory is known. `local` is the agent's directory on this machine. Nothing is started.
    pub fn new(place: RemotePlace, local: &Path, connection: Arc<Connection>) -> Self {
        let (directory, workspace) = match &place {
            RemotePlace::Ssh { directory, .. } => (PathBuf::from(directory), PathBuf::from(place.to_string())),
            RemotePlace::Container { .. } => (local.to_path_buf(), local.to_path_buf()),
        };
        Self { place, directory, workspace, connection }
    }

    /// The workspace by which rules are judged. For another machine it is no path of this one, so that no rule about files
    /// here matches a file there.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Identifies the project: the same for all environments of a directory.
    pub fn project_key(&self) -> String {
        match &self.place {
            RemotePlace::Ssh { .. } => self.place.to_string(),
            RemotePlace::Container { .. } => self.directory.to_string_lossy().into_owned(),
        }
    }

    /// The part of the place that a person names to trust its files; empty for a container, whose files are those of
    /// this machine.
    pub fn trusted_as(&self) -> String {
        if self.is_contained() { String::new() } else { self.place.to_string() }
    }

    /// Whether it confines what tools do: a container does, another machine does not.
    pub fn is_contained(&self) -> bool {
        matches!(self.place, RemotePlace::Container { .. })
    }

    /// For texts: `web1`, `the container of alpine`.
    fn name(&self) -> String {
        match &self.place {
            RemotePlace::Ssh { host, .. } => host.clone(),
            RemotePlace::Container { image } => format!("the container of {image}"),
        }
    }

    /// The text about it for the model.
    pub fn about(&self) -> String {
        let directory = self.directory.display();
        match &self.place {
            RemotePlace::Ssh { host, .. } => format!(
                " Files and commands are those of the machine {host}, reached by ssh. The working directory there is \
                 {directory}."
            ),
            RemotePlace::Container { image } => format!(
                " Commands and files are those of a container of {image}, {}. The working directory is {directory}; what \
                 is changed elsewhere is lost when the container ends.",
                self.connection.network()
            ),
        }
    }

    /// The lines of a question that say where a call runs and what confines it there.
    fn walls(&self) -> Vec<String> {
        let directory = self.directory.display();
        match &self.place {
            RemotePlace::Ssh { host, .. } => vec![
                format!("host: {host}, by ssh; directory: {directory}"),
                format!("no sandbox: it can do there whatever your login on {host} can; /undo cannot revert it"),
            ],
            RemotePlace::Container { image } => vec![
                format!("container of {image}, {}; directory: {directory}", self.connection.network()),
                "it can change the directory and nothing else of this machine; /undo cannot revert it".into(),
            ],
        }
    }

    /// The question for the person about a call, with where it runs.
    fn question(&self, title: String, mut detail: Vec<String>) -> Question {
        detail.extend(self.walls());
        Question::new(title, detail)
    }

    /// Runs a script there and collects its output, at most `limit` bytes.
    fn collect(&self, request: &Request<'_>, limit: usize, job: &Job) -> Result<Collected, String> {
        let mut output = Vec::new();
        let ending = self.connection.run(request, job, &mut |bytes| {
            output.extend_from_slice(bytes);
            output.len() <= limit
        })?;
        match ending {
            Ending::Status(status) => Ok(Collected { output, status: Some(status) }),
            Ending::Enough => Ok(Collected { output, status: None }),
            Ending::Interrupted => Err(super::INTERRUPTED.into()),
            Ending::TimedOut => Err(format!("no answer from {} in time; try again", self.name())),
            Ending::Lost(why) => Err(self.lost_message(&why)),
        }
    }

    fn lost_message(&self, why: &str) -> String {
        format!("lost the connection to {} ({why}); the next call connects again", self.name())
    }
}

/// The output of a script, and the word with which it ended; `None` if it wrote too much.
struct Collected {
    output: Vec<u8>,
    status: Option<String>,
}

/// The place of the environment in which a tool of this module runs.
fn remote_of(env: &Environment) -> &Remote {
    env.remote.as_ref().expect("these tools are only given to environments that run elsewhere")
}

/// Connects to a place, or starts its container, finds its directory and reads the project there.
pub fn reach(
    place: &RemotePlace,
    local: &Path,
    connection: &Arc<Connection>,
    job: &Job,
) -> Outcome<(String, RemoteProject)> {
    let directory = directory_there(&Remote::new(place.clone(), local, Arc::clone(connection)), job)?;
    let remote = Remote::new(place.with_directory(&directory), local, Arc::clone(connection));
    Ok((directory, RemoteProject::read(&remote, job)))
}
