//! Figures of ten agents that write in ten worktrees of a large repository: what the conflict radar costs and how soon it knows.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use polylogue::config::Policy;
use polylogue::{Change, Config};
use serde_json::json;
use tempfile::TempDir;

use crate::app::{self, App};
use crate::process;
use crate::support::internals::{Probe, State};
use crate::table::{Table, median, share};
use crate::views::press;

const AGENTS: usize = 10;
const DIRECTORIES: usize = 500;
const FILES: usize = 100;
/// For as long nothing happens, and nothing may wake the loop.
const QUIET: Duration = Duration::from_secs(5);

pub fn figures(table: &mut Table) {
    let mut app = in_worktrees(AGENTS, DIRECTORIES, |file| format!("{file}\n"));
    app.until("all are looked at", |app| (1..=AGENTS).all(|n| app.agent(n).report.size.is_some()));
    app.run_for(Duration::from_secs(1));

    let cost = Cost::begin(&mut app);
    (1..=AGENTS).for_each(|n| write(&mut app, n, &format!("new{n}"), "1\n"));
    app.until("all are looked at", |app| (1..=AGENTS).all(|n| app.agent(n).report.size.is_some_and(|size| size.0 > 0)));
    let (wall, children) = cost.end();
    table.tell("all ten write at once, and all ten are looked at again, wall", wall.as_secs_f64() * 1e3, "ms");
    table.tell("  CPU of git, its sandbox and the tools", children.as_secs_f64() * 1e3, "ms");
    table.within("  longest turn of the loop, by processor time", app.longest.1, Duration::from_millis(20));
    app.run_for(Duration::from_secs(2));

    // Two write the same: from the end of the second one's tool to the note.
    let mut announced = Vec::new();
    for round in 0..5 {
        write(&mut app, 1, "shared", &format!("of one {round}\n"));
        app.until_idle();
        app.run_for(Duration::from_secs(4));
        let cost = Cost::begin(&mut app);
        write(&mut app, 2, "shared", &format!("of two {round}\n"));
        app.until_idle();
        let written = Instant::now();
        app.until("the conflict is announced", |app| !app.agent(1).report.conflicts.is_empty());
        announced.push(written.elapsed());
        let (_, children) = cost.end();
        table.tell("  CPU of git, its sandbox and the tool", children.as_secs_f64() * 1e3, "ms");
        app.run_for(Duration::from_secs(2));
        fs::remove_file(root(&app, 2).join("shared")).expect("a file");
        write(&mut app, 2, "new2", &format!("{round}\n"));
        app.until("it is gone", |app| app.agent(1).report.conflicts.is_empty());
    }
    table.within("a conflict is announced after", median(&announced), Duration::from_secs(2));
    table.tell("  the slowest of five", announced.iter().max().expect("five").as_secs_f64() * 1e3, "ms");

    // All write at once, again and again, while a person types.
    app.run_for(Duration::from_secs(3));
    let cost = Cost::begin(&mut app);
    let mut keys = Vec::new();
    for round in 0..20 {
        let idle = (1..=AGENTS).filter(|n| app.state(*n) == State::Idle).collect::<Vec<_>>();
        idle.into_iter().for_each(|n| write(&mut app, n, &format!("new{n}"), &format!("{round}\n")));
        let typed = Instant::now();
        app.type_bytes(b"x");
        keys.push(typed.elapsed());
        app.run_for(Duration::from_millis(500));
    }
    let (wall, children) = cost.end();
    table.within("all write for 10 s: longest turn, by processor time", app.longest.1, Duration::from_millis(20));
    table.tell("  longest turn that did not wait, by the wall", app.longest.0.as_secs_f64() * 1e3, "ms");
    table.tell("  key to screen, median", median(&keys).as_secs_f64() * 1e3, "ms");
    table.within("  key to screen, slowest", *keys.iter().max().expect("keys"), Duration::from_millis(20));
    table.tell(
        "  CPU of git, its sandbox and the tools",
        children.as_secs_f64() / wall.as_secs_f64() * 100.0,
        "% of a core",
    );

    app.until_idle();
    app.run_for(Duration::from_secs(20));
    let (start, mut wakes) = (Instant::now(), 0);
    while let Some(left) = QUIET.checked_sub(start.elapsed()).filter(|left| *left > Duration::from_millis(1)) {
        app.turn(left);
        wakes += 1;
    }
    table.at_most("wake-ups in 5 s in which nothing changes", f64::from(wakes - 1), 0.0, "");
}

