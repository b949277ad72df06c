//! An agent works in its own directory, wherever it is resumed.

use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::support::internals::Body;
use crate::support::program::{Home, PROGRAM, Program, Response};

const READ: &str = "%tool read_file {\"path\":\"where\"}\n%next\ndone";

/// Three projects, each with a file that has its name.
fn projects(home: &Home) -> Vec<PathBuf> {
    let make = |name: &str| {
        let directory = home.directory.path().join(name);
        std::fs::create_dir(&directory).expect("a directory");
        std::fs::write(directory.join("where"), format!("this is {name}")).expect("a file");
        directory
    };
    ["shop", "docs", "infra"].map(make).into()
}

fn run_in(home: &Home, directory: &Path, args: &[&str]) -> Response {
    let mut command = home.command(PROGRAM, args);
    command.current_dir(directory);
    Program::start(command).ends()
}

/// What the tools of the agent with this number have returned.
fn results(home: &Home, ordinal: usize) -> Vec<String> {
    let result = |body| match body {
        Body::ToolResult(result) => Some(result.content),
        _ => None,
    };
    home.log(ordinal).into_iter().filter_map(result).collect()
}

fn assert_reads(home: &Home, ordinal: usize, name: &str, count: usize) {
    let results = results(home, ordinal);
    let is_right = |result: &String| result.contains(&format!("this is {name}"));
    assert!(results.len() == count && results.iter().all(is_right), "agent {ordinal} of {name}: {results:?}");
}

#[test]
fn agents_in_three_directories_work_there_from_a_fourth_and_from_a_server_in_the_root_directory() {
    let home = Home::new();
    let projects = projects(&home);
    let elsewhere = home.directory.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a directory");
    for directory in &projects {
        assert_eq!(run_in(&home, directory, &["-p", READ]).code, 0);
    }
    for n in [1, 2, 3] {
        assert_eq!(run_in(&home, &elsewhere, &["-p", "-r", &home.id(n), READ]).code, 0);
    }
    let mut server = home.command(PROGRAM, &["serve"]);
    server.current_dir("/");
    let server = Program::start(server);
    server.err.recv().expect("it serves");
    for n in [1, 2, 3] {
        assert_eq!(run_in(&home, &elsewhere, &["-p", "-r", &home.id(n), READ]).code, 0);
    }
    for directory in &projects {
        assert_eq!(run_in(&home, directory, &["-p", READ]).code, 0);
    }
    server.signal(Signal::TERM);
    assert_eq!(server.ends().code, 0);
    for (n, name) in ["shop", "docs", "infra"].into_iter().enumerate() {
        assert_reads(&home, n + 1, name, 3);
        assert_reads(&home, n + 4, name, 1);
    }
    // Agents that a server in the root directory made, from another one.
    assert_eq!(run_in(&home, &elsewhere, &["-p", "-r", &home.id(5), READ]).code, 0);
    assert_reads(&home, 5, "docs", 2);
}

#[test]
fn a_directory_that_is_gone_is_said() {
    let home = Home::new();
    let projects = projects(&home);
    assert_eq!(run_in(&home, &projects[0], &["-p", "hello"]).code, 0);
    std::fs::remove_dir_all(&projects[0]).expect("it is removed");
    let resumed = run_in(&home, &projects[1], &["-p", "-r", &home.id(1), "hello"]);
    let said = resumed.err.contains("shop: no such directory") && resumed.err.contains("docs instead");
    assert!(resumed.code == 0 && said, "{}", resumed.err);
}
