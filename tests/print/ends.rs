//! How a run ends, its exit code, and what is stored.

use rustix::process::Signal;

use super::{Home, PROGRAM, texts};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::pty::Pty;

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
        (&["-p", "x", "-r"], 2, "polylogue -r NAME"),
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
fn each_wait_for_another_attempt_is_said_once() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&["-p", "--output-format", "stream-json", "hello"]);
    peer.accept().error(503, "overloaded", "come back later");
    let wait = program.next("wait");
    let text = wait["text"].as_str().expect("a text");
    assert!(text.contains("come back later") && text.ends_with("; attempt 2 follows"), "{wait}");
    assert!(wait["ms"].as_u64().is_some_and(|ms| ms <= 60_000), "{wait}");
    peer.accept().stream().text("fine").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.err.matches("waiting ").count()), (0, 1), "{output:?}");
}

#[test]
fn an_error_of_a_run_advises_no_command_of_the_chat() {
    for (status, code, text) in [
        (400, "context_length_exceeded", "This model's maximum context length is 8192 tokens."),
        (401, "invalid_api_key", "who are you?"),
    ] {
        let peer = Peer::start();
        let home = Home::with_server(&peer.url());
        let program = home.start(&["-p", "hello"]);
        peer.accept().error(status, code, text);
        let output = program.ends();
        assert!(output.code == 3 && output.err.contains(text), "{output:?}");
        let advised =
            ["/slice", "/compact", "/clear", "/model"].into_iter().find(|command| output.err.contains(command));
        assert_eq!(advised, None, "{output:?}");
    }
}

#[test]
fn text_and_an_error_do_not_share_a_line_of_a_terminal() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    let (directory, data, url) = (path(home.directory.path()), path(&home.data()), peer.url());
    let envs = [
        ("HOME", &*directory),
        ("POLYLOGUE_DATA_DIR", &data),
        ("OPENAI_BASE_URL", &url),
        ("POLYLOGUE_RETRIES", "0"),
        ("LANG", "C.UTF-8"),
    ];
    let mut pty = Pty::spawn(PROGRAM, &["-p", "-m", "openai/test", "hello"], &envs, (100, 30));
    peer.accept().stream().text("half a sen").hang_up();
    assert_eq!(pty.wait_exit().code(), Some(3));
    let screen = pty.screen_text();
    let lines: Vec<&str> = screen.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    assert!(lines[0] == "half a sen" && lines[1].starts_with("polylogue: "), "{screen}");
}

#[test]
fn a_run_that_cannot_begin_prints_its_result_as_json() {
    let output = Home::new().run(&["-p", "-m", "openai/x", "--output-format", "json", "hello"]);
    assert_eq!((output.code, output.result()["outcome"].as_str()), (3, Some("failed")), "{output:?}");
    assert_eq!(output.result()["error"]["kind"], "auth");
    assert!(output.err.contains("export OPENAI_API_KEY"), "{output:?}");
}

#[test]
fn without_tools_none_are_offered() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let mut commands = vec![&["-p", "--no-tools", "hello"][..]];
    if cfg!(feature = "coordinator") {
        commands.push(&["multi-agent", "run", "--no-tools", "--count", "1", "hello"]);
    }
    for args in commands {
        let program = home.start(args);
        let exchange = peer.accept();
        assert!(exchange.request().json()["tools"].is_null(), "{args:?}");
        exchange.stream().text("fine").finish("stop").done();
        let output = program.ends();
        assert_eq!((output.code, output.out.trim_end()), (0, "fine"), "{output:?}");
    }
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
    let mut command = home.command("sh", &["-c", "trap '' INT HUP; exec \"$0\" -p hello", PROGRAM]);
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

/// The next requests of a child and of its parent, after the parent's first reply has forked it for this task.
fn forked(peer: &Peer, task: &str) -> (Exchange, Exchange) {
    let arguments = serde_json::json!({ "prompt": task }).to_string();
    peer.accept().stream().tool_call(0, "c", "fork", &arguments).finish("tool_calls").done();
    let (one, other) = (peer.accept(), peer.accept());
    let is_childs = one.request().json()["messages"].to_string().contains(&format!("\"{task}\""));
    if is_childs { (one, other) } else { (other, one) }
}

