//! Every write of a conversation with several agents fails, once or from then on, or is the last one of its process.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use polylogue::{Change, Chunk, Fork};
use rusqlite::Connection;
use rustix::process::{Signal, getpid, kill_process};
use tempfile::TempDir;

use super::conversation::{Player, plan};
use crate::support::faulty_disk::{Disk, Fault};
use crate::support::harness::Harness;
use crate::support::internals::{Agent, Body, History, Probe as _, State};
use crate::support::pty::died_of;
use crate::support::scene::{app_with_agents, assert_shows};
use crate::support::size::stride;

/// No transaction has this number.
const NEVER: usize = usize::MAX;

/// How long the faults last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    Once,
    /// Until everything is said, and not at the end of the program.
    UntilTheEnd,
    ForEver,
}

/// A conversation that is about to begin, on a disk of its own.
fn player(fault: Fault) -> (Player, Disk) {
    let mut disk = None;
    let directory = || TempDir::new().expect("a directory");
    let data = directory();
    let path = data.path().to_path_buf();
    let app = Harness::open_with(plan(), data, directory(), |store| {
        let new = Disk::new(&path, fault);
        new.install(store);
        disk = Some(new);
    });
    (Player::new(app), disk.expect("just installed"))
}

/// How many transactions the conversation has.
fn transactions() -> usize {
    let (mut player, disk) = player(Fault::Commit);
    player.play();
    assert_eq!(player.refused, Vec::<String>::new());
    disk.begun()
}

/// Every text of the user in the database, which has to be in order.
fn texts_in(directory: &Path) -> BTreeSet<String> {
    let conn = Connection::open(directory.join("polylogue.db")).expect("a database");
    let one = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).expect("a check");
    assert_eq!(one("PRAGMA integrity_check"), "ok".to_owned().into());
    assert_eq!(one("SELECT count(*) FROM pragma_foreign_key_check"), 0.into());
    let sql = "SELECT content FROM messages WHERE kind = 'user' UNION SELECT content FROM queue";
    let mut statement = conn.prepare(sql).expect("the tables of today");
    statement.query_map([], |row| row.get(0)).expect("rows").collect::<rusqlite::Result<_>>().expect("texts")
}

/// The errors that an agent shows.
fn errors(agent: &Agent) -> Vec<String> {
    let numbers = agent.output.oldest()..agent.output.next();
    let error = |chunk: Chunk| if let Chunk::Error { message, .. } = chunk { Some(message) } else { None };
    numbers.filter_map(|number| error(agent.output.get(number)?.0)).collect()
}

/// What a model would be sent, of this history.
fn sent(history: &History) -> Vec<Body> {
    history.conversation().into_iter().map(|message| message.body.clone()).collect()
}

/// What is in memory is stored, except for what was said not to be.
fn assert_is_stored(app: &Harness, what: &str) {
    let is_all = app.repl.unsaved() == 0;
    for agent in app.repl.roster().iter() {
        let Some(history) = &agent.inputs.history else { continue };
        let stored = History::from_messages(app.repl.store().replay(agent.id()).expect("a log").0);
        let is_said = errors(agent).iter().any(|error| error.contains("not saved"));
        assert!(sent(history) == sent(&stored) || !is_all && is_said, "{what}: {}", agent.identity.label());
    }
}

/// Plays the conversation, with faults from this transaction on.
fn check(fault: Fault, from: usize, lasting: Lasting) {
    let what = format!("{fault:?} {lasting:?} at {from}");
    let (mut player, disk) = player(fault);
    disk.fail(from, if lasting == Lasting::Once { from + 1 } else { NEVER });
    player.play();
    if lasting == Lasting::UntilTheEnd {
        disk.mend();
    }
    assert_is_stored(&player.app, &what);
    if lasting == Lasting::Once {
        let failing = player.app.repl.roster().iter().filter(|agent| !errors(agent).is_empty()).count();
        // The common transaction in which several agents stop concerns two.
        assert!(failing <= 2 && player.refused.len() <= 1, "{what}: {failing} agents, {:?}", player.refused);
    }
    player.app.repl.leave().expect("an orderly end");
    let unsaved = player.app.repl.unsaved();
    assert!(unsaved == 0 || lasting == Lasting::ForEver, "{what}: {unsaved} messages are not saved");
    let Player { app, acknowledged, .. } = player;
    let directory = app.close();
    disk.mend();
    let kept = texts_in(directory.path());
    let lost: Vec<&String> = acknowledged.iter().filter(|text| !kept.contains(*text)).collect();
    assert!(lost.is_empty(), "{what}: lost {lost:?}");
    assert_answers(directory, &what);
}

/// The program starts with what there is, and answers.
fn assert_answers(directory: TempDir, what: &str) {
    let mut app = Harness::open(plan(), directory);
    app.say(0, "after all");
    // A question of another agent may be open.
    app.turn_until("the reply", |app| app.state(0) == State::Idle);
    assert_eq!(app.replies(0).last().map(String::as_str), Some("after all"), "{what}");
}

