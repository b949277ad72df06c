//! Descriptors and processes that run out, at every number from none to enough.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::chown;
use std::process::{Command, Stdio};
use std::time::Duration;

use polylogue::Change;
use polylogue::config::{Endpoint, Policy};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, getuid, prlimit, setrlimit};

use super::without_retries;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Body;
use crate::support::output_of;
use crate::support::peer::Peer;
use crate::support::program::{Home, PROGRAM};
use crate::support::scene::answer;
use crate::support::size::stride;

/// In the environment of the process whose descriptors run out: the server.
const SERVER: &str = "POLYLOGUE_TEST_FAULTS_SERVER";
/// More than a turn with a request or a command needs.
const ENOUGH: u64 = 24;
/// The ordinary user of a test that runs as root, for whom no limit of processes holds.
const OTHER: u32 = 65534;
const OTHER_NAME: &str = "65534";

#[test]
fn descriptors_that_run_out_fail_a_turn_and_not_the_loop() {
    let peer = Peer::start();
    let mut copy = Command::new(std::env::current_exe().expect("the path of this binary"));
    copy.args(["--exact", "faults::resources::run_with_few_descriptors", "--nocapture", "--test-threads=1"]);
    copy.env(SERVER, peer.url()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = copy.spawn().expect("it starts");
    let waiting = std::thread::spawn(move || output_of(child));
    while !waiting.is_finished() {
        peer.try_accept().iter().for_each(answer);
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = waiting.join().expect("it has ended");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("tried all"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Not a test: the process whose descriptors run out.
#[test]
fn run_with_few_descriptors() {
    let Ok(url) = std::env::var(SERVER) else { return };
    let usual = getrlimit(Resource::Nofile);
    for more in (0..ENOUGH).step_by(stride(3)) {
        let echo = Endpoint::echo();
        let plan = Plan::peer(&url);
        let plan = Plan { policy: Policy::Yolo, rules: Default::default(), real_time: true, size: None, ..plan };
        let mut app = Harness::new(Plan { settings: without_retries(), ..plan });
        for name in ["tools", "bystander"] {
            app.repl.create(Some(name), Some(&echo.full_name())).expect("an agent");
        }
        let bystander = app.fingerprint(2);
        let first_free = File::open("/dev/null").expect("a descriptor").as_raw_fd();
        let least = u64::try_from(first_free).expect("a number") + more;
        setrlimit(Resource::Nofile, Rlimit { current: Some(least), ..usual }).expect("fewer are allowed");
        for (n, text) in [(0, "question"), (1, "%tool bash {\"command\":\"echo done\"}\n%next\nafter the command")] {
            let id = app.id(n);
            app.repl.apply(id, Change::Submit(text.into())).expect("the store is open");
        }
        app.turn_until_idle();
        setrlimit(Resource::Nofile, usual).expect("what was allowed before");
        let is_said = |body: &Body| matches!(body, Body::Error(_) | Body::Assistant(_));
        for n in [0, 1] {
            let last = app.log(n);
            assert!(last.iter().any(|message| is_said(&message.body)), "{more} descriptors, agent {n}: {last:?}");
        }
        assert_eq!(app.fingerprint(2), bystander, "{more} descriptors");
        app.say(0, "again");
        app.say(1, "%tool bash {\"command\":\"echo again\"}");
        app.turn_until_idle();
        assert_eq!(app.replies(0).last().map(String::as_str), Some("fine"), "{more} descriptors: {:?}", app.log(0));
        let result = app.tool_results(1).pop().expect("a result");
        assert!(!result.is_error && result.content.contains("again"), "{more} descriptors: {result:?}");
    }
    println!("\ntried all");
}

/// Runs the program to its end with this limit, as a user for whom it holds.
fn run_limited(resource: Resource, most: u64, args: &[&str]) -> crate::support::program::Response {
    let home = Home::new();
    let mut command = home.command("sh", &["-c", "read go; exec \"$@\"", "sh"]);
    if resource == Resource::Nproc && getuid().is_root() {
        chown(home.directory.path(), Some(OTHER), Some(OTHER)).expect("root may do this");
        command.args(["setpriv", "--reuid", OTHER_NAME, "--regid", OTHER_NAME, "--clear-groups"]);
    }
    command.arg(PROGRAM).args(args).stdin(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let (pid, mut input) = (Pid::from_child(&child), child.stdin.take().expect("a pipe"));
    let limit = Rlimit { current: Some(most), ..getrlimit(resource) };
    prlimit(Some(pid), resource, limit).expect("it is our process");
    input.write_all(b"go\n").expect("it reads");
    drop(input);
    let output = output_of(child);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    crate::support::program::Response {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// What the program says is either what it was asked for or why not.
fn check(resource: Resource, most: u64, args: &[&str], expected: &str) -> bool {
    let found = run_limited(resource, most, args);
    let is_done = found.code == 0 && found.out.contains(expected);
    let is_explained = (1..=3).contains(&found.code) && !found.err.trim().is_empty();
    // Below some number not even the system can start a program.
    let has_started = !found.err.contains("error while loading shared libraries")
        && !found.err.starts_with("sh:")
        && !found.err.starts_with("setpriv:");
    assert!(!found.err.contains("panicked"), "{most}: {found:?}");
    assert!(is_done || is_explained || !has_started || found.code == 0, "{most}: {found:?}");
    is_done
}

#[test]
fn a_program_with_too_few_descriptors_says_so() {
    let counts = (3..40).step_by(stride(5));
    let done: Vec<bool> = counts.map(|most| check(Resource::Nofile, most, &["-p", "hello"], "hello")).collect();
    assert!(done.is_sorted() && done.last() == Some(&true), "{done:?}");
}

#[test]
fn a_program_that_may_start_no_process_says_so() {
    let script = "%tool bash {\"command\":\"echo done\"}\n%next\nafter it";
    for most in (0..10).step_by(stride(4)) {
        check(Resource::Nproc, most, &["-p", "--approval", "yolo", script], "after it");
    }
}
