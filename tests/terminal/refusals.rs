//! Errors at startup: one line, an exit code for scripts, and the terminal is not touched.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Chat, PROGRAM, Start};
use crate::support::pty::{Pty, TerminalLeft};

/// Waits for the end, and gives the exit code and what is on the screen. The terminal was not touched.
fn refusal(mut pty: Pty) -> (i32, String) {
    let code = pty.wait_exit().code().expect("an exit");
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
    assert!(!pty.raw_output().contains(&0x1b), "no control sequence at all");
    (code, pty.screen_text())
}

fn refused_with(args: &[&str], directory: &Path) -> (i32, String) {
    refusal(Start { args: args.to_vec(), ..Start::default() }.on(directory))
}

#[test]
fn a_second_process_on_the_same_directory_learns_which_one_holds_it() {
    let mut chat = Chat::new();
    chat.answers_no_other_process();
    let mut second = Start { size: (200, 24), ..Start::default() }.on(chat.directory.path());
    second.wait_for_text(&format!("waiting for process {}", chat.pty.pid()));
    second.send("\x03");
    assert_eq!(second.wait_exit().code(), None, "it waited");
    assert_eq!(second.terminal_left(), TerminalLeft::CLEAN);
    chat.pty.send("still here\r");
    chat.sees_answer("still here", "still here");
}

#[test]
fn a_directory_that_cannot_be_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").expect("a file");
    let (code, message) = refusal(Start { size: (200, 24), ..Start::default() }.on(&file));
    assert_eq!(code, 1);
    assert!(message.contains("file"), "{message}");
    assert_eq!(std::fs::read(&file).expect("the file"), b"not a directory");
    let (code, message) = refusal(Start { size: (200, 24), ..Start::default() }.on(&file.join("below")));
    assert_eq!(code, 1);
    assert!(message.contains("a part of the path is not a directory"), "{message}");
    let (code, message) = refusal(Start { size: (200, 24), ..Start::default() }.on(Path::new("/proc/nothing/here")));
    assert_eq!(code, 1);
    assert!(message.contains("/proc/nothing/here"), "{message}");
}

#[test]
fn an_unknown_model_is_refused_with_the_configured_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let (code, message) = refused_with(&["--model", "nonsense"], directory.path());
    assert_eq!(code, 2);
    assert!(message.contains("nonsense") && message.contains("openai/MODEL"), "{message}");
    let (code, message) = refused_with(&["-m", "openai/x"], directory.path());
    assert_eq!(code, 3);
    assert!(message.contains("OPENAI_API_KEY"), "{message}");
    let (code, message) = refused_with(&["--no-such-option"], directory.path());
    assert_eq!(code, 2);
    assert!(message.contains("--no-such-option"), "{message}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0, "nothing was made");
}

#[test]
fn help_and_version_need_no_terminal() {
    for (option, expected) in [("--help", "--data-dir"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let output = without_terminal().arg(option).output().expect("it runs");
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected));
    }
}

#[test]
fn without_a_terminal_there_is_an_error_of_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = without_terminal().arg("--data-dir").arg(directory.path()).output().expect("it runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("no terminal (") && message.lines().count() == 1, "{message}");
    assert!(output.stdout.is_empty());
}

#[test]
fn stdin_that_is_a_file_does_not_matter_where_a_terminal_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = format!("exec '{PROGRAM}' --data-dir '{}' < /dev/null", directory.path().display());
    let mut pty = Pty::spawn("/bin/sh", &["-c", &script], &[], (80, 24));
    pty.wait_for_text("? keys");
    pty.send("hello\r");
    pty.wait_for_answer("hello", "hello");
    pty.leave();
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
}

/// In a session of its own, where no terminal can be opened.
fn without_terminal() -> Command {
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(PROGRAM).stdin(Stdio::null());
    command
}

/// What is done to a file.
type Spoil = fn(&Path);

/// A directory with a store with one message, after this was done to its file.
fn after(spoil: impl FnOnce(&Path)) -> tempfile::TempDir {
    let mut chat = Chat::new();
    chat.say(&"words ".repeat(2_000));
    chat.is_answered();
    chat.pty.send("\x04");
    chat.ends_well();
    spoil(&chat.directory.path().join("polylogue.db"));
    chat.directory
}

#[test]
fn a_newer_damaged_or_invalid_database_is_rejected_unchanged() {
    let newer = |file: &Path| {
        let conn = rusqlite::Connection::open(file).expect("a database");
        conn.execute_batch("PRAGMA user_version = 99").expect("a version");
    };
    let cut = |file: &Path| {
        let file = std::fs::OpenOptions::new().write(true).open(file).expect("the file");
        file.set_len(10_000).expect("it can be cut");
    };
    let text_file = |file: &Path| std::fs::write(file, "not a database ".repeat(100)).expect("a text file");
    let cases: [(Spoil, &str); 3] =
        [(newer, "newer polylogue"), (cut, "database is damaged"), (text_file, "not a database")];
    for (spoil, why) in cases {
        let directory = after(spoil);
        let file = directory.path().join("polylogue.db");
        let before = std::fs::read(&file).expect("the file");
        for args in [vec![], vec!["--read-only"]] {
            let start = Start { args, size: (240, 24), ..Start::default() };
            let (code, message) = refusal(start.on(directory.path()));
            assert_eq!((code, message.trim().lines().count()), (1, 1), "{message}");
            assert!(message.contains(why) && message.contains(directory.path().to_str().expect("a path")), "{message}");
        }
        assert!(std::fs::read(&file).expect("the file") == before, "{why}: it was touched");
    }
}

/// Starts the program as an unprivileged user, whom permissions restrict.
fn start_unprivileged(program: &Path, directory: &Path) -> Pty {
    let command = format!("{} --data-dir {}", program.display(), directory.display());
    let script = match rustix::process::geteuid().is_root() {
        true => format!("exec setpriv --reuid=65534 --regid=65534 --clear-groups {command}"),
        false => format!("exec {command}"),
    };
    Pty::spawn("/bin/sh", &["-c", &script], &[("HOME", "/")], (240, 24))
}

#[test]
fn a_directory_without_write_permission_is_an_error() {
    let directory = after(|_| ());
    // Only its owner may look into it.
    std::fs::remove_dir(directory.path().join("server")).expect("an empty directory");
    // Where every user may run it, wherever the build lies. By another process: a file that is open for writing cannot
    // be run, and what other tests start at this moment inherits what this process has open.
    let program = directory.path().join("program");
    assert!(Command::new("cp").arg(PROGRAM).arg(&program).status().expect("cp is there").success());
    let permit = |mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(directory.path(), permissions).expect("it is ours");
    };
    permit(0o555);
    let (code, message) = refusal(start_unprivileged(&program, directory.path()));
    assert_eq!(code, 1);
    assert!(message.contains("no permission to write here") && message.contains("another directory"), "{message}");
    let below = directory.path().join("below");
    let (code, message) = refusal(start_unprivileged(&program, &below));
    assert_eq!(code, 1);
    assert!(message.contains("no permission to write here"), "{message}");
    permit(0o700);
}

#[test]
fn inline_is_refused_on_the_linux_console_which_has_no_scrollback() {
    let directory = tempfile::tempdir().expect("a directory");
    let envs = vec![("LANG", "C.UTF-8"), ("TERM", "linux")];
    let (code, message) = refusal(Start { args: vec!["--inline"], envs, size: (200, 24) }.on(directory.path()));
    assert_eq!(code, 2);
    assert!(message.contains("the Linux console has none: start without it"), "{message}");
}
