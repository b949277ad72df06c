//! Keys that a command prints: run once for all agents of a provider, once more when the key is refused, and never seen
//! anywhere but in the request.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use polylogue::Change;
use polylogue::config::{Endpoint, RetryPolicy, Secret, Settings};
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State, Wait, supervisor};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{app_with_agents, assert_shows, is_running, mark, turn_a_while};

/// A plan whose key this shell command prints. The clock is the machine's: commands take its time.
fn plan(url: &str, command: &str) -> Plan {
    let plan = Plan { real_time: true, ..Plan::peer(url) };
    Plan { endpoint: Endpoint { key_command: Some(command.into()), ..plan.endpoint }, ..plan }
}

/// A command that waits for the file `go`, notes its run, and prints a key with the number of that run.
fn counting(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "cd '{directory}'; until [ -e go ]; do sleep 0.01; done; echo >> runs; echo key-$(wc -l < runs)-of-the-test"
    )
}

fn go(directory: &Path) {
    std::fs::write(directory.join("go"), "").expect("a file");
}

fn runs_in(directory: &Path) -> usize {
    std::fs::read(directory.join("runs")).map_or(0, |lines| lines.len())
}

fn key_of(exchange: &Exchange) -> String {
    exchange.request().header("authorization").unwrap_or_default().to_owned()
}

fn waits_for_key(app: &Harness, n: usize) -> bool {
    app.state(n) == State::WaitingForLlm && matches!(app.agent(n).wait(), Wait::Key)
}

/// What a question comes to when the command is this: the error, with the text back in the draft and nothing sent.
fn failure(command: &str) -> String {
    failure_within(command, Settings::default().key_timeout)
}

fn failure_within(command: &str, key_timeout: Duration) -> String {
    let peer = Peer::start();
    let settings = Settings { key_timeout, ..Settings::default() };
    let mut app = Harness::new(Plan { settings, ..plan(&peer.url(), command) });
    app.enter("a question");
    app.turn_until_idle();
    assert!(peer.try_accept().is_none());
    assert_eq!(app.draft(0).text(), "a question");
    let error = app.last_error(0);
    assert!(error.starts_with("no key for openai: api_key_command of [providers.openai] "), "{error}");
    error
}

#[test]
fn twenty_agents_wait_for_one_run_and_share_its_key() {
    let (peer, directory) = (Peer::start(), TempDir::new().expect("a directory"));
    let mut app = app_with_agents(20, plan(&peer.url(), &counting(directory.path())));
    (0..20).for_each(|n| app.say(n, "a question"));
    turn_a_while(&mut app);
    assert!((0..20).all(|n| waits_for_key(&app, n)) && app.repl.roster().at_work().is_empty());
    assert_shows(&mut app, "running the key command of openai");
    go(directory.path());
    for _ in 0..20 {
        let exchange = app.accept(&peer);
        assert_eq!(key_of(&exchange), "Bearer key-1-of-the-test");
        exchange.stream().text("fine").finish("stop").done();
    }
    app.turn_until_idle();
    assert_eq!(runs_in(directory.path()), 1);
}

#[test]
fn a_refused_key_is_renewed_once_for_all_and_the_text_is_sent_again() {
    let (peer, directory) = (Peer::start(), TempDir::new().expect("a directory"));
    go(directory.path());
    let mut app = app_with_agents(20, plan(&peer.url(), &counting(directory.path())));
    (0..20).for_each(|n| app.say(n, "a question"));
    let refused: Vec<Exchange> = (0..20).map(|_| app.accept(&peer)).collect();
    for one in refused {
        one.error(401, "expired", "the token has expired");
    }
    for _ in 0..20 {
        let exchange = app.accept(&peer);
        assert_eq!(key_of(&exchange), "Bearer key-2-of-the-test");
        exchange.stream().text("fine").finish("stop").done();
    }
    app.turn_until_idle();
    assert_eq!(runs_in(directory.path()), 2);
    assert!(app.kinds(0).ends_with(&["user", "assistant"]));
    assert!((0..20).all(|n| app.last_error(n).is_empty() && app.draft(n).is_empty()));
}

