//! Random users over many agents against a hostile provider, for as long as is asked.
//!
//! The time is cut into lives. In each a new program is used at random: people type, say, switch, fork, interrupt,
//! answer, and now and then the program is killed or is left and comes back. Every few seconds all agents come to rest,
//! and the invariants are looked at. After each life nothing of it may be left: descriptors, threads, memory.

mod project;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use polylogue::config::{LimitName, LimitValue, Policy, RetryPolicy, Settings};
use polylogue::{AgentId, Change, Decision, Fork, HistoryEdit, MailAct, QueueEdit, Setting, Turn};
use tempfile::TempDir;

use crate::app::{self, App};
use crate::chance::Chance;
use crate::hostile::{Hostile, tag_of};
use crate::process::Process;
use crate::support::internals::{Body, Message, Probe, Reply, TraceLine};

/// How long a life lasts, unless the whole soak is short.
const LIFE: Duration = Duration::from_secs(20);
/// What is pressed at random.
const KEYS: &[&[u8]] = &[
    b"a",
    b"word ",
    b"\r",
    b"\n",
    b"\x1b",
    b"\x1b[A",
    b"\x1b[B",
    b"\x1b[C",
    b"\x1b[D",
    b"\x1b[1;5A",
    b"\x1b[1;5B",
    b"\x1b[1;5C",
    b"\x1b[1;5D",
    b"\x1b[5~",
    b"\x1b[6~",
    b"\x1b[H",
    b"\x1b[F",
    b"\x1b[1;5H",
    b"\x1b[1;5F",
    b"\x1b0",
    b"\x1b2",
    b"\x7f",
    b"\x17",
    b"\x15",
    b"\x0b",
    b"\x19",
    b"\x1f",
    b"\t",
    b"/",
    b"/help\r",
    b"/agents\r",
    b"/fork\r",
    b"/switch 1\r",
    b"/nothing\r",
    b"/wall\r",
    b"/inbox\r",
    b"/timeline\r",
    b"/search tag\r",
    b"/resume\r",
    b"/usage\r",
    b"/tools\r",
    b"/hooks\r",
    b"/skills\r",
    b"/rules\r",
    b"/diff\r",
    b"/undo\r",
    b"/review\r",
    b"/compact\r",
    b"/ask 0,1 tag-0\r",
    b"/limit agents 20\r",
    b"/limit requests 50\r",
    b"/set temperature 0.5\r",
    b"/export out\r",
    b"/archive\r",
    b"/env readonly\r",
    b"@no",
    b"\x12",
    b"\x1b[Z",
    b"j",
    b"\x07",
    b"\x1b[200~pasted\ntext\x1b[201~",
    b"\x1by",
    b"\x1bn",
    b"y",
    b"\xe8\xaa\x9e",
    b"\xff",
    b"\x1b[<64;1;1M",
    b"\x1b[<65;1;1M",
    b"\x0c",
    b"\x03",
];
/// How long all agents may take to come to rest.
const REST: Duration = Duration::from_secs(30);
/// A turn of more processor time is told with its trace.
const SLOW: Duration = Duration::from_millis(20);
/// The step of a turn of more processor time is counted.
const WATCHED: Duration = Duration::from_millis(5);
/// Agents that work at once, 0 for all: what waits for its place is met too.
const WORKING_LIMIT: usize = 6;
/// One heap for all threads, and fixed limits in bytes of what is mapped alone and what is kept (mallopt(3)).
const TRIMMED: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_TRIM_THRESHOLD_", "65536")];
/// More agents are not forked in one life.
const AGENTS: usize = 40;

/// What one soak has seen.
#[derive(Default)]
struct Seen {
    violations: Vec<String>,
    actions: usize,
    lives: usize,
    restarts: usize,
    checks: usize,
    messages: usize,
    turns: usize,
    longest: (Duration, Duration),
    /// Turns of more processor time than `WATCHED`: how many, and the longest, by the step that took longest.
    slow: BTreeMap<String, (usize, Duration)>,
}

