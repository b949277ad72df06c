//! How a run ends: exit codes, signals and errors.

use rustix::process::Signal;

use super::{ends_with_what_there_is, run, split};
use crate::support::peer::Peer;
use crate::support::program::{Home, Program};

#[test]
fn exit_codes_are_those_of_the_documentation() {
    for (line, code, output) in [
        ("run hello", 0, "agent-3 answered"),
        ("run --retries 0 %fail 400 no such thing", 3, "none of 3 members answered"),
        ("run --retries 0 --count 1 %fail 401", 3, "agent-1 did not answer"),
        ("run --retries 0 --count 2 %hang --timeout 0.2", 4, "agent-1"),
        ("run --data-dir /dev/null hello", 1, "is a file"),
    ] {
        let found = run(&Home::new(), line);
        assert_eq!(found.code, code, "{line}: {found:?}");
        assert!(found.err.contains(output), "{line}: {found:?}");
    }
}

#[test]
fn models_that_make_agents_without_end_stop_the_run_at_the_limit() {
    const FORK: &str = "%tool fork {\"prompt\":\"more\"}\n%next\n";
    for (most, strategy, code) in [("3", "sequential", 4), ("3", "parallel", 4), ("8", "parallel", 0)] {
        let home = Home::new();
        let task = FORK.repeat(4) + "done";
        let args =
            ["multi-agent", "run", "--max-agents", most, "--count", "2", "--strategy", strategy, "--task", &task];
        let output = home.run(&args);
        assert_eq!(output.code, code, "{output:?}");
        assert_eq!(output.err.contains("limits.max_agents"), code == 4, "{output:?}");
        // All end with the run; they stay in the store.
        let conn = rusqlite::Connection::open(home.data().join("polylogue.db")).expect("a store");
        let count = "SELECT count(*) FROM agents WHERE made_by = 2 AND NOT is_print_run";
        let made: i64 = conn.query_row(count, [], |row| row.get(0)).expect("a number");
        assert_eq!(made, if code == 4 { 3 } else { 8 }, "{most} {strategy}");
    }
}

#[test]
fn a_failed_member_is_reported_and_the_others_make_the_answer() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&split("run hello --agents ann:echo,bob,eve:echo --retries 0"));
    peer.accept().error(400, "invalid_request", "not like this");
    let output = program.ends();
    assert_eq!((output.code, &*output.out), (0, "hello\n---\nhello\n"), "{output:?}");
    assert!(output.err.contains("bob failed after") && output.err.contains("not like this"), "{output:?}");
}

#[test]
fn a_signal_stops_the_members_and_writes_a_partial_answer() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let peer = Peer::start();
        ends_with_what_there_is(&Home::with_server(&peer.url()), &peer, (signal, code));
    }
}

#[test]
fn a_signal_with_json_still_writes_the_result() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&split("run hello --count 2 --strategy parallel --json"));
    let (first, _held) = (peer.accept(), peer.accept());
    first.stream().text("one").finish("stop").done();
    program.next("agent_finished");
    program.signal(Signal::INT);
    let output = program.ends();
    assert_eq!(output.code, 130, "{output:?}");
    let result = output.result();
    assert_eq!(
        (&result["type"], &result["interrupted"], &result["answer"]),
        (&"task_failed".into(), &true.into(), &"one".into())
    );
}

#[test]
fn a_directory_held_by_another_run_is_waited_for() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let other = home.start(&["-p", "hello"]);
    let exchange = peer.accept();
    let waiting = home.start(&split("run hello --model echo --count 1"));
    let note = waiting.err.recv_timeout(crate::support::PATIENCE).expect("a note");
    let note = String::from_utf8_lossy(&note);
    for split in ["another polylogue run that holds ", "--ephemeral", "polylogue serve --background"] {
        assert!(note.contains(split), "{split}: {note}");
    }
    assert_eq!(run(&home, "run hello --model echo --ephemeral --count 1").out, "hello\n");
    exchange.stream().text("done").finish("stop").done();
    assert_eq!(other.ends().code, 0);
    let output = waiting.ends();
    assert_eq!((output.code, &*output.out), (0, "hello\n"), "{output:?}");
}

#[test]
fn a_closed_reader_ends_the_run() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let script = "\"$0\" multi-agent run hello --agents ann:echo,bob --json | head -n 1; exit ${PIPESTATUS[0]}";
    let program = Program::start(home.command("bash", &["-c", script, crate::support::program::PROGRAM]));
    // Bob is never answered: the run ends all the same.
    assert_eq!(program.ends().code, 141);
}