#[test]
fn a_key_refused_twice_is_an_error_that_names_the_command_and_returns_the_text() {
    let (peer, directory) = (Peer::start(), TempDir::new().expect("a directory"));
    go(directory.path());
    let mut app = Harness::new(plan(&peer.url(), &counting(directory.path())));
    app.enter("a question");
    app.accept(&peer).error(401, "expired", "no");
    app.accept(&peer).error(401, "expired", "no: key-2-of-the-test");
    app.turn_until_idle();
    assert_eq!((runs_in(directory.path()), app.draft(0).text()), (2, "a question"));
    let error = app.last_error(0);
    assert!(error.contains("(401)") && error.contains("api_key_command of [providers.openai]"), "{error}");
    app.enter("");
    app.accept(&peer).error(401, "expired", "no");
    let third = app.accept(&peer);
    assert_eq!(key_of(&third), "Bearer key-3-of-the-test", "each request has its own renewal");
    third.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
}

#[test]
fn a_forbidden_request_does_not_renew_the_key() {
    let (peer, directory) = (Peer::start(), TempDir::new().expect("a directory"));
    go(directory.path());
    let mut app = Harness::new(plan(&peer.url(), &counting(directory.path())));
    app.enter("a question");
    app.accept(&peer).error(403, "forbidden", "not this model");
    app.turn_until_idle();
    assert_eq!(runs_in(directory.path()), 1);
}

#[test]
fn a_failed_key_command_is_reported_with_the_first_line_of_its_error() {
    let error = failure("echo not logged in >&2; echo a second line >&2; exit 3");
    assert!(error.ends_with("ended with exit code 3: not logged in"), "{error}");
    let error = failure("echo secret-1234; echo '  refused: secret-1234' >&2; exit 1");
    assert!(error.ends_with("refused: [key]"), "{error}");
}

#[test]
fn a_missing_key_command_is_reported() {
    let error = failure("no-such-program-of-ours --print");
    assert!(error.contains("exit code 127") && error.contains("no-such-program-of-ours"), "{error}");
}

#[test]
fn a_key_command_without_a_valid_key_is_reported_without_its_output() {
    assert!(failure("true").ends_with("printed nothing"));
    assert!(failure("echo '  '; echo locked >&2").ends_with("printed nothing: locked"));
    assert!(failure("head -c 1000000 /dev/zero | tr '\\0' x").ends_with("printed more than 64 KiB"));
    assert!(failure("while :; do echo xxxxxxxxxxxxxxxx; done").ends_with("printed more than 64 KiB"));
    assert!(failure("echo secret-one; echo secret-two").ends_with("printed something that is not a key"));
}

#[test]
fn a_hanging_key_command_is_killed_with_its_children() {
    let mark = mark();
    let error = failure_within(&format!("trap '' TERM; sleep {mark} & sleep {mark}"), Duration::from_millis(300));
    assert!(error.ends_with("timed out after 300ms"), "{error}");
    assert!(!is_running(&mark));
}

#[test]
fn interrupted_and_killed_agents_stop_waiting_for_a_key_and_the_last_ends_the_command() {
    let (peer, directory) = (Peer::start(), TempDir::new().expect("a directory"));
    let mark = mark();
    let command = format!("{}; : {mark}", counting(directory.path()));
    let mut app = app_with_agents(4, plan(&peer.url(), &command));
    (0..4).for_each(|n| app.say(n, "a question"));
    app.turn_until("the command", |_| is_running(&mark));
    app.escape();
    let killed = app.id(3);
    app.ask(0, Change::Kill { agent_id: killed, cascade: false });
    turn_a_while(&mut app);
    assert_eq!(app.state(0), State::Idle);
    assert!(waits_for_key(&app, 1) && waits_for_key(&app, 2) && is_running(&mark));
    app.ask(1, Change::Interrupt);
    app.ask(2, Change::Interrupt);
    app.turn_until("the end of the command", |_| !is_running(&mark));
    assert!(peer.try_accept().is_none() && app.repl.roster().busy().is_empty());
    go(directory.path());
    app.say(1, "and now?");
    app.accept(&peer);
    assert_eq!(runs_in(directory.path()), 1);
}

#[test]
fn exiting_ends_the_key_command_and_waits_for_it() {
    let peer = Peer::start();
    let mark = mark();
    let mut app = Harness::new(plan(&peer.url(), &format!("sleep {mark}")));
    app.enter("a question");
    app.turn_until("the command", |_| is_running(&mark));
    app.repl.leave().expect("it leaves");
    assert!(!is_running(&mark));
}