/// The limit ends with the turn, and none may send in the time until all are interrupted.
#[test]
fn max_turns_holds_for_children_also_while_the_run_ends() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&["-p", "--max-turns", "3", "--output-format", "json", "get help"]);
    let (child, parent) = forked(&peer, "help");
    parent.stream().tool_call(0, "w", "wait", "{\"timeout\":60}").finish("tool_calls").done();
    child.stream().tool_call(0, "c", "list_dir", "{}").finish("tool_calls").done();
    let output = program.ends();
    assert_eq!(output.code, 4, "{output:?}");
    assert_eq!(output.result()["turns"], 3);
    assert!(peer.try_accept().is_none());
}

#[test]
fn max_turns_counts_what_children_request_between_two_input_lines() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let formats =
        ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--max-turns", "4", "get help"];
    let mut program = home.start_with_input(&formats);
    let (child, parent) = forked(&peer, "list");
    parent.stream().text("it runs").finish("stop").done();
    while program.next("status")["status"] != "idle" {}
    child.stream().tool_call(0, "c", "list_dir", "{}").finish("tool_calls").done();
    peer.accept().stream().tool_call(0, "d", "list_dir", "{}").finish("tool_calls").done();
    program.write("{\"type\":\"user\",\"text\":\"and now\"}\n");
    let output = program.ends();
    assert_eq!((output.code, output.result()["turns"].as_u64()), (4, Some(4)), "{output:?}");
    assert!(peer.try_accept().is_none());
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
fn a_policy_that_asks_is_said_to_refuse_where_nobody_answers() {
    let home = Home::new();
    for (policy, count) in [("ask", 1), ("never", 0)] {
        let output = home.run(&["-p", "-m", "echo", "--approval", policy, "hello"]);
        assert_eq!((output.code, output.out.as_str()), (0, "hello\n"), "{output:?}");
        let said = output.err.matches("approval ask: nobody answers questions of --print").count();
        assert_eq!(said, count, "{output:?}");
    }
}

#[test]
fn all_calls_of_a_reply_that_need_approval_are_refused_and_the_turn_goes_on() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&["-p", "--approval", "yolo", "make them"]);
    let first = peer.accept();
    let reply = first.stream();
    for (at, name) in ["AGENTS.md", "CLAUDE.md", ".mcp.json"].into_iter().enumerate() {
        reply.tool_call(at, name, "write_file", &format!("{{\"file_path\":\"{name}\",\"content\":\"x\"}}"));
    }
    reply.finish("tool_calls").done();
    let exchange = peer.accept();
    let body = exchange.request().json();
    let messages = body["messages"].as_array().expect("messages");
    let is_refused = |message: &&serde_json::Value| {
        message["role"] == "tool" && message["content"].as_str().is_some_and(|text| text.contains("runs unattended"))
    };
    assert_eq!(messages.iter().filter(is_refused).count(), 3, "{:#}", body["messages"]);
    exchange.stream().text("then not").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "then not\n"), "{output:?}");
    let refused =
        output.err.lines().filter(|line| line.contains("refused a tool call that needs approval: write_file:"));
    assert_eq!(refused.count(), 3, "{output:?}");
}

