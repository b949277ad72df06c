//! A server of another version.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::channel;

use polylogue::Store;
use serde_json::{Value, json};

use super::App;
use crate::support::PATIENCE;
use crate::support::pty::TerminalLeft;

/// A process that holds the directory of this app until it is asked to stop, and answers `status` with this.
fn serves(app: &App, status: Value) {
    let (directory, (ready, is_ready)) = (app.path().to_owned(), channel());
    std::thread::spawn(move || answer(directory, &status, || ready.send(()).expect("the test waits")));
    is_ready.recv_timeout(PATIENCE).expect("it listens");
}

fn answer(directory: PathBuf, status: &Value, ready: impl FnOnce()) {
    let store = Store::open(&directory).expect("a store");
    let path = directory.join("server");
    std::fs::DirBuilder::new().mode(0o700).create(&path).expect("a directory");
    let listener = UnixListener::bind(path.join("socket")).expect("a socket");
    std::fs::set_permissions(path.join("socket"), std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    ready();
    for stream in listener.incoming() {
        let stream = stream.expect("a client");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        for line in BufReader::new(&stream).lines().map_while(Result::ok) {
            let request: Value = serde_json::from_str(&line).expect("JSON");
            let is_stop = request["argv"][0] == "exit";
            let response = if is_stop { json!({"ok": null}) } else { status.clone() };
            writeln!(&stream, "{response}").expect("it reads");
            if is_stop {
                // A child of another test that is just being started has a copy of the listener.
                std::fs::remove_file(path.join("socket")).expect("it is there");
                return drop((listener, store));
            }
        }
    }
}

#[test]
fn a_server_of_another_version_is_stopped_if_the_person_agrees_and_a_chat_goes_on() {
    for args in [&[][..], &["attach"]] {
        let app = App::new();
        serves(&app, json!({"ok": {"text": null, "data": {"version": "9.9.9"}}}));
        let mut pty = app.terminal(args, (100, 24));
        pty.wait_for_text("is polylogue 9.9.9, this is polylogue");
        pty.wait_for_text("attach to it (n)?");
        pty.send("y\r");
        pty.wait_for_text("many agents in one terminal");
        pty.leave();
        assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
    }
}

#[test]
fn a_server_that_speaks_another_protocol_goes_on_and_the_client_says_so() {
    let app = App::new();
    let refusal = "the server speaks protocol version 2, the client 4: use the same version of polylogue for both";
    serves(&app, json!({"error": {"kind": "usage", "text": refusal}}));
    let mut pty = app.terminal(&[], (100, 24));
    pty.wait_for_text("does not say its version");
    pty.wait_for_text("leave it running (n)?");
    pty.send("n\r");
    assert_eq!(pty.wait_exit().code(), Some(1));
    assert!(pty.screen_text().contains("they do not understand each other"), "{}", pty.screen_text());
    let output = app.run(&["ps"]);
    assert!(output.err.contains("the server speaks protocol version 2"), "{output:?}");
}
