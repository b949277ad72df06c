//! How a run ends: codes, signals, and what there is to say where it has failed.

use rustix::process::Signal;

use super::{run, words};
use crate::support::peer::Peer;
use crate::support::program::{Home, Program};

#[test]
fn exit_codes_are_those_of_the_table() {
    for (line, code, told) in [
        ("run hello", 0, "agent-3 has answered"),
        ("run --retries 0 !fail 400 no such thing", 3, "none of 3 members answered"),
        ("run --retries 0 --count 1 !fail 401", 3, "agent-1 did not answer"),
        ("run --retries 0 --count 2 !hang --timeout 0.2", 4, "agent-1"),
        ("run --data-dir /dev/null hello", 1, "is a file"),
    ] {
        let found = run(&Home::new(), line);
        assert_eq!(found.code, code, "{line}: {found:?}");
        assert!(found.err.contains(told), "{line}: {found:?}");
    }
}

#[test]
fn who_fails_stands_apart_and_the_answer_is_of_the_others() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&words("run hello --agents ann:echo,bob,eve:echo --retries 0"));
    peer.accept().error(400, "invalid_request", "not like this");
    let told = program.ends();
    assert_eq!((told.code, &*told.out), (0, "hello\n---\nhello\n"), "{told:?}");
    assert!(told.err.contains("bob has failed after") && told.err.contains("not like this"), "{told:?}");
}

#[test]
fn a_signal_stops_the_members_and_what_there_is_of_an_answer_is_written() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let peer = Peer::start();
        let home = Home::with_server(&peer.url());
        let program = home.start(&words("run hello --agents ann:echo,bob,eve --strategy sequential"));
        let exchange = peer.accept();
        exchange.stream().text("half of it");
        program.signal(signal);
        exchange.wait_for_close();
        let told = program.ends();
        assert_eq!((told.code, &*told.out), (code, "hello\n"), "{told:?}");
        for words in ["bob: stopped: interrupted", "eve is skipped: not started: interrupted", "partial answer"] {
            assert!(told.err.contains(words), "{words}: {told:?}");
        }
    }
}

#[test]
fn a_signal_with_json_ends_with_the_result_as_well() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&words("run hello --count 2 --strategy parallel --json"));
    let (first, _held) = (peer.accept(), peer.accept());
    first.stream().text("one").finish("stop").done();
    program.next("agent_finished");
    program.signal(Signal::INT);
    let told = program.ends();
    assert_eq!(told.code, 130, "{told:?}");
    let result = told.result();
    assert_eq!(
        (&result["type"], &result["interrupted"], &result["answer"]),
        (&"task_failed".into(), &true.into(), &"one".into())
    );
}

#[test]
fn a_store_that_another_polylogue_holds_is_told_with_the_ways_out() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let other = home.start(&["-p", "hello"]);
    let exchange = peer.accept();
    let told = run(&home, "run hello --model echo");
    assert_eq!((told.code, &*told.out), (1, ""), "{told:?}");
    for words in ["is held by another polylogue (process ", "--ephemeral", "--data-dir", "/team"] {
        assert!(told.err.contains(words), "{words}: {told:?}");
    }
    assert_eq!(run(&home, "run hello --model echo --ephemeral --count 1").out, "hello\n");
    exchange.stream().text("done").finish("stop").done();
    assert_eq!(other.ends().code, 0);
}

#[test]
fn nobody_works_on_for_a_reader_that_has_gone() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let script = "\"$0\" multi-agent run hello --agents ann:echo,bob --json | head -n 1; exit ${PIPESTATUS[0]}";
    let program = Program::start(home.command("bash", &["-c", script, crate::support::program::PROGRAM]));
    // Bob is never answered: the run ends all the same.
    assert_eq!(program.ends().code, 141);
}
