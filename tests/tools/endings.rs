//! How commands end, and that nothing of them is left when they have.
//!
//! Nothing here measures time: a call is complete only after the last of its processes is gone, and that is what is looked
//! at, the moment it is complete.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use serde_json::json;

use super::Room;

const SUPERVISOR: &str = env!("CARGO_BIN_EXE_polylogue");

/// Processes that do not want to end, each of which rings `bell` when it is there and then stays.
const STUBBORN: &[(&str, &str)] = &[
    ("plain", "echo > bell; sleep 1000"),
    ("ignores TERM", "trap '' TERM; echo > bell; while :; do sleep 1000; done"),
    ("grandchild ignores TERM", "bash -c \"trap '' TERM HUP INT; echo > bell; sleep 1000 & wait\""),
    ("another session", "setsid bash -c 'echo > bell; sleep 1000' & wait"),
    (
        "another session, orphaned, ignores TERM",
        "(setsid bash -c \"trap '' TERM; echo > bell; sleep 1000\" &) ; sleep 1000",
    ),
    ("another group", "set -m; sleep 1000 & sleep 1000 & echo > bell; wait"),
    ("stopped", "bash -c 'sleep 1000 & echo > bell; kill -STOP $$; wait'"),
    ("many", "for i in $(seq 50); do sleep 1000 & done; echo > bell; wait"),
    ("forks again and again", "trap '' TERM; hop() { hop & }; hop; echo > bell; sleep 1000"),
    (
        "starts anew when told to end",
        "trap 'setsid sleep 1000 & sleep 1000' TERM; echo > bell; sleep 1000 & wait; wait",
    ),
    ("closed its outputs", "exec >&- 2>&-; echo > bell; sleep 1000"),
    ("does not stop writing", "echo > bell; yes"),
];

#[test]
fn nothing_is_left_of_a_cancelled_command_when_it_is_complete() {
    for (what, command) in STUBBORN {
        let room = Room::new();
        room.bell("bell");
        let call = room.start_bash(&format!("echo started; {command}"));
        room.hear("bell");
        assert!(!room.alive().is_empty(), "{what}");
        call.running.cancel();
        let result = call.finish();
        assert_eq!(room.alive(), Vec::<String>::new(), "{what}");
        assert!(result.content.starts_with("started\n"), "{what}: {}", result.content);
        assert!(result.content.ends_with("[interrupted]") && result.is_error, "{what}: {}", result.content);
    }
}

#[test]
fn nothing_is_left_of_a_command_whose_supervisor_has_lost_its_parent() {
    for (what, command) in STUBBORN.iter().filter(|(what, _)| *what != "does not stop writing") {
        let room = Room::new();
        room.bell("bell");
        let (from_control, control) = io::pipe().unwrap();
        let mut supervisor = Command::new(SUPERVISOR)
            .args(["--supervise", "--", "bash", "-c", command])
            .current_dir(&room.env.working_directory)
            .stdin(from_control)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        room.hear("bell");
        drop(control);
        supervisor.wait().unwrap();
        assert_eq!(room.alive(), Vec::<String>::new(), "{what}");
    }
}

/// The parent here is a shell that holds the control pipe, and that is killed with no chance to clean up.
#[test]
fn a_parent_killed_by_sigkill_takes_its_commands_with_it() {
    let room = Room::new();
    room.bell("bell");
    let script =
        format!("exec 3> >(exec {SUPERVISOR} --supervise -- bash -c 'setsid sleep 1000 & echo > bell; wait'); read");
    let (mut until_all_ended, output) = io::pipe().unwrap();
    let mut parent = Command::new("bash")
        .args(["-c", &script])
        .current_dir(room.directory.path())
        .stdin(Stdio::piped())
        .stdout(output)
        .spawn()
        .unwrap();
    room.hear("bell");
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The supervisor holds the output to its end.
    until_all_ended.read_to_end(&mut Vec::new()).unwrap();
    room.assert_nothing_is_left();
}

#[test]
fn any_byte_on_the_control_pipe_ends_the_command() {
    let room = Room::new();
    room.bell("bell");
    let mut supervisor = Command::new(SUPERVISOR)
        .args(["--supervise", "--", "bash", "-c", "echo > bell; sleep 1000"])
        .current_dir(&room.env.working_directory)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut control = supervisor.stdin.take().unwrap();
    room.hear("bell");
    control.write_all(b"x").unwrap();
    assert_eq!(supervisor.wait().unwrap().code(), Some(128 + 15));
    room.assert_nothing_is_left();
}

