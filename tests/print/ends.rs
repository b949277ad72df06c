//! How a run ends, its exit code, and what is stored.

use rustix::process::Signal;

use super::{Home, texts};
use crate::support::peer::Peer;

const FORKS: &str = "%tool fork {\"prompt\":\"a\"}\n%tool fork {\"prompt\":\"b\"}\n%next\ndone";

#[test]
fn a_run_ends_at_a_budget_with_the_name_of_the_setting() {
    let home = Home { variables: vec![("POLYLOGUE_MAX_REQUESTS".into(), "1".into())], ..Home::new() };
    let found = home.run(&["-p", "--output-format", "json", "%tool list_dir {}\n%next\nhm"]);
    assert_eq!((found.code, found.result()["outcome"].as_str()), (4, Some("limit")), "{found:?}");
    let text = found.result()["error"]["text"].to_string();
    assert!(text.contains("1 requests to models") && text.contains("limits.max_requests"), "{text}");
}

#[test]
fn exit_codes_are_those_of_the_documentation() {
    for (args, code, error) in [
        (&["-p", "hello"][..], 0, ""),
        (&["-p", "%tool read_file {\"path\":\"none\"}\n%next\nhm"], 0, "calls read_file"),
        (&["-p", "%fail 401"], 3, "(401)"),
        (&["-p", "%fail 400 no such thing"], 3, "no such thing"),
        (&["-p", "%fail content"], 0, ""),
        (&["-p", "%cut"], 3, ""),
        (&["-p", "-m", "nobody/nothing", "x"], 2, "nobody"),
        (&["-p"], 2, "nothing to send"),
        (&["-p", "x", "--max-turns", "0"], 2, "max-turns"),
        (&["-p", "x", "--timeout", "0"], 2, "--timeout"),
        (&["-p", "x", "--output-format", "xml"], 2, "stream-json"),
        (&["x", "--output-format", "json"], 2, "--print"),
        (&["-p", "-r", "nobody", "--", "x"], 2, "no agent \"nobody\""),
        (&["-p", "x", "-r"], 2, "0   agent 0"),
        (&["-p", "x", "-c", "--ephemeral"], 2, "--ephemeral"),
        (&["-p", "doctor"], 2, "put -- before it"),
        (&["-p", "x", "--data-dir", "/dev/null"], 1, "is a file"),
        (&["-p", "--max-turns", "1", "%tool list_dir {}\n%next\nhm"], 4, "--max-turns"),
        (&["-p", "--timeout", "0.2", "%hang"], 4, "--timeout"),
        (&["-p", "--max-agents", "1", FORKS], 4, "limits.max_agents"),
        (&["-p", "--max-agents", "2", FORKS], 0, ""),
        (&["-p", "--max-usd", "1", "x"], 2, "limits.max_usd"),
    ] {
        let mut args = args.to_vec();
        if args.contains(&"%cut") {
            args.extend(["--timeout", "20"]);
        }
        let home = Home { variables: vec![("POLYLOGUE_RETRIES".into(), "0".into())], ..Home::new() };
        let found = home.run(&args);
        assert_eq!(found.code, code, "{args:?}: {found:?}");
        assert!(found.err.contains(error), "{args:?}: {found:?}");
    }
}

#[test]
fn a_refused_key_has_the_exit_code_of_provider_errors() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&["-p", "hello", "--output-format", "json"]);
    peer.accept().error(401, "invalid_api_key", "who are you?");
    let output = program.ends();
    assert_eq!((output.code, output.result()["outcome"].as_str()), (3, Some("failed")), "{output:?}");
    assert_eq!(output.result()["error"]["kind"], "auth");
    assert!(output.err.contains("who are you?") && output.err.contains("OPENAI_API_KEY"), "{output:?}");
}

#[test]
fn a_signal_interrupts_the_turn_stores_the_partial_reply_and_sets_the_exit_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let peer = Peer::start();
        let home = Home::with_server(&peer.url());
        let program = home.start(&["-p", "hello", "--output-format", "stream-json"]);
        let exchange = peer.accept();
        exchange.stream().text("half of it");
        program.next("text");
        program.signal(signal);
        let output = program.ends();
        assert_eq!(output.code, code, "{output:?}");
        assert_eq!(output.result()["outcome"], "interrupted");
        assert_eq!(texts(&home.log(1)), ["hello", "half of it"]);
    }
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let mut command = home.command("sh", &["-c", "trap '' INT HUP; exec \"$0\" -p hello", super::PROGRAM]);
    command.stdin(std::process::Stdio::null());
    let program = super::Program::start(command);
    let exchange = peer.accept();
    program.signal(Signal::INT);
    program.signal(Signal::HUP);
    exchange.stream().text("half of it\n");
    assert_eq!(program.line(), "half of it");
    exchange.text("all of it").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "all of it\n"), "{output:?}");
}

