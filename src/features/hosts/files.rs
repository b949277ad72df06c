//! What a host changes in a turn: the working tree is compared before and after it, as for a command, so that the turn can be
//! undone and others hear of it. Protected files are looked at as well.

use std::sync::{Arc, Mutex, PoisonError};

use super::Key;
use crate::base::id::{AgentId, MessageId};
use crate::base::job::{Job, JobThread};
use crate::domain::file_change::FileStep;
use crate::domain::scrollback::LineKind;
use crate::repl::core::{Core, file_steps};
use crate::sandbox::Watch;
use crate::tools::snapshots::Watched;
use crate::tools::{Environment, protected_changes};

/// What happens to protected files.
pub(super) type SharedWatch = Arc<Mutex<Watch>>;

/// The files before a turn.
pub(super) struct TurnFiles {
    agent: AgentId,
    /// The message that began the turn, once it has begun.
    pub(super) message: Option<MessageId>,
    host: String,
    environment: Arc<Environment>,
    /// The working tree before the turn; `None` if nothing is compared.
    before: Option<JobThread<Option<Watched>>>,
}

/// How a turn has ended.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The host was not asked.
    NotBegun,
    Over {
        /// The host has made calls that may change files.
        may_have_changed: bool,
        /// The person waits for the end of the program.
        is_at_exit: bool,
    },
}

/// A comparison on a thread.
pub(super) struct Comparison {
    agent: AgentId,
    message: Option<MessageId>,
    /// The changes, and what the person should know.
    thread: JobThread<(Option<FileStep>, Vec<String>)>,
}

/// The files of a turn that no agent waits for.
pub(super) enum LeftFiles {
    /// Its host may still change them.
    Stopping(TurnFiles, End, Option<SharedWatch>),
    Comparing(Comparison),
}

impl LeftFiles {
    pub(super) const fn agent(&self) -> AgentId {
        match self {
            Self::Stopping(files, ..) => files.agent,
            Self::Comparing(comparison) => comparison.agent,
        }
    }

    /// Compares the files once the host has stopped, and stores the changes; `None` after that.
    pub(super) fn go_on(self, core: &mut Core, has_stopped: bool) -> Option<Self> {
        match self {
            Self::Stopping(files, end, watch) if has_stopped => files.compare(core, end, watch).map(Self::Comparing),
            Self::Comparing(comparison) if comparison.is_complete() => {
                comparison.keep(core);
                None
            }
            waiting => Some(waiting),
        }
    }
}

impl TurnFiles {
    /// Begins to record the working tree, if the host can change it.
    pub(super) fn record(core: &Core, id: AgentId, key: &Key) -> Option<Self> {
        let environment = core.agent(id)?.environment_of_call("");
        let can_write = key.may_write || !environment.is_sandboxed();
        let before = (can_write && environment.recorder.is_some()).then(|| {
            let (name, environment) = (key.host.name.clone(), Arc::clone(&environment));
            let work = move |job: &Job| Ok(Watched::begin(&name, &environment, job));
            JobThread::spawn("host files".into(), work, core.waker())
        });
        let before = before.transpose().ok()?;
        Some(Self { agent: id, message: None, host: key.host.name.clone(), environment, before })
    }

    /// Whether the host may begin.
    pub(super) fn is_recorded(&self) -> bool {
        self.before.as_ref().is_none_or(JobThread::is_complete)
    }

    /// Begins to compare. `watch` looks at protected files. `None` if there is nothing to compare.
    pub(super) fn compare(self, core: &Core, end: End, watch: Option<SharedWatch>) -> Option<Comparison> {
        let Self { agent, message, host, environment, before } = self;
        let watch = watch.filter(|_| !matches!(end, End::NotBegun));
        if before.is_none() && watch.is_none() {
            return None;
        }
        let work = move |_: &Job| {
            let watched = before.and_then(|mut thread| {
                thread.cancel();
                thread.wait();
                thread.take()?.ok()?
            });
            let step = watched.and_then(|watched| match end {
                End::NotBegun => {
                    watched.forget();
                    None
                }
                End::Over { may_have_changed, is_at_exit } => {
                    watched.finish(&environment, may_have_changed, is_at_exit)
                }
            });
            let looked = watch.map(|watch| watch.lock().unwrap_or_else(PoisonError::into_inner).changes());
            let notes = protected_changes(&host, &looked.unwrap_or_default(), &environment.output_directory).1;
            Ok((step, notes))
        };
        let thread = JobThread::spawn("host files".into(), work, core.waker()).ok()?;
        Some(Comparison { agent, message, thread })
    }
}

impl Comparison {
    pub(super) fn is_complete(&self) -> bool {
        self.thread.is_complete()
    }

    /// Stores the changes. To be called once it is complete.
    pub(super) fn keep(self, core: &mut Core) {
        let (step, notes) = self.thread.collect().unwrap_or_default();
        notes.iter().for_each(|note| core.note(self.agent, LineKind::Error, note));
        if let Some(step) = step {
            file_steps::keep_step(core, &step, self.message);
        }
    }
}
