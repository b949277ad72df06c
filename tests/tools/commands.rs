//! The environment in which commands run, and what is returned of their output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::json;

use super::Workspace;

#[test]
fn stdout_and_stderr_are_combined_in_the_order_written() {
    let result = Workspace::new().bash("for n in 1 2 3; do echo out $n; echo err $n >&2; done");
    assert_eq!(result.content, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    assert!(!result.is_error);
    assert_eq!((result.call_id.as_str(), result.name.as_str()), ("call-1", "bash"));
}

#[test]
fn a_nonzero_exit_code_and_a_signal_are_errors() {
    for (command, expected) in [
        ("echo a; exit 3", "a\n[exit code 3]"),
        ("printf a; exit 3", "a\n[exit code 3]"),
        ("exit 255", "[exit code 255]"),
        ("kill -9 $$", "[exit code 137]"),
        ("nosuchcommand 2>/dev/null", "[exit code 127]"),
    ] {
        let result = Workspace::new().bash(command);
        assert_eq!((result.content.as_str(), result.is_error), (expected, true), "{command}");
    }
}

#[test]
fn empty_output_is_reported() {
    assert_eq!(Workspace::new().bash("true").content, "[no output]");
}

#[test]
fn standard_input_is_empty() {
    assert_eq!(Workspace::new().bash("cat; read x || echo nothing").content, "nothing\n");
}

#[test]
fn there_is_no_terminal() {
    let result = Workspace::new().bash("tty; (: < /dev/tty) 2>/dev/null || echo none; ps -o tty= -p $$");
    assert_eq!(result.content, "not a tty\nnone\n?\n");
}

#[test]
fn a_command_has_its_own_process_group_in_another_session() {
    let workspace = Workspace::new();
    workspace.make_fifo("ready");
    let group = "ps -o pid=,pgid= -p $$ | { read pid group; [ $pid = $group ] && echo own; }";
    let call = workspace.start_bash(&format!("{group}; echo > ready; while :; do sleep 1000; done"));
    workspace.wait_for_fifo("ready");
    // Compared as this process sees both: inside the sandbox every session that began outside of it is 0,
    // and so is our own here if it began outside of our PID namespace.
    let ours = session_of("self");
    let processes = workspace.live_processes();
    assert!(!processes.is_empty());
    for process in processes {
        let (id, _) = process.split_once(' ').unwrap();
        assert_ne!(session_of(id), ours, "{process}");
    }
    call.running.cancel();
    assert_eq!(call.finish().content, "own\n[interrupted]");
}

/// The session of a process as `/proc` tells it.
fn session_of(process: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned()
}

#[test]
fn a_command_runs_in_the_working_directory_or_in_workdir() {
    let workspace = Workspace::new();
    assert_eq!(workspace.bash("pwd").content.trim(), workspace.env.working_directory.to_str().unwrap());
    fs::create_dir(workspace.path("sub")).unwrap();
    let missing = workspace.run("bash", &json!({"cmd": "pwd", "workdir": "/gone"}));
    assert_eq!((missing.content.as_str(), missing.is_error), ("working directory /gone: does not exist", true));
    let result = workspace.run("bash", &json!({"cmd": "pwd", "workdir": "sub"}));
    assert_eq!(result.content.trim(), workspace.path("sub").to_str().unwrap());
}

#[test]
fn only_the_usual_variables_are_passed_to_a_command() {
    let (from_control, _control) = std::io::pipe().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_polylogue"))
        .args(["--supervise", "--", "env"])
        .envs([("PROBE_API_KEY", "1"), ("probe_token", "1"), ("PROBE_SECRET", "1"), ("LD_PROBE", "1")])
        .envs([("PROBE_COLOR", "blue"), ("SSH_AUTH_SOCK", "/agent"), ("LC_TIME", "C")])
        .envs([("TERM", "xterm"), ("PAGER", "less"), ("EDITOR", "ed")])
        .stdin(from_control)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    for withheld in ["PROBE_API_KEY", "probe_token", "PROBE_SECRET", "LD_PROBE", "PROBE_COLOR", "SSH_AUTH_SOCK"] {
        assert!(!printed.contains(withheld), "{printed}");
    }
    for given in ["EDITOR=ed\n", "LC_TIME=C\n", "TERM=dumb\n", "PAGER=cat\n", "GIT_TERMINAL_PROMPT=0\n", "PATH="] {
        assert!(printed.contains(given), "{printed}");
    }
}

#[test]
fn long_output_is_shortened_and_saved_in_a_private_file() {
    let workspace = Workspace::new();
    let result = workspace.bash("seq 1 20000");
    let whole: String = (1..=20000).map(|n| format!("{n}\n")).collect();
    let file = fs::read_dir(&workspace.env.output_directory).unwrap().next().unwrap().unwrap().path();
    assert!(result.content.len() < 4096 + 300);
    assert!(result.content.starts_with("1\n2\n") && result.content.ends_with("19999\n20000\n"));
    assert!(result.content.contains(file.to_str().unwrap()));
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&workspace.env.output_directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn invalid_utf8_is_replaced() {
    assert_eq!(Workspace::new().bash(r"printf 'a\xff\x00b'").content, "a\u{fffd}\u{fffd}b");
}

/// Set for the copy of this binary that runs one test alone, so that only its own memory is measured.
const ALONE: &str = "POLYLOGUE_TEST_MEMORY_ALONE";

#[test]
fn a_hundred_megabytes_of_output_take_little_memory_and_a_bounded_file() {
    if std::env::var_os(ALONE).is_none() {
        let mut copy = Command::new(std::env::current_exe().unwrap());
        copy.args(["--exact", "--nocapture"]).arg(std::thread::current().name().unwrap()).env(ALONE, "1");
        let output = crate::support::output(&mut copy);
        let message = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && message.contains("1 passed"),
            "{message}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    let workspace = Workspace::new();
    let before = peak_memory();
    let result = workspace.bash("yes | head -c 100000000");
    assert!(result.content.contains("the first 67108864 of 100000000 bytes are saved in"));
    assert!(result.content.len() < 4096 + 300 && !result.is_error);
    let file = fs::read_dir(&workspace.env.output_directory).unwrap().next().unwrap().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 64 << 20);
    assert!(peak_memory() - before < 50_000, "{before} kB, then {} kB", peak_memory());
}

/// The peak memory of this process, in kB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_command_that_closes_its_outputs_is_waited_for() {
    let workspace = Workspace::new();
    workspace.make_fifo("ready");
    let call = workspace.start_bash("exec >&- 2>&-; echo > ready; exit 4");
    workspace.wait_for_fifo("ready");
    assert_eq!(call.finish().content, "[exit code 4]");
}

#[test]
fn twenty_commands_run_at_once_independently() {
    let workspaces: Vec<Workspace> = (0..20).map(|_| Workspace::new()).collect();
    let command = |n: usize| format!("for i in 1 2 3; do echo {n}; done; exit {n}");
    let calls: Vec<_> = workspaces.iter().enumerate().map(|(n, workspace)| workspace.start_bash(&command(n))).collect();
    for (n, call) in calls.into_iter().enumerate() {
        let code = if n == 0 { String::new() } else { format!("[exit code {n}]") };
        assert_eq!(call.finish().content, format!("{n}\n{n}\n{n}\n{code}"));
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let workspace = Workspace::new();
    for (arguments, expected) in [
        (json!({}), "`command` is missing"),
        (json!({"command": 5}), "`command` must be a string"),
        (json!({"command": "ls", "in_background": true}), "unknown argument `in_background`"),
        (json!({"command": "ls", "timeout": 0}), "at least 1"),
        (json!({"command": " \n"}), "empty"),
        (json!({"command": "echo a\0b"}), "NUL"),
        (json!({"command": "x".repeat(200_000)}), "write a script"),
    ] {
        let message = workspace.prepare("bash", &arguments).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
    assert!(!workspace.bash(&format!(": {}", "x".repeat(99_000))).is_error);
}

#[test]
fn the_user_is_shown_the_exact_command_its_directory_and_time_limit() {
    let workspace = Workspace::new();
    let question = workspace
        .prepare("bash", &json!({"command": "ls\nrm \u{202e}x", "timeout": "500", "description": "Lists\nfiles"}))
        .unwrap()
        .question;
    let directory = workspace.env.working_directory.display();
    assert_eq!(question.title, "bash: ls …");
    assert_eq!(
        question.detail,
        [
            "ls",
            "rm \\u{202e}x",
            "description: Lists …",
            &format!("working directory: {directory}"),
            "time limit: 500ms",
            "sandbox: changes outside of the workspace fail or are discarded; no network"
        ]
    );
}

#[test]
fn a_command_that_cannot_be_started_is_an_error() {
    let mut workspace = Workspace::new();
    workspace.env.supervisor = "/nowhere/polylogue".into();
    let content = workspace.bash("true").content;
    assert!(content.starts_with("cannot run /nowhere/polylogue in /"), "{content}");
    assert!(content.ends_with(": no such file or directory"), "{content}");
    let mut workspace = Workspace::new();
    workspace.env.working_directory = "/nowhere".into();
    assert!(workspace.bash("true").is_error);
}

#[test]
fn the_supervisor_reports_a_missing_program() {
    let output = Command::new(env!("CARGO_BIN_EXE_polylogue"))
        .args(["--supervise", "--", "/nowhere/program"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(126));
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot run /nowhere/program"));
}
