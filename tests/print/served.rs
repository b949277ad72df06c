//! Runs while another process holds the data directory: a server, a chat or another run.

use std::sync::mpsc::RecvTimeoutError;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::{Home, Program, interrupt_first_turn, texts};
use crate::support::PATIENCE;
use crate::support::peer::{Exchange, Peer};
use crate::support::program::{PROGRAM, Response};

/// A server, which does not outlive the test.
pub(crate) struct Server(Option<Program>);

impl Server {
    /// One that can be reached.
    pub(crate) fn at(home: &Home) -> Self {
        Self::with(home, &[])
    }

    /// The same, with these options.
    pub(crate) fn with(home: &Home, options: &[&str]) -> Self {
        let program = home.start(&[&["serve"], options].concat());
        let output = program.err.recv_timeout(PATIENCE).expect("a line");
        assert!(String::from_utf8_lossy(&output).contains("serves"), "{}", String::from_utf8_lossy(&output));
        Self(Some(program))
    }

    pub(crate) fn ends_by(mut self, signal: Signal) -> Response {
        let program = self.0.take().expect("it serves");
        program.signal(signal);
        program.ends()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(program) = &self.0 {
            // It may have ended of itself.
            let _ = kill_process(program.pid, Signal::KILL);
        }
    }
}

#[test]
fn a_run_without_a_model_does_not_use_the_echo_of_a_chat() {
    let mut home = Home { variables: vec![("POLYLOGUE_MODEL".into(), String::new())], ..Home::new() };
    let _server = Server::with(&home, &["-m", "echo"]);
    let output = home.run(&["-p", "hello"]);
    assert_eq!((output.code, output.out.as_str()), (3, ""), "{output:?}");
    assert!(output.err.contains("; the running polylogue would answer with echo"), "{output:?}");
    assert_eq!(home.run(&["-p", "-m", "echo", "hello"]).out, "hello\n");
    // It does not know what was configured after its start.
    home.variables.push(("OPENAI_BASE_URL".into(), "http://127.0.0.1:9/v1".into()));
    let output = home.run(&["-p", "-m", "openai/new", "hello"]);
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("unknown provider \"openai\"") && output.err.contains("polylogue stop"), "{output:?}");
}

/// A server whose model is played by the test.
fn served() -> (Peer, Home, Server) {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let server = Server::at(&home);
    (peer, home, server)
}

/// A run whose reply has begun with this text.
fn streaming(home: &Home, peer: &Peer, text: &str) -> (Program, Exchange) {
    let program = home.start(&["-p", "hello", "--output-format", "stream-json"]);
    let exchange = peer.accept();
    exchange.stream().text(text);
    program.next("text");
    (program, exchange)
}

/// The root, or the agents of runs after it, in order of creation, as the server or the store lists them.
fn agent(home: &Home, n: usize) -> Value {
    let output = home.run(&["ps", "--all", "--json"]);
    let agents = output.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut agents: Vec<Value> = agents.collect();
    agents.sort_by_key(|agent| (agent["number"].as_i64().is_none(), agent["created_at"].as_i64()));
    assert!(agents.iter().all(|agent| Some(agent["number"].is_null()) == agent["print_run"].as_bool()), "{output:?}");
    agents.swap_remove(n)
}

#[test]
fn text_is_written_as_it_streams_from_an_agent_of_the_server() {
    let (peer, home, server) = served();
    let program = home.start(&["-p", "explain"]);
    let exchange = peer.accept();
    exchange.stream();
    for n in 0..20 {
        exchange.text(&format!("line {n}\n"));
        assert_eq!(program.line(), format!("line {n}"));
    }
    assert_eq!(agent(&home, 1)["status"], "running");
    exchange.text("the end").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str(), output.err.as_str()), (0, "the end\n", ""));
    assert_eq!(agent(&home, 1)["status"], "archived");
    assert_eq!(server.ends_by(Signal::TERM).code, 0);
    assert_eq!(texts(&home.log(1)).first(), Some(&"explain"));
}

