//! A disk of which everything is recorded that processes do to it, and what it may hold after a power cut.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// What is written whole or not at all.
const BLOCK: usize = 512;
/// In the library that records, seven numbers begin each record.
const NUMBERS: usize = 7;

/// A data directory of processes that are recorded.
pub struct RecordedDisk {
    outer: TempDir,
}

impl RecordedDisk {
    pub fn new() -> Self {
        let outer = TempDir::new().expect("a directory");
        fs::create_dir(outer.path().join("data")).expect("a new directory");
        fs::write(outer.path().join("records"), "").expect("a new file");
        Self { outer }
    }

    pub fn directory(&self) -> PathBuf {
        self.outer.path().join("data")
    }

    /// Has the process recorded. A sync takes up to so many microseconds, and the one of this number of this file fails.
    pub fn record(&self, command: &mut Command, delay: u32, fault: Option<(&str, usize)>) {
        command.env("LD_PRELOAD", library()).env("RECORDED_DELAY", delay.to_string());
        command.env("RECORDED_DIRECTORY", self.directory()).env("RECORDED_IN", self.outer.path().join("records"));
        if let Some((name, number)) = fault {
            command.env("RECORDED_FAULT", format!("{name} {number}"));
        }
    }

    pub fn records(&self) -> Vec<Record> {
        let bytes = fs::read(self.outer.path().join("records")).expect("records");
        let (mut rest, mut records) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let (numbers, behind) = rest.split_at(NUMBERS * 8);
            let number = |at: usize| u64::from_ne_bytes(numbers[at * 8..][..8].try_into().expect("eight bytes"));
            let [kind, thread, sync, inode, at, length, name_length] = [0, 1, 2, 3, 4, 5, 6].map(number);
            let (name, behind) = behind.split_at(name_length as usize);
            let (data, behind) = behind.split_at(if kind == 1 { length as usize } else { 0 });
            rest = behind;
            let what = match kind {
                1 => What::Write { at: at as usize, data: data.to_vec() },
                2 => What::Truncate(length as usize),
                3 => What::SyncBegins(sync),
                4 => What::SyncEnds(sync),
                5 => What::SyncFails,
                _ => What::Unlink,
            };
            records.push(Record { name: String::from_utf8_lossy(name).into_owned(), thread, inode, what });
        }
        records
    }
}

/// The library that records, built once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LIBRARY.get_or_init(|| {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("recorded_disk.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/recorded_disk.c");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
        let built = compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&path).arg(source).status();
        assert!(built.expect("a C compiler, as SQLite needs one").success());
        (directory, path)
    });
    path
}

pub struct Record {
    /// The file in the directory; `.` for that itself.
    pub name: String,
    /// Which thread, of which process, did it.
    pub thread: u64,
    inode: u64,
    pub what: What,
}

#[derive(Clone)]
pub enum What {
    Write {
        at: usize,
        data: Vec<u8>,
    },
    Truncate(usize),
    SyncBegins(u64),
    SyncEnds(u64),
    /// What was written before is taken for stored, and may be or not.
    SyncFails,
    Unlink,
}

/// A file, whatever its name.
#[derive(Default)]
struct Content {
    durable: Vec<u8>,
    /// Writes and truncations since then.
    pending: Vec<What>,
    /// Those that were applied to `durable`.
    applied: usize,
}

impl Content {
    /// Of the pending changes, those before this one, counted from the first ever, are durable.
    fn on_synced(&mut self, until: usize) {
        let count = until.saturating_sub(self.applied);
        self.pending.drain(..count).for_each(|change| apply(&mut self.durable, &change));
        self.applied += count;
    }

    /// What may be on the disk: of each block any version since the last sync, and any of the lengths.
    fn torn(&self, chance: &mut fastrand::Rng) -> Vec<u8> {
        let mut versions = vec![self.durable.clone()];
        let mut cuts: Vec<usize> = (0..chance.usize(..3)).map(|_| chance.usize(..=self.pending.len())).collect();
        cuts.push(self.pending.len());
        cuts.sort_unstable();
        let mut done = 0;
        for cut in cuts {
            let mut version = versions[versions.len() - 1].clone();
            self.pending[done..cut].iter().for_each(|change| apply(&mut version, change));
            versions.push(version);
            done = cut;
        }
        let mut file = vec![0; versions[chance.usize(..versions.len())].len()];
        // Any blocks, or those before some point, or those after it.
        let (order, new_in_ten) = (chance.usize(..3), [0, 1, 5, 9, 10][chance.usize(..5)]);
        let point = chance.usize(..=file.len() / BLOCK);
        let (one, other) = (chance.usize(..versions.len()), chance.usize(..versions.len()));
        for (at, block) in file.chunks_mut(BLOCK).enumerate() {
            let version = match order {
                0 if chance.usize(..10) < new_in_ten => chance.usize(..versions.len()),
                0 => 0,
                1 if at < point => one,
                1 => other,
                _ if at >= point => versions.len() - 1,
                _ => 0,
            };
            // What was cut off is as it was: a file system writes nothing for that but the length.
            let from =
                versions[..=version].iter().rev().find_map(|version| version.get(at * BLOCK..)).unwrap_or_default();
            let count = from.len().min(block.len());
            block[..count].copy_from_slice(&from[..count]);
        }
        file
    }
}

fn apply(file: &mut Vec<u8>, change: &What) {
    match change {
        What::Write { at, data } => {
            file.resize(file.len().max(at + data.len()), 0);
            file[*at..at + data.len()].copy_from_slice(data);
        }
        What::Truncate(length) => file.resize(*length, 0),
        _ => {}
    }
}

/// The files as they are, and what of them is on the disk for certain.
#[derive(Default)]
pub struct Replayed {
    contents: Vec<Content>,
    /// The content of each inode that has a name.
    live: HashMap<u64, usize>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// For each sync under way: the changes of the content before it, and the names then.
    syncing: HashMap<u64, (usize, BTreeMap<String, usize>)>,
}

impl Replayed {
    pub fn replay(&mut self, record: &Record, chance: &mut fastrand::Rng) {
        if record.name.ends_with(" (deleted)") {
            return;
        }
        let contents = &mut self.contents;
        let content = *self.live.entry(record.inode).or_insert_with(|| {
            contents.push(Content::default());
            contents.len() - 1
        });
        if record.name != "." {
            self.names.insert(record.name.clone(), content);
        }
        let file = &mut self.contents[content];
        match &record.what {
            What::Write { .. } | What::Truncate(_) => file.pending.push(record.what.clone()),
            What::SyncBegins(sync) => {
                self.syncing.insert(*sync, (file.applied + file.pending.len(), self.names.clone()));
            }
            What::SyncEnds(sync) => {
                let (until, names) = self.syncing.remove(sync).expect("it has begun");
                file.on_synced(until);
                if record.name == "." {
                    self.durable_names = names;
                }
            }
            What::SyncFails => {
                file.durable = file.torn(chance);
                file.applied += file.pending.len();
                file.pending.clear();
            }
            What::Unlink => {
                self.names.remove(&record.name);
                self.live.remove(&record.inode);
            }
        }
    }

    /// Writes what may be on the disk after a power cut now.
    pub fn cut_power(&self, directory: &Path, chance: &mut fastrand::Rng) {
        let names: BTreeSet<&String> = self.names.keys().chain(self.durable_names.keys()).collect();
        for name in names {
            let which = if chance.bool() { &self.names } else { &self.durable_names };
            if let Some(content) = which.get(name) {
                fs::write(directory.join(name), self.contents[*content].torn(chance)).expect("a file");
            }
        }
    }
}