/// Tries each transaction with each of the durations, or in the suite so many places apart.
fn check_all(fault: Fault, usual: usize) {
    let lasting = [Lasting::Once, Lasting::UntilTheEnd, Lasting::ForEver];
    let places = (1..=transactions()).flat_map(|from| lasting.map(|lasting| (from, lasting)));
    places.skip(stride(usual) / 3).step_by(stride(usual)).for_each(|(from, lasting)| check(fault, from, lasting));
}

#[test]
fn a_transaction_that_is_not_committed_fails_what_it_was_for() {
    check_all(Fault::Commit, 82);
}

#[test]
fn a_transaction_that_does_not_begin_fails_what_it_was_for() {
    check_all(Fault::Begin, 97);
}

#[test]
fn a_transaction_that_is_rolled_back_in_its_middle_fails_what_it_was_for() {
    for (steps, usual) in [(10, 301), (60, 302), (300, 250)] {
        check_all(Fault::Statement(steps), usual);
    }
}

/// Each failure takes as long as a statement waits for the other program.
#[test]
fn a_database_that_another_program_holds_fails_what_is_written_meanwhile() {
    for from in (1..=transactions()).step_by(stride(71)) {
        check(Fault::Busy, from, Lasting::Once);
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Two agents, the first of which has a reply that could not be stored.
fn with_unsaved_reply() -> Harness {
    let mut app = app_with_agents(2, plan());
    app.say(0, "%slow 100\nkept");
    app.is_disk_full.store(true, Ordering::Relaxed);
    app.turn_until("the reply", |app| {
        app.clock.advance(SECOND / 10);
        app.state(0) == State::Idle
    });
    assert!(app.repl.unsaved() > 0 && app.kinds(0).last() == Some(&"user"), "{:?}", app.kinds(0));
    assert_shows(&mut app, "not saved, kept in memory until it can be");
    app
}

/// The replies of an agent in the order of its log, and how many errors it shows.
fn assert_saved(app: &mut Harness, replies: &[&str]) {
    assert_eq!((app.repl.unsaved(), app.replies(0)), (0, replies.iter().map(|reply| (*reply).to_owned()).collect()));
    assert_eq!(errors(app.agent(0)).len(), 1, "{:?}", errors(app.agent(0)));
    let history = app.agent(0).inputs.history.as_ref().expect("it is loaded");
    let ids: Vec<_> = history.iter().map(|message| message.id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
}

#[test]
fn what_could_not_be_stored_is_stored_when_the_disk_has_room_again() {
    let mut app = with_unsaved_reply();
    for _ in 0..3 {
        app.advance(10 * SECOND);
        assert!(app.repl.unsaved() > 0 && app.timeout().after > Some(SECOND), "it is tried from time to time");
    }
    app.is_disk_full.store(false, Ordering::Relaxed);
    app.advance(10 * SECOND);
    assert_saved(&mut app, &["kept"]);
    assert_shows(&mut app, "the changes kept in memory are saved now");
    let app = app.crash_and_restart();
    assert_eq!(app.replies(0), ["kept"]);
}

#[test]
fn nothing_is_added_to_a_log_before_what_could_not_be_stored() {
    let mut app = with_unsaved_reply();
    let id = app.id(0);
    for change in [Change::Submit("next".into()), Change::Fork(Fork::default())] {
        assert!(app.repl.apply(id, change).is_err());
    }
    app.is_disk_full.store(false, Ordering::Relaxed);
    app.fork_named(0, "child");
    app.say(0, "next");
    app.turn_until_idle();
    assert_saved(&mut app, &["kept", "next"]);
    let n = app.n("child");
    assert_eq!(app.replies(n), ["kept"]);
}

#[test]
fn what_could_not_be_stored_is_stored_at_the_end_of_the_program() {
    let mut app = with_unsaved_reply();
    app.is_disk_full.store(false, Ordering::Relaxed);
    app.repl.leave().expect("an orderly end");
    assert_saved(&mut app, &["kept"]);
}

/// A question that could not be stored was answered: it is not asked again.
#[test]
fn a_question_that_is_stored_late_is_not_asked_again() {
    let mut app = Harness::new(plan());
    app.say(0, "%tool bash {\"command\":\"true\"}");
    app.is_disk_full.store(true, Ordering::Relaxed);
    app.turn_until_asked(0);
    app.is_disk_full.store(false, Ordering::Relaxed);
    app.answer(0, false);
    app.turn_until_idle();
    assert_eq!(app.repl.unsaved(), 0);
    let app = app.crash_and_restart();
    assert!(app.agent(0).question().is_none());
    assert_eq!(app.kinds(0), ["user", "tool_call", "usage", "tool_result", "assistant", "usage"]);
}

/// The ends of several agents are one transaction.
#[test]
fn agents_that_stop_together_stop_and_are_stored_when_the_disk_has_room_again() {
    let (mut player, disk) = player(Fault::Commit);
    player.ask("main", Change::Fork(Fork { name: Some("a".into()), ..Fork::default() }));
    for name in ["main", "a"] {
        player.submit(name, "words\n%hang");
    }
    player.app.turn_until("both have words", |app| (0..2).all(|n| app.agent(n).partial_text().starts_with("words")));
    disk.fail(1, NEVER);
    player.ask("main", Change::Stop(None));
    assert_eq!((player.refused.len(), player.app.repl.roster().busy().len()), (1, 0));
    disk.mend();
    player.app.advance(10 * SECOND);
    assert_eq!(player.app.repl.unsaved(), 0);
    for n in 0..2 {
        assert_eq!(player.app.partial_replies(n).len(), 1, "{:?}", player.app.log(n));
        assert_eq!(player.app.kinds(n).last(), Some(&"interrupted"));
    }
}

#[test]
fn agents_stop_although_the_database_is_held_by_another_program() {
    let (mut player, disk) = player(Fault::Begin);
    player.submit("main", "%hang");
    disk.fail(1, NEVER);
    player.ask("main", Change::Stop(None));
    assert_eq!((player.refused, player.app.repl.roster().busy().len()), (Vec::new(), 0));
}

/// A reply that streams for long on a full disk does not fill the screen with errors.
#[test]
fn a_checkpoint_that_fails_is_reported_once() {
    let mut app = Harness::new(plan());
    app.say(0, "%slow 400\none two three four five six seven eight nine ten");
    app.is_disk_full.store(true, Ordering::Relaxed);
    for _ in 0..15 {
        app.advance(SECOND / 5);
    }
    assert_eq!(errors(app.agent(0)).len(), 1, "{:?}", errors(app.agent(0)));
    app.is_disk_full.store(false, Ordering::Relaxed);
    app.turn_until("the reply", |app| {
        app.clock.advance(SECOND / 10);
        app.state(0) == State::Idle
    });
    assert_eq!(app.replies(0), ["one two three four five six seven eight nine ten"]);
}

/// In the environment of the process that is to die: the write, and a directory.
const DEATH: &str = "POLYLOGUE_TEST_FAULTS_DEATH";
const DIRECTORY: &str = "POLYLOGUE_TEST_FAULTS_IN";

/// Not a test: the process that kills itself at one of its writes.
#[test]
fn run_until_killed() {
    let Ok(death) = std::env::var(DEATH) else { return };
    let death: usize = death.parse().expect("a number");
    let parent = PathBuf::from(std::env::var_os(DIRECTORY).expect("set by the parent process"));
    let data = TempDir::new_in(parent).expect("a directory");
    let app = Harness::open_with(plan(), data, TempDir::new().expect("a directory"), |store| {
        let written = std::sync::Arc::new(AtomicUsize::new(0));
        let count = move || {
            if written.fetch_add(1, Ordering::Relaxed) + 1 == death {
                die();
            }
        };
        store.on_write(count).expect("a store that tells what it writes");
    });
    let mut player = Player::new(app);
    player.tell = |text| say(&format!("acknowledged {text:?}"));
    player.play();
    say("done");
    die();
}

fn say(line: &str) {
    // In a line of its own, whatever the test harness has left unfinished.
    println!("\n{line}");
    std::io::stdout().flush().expect("an open standard output");
}

fn die() {
    kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
}

/// Whether the conversation came to its end before.
fn kill_at(death: usize) -> bool {
    let directory = TempDir::new().expect("a directory");
    let mut copy = Command::new(std::env::current_exe().expect("the path of this binary"));
    copy.args(["--exact", "faults::store::run_until_killed", "--nocapture", "--test-threads=1"]);
    copy.env(DEATH, death.to_string()).env(DIRECTORY, directory.path());
    let output = crate::support::output(&mut copy);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(died_of(output.status, Signal::KILL), "no death at write {death}\n{stdout}");
    let data = std::fs::read_dir(directory.path()).expect("a directory").next().expect("the data").expect("an entry");
    let kept: BTreeSet<String> = texts_in(&data.path()).iter().map(|text| format!("{text:?}")).collect();
    let lost: Vec<&str> = stdout
        .lines()
        .filter_map(|line| line.strip_prefix("acknowledged "))
        .filter(|text| !kept.contains(*text))
        .collect();
    assert!(lost.is_empty(), "a death at write {death} has lost {lost:?}");
    assert_answers(crate::support::harness::copy_of(&data.path()), &format!("a death at write {death}"));
    stdout.lines().any(|line| line == "done")
}

#[test]
fn a_process_that_is_killed_at_any_write_loses_nothing_that_it_acknowledged() {
    let is_last = |death: &usize| kill_at(*death);
    let last = (2..5_000).step_by(stride(211)).find(is_last).expect("the conversation has an end");
    assert!(last > 400, "only {last} writes");
}
