//! A power cut at any moment: while messages are stored and acknowledged, while the log is copied and restarted, after a sync
//! has failed, while the store is opened again, and with another program beside. Of what was written since the last sync of a
//! file, the disk has any blocks and not others, whatever their order was.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use polylogue::{AgentId, Store};
use rusqlite::Connection;

use crate::support::PATIENCE;
use crate::support::internals::Body;
use crate::support::recorded_disk::{Record, RecordedDisk, Replayed, What};
use crate::support::size::stride;

/// In the environment of a recorded process: what it does, a seed, the agent and the directory.
const STORY: &str = "POLYLOGUE_TEST_RECORDED";
const LONG_LOG: u64 = 48 << 10;
const MESSAGES: usize = 60;
/// The file to which the number of acknowledged messages is written.
const ACKNOWLEDGED: &str = "acknowledged";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    InOrder,
    /// As a run of `-p` ends.
    LeavesLog,
    Killed,
    /// Killed; its agents were never idle.
    KilledAtWork,
}

fn texts(store: &Store, agent: AgentId) -> Vec<usize> {
    let (messages, damaged) = store.replay(agent).expect("a log");
    assert_eq!(damaged, Vec::<String>::new());
    let text = |body: &Body| if let Body::User(text) = body { text.split(' ').next()?.parse().ok() } else { None };
    messages.iter().filter_map(|message| text(&message.body)).collect()
}

/// Not a test: the process that is recorded.
#[test]
fn run_recorded() {
    let Ok(story) = std::env::var(STORY) else { return };
    let [what, seed, agent, directory] = story.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{story}") };
    let chance = fastrand::Rng::with_seed(seed.parse().expect("a number"));
    let directory = Path::new(directory);
    let agent = agent.parse().expect("an id");
    match what {
        "Foreign" => use_otherwise(directory, chance),
        "InOrder" => store_messages(directory, agent, chance, End::InOrder),
        "LeavesLog" => store_messages(directory, agent, chance, End::LeavesLog),
        "KilledAtWork" => store_messages(directory, agent, chance, End::KilledAtWork),
        _ => store_messages(directory, agent, chance, End::Killed),
    }
}

fn store_messages(directory: &Path, agent: AgentId, mut chance: fastrand::Rng, end: End) {
    let mut acknowledged: File =
        OpenOptions::new().append(true).create(true).open(directory.join(ACKNOWLEDGED)).expect("a file");
    let mut store = open(directory);
    if store.load_agents().expect("a registry").agents.is_empty() {
        store.create_root(agent, None, None, 0).expect("a new store");
    }
    store.on_sync(Some(LONG_LOG), |_| Ok(()));
    store.sync_in_background(|| {}).expect("a log");
    let mut count = texts(&store, agent).len();
    for _ in 0..MESSAGES {
        let text = format!("{count} {}", "x".repeat(chance.usize(100..9000)));
        // It fails as well while another program holds the database.
        count += usize::from(store.append(agent, vec![Body::User(text)], 2).is_ok());
        store.sync_soon(end != End::KilledAtWork && chance.bool());
        if chance.usize(..3) == 0 && store.wait_durable(PATIENCE).is_ok() {
            acknowledged.write_all(format!("{count}\n").as_bytes()).expect("a write");
        }
        if chance.usize(..10) == 0 {
            std::thread::sleep(Duration::from_millis(chance.u64(..250)));
        }
    }
    match end {
        End::InOrder => {}
        End::LeavesLog => store.leave_log(),
        End::Killed | End::KilledAtWork => acknowledged.write_all(b"end").expect("the process has ended"),
    }
}

/// Another program may hold the database for longer than a statement waits.
fn open(directory: &Path) -> Store {
    loop {
        match Store::open(directory) {
            Ok(store) => return store,
            Err(error) => assert!(error.message.contains("locked by another program"), "{error}"),
        }
    }
}

/// Another program of SQLite: reads, writes and copies the log, in any mode.
fn use_otherwise(directory: &Path, mut chance: fastrand::Rng) {
    for round in 0..10 {
        let conn = Connection::open(directory.join("polylogue.db")).expect("a database");
        conn.busy_timeout(PATIENCE).expect("a setting");
        let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).expect("a schema");
        let mode = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][chance.usize(..4)];
        match chance.usize(..3) {
            0 if tables > 0 => {
                conn.execute("INSERT OR REPLACE INTO meta VALUES ('foreign', ?1)", [round]).expect("a write");
            }
            1 => conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).expect("a copy"),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(chance.u64(..30)));
    }
}

/// A story of a store, in several processes one after the other.
struct Story {
    disk: RecordedDisk,
    agent: AgentId,
    seed: u64,
}

impl Story {
    fn new(seed: u64) -> Self {
        Self { disk: RecordedDisk::new(), agent: AgentId::random(), seed }
    }

    fn command(&self, what: &str, fault: Option<(&str, usize)>) -> Command {
        let mut copy = Command::new(std::env::current_exe().expect("the path of this binary"));
        copy.args(["--exact", "faults::power_cut::run_recorded", "--nocapture", "--test-threads=1"]);
        copy.env(STORY, format!("{what} {} {} {}", self.seed, self.agent, self.disk.directory().display()));
        self.disk.record(&mut copy, if self.seed.is_multiple_of(2) { 6000 } else { 300 }, fault);
        copy
    }

