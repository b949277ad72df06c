//! A terminal that takes nothing (Ctrl+S, a stalled connection) costs frames, and nothing else.

use tempfile::TempDir;

use crate::support::peer::Peer;
use crate::support::pty::Pty;

/// Waits of the loop that ended at once for the sake of the sign of work.
fn vain_turns(trace: &str) -> usize {
    let is_vain = |line: &&str| line.contains("\"why\":\"spinner\"") && line.contains("\"timeout_ms\":0.0");
    trace.lines().filter(is_vain).count()
}

#[test]
fn a_terminal_that_takes_nothing_does_not_keep_the_loop_busy() {
    let peer = Peer::start();
    let home = TempDir::new().expect("a directory");
    let trace = home.path().join("trace");
    let (data, log) = (home.path().to_string_lossy(), trace.to_string_lossy());
    let args = ["--data-dir", &data, "--trace", &log, "--model", "openai/test"];
    let mut pty = Pty::spawn(env!("CARGO_BIN_EXE_polylogue"), &args, &[("OPENAI_BASE_URL", &peer.url())], (200, 50));
    pty.wait_for_text("agent 0");
    pty.send("first\r");
    let first = peer.accept();
    pty.send("second\r");
    pty.wait_for_text("queued 1: second");
    // From here on the terminal is not read, and far more is drawn than a terminal holds.
    first.stream();
    for line in 0..40_000 {
        first.text(&format!("{line} is a line that differs from all others\n"));
    }
    first.finish("stop").done();
    peer.accept().head(429, &[("retry-after", "1"), ("content-length", "0")]);
    // A second in which the sign of work should move, and cannot.
    peer.accept();
    let turns = vain_turns(&std::fs::read_to_string(&trace).expect("a trace"));
    assert!(turns < 50, "{turns} turns in vain");
}