#[test]
fn a_timeout_interrupts_the_turn_and_stores_the_partial_reply() {
    // On a busy machine the shorter times may be over before the first byte of a reply.
    for seconds in ["0.5", "3", "15"] {
        let home = Home::new();
        let output = home.run(&["-p", "--timeout", seconds, "--output-format", "json", "half of it\n%hang"]);
        let result = output.result();
        assert_eq!((output.code, &result["outcome"]), (4, &"limit".into()), "{output:?}");
        if result["text"] == "half of it" {
            assert_eq!(texts(&home.log(1)), ["half of it\n%hang", "half of it"]);
            return;
        }
    }
    panic!("no output in 15 seconds");
}

#[test]
fn max_turns_limits_the_requests_and_does_not_count_retries() {
    let peer = Peer::start();
    let mut home = Home::with_server(&peer.url());
    home.variables.push(("POLYLOGUE_RETRY_BASE".into(), "0".into()));
    let program = home.start(&["-p", "--max-turns", "2", "--output-format", "json", "hello"]);
    peer.accept().error(503, "overloaded", "not now");
    for _ in 0..2 {
        peer.accept().stream().text("I look").tool_call(0, "c", "list_dir", "{}").finish("tool_calls").done();
    }
    let output = program.ends();
    assert_eq!(output.code, 4, "{output:?}");
    assert!(peer.try_accept().is_none());
    assert_eq!(output.result()["turns"], 2);
    assert!(output.err.contains("--max-turns"), "{output:?}");
}

#[test]
fn a_call_that_needs_approval_is_refused_and_the_model_gets_the_reason() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let file = home.directory.path().join("made");
    let program = home.start(&["-p", "make it"]);
    peer.accept().stream().tool_call(0, "c", "bash", "{\"command\":\"touch made\"}").finish("tool_calls").done();
    let exchange = peer.accept();
    let body = exchange.request().json();
    let answer = body["messages"].as_array().and_then(|messages| messages.last()).expect("a message");
    assert!(answer["content"].as_str().is_some_and(|text| text.contains("refused: it needs approval (")), "{answer}");
    exchange.stream().text("then not").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "then not\n"), "{output:?}");
    let lines: Vec<&str> = output.err.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "polylogue: calls bash: touch made"), "{lines:?}");
    let refused = "polylogue: refused a tool call that needs approval: bash: touch made (";
    assert!(lines[1].starts_with(refused), "{lines:?}");
    // Without the shell grammar no rule can allow a command.
    let has_remedy = lines[1].ends_with("); to allow it: --allow 'bash(touch made)'");
    assert_eq!(has_remedy, cfg!(feature = "shell-grammar"), "{lines:?}");
    assert!(!file.exists());
}

#[test]
fn without_a_terminal_nothing_is_asked_unless_the_command_line_names_a_policy() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    std::fs::create_dir_all(home.directory.path().join(".config/polylogue")).expect("a directory");
    let config = home.directory.path().join(".config/polylogue/config.toml");
    std::fs::write(config, "approval = \"yolo\"\n").expect("a file");
    for (options, runs) in [(&[][..], false), (&["--approval", "ask"], false), (&["--approval", "yolo"], true)] {
        let program = home.start(&[&["-p", "make it"], options].concat());
        let arguments = "{\"file_path\":\"made\",\"content\":\"x\"}";
        peer.accept().stream().tool_call(0, "c", "write_file", arguments).finish("tool_calls").done();
        let exchange = peer.accept();
        let told = exchange.request().json()["messages"].to_string();
        assert_eq!(told.contains("the user can allow it with --allow 'edit(*)'"), !runs, "{options:?} {told}");
        exchange.stream().text("done").finish("stop").done();
        assert_eq!(program.ends().code, 0);
        assert_eq!(home.directory.path().join("made").exists(), runs, "{options:?}");
    }
}

#[test]
fn permissions_where_no_agent_gets_them_are_an_error() {
    let home = Home::new();
    for args in [
        &["ps", "--approval", "plan"][..],
        &["--allow", "bash(ls)", "send", "0", "x"],
        &["attach", "--deny", "bash(ls)"],
        &["multi-agent", "list", "--approval", "plan"],
        &["--approval", "auto", "approvals"],
    ] {
        let output = home.run(args);
        assert_eq!(output.code, 2, "{args:?} {output:?}");
        assert!(output.err.contains("belongs to a chat, --print, serve, multi-agent run"), "{args:?} {output:?}");
    }
    assert_eq!(home.run(&["config", "show", "--approval", "plan"]).code, 0);
}

#[test]
fn children_still_at_work_are_interrupted_stored_and_counted() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&["-p", "get help"]);
    peer.accept().stream().tool_call(0, "c", "fork", "{\"prompt\":\"help\"}").finish("tool_calls").done();
    let (one, other) = (peer.accept(), peer.accept());
    let is_childs = one.request().json()["messages"].to_string().contains("\"help\"");
    let (child, parent) = if is_childs { (one, other) } else { (other, one) };
    child.stream().text("I am on it");
    parent.stream().text("it runs").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "it runs\n"), "{output:?}");
    assert!(output.err.contains("interrupted 1 other agent still at work"), "{output:?}");
    assert_eq!(home.agents(), 3);
    assert!(texts(&home.log(2)).contains(&"help"));
}
