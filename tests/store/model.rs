//! Random operations on many agents, compared with a model that copies the complete history at each fork.

use polylogue::{AgentId, Store};

use super::*;
use crate::support::internals::{Body, History, Message, MessageId};
use crate::support::random::Random;

/// An agent of the model, with its complete history.
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
    random: Random,
}

impl World {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let id = AgentId::random();
        store.create_root(id, None, None, 0).unwrap();
        let root = Twin { id, history: Vec::new(), inherited: 0, is_alive: true };
        Self { dir, store: Some(store), agents: vec![root], random: Random(seed | 1) }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is open between two steps")
    }

    fn step(&mut self) {
        let agent_id = self.random.below(self.agents.len());
        match self.random.below(40) {
            _ if !self.agents[agent_id].is_alive => self.refuse(agent_id),
            0 => self.write(agent_id, vec![Body::Clear]),
            1..=3 => self.write(agent_id, vec![Body::Mark("m".into())]),
            4..=6 => self.rewind(agent_id),
            7..=12 => self.fork(agent_id),
            13 if agent_id > 0 => self.kill(agent_id),
            14 => self.reopen(),
            15..=18 => self.write(agent_id, vec![assistant("calls"), call("1"), call("2"), result("1"), result("2")]),
            step => self.write(agent_id, vec![user(&format!("{step} of {agent_id}"))]),
        }
    }

    fn refuse(&self, agent_id: usize) {
        assert!(self.store().append(self.agents[agent_id].id, vec![user("from beyond")], 0).is_err());
    }

    fn write(&mut self, agent_id: usize, bodies: Vec<Body>) {
        let written = self.store().append(self.agents[agent_id].id, bodies, 0).unwrap();
        self.agents[agent_id].history.extend(written);
    }

    fn rewind(&mut self, agent_id: usize) {
        let length = self.agents[agent_id].history.len();
        if length > 0 {
            let to = self.agents[agent_id].history[self.random.below(length)].id;
            self.write(agent_id, vec![Body::Rewind(to)]);
        }
    }

    fn fork(&mut self, agent_id: usize) {
        let Twin { inherited, ref history, .. } = self.agents[agent_id];
        let kept = inherited + self.random.below(history.len() - inherited + 1);
        let history = history[..kept].to_vec();
        let point = if kept > inherited { history[kept - 1].id } else { MessageId(0) };
        let forked = fork_at(self.store(), self.agents[agent_id].id, point);
        self.agents[agent_id].history.push(forked.in_parent);
        let mut child = Twin { id: forked.row.id, history, inherited: kept, is_alive: true };
        child.history.push(forked.in_child);
        self.agents.push(child);
    }

    fn kill(&mut self, agent_id: usize) {
        let events = self.store().kill(&[self.agents[agent_id].id], 0).unwrap();
        self.agents[agent_id].history.extend(events);
        self.agents[agent_id].is_alive = false;
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(Store::open(self.dir.path()).unwrap());
    }

    fn check(&mut self, agent_id: usize) {
        let twin = &self.agents[agent_id];
        let (messages, damaged) = self.store().replay(twin.id).unwrap();
        assert_eq!(damaged, Vec::<String>::new());
        let clear = twin.history.iter().rposition(|message| message.body == Body::Clear);
        assert_eq!(messages, twin.history[clear.map_or(0, |at| at + 1)..]);
        let (limit, cut) = (self.random.below(12), self.random.below(messages.len() + 1));
        let before = messages.get(cut).map(|message| message.id);
        let tail = self.store().tail(self.agents[agent_id].id, before, limit).unwrap();
        assert_eq!(tail, messages[cut.saturating_sub(limit)..cut]);
        let model = History::from_messages(self.agents[agent_id].history.clone());
        assert_eq!(History::from_messages(messages).conversation(), model.conversation());
    }
}

#[test]
fn every_history_equals_a_full_copy_at_each_fork() {
    for seed in 1..=12 {
        let mut world = World::new(seed * 0x9E37_79B9);
        for _ in 0..250 {
            world.step();
            let agent_id = world.random.below(world.agents.len());
            world.check(agent_id);
        }
        world.reopen();
        (0..world.agents.len()).for_each(|agent_id| world.check(agent_id));
        let living = world.agents.iter().filter(|twin| twin.is_alive).map(|twin| twin.id);
        let registry = world.store().load_agents().unwrap();
        assert!(living.eq(registry.agents.iter().map(|row| row.id)), "seed {seed}");
        assert!(registry.agents.len() < world.agents.len() && world.agents.len() > 10, "seed {seed} was too dull");
    }
}