/// Runs for so many minutes; 0 is a seed of its own. True if every invariant held.
pub fn run(minutes: f64, seed: u64) -> bool {
    let seed = if seed == 0 { Chance::fresh_seed() } else { seed };
    if let Some(is_fine) = with_trimmed_heap(seed) {
        return is_fine;
    }
    println!("soak: {minutes} minutes, --seed {seed}");
    crate::support::flood::raise_descriptor_limit();
    let provider = Hostile::spawn(seed);
    let (start, total) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let warm_up = (total / 5).min(Duration::from_secs(300));
    let mut seen = Seen::default();
    let mut level: Option<Level> = None;
    let mut latest = Vec::new();
    while start.elapsed() < total {
        let chance = Chance::new(seed.wrapping_mul(1_000).wrapping_add(seen.lives as u64));
        Life::begin(&provider.url, chance).live(LIFE.min(total / 4), &mut seen);
        seen.lives += 1;
        let now = Level::now();
        println!("{:>6.0} s  {}  {now}", start.elapsed().as_secs_f64(), seen.summary());
        latest.push(now.written);
        match &level {
            Some(level) => seen.violations.extend(now.rise_over(level, &latest)),
            None if start.elapsed() >= warm_up => level = Some(now),
            None => {}
        }
    }
    seen.tell()
}

/// Runs the same again in a process that gives freed memory back at once, unless this is that process. glibc keeps what
/// the heap of a thread has freed, and up to 64 MB of what was freed last, so that memory says nothing of what is held
/// (`heaptrack` finds nothing that is not freed).
fn with_trimmed_heap(seed: u64) -> Option<bool> {
    if std::env::var_os(TRIMMED[0].0).is_some() {
        return None;
    }
    let own = std::env::current_exe().expect("the path of this binary");
    let args = std::env::args().skip(1).chain(["--seed".into(), seed.to_string()]);
    Some(Command::new(own).args(args).envs(TRIMMED).status().is_ok_and(|status| status.success()))
}

impl Seen {
    fn summary(&self) -> String {
        format!(
            "life {}: {} actions, {} turns, {} restarts, {} checks, {} messages checked, longest turn {:.1} ms (CPU {:.1}), \
             {} violations",
            self.lives,
            self.actions,
            self.turns,
            self.restarts,
            self.checks,
            self.messages,
            self.longest.0.as_secs_f64() * 1e3,
            self.longest.1.as_secs_f64() * 1e3,
            self.violations.len()
        )
    }

    fn tell(self) -> bool {
        for violation in &self.violations {
            println!("VIOLATION {violation}");
        }
        println!("turns of 5 ms of processor time and more, by the step that took longest:");
        for (step, (count, longest)) in &self.slow {
            println!("{count:>8}  {step:<16} longest turn {:.1} ms", longest.as_secs_f64() * 1e3);
        }
        let is_quick = self.longest.1 <= Duration::from_millis(20);
        println!("soak: {}; longest turn {}", self.summary(), if is_quick { "ok" } else { "NOT within 20 ms" });
        self.violations.is_empty()
    }
}

/// What this process holds between two lives.
struct Level {
    /// In KiB.
    written: f64,
    threads: f64,
    descriptors: usize,
}

impl Level {
    fn now() -> Level {
        let own = Process::own();
        Level { written: own.written(), threads: own.threads(), descriptors: own.descriptors() }
    }

    /// Descriptors and threads must not rise at all. Memory may by a quarter and 8 MB, and what counts is the least of
    /// the last three lives: the allocator gives back what one life used only in the course of the next.
    fn rise_over(&self, before: &Level, written: &[f64]) -> Option<String> {
        let least = written.iter().rev().take(3).copied().fold(f64::INFINITY, f64::min);
        let is_flat = self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && least <= before.written * 1.25 + 8.0 * 1024.0;
        (!is_flat).then(|| format!("not flat: {before}, then {self}"))
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{:.1} MB, {} threads, {} descriptors]", self.written / 1024.0, self.threads, self.descriptors)
    }
}

/// One program and the people who use it.
struct Life {
    app: App,
    url: String,
    chance: Chance,
    sent: usize,
    /// The keys of the last action.
    typed: Vec<u8>,
}

