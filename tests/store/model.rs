//! Random lives of many agents against a model that copies every history in full at each fork.

use polylogue::base::id::{AgentId, MessageId};
use polylogue::domain::history::History;
use polylogue::domain::message::{Body, Message};
use polylogue::store::Store;

use super::*;
use crate::support::dice::Dice;

/// An agent as the model knows it: all of its history, copied.
struct Twin {
    id: AgentId,
    history: Vec<Message>,
    inherited: usize,
    is_alive: bool,
}

struct World {
    dir: tempfile::TempDir,
    store: Option<Store>,
    agents: Vec<Twin>,
    dice: Dice,
}

impl World {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let id = AgentId::random();
        store.create_root(id, None, None, 0).unwrap();
        let root = Twin { id, history: Vec::new(), inherited: 0, is_alive: true };
        Self { dir, store: Some(store), agents: vec![root], dice: Dice(seed | 1) }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is open between two steps")
    }

    fn step(&mut self) {
        let who = self.dice.below(self.agents.len());
        match self.dice.below(40) {
            _ if !self.agents[who].is_alive => self.refuse(who),
            0 => self.write(who, vec![Body::Clear]),
            1..=3 => self.write(who, vec![Body::Mark("m".into())]),
            4..=6 => self.rewind(who),
            7..=12 => self.fork(who),
            13 if who > 0 => self.kill(who),
            14 => self.reopen(),
            15..=18 => self.write(who, vec![answered("calls"), called("1"), called("2"), result("1"), result("2")]),
            step => self.write(who, vec![said(&format!("{step} of {who}"))]),
        }
    }

    fn refuse(&self, who: usize) {
        assert!(self.store().append(self.agents[who].id, vec![said("from beyond")], 0).is_err());
    }

    fn write(&mut self, who: usize, bodies: Vec<Body>) {
        let written = self.store().append(self.agents[who].id, bodies, 0).unwrap();
        self.agents[who].history.extend(written);
    }

    fn rewind(&mut self, who: usize) {
        let length = self.agents[who].history.len();
        if length > 0 {
            let to = self.agents[who].history[self.dice.below(length)].id;
            self.write(who, vec![Body::Rewind(to)]);
        }
    }

    fn fork(&mut self, who: usize) {
        let Twin { inherited, ref history, .. } = self.agents[who];
        let kept = inherited + self.dice.below(history.len() - inherited + 1);
        let history = history[..kept].to_vec();
        let point = if kept > inherited { history[kept - 1].id } else { MessageId(0) };
        let forked = fork_at(self.store(), self.agents[who].id, point);
        self.agents[who].history.push(forked.in_parent);
        let mut child = Twin { id: forked.row.id, history, inherited: kept, is_alive: true };
        child.history.push(forked.in_child);
        self.agents.push(child);
    }

    fn kill(&mut self, who: usize) {
        let events = self.store().kill(&[self.agents[who].id], 0).unwrap();
        self.agents[who].history.extend(events);
        self.agents[who].is_alive = false;
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(Store::open(self.dir.path()).unwrap());
    }

    fn check(&mut self, who: usize) {
        let twin = &self.agents[who];
        let (messages, damaged) = self.store().replay(twin.id).unwrap();
        assert_eq!(damaged, Vec::<String>::new());
        let clear = twin.history.iter().rposition(|message| message.body == Body::Clear);
        assert_eq!(messages, twin.history[clear.map_or(0, |at| at + 1)..]);
        let (limit, cut) = (self.dice.below(12), self.dice.below(messages.len() + 1));
        let before = messages.get(cut).map(|message| message.id);
        let tail = self.store().tail(self.agents[who].id, before, limit).unwrap();
        assert_eq!(tail, messages[cut.saturating_sub(limit)..cut]);
        let model = History::from_messages(self.agents[who].history.clone());
        assert_eq!(History::from_messages(messages).conversation(), model.conversation());
    }
}

#[test]
fn every_history_is_what_a_full_copy_at_each_fork_would_be() {
    for seed in 1..=12 {
        let mut world = World::new(seed * 0x9E37_79B9);
        for _ in 0..250 {
            world.step();
            let who = world.dice.below(world.agents.len());
            world.check(who);
        }
        world.reopen();
        (0..world.agents.len()).for_each(|who| world.check(who));
        let living = world.agents.iter().filter(|twin| twin.is_alive).map(|twin| twin.id);
        let roll = world.store().load_agents().unwrap();
        assert!(living.eq(roll.agents.iter().map(|row| row.id)), "seed {seed}");
        assert!(roll.agents.len() < world.agents.len() && world.agents.len() > 10, "seed {seed} was too dull");
    }
}
