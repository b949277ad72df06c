//! How commands end, and that no process of a command is left when its call is complete.
//!
//! Nothing here measures time: the processes are listed when the call completes.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use serde_json::json;

use super::Workspace;
use crate::support::internals::sandbox::{Policy, SandboxSettings};

const SUPERVISOR: &str = env!("CARGO_BIN_EXE_polylogue");

/// Commands that resist being ended. Each writes to `ready` once it runs.
const STUBBORN: &[(&str, &str)] = &[
    ("plain", "echo > ready; sleep 1000"),
    ("ignores TERM", "trap '' TERM; echo > ready; while :; do sleep 1000; done"),
    ("grandchild ignores TERM", "bash -c \"trap '' TERM HUP INT; echo > ready; sleep 1000 & wait\""),
    ("another session", "setsid bash -c 'echo > ready; sleep 1000' & wait"),
    (
        "another session, orphaned, ignores TERM",
        "(setsid bash -c \"trap '' TERM; echo > ready; sleep 1000\" &) ; sleep 1000",
    ),
    ("another group", "set -m; sleep 1000 & sleep 1000 & echo > ready; wait"),
    ("stopped", "bash -c 'sleep 1000 & echo > ready; kill -STOP $$; wait'"),
    ("many", "for i in $(seq 50); do sleep 1000 & done; echo > ready; wait"),
    ("forks again and again", "trap '' TERM; hop() { hop & }; hop; echo > ready; sleep 1000"),
    (
        "starts new processes on TERM",
        "trap 'setsid sleep 1000 & sleep 1000' TERM; echo > ready; sleep 1000 & wait; wait",
    ),
    ("closed its outputs", "exec >&- 2>&-; echo > ready; sleep 1000"),
    ("does not stop writing", "echo > ready; yes"),
];

#[test]
fn a_cancelled_command_leaves_no_process() {
    for (what, command) in STUBBORN {
        let workspace = Workspace::new();
        workspace.make_fifo("ready");
        let call = workspace.start_bash(&format!("echo started; {command}"));
        workspace.wait_for_fifo("ready");
        assert!(!workspace.live_processes().is_empty(), "{what}");
        call.running.cancel();
        let result = call.finish();
        assert_eq!(workspace.live_processes(), Vec::<String>::new(), "{what}");
        assert!(result.content.starts_with("started\n"), "{what}: {}", result.content);
        assert!(result.content.ends_with("[interrupted]") && result.is_error, "{what}: {}", result.content);
    }
}

#[test]
fn a_command_whose_supervisor_lost_its_parent_leaves_no_process() {
    for (what, command) in STUBBORN.iter().filter(|(what, _)| *what != "does not stop writing") {
        let workspace = Workspace::new();
        workspace.make_fifo("ready");
        let (from_control, control) = io::pipe().unwrap();
        let mut supervisor = Command::new(SUPERVISOR)
            .args(["--supervise", "--", "bash", "-c", command])
            .current_dir(&workspace.env.working_directory)
            .stdin(from_control)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        workspace.wait_for_fifo("ready");
        drop(control);
        supervisor.wait().unwrap();
        assert_eq!(workspace.live_processes(), Vec::<String>::new(), "{what}");
    }
}

/// The parent is a shell that holds the control pipe and is killed without a chance to clean up.
#[test]
fn the_commands_of_a_parent_killed_by_sigkill_are_ended() {
    let workspace = Workspace::new();
    workspace.make_fifo("ready");
    let script =
        format!("exec 3> >(exec {SUPERVISOR} --supervise -- bash -c 'setsid sleep 1000 & echo > ready; wait'); read");
    let (mut until_all_ended, output) = io::pipe().unwrap();
    let mut parent = Command::new("bash")
        .args(["-c", &script])
        .current_dir(workspace.directory.path())
        .stdin(Stdio::piped())
        .stdout(output)
        .spawn()
        .unwrap();
    workspace.wait_for_fifo("ready");
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The supervisor holds the output open until it ends.
    until_all_ended.read_to_end(&mut Vec::new()).unwrap();
    workspace.assert_no_processes();
}

#[test]
fn any_byte_on_the_control_pipe_ends_the_command() {
    let workspace = Workspace::new();
    workspace.make_fifo("ready");
    let mut supervisor = Command::new(SUPERVISOR)
        .args(["--supervise", "--", "bash", "-c", "echo > ready; sleep 1000"])
        .current_dir(&workspace.env.working_directory)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut control = supervisor.stdin.take().unwrap();
    workspace.wait_for_fifo("ready");
    control.write_all(b"x").unwrap();
    assert_eq!(supervisor.wait().unwrap().code(), Some(128 + 15));
    workspace.assert_no_processes();
}

