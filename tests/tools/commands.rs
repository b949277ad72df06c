//! What a command is given, and what is given back of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::json;

use super::Room;

#[test]
fn both_outputs_come_in_the_order_in_which_they_were_written() {
    let result = Room::new().bash("for n in 1 2 3; do echo out $n; echo err $n >&2; done");
    assert_eq!(result.content, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    assert!(!result.is_error);
    assert_eq!((result.call_id.as_str(), result.name.as_str()), ("call-1", "bash"));
}

#[test]
fn a_code_other_than_0_and_a_signal_are_told_and_are_errors() {
    for (command, expected) in [
        ("echo a; exit 3", "a\n[exit code 3]"),
        ("printf a; exit 3", "a\n[exit code 3]"),
        ("exit 255", "[exit code 255]"),
        ("kill -9 $$", "[exit code 137]"),
        ("nosuchcommand 2>/dev/null", "[exit code 127]"),
    ] {
        let result = Room::new().bash(command);
        assert_eq!((result.content.as_str(), result.is_error), (expected, true), "{command}");
    }
}

#[test]
fn silence_is_told_so_that_a_model_does_not_wonder() {
    assert_eq!(Room::new().bash("true").content, "[no output]");
}

#[test]
fn there_is_nothing_to_read_from() {
    assert_eq!(Room::new().bash("cat; read x || echo nothing").content, "nothing\n");
}

#[test]
fn there_is_no_terminal_to_ask_a_person_on() {
    let result = Room::new().bash("tty; (: < /dev/tty) 2>/dev/null || echo none; ps -o tty= -p $$");
    assert_eq!(result.content, "not a tty\nnone\n?\n");
}

#[test]
fn the_command_leads_its_own_group_in_another_session() {
    let result = Room::new()
        .bash("ps -o pid=,pgid= -p $$ | { read pid group; [ $pid = $group ] && echo own; }; ps -o sess= -p $$");
    let (own, session) = result.content.split_once('\n').unwrap();
    // From /proc and not from getsid: where the leader of our session is outside of a PID namespace its number is 0.
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let ours = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap();
    assert_eq!(own, "own");
    assert_ne!(session.trim(), ours);
}

#[test]
fn it_runs_in_the_working_directory() {
    let room = Room::new();
    assert_eq!(room.bash("pwd").content.trim(), room.env.working_directory.to_str().unwrap());
}

#[test]
fn secrets_and_loader_settings_do_not_reach_a_command() {
    let (from_control, _control) = std::io::pipe().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_polylogue"))
        .args(["--supervise", "--", "env"])
        .envs([("PROBE_API_KEY", "1"), ("probe_token", "1"), ("PROBE_SECRET", "1"), ("LD_PROBE", "1")])
        .envs([("PROBE_COLOR", "blue"), ("TERM", "xterm"), ("PAGER", "less")])
        .stdin(from_control)
        .output()
        .unwrap();
    let seen = String::from_utf8(output.stdout).unwrap();
    for withheld in ["PROBE_API_KEY", "probe_token", "PROBE_SECRET", "LD_PROBE"] {
        assert!(!seen.contains(withheld), "{seen}");
    }
    for given in ["PROBE_COLOR=blue\n", "TERM=dumb\n", "PAGER=cat\n", "GIT_TERMINAL_PROMPT=0\n", "PATH="] {
        assert!(seen.contains(given), "{seen}");
    }
}

#[test]
fn a_long_output_is_shortened_and_kept_whole_in_a_file_of_the_owner_alone() {
    let room = Room::new();
    let result = room.bash("seq 1 20000");
    let whole: String = (1..=20000).map(|n| format!("{n}\n")).collect();
    let file = fs::read_dir(&room.env.output_directory).unwrap().next().unwrap().unwrap().path();
    assert!(result.content.len() < 4096 + 300);
    assert!(result.content.starts_with("1\n2\n") && result.content.ends_with("19999\n20000\n"));
    assert!(result.content.contains(file.to_str().unwrap()));
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&room.env.output_directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    assert_eq!(Room::new().bash(r"printf 'a\xff\x00b'").content, "a\u{fffd}\u{fffd}b");
}

/// In the environment of the copy of this binary that runs one test alone: the memory of others is not its own.
const ALONE: &str = "POLYLOGUE_TEST_MEMORY_ALONE";

#[test]
fn a_hundred_megabytes_cost_neither_memory_nor_more_than_their_share_of_the_disk() {
    if std::env::var_os(ALONE).is_none() {
        let mut copy = Command::new(std::env::current_exe().unwrap());
        copy.args(["--exact", "--nocapture"]).arg(std::thread::current().name().unwrap()).env(ALONE, "1");
        let output = copy.output().unwrap();
        let words = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && words.contains("1 passed"),
            "{words}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    let room = Room::new();
    let before = peak_memory();
    let result = room.bash("yes | head -c 100000000");
    assert!(result.content.contains("the whole is 100000000 bytes, of which the first 67108864 are in"));
    assert!(result.content.len() < 4096 + 300 && !result.is_error);
    let file = fs::read_dir(&room.env.output_directory).unwrap().next().unwrap().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 64 << 20);
    assert!(peak_memory() - before < 50_000, "{before} kB, then {} kB", peak_memory());
}

/// The most memory that this process ever had, in kB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_command_that_closes_its_outputs_is_still_waited_for() {
    let room = Room::new();
    room.bell("bell");
    let call = room.start_bash("exec >&- 2>&-; echo > bell; exit 4");
    room.hear("bell");
    assert_eq!(call.finish().content, "[exit code 4]");
}