impl Life {
    fn begin(url: &str, mut chance: Chance) -> Life {
        let directory = TempDir::new().expect("a directory");
        let workspace = TempDir::new().expect("a directory");
        app::fill(directory.path(), 3, 0, "");
        project::write(workspace.path());
        let config = project::config(&mut chance, settings(), &directory.path().join("trace"));
        let app = App::open_in(workspace, directory, Some(url), config, WORKING_LIMIT);
        Life { app, url: url.to_owned(), chance, sent: 0, typed: Vec::new() }
    }

    fn live(mut self, time: Duration, seen: &mut Seen) {
        let start = Instant::now();
        let mut checked = Instant::now();
        while start.elapsed() < time {
            self = self.act(seen);
            if checked.elapsed() > Duration::from_secs(4) {
                self.check(seen);
                checked = Instant::now();
            }
        }
        self.check(seen);
        self.note_longest(seen);
    }

    fn note_longest(&self, seen: &mut Seen) {
        let (wall, cpu) = self.app.longest;
        seen.longest = (seen.longest.0.max(wall), seen.longest.1.max(cpu));
    }

    /// A random agent acts, and the loop turns a little.
    fn act(mut self, seen: &mut Seen) -> Life {
        seen.actions += 1;
        self.typed.clear();
        let (agent_id, other) = (self.random_agent(), self.random_agent());
        match self.chance.below(40) {
            0..=9 => self.say(agent_id),
            10 => self.ask(agent_id, Change::Fork(Fork::default())),
            11 => {
                let prompt = Some(self.tagged());
                self.ask(agent_id, Change::Fork(Fork { prompt, ..Fork::default() }));
            }
            12..=15 => self.ask(agent_id, Change::Switch(other)),
            16..=17 => self.ask(agent_id, Change::Interrupt),
            18 => self.ask(agent_id, Change::EditQueue(QueueEdit::TakeBackNewest)),
            19..=20 => self.ask(agent_id, Change::EditQueue(QueueEdit::Resume)),
            21..=24 => self.decide(),
            25 if self.chance.once_in(12) => return self.restart(seen),
            26 => self.ask(agent_id, Change::Mail(MailAct::Send { to: other, body: "a message".into() })),
            27 => self.ask(agent_id, Change::Mail(MailAct::Read(None))),
            28 => self.rearrange(agent_id),
            29..=31 => {
                let line = format!("{}\r", self.tagged());
                self.keys(line.as_bytes());
            }
            _ => self.press_anything(),
        }
        for _ in 0..self.chance.below(6) {
            let limit = if self.chance.once_in(3) { Duration::from_millis(3) } else { Duration::ZERO };
            seen.turns += 1;
            let turn = self.app.turn(limit);
            self.count_slow(seen);
            self.tell_slow(seen);
            if turn == Turn::Exit {
                return self.restart(seen);
            }
        }
        self
    }

    /// Counts a slow turn by its step, which the last line of its trace names.
    fn count_slow(&self, seen: &mut Seen) {
        if self.app.last < WATCHED {
            return;
        }
        let step = last_line(&self.app.trace()).and_then(|line| TraceLine::parse(&line).ok()?.step);
        let step = step.map_or_else(|| "before the wait".to_owned(), |step| step.to_string());
        let (count, longest) = seen.slow.entry(step).or_default();
        (*count, *longest) = (*count + 1, (*longest).max(self.app.last));
    }

    /// Prints what the trace says of a turn that took more processor time than any before it and than it should.
    fn tell_slow(&self, seen: &mut Seen) {
        if self.app.longest.1 <= seen.longest.1.max(SLOW) {
            return;
        }
        self.note_longest(seen);
        let (longest, typed) = (seen.longest.1.as_secs_f64() * 1e3, self.typed.escape_ascii());
        println!("slow turn, {longest:.1} ms, after {typed}:");
        self.print_trace(12, |_| true);
    }

