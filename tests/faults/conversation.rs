//! A conversation with several agents that writes everything the store has: turns, forks, mail, tools, questions, queues,
//! edits of the history, a team, a comparison, files, archives and kills. Each step is done whatever has become of
//! the steps before it, because one of them may have failed.

use std::time::Duration;

use polylogue::config::Policy;
use polylogue::{Change, Decision, Fork, MailAct, QueueEdit, Setting};
use serde_json::json;

use super::without_retries;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Agent, Probe as _, WakeReason};

/// Turns that a step may take until everything is at rest. Most take some dozens.
const MOST_TURNS: usize = 3_000;

/// Who plays it.
pub struct Player {
    pub app: Harness,
    /// The texts that were taken: they may not be lost.
    pub acknowledged: Vec<String>,
    /// The changes that were refused, with the error.
    pub refused: Vec<String>,
    /// The turns of the loop so far.
    pub turns: usize,
    /// Told of each acknowledged text.
    pub tell: fn(&str),
}

pub fn plan() -> Plan {
    Plan { settings: without_retries(), ..Plan::default() }
}

type Step = (&'static str, fn(&mut Player));

pub const STEPS: &[Step] = &[
    ("a turn", |player| player.say("main", "hello")),
    ("a fork", |player| {
        player.ask("main", Change::Fork(Fork { name: Some("a".into()), ..Fork::default() }));
        player.say("a", "in a");
    }),
    ("a fork by a tool", |player| player.say("main", "%tool fork {\"prompt\":\"in b\",\"name\":\"b\"}")),
    ("mail", |player| {
        player.say("a", "%tool send_mail {\"to\":\"parent\",\"body\":\"mail from a\"}\n%next\n%tool check_mail {}");
        player.ask("main", Change::Mail(MailAct::Read(None)));
        let to = player.id("a");
        to.into_iter()
            .for_each(|to| player.ask("main", Change::Mail(MailAct::Send { to, body: "mail from main".into() })));
    }),
    ("tools", |player| {
        player.say("main", "%tool read_file {\"path\":\"none\"}\n%tool list_dir {\"path\":\".\"}\n%next\nread");
    }),
    ("a question", |player| {
        player.say("b", "%tool bash {\"command\":\"true\"}");
        player.answer("b", Decision::Deny(None));
    }),
    ("an interrupt", |player| {
        player.submit("main", "%slow 100\none two three four five six");
        for _ in 0..4 {
            player.advance(Duration::from_millis(150));
        }
        player.ask("main", Change::Interrupt);
    }),
    ("a queue", |player| {
        player.submit("a", "%hang");
        player.submit("a", "queued in a");
        player.ask("a", Change::Enqueue("/mark m".into()));
        player.ask("a", Change::Interrupt);
        player.ask("a", Change::EditQueue(QueueEdit::Resume));
    }),
    ("the history", |player| {
        for line in ["/mark here", "/rewind here", "/clear", "/clear undo", "/system Be brief.", "/limit agents 40"] {
            player.enter("main", line);
        }
    }),
    ("a draft", |player| {
        player.enter("main", "");
        player.app.type_bytes(b"typed");
        player.advance(Duration::from_secs(1));
    }),
    ("files", |player| {
        player.ask("b", Change::Setting(Setting::Approval(Policy::Yolo)));
        player.say("b", &format!("%tool write_file {}", json!({"file_path": "f", "content": "new"})));
        player.enter("b", "/undo");
    }),
    ("a comparison", |player| {
        player.enter("main", "/ask a,b asked of both");
        // Leaves the view of the answers.
        player.app.escape();
    }),
    #[cfg(feature = "coordinator")]
    ("a team", |player| player.enter("main", "/team parallel --count 2 hello team")),
    ("a slice", |player| player.enter("main", "/slice 0:2")),
    ("a compaction", |player| {
        player.say("a", "more in a");
        player.enter("a", "/compact");
    }),
    ("the archive", |player| {
        for line in ["/archive b", "/unarchive b"] {
            player.enter("main", line);
        }
    }),
    ("all stop", |player| {
        player.submit("main", "%slow 100\nwords of main");
        player.submit("a", "%hang");
        player.ask("main", Change::Stop(None));
    }),
    ("a kill", |player| {
        player.submit("b", "%hang");
        let victim = player.id("b");
        victim.into_iter().for_each(|agent_id| player.ask("main", Change::Kill { agent_id, cascade: true }));
    }),
];

impl Player {
    pub fn new(app: Harness) -> Self {
        let mut player = Self { app, acknowledged: Vec::new(), refused: Vec::new(), turns: 0, tell: |_| {} };
        player.ask_nth(0, Change::Setting(Setting::Name(Some("main".into()))));
        player
    }

    /// Plays all of it.
    pub fn play(&mut self) {
        for (name, step) in STEPS {
            step(self);
            self.rest(name);
        }
    }

    /// The number of this agent, if it exists.
    fn n(&self, name: &str) -> Option<usize> {
        let called = |agent: &Agent| agent.identity.name.as_deref() == Some(name);
        // The name of the first may not have been stored.
        self.app.repl.roster().iter().position(called).or((name == "main").then_some(0))
    }

    fn id(&self, name: &str) -> Option<polylogue::AgentId> {
        self.n(name).map(|n| self.app.id(n))
    }

    pub fn ask(&mut self, name: &str, change: Change) {
        self.n(name).into_iter().for_each(|n| {
            self.ask_nth(n, change.clone());
        });
    }

    fn ask_nth(&mut self, n: usize, change: Change) -> bool {
        let id = self.app.id(n);
        let name = format!("{change:?}");
        let outcome = self.app.repl.apply(id, change);
        self.app.screen_text();
        if let Err(error) = &outcome {
            self.refused.push(format!("{}: {error}", &name[..name.len().min(60)]));
        }
        outcome.is_ok()
    }

    /// Sends a text, and waits for the end of its turn.
    pub fn say(&mut self, name: &str, text: &str) {
        self.submit(name, text);
        self.rest(text);
    }

    /// Sends a text.
    pub fn submit(&mut self, name: &str, text: &str) {
        if let Some(n) = self.n(name)
            && self.ask_nth(n, Change::Submit(text.into()))
        {
            self.acknowledged.push(text.into());
            (self.tell)(text);
        }
    }

    fn enter(&mut self, name: &str, line: &str) {
        if let Some(n) = self.n(name) {
            self.app.switch(n);
            self.app.type_bytes(b"\x15");
            self.app.enter(line);
            self.rest(line);
        }
    }

    fn answer(&mut self, name: &str, decision: Decision) {
        let question = self.n(name).and_then(|n| Some(self.app.agent(n).question()?.number));
        question
            .into_iter()
            .for_each(|question| self.ask(name, Change::Answer { question, decision: decision.clone() }));
    }

    fn advance(&mut self, by: Duration) {
        self.turns += 1;
        self.app.advance(by);
    }

    /// Turns until nothing is left to do. Time passes as long as agents wait for it.
    pub fn rest(&mut self, what: &str) {
        for _ in 0..MOST_TURNS {
            let timeout = self.app.timeout();
            let asking = self.app.repl.roster().asking();
            let is_busy = self.app.repl.roster().busy().iter().any(|id| !asking.contains(id));
            let is_working =
                is_busy || self.app.repl.is_undoing() || self.app.repl.roster().iter().any(Agent::has_background_work);
            match timeout.after {
                Some(Duration::ZERO) => {}
                None if !is_working => return,
                Some(_) if !is_working => return,
                Some(after) if !matches!(timeout.why, WakeReason::Tools) => self.app.clock.advance(after),
                _ => {}
            }
            self.turns += 1;
            self.app.turn_within(Duration::from_millis(1));
        }
        let (timeout, screen) = (self.app.timeout(), self.app.screen_text());
        let busy = self.app.repl.roster().busy();
        panic!("{what}: not at rest after {MOST_TURNS} turns: {timeout:?}, busy: {busy:?}\n{screen}");
    }
}
