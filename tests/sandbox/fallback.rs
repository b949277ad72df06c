//! Systems that cannot build every level: the strongest one that works is used, and none is never used unseen.

use std::fs;
use std::path::Path;
use std::process::Command;

use polylogue::config::SandboxSettings;
use serde_json::json;

use super::{Level, Place, levels};
use crate::support::internals::sandbox::Policy;
use crate::support::internals::tools::Environment;
use crate::support::internals::{ToolCall, tools};
use crate::support::program::PROGRAM;
use crate::support::write_executable;

/// What `doctor` says about the sandbox when it is started by this script in namespaces of its own, where the script is
/// root; `None` if this machine has no such namespaces.
fn doctor_after(script: &str) -> Option<String> {
    let place = Place::new(None);
    let script = format!("{script} && exec {PROGRAM} doctor --offline");
    let mut command = place.command("unshare");
    let output = command.args(["-Urm", "bash", "-c", &script]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.is_empty() {
        eprintln!("not tried: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(said)
}

fn has(level: Level) -> bool {
    levels(&Place::new(None)).contains(&level)
}

#[test]
fn without_user_namespaces_landlock_is_used_and_doctor_says_what_is_missing() {
    if !has(Level::Landlock) {
        return;
    }
    let Some(said) = doctor_after("echo 0 > /proc/sys/user/max_user_namespaces") else { return };
    assert!(said.contains("not available: namespaces, Landlock and seccomp: new namespaces: ENOSPC"), "{said}");
    assert!(said.contains("commands run with Landlock and seccomp without namespaces"), "{said}");
    assert!(said.contains("commands cannot be restricted to hosts: a call asks for the whole network"), "{said}");
    assert!(said.contains("forbids namespaces: user.max_user_namespaces = 0"), "{said}");
    assert!(said.contains("the policy auto asks for each command"), "{said}");
    assert!(
        !said.contains("ABI version") && !said.contains("user namespaces: available"),
        "only what was tried: {said}"
    );
}

#[test]
fn where_proc_is_covered_the_systems_one_is_used() {
    if !has(Level::SharedProc) {
        return;
    }
    let Some(said) = doctor_after("mount -t tmpfs none /proc/sys/fs") else { return };
    assert!(said.contains("not available: namespaces, Landlock and seccomp: /proc: "), "{said}");
    assert!(said.contains("commands run with namespaces with the system's /proc"), "{said}");
    assert!(said.contains("ok    network        no network; a call can ask for hosts"), "{said}");
}

/// A supervisor that can build nothing.
fn supervisor_without_sandbox(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("supervisor");
    write_executable(&path, b"#!/bin/sh\nprintf '%s\\n' '{\"Unavailable\":\"a test\"}' >&0\nexit 126\n");
    path
}

#[test]
fn a_command_never_runs_without_a_sandbox_that_its_question_promised() {
    let place = Place::new(None);
    let workspace = place.path("home/work");
    let env = Environment {
        supervisor: supervisor_without_sandbox(&place.path("")),
        sandbox: Policy::new(SandboxSettings::default()),
        ..Environment::at(workspace.clone())
    };
    let bash = tools::find("bash").expect("a tool");
    let arguments = json!({"command": "touch it-ran"}).to_string();
    let asked = bash.prepare(&arguments, &env).expect("arguments");
    assert!(asked.question.detail.iter().any(|line| line.starts_with("sandbox: changes outside")), "{asked:?}");
    let call = ToolCall { id: "call-1".into(), name: "bash".into(), arguments: arguments.clone() };
    let (sender, wakes) = std::sync::mpsc::sync_channel(1);
    let wake = std::sync::Arc::new(move || sender.send(()).unwrap_or_default());
    let shared = std::sync::Arc::new(env.clone());
    let running = tools::Running::start(bash, call, asked, shared, wake).expect("a thread");
    wakes.recv_timeout(crate::support::PATIENCE).expect("an end");
    let result = running.collect();
    assert!(result.is_error && result.content.contains("cannot create the full sandbox (a test)"), "{result:?}");
    assert!(!workspace.join("it-ran").exists());
    // Copies of the environment know it too, and the next question says so.
    let asked = bash.prepare(&arguments, &env).expect("arguments");
    assert!(asked.question.detail.iter().any(|line| line.starts_with("sandbox: not available here")), "{asked:?}");
}

#[test]
fn the_level_that_works_is_found_by_trying() {
    let place = Place::new(None);
    let env = Environment { supervisor: PROGRAM.into(), ..Environment::at(place.path("home/work")) };
    let (level, failed) = tools::find_level(&env);
    assert_eq!(level, levels(&place).first().copied().unwrap_or(Level::None), "{failed:?}");
    // The same through a program that was started in the sandbox itself, where namespaces are refused.
    if has(Level::Namespaces) && has(Level::Landlock) {
        // The sandbox hides a program that was built below /tmp.
        write_executable(&place.path("home/work/program"), &fs::read(PROGRAM).expect("the program"));
        let said = place.run(Level::Namespaces, "./program doctor --offline").out;
        assert!(said.contains("new namespaces: EPERM"), "{said}");
        assert!(said.contains("commands run with Landlock and seccomp without namespaces"), "{said}");
    }
}

#[test]
fn the_switch_that_turns_the_sandbox_off_is_the_persons_alone() {
    let place = Place::new(None);
    let doctor = |arguments: &[&str]| {
        let mut command: Command = place.command(PROGRAM);
        let output = crate::support::output(command.args(["doctor", "--offline"]).args(arguments));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(doctor(&["--dangerously-no-sandbox"]).contains("off: commands can do whatever you can"));
    assert!(!doctor(&[]).contains("off: commands can do whatever you can"));
}

/// A call of `bash` that names a host, in an environment of this level without a loop.
fn call_with_host(level: Level, directory: &Path, host: &str) -> (Environment, tools::Prepared) {
    let env = Environment {
        supervisor: PROGRAM.into(),
        sandbox: Policy::new(SandboxSettings::default()).at_level(level),
        ..Environment::at(directory.to_owned())
    };
    let script = format!("exec 3<>/dev/tcp/{} && echo reached", host.replace(':', "/"));
    let arguments = json!({"command": script, "network": [host]}).to_string();
    let prepared = tools::find("bash").expect("a tool").prepare(&arguments, &env).expect("arguments");
    (env, prepared)
}

fn run(env: &Environment, prepared: tools::Prepared) -> String {
    let call = ToolCall { id: "call-1".into(), name: "bash".into(), arguments: String::new() };
    let (sender, wakes) = std::sync::mpsc::sync_channel(1);
    let wake = std::sync::Arc::new(move || sender.send(()).unwrap_or_default());
    let shared = std::sync::Arc::new(env.clone());
    let bash = tools::find("bash").expect("a tool");
    let running = tools::Running::start(bash, call, prepared, shared, wake).expect("a thread");
    wakes.recv_timeout(crate::support::PATIENCE).expect("an end");
    running.collect().content
}

#[test]
fn where_the_network_cannot_be_restricted_the_question_says_so_and_nothing_less_is_promised() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = server.local_addr().expect("an address").to_string();
    let place = Place::new(None);
    let directory = place.path("home/work");
    let (env, prepared) = call_with_host(Level::Landlock, &directory, &host);
    let detail = prepared.question.detail.join("\n");
    assert!(detail.contains("the whole network, because this system cannot restrict it to hosts"), "{detail}");
    if has(Level::Landlock) {
        assert_eq!(run(&env, prepared), "reached\n");
    }
    // The system turns out to be weaker after the question.
    let (env, prepared) = call_with_host(Level::Namespaces, &directory, &host);
    assert!(prepared.question.detail.join("\n").contains(&format!("network: only {host}, by HTTP and HTTPS")));
    env.sandbox.falls_from(Level::SharedProc);
    let refused = run(&env, prepared);
    assert!(refused.contains("cannot be restricted to hosts on this system; call again"), "{refused}");
    // Without a sandbox there is nothing to restrict and nothing to promise.
    let (_, prepared) = call_with_host(Level::None, &directory, &host);
    assert!(prepared.question.detail.join("\n").contains("sandbox: not available here"));
    let (env, prepared) = call_with_host(Level::Namespaces, &directory, &host);
    if has(Level::Namespaces) {
        assert!(run(&env, prepared).contains("there is no event loop to serve it"));
    }
}
