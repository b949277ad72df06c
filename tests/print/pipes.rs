//! Standard input, output and error as pipes, files, or closed.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use rustix::process::geteuid;
use serde_json::Value;

use super::{Home, PROGRAM, Program, texts};
use crate::support::PATIENCE;
use crate::support::peer::Peer;

#[test]
fn piped_input_is_appended_to_the_prompt() {
    let home = Home::new();
    for (script, out) in [
        ("printf 'a\\nb\\n' | \"$0\" -p explain", "explain\n\na\nb\n"),
        ("printf 'a\\nb\\n' | \"$0\" -p -", "a\nb\n"),
        ("printf 'a\\nb\\n' | \"$0\" -p", "a\nb\n"),
        ("printf 'a\\n' > file; \"$0\" -p explain < file", "explain\n\na\n"),
        ("\"$0\" -p explain < /dev/null", "explain\n"),
        ("printf 'caf\\351' | \"$0\" -p -", "caf\u{fffd}\n"),
    ] {
        let output = home.shell(script);
        assert_eq!((output.code, output.out.as_str()), (0, out), "{script}: {output:?}");
    }
}

#[test]
fn an_endless_input_is_refused_at_its_limit() {
    let home = Home::new();
    for script in ["yes | \"$0\" -p -", "yes | \"$0\" -p explain", "\"$0\" -p - < /dev/zero"] {
        let output = home.shell(script);
        assert_eq!((output.code, output.out.as_str()), (4, ""), "{output:?}");
        assert!(output.err.contains("standard input is longer than 16 MiB"), "{output:?}");
    }
    assert!(!home.data().exists(), "no agent was made for it");
}

#[test]
fn waiting_for_input_ends_at_the_timeout() {
    let home = Home::new();
    let mut program = home.start_with_input(&["-p", "--timeout", "0.2", "explain"]);
    let held = program.input.take();
    let output = program.ends();
    drop(held);
    assert_eq!(output.code, 4, "{output:?}");
}

#[test]
fn a_run_that_waits_long_for_its_input_says_so() {
    let home = Home::new();
    let program = home.start_with_input(&["-p", "-m", "echo", "explain"]);
    let note = program.err.recv_timeout(PATIENCE).expect("a note");
    let note = String::from_utf8_lossy(&note);
    assert!(note.contains("waiting for the end of standard input") && note.contains("< /dev/null"), "{note}");
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str(), output.err.as_str()), (0, "explain\n", ""));
}

#[test]
fn without_a_usable_home_conversations_are_in_a_temporary_directory() {
    let home = Home::new();
    for (variables, why) in [
        ("env -u HOME", "neither XDG_DATA_HOME nor HOME is set"),
        ("env HOME=/dev/null", "/dev/null/.local/share/polylogue cannot be written"),
    ] {
        let run = |rest: &str| {
            home.shell(&format!(
                "mkdir -p tmp; unset POLYLOGUE_DATA_DIR; TMPDIR=$PWD/tmp exec {variables} \"$0\" {rest}"
            ))
        };
        let output = run("-p -m echo hello");
        assert_eq!((output.code, output.out.as_str()), (0, "hello\n"), "{output:?}");
        let kept = home.directory.path().join("tmp").join(format!("polylogue-{}", geteuid().as_raw()));
        assert!(output.err.contains(why) && output.err.contains("--ephemeral"), "{output:?}");
        assert!(output.err.contains(&format!("conversations are in {}", kept.display())), "{output:?}");
        assert_eq!(kept.metadata().expect("a directory").mode() & 0o777, 0o700);
        let listed: Value = serde_json::from_str(&run("ps --archived --json").out).expect("one run");
        let logs = run(&format!("logs {}", listed["id"].as_str().expect("an id")));
        assert!(logs.out.contains("hello"), "it is found again");
        let output = run("-p -m echo --ephemeral hello");
        assert_eq!((output.code, output.err.as_str()), (0, ""));
        std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o777)).expect("permissions");
        let output = run("-p -m echo hello");
        assert_eq!((output.code, output.out.as_str()), (2, ""), "{output:?}");
        assert!(output.err.contains("not a directory that only you can use"), "{output:?}");
        std::fs::remove_dir_all(kept).expect("removed");
    }
}

