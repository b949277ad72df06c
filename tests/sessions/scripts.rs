//! The subcommands for scripts: output and exit codes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::Value;

use super::{App, Response};
use crate::support::peer::Peer;

#[test]
fn errors_have_a_message_and_an_exit_code() {
    let app = App::served();
    let table: [(&[&str], i32, &str); 15] = [
        (&["tell", "nobody", "text"], 2, "no agent \"nobody\""),
        (&["tell", "0", " "], 2, "nothing to send"),
        (&["tell", "0"], 2, "required"),
        (&["kill", "nobody"], 2, "no agent"),
        (&["kill", "0"], 2, ""),
        (&["kill"], 2, "required"),
        (&["interrupt", "nobody"], 2, "no agent"),
        (&["wait", "nobody"], 2, "no agent"),
        (&["wait", "0", "--timeout", "soon"], 2, "number of seconds"),
        (&["logs", "nobody"], 2, "no agent"),
        (&["logs", "0", "--from", "here"], 2, "EPOCH:N"),
        (&["logs", "0", "--from", "e:1", "--last", "1"], 2, "cannot be used with"),
        (&["completions", "csh"], 2, "bash"),
        (&["stop", "it"], 2, "put -- before it"),
        (&["explain", "--stay", "ps"], 2, "put -- before it"),
    ];
    for (args, code, error) in table {
        let output = app.run(args);
        assert_eq!((output.code, output.out.as_str()), (Some(code), ""), "{args:?}: {output:?}");
        assert!(output.err.contains(error), "{args:?}: {output:?}");
    }
    let mut pty = app.terminal(&["attach", "nobody"], (80, 24));
    assert_eq!(pty.wait_exit().code(), Some(2));
    assert!(pty.screen_text().contains("no agent \"nobody\""), "{}", pty.screen_text());
    assert!(!pty.raw_output().windows(6).any(|bytes| bytes == b"\x1b[?104"), "the screen was never taken");
}

#[test]
fn subcommands_that_need_a_server_print_how_to_start_it() {
    let app = App::new();
    for args in [
        &["attach"][..],
        &["tell", "0", "x"],
        &["kill", "0"],
        &["interrupt", "0"],
        &["wait", "0"],
        &["sessions"],
        &["approvals"],
        &["approve", "0.1-0"],
        &["deny", "0.1-0"],
        &["stop"],
        &["logs", "0", "--follow"],
    ] {
        let output = app.run(args);
        assert_eq!((output.code, output.out.as_str()), (Some(1), ""), "{args:?}: {output:?}");
        assert!(output.err.contains("polylogue serve --background"), "{args:?}: {output:?}");
    }
}

