//! Figures of many agents at work in one loop. The loop runs in this process, the server that they talk to in another.

use std::time::{Duration, Instant};

use crate::app::App;
use crate::bare::Bare;
use crate::process::{self, Process};
use crate::support::flood::{FloodProcess, Plan};
use crate::support::internals::Probe;
use crate::table::Table;

/// What the agents on the loop cost, for as long as it is looked at.
pub struct Cost {
    wall: Duration,
    cpu: Duration,
    chunks: usize,
}

impl Cost {
    fn per_chunk(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.chunks as f64
    }

    pub fn share_of_core(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64() * 100.0
    }

    fn rate(&self) -> f64 {
        self.chunks as f64 / self.wall.as_secs_f64()
    }
}

/// An app in which `count` agents stream at 20 chunks/s, when all do.
pub fn streaming(flood: &FloodProcess, count: usize) -> App {
    stream(App::new(Some(&flood.url()), count + 1))
}

/// The same with an app that has agents.
pub fn stream(mut app: App) -> App {
    app.send_to_all();
    let connected = |app: &mut App| app.repl.roster().iter().skip(1).all(|agent| !agent.partial_text().is_empty());
    app.until("all stream", connected);
    app.run_for(Duration::from_secs(1));
    app.longest = Default::default();
    app
}

/// What the next so many seconds cost.
pub fn cost(app: &mut App, time: Duration) -> Cost {
    let (wall, cpu, chunks) = (Instant::now(), process::own_cpu(), app.chunks());
    app.run_for(time);
    Cost { wall: wall.elapsed(), cpu: process::own_cpu() - cpu, chunks: app.chunks() - chunks }
}

/// PSS of this process with 1,000 agents that stream, less that with the same agents idle, per agent. They share the
/// history of agent 0; their own is one message. After 3 s, when connections, buffers and scrollbacks are there.
pub fn memory(table: &mut Table) {
    let flood = FloodProcess::spawn(Plan::paced(3_000, 20.0));
    let mut app = App::new(Some(&flood.url()), 1_001);
    app.run_for(Duration::from_millis(100));
    let idle = Process::own().pss();
    app.send_to_all();
    app.run_for(Duration::from_secs(5));
    let busy = app.repl.roster().at_work().len();
    assert_eq!(busy, 1_000, "all are at work");
    table.at_most("memory per streaming agent, plain (PSS)", (Process::own().pss() - idle) / 1e3, 64.0, "KB");
    table.tell("  descriptors per streaming agent", Process::own().descriptors() as f64 / 1e3, "");
}

/// So many short turns begun in one moment against a server that answers at once: until all are idle again. None may be
/// rejected, all must be whole. The 50 are the median of 5 rounds, on connections that are new each time.
pub fn turns_at_once(table: &mut Table) {
    let flood = FloodProcess::spawn(Plan::quick(20));
    let rounds: Vec<Duration> = (0..5).map(|_| all_at_once(&flood, 50)).collect();
    table.within("50 turns at once, wall", crate::table::median(&rounds), Duration::from_millis(100));
    let before = flood.counts().complete;
    let wall = all_at_once(&flood, 1_000);
    let complete = flood.counts().complete - before;
    table.holds("1,000 turns at once", &format!("{complete} whole"), "none rejected", complete == 1_000);
    table.tell("  wall", wall.as_secs_f64() * 1e3, "ms");
}

/// A task of 20 members beside one of 1, at a server whose replies take a tenth of a second: the median of 5 runs each,
/// their creation, answers and ends included.
#[cfg(feature = "coordinator")]
pub fn team(table: &mut Table) {
    let flood = FloodProcess::spawn(Plan::after(0.1));
    let walls = [1, 20].map(|members| {
        let rounds: Vec<Duration> = (0..5).map(|_| one_task(&flood, members)).collect();
        crate::table::median(&rounds).as_secs_f64()
    });
    table.tell("a task of 1 member on a 100 ms peer", walls[0] * 1e3, "ms");
    table.tell("a task of 20 members in parallel", walls[1] * 1e3, "ms");
    table.at_most("  beside one", walls[1] / walls[0], 1.2, "x");
    table.at_most("  threads of the loop", Process::own().threads(), 1.0, "");
}

