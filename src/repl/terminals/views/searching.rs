//! A search of the store on a thread, with a connection of its own: a common word in a large store takes long.

use std::path::PathBuf;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::job::{Job, JobThread};
use crate::domain::search::SearchQuery;
use crate::repl::core::Core;
use crate::store::{SearchHit, Store};

/// Messages that are found at most; more words find fewer.
pub(super) const MOST: usize = 200;
/// Keys that need the result wait for it at most so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a search has found.
pub(super) struct Found {
    pub query: SearchQuery,
    pub hits: Vec<SearchHit>,
    /// Messages of an old database that are not indexed yet, if nothing was found.
    pub unindexed: i64,
}

/// A search that is under way.
pub(super) struct Searching {
    thread: JobThread<Result<Found>>,
    /// Until when keys wait.
    until: Moment,
}

impl Searching {
    /// Starts a search; `None` where there is no file to open again or no thread, and where a replay must be the same in every
    /// run.
    pub fn begin(core: &Core, query: &SearchQuery) -> Option<Self> {
        let directory = core.store().directory().filter(|_| core.config().replay.is_none())?.to_owned();
        let query = query.clone();
        let work = move |_: &Job| Ok(search_in(directory, query));
        let thread = JobThread::spawn("search".into(), work, core.waker()).ok()?;
        Some(Self { thread, until: core.now() + PATIENCE })
    }

    pub fn is_complete(&self) -> bool {
        self.thread.is_complete()
    }

    /// What was found, when the search is complete.
    pub fn collect(self) -> Result<Found> {
        let failed = |_| Err(Error::new(ErrorKind::Store, "the search has failed"));
        self.thread.collect().unwrap_or_else(failed)
    }

    /// Until when keys that need the result wait for it.
    pub fn until(&self) -> Moment {
        self.until
    }
}

fn search_in(directory: PathBuf, query: SearchQuery) -> Result<Found> {
    search(&Store::open_again(&directory)?, query)
}

pub(super) fn search(store: &Store, query: SearchQuery) -> Result<Found> {
    let hits = store.search(&query, MOST)?;
    let unindexed = if hits.is_empty() { store.unindexed()? } else { 0 };
    Ok(Found { query, hits, unindexed })
}