/// Agents in worktrees of a repository with so many directories of files, which have the content of their number.
fn in_worktrees(agents: usize, directories: usize, content: impl Fn(usize) -> String) -> App {
    let workspace = TempDir::new().expect("a directory");
    let git = |arguments: &[&str]| {
        let status = Command::new("git").args(arguments).current_dir(workspace.path()).status();
        assert!(status.is_ok_and(|status| status.success()), "git {arguments:?}");
    };
    for directory in 0..directories {
        let directory = workspace.path().join(format!("d{directory}"));
        fs::create_dir(&directory).expect("a directory");
        for file in 0..FILES {
            fs::write(directory.join(format!("f{file}.rs")), content(file)).expect("a file");
        }
    }
    git(&["init", "-q", "-b", "main"]);
    git(&["config", "user.name", "test"]);
    git(&["config", "user.email", "test@localhost"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    let directory = TempDir::new().expect("a directory for the store");
    app::fill(directory.path(), 1, 0, "");
    let config = Config { policy: Policy::Yolo, policy_ceiling: Policy::Yolo, ..Config::default() };
    let mut app = App::open_in(workspace, directory, None, config, 0);
    for n in 1..=agents {
        app.type_bytes(format!("/fork --worktree --stay --name w{n}\r").as_bytes());
        app.until("a child", |app| app.repl.roster().len() == n + 1);
    }
    app.until_idle();
    app
}

/// Frames of a review of 300 files of 60 lines, each with three changes.
pub fn review(table: &mut Table) {
    const DIRECTORIES: usize = 3;
    let content = |file: usize| -> String {
        (0..60).map(|line| format!("    let value_{line} = compute({file}, \"a text\"); // line {line}\n")).collect()
    };
    let mut app = in_worktrees(1, DIRECTORIES, content);
    let root = root(&app, 1).to_owned();
    for (directory, file) in (0..DIRECTORIES).flat_map(|directory| (0..FILES).map(move |file| (directory, file))) {
        let changed = ["value_3 ", "value_30 ", "value_57 "]
            .iter()
            .fold(content(file), |text, name| text.replace(name, &format!("new_{name}")));
        fs::write(root.join(format!("d{directory}/f{file}.rs")), changed).expect("a file");
    }
    app.type_bytes(b"/diff w1\r");
    app.run_for(Duration::from_secs(3));
    let files = press(&mut app, &[b"J"], DIRECTORIES * FILES - 1, Duration::from_millis(20));
    table.within("review, 300 files: frame of the next file, p50", median(&files), Duration::from_millis(2));
    table.tell("  p99", share(&files, 0.99).as_secs_f64() * 1e3, "ms");
    let hunks = press(&mut app, &[b"k"], DIRECTORIES * FILES, Duration::ZERO);
    table.within("  frame of the hunk before, p50", median(&hunks), Duration::from_millis(2));
    table.tell("  p99", share(&hunks, 0.99).as_secs_f64() * 1e3, "ms");
    // These were frames of a review.
    app.type_bytes(b"x");
    let changed = |at: usize| {
        let text = fs::read_to_string(root.join(format!("d{}/f{}.rs", at / FILES, at % FILES))).expect("a file");
        text.matches("new_value").count()
    };
    app.until("a hunk is reverted", |_| (0..DIRECTORIES * FILES).map(changed).sum::<usize>() == 899);
}

fn root(app: &App, n: usize) -> &Path {
    app.agent(n).inputs.environment.worktree.as_deref().expect("a worktree")
}

fn write(app: &mut App, n: usize, file: &str, content: &str) {
    let call = json!({"file_path": file, "content": content});
    app.ask(n, Change::Submit(format!("%tool write_file {call}\n%next\ndone")));
}

/// What something costs from here on.
struct Cost {
    began: Instant,
    children: Duration,
}

impl Cost {
    fn begin(app: &mut App) -> Cost {
        app.longest = Default::default();
        Cost { began: Instant::now(), children: process::cpu_of_children() }
    }

    /// The time, and the processor time of programs that have ended.
    fn end(&self) -> (Duration, Duration) {
        (self.began.elapsed(), process::cpu_of_children() - self.children)
    }
}
