//! Many agents with many commands at once: what the limit of working agents holds down.

use std::time::{Duration, Instant};

use polylogue::config::{Policy, Settings};
use polylogue::{Change, Config, Fork};
use serde_json::json;
use tempfile::TempDir;

use crate::app::{self, App};
use crate::process::Process;
use crate::support::internals::{Body, Probe};
use crate::support::write_executable;
use crate::table::Table;

const AGENTS: usize = 100;
const COMMANDS: usize = 100;
/// The default.
const LIMIT: usize = 10;
/// In bytes of a command's output, one of each agent's commands has more than the model gets.
const LONG: usize = 40_000;

/// 100 agents with 100 commands each, in the sandbox, by the default limit.
pub fn commands(table: &mut Table) {
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), AGENTS, 0, "");
    let settings = Settings { tool_iterations: 10_000, ..Settings::default() };
    let config = Config { settings, policy: Policy::Yolo, policy_ceiling: Policy::Yolo, ..Config::default() };
    let mut app = App::open_limited(directory, None, config, LIMIT);
    let own = Process::own();
    let before = (own.pss(), own.descriptors(), own.threads());
    let start = Instant::now();
    for n in 0..AGENTS {
        app.ask(n, Change::Submit(script(n)));
    }
    let (mut memory, mut descriptors, mut threads, mut working) = (0.0_f64, 0, 0.0_f64, 0);
    let (mut turns, mut longest) = (0_u64, (Duration::ZERO, 0));
    while !app.repl.roster().busy().is_empty() {
        app.turn(if turns.is_multiple_of(2) { Duration::from_millis(20) } else { Duration::ZERO });
        longest = longest.max((app.last, turns));
        working = working.max(app.repl.roster().iter().filter(|agent| agent.has_live_tool()).count());
        if turns.is_multiple_of(16) {
            (descriptors, threads) = (descriptors.max(own.descriptors()), threads.max(own.threads()));
        }
        if turns.is_multiple_of(1024) {
            memory = memory.max(own.pss());
        }
        turns += 1;
        assert!(start.elapsed() < Duration::from_secs(1800), "all commands end");
    }
    let took = start.elapsed();
    let results: usize = (0..AGENTS).map(|n| results_of(&app, n)).sum();
    let all = AGENTS * COMMANDS;
    table.holds("commands that ran and gave what they should", &results.to_string(), &all.to_string(), results == all);
    table.at_most("agents with a running tool at once", working as f64, LIMIT as f64, "");
    table.within("longest turn of the loop, by processor time", app.longest.1, Duration::from_millis(20));
    table.tell("  longest turn that did not wait, by the wall", app.longest.0.as_secs_f64() * 1e3, "ms");
    table.tell("  turns", turns as f64, "");
    table.tell("  number of the longest", longest.1 as f64, "");
    table.tell("  commands a second", all as f64 / took.as_secs_f64(), "");
    table.at_most("threads above those at rest", threads - before.2, LIMIT as f64 + 2.0, "");
    table.at_most("descriptors above those at rest", descriptors as f64 - before.1 as f64, 12.0 * LIMIT as f64, "");
    table.at_most("memory above that at rest, highest", (memory - before.0) / 1024.0, 64.0, "MiB");
    table.at_most("  descriptors left", own.descriptors() as f64 - before.1 as f64, 4.0, "");
    table.at_most("  threads left", own.threads() - before.2, 1.0, "");
}

/// An ssh that runs its command here: the first call of it holds the connection.
const SSH: &str = "#!/bin/sh\nfor word; do last=$word; done\nexec setsid -w sh -c \"$last\"\n";

/// 20 agents on one other machine: what the loop notices of it.
pub fn elsewhere(table: &mut Table) {
    const AGENTS: usize = 20;
    let programs = TempDir::new().expect("a directory");
    let there = TempDir::new().expect("a directory");
    write_executable(&programs.path().join("ssh"), SSH.as_bytes());
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), 1, 0, "");
    let program_path = Some(programs.path().into());
    let config = Config { policy: Policy::Yolo, policy_ceiling: Policy::Yolo, program_path, ..Config::default() };
    let mut app = App::open_limited(directory, None, config, LIMIT);
    app.ask(0, Change::environment(format!("ssh:web1:{}", there.path().display())));
    app.until("the environment", |app| app.repl.roster().len() == 2);
    for _ in 1..AGENTS {
        app.ask(1, Change::Fork(Fork::default()));
    }
    app.longest = Default::default();
    let start = Instant::now();
    for n in 1..=AGENTS {
        let calls: Vec<String> =
            (0..5).map(|at| format!("%tool bash {}", json!({"command": format!("echo {n}-{at}")}))).collect();
        app.ask(n, Change::Submit(format!("{}\n%next\ndone", calls.join("\n"))));
    }
    let mut turns: u64 = 0;
    while !app.repl.roster().busy().is_empty() {
        app.turn(if turns.is_multiple_of(2) { Duration::from_millis(20) } else { Duration::ZERO });
        turns += 1;
        assert!(start.elapsed() < Duration::from_secs(120), "all commands end");
    }
    let results: usize = (1..=AGENTS).map(|n| results_of(&app, n)).sum();
    table.holds("commands elsewhere that gave what they should", &results.to_string(), "100", results == AGENTS * 5);
    table.within("longest turn of the loop, by processor time", app.longest.1, Duration::from_millis(20));
    table.tell("  longest turn that did not wait, by the wall", app.longest.0.as_secs_f64() * 1e3, "ms");
    table.tell("  commands a second", results as f64 / start.elapsed().as_secs_f64(), "");
}

/// Commands that differ, so that none counts as repeated.
fn script(n: usize) -> String {
    let call = |at: usize| {
        let command = match at {
            0 => format!("head -c {LONG} /dev/zero | tr '\\0' x; echo {n}-{at}"),
            _ => format!("echo {n}-{at}"),
        };
        format!("%tool bash {}", json!({ "command": command }))
    };
    let calls: Vec<String> = (0..COMMANDS).map(call).collect();
    format!("{}\n%next\ndone", calls.join("\n"))
}

fn results_of(app: &App, n: usize) -> usize {
    let (log, _) = app.repl.store().replay(app.id(n)).expect("a log");
    let results = log.iter().filter_map(|message| match &message.body {
        Body::ToolResult(result) => Some(result),
        _ => None,
    });
    let is_right = |(at, content): (usize, &str)| content.trim_end().ends_with(&format!("{n}-{at}"));
    results.enumerate().filter(|(at, result)| is_right((*at, &result.content))).count()
}
