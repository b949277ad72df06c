//! The figures, measured on the release build and never by a timed test; the soak; generated inputs.
//!
//! | arguments | action |
//! |---|---|
//! | none | every group of figures, each in a process of its own so that none inherits another's memory |
//! | `only GROUP` | one group |
//! | `idle --seconds N` | the idle figures over a time of one's own |
//! | `only limited --seconds N` | the same for the figures of a limited server |
//! | `soak --minutes N [--seed S]` | random users against a hostile provider |
//! | `fuzz --minutes N [--seed S] [--target T]` | generated inputs, so many minutes in all |
//! | `input TARGET FILE` | one input that `make guided` found |
//!
//! The exit code is 1 if something was not reached or did not hold. What it measures against are copies of this very
//! binary: so their work is not counted as ours.

#[path = "../support/mod.rs"]
mod support;

mod app;
mod bare;
mod beside;
mod chance;
mod crowd;
mod fuzz;
mod hostile;
mod limited;
mod load;
mod markdown;
mod process;
mod program;
mod scale;
mod soak;
mod table;
mod tools;
mod views;
mod worktrees;

use std::process::{Command, ExitCode};

use table::Table;

/// One group of figures: its name, and what adds its rows to the table.
type Group = (&'static str, fn(&mut Table));

const GROUPS: &[Group] = &[
    ("binary", program::binary),
    ("start", program::start),
    ("beside", beside::figures),
    ("big-store", program::big_store),
    ("idle", program::idle),
    ("typing", program::typing),
    ("reply", program::reply),
    ("idle-agents", program::idle_agents),
    ("typing-100", program::typing_among_100),
    ("typing-1000", program::typing_among_1000),
    ("memory", crowd::memory),
    ("turns", crowd::turns_at_once),
    #[cfg(feature = "coordinator")]
    ("team", crowd::team),
    ("chunks-100", crowd::chunks_of_100),
    ("chunks-1000", crowd::chunks_of_1000),
    ("crowd-2000", crowd::two_thousand),
    ("crowd-5000", crowd::five_thousand),
    ("limited", limited::figures),
    ("markdown", markdown::figures),
    ("scale", scale::figures),
    ("tools", tools::figures),
    ("sandbox", tools::sandbox),
    ("inbox", views::inbox),
    ("wall", views::wall),
    ("search", views::search),
    ("picker", views::picker),
    ("kill", views::kill),
    ("snapshot", tools::snapshot),
    ("worktrees", worktrees::figures),
    ("review", worktrees::review),
    ("commands-100", load::commands),
    ("elsewhere", load::elsewhere),
];

fn main() -> ExitCode {
    support::flood::serve_if_asked();
    support::pty::become_the_program_if_asked();
    hostile::serve_if_asked();
    let args: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let is_fine = match args.first().map(String::as_str) {
        None => all(),
        Some("only") => only(args.get(1).map_or("", String::as_str)),
        Some("idle") => only("idle"),
        Some("soak") => soak::run(number(&args, "--minutes", 5.0), number(&args, "--seed", 0.0) as u64),
        Some("fuzz") => fuzz::run(number(&args, "--minutes", 5.0), number(&args, "--seed", 0.0) as u64, &args),
        Some("input") => fuzz::repeat(&args[1], &args[2]),
        Some(unknown) => {
            eprintln!("unknown word {unknown:?}: see the head of tests/bench/main.rs");
            false
        }
    };
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn all() -> bool {
    let own = std::env::current_exe().expect("the path of this binary");
    let run = |name: &str| Command::new(&own).args(["only", name]).status().is_ok_and(|status| status.success());
    // Every group is run, whatever came of the one before.
    let missed: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).filter(|name| !run(name)).collect();
    println!("\nnot everything reached in: {}", if missed.is_empty() { "none".into() } else { missed.join(", ") });
    missed.is_empty()
}

fn only(name: &str) -> bool {
    let Some((_, measure)) = GROUPS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        eprintln!("no group {name:?}: there are {}", known.join(", "));
        return false;
    };
    support::flood::raise_descriptor_limit();
    Table::heading(name);
    let mut table = Table::default();
    measure(&mut table);
    table.missed() == 0
}

/// The number behind a word, or what it is by default.
fn number(args: &[String], name: &str, default: f64) -> f64 {
    let at = args.iter().position(|word| word == name);
    at.and_then(|at| args.get(at + 1)?.parse().ok()).unwrap_or(default)
}

/// The number behind a word of the command line.
fn asked(name: &str, default: f64) -> f64 {
    number(&std::env::args().collect::<Vec<_>>(), name, default)
}
