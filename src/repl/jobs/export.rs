//! `/export` on a thread, which reads the log with a connection of its own.

use std::io::ErrorKind as IoError;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result, system_message};
use crate::base::file;
use crate::base::id::AgentId;
use crate::base::text::counted;
use crate::commands::ExportSubject;
use crate::domain::flow::Origin;
use crate::domain::message::Message;
use crate::repl::core::{Core, agent_gone};
use crate::repl::jobs::Jobs;
use crate::repl::jobs::landing::report;
use crate::repl::jobs::tasks::Kind;
use crate::store::Store;
use crate::tools::Job;

/// A log, and which parts of it could not be read.
type Log = (Vec<Message>, Vec<String>);

impl Jobs {
    /// Writes a conversation to a new file that only the user can read.
    pub(super) fn export(
        &mut self,
        core: &mut Core,
        origin: Origin,
        agent_id: AgentId,
        path: PathBuf,
        is_json: bool,
    ) -> Result<()> {
        let agent = core.agent(agent_id).ok_or_else(agent_gone)?;
        let subject = ExportSubject::of(agent, core.clock().unix_ms());
        let file = agent.inputs.environment.working_directory.join(&path);
        let line = format!("/export {} {}", if is_json { "json" } else { "md" }, path.display());
        let directory = core.store().directory().map(Path::to_owned);
        // A store without a file is in memory.
        let known = if directory.is_none() { Some(core.store().full_log(agent_id)?) } else { None };
        let work = move |_: &Job| {
            let read = || -> Result<Log> { known.map_or_else(|| read_again(directory.as_deref(), agent_id), Ok) };
            let (messages, damaged) = read().map_err(|error| error.message)?;
            write(&file, &subject.text(&messages, &damaged, is_json)).map_err(|error| error.message)?;
            Ok(format!("exported {} to {}", counted(messages.len(), "message", "messages"), path.display()))
        };
        self.tasks.spawn(core, (Kind::Export, agent_id, None), work, move |_, core, outcome| {
            report(core, origin, agent_id, &line, outcome.map_err(Error::usage));
        })
    }
}

fn read_again(directory: Option<&Path>, agent: AgentId) -> Result<Log> {
    let directory = directory.ok_or_else(|| Error::usage("the store cannot be read again"))?;
    Store::open_again(directory)?.full_log(agent)
}

fn write(path: &Path, text: &str) -> Result<()> {
    file::create_private(path, text.as_bytes()).map_err(|error| match error.kind() {
        IoError::AlreadyExists => Error::usage(format!("{} exists: choose another file", path.display())),
        _ => Error::usage(format!("cannot write {}: {}", path.display(), system_message(&error))),
    })
}