#[test]
fn each_chunk_of_the_server_is_written_before_the_next_is_sent() {
    let (peer, home, _server) = served();
    let program = home.start(&["-p", "explain", "--output-format", "stream-json"]);
    let exchange = peer.accept();
    exchange.stream();
    assert_eq!(program.object()["type"], "init");
    let first = program.object();
    assert_eq!((&first["type"], &first["text"]), (&json!("user"), &json!("explain")));
    assert_eq!(program.object()["status"], "running");
    for n in 0..50 {
        exchange.text(&format!("{n} "));
        let line = program.object();
        assert_eq!((&line["v"], &line["type"], &line["text"]), (&json!(1), &json!("text"), &json!(format!("{n} "))));
        assert_eq!(line["epoch"], first["epoch"]);
    }
    exchange.usage(7, 5).finish("stop").done();
    assert_eq!(program.next("usage")["input"], 7);
    assert_eq!(program.object()["stop_reason"], "stop");
    assert_eq!(program.object()["status"], "idle");
    let (result, output) = (program.object(), program.ends());
    assert_eq!((output.code, output.out.as_str(), output.err.as_str()), (0, "", ""));
    assert_eq!((&result["outcome"], &result["turns"]), (&json!("completed"), &json!(1)));
    assert_eq!(result["agent"], agent(&home, 1)["id"]);
    let logs = home.run(&["logs", result["agent"].as_str().expect("an id"), "--json"]).out;
    let logged = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
    assert!(logs.lines().any(|line| logged(line)["text"] == "explain"), "{logs}");
}

#[test]
fn exit_codes_are_those_of_a_run_without_a_server() {
    let home = Home { variables: vec![("POLYLOGUE_RETRIES".into(), "0".into())], ..Home::new() };
    let _server = Server::at(&home);
    for (args, code, out, error) in [
        (&["-p", "hello"][..], 0, "hello\n", ""),
        (&["-p", "/help"], 0, "/help\n", ""),
        (&["-p", "%tool read_file {\"path\":\"none\"}\n%next\nhm"], 0, "hm\n", "calls read_file"),
        (&["-p", "%fail 401"], 3, "", "(401)"),
        (&["-p", "%fail 400 no such thing"], 3, "", "no such thing"),
        (&["-p", "-m", "nobody/nothing", "x"], 2, "", "nobody"),
        (&["-p", "-r", "nobody", "--", "x"], 2, "", "no agent \"nobody\""),
        (&["-p", "x", "-r"], 2, "", "polylogue ps"),
        (&["-p", "--max-turns", "1", "%tool list_dir {}\n%next\nhm"], 4, "", "--max-turns"),
        (&["-p", "--max-turns", "2", "%tool list_dir {}\n%next\nhm"], 0, "hm\n", ""),
        (&["-p", "--timeout", "0.2", "%hang"], 4, "", "--timeout"),
        (&["-p", "--ephemeral", "aside"], 0, "aside\n", ""),
        (&["-p", "--trace", "/dev/null", "x"], 0, "x\n", ": --trace"),
    ] {
        let found = home.run(args);
        assert_eq!((found.code, found.out.as_str()), (code, out), "{args:?}: {found:?}");
        assert!(found.err.contains(error), "{args:?}: {found:?}");
    }
    let statuses = home.run(&["ps", "--json"]).out;
    assert!(!statuses.contains("\"running\"") && !statuses.contains("aside"), "{statuses}");
}

#[test]
fn a_run_continues_the_last_or_a_named_agent_with_the_given_model() {
    let (peer, home, _server) = served();
    let say = |args: &[&str], reply: &str| {
        let program = home.start(args);
        let exchange = peer.accept();
        exchange.stream().text(reply).finish("stop").done();
        let output = program.ends();
        assert_eq!((output.code, output.out), (0, format!("{reply}\n")));
        let body = exchange.request().json();
        let messages =
            body["messages"].as_array().expect("messages").iter().filter(|one| one["role"] == "user").count();
        (messages, body["model"].as_str().expect("a name").to_owned())
    };
    let test = |messages: usize| (messages, "test".to_owned());
    assert_eq!(say(&["-p", "one"], "1"), test(1));
    assert_eq!(say(&["-p", "-m", "openai/small", "two"], "2"), (1, "small".into()));
    assert_eq!(say(&["-p", "-c", "three"], "3"), (2, "small".into()));
    assert_eq!(say(&["-p", "-r", &home.id(1), "four"], "4"), test(2));
    assert_eq!(say(&["-p", "-c", "-m", "openai/large", "five"], "5"), (3, "large".into()));
}

