//! `/export` on a thread, which reads the log with a connection of its own.

use std::collections::VecDeque;
use std::io::ErrorKind as IoError;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result, system_message};
use crate::base::file;
use crate::base::id::AgentId;
use crate::base::text::counted;
use crate::commands::{ExportLog, ExportSubject};
use crate::domain::change::ExportFormat;
use crate::domain::flow::Origin;
use crate::repl::core::{Core, agent_gone};
use crate::repl::jobs::Jobs;
use crate::repl::jobs::landing::report;
use crate::repl::jobs::tasks::Kind;
use crate::store::Store;
use crate::tools::Job;

impl Jobs {
    /// Writes a conversation to a file. A new one can be read by the user alone.
    pub(super) fn export(
        &mut self,
        core: &mut Core,
        origin: Origin,
        agent_id: AgentId,
        path: PathBuf,
        (format, replaces): (ExportFormat, bool),
    ) -> Result<()> {
        let agent = core.agent(agent_id).ok_or_else(agent_gone)?;
        let subject = ExportSubject::of(agent);
        let file = agent.inputs.environment.working_directory.join(&path);
        let (line, unix_ms) = (format!("/export {} {}", format.name(), path.display()), core.clock().unix_ms());
        let has_forks = format == ExportFormat::Atif;
        let source = match core.store().directory().map(Path::to_owned) {
            Some(directory) => Source::Stored(directory, subject),
            None => Source::Read(read(core.store(), subject, has_forks)?),
        };
        let work = move |_: &Job| {
            let logs = match source {
                Source::Stored(directory, subject) => {
                    Store::open_again(&directory).and_then(|store| read(&store, subject, has_forks))
                }
                Source::Read(logs) => Ok(logs),
            };
            let (log, forks) = logs.map_err(|error| error.message)?;
            let text = log.text(&forks, format, unix_ms).map_err(|error| error.message)?;
            write(&file, &text, replaces).map_err(|error| error.message)?;
            Ok(format!("exported {} to {}", counted(log.messages.len(), "message", "messages"), path.display()))
        };
        self.tasks.spawn(core, (Kind::Export, agent_id, None), work, move |_, core, outcome| {
            report(core, origin, agent_id, &line, outcome.map_err(Error::usage));
        })
    }
}

/// Where the logs come from. A store without a directory is in memory, and read by the loop.
enum Source {
    Stored(PathBuf, ExportSubject),
    Read(Logs),
}

/// The log of an agent, and those of its descendants.
type Logs = (ExportLog, Vec<ExportLog>);

/// The log of an agent, and those of its descendants, if they are wanted.
fn read(store: &Store, subject: ExportSubject, has_forks: bool) -> Result<Logs> {
    let read_log = |subject: ExportSubject| -> Result<ExportLog> {
        let (messages, damaged) = store.full_log(subject.id)?;
        Ok(ExportLog { subject, messages, damaged })
    };
    let log = read_log(subject)?;
    let mut forks = Vec::new();
    let mut wanted: VecDeque<AgentId> = if has_forks { log.forks().collect() } else { VecDeque::new() };
    while let Some(id) = wanted.pop_front() {
        // Agents that have been deleted are skipped.
        let Some(row) = store.agent(id)? else { continue };
        let fork = read_log(ExportSubject::of_fork(&row))?;
        wanted.extend(fork.forks());
        forks.push(fork);
    }
    Ok((log, forks))
}

fn write(path: &Path, text: &str, replaces: bool) -> Result<()> {
    let write = if replaces { file::replace } else { file::create_private };
    write(path, text.as_bytes()).map_err(|error| match error.kind() {
        IoError::AlreadyExists => Error::usage(format!("{} exists: choose another file", path.display())),
        _ => Error::usage(format!("cannot write {}: {}", path.display(), system_message(&error))),
    })
}