    fn run(&mut self, end: End, fault: Option<(&str, usize)>) {
        self.seed += 1000;
        let output = crate::support::output(&mut self.command(&format!("{end:?}"), fault));
        // A store that cannot be created because of the fault fails the process.
        let is_refused = fault.is_some() && !said_by(&output).contains("panicked at src");
        let is_killed = matches!(end, End::Killed | End::KilledAtWork);
        assert!(output.status.success() || is_killed || is_refused, "{}", said_by(&output));
    }

    fn use_otherwise(&mut self) {
        self.seed += 1000;
        let output = crate::support::output(&mut self.command("Foreign", None));
        assert!(output.status.success(), "{}", said_by(&output));
    }

    /// Cuts the power at places so far apart.
    fn check(&self, distance: usize) {
        let mut chance = fastrand::Rng::with_seed(self.seed);
        let (mut replayed, mut acknowledged, mut is_begun) = (Replayed::default(), 0, false);
        let (mut cuts, mut syncs) = (0, 0);
        for (at, record) in self.disk.records().iter().enumerate() {
            if let Some(count) = acknowledged_in(record) {
                (acknowledged, is_begun) = (count, true);
                continue;
            }
            replayed.replay(record, &mut chance);
            syncs += usize::from(matches!(record.what, What::SyncEnds(_)));
            // Before the first acknowledgement there may be no database.
            if is_begun && chance.usize(..distance) == 0 {
                let directory = tempfile::tempdir().expect("a directory");
                replayed.cut_power(directory.path(), &mut chance);
                let lock = if chance.bool() { "" } else { "1234\n" };
                std::fs::write(directory.path().join("polylogue.lock"), lock).expect("a file");
                let what = format!("seed {}, record {at}", self.seed);
                check(directory.path(), self.agent, acknowledged, chance.usize(..3), &what);
                cuts += 1;
            }
        }
        assert!(cuts > 3 && syncs > 10 && acknowledged > 0, "{cuts} cuts, {syncs} syncs, {acknowledged} messages");
    }
}

fn said_by(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn acknowledged_in(record: &Record) -> Option<usize> {
    let What::Write { data, .. } = &record.what else { return None };
    if record.name != ACKNOWLEDGED {
        return None;
    }
    Some(String::from_utf8_lossy(data).trim().parse().expect("a number"))
}

/// The store opens, is sound, and has at least so many messages, in order, whoever comes first: a reader, another program, or
/// nobody else.
fn check(directory: &Path, agent: AgentId, acknowledged: usize, first: usize, what: &str) {
    let is_sound = || {
        let conn = Connection::open(directory.join("polylogue.db")).expect("a database");
        let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
        assert_eq!(sound, "ok", "{what}");
    };
    let read = (first == 0).then(|| texts(&Store::open_read_only(directory).expect("a store"), agent));
    if first == 1 {
        is_sound();
    }
    let found = texts(&Store::open(directory).unwrap_or_else(|error| panic!("{what}: {error}")), agent);
    assert!(found.len() >= acknowledged, "{what}: {} of {acknowledged}", found.len());
    assert_eq!(found, (0..found.len()).collect::<Vec<_>>(), "{what}");
    assert!(read.is_none_or(|read| read == found), "{what}: a reader has found something else");
    is_sound();
}

/// So many places are between two cuts.
fn distance() -> usize {
    stride(60).max(5)
}

#[test]
fn nothing_that_was_acknowledged_is_lost_and_nothing_is_mixed() {
    for seed in (0..8).step_by(stride(8)) {
        let mut story = Story::new(seed);
        for end in [End::InOrder, End::LeavesLog, End::Killed, End::LeavesLog] {
            story.run(end, None);
        }
        story.check(distance());
    }
}

#[test]
fn what_is_acknowledged_after_a_failed_sync_and_a_new_start_is_not_lost() {
    for (seed, number) in (1..20).step_by(stride(9)).enumerate() {
        for name in ["polylogue.db-wal", "polylogue.db"] {
            let mut story = Story::new(seed as u64);
            story.run([End::InOrder, End::LeavesLog, End::Killed][number % 3], Some((name, number)));
            story.run(End::LeavesLog, None);
            story.check(distance());
        }
    }
}

#[test]
fn another_program_may_come_before_and_between_and_beside() {
    for seed in (0..6).step_by(stride(6)) {
        let mut story = Story::new(seed);
        story.use_otherwise();
        story.run(End::LeavesLog, None);
        story.use_otherwise();
        let mut other = story.command("Foreign", None).stdout(std::process::Stdio::null()).spawn().expect("a process");
        story.run(End::Killed, None);
        assert!(other.wait().expect("a process").success());
        story.run(End::InOrder, None);
        story.check(distance());
    }
}

#[test]
fn the_thread_of_the_loop_syncs_nothing_but_the_header_of_a_log_that_it_restarts() {
    let restarts = [End::Killed, End::KilledAtWork].map(|end| {
        let mut story = Story::new(0);
        story.run(end, None);
        let records = story.disk.records();
        let first = records.iter().position(|record| acknowledged_in(record).is_some()).expect("an acknowledgement");
        let records = records[first..].iter().filter(|record| record.thread == records[first].thread);
        let (mut restarts, mut is_restart) = (0, false);
        for record in records {
            match &record.what {
                What::Write { at: 0, data } if record.name == "polylogue.db-wal" => is_restart = data.len() == 32,
                What::SyncBegins(_) => {
                    assert!(is_restart, "a sync of {}", record.name);
                    (restarts, is_restart) = (restarts + 1, false);
                }
                What::Write { .. } => is_restart = false,
                _ => {}
            }
        }
        restarts
    });
    // When no agent works, a log that is copied completely is restarted by the next message.
    assert!(restarts[1] < 4, "{restarts:?} restarts of a log that is seldom copied to its end");
}
