//! Tests viewers against a model that keeps everything and counts by hand, and that nothing is left of them after their
//! end.

use std::collections::VecDeque;

use super::*;
use crate::agent::{FIRST_CHUNK, OUTPUT_LIMITS};
use crate::base::clock::Clock;
use crate::domain::change::{Change, HistoryEdit};
use crate::domain::chunk::{Chunk, Status};
use crate::domain::config::Config;
use crate::domain::message::{Body, Reply};
use crate::domain::slice::SliceSpec;
use crate::repl::core::viewers;
use crate::store::Store;

fn repl() -> Repl {
    Repl::open(Config::default(), Store::in_memory().unwrap(), Clock::manual()).unwrap()
}

fn emit_note(repl: &mut Repl, agent_id: AgentId, text: &str) {
    // Not into the scrollback as well: that takes time, and no test looks there.
    repl.core.edit(agent_id, |agent| agent.output.push(&Chunk::Note(text.into())));
}

fn read_all(repl: &mut Repl, viewer: ViewerId) -> ViewerOutput {
    let mut seen = repl.read(viewer, 1_000);
    while repl.has_unread(viewer) {
        let more = repl.read(viewer, 1_000);
        seen.chunks.extend(more.chunks);
        seen.is_over = more.is_over;
    }
    seen
}

/// The output of an agent as the test expects it: number, length and content of each chunk that is still kept.
struct AgentModel {
    agent_id: AgentId,
    is_dead: bool,
    begin: u64,
    next: u64,
    kept: VecDeque<(u64, usize, Chunk)>,
    held: usize,
}

impl AgentModel {
    fn of(repl: &mut Repl, agent_id: AgentId) -> Self {
        let (begin, next) = viewers::filled_bounds(&mut repl.core, agent_id).unwrap();
        let output = &repl.core.agent(agent_id).unwrap().output;
        let chunk = |number| output.get(number).map(|(chunk, length)| (number, length, chunk)).unwrap();
        let kept: VecDeque<_> = (begin..next).map(chunk).collect();
        let held = kept.iter().map(|(_, length, _)| length).sum();
        Self { agent_id, is_dead: false, begin, next, kept, held }
    }

    fn add(&mut self, chunk: Chunk) {
        let length = chunk.encode().1.len();
        self.kept.push_back((self.next, length, chunk));
        self.next += 1;
        self.held += length;
        while self.kept.len() > OUTPUT_LIMITS.records || self.held > OUTPUT_LIMITS.bytes && self.kept.len() > 1 {
            self.held -= self.kept.pop_front().map_or(0, |(_, length, _)| length);
        }
    }

    fn oldest(&self) -> u64 {
        self.next - self.kept.len() as u64
    }
}

/// A viewer as the model has it.
struct Reader {
    id: ViewerId,
    at: usize,
    next: u64,
}

