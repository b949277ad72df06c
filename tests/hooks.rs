//! Hooks: what they are told, what they may refuse, ask, change and add, and that one that hangs or floods is bounded.

use std::fs;
use std::time::Duration;

use polylogue::config::{Author, Hook, HookEvent, Policy, Rules};
use serde_json::{Value, json};

#[cfg(feature = "mcp")]
use crate::mcp;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::Peer;
use crate::support::program::Home;
use crate::support::scene::{
    answer_next, assert_shows, bash, is_running, mark, reply_with_calls, results_in, results_then, texts_in,
};
use crate::support::{eventually, write_executable};

pub(crate) mod trust;
mod turns;

fn hook(event: HookEvent, matcher: &str, script: &str) -> Hook {
    Hook {
        event,
        matcher: matcher.into(),
        command: vec!["sh".into(), "-c".into(), script.into()],
        timeout: Duration::from_secs(20),
        is_required: false,
        author: Author::Person,
        has_claude_names: false,
        source: "config.toml:1".into(),
        project: None,
        scripts: Vec::new(),
    }
}

fn pre(script: &str) -> Hook {
    hook(HookEvent::PreTool, "", script)
}

/// A script that prints this answer of a hook before a call.
fn answers(fields: Value) -> String {
    format!("printf %s '{}'", json!({ "hookSpecificOutput": fields }))
}

fn app(peer: &Peer, hooks: Vec<Hook>) -> Harness {
    app_with(peer, hooks, Plan { rules: Rules::default(), ..Plan::peer(&peer.url()) })
}

fn app_with(peer: &Peer, hooks: Vec<Hook>, plan: Plan) -> Harness {
    let _ = peer;
    Harness::new(Plan { hooks, real_time: true, size: Some((120, 40)), ..plan })
}

fn calls(app: &mut Harness, peer: &Peer, calls: &[(&str, &str)]) {
    app.enter("do it");
    reply_with_calls(&app.accept(peer), calls);
}

fn write(path: &str) -> String {
    json!({"file_path": path, "content": "x"}).to_string()
}

#[test]
fn a_hook_before_a_call_is_told_of_it_and_refuses_it() {
    let peer = Peer::start();
    let told = "cat > told.json; echo 'not this one' >&2; exit 2";
    let mut app = app(&peer, vec![hook(HookEvent::PreTool, "Write", told), hook(HookEvent::PreTool, "glob", "exit 2")]);
    calls(&mut app, &peer, &[("write_file", &write("it")), ("list_dir", "{}")]);
    let results = results_then(&mut app, &peer, 0, "done");
    assert_eq!(results[0], "denied by a hook: not this one");
    assert!(results[1].contains("told.json"), "a hook for another tool does not run: {results:?}");
    assert!(!app.directory().join("it").exists());
    let told: Value =
        serde_json::from_slice(&fs::read(app.directory().join("told.json")).expect("a file")).expect("JSON");
    assert_eq!((&told["hook_event_name"], &told["tool_name"]), (&json!("PreToolUse"), &json!("write_file")));
    assert_eq!((&told["tool_input"]["file_path"], &told["permission_mode"]), (&json!("it"), &json!("default")));
    assert_eq!(told["session_id"], app.id(0).to_string());
}

#[test]
fn allow_skips_the_question_and_neither_ask_nor_deny_rules() {
    let peer = Peer::start();
    let rules = Rules {
        ask: vec!["edit(asked)".parse().expect("a rule")],
        deny: vec!["edit(denied)".parse().expect("a rule")],
        ..Rules::default()
    };
    let allow = pre(&answers(json!({"permissionDecision": "allow"})));
    let mut app = app_with(&peer, vec![allow], Plan { rules, ..Plan::peer(&peer.url()) });
    calls(
        &mut app,
        &peer,
        &[
            ("write_file", &write("free")),
            ("write_file", &write("denied")),
            ("write_file", &write("AGENTS.md")),
            ("write_file", &write("asked")),
        ],
    );
    app.turn_until_asked(0);
    assert!(app.directory().join("free").exists());
    assert_shows(&mut app, "AGENTS.md is protected");
    app.answer(0, false);
    app.turn_until_asked(0);
    assert_shows(&mut app, "the rule ask edit(asked)");
    app.answer(0, false);
    let results = results_then(&mut app, &peer, 0, "done");
    assert!(results[1].contains("refused by the rule deny edit(denied)"), "{results:?}");
}