#[test]
fn send_wait_and_logs_work_from_arguments_and_standard_input_and_logs_without_a_server() {
    let app = App::served();
    assert_eq!(app.get(&["tell", "0", "two", "words"]), "");
    assert_eq!(app.get(&["wait", "0", "--timeout", "60"]), "idle\n");
    let mut child = app.command(&["tell", "0", "-"]).stdin(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("a pipe").write_all(b"from\nbelow").expect("it reads");
    assert!(crate::support::output_of(child).status.success());
    app.get(&["wait", "0"]);
    let logs = app.get(&["logs", "0"]);
    assert!(logs.ends_with("> two words\ntwo words\n> from\n> below\nfrom\nbelow\n"), "{logs}");

    let agents: Value = serde_json::from_str(&app.get(&["ps", "--json"])).expect("one object");
    assert_eq!((&agents["number"], &agents["status"]), (&0.into(), &"idle".into()));
    let id = agents["id"].as_str().expect("an id");
    app.get(&["stop"]);
    let kept: Value = serde_json::from_str(&app.get(&["ps", "--json"])).expect("one object");
    assert_eq!((&kept["id"], &kept["status"]), (&agents["id"], &agents["status"]));
    for agent_id in ["0", id, &id[..6]] {
        assert!(app.get(&["logs", agent_id]).ends_with("> two words\ntwo words\n> from\n> below\nfrom\nbelow\n"));
    }
    assert_eq!(app.run(&["logs", "nobody"]).code, Some(2));
}

#[test]
fn mail_is_sent_listed_read_and_deleted_with_and_without_a_server() {
    let app = App::served();
    for has_server in [true, false] {
        if !has_server {
            app.get(&["stop"]);
        }
        let sent = app.run(&["mail", "0", "--send", "one two\nthree"]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
        let note = "the mail waits until the agent looks; polylogue tell 0 TEXT prompts it now";
        assert!(sent.err.contains(note), "{sent:?}");
        let listed: Value = serde_json::from_str(&app.get(&["mail", "0", "--json"])).expect("one object");
        assert_eq!((&listed["read"], &listed["text"]), (&false.into(), &"one two\nthree".into()));
        let table = app.get(&["mail", "0"]);
        assert!(table.starts_with("ID") && table.contains("one two") && !table.contains("three"), "{table}");
        assert!(app.get(&["mail", "0", "--read"]).ends_with("one two\nthree\n"));
        assert_eq!(app.get(&["mail", "0", "--read"]), "", "it is read");
        let listed: Value = serde_json::from_str(&app.get(&["mail", "0", "--json"])).expect("one object");
        let id = listed["id"].to_string();
        assert_eq!(listed["read"], true);
        assert!(app.get(&["mail", "0", "--read", &id]).contains("one two"));
        assert_eq!(app.get(&["mail", "0", "--delete", &id]), "");
        assert_eq!(app.get(&["mail", "0"]), "");
        assert_eq!(app.run(&["mail", "0", "--read", &id]).code, Some(2));
        assert_eq!(app.run(&["mail", "nobody"]).code, Some(2));
    }
}

#[test]
fn mail_is_sent_from_standard_input_with_and_without_a_server() {
    let app = App::served();
    for has_server in [true, false] {
        if !has_server {
            app.get(&["stop"]);
        }
        let mut child = app.command(&["mail", "0", "--send", "-"]).stdin(Stdio::piped()).spawn().expect("it runs");
        child.stdin.take().expect("a pipe").write_all(b"- from\nbelow").expect("it reads");
        assert!(crate::support::output_of(child).status.success());
        let read = app.get(&["mail", "0", "--read"]);
        assert!(read.ends_with(":\n- from\nbelow\n"), "{read}");
    }
}

#[test]
fn definitions_are_listed_with_and_without_a_server() {
    let mut app = App::new();
    let definitions = app.path().join(".config/polylogue/agents");
    std::fs::create_dir_all(&definitions).expect("a directory");
    std::fs::write(definitions.join("critic.md"), "---\ndescription: Finds fault.\n---\nYou are the critic.\n")
        .expect("a file");
    app.serve();
    for has_server in [true, false] {
        if !has_server {
            app.get(&["stop"]);
        }
        let listed: Value = serde_json::from_str(&app.get(&["ps", "--definitions", "--json"])).expect("one object");
        assert_eq!(listed, serde_json::json!({"name": "critic", "author": "yours", "description": "Finds fault."}));
        let table = app.get(&["ps", "--definitions"]);
        assert!(table.starts_with("NAME") && table.contains("Finds fault."), "{table}");
        assert_eq!(app.run(&["ps", "--definitions", "--all"]).code, Some(2));
    }
}

#[test]
fn logs_continue_at_the_position_of_an_earlier_output() {
    let app = App::served();
    let lines = |args: &[&str]| -> Vec<Value> {
        app.get(args).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    app.get(&["tell", "0", "one"]);
    app.get(&["wait", "0"]);
    let first = lines(&["logs", "0", "--json"]);
    let last = first.last().expect("a line");
    let next = format!("{}:{}", last["epoch"].as_str().expect("text"), last["n"].as_u64().expect("a number") + 1);
    assert_eq!(lines(&["logs", "0", "--json", "--from", &next]), [] as [Value; 0]);
    app.get(&["tell", "0", "two"]);
    app.get(&["wait", "0"]);
    let then = lines(&["logs", "0", "--json", "--from", &next]);
    assert_eq!((&then[0]["v"], then[0]["n"].as_u64()), (&1.into(), last["n"].as_u64().map(|n| n + 1)));
    assert!(then.iter().any(|line| line["type"] == "user" && line["text"] == "two"));
    for (count, kind) in [("1", "text"), ("2", "user")] {
        let begin = then.iter().position(|line| line["type"] == kind).expect("its first line");
        assert_eq!(lines(&["logs", "0", "--json", "--last", count]), then[begin..], "{count}");
    }
    for old in ["another:5", "-begins-with-a-hyphen:5"] {
        assert!(lines(&["logs", "0", "--json", "--from", old]).len() > then.len(), "an old epoch gets all");
    }
}

#[test]
fn logs_follow_prints_new_output_until_the_agent_ends() {
    let peer = Peer::start();
    let app = App::served_with(&peer.url());
    let mut pty = app.attach(&[], (80, 24));
    pty.send("/fork --name ann\r");
    pty.wait_for_text("── ann ");
    let mut follower = app.command(&["logs", "ann", "--follow"]).stdout(Stdio::piped()).spawn().expect("it runs");
    app.get(&["tell", "ann", "a question"]);
    let exchange = peer.accept();
    exchange.stream().text("half ");
    assert_eq!(app.run(&["wait", "ann", "--timeout", "0.2"]).code, Some(4));
    exchange.text("and whole").finish("stop").done();
    assert_eq!(app.get(&["wait", "ann"]), "idle\n");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    assert!(lines.by_ref().any(|line| line == "> a question") && lines.next().as_deref() == Some("half and whole"));
    app.get(&["kill", "ann"]);
    assert_eq!(crate::support::output_of(follower).status.code(), Some(0));
}

#[test]
fn the_exit_code_of_wait_tells_the_status() {
    let app = App::served();
    app.get(&["tell", "0", "words\n%hang"]);
    let late = app.run(&["wait", "0", "--timeout", "0.2"]);
    assert_eq!(late.code, Some(4), "{late:?}");
    let waiting = app.command(&["wait", "0"]).stdout(Stdio::piped()).spawn().expect("it runs");
    app.get(&["interrupt", "0"]);
    let output = Response::of(crate::support::output_of(waiting));
    assert_eq!((output.code, output.out.as_str()), (Some(130), "interrupted\n"));
    let mut pty = app.attach(&["0"], (80, 24));
    pty.send("/fork --name ann\r");
    pty.wait_for_text("── ann ");
    let agents = app.get(&["ps", "--json"]);
    let ann: Value = serde_json::from_str(agents.lines().last().expect("two")).expect("JSON");
    app.get(&["kill", "ann"]);
    let dead = app.run(&["wait", ann["id"].as_str().expect("an id")]);
    assert_eq!((dead.code, dead.out.as_str()), (Some(1), "dead\n"), "{dead:?}");
}

#[test]
fn tool_calls_are_listed_approved_and_denied() {
    let app = App::served();
    let until_one_is_open = || loop {
        let line = app.get(&["approvals", "--json"]);
        if !line.is_empty() {
            break serde_json::from_str::<Value>(&line).expect("one object");
        }
    };
    assert_eq!(app.get(&["approvals"]), "");
    app.get(&["tell", "0", "%tool bash {\"command\":\"echo one > made\\necho two >> made\"}"]);
    let id = until_one_is_open()["id"].as_str().expect("text").to_owned();
    let listed = app.get(&["approvals"]);
    assert!(listed.starts_with(&format!("{id}  agent 0  bash  ")), "{listed}");
    assert!(listed.contains("\n    echo one > made\n    echo two >> made\n"), "{listed}");
    assert_eq!(app.get(&["approve", &id]), "");
    assert_eq!(app.get(&["wait", "0"]), "idle\n");
    assert_eq!(std::fs::read_to_string(app.workspace.path().join("made")).expect("a file"), "one\ntwo\n");
    let again = app.run(&["approve", &id]);
    assert!(again.code == Some(2) && again.err.contains("polylogue approvals"), "{again:?}");

    app.get(&["tell", "0", "%tool bash {\"command\":\"rm made\"}"]);
    let id = until_one_is_open()["id"].as_str().expect("text").to_owned();
    app.get(&["deny", &id, "--reason", "keep it"]);
    assert_eq!(app.get(&["wait", "0"]), "idle\n");
    assert!(app.get(&["logs", "0"]).contains("the user denied this call: keep it"));
    assert!(app.workspace.path().join("made").exists());
}

#[test]
fn kill_cascade_ends_descendants() {
    let app = App::served();
    let mut pty = app.attach(&[], (80, 24));
    for name in ["ann", "bob"] {
        pty.send(format!("/fork --name {name}\r"));
        pty.wait_for_text(&format!("── {name} "));
        pty.send(format!("I am {name}\r"));
        pty.wait_for_answer(&format!("I am {name}"), &format!("I am {name}"));
    }
    app.get(&["kill", "ann", "--cascade"]);
    assert_eq!(app.get(&["ps", "--json"]).lines().count(), 1);
}

#[test]
fn an_agent_is_named_by_its_number_without_quotes() {
    let app = App::served();
    let mut pty = app.attach(&["agent", "0"], (80, 24));
    for number in 1..=2 {
        pty.send("/fork\r");
        pty.wait_for_text(&format!("── agent {number} "));
    }
    app.get(&["tell", "agent", "1", "agent", "7", "is late"]);
    assert_eq!(app.get(&["wait", "agent", "1"]), "idle\n");
    assert!(app.get(&["logs", "agent", "1"]).ends_with("> agent 7 is late\nagent 7 is late\n"));
    app.get(&["mail", "agent", "0", "--from", "agent", "2", "--send", "hello"]);
    assert!(app.get(&["mail", "agent", "0"]).contains("agent 2"));
    app.get(&["kill", "agent", "1", "--cascade"]);
    let listed = app.get(&["ps", "--json"]);
    let numbers = listed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["number"].clone());
    assert_eq!(numbers.collect::<Vec<_>>(), [0]);
}

#[test]
fn a_closed_pipe_ends_logs_without_an_error() {
    let app = App::served();
    app.get(&["tell", "0", "%repeat 3000\nmany words"]);
    app.get(&["wait", "0"]);
    let mut follower = app.command(&["logs", "0", "--follow"]).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut first = [0; 1];
    let mut out = follower.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut out, &mut first).expect("it prints");
    drop(out);
    app.get(&["tell", "0", "%repeat 3000\nmore words"]);
    assert_eq!(crate::support::output_of(follower).status.code(), Some(0));
}
