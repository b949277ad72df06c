//! Generated inputs on everything that takes bytes or text from outside. Every iteration has a seed of its own, made of
//! the seed of the run and its number: what fails can be repeated alone.

// With their paths, because `tests/fuzz` includes this file from elsewhere.
#[path = "fuzz/configuration.rs"]
mod configuration;
#[path = "fuzz/data.rs"]
mod data;
#[path = "fuzz/protocols.rs"]
mod protocols;
#[path = "fuzz/slice.rs"]
mod slice;
#[path = "fuzz/typed.rs"]
mod typed;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::chance::Chance;
use crate::process::Process;

/// One iteration of a target, with the state that it keeps between iterations.
pub type Step = Box<dyn FnMut(&mut Chance)>;

/// Its name, and what makes its first step.
type Target = (&'static str, fn() -> Step);

const TARGETS: &[Target] = &[
    ("keys", typed::keys),
    ("draft", typed::draft),
    ("input", typed::input),
    ("commands", typed::commands),
    ("slice", slice::specs),
    ("environments", typed::environments),
    ("screen", typed::screen),
    ("text", data::text),
    ("scrollback", data::scrollback),
    ("openai", data::openai),
    ("responses", data::responses),
    ("anthropic", data::anthropic),
    ("google", data::google),
    ("store", data::store),
    ("config", configuration::config),
    ("mcp", protocols::mcp),
    ("schema", protocols::schema),
    ("socket", protocols::socket),
    ("headers", protocols::headers),
    ("rules", protocols::rules),
    ("traces", protocols::traces),
];

/// An iteration that takes longer is a hang.
const HANG: Duration = Duration::from_secs(20);
/// Memory that a target may hold more at its end than after its first tenth, in KiB.
const GROWTH: f64 = 64.0 * 1024.0;

/// The steps of the target of this name.
pub fn step(name: &str) -> Option<Step> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, step)| step())
}

/// One iteration of a target with the choices that `make guided` found and wrote to this file. It panics where that did.
pub fn repeat(target: &str, input: &str) -> bool {
    let (Some(mut step), Ok(bytes)) = (step(target), std::fs::read(input)) else { return false };
    step(&mut Chance::given(&bytes));
    true
}

/// Where recordings lie.
fn fixtures() -> PathBuf {
    PathBuf::from(option_env!("FIXTURES").unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures")))
}

/// Shares the minutes among all targets, or gives them to the one behind `--target`. True if nothing failed.
pub fn run(minutes: f64, seed: u64, args: &[String]) -> bool {
    let seed = if seed == 0 { Chance::fresh_seed() } else { seed };
    let wanted = args.iter().position(|word| word == "--target").and_then(|at| args.get(at + 1));
    let chosen: Vec<_> = TARGETS.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name)).collect();
    println!("fuzz: {minutes} minutes in all, --seed {seed}");
    let each = Duration::from_secs_f64(minutes * 60.0 / chosen.len().max(1) as f64);
    let from = crate::asked("--from", 0.0) as u64;
    let failed = chosen.iter().filter(|(name, step)| !hunt(name, *step, seed, from, each)).count();
    failed == 0 && !chosen.is_empty()
}

fn hunt(name: &'static str, step: fn() -> Step, seed: u64, from: u64, time: Duration) -> bool {
    let alive = Arc::new(AtomicU64::new(from));
    watch(name, seed, &alive);
    let (start, mut step) = (Instant::now(), step());
    let (mut number, mut early, mut slowest) = (from, None, Duration::ZERO);
    while start.elapsed() < time {
        let begun = Instant::now();
        let mut chance = Chance::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number));
        if catch_unwind(AssertUnwindSafe(|| step(&mut chance))).is_err() {
            alive.store(u64::MAX, Ordering::SeqCst);
            println!("{name:<12} FAILED: fuzz --target {name} --seed {seed} --from {number}");
            return false;
        }
        slowest = slowest.max(begun.elapsed());
        number += 1;
        alive.store(number, Ordering::SeqCst);
        if start.elapsed() > time / 10 {
            early.get_or_insert_with(|| Process::own().pss());
        }
    }
    alive.store(u64::MAX, Ordering::SeqCst);
    let growth = Process::own().pss() - early.unwrap_or_default();
    let verdict = if growth <= GROWTH { "ok" } else { "NOT: memory grows" };
    let slowest = slowest.as_secs_f64() * 1e3;
    let count = number - from;
    println!("{name:<12} {count:>12} iterations  slowest {slowest:>7.1} ms  memory {growth:>+8.0} KB  {verdict}");
    growth <= GROWTH
}

/// Ends the process if the number of the iteration does not move.
fn watch(name: &'static str, seed: u64, alive: &Arc<AtomicU64>) {
    let alive = Arc::clone(alive);
    std::thread::spawn(move || {
        let mut seen = None;
        loop {
            std::thread::sleep(HANG);
            match alive.load(Ordering::SeqCst) {
                u64::MAX => return,
                number if seen == Some(number) => {
                    println!("{name:<12} HANGS: fuzz --target {name} --seed {seed} --from {number}");
                    std::process::exit(1);
                }
                number => seen = Some(number),
            }
        }
    });
}
