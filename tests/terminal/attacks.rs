//! What an approved command tries against the program that runs it, without a sandbox.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, geteuid};
use serde_json::json;

use super::{Chat, Marked, PROGRAM, Start, eventually, is_ready};
use crate::support::program::Home;
use crate::support::pty::Pty;

const FLAG: &str = "--dangerously-no-sandbox";

/// In the sandbox a command reaches neither its supervisor nor the program.
fn without_sandbox() -> Chat {
    Chat::start(Start { args: vec![FLAG], ..Start::default() })
}

/// Runs a command through an approved tool call.
fn run(chat: &mut Chat, command: &str) {
    chat.say(&format!("%tool bash {}", json!({ "command": command })));
    chat.sees("y to run it");
    chat.pty.send("y");
}

#[test]
fn a_command_that_kills_its_supervisor_is_ended_with_all_its_processes() {
    let mut chat = without_sandbox();
    let marker = Marked::new();
    let sleep = format!("sleep {}", marker.seconds);
    run(&mut chat, &format!("(setsid {sleep} &) ; {sleep} & kill -9 $PPID; {sleep}"));
    chat.sees("[no exit code: the process that runs commands was killed]");
    marker.is_gone();
    run(&mut chat, "echo a-$((20+3))-z");
    chat.sees("a-23-z");
}

#[test]
fn a_command_that_stops_its_supervisor_does_not_delay_its_end() {
    let mut chat = without_sandbox();
    run(&mut chat, "kill -STOP $PPID; echo a-$((20+3))-z");
    chat.sees("a-23-z");
}

#[test]
fn a_command_that_keeps_its_supervisor_stopped_is_ended_by_esc() {
    let mut chat = without_sandbox();
    let marker = Marked::new();
    let stop = format!("trap '' TERM; while :; do kill -STOP $PPID; done; sleep {}", marker.seconds);
    run(&mut chat, &stop);
    eventually("the command to run", || !marker.processes().is_empty());
    chat.pty.send("\x1b");
    chat.sees("interrupted");
    marker.is_gone();
}

#[test]
fn a_command_that_has_stopped_its_supervisor_is_ended_when_the_program_is_killed() {
    let mut chat = without_sandbox();
    let marker = Marked::new();
    run(&mut chat, &format!("kill -STOP $PPID; sleep {}", marker.seconds));
    let is_sleep = |(_, line): &(_, String)| line.starts_with("sleep");
    eventually("the command to run", || marker.processes().iter().any(is_sleep));
    chat.pty.kill(Signal::KILL);
    eventually("the end of all", || marker.processes().is_empty());
}

#[test]
fn a_descriptor_that_somebody_left_open_is_closed_for_commands() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().display();
    std::fs::write(directory.path().join("secret"), "planted").expect("a file");
    let script = format!("exec 9<'{path}/secret' '{PROGRAM}' {FLAG} --data-dir '{path}'");
    let mut pty = Pty::spawn("/bin/sh", &["-c", &script], &[("HOME", "/")], (80, 24));
    pty.wait_for(is_ready, "a prompt");
    let mut chat = Chat { pty, directory };
    run(&mut chat, "cat <&9; echo over-$((20+3)): $(ls /proc/self/fd | tr '\\n' ' ')");
    chat.sees("over-23: 0 1 2 ");
    assert!(!chat.pty.screen_text().contains("planted"));
}

/// The program as a user without privileges: root may read every process.
fn start_unprivileged(directory: &Path, envs: &[(&str, &str)]) -> Pty {
    // Where every user may run it, wherever the build lies, and by another process: see `refusals`.
    let program = directory.join("program");
    assert!(Command::new("cp").arg(PROGRAM).arg(&program).status().expect("cp is there").success());
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let command = format!("exec '{0}/program' {FLAG} --data-dir '{0}/data'", directory.display());
    let script = match geteuid().is_root() {
        true => command.replace("exec", "exec setpriv --reuid=65534 --regid=65534 --clear-groups"),
        false => command,
    };
    Pty::spawn("/bin/sh", &["-c", &script], envs, (120, 24))
}

#[test]
fn a_command_cannot_read_environment_memory_and_descriptors_of_the_program() {
    let directory = tempfile::tempdir().expect("a directory");
    let envs = [("HOME", "/"), ("PLANTED_API_KEY", "planted"), ("LANG", "C.UTF-8")];
    let mut pty = start_unprivileged(directory.path(), &envs);
    pty.wait_for(is_ready, "a prompt");
    let program = pty.pid();
    let mut chat = Chat { pty, directory };
    let read = "for p in $PPID PROGRAM; do for f in environ mem maps fd/0 cwd root; do \
        head -c 1 /proc/$p/$f >/dev/null 2>&1 && echo READ $p/$f; readlink /proc/$p/$f && echo LINK $p/$f; done; done; \
        head -c 1 /proc/$$/environ >/dev/null && echo READ-self; echo over-$((20+3))";
    run(&mut chat, &read.replace("PROGRAM", &program.to_string()));
    chat.sees("2 lines");
    chat.pty.send("\x0f");
    chat.sees("│ READ-self\n│ over-23\n");
}

#[test]
fn a_command_cannot_use_the_server_that_runs_it() {
    let home = Home::new();
    assert_eq!(home.run(&["serve", "--background", FLAG]).code, 0);
    let data = home.data();
    let requests = "send 0 hello|kill 0|interrupt 0|stop|ps|attach|send 0 \"$(seq 10000)\"";
    let commands = requests.split('|').map(|request| format!("'{PROGRAM}' --data-dir '{}' {request}", data.display()));
    let script = commands.collect::<Vec<_>>().join("; ");
    let orphan = format!("(setsid sh -c \"'{PROGRAM}' --data-dir '{}' kill 0; touch done\" &)", data.display());
    let script = format!("cd; {script}; {orphan}; until [ -e done ]; do :; done; echo over-$((20+3))");
    let start = Start { args: vec!["attach"], size: (200, 50), ..Start::default() };
    let mut chat = Chat { pty: start.on(&data), directory: tempfile::tempdir().expect("a directory") };
    chat.pty.wait_for(is_ready, "a prompt");
    run(&mut chat, &script);
    chat.sees("over-23");
    let log = home.run(&["logs", "0", "--json"]).out;
    let refusals = log.matches("a command that a tool has started cannot use the server").count();
    // The reply repeats the result in pieces.
    assert_eq!(refusals, 8, "{log}");
    assert_eq!(home.run(&["stop"]).code, 0);
}
