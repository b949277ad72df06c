//! A search of the store on a thread, with a connection of its own: a common word in a large store takes long.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
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
    found: Receiver<Result<Found>>,
    /// Until when keys wait.
    until: Moment,
}

impl Searching {
    /// Starts a search; `None` where there is no file to open again or no thread, and where a replay must be the same in every
    /// run.
    pub fn begin(core: &Core, query: &SearchQuery) -> Option<Self> {
        let directory = core.store.directory().filter(|_| core.config.replay.is_none())?.to_owned();
        let (sender, found) = mpsc::channel();
        let (wake, query) = (Arc::clone(&core.waker), query.clone());
        let work = move || {
            // The view may have been closed.
            drop(sender.send(search_in(directory, query)));
            wake();
        };
        std::thread::Builder::new().name("search".into()).spawn(work).ok()?;
        Some(Self { found, until: core.clock.now() + PATIENCE })
    }

    /// What was found, when the search has ended.
    pub fn take(&self) -> Option<Result<Found>> {
        match self.found.try_recv() {
            Ok(found) => Some(found),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Error::new(ErrorKind::Store, "the search has failed"))),
        }
    }

    /// Until when keys that need the result wait for it.
    pub fn until(&self) -> Moment {
        self.until
    }
}

fn search_in(directory: PathBuf, query: SearchQuery) -> Result<Found> {
    search(&Store::open_again(&directory)?, query)
}

/// # Errors
/// The store cannot be read.
pub(super) fn search(store: &Store, query: SearchQuery) -> Result<Found> {
    let hits = store.search(&query, MOST)?;
    let unindexed = if hits.is_empty() { store.unindexed()? } else { 0 };
    Ok(Found { query, hits, unindexed })
}