#[test]
fn a_hook_of_a_project_denies_and_asks_and_gives_no_power() {
    let peer = Peer::start();
    let of_project =
        |script: &str, matcher: &str| Hook { author: Author::Project, ..hook(HookEvent::PreTool, matcher, script) };
    let allow = answers(json!({"permissionDecision": "allow", "updatedInput": {"file_path": "other", "content": "x"}}));
    let ask = answers(json!({"permissionDecision": "ask", "permissionDecisionReason": "look first"}));
    let mut app = app(&peer, vec![of_project(&allow, "write_file"), of_project(&ask, "list_dir")]);
    calls(&mut app, &peer, &[("write_file", &write("mine")), ("list_dir", "{}")]);
    app.turn_until_asked(0);
    for shown in ["write_file: mine", "cannot allow: it is a project's", "cannot change calls"] {
        assert_shows(&mut app, shown);
    }
    app.answer(0, false);
    app.turn_until_asked(0);
    assert_shows(&mut app, "asks because: a hook: look first");
    app.answer(0, true);
    let results = results_then(&mut app, &peer, 0, "done");
    assert!(results[0].contains("denied") && !results[1].contains("denied"), "{results:?}");
}

#[test]
fn a_call_that_a_hook_changes_is_asked_about_as_it_will_run() {
    let peer = Peer::start();
    let change = answers(json!({"permissionDecision": "allow", "updatedInput": {"command": "echo a-$((20+3))-z"}}));
    let mut app = app(&peer, vec![pre(&change)]);
    calls(&mut app, &peer, &[("bash", &bash("touch it-ran"))]);
    app.turn_until_asked(0);
    assert_shows(&mut app, "echo a-$((20+3))-z");
    app.answer(0, true);
    let results = results_then(&mut app, &peer, 0, "done");
    assert!(
        results[0].contains("a-23-z") && results[0].contains("a hook of the user changed this call"),
        "{results:?}"
    );
    assert!(!app.directory().join("it-ran").exists());
}

#[test]
fn a_hook_that_hangs_floods_or_fails_is_a_note_and_of_a_required_one_a_refusal() {
    let peer = Peer::start();
    let slow = Hook { timeout: Duration::from_millis(300), ..hook(HookEvent::PreTool, "write_file", "sleep 60") };
    let flood = hook(HookEvent::PreTool, "write_file", "yes");
    let broken = Hook { is_required: true, ..hook(HookEvent::PreTool, "list_dir", "echo oh >&2; exit 3") };
    let mut app = app(&peer, vec![slow, flood, broken]);
    calls(&mut app, &peer, &[("write_file", &write("it")), ("list_dir", "{}")]);
    app.turn_until_asked(0);
    for shown in ["failed: timed out after 300ms", "failed: printed more than 256 KiB"] {
        assert_shows(&mut app, shown);
    }
    app.answer(0, true);
    let results = results_then(&mut app, &peer, 0, "done");
    assert_eq!(results[1], "denied by a hook: a required hook failed: exit 3: oh");
    assert!(app.directory().join("it").exists());
}

#[test]
fn a_hook_that_cannot_be_started_refuses_the_call() {
    let peer = Peer::start();
    let missing = Hook { command: vec!["/nowhere/check".into()], ..hook(HookEvent::PreTool, "write_file", "") };
    let in_shell = hook(HookEvent::PreTool, "list_dir", "~/nowhere/check --strict");
    let plan = Plan { policy: Policy::Yolo, ..Plan::peer(&peer.url()) };
    let mut app = app_with(&peer, vec![missing, in_shell], plan);
    calls(&mut app, &peer, &[("write_file", &write("it")), ("list_dir", "{}")]);
    let results = results_then(&mut app, &peer, 0, "done");
    for result in &results {
        assert!(result.starts_with("denied by a hook: a hook could not be started: "), "{results:?}");
    }
    assert!(!app.directory().join("it").exists());
    assert_shows(&mut app, "could not be started: ");
}

