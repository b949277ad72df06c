//! Random edits by several agents and by a person from outside: an undo from any point restores exactly, or refuses and names
//! a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::json;

use super::{Tree, app, prompts, tree, undo, write};
use crate::support::harness::Harness;
use crate::support::internals::MessageId;
use crate::support::random::Random;

const AGENTS: usize = 3;
const FILES: [&str; 4] = ["a", "b", "d/c", "d/e/f"];

type Files = BTreeMap<&'static str, Option<String>>;

fn files(top: &Path) -> Files {
    FILES.iter().map(|name| (*name, fs::read_to_string(top.join(name)).ok())).collect()
}

/// A write that happened, in order: who, before which message of theirs, which file, and its content before and after.
struct Write {
    agent: Option<usize>,
    prompt: MessageId,
    file: &'static str,
    before: Option<String>,
    after: Option<String>,
    is_undone: bool,
}

struct Story {
    app: Harness,
    random: Random,
    writes: Vec<Write>,
    count: usize,
}

impl Story {
    fn change(&mut self) {
        let file = FILES[self.random.below(FILES.len())];
        let top = self.app.directory();
        let before = fs::read_to_string(top.join(file)).ok();
        self.count += 1;
        let content = format!("{}\n", self.count);
        let agent = self.random.below(AGENTS + 1);
        if agent < AGENTS {
            // An agent may write only what it knows.
            let read = json!({ "file_path": file });
            self.app.say(agent, &format!("%tool read_file {read}"));
            self.app.turn_until_idle();
            write(&mut self.app, agent, file, &content);
        } else {
            fs::create_dir_all(top.join(file).parent().unwrap()).unwrap();
            fs::write(top.join(file), &content).unwrap();
        }
        let (agent, prompt) = match agent < AGENTS {
            true => (Some(agent), *prompts(&self.app, agent).last().unwrap()),
            false => (None, MessageId(0)),
        };
        self.writes.push(Write { agent, prompt, file, before, after: Some(content), is_undone: false });
    }

    /// What the undo of an agent from a message on has to lead to; `None` if it has to be refused.
    fn expected(&self, agent: usize, from: MessageId) -> Option<Files> {
        let mut files = files(&self.app.directory());
        let is_meant = |write: &&Write| write.agent == Some(agent) && write.prompt >= from && !write.is_undone;
        let touched: BTreeSet<&str> = self.writes.iter().filter(is_meant).map(|write| write.file).collect();
        for file in touched {
            let own: Vec<&Write> = self.writes.iter().filter(|write| write.file == file).filter(is_meant).collect();
            let is_a_chain = own.windows(2).all(|pair| pair[0].after == pair[1].before);
            let (first, last) = (own[0], own[own.len() - 1]);
            let now = files[file].clone();
            if !is_a_chain || now != first.before && now != last.after {
                return None;
            }
            files.insert(own[0].file, first.before.clone());
        }
        Some(files)
    }

    fn undo_somewhere(&mut self) {
        let agent = self.random.below(AGENTS);
        let points = prompts(&self.app, agent);
        if points.is_empty() {
            return;
        }
        let from = points[self.random.below(points.len())];
        let expected = self.expected(agent, from);
        let top = self.app.directory();
        let before = tree(&top);
        self.app.switch(agent);
        let screen = undo(&mut self.app, &format!("/undo --to {}", from.0));
        match expected {
            _ if screen.contains("no tool of this agent has changed files since") => assert_eq!(tree(&top), before),
            Some(files_then) => {
                assert_eq!(files(&top), files_then, "{screen}");
                self.follow(agent, from, &before);
            }
            None => {
                assert!(screen.contains("nothing was undone"), "{screen}");
                assert!(FILES.iter().any(|file| screen.contains(&format!("/{file}: "))), "{screen}");
                assert_eq!(tree(&top), before);
            }
        }
    }

    /// Takes every second undo back at once.
    fn follow(&mut self, agent: usize, from: MessageId, before: &Tree) {
        if self.random.below(2) == 0 {
            undo(&mut self.app, "/undo --redo");
            assert_eq!(&tree(&self.app.directory()), before);
            return;
        }
        let meant = self.writes.iter_mut().filter(|write| write.agent == Some(agent) && write.prompt >= from);
        meant.for_each(|write| write.is_undone = true);
    }
}

#[test]
fn an_undo_from_any_point_restores_exactly_or_names_a_file() {
    for seed in 1..=4 {
        let mut story = Story { app: app(AGENTS), random: Random(seed), writes: Vec::new(), count: 0 };
        for _ in 0..30 {
            match story.random.below(3) {
                0 => story.undo_somewhere(),
                _ => story.change(),
            }
        }
    }
}