    /// Prints the latest lines of the trace that are meant, the last one first.
    fn print_trace(&self, most: usize, is_meant: impl Fn(&str) -> bool) {
        let trace = std::fs::read_to_string(self.app.trace()).unwrap_or_default();
        trace.lines().rev().filter(|line| is_meant(line)).take(most).for_each(|line| println!("  {line}"));
    }

    fn random_agent(&mut self) -> AgentId {
        self.chance.of(&self.app.repl.roster().ids())
    }

    /// A text that no other is like.
    fn tagged(&mut self) -> String {
        self.sent += 1;
        format!("say tag-{}", self.sent)
    }

    fn say(&mut self, agent_id: AgentId) {
        let text = self.tagged();
        self.ask(agent_id, Change::Submit(text));
    }

    /// Refusals are part of it: two forks of an agent that works, for example.
    fn ask(&mut self, agent_id: AgentId, change: Change) {
        if matches!(change, Change::Fork(_)) && self.app.repl.roster().len() >= AGENTS {
            return;
        }
        drop(self.app.repl.apply(agent_id, change));
    }

    /// What changes the conversation or ends it.
    fn rearrange(&mut self, agent_id: AgentId) {
        let change = match self.chance.below(8) {
            0 => Change::Kill { agent_id, cascade: self.chance.once_in(2) },
            1 => Change::EditHistory(HistoryEdit::Clear),
            2 => Change::EditHistory(HistoryEdit::Mark("here".into())),
            3 => Change::EditHistory(HistoryEdit::Rewind(None)),
            4 => Change::Setting(Setting::Approval(self.chance.of(&Policy::ALL[..4]))),
            5 => Change::environment(self.chance.of(&["readonly", "coding", "chat", "none"])),
            6 => Change::Stop(Some(agent_id)),
            _ => Change::Setting(Setting::Name(Some(format!("name-{}", self.chance.below(50))))),
        };
        self.ask(agent_id, change);
    }

    fn decide(&mut self) {
        for agent_id in self.app.repl.roster().asking().clone() {
            let question = self.app.repl.roster().get(agent_id).and_then(|agent| Some(agent.question()?.number));
            let decision = if self.chance.once_in(2) { Decision::Allow } else { Decision::Deny(None) };
            if let Some(question) = question {
                self.ask(agent_id, Change::Answer { question, decision });
            }
        }
    }

    fn keys(&mut self, bytes: &[u8]) {
        self.typed.extend_from_slice(bytes);
        self.app.memory().input.extend_from_slice(bytes);
    }

    fn press_anything(&mut self) {
        for _ in 0..=self.chance.below(6) {
            let key = self.chance.of(KEYS);
            self.keys(key);
        }
    }

    /// The program is killed, or is left in order, and is started again. Nothing that was stored may be gone.
    fn restart(mut self, seen: &mut Seen) -> Life {
        seen.restarts += 1;
        self.note_longest(seen);
        let is_killed = self.chance.once_in(2);
        if !is_killed {
            self.app.repl.leave().expect("the program can be left");
        }
        let before = self.lengths();
        let Life { app, url, mut chance, sent, typed } = self;
        let (workspace, directory) = if is_killed { app.kill() } else { app.close() };
        let config = project::config(&mut chance, settings(), &directory.path().join("trace"));
        let app = App::open_in(workspace, directory, Some(&url), config, WORKING_LIMIT);
        let life = Life { app, url, chance, sent, typed };
        for ((agent_id, length), (again, now)) in before.iter().zip(life.lengths()) {
            if *agent_id != again || now < *length {
                seen.violations.push(format!("after a restart {again} has {now} messages, {agent_id} had {length}"));
            }
        }
        if life.app.repl.roster().len() != before.len() {
            seen.violations.push(format!("{} agents were lost in a restart", before.len()));
        }
        life
    }

    fn lengths(&self) -> Vec<(AgentId, usize)> {
        let log = |id| self.app.repl.store().replay(id).map_or(0, |(messages, _)| messages.len());
        self.app.repl.roster().ids().into_iter().map(|id| (id, log(id))).collect()
    }