#[test]
fn a_run_needs_neither_a_terminal_nor_standard_streams() {
    let home = Home::new();
    for (script, out) in [
        ("setsid --wait \"$0\" -p hello < /dev/null", "hello\n"),
        ("\"$0\" -p hello <&-", "hello\n"),
        ("\"$0\" -p hello 2>&- < /dev/null", "hello\n"),
        ("\"$0\" -p hello >&- < /dev/null", ""),
        ("\"$0\" -p hello <&- >&- 2>&-", ""),
        ("\"$0\" -p hello > file < /dev/null && cat file", "hello\n"),
        ("timeout 60 \"$0\" -p hello < /dev/null", "hello\n"),
    ] {
        let output = home.shell(script);
        assert_eq!((output.code, output.out.as_str()), (0, out), "{script}: {output:?}");
    }
    let output = home.shell("\"$0\" -p hello > /dev/full < /dev/null");
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("No space left"), "{output:?}");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_run_quietly_and_the_turn_is_stored() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let script = "exec 3>&1; { \"$0\" -p hello < /dev/null; echo \"code $?\" >&3; } | head -n 1";
    let program = Program::start(home.command("sh", &["-c", script, PROGRAM]));
    let exchange = peer.accept();
    exchange.stream().text("one line\n");
    let output = program.ends();
    exchange.wait_for_close();
    let mut lines: Vec<&str> = output.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((lines, output.err.as_str()), (vec!["code 141", "one line"], ""));
    assert_eq!(texts(&home.log(1)), ["hello", "one line\n"]);
}

#[test]
fn a_pipe_without_a_reader_ends_the_run() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = home.command(PROGRAM, &["-p", "hello"]);
    command.stdout(writer);
    let output = Program::start(command).ends();
    assert_eq!(output.code, 141, "{output:?}");
}

#[test]
fn a_slow_reader_blocks_no_other_agent_and_loses_nothing() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = home.command(PROGRAM, &["-p", "talk", "--output-format", "stream-json"]);
    command.stdout(writer);
    let program = Program::start(command);
    peer.accept().stream().tool_call(0, "c", "fork", "{\"prompt\":\"help\"}").finish("tool_calls").done();
    let (one, other) = (peer.accept(), peer.accept());
    let is_childs = one.request().json()["messages"].to_string().contains("\"help\"");
    let (child, parent) = if is_childs { (one, other) } else { (other, one) };
    // Several times what a pipe holds, and no reader.
    parent.stream();
    let piece = "x".repeat(1000);
    for _ in 0..1000 {
        parent.text(&piece);
    }
    child.stream().tool_call(0, "d", "list_dir", "{}").finish("tool_calls").done();
    peer.accept().stream().tool_call(0, "e", "list_dir", "{}").finish("tool_calls").done();
    peer.accept().stream().text("helped").finish("stop").done();
    parent.finish("stop").done();
    let mut out = String::new();
    std::io::Read::read_to_string(&mut reader, &mut out).expect("text");
    assert_eq!(program.ends().code, 0);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let echoed: usize =
        lines.iter().filter(|line| line["type"] == "text").map(|line| line["text"].as_str().map_or(0, str::len)).sum();
    assert_eq!(echoed, 1_000_000);
    assert_eq!(lines.last().expect("a line")["text"].as_str().map(str::len), Some(1_000_000));
}

#[test]
fn an_incomplete_answer_is_a_failure() {
    let output = Home::new().shell(r#"head -c 10000000 /dev/zero | tr "\0" y | "$0" -p -"#);
    assert_eq!(output.code, 1, "{}", output.err);
    assert!(output.err.contains("it arrived faster than it could be written"), "{}", output.err);
}