#[test]
fn a_time_limit_ends_all_processes_and_keeps_the_output_so_far() {
    for command in ["echo a; sleep 1000", "echo a; trap '' TERM; setsid sleep 1000 & wait", "echo a; kill -STOP $$"] {
        // On a busy machine it may take longer until `echo` runs.
        let limits = (0..8).map(|doubling| 150 << doubling);
        let outcomes = limits.map(|limit| {
            let workspace = Workspace::new();
            let result = workspace.run("bash", &json!({"command": command, "timeout": limit}));
            workspace.assert_no_processes();
            assert!(result.is_error && result.content.contains("[timed out after "), "{command}: {}", result.content);
            result.content
        });
        let mut started = outcomes.skip_while(|content| content.starts_with('['));
        let content = started.next().unwrap_or_else(|| panic!("{command} has written nothing"));
        assert_eq!(content.split_once('[').map(|(written, _)| written), Some("a\n"), "{command}: {content}");
    }
}

#[test]
fn a_command_that_never_stops_writing_is_ended_at_its_time_limit() {
    let workspace = Workspace::new();
    let result = workspace.run("bash", &json!({"command": "yes", "timeout": 100}));
    assert!(result.content.ends_with("[timed out after 100ms]"), "{}", result.content);
    workspace.assert_no_processes();
}

#[test]
fn background_processes_are_ended_with_their_command() {
    for stray in
        ["sleep 1000 &", "setsid sleep 1000 & disown", "(trap '' TERM; setsid sleep 1000 &)", "nohup sleep 1000 2>&1 &"]
    {
        let workspace = Workspace::new();
        let result = workspace.bash(&format!("{stray}\necho done; exit 5"));
        workspace.assert_no_processes();
        assert_eq!(result.content, "done\n[exit code 5]", "{stray}");
    }
}

#[test]
fn a_process_may_clean_up_on_term() {
    let workspace = Workspace::new();
    workspace.make_fifo("ready");
    // Waits on another pipe: the reader of `ready` would not get end of file while the command holds it open.
    workspace.make_fifo("silence");
    let call =
        workspace.start_bash("trap 'echo goodbye; exit' TERM; echo > ready; while :; do read -t 1 <> silence; done");
    workspace.wait_for_fifo("ready");
    call.running.cancel();
    assert_eq!(call.finish().content, "goodbye\n[interrupted]");
}

#[test]
fn a_dropped_call_leaves_no_process() {
    let workspace = Workspace::new();
    workspace.make_fifo("ready");
    let call = workspace.start_bash("echo > ready; setsid sleep 1000 & wait");
    workspace.wait_for_fifo("ready");
    drop(call.running);
    call.wakes.recv().unwrap();
    workspace.assert_no_processes();
}

#[test]
fn twenty_calls_cancelled_at_once_leave_no_process() {
    let workspace = Workspace::new();
    let calls: Vec<_> = (0..20)
        .map(|n| {
            workspace.make_fifo(&format!("ready{n}"));
            workspace.start_bash(&format!("trap '' TERM; sleep 1000 & setsid sleep 1000 & echo > ready{n}; wait"))
        })
        .collect();
    (0..20).for_each(|n| workspace.wait_for_fifo(&format!("ready{n}")));
    calls.iter().for_each(|call| call.running.cancel());
    for call in calls {
        assert_eq!(call.finish().content, "[interrupted]");
    }
    workspace.assert_no_processes();
}

#[test]
fn a_call_can_be_cancelled_at_any_time_after_its_start() {
    let workspace = Workspace::new();
    for spins in [0, 1_000, 100_000, 1_000_000, 3_000_000] {
        let call = workspace.start_bash("sleep 1000 & setsid sleep 1000 & wait");
        for _ in 0..spins {
            std::hint::spin_loop();
        }
        call.running.cancel();
        assert!(call.finish().content.contains("interrupted"));
        workspace.assert_no_processes();
    }
}

#[test]
fn a_command_that_ends_its_supervisor_is_ended() {
    let mut workspace = Workspace::new();
    assert_eq!(workspace.bash("kill -9 $PPID; echo a").content, "a\n", "the sandbox protects it");
    let settings = SandboxSettings { is_enabled: false, ..SandboxSettings::default() };
    workspace.env.sandbox = Policy::new(settings);
    assert_eq!(workspace.bash("sleep 1000 & kill $PPID; wait").content, "[exit code 143]");
    workspace.assert_no_processes();
    let killed = workspace.bash("echo a; kill -9 $PPID").content;
    assert!(killed.contains("the process that runs commands was killed"), "{killed}");
}

#[test]
fn a_supervisor_never_ends_the_process_group_of_its_parent() {
    // A script that has started something and becomes the supervisor leaves it a child in the group of the script.
    let script = "trap '' TERM; sleep 1000 & exec \"$0\" --supervise -- true";
    let mut parent = Command::new("bash");
    parent.args(["-c", "bash -c \"$1\" \"$0\"; echo alive", SUPERVISOR, script]).process_group(0);
    let output = crate::support::output(&mut parent);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "alive\n");
}