#[cfg(feature = "coordinator")]
fn one_task(flood: &FloodProcess, members: usize) -> Duration {
    use polylogue::multi_agent::{Member, Settings, Strategy};
    let mut app = App::new(Some(&flood.url()), 1);
    let root = app.repl.roster().nth(0).expect("agent 0");
    let settings = Settings { strategy: Strategy::Parallel, ..Settings::default() };
    let start = Instant::now();
    let members = Member::numbered(members).expect("so many may be");
    let run = app.repl.run_task(root, members, "hello", settings).expect("a run");
    app.until("the run is over", |app| app.repl.outcome(&run).is_some());
    start.elapsed()
}

fn all_at_once(flood: &FloodProcess, count: usize) -> Duration {
    let mut app = App::new(Some(&flood.url()), count + 1);
    let start = Instant::now();
    app.send_to_all();
    app.until_idle();
    let wall = start.elapsed();
    for agent in app.repl.roster().iter().skip(1) {
        assert!(!agent.used.output.eq(&0), "{} has its whole reply", agent.identity.label());
    }
    wall
}

/// Processor time per chunk of 100 agents at 20 chunks/s, over 4 s, beside the bare loop in the same run.
pub fn chunks_of_100(table: &mut Table) {
    chunks(table, 100);
}

/// The same of 1,000.
pub fn chunks_of_1000(table: &mut Table) {
    chunks(table, 1_000);
}

fn chunks(table: &mut Table, count: usize) {
    let time = Duration::from_secs(4);
    let flood = FloodProcess::spawn(Plan::paced(3_000, 20.0));
    let mut bare = Bare::start(&flood.url(), count);
    bare.run_for(Duration::from_secs(2));
    let (cpu, seen) = bare.measure(time);
    drop(bare);
    let limit = cpu.as_secs_f64() * 1e6 / seen as f64;
    let mut app = streaming(&flood, count);
    let cost = cost(&mut app, time);
    table.tell(&format!("CPU per chunk, {count} agents, bare loop"), limit, "us");
    table.tell(&format!("CPU per chunk, {count} agents"), cost.per_chunk(), "us");
    table.at_most("  beside the bare loop", cost.per_chunk() / limit, 1.5, "x");
    table.tell("  chunks per second, asked 20 an agent", cost.rate() / count as f64, "");
    table.tell("  longest turn, processor time", app.longest.1.as_secs_f64() * 1e3, "ms");
}

/// 2,000 agents at 20 chunks/s for 4 s: the share of one core, and whether all chunks came in time.
pub fn two_thousand(table: &mut Table) {
    let flood = FloodProcess::spawn(Plan::paced(3_000, 20.0));
    let mut app = streaming(&flood, 2_000);
    let cost = cost(&mut app, Duration::from_secs(4));
    table.at_most("2,000 agents at 20 chunks/s: share of one core", cost.share_of_core(), 100.0, "%");
    let rate = cost.rate() / 2e3;
    table.holds("  chunks per second of each", &format!("{rate:.2}"), ">= 19.5", rate >= 19.5);
    table.tell("  longest turn, processor time", app.longest.1.as_secs_f64() * 1e3, "ms");
}

/// 5,000 agents connected, one chunk every 5 s each: how many stream after 15 s (the program keeps to what the limit on
/// descriptors allows), and what that costs.
pub fn five_thousand(table: &mut Table) {
    let flood = FloodProcess::spawn(Plan::paced(3_000, 0.2));
    let mut app = App::new(Some(&flood.url()), 5_001);
    app.send_to_all();
    app.run_for(Duration::from_secs(15));
    let cost = cost(&mut app, Duration::from_secs(6));
    let streaming = flood.counts().streaming;
    let descriptors = crate::support::flood::raise_descriptor_limit();
    table.tell("descriptors allowed", descriptors as f64, "");
    table.holds("5,000 agents connected and slow", &format!("{streaming} stream"), "all", streaming == 5_000);
    table.tell("  share of one core", cost.share_of_core(), "%");
    table.tell("  memory in all (PSS)", Process::own().pss() / 1024.0, "MB");
}
