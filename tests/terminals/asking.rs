//! Ten agents ask at once, again and again, at three terminals that look at any of them. Whatever is typed, pressed, stopped,
//! killed and restarted: a command runs only if `y` was pressed where its question was shown to the end, or if its rule was
//! shown and given.

use std::collections::BTreeSet;
use std::time::Duration;

use polylogue::Change;
use polylogue::config::Rules;

use crate::support::attached::{ATTACHED, AttachedTerminal};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::random::Random;
use crate::support::scene::app_with_agents;

const AGENTS: usize = 10;
const LONG_ENOUGH: Duration = Duration::from_millis(300);

struct Crowd {
    app: Harness,
    terminals: Vec<AttachedTerminal>,
    random: Random,
    /// How many commands were asked about.
    commands: usize,
    /// The commands at whose question `y` was pressed.
    allowed: BTreeSet<String>,
}

impl Crowd {
    fn new(seed: u64) -> Self {
        let app = app_with_agents(AGENTS, Plan { rules: Rules::default(), ..Plan::default() });
        let mut crowd =
            Self { app, terminals: Vec::new(), random: Random(seed), commands: 0, allowed: BTreeSet::new() };
        crowd.attach();
        crowd.ask();
        crowd
    }

    fn attach(&mut self) {
        self.terminals = (0..3).map(|n| AttachedTerminal::new(&mut self.app, (80, 24), n, ATTACHED)).collect();
    }

    /// Every idle agent asks about three commands, one after the other.
    fn ask(&mut self) {
        for n in 0..self.app.repl.roster().len() {
            if self.app.state(n) != State::Idle {
                continue;
            }
            let calls = (0..3).map(|more| format!("%tool bash {{\"command\":\"touch by-{}\"}}", self.commands + more));
            let script = calls.collect::<Vec<_>>().join("\n%next\n");
            self.commands += 3;
            self.app.say(n, &script);
        }
        self.settle();
    }

    /// Until nothing happens by itself.
    fn settle(&mut self) {
        self.app.turn_until("all agents ask or are idle", |app| {
            let roster = app.repl.roster();
            roster.busy().iter().all(|id| roster.asking().contains(id))
        });
        self.app.turn();
        let ran: BTreeSet<String> = files(&self.app);
        assert!(ran.is_subset(&self.allowed), "{:?} ran unasked", ran.difference(&self.allowed).collect::<Vec<_>>());
    }

    /// The commands that `y` would allow together in the inbox at this terminal.
    fn listed(&mut self, at: usize) -> Vec<String> {
        let text = self.terminals[at].text(&mut self.app);
        let Some((_, list)) = text.split_once("would be answered:") else { return Vec::new() };
        let commands = list.lines().filter_map(|line| line.split_once("touch ")).map(|(_, command)| command);
        commands.map(|command| command.trim().to_owned()).collect()
    }

    /// The command that `y` would allow at this terminal now, as the person sees it.
    fn answerable(&mut self, at: usize) -> Option<String> {
        let text = self.terminals[at].text(&mut self.app);
        let asked = text.split("Run this? bash: touch ").nth(1).filter(|_| text.contains("y to run it"))?;
        asked.split_whitespace().next().map(str::to_owned)
    }

    /// Presses a key at terminals in one turn of the loop.
    fn press(&mut self, key: &[u8], at: &[usize]) {
        let asked: Vec<Option<String>> = at.iter().map(|at| self.answerable(*at)).collect();
        if key == b"y" {
            self.allowed.extend(asked.iter().flatten().cloned());
            for at in at {
                let listed = self.listed(*at);
                self.allowed.extend(listed);
            }
        }
        for at in at {
            self.terminals[*at].remote(&mut self.app).input.extend_from_slice(key);
        }
        self.app.turn();
        self.settle();
        if let (b"y", Some(command)) = (key, &asked[0]) {
            assert!(files(&self.app).contains(command), "{command} was allowed");
        }
        for at in at {
            self.terminals[*at].type_bytes(&mut self.app, b"\x15");
        }
    }

    /// Chooses "always" for this agent: exactly the command whose rule is shown may run from then on.
    fn always(&mut self, at: usize) {
        if self.answerable(at).is_none() {
            return;
        }
        self.terminals[at].type_bytes(&mut self.app, b"a");
        self.app.advance(LONG_ENOUGH);
        let text = self.terminals[at].text(&mut self.app);
        let rule = text.split("bash(touch ").nth(1).filter(|_| text.contains("t: this agent"));
        let command = rule.and_then(|rule| rule.split(')').next()).map(str::to_owned);
        self.allowed.extend(command.clone());
        self.terminals[at].type_bytes(&mut self.app, b"t");
        self.settle();
        assert!(command.is_none_or(|command| files(&self.app).contains(&command)), "{text}");
        self.terminals[at].type_bytes(&mut self.app, b"\x15");
    }

    fn step(&mut self) {
        let at = self.random.below(3);
        match self.random.below(18) {
            // In and around the inbox.
            14..=16 => {
                let keys: [&[u8]; 9] = [b"\x1ba", b"\x1ba", b"\x1ba", b"\x1b[B", b"\x1b[A", b" ", b"A", b"\t", b"\r"];
                let key = keys[self.random.below(keys.len())];
                self.terminals[at].type_bytes(&mut self.app, key);
                self.settle();
            }
            17 => self.press(b"y", &[at, (at + 1) % 3]),
            0..=2 => {
                let n = self.random.below(self.app.repl.roster().len());
                let line = format!("/switch {}", self.app.agent(n).identity.word());
                self.terminals[at].enter(&mut self.app, &line);
            }
            3 | 4 => {
                self.app.advance(LONG_ENOUGH);
            }
            5 => {
                self.terminals[at].type_bytes(&mut self.app, b"yes, y or n");
                self.settle();
                self.terminals[at].type_bytes(&mut self.app, b"\x15");
            }
            6 | 7 => self.press(b"y", &[at]),
            8 => self.press(b"y", &[0, 1, 2]),
            9 => self.press(b"n", &[at, (at + 1) % 3]),
            10 | 11 => self.always(at),
            12 => {
                self.terminals[at].escape(&mut self.app);
                self.settle();
            }
            _ if self.random.below(2) == 0 => {
                self.terminals.clear();
                let app = std::mem::replace(&mut self.app, Harness::new(Plan::default()));
                self.app = app.crash_and_restart();
                self.attach();
            }
            _ if self.app.repl.roster().len() > 5 => {
                let n = 1 + self.random.below(self.app.repl.roster().len() - 1);
                let agent_id = self.app.id(n);
                self.app.ask(0, Change::Kill { agent_id, cascade: false });
            }
            _ => {}
        }
        self.settle();
        self.ask();
    }
}

fn files(app: &Harness) -> BTreeSet<String> {
    let entries = std::fs::read_dir(app.directory()).expect("a directory").flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with("by-")).collect()
}

#[test]
fn an_answer_never_lands_on_another_question_or_on_text() {
    let mut ran = 0;
    for seed in 1..=3 {
        let mut crowd = Crowd::new(seed);
        for _ in 0..80 {
            crowd.step();
        }
        ran += files(&crowd.app).len();
    }
    assert!(ran > 10, "{ran} commands were allowed: the test tries too little");
}
