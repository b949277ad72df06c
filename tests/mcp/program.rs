//! MCP servers in the real program: its subcommands, trust in a project's servers, and its violent end.

use std::path::PathBuf;

use rustix::process::Signal;

use super::{PROGRAM, servers_in};
use crate::support::Patience;
use crate::support::program::{Home, Program};
use crate::support::write_executable;

const POLYLOGUE: &str = env!("CARGO_BIN_EXE_polylogue");

/// A home with a workspace, in which the scripted server is.
fn home() -> (Home, PathBuf) {
    let home = Home::new();
    let work = home.directory.path().join("work");
    std::fs::create_dir_all(work.join(".git")).expect("a directory");
    write_executable(&work.join(PROGRAM), include_bytes!("server.sh"));
    (home, work)
}

fn start(home: &Home, work: &PathBuf, args: &[&str]) -> Program {
    let mut command = home.command(POLYLOGUE, args);
    command.current_dir(work);
    Program::start(command)
}

#[test]
fn servers_are_added_listed_and_tested_and_doctor_tries_them() {
    let (home, work) = home();
    let run = |args: &[&str]| start(&home, &work, args).ends();
    let script = format!("exec ./{PROGRAM} legacy");
    let added = run(&["mcp", "add", "good", "--env", "TOKEN=t0ken", "--", "sh", "-c", &script]);
    assert_eq!(added.code, 0, "{added:?}");
    assert_eq!(run(&["mcp", "add", "bad", "--", "sh", "-c", "echo broken >&2; exit 4"]).code, 0);
    let twice = run(&["mcp", "add", "bad", "--", "true"]);
    assert!(twice.code == 2 && twice.err.contains("there is an MCP server bad already"), "{twice:?}");
    let listed = run(&["mcp", "list"]);
    assert!(listed.out.contains("good\tTOKEN=… sh -c") && !listed.out.contains("t0ken"), "{listed:?}");
    let tested = run(&["mcp", "test"]);
    assert_eq!(tested.code, 1, "{tested:?}");
    assert!(tested.out.contains("ok    good: 2 tools\n      first "), "{tested:?}");
    assert!(tested.out.contains("fail  bad: ended with exit code 4: broken\n"), "{tested:?}");
    assert_eq!(run(&["mcp", "test", "good"]).code, 0);
    assert_eq!(run(&["mcp", "test", "other"]).code, 2);
    let doctor = run(&["doctor", "--offline"]);
    assert!(doctor.out.contains("ok    mcp            good: 2 tools"), "{doctor:?}");
    assert!(doctor.out.contains("warn  mcp            bad: ended with exit code 4: broken"), "{doctor:?}");
    let shown = run(&["config", "show"]);
    assert!(shown.out.contains("[mcp.good]") && !shown.out.contains("t0ken"), "{shown:?}");
    assert_eq!(servers_in(&work), 0);
}

#[test]
fn the_servers_of_a_project_count_after_trust_and_again_after_each_change() {
    let (home, work) = home();
    let file = work.join(".mcp.json");
    let declare = |behaviour: &str| {
        let json = serde_json::json!({"mcpServers": {"project": {"command": "./server.sh", "args": [behaviour]}}});
        std::fs::write(&file, json.to_string()).expect("a file");
    };
    let run = |args: &[&str]| start(&home, &work, args).ends();
    declare("legacy");
    assert!(run(&["mcp", "list"]).out.contains("no MCP servers"));
    let trusted = run(&["config", "trust", "--yes"]);
    assert!(trusted.out.contains("./server.sh"), "{trusted:?}");
    assert!(run(&["mcp", "test"]).out.contains("ok    project: 2 tools"));
    declare("modern");
    assert!(run(&["mcp", "list"]).out.contains("no MCP servers"));
}

#[test]
fn a_program_that_is_killed_leaves_no_server() {
    let (home, work) = home();
    assert_eq!(start(&home, &work, &["mcp", "add", "hangs", "--", "./server.sh", "hangs"]).ends().code, 0);
    let message = "%tool mcp__hangs__first {}";
    let program = start(&home, &work, &["-p", "-m", "echo", "--allow", "mcp(*)", message]);
    let wait = |count: usize| {
        let mut patience = Patience::new();
        while servers_in(&work) != count {
            assert!(patience.has_time(), "{count} servers are expected");
            std::thread::yield_now();
        }
    };
    wait(1);
    program.signal(Signal::KILL);
    wait(0);
}
