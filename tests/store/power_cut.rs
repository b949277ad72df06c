//! A power cut at each step of a sync. Of what was written since the last sync, the disk has any blocks and not others, whatever
//! their order was: each cut is such a mixture, in a directory of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use polylogue::{AgentId, Store};

use super::*;
use crate::support::internals::store::SyncStep;

const FILES: [&str; 3] = ["polylogue.db", "polylogue.db-wal", "polylogue.checkpoint"];
/// What is written whole or not at all.
const BLOCK: usize = 512;
const LONG_LOG: u64 = 96 << 10;
const STEPS: usize = 50;
const CUTS: usize = 6;

/// The content of the files.
type Disk = [Vec<u8>; 3];

fn files(dir: &Path) -> Disk {
    FILES.map(|name| fs::read(dir.join(name)).unwrap_or_default())
}

/// A file of which an older content is on the disk, and any of the blocks that were written since.
fn torn(old: &[u8], new: &[u8], chance: &mut fastrand::Rng) -> Vec<u8> {
    let length = if chance.bool() { new.len() } else { old.len() };
    let mut file = vec![0; length];
    // Any blocks, or those before some point, or those after it.
    let (new_in_ten, point) = ([0, 1, 5, 9, 10][chance.usize(..5)], chance.usize(..=new.len() / BLOCK));
    let order = chance.usize(..3);
    for (at, block) in file.chunks_mut(BLOCK).enumerate() {
        let is_new = match order {
            0 => chance.usize(..10) < new_in_ten,
            1 => at < point,
            _ => at >= point,
        };
        let new = new.get(at * BLOCK..).filter(|_| is_new);
        let from = new.or(old.get(at * BLOCK..)).unwrap_or_default();
        let count = from.len().min(block.len());
        block[..count].copy_from_slice(&from[..count]);
    }
    file
}