#[test]
fn a_hook_in_the_home_directory_runs_as_the_manual_writes_it() {
    let home = Home::new();
    let top = home.directory.path();
    let config = top.join(".config/polylogue");
    for directory in [&config, &top.join("bin")] {
        fs::create_dir_all(directory).expect("a directory");
    }
    write_executable(&top.join("bin/check"), b"#!/bin/sh\necho \"checked $1\" >&2\nexit 2\n");
    let text = "[[hooks.pre_tool]]\nmatcher = \"list_dir\"\ncommand = [\"~/bin/check\", \"--strict\"]\n";
    fs::write(config.join("config.toml"), text).expect("a file");
    let output = home.run(&["-p", "--output-format", "stream-json", "%tool list_dir {}\n%next\ndone"]);
    assert!(output.out.contains("denied by a hook: checked --strict"), "{output:?}");
}

#[test]
fn an_interrupt_ends_a_hook_with_its_descendants() {
    let peer = Peer::start();
    let mark = mark();
    let mut app = app(&peer, vec![pre(&format!("touch up; sleep {mark} & wait"))]);
    calls(&mut app, &peer, &[("write_file", &write("it"))]);
    let up = app.directory().join("up");
    app.turn_until("the hook runs", |_| up.exists() && is_running(&format!("sleep\0{mark}")));
    app.escape();
    app.turn_until_idle();
    app.turn_until("the end of the hook", |_| !is_running(&mark));
    assert!(!app.directory().join("it").exists());
    assert_eq!(app.kinds(0), ["user", "tool_call", "tool_result", "interrupted"]);
    assert_eq!(app.timeout().after, None, "no thread lives");
}

#[test]
fn a_hook_cannot_write_outside_of_the_workspace_or_reach_the_network() {
    let peer = Peer::start();
    let script = "touch /etc/polylogue-hook 2>/dev/null && echo wrote >> seen; ls /proc/net/route >/dev/null; \
                  grep -c : /proc/net/dev >> seen";
    let mut app = app(&peer, vec![pre(script)]);
    calls(&mut app, &peer, &[("list_dir", "{}")]);
    results_then(&mut app, &peer, 0, "done");
    let seen = fs::read_to_string(app.directory().join("seen")).expect("a file");
    assert_eq!(seen.trim(), "1", "only the loopback interface");
}

#[test]
fn a_hook_reads_the_workspace_and_changes_it_only_where_its_agent_may() {
    for (policy, environment, may_write) in [
        (Policy::Ask, None, true),
        (Policy::Never, None, false),
        (Policy::Plan, None, false),
        (Policy::Ask, Some("readonly"), false),
    ] {
        let peer = Peer::start();
        let script = "grep -q known f || exit 2; echo x > /tmp/scratch || exit 2; touch it; exit 0";
        let mut app = app_with(&peer, vec![pre(script)], Plan { policy, ..Plan::peer(&peer.url()) });
        fs::write(app.directory().join("f"), "known").expect("a file");
        if let Some(name) = environment {
            app.enter(&format!("/env {name}"));
        }
        let n = app.focus();
        calls(&mut app, &peer, &[("list_dir", "{}")]);
        let results = results_then(&mut app, &peer, n, "done");
        assert!(results[0].contains('f') && !results[0].contains("hook"), "{policy:?} {environment:?} {results:?}");
        assert_eq!(app.directory().join("it").exists(), may_write, "{policy:?} {environment:?}");
    }
}