struct Scene {
    repl: Repl,
    random: fastrand::Rng,
    models: Vec<AgentModel>,
    readers: Vec<Reader>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut repl = repl();
        let agents = [(); 3].map(|()| repl.create(None, None).unwrap());
        let models = agents.map(|agent_id| AgentModel::of(&mut repl, agent_id)).into_iter().collect();
        Self { repl, random: fastrand::Rng::with_seed(seed), models, readers: Vec::new() }
    }

    fn one(&mut self) -> usize {
        self.random.u64(..self.models.len() as u64) as usize
    }

    fn emit(&mut self) {
        let at = self.one();
        if self.models[at].is_dead {
            return;
        }
        let (count, length) = match self.random.u64(..16) {
            0 => (OUTPUT_LIMITS.records as u64 + self.random.u64(..3) - 1, 3),
            1 => (3, OUTPUT_LIMITS.bytes / 3 + self.random.u64(..3) as usize),
            2 => (1, OUTPUT_LIMITS.bytes + 5),
            _ => (self.random.u64(..40), self.random.u64(..5_000) as usize),
        };
        for n in 0..count {
            let chunk = Chunk::Note(" ".repeat(length) + &n.to_string());
            // Not into the scrollback as well: that takes time, and no test looks there.
            self.repl.core.edit(self.models[at].agent_id, |agent| agent.output.push(&chunk));
            self.models[at].add(chunk);
        }
    }

    fn attach(&mut self) {
        let at = self.one();
        let (models, kind) = (&self.models[at], self.random.u64(..5));
        let number = models.begin.saturating_sub(2) + self.random.u64(..models.next - models.begin + 5);
        let count = self.random.u64(..30);
        let epoch = if kind == 0 { "another".to_owned() } else { self.repl.epoch().to_owned() };
        let (attached, next) = match kind {
            0..=2 => {
                let is_known = kind != 0 && (models.begin..=models.next).contains(&number);
                let position = Position { epoch, number };
                (self.repl.attach(models.agent_id, Some(&position)), if is_known { number } else { models.begin })
            }
            3 => (self.repl.attach(models.agent_id, None), models.begin),
            _ => (
                self.repl.attach_to_last(models.agent_id, count),
                models.oldest().max(models.next.saturating_sub(count)),
            ),
        };
        assert_eq!(attached.is_err(), models.is_dead);
        if let Ok(id) = attached {
            self.readers.push(Reader { id, at, next });
        }
    }

    fn read(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        let which = self.random.u64(..self.readers.len() as u64) as usize;
        let most = self.random.u64(..600) as usize;
        let one = &mut self.readers[which];
        let models = &self.models[one.at];
        assert_eq!(self.repl.has_unread(one.id), one.next < models.next);
        let seen = self.repl.read(one.id, most);
        let missed = models.oldest().saturating_sub(one.next);
        one.next += missed;
        let expected: Vec<_> = models.kept.iter().skip((one.next - models.oldest()) as usize).take(most).collect();
        assert_eq!(seen.missed, missed);
        assert!(seen.chunks.len() <= expected.len() && (!seen.chunks.is_empty() || expected.is_empty()));
        for (seen, (number, _, chunk)) in seen.chunks.iter().zip(expected) {
            assert_eq!((seen.agent, seen.number, &seen.chunk), (models.agent_id, *number, chunk));
        }
        one.next += seen.chunks.len() as u64;
        assert_eq!(seen.is_over, models.is_dead && one.next == models.next);
    }

    fn detach(&mut self) {
        if !self.readers.is_empty() {
            let which = self.random.u64(..self.readers.len() as u64) as usize;
            let left = self.readers.swap_remove(which);
            self.repl.detach(left.id);
            assert_eq!(self.repl.read(left.id, 1), ViewerOutput { is_over: true, ..ViewerOutput::default() });
        }
    }

    fn kill(&mut self) {
        let at = self.one();
        if !self.models[at].is_dead && self.random.u64(..30) == 0 {
            let (root, victim) = (self.repl.core.roster().nth(0).unwrap(), self.models[at].agent_id);
            self.repl.apply(root, Change::Kill { agent_id: victim, cascade: false }).unwrap();
            self.models[at].add(Chunk::Mark("killed".into()));
            self.models[at].add(Chunk::Status(Status::Dead));
            self.models[at].is_dead = true;
        }
    }

    /// The output of a dead agent is kept only while a viewer reads it.
    fn assert_nothing_is_left_over(&self) {
        for (at, models) in self.models.iter().enumerate().filter(|(_, models)| models.is_dead) {
            let is_wanted = self.readers.iter().any(|one| one.at == at && one.next < models.next);
            assert_eq!(viewers::gone(&self.repl.core).contains(&models.agent_id), is_wanted);
        }
        assert_eq!(viewers::count(&self.repl.core), self.readers.len());
    }
}

#[test]
fn whatever_happens_in_whatever_order_every_viewer_sees_what_a_naive_model_says() {
    for seed in 1..=8 {
        let mut scene = Scene::new(seed);
        for _ in 0..250 {
            match scene.random.u64(..10) {
                0 | 1 => scene.emit(),
                2 | 3 => scene.attach(),
                4..=7 => scene.read(),
                8 => scene.detach(),
                _ => scene.kill(),
            }
            scene.assert_nothing_is_left_over();
        }
    }
}

#[test]
fn all_kept_chunks_are_read_and_a_dropped_one_is_counted() {
    for (length, most) in [(1, OUTPUT_LIMITS.records), (OUTPUT_LIMITS.bytes / 4, 4)] {
        let mut repl = repl();
        let agent_id = repl.create(None, None).unwrap();
        let (text, viewer) = ("x".repeat(length), repl.attach(agent_id, None).unwrap());
        let begun = read_all(&mut repl, viewer).chunks.len();
        (0..most).for_each(|_| emit_note(&mut repl, agent_id, &text));
        let early = repl.attach(agent_id, repl.position(viewer).as_ref()).unwrap();
        let seen = read_all(&mut repl, early);
        assert_eq!((seen.missed, seen.chunks.len()), (0, most));
        emit_note(&mut repl, agent_id, &text);
        let seen = read_all(&mut repl, viewer);
        assert_eq!((seen.missed, seen.chunks.len()), (1, most));
        let late = repl.attach(agent_id, None).unwrap();
        assert_eq!(repl.read(late, 1).missed, begun as u64 + 1, "what was dropped is counted for those who come later");
    }
}

#[test]
fn what_is_dropped_before_anybody_wanted_what_the_store_has_is_never_put_before_a_gap() {
    let mut repl = repl();
    let root = repl.core.roster().nth(0).unwrap();
    repl.core.store().append(root, vec![Body::User("stored".into())], 0).unwrap();
    (0..=OUTPUT_LIMITS.records).for_each(|_| emit_note(&mut repl, root, "x"));
    let viewer = repl.attach(root, None).unwrap();
    let seen = read_all(&mut repl, viewer);
    assert_eq!(seen.missed + seen.chunks.len() as u64, repl.core.agent(root).unwrap().output.next() - FIRST_CHUNK);
    assert!(seen.chunks.iter().all(|one| one.chunk == Chunk::Note("x".into())));
}

