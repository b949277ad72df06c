//! The same things done by this program and by others that are installed, in turns in one run: `curl`, and `aichat` (from the
//! crates registry) if it is in PATH.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Process;
use crate::program::{Chat, MB};
use crate::support::flood::{FloodProcess, Plan, reply_for};
use crate::support::program::PROGRAM;
use crate::support::pty::Pty;
use crate::table::{Table, median};

const TAG: &str = "tag-beside012345";
/// Nothing was written for so long.
const SETTLED: Duration = Duration::from_millis(300);
/// What a program asks the terminal: where the cursor is (the answer is made then), and what the terminal is.
const WHERE_IS_THE_CURSOR: &[u8] = b"\x1b[6n";
const WHAT_ARE_YOU: &[u8] = b"\x1b[c";

/// A chat to compare: ours, or the peer's.
struct Side {
    name: &'static str,
    program: &'static str,
    directory: TempDir,
    url: String,
}

impl Side {
    fn ours(url: &str) -> Side {
        Side { name: "polylogue", program: PROGRAM, directory: directory(), url: url.to_owned() }
    }

    fn aichat(url: &str) -> Side {
        let directory = directory();
        let config = format!(
            "model: local:test\nstream: true\nclients:\n- type: openai-compatible\n  name: local\n  api_base: {url}\n  \
             api_key: none\n  models:\n  - name: test\n"
        );
        std::fs::write(directory.path().join("config.yaml"), config).expect("a file");
        Side { name: "aichat", program: "aichat", directory, url: url.to_owned() }
    }

    fn path(&self) -> &str {
        self.directory.path().to_str().expect("a path in UTF-8")
    }

    fn variables(&self) -> [(&str, &str); 3] {
        [("OPENAI_BASE_URL", &self.url), ("AICHAT_CONFIG_DIR", self.path()), ("HOME", self.path())]
    }

    fn options(&self) -> Vec<&str> {
        match self.name {
            "aichat" => Vec::new(),
            _ => vec!["-m", "openai/test", "--data-dir", self.path()],
        }
    }

    /// One question, asked and answered.
    fn one_shot(&self, more: &[&str]) -> Duration {
        let mut command = Command::new(self.program);
        command.args(self.options()).args(more).arg(TAG).env_clear().envs(self.variables());
        wall(command.envs(std::env::var_os("PATH").map(|path| ("PATH", path))))
    }

    /// A chat at its first prompt.
    fn chat(&self) -> Chat {
        let mut pty = Pty::spawn(self.program_path(), &self.options(), &self.variables(), (80, 24));
        answer_until(&mut pty, |text| text.lines().any(|line| line.starts_with('>')));
        Chat::drawn(pty)
    }

    /// As the terminal starts it: without a search in PATH.
    fn program_path(&self) -> std::path::PathBuf {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|place| place.join(self.program)).find(|file| file.exists());
        found.unwrap_or_else(|| self.program.into())
    }
}

pub fn figures(table: &mut Table) {
    let has_aichat = Command::new("aichat").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_aichat {
        println!("aichat is not in PATH: cargo install aichat");
    }
    version(table, has_aichat);
    let quick = FloodProcess::spawn(Plan::quick(1));
    let sides = |url: &str| {
        let all = [Some(Side::ours(url)), has_aichat.then(|| Side::aichat(url))];
        all.into_iter().flatten().collect::<Vec<_>>()
    };
    one_shot(table, &sides(&quick.url()), &quick.url());
    prompt(table, &sides(&quick.url()));
    let paced = FloodProcess::spawn(Plan::paced(537, 100.0));
    sides(&paced.url()).iter().for_each(|side| reply(table, side));
}

/// From spawn to reaped, in turns, median of 30.
fn version(table: &mut Table, has_aichat: bool) {
    let mut programs = vec![("true", "true"), ("polylogue", PROGRAM)];
    programs.extend(has_aichat.then_some(("aichat", "aichat")));
    let mut walls = vec![Vec::new(); programs.len()];
    for _ in 0..30 {
        for (walls, (_, program)) in walls.iter_mut().zip(&programs) {
            walls.push(wall(Command::new(program).arg("--version")));
        }
    }
    for (walls, (name, _)) in walls.iter().zip(&programs) {
        table.tell(&format!("--version: {name}"), millis(median(walls)), "ms");
    }
    table.at_most("  polylogue beside `true`", ratio(median(&walls[1]), median(&walls[0])), 3.0, "x");
}