#[test]
fn a_run_without_restrictions_needs_a_process_of_its_own() {
    let home = Home::new();
    let _server = Server::at(&home);
    let output = home.run(&["-p", "--dangerously-allow-everything", "hello"]);
    assert!(output.code == 2 && output.err.contains("needs a process of its own"), "{output:?}");
    assert_eq!(home.run(&["-p", "--ephemeral", "--dangerously-allow-everything", "hello"]).code, 0);
}

#[test]
fn a_call_that_needs_approval_is_refused_and_the_model_gets_the_reason() {
    let (peer, home, _server) = served();
    let program = home.start(&["-p", "make it"]);
    peer.accept().stream().tool_call(0, "c", "bash", "{\"command\":\"touch made\"}").finish("tool_calls").done();
    let exchange = peer.accept();
    assert!(exchange.request().json()["messages"].to_string().contains("no question is asked (policy never)"));
    exchange.stream().text("then not").finish("stop").done();
    let output = program.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "then not\n"), "{output:?}");
    assert!(output.err.contains("refused a tool call that needs approval: bash: touch made ("), "{output:?}");
    assert!(!home.directory.path().join("made").exists());
}

/// A reply that calls the tool which writes this file.
fn reply_that_writes(peer: &Peer, file: &str) {
    let arguments = json!({"file_path": file, "content": "new"}).to_string();
    peer.accept().stream().tool_call(0, "c", "write_file", &arguments).finish("tool_calls").done();
}

#[test]
fn the_policy_and_the_rules_of_the_command_line_hold_for_a_new_agent_of_the_server() {
    let (peer, home, _server) = served();
    for (options, runs) in [
        (&["--approval", "yolo"][..], true),
        (&["--allow", "edit(a*)"], true),
        (&["--approval", "yolo", "--deny", "edit(a*)"], false),
        (&["--approval", "plan", "--allow", "edit(a*)"], false),
        (&["--approval", "ask"], false),
    ] {
        let program = home.start(&[&["-p", "make it"], options].concat());
        reply_that_writes(&peer, "a");
        peer.accept().stream().text("done").finish("stop").done();
        assert_eq!(program.ends().code, 0, "{options:?}");
        let path = home.directory.path().join("a");
        assert_eq!(path.exists(), runs, "{options:?}");
        drop(std::fs::remove_file(path));
    }
}

#[test]
fn a_client_gets_no_more_than_its_command_line_names_and_no_more_than_the_agent_has() {
    let (peer, home, _server) = served();
    let first = home.start(&["-p", "--approval", "yolo", "hello"]);
    peer.accept().stream().text("hi").finish("stop").done();
    assert_eq!(first.ends().code, 0);
    let program = home.start(&["-p", "-r", &home.id(1), "make it"]);
    reply_that_writes(&peer, "a");
    let exchange = peer.accept();
    assert!(exchange.request().json()["messages"].to_string().contains("policy never"), "none was named");
    exchange.stream().text("then not").finish("stop").done();
    assert_eq!(program.ends().code, 0);

    let refused = |args: &[&str]| {
        let output = home.run(args);
        assert_eq!(output.code, 2, "{output:?}");
        output.err
    };
    let error = refused(&["-p", "-r", "0", "--approval", "yolo", "x"]);
    assert!(error.contains("--approval yolo is more than agent 0 may do (policy ask): set it there"), "{error}");
    let error = refused(&["-p", "-c", "--deny", "bash(*)", "x"]);
    assert!(error.contains("leave out --continue and --resume, or stop the server"), "{error}");
    let error = refused(&["-p", "--approval", "all", "x"]);
    assert!(error.contains("unknown policy \"all\""), "{error}");
}