#[test]
fn twenty_commands_at_once_do_not_disturb_each_other() {
    let rooms: Vec<Room> = (0..20).map(|_| Room::new()).collect();
    let command = |n: usize| format!("for i in 1 2 3; do echo {n}; done; exit {n}");
    let calls: Vec<_> = rooms.iter().enumerate().map(|(n, room)| room.start_bash(&command(n))).collect();
    for (n, call) in calls.into_iter().enumerate() {
        let code = if n == 0 { String::new() } else { format!("[exit code {n}]") };
        assert_eq!(call.finish().content, format!("{n}\n{n}\n{n}\n{code}"));
    }
}

#[test]
fn what_cannot_be_a_command_is_refused_with_words() {
    let room = Room::new();
    for (arguments, expected) in [
        (json!({}), "`command` is missing"),
        (json!({"command": 5}), "`command` must be a string"),
        (json!({"command": "ls", "timeout": 5}), "there is no argument `timeout`"),
        (json!({"command": "ls", "timeout_ms": 0}), "at least 1"),
        (json!({"command": " \n"}), "empty"),
        (json!({"command": "echo a\0b"}), "NUL"),
        (json!({"command": "x".repeat(200_000)}), "write a script"),
    ] {
        let words = room.prepare("bash", &arguments).unwrap_err();
        assert!(words.contains(expected), "{words}");
    }
    assert!(!room.bash(&format!(": {}", "x".repeat(99_000))).is_error);
}

#[test]
fn a_person_is_shown_the_exact_command_and_where_it_runs() {
    let room = Room::new();
    let question = room.prepare("bash", &json!({"command": "ls\nrm \u{202e}x", "timeout_ms": 500})).unwrap().question;
    let directory = room.env.working_directory.display();
    assert_eq!(question.title, "bash: ls …");
    assert_eq!(question.detail, ["ls", "rm \\u{202e}x", &format!("in {directory}"), "for at most 500ms"]);
}

#[test]
fn what_cannot_be_started_is_an_error_with_words() {
    let mut room = Room::new();
    room.env.supervisor = "/nowhere/polylogue".into();
    assert!(room.bash("true").content.starts_with("The command was not run: "));
    let mut room = Room::new();
    room.env.working_directory = "/nowhere".into();
    assert!(room.bash("true").is_error);
}

#[test]
fn a_program_that_is_not_there_is_said_by_the_supervisor() {
    let output = Command::new(env!("CARGO_BIN_EXE_polylogue"))
        .args(["--supervise", "--", "/nowhere/program"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(126));
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot run /nowhere/program"));
}