/// One question to a server that answers at once, in turns, median of 20; what is kept may cost one sync of this disk more.
fn one_shot(table: &mut Table, sides: &[Side], url: &str) {
    let body = format!(r#"{{"model":"test","stream":true,"messages":[{{"role":"user","content":"{TAG}"}}]}}"#);
    let curl = || {
        let mut command = Command::new("curl");
        command.args(["-sN", "-H", "content-type: application/json", "-d", &body]);
        wall(command.arg(format!("{url}/chat/completions")))
    };
    let disk = directory();
    let [mut bare, mut synced, mut ephemeral, mut kept, mut peer] = [(); 5].map(|()| Vec::new());
    for round in 0..21 {
        let times = [curl(), sync(&disk), sides[0].one_shot(&["-p", "--ephemeral"]), sides[0].one_shot(&["-p"])];
        let other = sides.get(1).map(|side| side.one_shot(&[]));
        // The first round fills the caches.
        if round > 0 {
            let all = [&mut bare, &mut synced, &mut ephemeral, &mut kept].into_iter().zip(times);
            all.for_each(|(times, time)| times.push(time));
            peer.extend(other);
        }
    }
    let (bare, synced) = (median(&bare), median(&synced));
    table.tell("one question: curl", millis(bare), "ms");
    table.tell("  a sync of this disk", millis(synced), "ms");
    table.at_most("  -p --ephemeral, beside curl", ratio(median(&ephemeral), bare), 1.0, "x");
    table.at_most("  -p, kept, beside curl and a sync", ratio(median(&kept), bare + synced), 1.1, "x");
    if !peer.is_empty() {
        table.tell("  aichat, beside curl", ratio(median(&peer), bare), "x");
    }
}

/// From exec to the prompt, in turns, median of 10; then one of each at its prompt, for three seconds.
fn prompt(table: &mut Table, sides: &[Side]) {
    let mut times = vec![Vec::new(); sides.len()];
    for round in 0..11 {
        for (times, side) in times.iter_mut().zip(sides) {
            let chat = side.chat();
            let (time, spent) = (chat.first_frame, chat.process().cpu());
            // The first round makes a store.
            times.extend((round > 0).then_some((time, spent)));
        }
    }
    for (times, side) in times.iter().zip(sides) {
        let (walls, spent): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
        table.tell(&format!("exec to the prompt: {}", side.name), millis(median(&walls)), "ms");
        table.tell("  processor time of the process that draws", millis(median(&spent)), "ms");
        let mut chat = side.chat();
        chat.settle(SETTLED);
        let all: f64 = chat.processes().into_iter().map(Process::pss).sum();
        table.tell("  memory of all its processes (PSS)", all / MB, "MB");
        let drawing = chat.process();
        let before = (drawing.waits(), drawing.cpu(), chat.pty.bytes_written());
        std::thread::sleep(Duration::from_secs(3));
        table.tell("  wake-ups in 3 s", drawing.waits() - before.0, "");
        table.tell("  processor time in 3 s", millis(drawing.cpu() - before.1), "ms");
        table.tell("  bytes to the terminal in 3 s", (chat.pty.bytes_written() - before.2) as f64, "");
    }
}

/// A reply of 537 chunks at 100 chunks a second.
fn reply(table: &mut Table, side: &Side) {
    let text = reply_for(TAG, 537).len() as f64;
    let mut chat = side.chat();
    chat.pty.send(TAG);
    chat.settle(SETTLED);
    let before = (chat.process().cpu(), chat.pty.bytes_written());
    chat.pty.send("\r");
    let end = format!("{TAG}:536");
    answer_until(&mut chat.pty, |text| text.replace('\n', "").contains(&end));
    chat.settle(SETTLED);
    let spent = chat.process().cpu() - before.0;
    table.tell(&format!("537 chunks at 100 chunks/s: {}", side.name), millis(spent), "ms");
    table.tell("  terminal bytes per byte of reply", (chat.pty.bytes_written() - before.1) as f64 / text, "");
}

/// Answers what the program asks the terminal until the screen is as it should be.
fn answer_until(pty: &mut Pty, holds: impl Fn(&str) -> bool) {
    let from = pty.output_so_far();
    let mut answered = (0, 0);
    loop {
        let output = pty.raw_output()[from..].to_vec();
        let count = |asked: &[u8]| output.windows(asked.len()).filter(|bytes| *bytes == asked).count();
        let asked = (count(WHERE_IS_THE_CURSOR), count(WHAT_ARE_YOU));
        let (row, column) = pty.screen().cursor_position();
        (answered.0..asked.0).for_each(|_| pty.send(format!("\x1b[{};{}R", row + 1, column + 1)));
        (answered.1..asked.1).for_each(|_| pty.send("\x1b[?62;22c"));
        answered = asked;
        if holds(&pty.screen_text()) {
            return;
        }
        pty.wait_for_bytes(from + output.len());
    }
}

fn directory() -> TempDir {
    TempDir::new().expect("a directory")
}

/// From spawn to reaped.
fn wall(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("a program");
    assert!(status.success(), "{command:?}");
    start.elapsed()
}

fn sync(directory: &TempDir) -> Duration {
    let mut file =
        std::fs::File::options().append(true).create(true).open(directory.path().join("log")).expect("a file");
    file.write_all(&[7; 4096]).expect("room");
    let start = Instant::now();
    file.sync_data().expect("a disk");
    start.elapsed()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