#[test]
fn what_a_hook_plants_is_reported_as_of_commands() {
    let peer = Peer::start();
    let script = "mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/pre-commit";
    let plan = Plan { policy: Policy::Yolo, rules: Rules::default(), ..Plan::peer(&peer.url()) };
    let mut app = app_with(&peer, vec![hook(HookEvent::PostTool, "", script)], plan);
    calls(&mut app, &peer, &[("list_dir", "{}")]);
    let results = results_then(&mut app, &peer, 0, "done");
    assert!(app.directory().join("sub/.git/hooks/pre-commit").exists(), "{results:?}");
    assert_shows(&mut app, "sub/.git was created during this command");
    assert!(results[0].contains("[protected: sub/.git was created during this command"), "{results:?}");
}

#[test]
fn a_hook_after_a_call_adds_to_its_result() {
    let peer = Peer::start();
    let context = answers(json!({"additionalContext": "run the linter"}));
    let told = "cat > told.json; echo 'bad name' >&2; exit 2";
    let after = |script: &str| hook(HookEvent::PostTool, "write_file|todo", script);
    let mut app =
        app_with(&peer, vec![after(&context), after(told)], Plan { policy: Policy::Yolo, ..Plan::peer(&peer.url()) });
    calls(&mut app, &peer, &[("write_file", &write("it")), ("todo", r#"{"todos":[]}"#)]);
    let results = results_then(&mut app, &peer, 0, "done");
    for result in &results {
        assert!(result.contains("[hook: run the linter]"), "{results:?}");
        assert!(result.contains("[a hook objects to this result: bad name]"), "{results:?}");
    }
    let told: Value =
        serde_json::from_slice(&fs::read(app.directory().join("told.json")).expect("a file")).expect("JSON");
    assert_eq!((&told["hook_event_name"], &told["tool_response"]["is_error"]), (&json!("PostToolUse"), &json!(false)));
}

#[test]
fn a_stop_hook_has_the_model_go_on_and_is_told_that_it_did() {
    let peer = Peer::start();
    let once = "grep -q '\"stop_hook_active\":true' && exit 0; echo 'run the tests first' >&2; exit 2";
    let mut app = app(&peer, vec![hook(HookEvent::Stop, "", once)]);
    app.enter("do it");
    app.accept(&peer).stream().text("done").finish("stop").done();
    let texts = texts_in(&answer_next(&mut app, &peer, 0, "now it is"));
    assert!(texts.last().expect("a text").ends_with("does not let you stop yet: run the tests first"), "{texts:?}");
    assert_eq!(app.replies(0), ["done", "now it is"]);
    assert_shows(&mut app, "a stop hook makes the model continue: run the tests first");
}

#[test]
fn a_stop_hook_that_is_never_content_ends_after_five_rounds() {
    let peer = Peer::start();
    let mut app = app(&peer, vec![hook(HookEvent::Stop, "", "echo more >&2; exit 2")]);
    app.enter("do it");
    for _ in 0..6 {
        app.accept(&peer).stream().text("done").finish("stop").done();
    }
    app.turn_until_idle();
    assert_eq!((app.replies(0).len(), peer.try_accept().is_none()), (6, true));
    assert_shows(&mut app, "the stop hooks are not run again");
}

#[test]
fn an_interrupt_ends_a_stop_hook_and_the_reply_stays() {
    let peer = Peer::start();
    let mut app = app(&peer, vec![hook(HookEvent::Stop, "", "touch up; sleep 60")]);
    app.enter("do it");
    app.accept(&peer).stream().text("done").finish("stop").done();
    let up = app.directory().join("up");
    app.turn_until("the hook runs", |_| up.exists());
    app.escape();
    app.turn_until_idle();
    assert_eq!((app.state(0), app.kinds(0)), (State::Idle, vec!["user", "assistant", "interrupted"]));
}

#[test]
fn notify_hooks_are_told_of_questions_and_ends() {
    let peer = Peer::start();
    let mut app = app(&peer, vec![hook(HookEvent::Notify, "", "cat >> told; echo >> told")]);
    calls(&mut app, &peer, &[("write_file", &write("it"))]);
    app.turn_until_asked(0);
    let told = |app: &Harness| fs::read_to_string(app.directory().join("told")).unwrap_or_default();
    app.turn_until("the question", |app| told(app).contains("agent 0 asks: write_file: it"));
    app.answer(0, true);
    let exchange = app.accept(&peer);
    assert_eq!(results_in(&exchange.request().json()).len(), 1);
    exchange.stream().text("done").finish("stop").done();
    app.turn_until("the end", |app| told(app).contains("\"agent 0 finished\""));
    assert!(told(&app).contains("permission_prompt") && told(&app).contains("idle_prompt"));
}

#[test]
#[cfg(feature = "mcp")]
fn a_question_that_comes_late_in_a_turn_is_told_without_another_event() {
    let peer = Peer::start();
    let plan = Plan { mcp: vec![mcp::server("legacy")], ..Plan::peer(&peer.url()) };
    let mut app = app_with(&peer, vec![hook(HookEvent::Notify, "", "cat >> told")], plan);
    write_executable(&app.directory().join("server.sh"), include_bytes!("mcp/server.sh"));
    // The result of a server leads to the question about the next call, after hooks have had their step.
    calls(&mut app, &peer, &[("mcp__legacy__first", "{}"), ("write_file", &write("it"))]);
    app.turn_until_asked(0);
    app.answer(0, true);
    app.turn_until_asked(0);
    assert_eq!(app.timeout().why, crate::support::internals::WakeReason::Leftover);
    let told = app.directory().join("told");
    app.turn_until("the question", |_| fs::read_to_string(&told).is_ok_and(|told| told.contains("write_file: it")));
}

#[test]
fn a_result_is_kept_with_what_hooks_said_if_the_program_ends_before_the_next_one_has() {
    let peer = Peer::start();
    let known = hook(HookEvent::PreTool, "write_file", &answers(json!({"additionalContext": "known before"})));
    let mark = mark();
    let slow = hook(HookEvent::PostTool, "write_file", &format!("touch up; sleep {mark}"));
    let mut app = app_with(&peer, vec![known, slow], Plan { policy: Policy::Yolo, ..Plan::peer(&peer.url()) });
    calls(&mut app, &peer, &[("write_file", &write("it"))]);
    let up = app.directory().join("up");
    app.turn_until("the hook runs", |_| up.exists());
    app.repl.leave().expect("it ends");
    assert!(!is_running(&mark));
    let result = app.tool_results(0).pop().expect("a result").content;
    for part in
        ["created it", "[hook: known before]", "[the hooks after this call were ended before they had finished]"]
    {
        assert!(result.contains(part), "{part}: {result}");
    }
}

#[test]
fn the_end_of_the_program_waits_for_notify_hooks_and_ends_those_that_hang() {
    let home = Home::new();
    let (told, config) = (home.directory.path().join("told"), home.directory.path().join(".config/polylogue"));
    fs::create_dir_all(&config).expect("a directory");
    let run = |patience: f32, command: &str| {
        let text = format!("[limits]\nexit_patience = {patience}\n[[hooks.notify]]\ncommand = {command:?}\n");
        fs::write(config.join("config.toml"), text).expect("a file");
        home.run(&["-p", "--approval", "auto", "hello"])
    };
    assert_eq!(run(60.0, "sleep 0.2; grep -o idle_prompt > told").code, 0);
    assert_eq!(fs::read_to_string(told).expect("it was told"), "idle_prompt\n");
    let mark = mark();
    let ended = run(0.2, &format!("exec sleep {mark}"));
    assert_eq!((ended.code, ended.err.matches("a notify hook has not finished").count()), (0, 1), "{ended:?}");
    eventually(|| !is_running(&mark));
}

#[test]
fn hooks_are_listed_with_their_source() {
    let peer = Peer::start();
    let mut app = app(&peer, vec![Hook { is_required: true, ..hook(HookEvent::PreTool, "bash", "./check") }]);
    app.enter("/hooks");
    assert_shows(&mut app, "pre_tool  bash");
    assert_shows(&mut app, "sh -c ./check (yours, required, config.toml:1, 20s)");
}