#[test]
fn a_run_that_is_started_so_asks_nothing_and_no_sandbox_holds_it_and_nothing_of_that_is_stored() {
    const FLAG: &str = "--dangerously-allow-everything";
    let home = Home::new();
    let top = home.directory.path().canonicalize().expect("a directory");
    std::fs::create_dir_all(top.join(".git/hooks")).expect("a directory");
    let outside = tempfile::tempdir().expect("a directory");
    let made = outside.path().join("made");
    let script = |run: u32| {
        let command = format!("touch {} .git/hooks/made-{run} && echo it-{run}-ran", made.display());
        format!(
            "%tool bash {}\n%next\n%tool write_file {}\n%next\ndone",
            serde_json::json!({ "command": command }),
            serde_json::json!({"file_path": "AGENTS.md", "content": format!("run {run}")})
        )
    };
    let output = home.run(&["-p", FLAG, &script(1)]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.err.matches("everything is allowed: no sandbox and no questions").count(), 1, "{output:?}");
    assert!(made.exists() && top.join(".git/hooks/made-1").exists(), "{output:?}");
    assert_eq!(std::fs::read_to_string(top.join("AGENTS.md")).expect("a file"), "run 1");
    // A deny rule holds, and the next run has nothing of it.
    let denied = home.run(&["-p", FLAG, "--deny", "edit(AGENTS.md)", &script(2)]);
    assert!(denied.code == 0 && top.join(".git/hooks/made-2").exists(), "{denied:?}");
    let again = home.run(&["-p", "-c", &script(3)]);
    assert_eq!(again.err.matches("refused a tool call that needs approval").count(), 2, "{again:?}");
    assert_eq!(std::fs::read_to_string(top.join("AGENTS.md")).expect("a file"), "run 1");
    let misplaced = home.run(&["serve", FLAG]);
    assert!(misplaced.code == 2 && misplaced.err.contains("it belongs to a chat, --print"), "{misplaced:?}");
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
        &["--allow", "bash(ls)", "tell", "0", "x"],
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
    let (child, parent) = forked(&peer, "help");
    child.stream().text("I am on it");
    parent.stream().text("it runs").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "it runs\n"), "{output:?}");
    assert!(output.err.contains("interrupted 1 other agent still at work"), "{output:?}");
    assert_eq!(home.agents(), 3);
    assert!(texts(&home.log(2)).contains(&"help"));
    let listed = home.run(&["ps", "--json"]).out;
    assert_eq!(listed.lines().count(), 1, "what the run made is archived with it: {listed}");
}

#[test]
fn a_full_context_is_compacted_between_two_requests_of_a_run() {
    let peer = Peer::start();
    let variables = [("POLYLOGUE_RETRY_BASE", "0.01"), ("POLYLOGUE_MODEL", "local/small")];
    let home = Home { variables: variables.map(|(name, value)| (name.into(), value.into())).into(), ..Home::new() };
    let models = "[{ name = \"small\", context = 10000 }]";
    let file = format!(
        "model = \"local/small\"\n[providers.local]\nkind = \"openai\"\nbase_url = \"{}\"\nmodels = {models}\n",
        peer.url()
    );
    let folder = home.directory.path().join(".config/polylogue");
    std::fs::create_dir_all(&folder).expect("a directory");
    std::fs::write(folder.join("config.toml"), file).expect("a file");
    // A summary is used only if it is shorter than what it replaces.
    for number in 0..40 {
        std::fs::write(home.directory.path().join(format!("a file with a long name {number}")), "").expect("a file");
    }
    let program = home.start(&["-p", "list it"]);
    let exchange = peer.accept();
    exchange.stream().tool_call(0, "call-0", "list_dir", "{}").finish("tool_calls").usage(9_000, 10).done();
    peer.accept().error(503, "overloaded", "come back later");
    let exchange = peer.accept();
    let asked = last_user_text(&exchange.request().json());
    assert!(asked.contains("[assistant calls list_dir]"), "{asked}");
    exchange.stream().text("it was listed").finish("stop").done();
    let exchange = peer.accept();
    let sent = last_user_text(&exchange.request().json());
    assert!(sent.contains("The task:\nlist it") && sent.contains("Summary:\nit was listed"), "{sent}");
    exchange.stream().text("done").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.trim_end()), (0, "done"), "{output:?}");
    let waits: Vec<&str> = output.err.lines().filter(|line| line.contains("waiting ")).collect();
    assert!(waits.len() == 1 && waits[0].contains("come back later"), "the wait of the summary is said: {output:?}");
}

#[test]
fn another_model_answers_and_that_is_said() {
    let (first, second) = (Peer::start(), Peer::start());
    let mut home = Home::with_server(&first.url());
    home.variables.push(("POLYLOGUE_RETRIES".into(), "0".into()));
    let config = home.data().parent().expect("a directory").join("fallback.toml");
    let text = format!("fallback = [\"second/m\"]\n[providers.second]\nbase_url = {:?}\n", second.url());
    std::fs::write(&config, text).expect("a file");
    let config = config.display().to_string();
    for format in ["text", "stream-json"] {
        let program = home.start(&["-p", "-m", "openai/m", "--config", &config, "--output-format", format, "hello"]);
        first.accept().error(503, "overloaded", "full");
        second.accept().stream().text("fine").finish("stop").done();
        let output = program.ends();
        assert_eq!(output.code, 0, "{output:?}");
        let said = "second/m answers, because openai/";
        assert!(output.err.contains(said) && (format == "text" || output.out.contains(said)), "{output:?}");
    }
}
