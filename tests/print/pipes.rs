//! Pipes, files and nothing at all at the three ends of the program.

use super::{Home, PROGRAM, Program, texts};
use crate::support::peer::Peer;

#[test]
fn what_is_piped_in_is_joined_to_the_prompt() {
    let home = Home::new();
    for (script, out) in [
        ("printf 'a\\nb\\n' | \"$0\" -p explain", "explain\n\na\nb\n"),
        ("printf 'a\\nb\\n' | \"$0\" -p -", "a\nb\n"),
        ("printf 'a\\nb\\n' | \"$0\" -p", "a\nb\n"),
        ("printf 'a\\n' > file; \"$0\" -p explain < file", "explain\n\na\n"),
        ("\"$0\" -p explain < /dev/null", "explain\n"),
        ("printf 'caf\\351' | \"$0\" -p -", "caf\u{fffd}\n"),
    ] {
        let told = home.shell(script);
        assert_eq!((told.code, told.out.as_str()), (0, out), "{script}: {told:?}");
    }
}

#[test]
fn an_input_without_an_end_is_a_limit_and_ends_the_program_at_once() {
    let home = Home::new();
    for script in ["yes | \"$0\" -p -", "yes | \"$0\" -p explain", "\"$0\" -p - < /dev/zero"] {
        let told = home.shell(script);
        assert_eq!((told.code, told.out.as_str()), (4, ""), "{told:?}");
        assert!(told.err.contains("standard input is longer than 16 MiB"), "{told:?}");
    }
    assert!(!home.data().exists(), "nobody was made for it");
}

#[test]
fn an_input_that_says_nothing_is_waited_for_no_longer_than_the_time_that_is_given() {
    let home = Home::new();
    let mut program = home.start_with_input(&["-p", "--timeout", "0.2", "explain"]);
    let held = program.input.take();
    let told = program.ends();
    drop(held);
    assert_eq!(told.code, 4, "{told:?}");
}

#[test]
fn it_needs_no_terminal_and_none_of_its_three_ends() {
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
        let told = home.shell(script);
        assert_eq!((told.code, told.out.as_str()), (0, out), "{script}: {told:?}");
    }
    let told = home.shell("\"$0\" -p hello > /dev/full < /dev/null");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.err.contains("No space left"), "{told:?}");
}

#[test]
fn a_reader_that_leaves_ends_it_quietly_although_nothing_more_comes_and_the_turn_is_kept() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let script = "exec 3>&1; { \"$0\" -p hello < /dev/null; echo \"code $?\" >&3; } | head -n 1";
    let program = Program::start(home.command("sh", &["-c", script, PROGRAM]));
    let exchange = peer.accept();
    exchange.stream().text("one line\n");
    let told = program.ends();
    exchange.wait_for_close();
    let mut lines: Vec<&str> = told.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((lines, told.err.as_str()), (vec!["code 141", "one line"], ""));
    assert_eq!(texts(&home.log(1)), ["hello", "one line\n"]);
}

#[test]
fn a_reader_that_was_never_there_ends_it_too() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = home.command(PROGRAM, &["-p", "hello"]);
    command.stdout(writer);
    let told = Program::start(command).ends();
    assert_eq!(told.code, 141, "{told:?}");
}

#[test]
fn a_reader_that_takes_nothing_holds_up_no_other_agent_and_loses_nothing() {
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
    // Several times what a pipe holds, and nobody reads.
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
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let said: usize =
        lines.iter().filter(|line| line["type"] == "text").map(|line| line["text"].as_str().map_or(0, str::len)).sum();
    assert_eq!(said, 1_000_000);
    assert_eq!(lines.last().expect("a line")["text"].as_str().map(str::len), Some(1_000_000));
}

#[test]
fn an_answer_that_could_not_be_passed_on_is_no_success() {
    let told = Home::new().shell(r#"head -c 10000000 /dev/zero | tr "\0" y | "$0" -p -"#);
    assert_eq!(told.code, 1, "{}", told.err);
    assert!(told.err.contains("it arrived faster than it could be written"), "{}", told.err);
}