#[test]
fn always_prints_the_rules_and_saves_them_only_if_they_are_named() {
    let (peer, home, _server) = served();
    assert_eq!(home.run(&["tell", "0", "make it"]).code, 0);
    reply_that_writes(&peer, "src/a");
    let list = || home.run(&["approvals", "--json"]).out;
    let deadline = std::time::Instant::now() + PATIENCE;
    while list().is_empty() {
        assert!(std::time::Instant::now() < deadline, "a question");
    }
    let question: Value = serde_json::from_str(&list()).expect("a question");
    let id = question["id"].as_str().expect("an id");
    assert_eq!(question["rules"], json!(["edit(src/**)"]));
    let output = home.run(&["approve", id, "--always"]);
    assert_eq!((output.code, output.out.as_str()), (2, "edit(src/**)\n"), "{output:?}");
    assert!(output.err.contains(&format!("polylogue approve {id} --always --rule 'edit(src/**)'")), "{output:?}");
    let file = home.directory.path().join(".config/polylogue/config.toml");
    assert!(output.err.contains(&format!(" in {}: polylogue approve", file.display())), "{output:?}");
    let data = home.data().display().to_string();
    let output = home.run(&["--data-dir", &data, "approve", id, "--always"]);
    assert!(output.err.contains(&format!("polylogue --data-dir '{data}' approve {id} --always")), "{output:?}");
    assert!(!file.exists() && !list().is_empty(), "nothing was saved or answered");
    let output = home.run(&["approve", id, "--always", "--rule", "edit(**)"]);
    assert_eq!((output.code, output.err.contains("not the rules of the question")), (2, true), "{output:?}");
    assert_eq!(home.run(&["approve", id, "--always", "--rule", "edit(src/**)"]).code, 0);
    peer.accept().stream().text("done").finish("stop").done();
    assert!(std::fs::read_to_string(file).expect("the configuration").ends_with("allow = [\"edit(src/**)\"]\n"));
    assert!(home.directory.path().join("src/a").exists());
}

#[test]
fn a_signal_interrupts_the_turn_and_not_the_server() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (peer, home, server) = served();
        let (program, exchange) = streaming(&home, &peer, "half of it");
        program.signal(signal);
        exchange.wait_for_close();
        let output = program.ends();
        assert_eq!((output.code, &output.result()["outcome"]), (code, &json!("interrupted")), "{output:?}");
        assert_eq!(agent(&home, 1)["status"], "archived");
        server.ends_by(Signal::TERM);
        assert_eq!(texts(&home.log(1)), ["hello", "half of it"]);
    }
}

#[test]
fn the_turn_of_a_killed_run_continues_in_the_server() {
    let (peer, home, _server) = served();
    let (program, exchange) = streaming(&home, &peer, "half ");
    program.signal(Signal::KILL);
    assert_eq!(program.ends().code, 137);
    exchange.text("and whole").finish("stop").done();
    let id = home.id(1);
    assert_eq!(home.run(&["wait", &id]).out, "idle\n");
    let logs = home.run(&["logs", &id]).out;
    assert!(logs.ends_with("half and whole\n"), "{logs}");
}

#[test]
fn a_lost_server_is_an_error_after_the_partial_answer() {
    let peer = Peer::start();
    for (signal, kind) in [(Signal::KILL, "system"), (Signal::TERM, "system")] {
        let home = Home::with_server(&peer.url());
        let server = Server::at(&home);
        let (program, _exchange) = streaming(&home, &peer, "half of it");
        server.ends_by(signal);
        let output = program.ends();
        assert_eq!((output.code, &output.result()["outcome"]), (1, &json!("failed")), "{output:?}");
        assert_eq!((&output.result()["error"]["kind"], &output.result()["text"]), (&json!(kind), &json!("half of it")));
        assert!(output.err.contains("the server has ended"), "{output:?}");
    }
}

#[test]
fn ten_concurrent_runs_have_an_agent_each() {
    let home = Home::new();
    let _server = Server::at(&home);
    let is_running: Vec<Program> = (0..10).map(|n| home.start(&["-p", &format!("I am {n}")])).collect();
    for (n, run) in is_running.into_iter().enumerate() {
        let output = run.ends();
        assert_eq!((output.code, output.out), (0, format!("I am {n}\n")));
    }
    assert_eq!(home.run(&["ps", "--all", "--json"]).out.lines().count(), 11);
}

#[test]
fn ten_concurrent_runs_with_one_agent_get_their_own_turns_only() {
    let (peer, home, _server) = served();
    let first = home.start(&["-p", "-r", "0", "the first"]);
    let exchange = peer.accept();
    exchange.stream().text("not yet");
    let run = |text: String| home.start(&["-p", "-r", "0", "--output-format", "json", &text]);
    let mut is_running: Vec<Program> = Vec::new();
    for n in 0..9 {
        // The same text in every turn: only the number of the turn shows whose answer it is.
        is_running.push(run(if n % 2 == 0 { "same".into() } else { format!("text {n}") }));
        queued(&home, n + 1);
    }
    // One leaves before its turn came, and its text with it.
    let left = is_running.remove(4);
    left.signal(Signal::INT);
    assert_eq!(left.ends().code, 130);
    queued(&home, 8);
    first.signal(Signal::INT);
    assert_eq!(first.ends().code, 130);
    for (n, run) in is_running.into_iter().enumerate() {
        let exchange = peer.accept();
        let is_wrong = n == 3;
        if is_wrong {
            exchange.error(400, "bad", "no");
        } else {
            exchange.stream().text(&format!("answer {n}")).finish("stop").done();
        }
        let output = run.ends();
        assert_eq!(output.code, if is_wrong { 3 } else { 0 }, "{n}: {output:?}");
        let text = if is_wrong { String::new() } else { format!("answer {n}") };
        assert_eq!((&output.result()["text"], &output.result()["turns"]), (&json!(text), &json!(1)), "{n}");
    }
    assert_eq!(agent(&home, 0)["queued"], 0);
}