#[test]
fn of_a_long_past_the_newest_that_fits_is_put_in_front_and_the_store_is_not_read_twice() {
    let mut repl = repl();
    let root = repl.core.roster().nth(0).unwrap();
    let models = |n: usize| Body::User(n.to_string());
    repl.core.store().append(root, (0..OUTPUT_LIMITS.records + 500).map(models).collect(), 0).unwrap();
    let live = read_live(&repl, root);
    let viewer = repl.attach(root, None).unwrap();
    let seen = read_all(&mut repl, viewer);
    assert_eq!((seen.missed, seen.chunks.len()), (0, OUTPUT_LIMITS.records));
    assert_eq!(seen.chunks[0].chunk, Chunk::User((500 + live).to_string()));
    assert!(seen.chunks.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
    assert_eq!(repl.core.agent(root).unwrap().output.load_before(), None);
    let again = repl.attach(root, None).unwrap();
    assert_eq!(read_all(&mut repl, again), seen);
}

fn read_live(repl: &Repl, agent_id: AgentId) -> usize {
    let output = &repl.core.agent(agent_id).unwrap().output;
    (output.next() - FIRST_CHUNK) as usize
}

#[test]
fn of_a_past_in_large_pieces_as_many_are_put_in_front_as_there_are_bytes_for() {
    let mut repl = repl();
    let agent_id = repl.create(None, None).unwrap();
    let piece = |n: usize| {
        Body::Assistant(Reply {
            text: format!("{n}").repeat(OUTPUT_LIMITS.bytes / 5),
            thinking: "hm".into(),
            ..Reply::default()
        })
    };
    repl.core.store().append(agent_id, (0..9).map(piece).collect(), 0).unwrap();
    let viewer = repl.attach(agent_id, None).unwrap();
    let seen = read_all(&mut repl, viewer);
    let texts = seen.chunks.iter().filter(|one| matches!(one.chunk, Chunk::Text(_))).count();
    let first = seen.chunks[0].chunk.encode().1[0];
    assert_eq!((texts, first), (4, b'h'), "four pieces and what was thought before each");
}

#[test]
fn a_viewer_cannot_attach_to_a_summary_agent() {
    let mut repl = repl();
    let root = repl.core.roster().nth(0).unwrap();
    repl.core.store().append(root, vec![Body::User("one".into()), Body::Assistant(Reply::default())], 0).unwrap();
    repl.apply(root, Change::EditHistory(HistoryEdit::Slice(SliceSpec::parse("summarize:0:1").unwrap()))).unwrap();
    let summary_job = repl.core.agent(root).and_then(|agent| agent.helper).expect("a summary is being written");
    assert!(repl.attach(summary_job, None).is_err() && repl.close(summary_job).is_err());
}

#[test]
fn a_hundred_viewers_that_come_and_go_leave_nothing_behind() {
    let mut repl = repl();
    let agents = [(); 10].map(|()| repl.create(None, None).unwrap());
    for cycle in 0..100 {
        let viewers = agents.map(|agent_id| repl.attach(agent_id, None).unwrap());
        agents.iter().for_each(|agent_id| emit_note(&mut repl, *agent_id, &format!("{cycle}")));
        for (at, viewer) in viewers.into_iter().enumerate() {
            if at % 2 == 0 {
                assert_eq!(read_all(&mut repl, viewer).missed, 0);
            }
            repl.detach(viewer);
        }
    }
    assert!(
        viewers::count(&repl.core) == 0
            && viewers::gone(&repl.core).is_empty()
            && !repl.embedding.callbacks.has_unread(&repl.core)
    );
    let (root, first) = (repl.core.roster().nth(0).unwrap(), agents[0]);
    repl.apply(root, Change::Kill { agent_id: first, cascade: false }).unwrap();
    assert!(viewers::gone(&repl.core).is_empty(), "no viewer was attached");
}

#[test]
fn a_callback_gets_a_bounded_number_of_chunks_in_a_turn() {
    let mut repl = repl();
    let agent_id = repl.create(None, None).unwrap();
    let readings = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let sink = std::rc::Rc::clone(&readings);
    let record = move |seen: &ViewerOutput| {
        sink.borrow_mut().push(seen.chunks.len());
        Ok(())
    };
    let position =
        Position { epoch: repl.epoch().to_owned(), number: viewers::bounds(&repl.core, agent_id).unwrap().1 };
    repl.on_chunks(agent_id, Some(&position), Box::new(record)).unwrap();
    assert!(!repl.embedding.callbacks.has_unread(&repl.core));
    (0..CHUNKS_PER_TURN + 1).for_each(|_| emit_note(&mut repl, agent_id, "x"));
    while repl.embedding.callbacks.has_unread(&repl.core) {
        assert_eq!(repl.compute_timeout().after, Some(Default::default()));
        repl.turn(None).unwrap();
    }
    assert_eq!(*readings.borrow(), [CHUNKS_PER_TURN, 1]);
    repl.turn(Some(Default::default())).unwrap();
    assert_eq!(readings.borrow().len(), 2, "without new chunks there is no call");
    repl.close(agent_id).unwrap();
    repl.turn(Some(Default::default())).unwrap();
    assert!(
        readings.borrow().last() == Some(&1) && viewers::count(&repl.core) == 0 && viewers::gone(&repl.core).is_empty()
    );
}