/// The store opens, is sound, and has at least so many messages, in order.
fn check(disk: &Disk, agent: AgentId, acknowledged: usize) {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in FILES.iter().zip(disk).filter(|(_, content)| !content.is_empty()) {
        fs::write(dir.path().join(name), content).unwrap();
    }
    let numbers = |store: &Store| -> Vec<usize> {
        texts(store, agent).iter().map(|text| text.split(' ').next().unwrap().parse().unwrap()).collect()
    };
    // A reader comes first: it changes nothing and finds the same.
    let read = numbers(&Store::open_read_only(dir.path()).unwrap());
    let store = Store::open(dir.path()).unwrap();
    let found = numbers(&store);
    drop(store);
    assert_eq!(read, found);
    assert!(found.len() >= acknowledged, "{} of {acknowledged}", found.len());
    assert_eq!(found, (0..found.len()).collect::<Vec<_>>());
    let conn = rusqlite::Connection::open(dir.path().join(FILES[0])).unwrap();
    let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

struct Story {
    store: Store,
    agent: AgentId,
    /// Messages that were written, and those that are on the disk for certain.
    written: usize,
    acknowledged: usize,
    durable: Disk,
    /// The number of messages and the log as they were when the sync began that is under way.
    syncing: Option<(usize, Vec<u8>)>,
    /// Nothing was written since the guard was taken.
    is_whole: bool,
    chance: fastrand::Rng,
}

impl Story {
    fn write(&mut self) {
        let text = format!("{} {}", self.written, "x".repeat(self.chance.usize(100..9000)));
        append(&self.store, self.agent, &text);
        self.written += 1;
        self.is_whole = false;
        // Asks for it.
        let _ = self.store.wait_durable(Duration::ZERO);
    }

    /// The thread has come to this step and waits there: writes so many messages and cuts the power so often, then lets it do
    /// the step.
    fn on_step(&mut self, dir: &Path, step: SyncStep, writes: usize, cuts: usize) {
        if let Some((count, log)) = self.syncing.take() {
            (self.acknowledged, self.durable[1]) = (count, log);
        }
        let now = files(dir);
        if step == SyncStep::Mark && self.is_whole {
            self.durable[0].clone_from(&now[0]);
        }
        if matches!(step, SyncStep::Log | SyncStep::Guard) {
            self.durable[2].clone_from(&now[2]);
        }
        (0..writes).for_each(|_| self.write());
        let now = files(dir);
        for _ in 0..cuts {
            let [pages, log, mark] = [0, 1, 2].map(|at| torn(&self.durable[at], &now[at], &mut self.chance));
            check(&[pages, log, mark], self.agent, self.acknowledged);
        }
        if matches!(step, SyncStep::Log | SyncStep::Guard) {
            self.syncing = Some((self.written, fs::read(dir.join(FILES[1])).unwrap()));
            self.is_whole = true;
        }
    }
}

/// A story of one message, the steps of its thread, and what lets the thread do the step at which it waits.
fn story(dir: &Path) -> (Story, mpsc::Receiver<SyncStep>, mpsc::Sender<()>) {
    let agent = AgentId::random();
    Store::open(dir).unwrap().create_root(agent, None, None, 0).unwrap();
    let durable = files(dir);
    let (tell, steps) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let mut store = Store::open(dir).unwrap();
    store.on_sync(Some(LONG_LOG), move |step| {
        let _ = tell.send(step);
        // At the end nobody waits any more.
        let _ = gone.lock().unwrap().recv();
        Ok(())
    });
    store.sync_in_background(|| {}).unwrap();
    let chance = fastrand::Rng::with_seed(0x70_6f_77_65_72);
    let mut story =
        Story { store, agent, written: 0, acknowledged: 0, durable, syncing: None, is_whole: false, chance };
    story.write();
    (story, steps, go)
}

#[test]
fn nothing_that_was_acknowledged_is_lost_and_nothing_is_mixed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut story, steps, go) = story(dir.path());
    let (mut marks, mut headers) = (0, BTreeSet::new());
    for _ in 0..STEPS {
        let step = steps.recv().unwrap();
        let writes = if step == SyncStep::Log { 1 + story.chance.usize(..4) } else { story.chance.usize(..4) / 3 };
        story.on_step(dir.path(), step, writes, CUTS);
        marks += usize::from(step == SyncStep::Mark);
        headers.insert(fs::read(dir.path().join(FILES[1])).unwrap()[..32].to_vec());
        go.send(()).unwrap();
    }
    drop((go, steps));
    let restarts = headers.len() - 1;
    assert!(marks > 2 && restarts > 0, "{marks} checkpoints, {restarts} restarts of the log: too few");
}

/// Commits that restart the log, of which all is copied, just before the guard is there: what is copied then is of the log that
/// they began, and marked as such. The next commit restarts that one in turn.
#[test]
fn a_log_that_is_restarted_before_the_guard_is_marked_as_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut story, steps, go) = story(dir.path());
    let header = || fs::read(dir.path().join(FILES[1])).unwrap()[..32].to_vec();
    let next = |story: &mut Story, expected: SyncStep, writes: usize, cuts: usize| {
        assert_eq!(steps.recv().unwrap(), expected);
        story.on_step(dir.path(), expected, writes, cuts);
        let header = header();
        go.send(()).unwrap();
        header
    };
    // The messages that are written while the first is synced are copied with it, so nothing is left for the second sync.
    let first = next(&mut story, SyncStep::Log, 40, 0);
    for step in [SyncStep::Guard, SyncStep::Pages, SyncStep::Mark, SyncStep::Log] {
        assert_eq!(next(&mut story, step, 0, 0), first);
    }
    let second = next(&mut story, SyncStep::Guard, 4, CUTS);
    assert_ne!(second, first, "the log is restarted in between");
    assert_eq!(next(&mut story, SyncStep::Pages, 0, CUTS), second);
    assert_eq!(next(&mut story, SyncStep::Mark, 0, CUTS), second);
    assert_ne!(next(&mut story, SyncStep::Log, 3, 40 * CUTS), second, "the log is restarted again");
    drop((go, steps));
}
