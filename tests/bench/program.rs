//! Figures of the program as a person runs it: the release binary in a real terminal.

use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::app;
use crate::process::{self, Process};
use crate::support::flood::{FloodProcess, Plan, reply_for};
use crate::support::pty::{BECAME_AT, Pty};
use crate::table::{Table, median, share};

const PROGRAM: &str = env!("CARGO_BIN_EXE_polylogue");
pub const MB: f64 = 1024.0;
/// How a first frame ends: it is always one synchronized update.
const FRAME_END: &[u8] = b"\x1b[?2026l";

/// The program in a terminal, with its prompt on the screen.
pub struct Chat {
    pub pty: Pty,
    /// From exec to the last byte of the first frame.
    pub first_frame: Duration,
}

impl Chat {
    fn start(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Chat {
        let directory = directory.to_str().expect("a path in UTF-8");
        let arguments: Vec<&str> = ["--data-dir", directory].iter().chain(arguments).copied().collect();
        let mut pty = Pty::spawn(PROGRAM, &arguments, variables, (80, 24));
        while !pty.raw_output().windows(FRAME_END.len()).any(|window| window == FRAME_END) {
            let seen = pty.bytes_written();
            pty.wait_for_bytes(seen);
        }
        let chat = Chat::drawn(pty);
        assert!(chat.pty.screen_text().contains("\n>"), "a prompt: {}", chat.pty.screen_text());
        chat
    }

    /// A program whose first frame was just read.
    pub fn drawn(pty: Pty) -> Chat {
        let now = process::monotonic();
        let became = Process::of(pty.started()).variable(BECAME_AT).and_then(|nanos| nanos.parse().ok());
        let first_frame = now - Duration::from_nanos(became.expect("the moment of exec"));
        Chat { pty, first_frame }
    }

    pub fn process(&self) -> Process {
        Process::of(self.pty.pid())
    }

    /// This one, and the one that waits for it.
    pub fn processes(&self) -> Vec<Process> {
        let (chat, waits) = (self.pty.pid(), self.pty.started());
        [chat].into_iter().chain((waits != chat).then_some(waits)).map(Process::of).collect()
    }

    /// Waits until nothing was written for so long.
    pub fn settle(&mut self, quiet: Duration) {
        let mut seen = self.pty.bytes_written();
        loop {
            std::thread::sleep(quiet);
            match self.pty.bytes_written() {
                now if now == seen => return,
                now => seen = now,
            }
        }
    }

    /// From a key to what it put on the screen.
    fn press(&mut self, key: &[u8]) -> Duration {
        let seen = self.pty.bytes_written();
        let start = Instant::now();
        self.pty.send(key);
        self.pty.wait_for_bytes(seen);
        start.elapsed()
    }

    /// A thousand key presses, one after the other: characters, and after every 60 the line is emptied.
    fn press_thousand(&mut self) -> Vec<Duration> {
        let keys = (0..1_000).map(|number| if number % 61 == 60 { 0x15 } else { b'a' + (number % 26) as u8 });
        keys.map(|key| self.press(&[key])).collect()
    }
}

/// Size of the file.
pub fn binary(table: &mut Table) {
    let size = std::fs::metadata(PROGRAM).expect("the binary").len() as f64 / 1e6;
    table.at_most("binary, dynamic", size, 16.0, "MB");
}

/// From the call of exec (the moment is handed over in the environment) to the last byte of the first frame, read by us, so
/// with both processes; median of 20 on a store that exists. PSS and threads at the prompt.
pub fn start(table: &mut Table) {
    let directory = TempDir::new().expect("a directory");
    drop(Chat::start(directory.path(), &[], &[]));
    let frames: Vec<Duration> = (0..20).map(|_| Chat::start(directory.path(), &[], &[]).first_frame).collect();
    table.within("exec to the prompt", median(&frames), Duration::from_millis(5));
    let mut chat = Chat::start(directory.path(), &[], &[]);
    chat.settle(Duration::from_millis(300));
    let all: f64 = chat.processes().into_iter().map(Process::pss).sum();
    table.at_most("memory at the prompt, both processes (PSS)", all / MB, 16.0, "MB");
    table.at_most("  of the one that runs the chat", chat.process().pss() / MB, 8.0, "MB");
    table.at_most("threads at the prompt", chat.process().threads(), 1.0, "");
}

/// The same with 1,000 agents and 1,000,000 messages of 200 bytes in the store, beside an empty store, in turns.
pub fn big_store(table: &mut Table) {
    let (small, large) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    app::fill(small.path(), 1, 0, "");
    app::fill(large.path(), 1_000, 1_000, &"a message of some length ".repeat(8));
    let first = |directory: &TempDir| Chat::start(directory.path(), &[], &[]).first_frame;
    let _warm = (first(&small), first(&large));
    let (few, many): (Vec<_>, Vec<_>) = (0..20).map(|_| (first(&small), first(&large))).unzip();
    table.within("exec to the prompt, 1,000 agents, 1,000,000 messages", median(&many), Duration::from_millis(12));
    let ratio = median(&many).as_secs_f64() / median(&few).as_secs_f64();
    table.at_most("  beside an empty store", ratio, 1.2, "x");
    let mut chat = Chat::start(large.path(), &[], &[]);
    chat.settle(Duration::from_millis(300));
    table.at_most("memory, 1,000 agents, 1,000,000 messages (PSS)", chat.process().pss() / MB, 12.0, "MB");
}

/// At the prompt with nothing to do, for 10 s or `--seconds`: voluntary context switches, processor time by
/// `schedstat`, bytes to the terminal.
pub fn idle(table: &mut Table) {
    let directory = TempDir::new().expect("a directory");
    let mut chat = Chat::start(directory.path(), &[], &[]);
    chat.settle(Duration::from_millis(500));
    let seconds = crate::asked("--seconds", 10.0);
    let before = (chat.process().waits(), chat.process().cpu(), chat.pty.bytes_written());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let waits = chat.process().waits() - before.0;
    table.at_most(&format!("wake-ups in {seconds} s"), waits, 0.0, "");
    table.at_most("  processor time", (chat.process().cpu() - before.1).as_secs_f64() * 1e3, 0.0, "ms");
    table.at_most("  bytes to the terminal", (chat.pty.bytes_written() - before.2) as f64, 0.0, "");
}

/// From writing a key into the terminal to reading what the program drew; 1,000 keys, the next when the one before
/// was drawn. Bytes per key from all that was drawn.
pub fn typing(table: &mut Table) {
    let directory = TempDir::new().expect("a directory");
    let mut chat = Chat::start(directory.path(), &[], &[]);
    chat.settle(Duration::from_millis(300));
    let before = chat.pty.bytes_written();
    let times = chat.press_thousand();
    table.within("key to screen, p50", median(&times), Duration::from_micros(500));
    table.within("key to screen, p99", share(&times, 0.99), Duration::from_millis(2));
    table.at_most("bytes to the terminal per key", (chat.pty.bytes_written() - before) as f64 / 1e3, 40.0, "");
}

/// 537 chunks, 10.7 kB of text, at 100 chunks a second and as quickly as they are taken; processor time of the
/// program and bytes drawn from the Enter to the end.
pub fn reply(table: &mut Table) {
    let tag = "tag-reply0123456";
    let text = reply_for(tag, 537).len() as f64;
    table.tell("a streamed reply: bytes of text in 537 chunks", text, "");
    let ways = [("100 chunks/s", Plan::paced(537, 100.0), 60), ("at once", Plan::quick(537), 30)];
    for (name, plan, limit) in ways {
        let flood = FloodProcess::spawn(plan);
        let directory = TempDir::new().expect("a directory");
        let url = flood.url();
        let mut chat = Chat::start(directory.path(), &["-m", "openai/test"], &[("OPENAI_BASE_URL", &url)]);
        chat.pty.send(tag);
        chat.settle(Duration::from_millis(300));
        let before = (chat.process().cpu(), chat.pty.bytes_written());
        chat.pty.send("\r");
        chat.pty.wait_for_text(&format!("{tag}:536"));
        chat.settle(Duration::from_millis(300));
        let spent = chat.process().cpu() - before.0;
        table.within(&format!("  {name}: processor time"), spent, Duration::from_millis(limit));
        let drawn = (chat.pty.bytes_written() - before.1) as f64 / text;
        table.at_most(&format!("  {name}: terminal bytes per byte of reply"), drawn, 2.0, "");
    }
}

/// PSS at the prompt with 1,000 agents that have nothing to do, less that with one; only agent 0 was shown.
pub fn idle_agents(table: &mut Table) {
    let (one, many) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    app::fill(one.path(), 1, 10, "a short message");
    app::fill(many.path(), 1_000, 10, "a short message");
    let pss = |directory: &TempDir| {
        let mut chat = Chat::start(directory.path(), &[], &[]);
        chat.settle(Duration::from_millis(300));
        chat.process().pss()
    };
    let (few, all) = (pss(&one), pss(&many));
    table.at_most("memory per idle agent (PSS, 1,000 less 1)", (all - few) / 999.0, 16.0, "KB");
    table.at_most("memory with 1,000 idle agents (PSS)", all / MB, 40.0, "MB");
}

/// Key to screen, as above, on an idle agent while 100 others stream 20 chunks/s each.
pub fn typing_among_100(table: &mut Table) {
    typing_among(table, 100, Duration::from_millis(5));
}

/// The same among 1,000.
pub fn typing_among_1000(table: &mut Table) {
    typing_among(table, 1_000, Duration::from_millis(20));
}

fn typing_among(table: &mut Table, count: usize, reach: Duration) {
    let flood = FloodProcess::spawn(Plan::paced(3_000, 20.0));
    let directory = TempDir::new().expect("a directory");
    let url = flood.url();
    let arguments = ["-m", "openai/test", "--working-limit", "0"];
    let mut chat = Chat::start(directory.path(), &arguments, &[("OPENAI_BASE_URL", &url)]);
    for number in 0..count {
        // Each is a child of agent 0, to which Alt+1 leads back.
        chat.pty.send(format!("\x1b0/fork tag-{number}\r"));
    }
    chat.pty.send("\x1b0");
    while flood.counts().streaming < count as u64 {
        std::thread::sleep(Duration::from_millis(20));
    }
    chat.settle(Duration::from_millis(500));
    let (start, spent) = (Instant::now(), chat.process().cpu());
    let times = chat.press_thousand();
    let share_of_core = (chat.process().cpu() - spent).as_secs_f64() / start.elapsed().as_secs_f64();
    assert_eq!(flood.counts().streaming, count as u64, "all stream to the end");
    table.tell(&format!("key to screen among {count} that stream, p50"), median(&times).as_secs_f64() * 1e3, "ms");
    table.within(&format!("key to screen among {count} that stream, p99"), share(&times, 0.99), reach);
    table.tell("  share of a core, keys included", share_of_core * 100.0, "%");
}