#[test]
fn exiting_ends_a_key_command_of_a_summary_and_returns_the_line_of_its_slice() {
    let (peer, directory) = (Peer::start(), TempDir::new().expect("a directory"));
    go(directory.path());
    let mark = mark();
    let command = format!("{}; [ $(wc -l < runs) = 1 ] || sleep {mark}", counting(directory.path()));
    let mut app = Harness::new(plan(&peer.url(), &command));
    app.enter("a question");
    app.accept(&peer).stream().text("an answer").finish("stop").done();
    app.turn_until_idle();
    app.enter("/slice summarize:0:2");
    app.accept(&peer).error(401, "expired", "the token has expired");
    app.turn_until("the command", |_| is_running(&mark));
    app.enter("/model echo/echo");
    app.enter("%hang");
    app.turn_until("a turn beside the summary", |app| app.state(0) == State::WaitingForLlm);
    app.repl.leave().expect("it leaves");
    assert!(!is_running(&mark));
    let app = app.crash_and_restart();
    assert_eq!(app.draft(0).text(), "/slice summarize:0:2");
}

#[test]
fn a_key_is_in_the_request_and_nowhere_else() {
    const KEY: &str = "key-that-stays-secret-4711";
    let (peer, trace) = (Peer::start(), TempDir::new().expect("a directory"));
    let file = trace.path().join("key");
    std::fs::write(&file, KEY).expect("a file");
    let plan = plan(&peer.url(), &format!("cat '{}'", file.display()));
    let retry = RetryPolicy { retries: Some(1), base: Duration::from_millis(1), ..RetryPolicy::default() };
    let mut app = Harness::new(Plan { settings: Settings { retry, ..Settings::default() }, ..plan });
    app.enter("a question");
    let exchange = app.accept(&peer);
    assert_eq!(key_of(&exchange), format!("Bearer {KEY}"));
    assert!(!is_running(KEY), "no process has it in its command line");
    exchange.hang_up();
    app.accept(&peer).error(400, "bad_request", "what?");
    app.turn_until_idle();
    app.repl.leave().expect("it leaves");
    assert!(!String::from_utf8_lossy(&app.sent).contains(KEY));
    let directory = app.close();
    for entry in std::fs::read_dir(directory.path()).expect("a directory").flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "{}", entry.path().display());
    }
}

#[test]
fn the_key_command_has_no_input_no_terminal_and_the_inherited_environment() {
    let peer = Peer::start();
    let command =
        "if read line; then echo input; elif (: < /dev/tty) 2> /dev/null; then echo terminal; else echo none; fi";
    let mut app = Harness::new(plan(&peer.url(), command));
    app.enter("a question");
    assert_eq!(key_of(&app.accept(&peer)), "Bearer none");
    for (flags, seen) in
        [(&[supervisor::FLAG, supervisor::WHOLE_ENVIRONMENT][..], "seen\n"), (&[supervisor::FLAG], "\n")]
    {
        let supervised = Command::new(env!("CARGO_BIN_EXE_polylogue"))
            .args(flags)
            .args(["--", "sh", "-c", "echo $VAULT_TOKEN"])
            .env("VAULT_TOKEN", "seen")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut supervised = supervised.expect("it starts");
        let held = supervised.stdin.take();
        let output = crate::support::output_of(supervised);
        drop(held);
        assert_eq!(String::from_utf8_lossy(&output.stdout), seen);
    }
}

#[test]
fn without_a_key_no_request_is_sent_and_the_variable_is_named() {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::peer("https://api.openai.com/v1") });
    app.enter("a question");
    app.turn_until_idle();
    assert!(app.last_error(0).contains("no key for openai: export OPENAI_API_KEY"), "{}", app.last_error(0));
    assert_eq!(app.draft(0).text(), "a question");
}

#[test]
fn an_auth_error_names_the_source_of_the_key() {
    let peer = Peer::start();
    for (key, expected) in
        [(None, "no key was sent: export OPENAI_API_KEY"), (Some("wrong"), "the key came from OPENAI_API_KEY")]
    {
        let mut plan = Plan { real_time: true, ..Plan::peer(&peer.url()) };
        plan.endpoint.key = key.map(Secret::new);
        let mut app = Harness::new(plan);
        app.enter("a question");
        app.accept(&peer).error(401, "invalid_api_key", "no");
        app.turn_until_idle();
        assert!(app.last_error(0).contains(expected), "{}", app.last_error(0));
        assert_eq!(app.draft(0).text(), "a question");
    }
}
