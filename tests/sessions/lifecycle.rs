//! Starting and stopping a server.

use rustix::process::Signal;

use super::App;

#[test]
fn a_second_server_is_refused_and_names_the_first() {
    let app = App::served();
    for args in [&["serve"][..], &["serve", "--background"]] {
        let output = app.run(args);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert_eq!(output.out, "");
        let message = format!("process {} already serves", app.pid());
        assert!(output.err.contains(&message) && output.err.contains("polylogue attach --data-dir"), "{output:?}");
    }
    app.get(&["ps"]);
}

#[test]
fn the_socket_of_a_killed_server_is_replaced_and_nothing_is_lost() {
    let mut app = App::served();
    app.get(&["tell", "0", "before"]);
    app.get(&["wait", "0"]);
    app.signal(Signal::KILL);
    app.server_ends();
    assert!(app.path().join("server/socket").exists(), "the killed server could not remove it");
    let output = app.run(&["tell", "0", "not delivered"]);
    assert_eq!(output.code, Some(1));
    assert!(output.err.contains("no server for"), "{output:?}");
    assert!(app.get(&["logs", "0"]).contains("> before\nbefore\n"), "it is read from what is kept");
    app.serve();
    assert!(app.get(&["logs", "0"]).contains("> before\nbefore\n"));
}

#[test]
fn a_background_server_ignores_hang_up_and_ends_on_sigterm_or_stop() {
    let mut app = App::served();
    app.signal(Signal::HUP);
    app.get(&["ps"]);
    app.signal(Signal::TERM);
    app.server_ends();
    assert!(!app.path().join("server/socket").exists());
    app.serve();
    app.get(&["stop"]);
    // The answer comes when it is over: the next one can begin at once.
    app.serve();
}

#[test]
fn a_foreground_server_prints_how_to_attach_and_ends_on_ctrl_c() {
    let app = App::new();
    let mut pty = app.terminal(&["serve"], (200, 24));
    pty.wait_for_text("attaches a terminal");
    app.get(&["ps"]);
    pty.send("\x03");
    assert_eq!(pty.wait_exit().code(), Some(0));
}

#[test]
fn a_foreground_server_survives_a_hang_up() {
    let app = App::new();
    let mut pty = app.terminal(&["serve"], (200, 24));
    pty.wait_for_text("attaches a terminal");
    pty.kill(Signal::HUP);
    app.get(&["ps"]);
    app.get(&["stop"]);
    assert_eq!(pty.wait_exit().code(), Some(0));
}

#[test]
fn errors_at_the_start_of_a_server_are_printed_by_the_command() {
    let app = App::new();
    std::fs::write(app.path().join("config.toml"), "working_limit = \"many\"").expect("a file");
    let file = app.path().join("config.toml");
    let file = file.to_str().expect("UTF-8");
    for args in [&["--config", file, "serve"][..], &["--config", file, "serve", "--background"]] {
        let output = app.run(args);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.err.contains("working_limit: expected a whole number"), "{output:?}");
    }
    let output = app.run(&["--ephemeral", "serve"]);
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("there is no server with --ephemeral"), "{output:?}");
}