/// Waits until so many texts wait for agent 0.
fn queued(home: &Home, count: usize) {
    let give_up = std::time::Instant::now() + PATIENCE;
    while agent(home, 0)["queued"] != json!(count) {
        assert!(std::time::Instant::now() < give_up, "{count} never wait: {}", agent(home, 0));
    }
}

#[test]
fn input_lines_are_turns_that_can_be_interrupted_and_share_one_limit() {
    let (peer, home, _server) = served();
    let format = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--max-turns", "2", "one"];
    let mut program = home.start_with_input(&format);
    interrupt_first_turn(&mut program, &peer);
    assert_eq!(program.next("text")["text"], "2");
    program.write("{\"type\":\"user\",\"text\":\"three\"}\n");
    let output = program.ends();
    assert_eq!((output.code, &output.result()["outcome"]), (4, &json!("limit")), "{output:?}");
    assert_eq!((&output.result()["turns"], &output.result()["text"]), (&json!(2), &json!("2")));
    assert!(peer.try_accept().is_none());
}

/// Agents of other runs are registered below the root, and are no part of its tree.
#[test]
fn a_turn_of_the_root_is_not_limited_by_the_requests_of_others() {
    let (peer, home, _server) = served();
    let root = home.start(&["-p", "-r", "0", "--max-turns", "1", "look"]);
    let of_root = peer.accept();
    let other = home.start(&["-p", "hello"]);
    peer.accept().stream().text("hi").finish("stop").done();
    assert_eq!(other.ends().code, 0);
    of_root.stream().text("done").finish("stop").done();
    let output = root.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "done\n"), "{output:?}");
}

#[test]
fn values_of_parameters_reach_the_server_as_they_are_typed() {
    let (peer, home, _server) = served();
    for (typed, sent) in [(" END ", json!([" END "])), ("default", json!(["default"])), ("x", json!(["x"]))] {
        let run = home.start(&["-p", "--set", &format!("stop={typed}"), "hello"]);
        let exchange = peer.accept();
        assert_eq!(exchange.request().json()["stop"], sent);
        exchange.stream().text("hi").finish("stop").done();
        assert_eq!(run.ends().code, 0);
    }
}

#[test]
fn what_an_archived_agent_changed_is_brought_back_through_the_server() {
    let home = Home::new();
    let _server = Server::at(&home);
    let call = json!({"file_path": "made", "content": "x"});
    let run = home.run(&["-p", "-m", "echo", "--approval", "yolo", &format!("%tool write_file {call}\n%next\ndone")]);
    let made = home.directory.path().join("made");
    assert!(run.code == 0 && made.exists(), "{run:?}");
    let undone = home.run(&["undo", &home.id(1)]);
    assert!(undone.code == 0 && !made.exists(), "{undone:?}");
}

#[test]
fn a_run_waits_for_another_that_holds_the_directory_and_says_so() {
    let home = Home::new();
    let first = home.start(&["-p", "--output-format", "stream-json", "%hang"]);
    first.next("user");
    let second = home.start(&["-p", "hello"]);
    let note = second.err.recv_timeout(PATIENCE).expect("a note");
    let note = String::from_utf8_lossy(&note);
    let holder = format!("waiting for process {}, another polylogue run", first.pid.as_raw_nonzero());
    assert!(note.contains(&holder) && note.contains("--ephemeral") && note.contains("serve --background"), "{note}");
    assert_eq!(home.run(&["-p", "--ephemeral", "meanwhile"]).out, "meanwhile\n");
    let late = home.run(&["-p", "--timeout", "0.2", "--output-format", "json", "hello"]);
    let result = late.result();
    assert_eq!((late.code, &result["outcome"], &result["error"]["kind"]), (4, &json!("limit"), &json!("limit")));
    assert!(late.err.contains("--timeout") && late.err.contains("in use by another polylogue"), "{late:?}");
    first.signal(Signal::INT);
    assert_eq!(first.ends().code, 130);
    let output = second.ends();
    assert_eq!((output.code, output.out.as_str()), (0, "hello\n"), "{output:?}");
    assert_eq!(home.agents(), 3, "the root, and one for each of the two runs");
}

