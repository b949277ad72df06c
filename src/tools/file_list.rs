//! Lists the files of a directory tree in a thread, for a person who picks one: names arrive in batches.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::walk::{WalkRoot, is_directory};
use super::{Environment, visible};
use crate::base::error::Result;
use crate::base::job::{Job, JobThread};

/// More files are not listed.
const MOST_FILES: usize = 200_000;
/// The walk ends after this time.
const MOST_TIME: Duration = Duration::from_secs(2);
const BATCH: usize = 2_000;

/// Names of files, relative to the directory, as far as they were found.
#[derive(Debug, Default)]
pub struct FileNames {
    /// All names, one after the other.
    text: String,
    /// Where each name ends in `text`.
    ends: Vec<usize>,
}

impl FileNames {
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    fn append(&mut self, batch: &mut Self) {
        let start = self.text.len();
        self.text.push_str(&batch.text);
        self.ends.extend(batch.ends.drain(..).map(|end| start + end));
        batch.text.clear();
    }
}

/// A list on its way. Dropping it ends the walk.
pub struct FileList {
    names: Arc<Mutex<FileNames>>,
    walk: JobThread<()>,
}

impl FileList {
    /// Starts a walk of the working directory. Ignored files and what tools never open are left out. `wake` is called after
    /// each batch.
    pub fn start(env: &Arc<Environment>, wake: Arc<dyn Fn() + Send + Sync>) -> Result<Self> {
        let names: Arc<Mutex<FileNames>> = Arc::default();
        let (found, env, wake_each) = (Arc::clone(&names), Arc::clone(env), Arc::clone(&wake));
        let work = move |job: &Job| {
            walk(&env, job, |batch| {
                found.lock().unwrap_or_else(PoisonError::into_inner).append(batch);
                wake_each();
            });
            Ok(())
        };
        let walk = JobThread::spawn("file list".into(), work, wake);
        Ok(Self { names, walk: walk.map_err(|error| error.context("cannot list files"))? })
    }

    /// Whether all names were found.
    pub fn is_complete(&self) -> bool {
        self.walk.is_complete()
    }

    /// Calls `f` with the names found so far.
    pub fn with<T>(&self, f: impl FnOnce(&FileNames) -> T) -> T {
        f(&self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn walk(env: &Environment, job: &Job, mut deliver: impl FnMut(&mut FileNames)) {
    let (start, mut batch, mut count) = (Instant::now(), FileNames::default(), 0);
    let Ok(root) = env.working_directory.canonicalize() else { return };
    let Ok(files) = WalkRoot::new(".", &root, env, None) else { return };
    files.ignoring_everywhere().walk(job, |entry| {
        if count == MOST_FILES || start.elapsed() > MOST_TIME {
            return ControlFlow::Break(());
        }
        if !is_directory(entry) {
            count += 1;
            let path = entry.path().strip_prefix(&root).unwrap_or(entry.path());
            batch.push(&visible(&path.to_string_lossy()));
        }
        if batch.count() == BATCH {
            deliver(&mut batch);
        }
        ControlFlow::Continue(())
    });
    deliver(&mut batch);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn files_are_listed_without_ignored_and_private_ones_also_outside_of_a_repository() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [
            (".gitignore", "target\n*.log\n"),
            ("src/main.rs", ""),
            ("target/out", ""),
            ("a.log", ""),
            (".git/config", ""),
            (".github/ci.yml", ""),
        ] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (sender, receiver) = mpsc::channel();
        let env = Arc::new(Environment::at(directory.path().into()));
        let list = FileList::start(&env, Arc::new(move || sender.send(()).unwrap_or_default())).unwrap();
        // The channel closes when the walk has ended.
        while receiver.recv().is_ok() {}
        let mut names =
            list.with(|names| (0..names.count()).map(|n| names.get(n).unwrap().to_owned()).collect::<Vec<_>>());
        names.sort();
        assert_eq!(names, [".github/ci.yml", ".gitignore", "src/main.rs"]);
    }
}