#[test]
fn a_time_limit_ends_everything_and_keeps_what_was_written_so_far() {
    for command in ["echo a; sleep 1000", "echo a; trap '' TERM; setsid sleep 1000 & wait", "echo a; kill -STOP $$"] {
        // A machine that is busy with other tests may need longer to come as far as `echo`.
        let limits = (0..8).map(|doubling| 150 << doubling);
        let outcomes = limits.map(|limit| {
            let room = Room::new();
            let result = room.run("bash", &json!({"command": command, "timeout_ms": limit}));
            room.assert_nothing_is_left();
            assert!(result.is_error && result.content.contains("[timed out after "), "{command}: {}", result.content);
            result.content
        });
        let mut started = outcomes.skip_while(|content| content.starts_with('['));
        let content = started.next().unwrap_or_else(|| panic!("{command} has written nothing"));
        assert_eq!(content.split_once('[').map(|(written, _)| written), Some("a\n"), "{command}: {content}");
    }
}

#[test]
fn a_command_that_never_stops_writing_meets_its_time_limit() {
    let room = Room::new();
    let result = room.run("bash", &json!({"command": "yes", "timeout_ms": 100}));
    assert!(result.content.ends_with("[timed out after 100ms]"), "{}", result.content);
    room.assert_nothing_is_left();
}

#[test]
fn what_a_finished_command_left_in_the_background_is_ended_with_it() {
    for stray in
        ["sleep 1000 &", "setsid sleep 1000 & disown", "(trap '' TERM; setsid sleep 1000 &)", "nohup sleep 1000 2>&1 &"]
    {
        let room = Room::new();
        let result = room.bash(&format!("{stray}\necho done; exit 5"));
        room.assert_nothing_is_left();
        assert_eq!(result.content, "done\n[exit code 5]", "{stray}");
    }
}

#[test]
fn a_process_may_end_in_its_own_way_when_it_is_told_to() {
    let room = Room::new();
    room.bell("bell");
    // Waits on another pipe: who listens to the bell would not hear its end as long as the command holds it open.
    room.bell("silence");
    let call = room.start_bash("trap 'echo goodbye; exit' TERM; echo > bell; while :; do read -t 1 <> silence; done");
    room.hear("bell");
    call.running.cancel();
    assert_eq!(call.finish().content, "goodbye\n[interrupted]");
}

#[test]
fn a_call_that_is_dropped_leaves_nothing() {
    let room = Room::new();
    room.bell("bell");
    let call = room.start_bash("echo > bell; setsid sleep 1000 & wait");
    room.hear("bell");
    drop(call.running);
    call.wakes.recv().unwrap();
    room.assert_nothing_is_left();
}

#[test]
fn twenty_cancelled_at_once_are_all_gone() {
    let room = Room::new();
    let calls: Vec<_> = (0..20)
        .map(|n| {
            room.bell(&format!("bell{n}"));
            room.start_bash(&format!("trap '' TERM; sleep 1000 & setsid sleep 1000 & echo > bell{n}; wait"))
        })
        .collect();
    (0..20).for_each(|n| room.hear(&format!("bell{n}")));
    calls.iter().for_each(|call| call.running.cancel());
    for call in calls {
        assert_eq!(call.finish().content, "[interrupted]");
    }
    room.assert_nothing_is_left();
}

#[test]
fn a_cancellation_at_any_time_after_the_start_is_heard() {
    let room = Room::new();
    for spins in [0, 1_000, 100_000, 1_000_000, 3_000_000] {
        let call = room.start_bash("sleep 1000 & setsid sleep 1000 & wait");
        for _ in 0..spins {
            std::hint::spin_loop();
        }
        call.running.cancel();
        assert!(call.finish().content.contains("interrupted"));
        room.assert_nothing_is_left();
    }
}

#[test]
fn a_command_that_ends_its_supervisor_ends_itself() {
    let room = Room::new();
    assert_eq!(room.bash("sleep 1000 & kill $PPID; wait").content, "[exit code 143]");
    room.assert_nothing_is_left();
    let killed = room.bash("echo a; kill -9 $PPID").content;
    assert!(killed.contains("something killed its supervisor"), "{killed}");
}