#[test]
fn forty_runs_at_once_are_all_answered_and_stored() {
    let home = Home::new();
    let runs: Vec<Program> = (0..40).map(|n| home.start(&["-p", &format!("run {n}")])).collect();
    for (n, run) in runs.into_iter().enumerate() {
        let output = run.ends();
        assert_eq!((output.code, output.out), (0, format!("run {n}\n")), "{}", output.err);
    }
    assert_eq!(home.agents(), 41);
}

#[test]
fn a_run_within_a_run_is_refused_because_each_would_wait_for_the_other() {
    let home = Home::new();
    let script = format!("{PROGRAM} -p --data-dir {} inner", home.data().display());
    let tool = format!("%tool bash {}\n%next\ndone", json!({"command": script}));
    let output = home.run(&["-p", "--dangerously-no-sandbox", "--approval", "yolo", &tool]);
    assert_eq!((output.code, output.out.as_str()), (0, "done\n"), "{output:?}");
    let log = format!("{:?}", home.log(1));
    assert!(log.contains("a run within a run needs --ephemeral") && log.contains("exit code 1"), "{log}");
}

#[test]
fn a_run_that_waits_for_its_server_causes_no_wake_ups() {
    let (peer, home, _server) = served();
    let (program, exchange) = streaming(&home, &peer, "a while");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.pid.as_raw_nonzero())).expect("it lives");
        let fields: Vec<String> = stat.rsplit(") ").next().unwrap_or_default().split(' ').map(str::to_owned).collect();
        fields[11].parse::<u64>().expect("ticks") + fields[12].parse::<u64>().expect("ticks")
    };
    let before = ticks();
    // No line arrives for a while.
    let silence = program.out.recv_timeout(std::time::Duration::from_millis(500));
    assert_eq!(silence, Err(RecvTimeoutError::Timeout));
    assert!(ticks() - before <= 5, "it turns in its loop");
    exchange.finish("stop").done();
    assert_eq!(program.ends().code, 0);
}

#[test]
fn a_run_in_a_server_ends_at_the_limit_of_its_tree_and_agents_are_stopped_and_killed_from_scripts() {
    let home = Home { variables: vec![("POLYLOGUE_MAX_AGENTS".into(), "2".into())], ..Home::new() };
    let server = Server::at(&home);
    let fork = "%tool fork {\"prompt\":\"a\\n%hang\"}";
    let found = home.run(&["-p", &format!("{fork}\n{fork}\n{fork}\n%next\ndone")]);
    assert_eq!(found.code, 4, "{found:?}");
    assert!(found.err.contains("limits.max_agents"), "{found:?}");
    let listed = |home: &Home| home.run(&["ps", "--json"]).out.lines().count();
    assert_eq!(listed(&home), 1, "the agents of the run are archived");
    for line in home.run(&["ps", "--archived", "--json"]).out.lines() {
        let agent: Value = serde_json::from_str(line).expect("JSON");
        assert!(agent["number"].is_null(), "{agent}");
        assert_eq!(home.run(&["unarchive", agent["id"].as_str().expect("an id")]).code, 0);
    }
    assert_eq!(listed(&home), 4, "the root, the agent of the run, and two that it made");
    assert_eq!(home.run(&["tell", "0", "%hang"]).code, 0);
    let stopped = home.run(&["stop", "--agents"]);
    assert_eq!((stopped.code, stopped.out.trim()), (0, "stopped 1 agent"), "{stopped:?}");
    assert_eq!(home.run(&["kill", "1", "--descendants"]).code, 0);
    assert_eq!(listed(&home), 2);
    assert_eq!(home.run(&["kill", "0", "--descendants"]).code, 0);
    assert_eq!(listed(&home), 2, "the agent of a run is no descendant of the first conversation");
    assert_eq!(home.run(&["kill", "1"]).code, 0);
    assert_eq!(listed(&home), 1);
    server.ends_by(Signal::TERM);
}