    /// Waits until all agents are idle and checks everything.
    fn check(&mut self, seen: &mut Seen) {
        seen.checks += 1;
        // What waits for a person to raise a limit would wait for ever.
        for agent_id in self.app.repl.roster().ids() {
            self.ask(
                agent_id,
                Change::Setting(Setting::Limit { agent_id, name: LimitName::Requests, value: LimitValue::None }),
            );
        }
        let start = Instant::now();
        while !self.app.repl.roster().busy().is_empty() && start.elapsed() < REST {
            self.decide();
            self.app.turn(Duration::from_millis(5));
        }
        for agent_id in self.app.repl.roster().busy().clone() {
            let listed = self.app.repl.list().into_iter().find(|agent| agent.id == agent_id);
            let activity = listed.and_then(|agent| agent.activity).unwrap_or_default();
            seen.violations.push(format!("{agent_id} never came to rest: {activity}"));
            let name = agent_id.to_string();
            println!("{name} never came to rest:");
            self.print_trace(20, |line| line.contains(&name));
            self.ask(agent_id, Change::Interrupt);
        }
        for agent_id in self.app.repl.roster().ids() {
            match self.app.repl.store().replay(agent_id) {
                Ok((messages, damaged)) if damaged.is_empty() => {
                    seen.messages += messages.len();
                    let wrong = what_is_wrong(&messages);
                    seen.violations.extend(wrong.map(|wrong| format!("{agent_id}: {wrong}")));
                }
                Ok((_, damaged)) => seen.violations.push(format!("{agent_id}: {damaged:?}")),
                Err(error) => seen.violations.push(format!("{agent_id}: {error}")),
            }
        }
    }
}

/// The last line of a file, if it is no longer than 4 KB.
fn last_line(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(4096))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    String::from_utf8_lossy(&bytes).lines().last().map(str::to_owned)
}

/// Limits within which a life of seconds sees every way out.
fn settings() -> Settings {
    let retry = RetryPolicy {
        retries: Some(2),
        base: Duration::from_millis(20),
        cap: Duration::from_millis(100),
        jitter: 0.25,
    };
    Settings {
        retry,
        stall_timeout: Duration::from_secs(1),
        tool_iterations: 6,
        checkpoint_every: Duration::from_millis(50),
        bash_timeout: Duration::from_secs(5),
        ..Settings::default()
    }
}

/// The log of an agent that rests: every call followed by its result, every reply about what was sent to this agent, in
/// one piece from its beginning.
fn what_is_wrong(log: &[Message]) -> Option<String> {
    let mut sent = BTreeSet::from(["untagged".to_owned()]);
    let mut open: Vec<&str> = Vec::new();
    for message in log {
        match &message.body {
            Body::ToolCall(call) => open.push(&call.id),
            // Results of what ran beside a question come before that of its call.
            Body::ToolResult(result) => match open.iter().position(|id| *id == result.call_id) {
                Some(at) => drop(open.remove(at)),
                None => return Some(format!("message {} answers no call: {open:?}", message.id.0)),
            },
            Body::User(_) | Body::Assistant(_) if !open.is_empty() => {
                return Some(format!("calls without an answer before message {}: {open:?}", message.id.0));
            }
            Body::User(text) | Body::System(text) => drop(sent.insert(tag_of(text))),
            Body::Compaction(compaction) => drop(sent.insert(tag_of(&compaction.text()))),
            Body::Assistant(reply) => match mixed(reply, &sent) {
                Some(wrong) => return Some(format!("message {}: {wrong}", message.id.0)),
                None => continue,
            },
            _ => {}
        }
    }
    (!open.is_empty()).then(|| format!("calls without an answer at the end: {open:?}"))
}

fn mixed(reply: &Reply, sent: &BTreeSet<String>) -> Option<String> {
    let mut pieces = reply.text.split_terminator(' ').enumerate();
    let tag = reply.text.split(':').next().unwrap_or_default();
    if !reply.text.is_empty() && !sent.contains(tag) {
        return Some(format!("a reply to {tag:?}, which was not sent here"));
    }
    let strange = pieces.find(|(number, piece)| *piece != format!("{tag}:{number}"));
    strange.map(|(number, piece)| format!("piece {number} of the reply to {tag} is {piece:?}"))
}
