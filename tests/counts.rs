//! What a start costs, in numbers that do not depend on how busy a machine is: `fixtures/counts.tsv` has the last ones.
//!
//! `make counts` prints those of the release build. A commit that makes one larger says why.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::Patience;
use crate::support::openai::{event, finish, text};
use crate::support::peer::Peer;
use crate::support::program::{Home, PROGRAM};
use crate::support::pty::Pty;
use crate::support::tracer::{Counts, STOPPED, Tracer};

/// Names another build of the program, of which everything is compared.
const OTHER_BUILD: &str = "POLYLOGUE_TEST_PROGRAM";

/// A twentieth depends on the machine: libraries are found in another order, and bytes arrive in other pieces.
const TOLERANCE: u64 = 20;
/// In the suite, on a machine that other tests keep busy, loops go round more often.
const TOLERANCE_OF_SUITE: u64 = 4;

struct Scene {
    home: Home,
    program: String,
}

impl Scene {
    /// At a depth that is the same everywhere: each directory above is looked up.
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/tmp").expect("a directory");
        let program = std::env::var(OTHER_BUILD).unwrap_or_else(|_| PROGRAM.to_owned());
        Self { home: Home { directory, variables: Vec::new() }, program }
    }

    /// What a run does, whose request a server answers.
    fn counts(&self, args: &[&str], server: Option<&Peer>) -> Option<Counts> {
        let args = [&["-c", STOPPED, &self.program], args].concat();
        let mut child = self.home.command("sh", &args).spawn().expect("a shell");
        let Some(tracer) = Tracer::start(child.id()) else {
            let _ = child.kill().and_then(|()| child.wait());
            return None;
        };
        if let Some(exchange) = server.map(Peer::accept) {
            let reply = [text("fine"), finish("stop")].map(|data| event(&data)).concat();
            exchange.answer(200, "text/event-stream", reply + "data: [DONE]\n\n");
        }
        let counts = tracer.counts_at_end();
        // The tracer may have been told of its end first.
        let _ = child.wait();
        Some(counts)
    }

    /// What a chat does until its prompt is there, and for one short turn.
    fn counts_of_chat(&self) -> Option<(Counts, Counts)> {
        let home = self.home.directory.path();
        let data = self.home.data();
        let variables = [("HOME", home.to_str().unwrap()), ("POLYLOGUE_DATA_DIR", data.to_str().unwrap())];
        let mut terminal = Pty::spawn_in("/bin/sh", &["-c", STOPPED, &self.program], &variables, (80, 24), home);
        let tracer = Tracer::start(terminal.started())?;
        let rest = |terminal: &mut Pty| {
            let mut patience = Patience::new();
            while patience.has_time() {
                terminal.bytes_within(Duration::from_millis(20));
                if let Some(counts) = tracer.counts_if_waiting() {
                    return counts;
                }
            }
            panic!("the chat does not come to rest: {}", terminal.screen_text());
        };
        terminal.wait_for_text("? keys");
        let at_prompt = rest(&mut terminal);
        terminal.send("hello\r");
        terminal.wait_for_answer("hello", "hello");
        let after_turn = rest(&mut terminal);
        Some((at_prompt, after_turn))
    }
}

/// The rows of the table: what is counted, and how often it happens.
fn measure() -> Option<BTreeMap<String, u64>> {
    let mut rows = BTreeMap::new();
    let mut add = |scene: &str, counts: &Counts| {
        eprintln!("{scene}: {}", counts.describe());
        let Counts { calls, faults, threads, syncs, writes, .. } = counts;
        let all = [("calls", calls), ("faults", faults), ("threads", threads), ("syncs", syncs), ("writes", writes)];
        rows.extend(all.map(|(what, count)| (format!("{scene} {what}"), *count)));
    };
    add("version", &Scene::new().counts(&["--version"], None)?);
    let mut scene = Scene::new();
    let server = Peer::start();
    scene.home.variables = vec![
        ("OPENAI_BASE_URL".into(), server.url()),
        ("OPENAI_API_KEY".into(), "key".into()),
        ("POLYLOGUE_MODEL".into(), "openai/test".into()),
    ];
    add("one-shot ephemeral", &scene.counts(&["-p", "--ephemeral", "hello"], Some(&server))?);
    // The database is created by the first one.
    scene.counts(&["-p", "first"], Some(&server))?;
    add("one-shot kept", &scene.counts(&["-p", "hello"], Some(&server))?);
    let scene = Scene::new();
    scene.counts(&["-p", "first"], None)?;
    let (at_prompt, after_turn) = scene.counts_of_chat()?;
    add("chat to prompt", &at_prompt);
    // Its frames depend on time.
    rows.insert("turn of a chat writes".into(), after_turn.writes - at_prompt.writes);
    Some(rows)
}

#[test]
fn a_start_costs_no_more_than_the_last_table_says() {
    let table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/counts.tsv")).expect("a table");
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let table: BTreeMap<&str, u64> = lines
        .map(|line| line.rsplit_once('\t').expect("a name and a number"))
        .map(|(name, most)| (name, most.parse().expect("a number")))
        .collect();
    let Some(rows) = measure() else { return eprintln!("processes cannot be traced here") };
    let is_release = std::env::var_os(OTHER_BUILD).is_some();
    rows.iter().for_each(|(name, count)| println!("{name}\t{count}"));
    // Pages are those of the release build, and a run that takes longer on a busy machine syncs more often.
    let is_compared = |name: &str| is_release || name.ends_with("calls");
    let tolerance = if is_release { TOLERANCE } else { TOLERANCE_OF_SUITE };
    let is_more = |name: &str, count: u64| table.get(name).is_none_or(|most| count > most + most / tolerance);
    let more: Vec<_> = rows.iter().filter(|(name, count)| is_compared(name) && is_more(name, **count)).collect();
    assert!(more.is_empty(), "more than fixtures/counts.tsv says: {more:?}");
    assert!(rows.keys().map(String::as_str).eq(table.keys().copied()), "fixtures/counts.tsv has other rows");
}
