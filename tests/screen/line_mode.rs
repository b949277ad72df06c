//! Line mode: a whole session without a control sequence.

use crate::support::peer::Peer;
use crate::support::pty::{Pty, TerminalLeft};

const PROGRAM: &str = env!("CARGO_BIN_EXE_polylogue");

/// The program on a terminal without cursor addressing, or with `--plain` on one that has it.
fn start(peer: &Peer, directory: &std::path::Path, plain: bool) -> Pty {
    let (url, directory) = (peer.url(), directory.to_str().expect("a path in UTF-8"));
    let mut args = vec!["--data-dir", directory, "--model", "openai/test"];
    args.extend(plain.then_some("--plain"));
    let term = if plain { "xterm-256color" } else { "dumb" };
    let envs = [("HOME", directory), ("LANG", "C.UTF-8"), ("OPENAI_BASE_URL", &url), ("TERM", term)];
    Pty::spawn(PROGRAM, &args, &envs, (60, 60))
}

fn assert_plain(pty: &mut Pty) {
    let raw = String::from_utf8_lossy(pty.raw_output()).into_owned();
    let control = raw.chars().find(|c| c.is_control() && !"\r\n\t".contains(*c));
    assert_eq!(control, None, "{raw:?}");
    assert!(!raw.contains('\u{9b}'), "{raw:?}");
}

#[test]
fn a_session_in_line_mode_has_no_escape_sequence_and_asks_with_lines() {
    for plain in [false, true] {
        let (peer, directory) = (Peer::start(), tempfile::tempdir().expect("a directory"));
        let mut pty = start(&peer, directory.path(), plain);
        pty.wait_for_text("this is agent 0");
        pty.send("hello there\n");
        let exchange = peer.accept();
        exchange.stream().text("one\ntwo \x1b[31mred\x1b]52;c;eA==\x07\n").text("three").finish("stop").done();
        pty.wait_for_text("three");
        pty.wait_for_text("agent 0: one");
        pty.send("/fork --name docs\n");
        pty.wait_for_text("this is docs");
        pty.send("run it\n");
        let exchange = peer.accept();
        exchange
            .stream()
            .tool_call(0, "c", "bash", "{\"command\":\"touch made && echo it ran\"}")
            .finish("tool_calls")
            .done();
        pty.wait_for_text("answer y");
        pty.wait_for_text("touch made && echo it ran");
        pty.send("n not now\n");
        let exchange = peer.accept();
        let body = String::from_utf8_lossy(&exchange.request().body).into_owned();
        assert!(body.contains("not now"), "the reason is sent: {body}");
        exchange.stream().tool_call(0, "d", "bash", "{\"command\":\"touch other\"}").finish("tool_calls").done();
        pty.wait_for(|screen| screen.contents().matches("answer y").count() == 2, "the second question");
        pty.send("y\n");
        let exchange = peer.accept();
        exchange.stream().text("the end").finish("stop").done();
        pty.wait_for_text("docs: the end");
        assert_eq!(pty.screen_text().matches("three").count(), 2, "once as it came, once in the fork");
        pty.send("/exit\n");
        assert!(pty.wait_exit().success());
        assert_plain(&mut pty);
        assert!(pty.screen_text().contains("-r docs"), "{}", pty.screen_text());
    }
}

#[test]
fn line_mode_leaves_the_terminal_alone() {
    let (peer, directory) = (Peer::start(), tempfile::tempdir().expect("a directory"));
    let mut pty = start(&peer, directory.path(), false);
    pty.wait_for_text("this is agent 0");
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN, "although the program runs");
    pty.send("\x04");
    assert!(pty.wait_exit().success());
    assert_plain(&mut pty);
}
