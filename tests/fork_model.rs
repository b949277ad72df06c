//! Random sequences of messages, clears, marks, rewinds, forks, kills, queued texts and crashes, compared with a model
//! that copies the whole conversation at each fork. After every step each agent has the conversation of its model, in
//! memory and in the store.

use polylogue::{AgentId, Change, Fork, HistoryEdit, QueueEdit};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, History, Probe, State};
use crate::support::random::Random;

/// The beginning of a message whose reply begins and never ends. Each has another end: the text of a message that was
/// interrupted replaces it when it is sent again.
const ENDLESS: &str = "part\n%hang\n";
/// The most agents that one run creates.
const MOST_AGENTS: usize = 14;

/// What is expected of an agent.
#[derive(Clone)]
struct Model {
    id: AgentId,
    /// The nearest ancestor that was not killed.
    parent: Option<AgentId>,
    conversation_so_far: Vec<String>,
    /// Labels, and the length of the conversation at each.
    marks: Vec<(String, usize)>,
    queue: Vec<String>,
    is_busy: bool,
}

impl Model {
    fn child(&self, id: AgentId, conversation_so_far: Vec<String>) -> Model {
        Model { id, parent: Some(self.id), conversation_so_far, marks: Vec::new(), queue: Vec::new(), is_busy: false }
    }

    /// A person sends a text: it goes behind what is queued.
    fn receive(&mut self, text: &str) {
        self.queue.push(text.to_owned());
        self.go_on();
    }

    /// Answers what is queued up to the first reply that does not end.
    fn go_on(&mut self) {
        while !self.is_busy && !self.queue.is_empty() {
            let text = self.queue.remove(0);
            self.conversation_so_far.push(format!("user {text}"));
            self.is_busy = text.starts_with(ENDLESS);
            if !self.is_busy {
                self.conversation_so_far.push(format!("reply {text}"));
            }
        }
    }

    /// The partial reply is kept.
    fn stop(&mut self) {
        if std::mem::take(&mut self.is_busy) {
            self.conversation_so_far.push("reply part".to_owned());
        }
    }

    fn rewind(&mut self, label: Option<&str>) -> bool {
        let at = self.marks.iter().rposition(|(mark, _)| label.is_none_or(|label| label == mark));
        let Some(at) = at.filter(|_| !self.is_busy) else { return false };
        self.conversation_so_far.truncate(self.marks[at].1);
        self.marks.truncate(at + 1);
        true
    }
}

fn describe(body: &Body) -> String {
    match body {
        Body::User(text) => format!("user {text}"),
        Body::Assistant(reply) => format!("reply {}", reply.text),
        other => other.kind().to_owned(),
    }
}

fn conversation(history: &History) -> Vec<String> {
    history.conversation().into_iter().map(|message| describe(&message.body)).collect()
}

struct World {
    app: Option<Harness>,
    models: Vec<Model>,
    random: Random,
    created: usize,
    /// How many endless messages there were.
    endless: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let app = Harness::new(Plan::default());
        let root = Model {
            id: app.id(0),
            parent: None,
            conversation_so_far: Vec::new(),
            marks: Vec::new(),
            queue: Vec::new(),
            is_busy: false,
        };
        Self { app: Some(app), models: vec![root], random: Random(seed), created: 1, endless: 0 }
    }

    fn endless(&mut self) -> String {
        self.endless += 1;
        format!("{ENDLESS}{}", self.endless)
    }

    fn app(&mut self) -> &mut Harness {
        self.app.as_mut().expect("an app between two steps")
    }

    /// Carries out one random step and describes it.
    fn step(&mut self) -> String {
        let agent_id = self.random.below(self.models.len());
        let what = self.random.below(40);
        match what {
            0 | 1 => self.clear(agent_id),
            2..=6 => self.mark(agent_id),
            7..=9 => self.rewind(agent_id),
            10..=13 => self.fork(agent_id, None),
            14 | 15 => self.fork(agent_id, Some("go")),
            16 => {
                let text = self.endless();
                self.fork(agent_id, Some(&text));
            }
            17..=19 => self.fork_by_tool(agent_id),
            20 | 21 => self.kill(agent_id, false),
            22 => self.kill(agent_id, true),
            23..=25 => self.restart(),
            26..=28 => self.interrupt(agent_id),
            29 => self.resume(agent_id),
            30..=32 => {
                let text = self.endless();
                self.say(agent_id, &text);
            }
            _ => self.say(agent_id, &format!("word {what}")),
        }
        self.settle();
        format!("{what} of {agent_id}")
    }

    /// Whether the change was carried out.
    fn ask(&mut self, agent_id: usize, change: Change) -> bool {
        let id = self.models[agent_id].id;
        self.app().repl.apply(id, change).is_ok()
    }

    fn say(&mut self, agent_id: usize, text: &str) {
        assert!(self.ask(agent_id, Change::Submit(text.into())));
        self.models[agent_id].receive(text);
    }

    fn clear(&mut self, agent_id: usize) {
        let is_done = self.ask(agent_id, Change::EditHistory(HistoryEdit::Clear));
        let twin = &mut self.models[agent_id];
        assert_eq!(is_done, !twin.is_busy);
        if is_done {
            twin.conversation_so_far.clear();
            twin.marks.clear();
        }
    }

    fn mark(&mut self, agent_id: usize) {
        let label = ["a", "b", ""][self.random.below(3)];
        let is_done = self.ask(agent_id, Change::EditHistory(HistoryEdit::Mark(label.into())));
        let twin = &mut self.models[agent_id];
        assert_eq!(is_done, !twin.is_busy);
        if is_done {
            twin.marks.push((label.into(), twin.conversation_so_far.len()));
        }
    }

    fn rewind(&mut self, agent_id: usize) {
        let label = [Some("a"), Some("b"), None][self.random.below(3)];
        let is_done = self.ask(agent_id, Change::EditHistory(HistoryEdit::Rewind(label.map(str::to_owned))));
        assert_eq!(self.models[agent_id].rewind(label), is_done);
    }

    fn fork(&mut self, agent_id: usize, prompt: Option<&str>) {
        if self.created == MOST_AGENTS {
            return;
        }
        assert!(self.ask(
            agent_id,
            Change::Fork(Fork { prompt: prompt.map(str::to_owned), includes_current: true, ..Fork::default() })
        ));
        self.enter_child(agent_id, self.models[agent_id].conversation_so_far.clone(), prompt);
    }

    fn fork_by_tool(&mut self, agent_id: usize) {
        let twin = &self.models[agent_id];
        if self.created == MOST_AGENTS || twin.is_busy || !twin.queue.is_empty() {
            return;
        }
        let before = twin.conversation_so_far.clone();
        let order = "%tool fork {\"prompt\":\"go\"}\n%next\ndone";
        assert!(self.ask(agent_id, Change::Submit(order.into())));
        self.settle();
        self.models[agent_id]
            .conversation_so_far
            .extend([&format!("user {order}"), "tool_call", "tool_result", "reply done"].map(str::to_owned));
        self.enter_child(agent_id, before, Some("go"));
    }

    /// Adds a model of the newest agent.
    fn enter_child(&mut self, agent_id: usize, conversation_so_far: Vec<String>, prompt: Option<&str>) {
        let newest = self.app().repl.roster().len() - 1;
        let id = self.app().id(newest);
        let mut child = self.models[agent_id].child(id, conversation_so_far);
        prompt.into_iter().for_each(|prompt| child.receive(prompt));
        self.models.push(child);
        self.created += 1;
    }

    fn kill(&mut self, agent_id: usize, cascade: bool) {
        let (id, adopter) = (self.models[agent_id].id, self.models[agent_id].parent);
        let is_done = self.ask(0, Change::Kill { agent_id: id, cascade });
        assert_eq!(is_done, agent_id > 0, "all but the root can be killed");
        let mut dead = if is_done { vec![id] } else { Vec::new() };
        let mut next = 0;
        while let Some(one) = dead.get(next).copied().filter(|_| cascade) {
            dead.extend(self.models.iter().filter(|twin| twin.parent == Some(one)).map(|twin| twin.id));
            next += 1;
        }
        self.models.retain(|twin| !dead.contains(&twin.id));
        for orphan in self.models.iter_mut().filter(|twin| twin.parent.is_some_and(|id| dead.contains(&id))) {
            orphan.parent = adopter;
        }
    }

    fn restart(&mut self) {
        self.app = self.app.take().map(Harness::crash_and_restart);
        self.models.iter_mut().for_each(Model::stop);
    }

    fn interrupt(&mut self, agent_id: usize) {
        assert!(self.ask(agent_id, Change::Interrupt));
        self.models[agent_id].stop();
    }

    fn resume(&mut self, agent_id: usize) {
        assert!(self.ask(agent_id, Change::EditQueue(QueueEdit::Resume)));
        self.models[agent_id].go_on();
    }

    /// Turns until every agent is idle or in a reply that does not end.
    fn settle(&mut self) {
        self.app().turn_until("all replies to end", |app| {
            app.repl.roster().iter().all(|agent| agent.state() == State::Idle || agent.partial_text() == "part")
        });
    }

    fn check(&mut self) {
        let models = self.models.clone();
        let roster = self.app().repl.roster();
        assert_eq!(roster.ids(), models.iter().map(|twin| twin.id).collect::<Vec<_>>());
        for twin in &models {
            let repl = &self.app().repl;
            let agent = repl.roster().get(twin.id).expect("it lives");
            let (stored, damaged) = repl.store().replay(twin.id).expect("a history");
            assert!(damaged.is_empty(), "{damaged:?}");
            assert_eq!(conversation(&History::from_messages(stored)), twin.conversation_so_far, "in the store");
            if let Some(history) = &agent.inputs.history {
                assert_eq!(conversation(history), twin.conversation_so_far, "in memory");
            }
            let queued: Vec<&str> = agent.queue.iter().map(|queued| queued.text.as_str()).collect();
            assert_eq!(queued, twin.queue);
            assert_eq!(repl.roster().parent(twin.id), twin.parent);
        }
    }
}

/// Names the seed and the steps when a check fails.
struct Witness {
    seed: u64,
    steps: Vec<String>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, after {}", self.seed, self.steps.join(", "));
        }
    }
}

#[test]
fn every_agent_has_the_conversation_that_a_full_copy_at_each_fork_would_have_also_after_crashes() {
    let mut created = 0;
    for seed in 1..=30 {
        let mut witness = Witness { seed, steps: Vec::new() };
        let mut world = World::new(seed * 0x9E37_79B9);
        for _ in 0..70 {
            witness.steps.push(world.step());
            world.check();
        }
        world.restart();
        world.check();
        created += world.created;
    }
    assert!(created > 150, "too few agents were created: {created}");
}

#[test]
fn a_fork_by_a_tool_after_a_fork_by_a_person_in_the_same_turn_inherits_what_came_before_the_turn() {
    let mut app = Harness::new(Plan::default());
    app.say(0, "before");
    app.turn_until_idle();
    app.say(0, "%slow 1000\n%tool fork {\"prompt\":\"go\"}\n%next\ndone");
    // The open turn is shared with this child, so it is no longer the parent's own alone.
    app.ask(0, Change::Fork(Fork::default()));
    app.advance(std::time::Duration::from_secs(1));
    app.turn_until("the tool's child", |app| app.repl.roster().len() == 3);
    app.turn_until("both have answered", |app| {
        app.advance(std::time::Duration::from_secs(1));
        app.repl.roster().busy().is_empty()
    });
    let expected = ["user before", "reply before", "user go", "reply go"];
    assert_eq!(conversation(app.agent(2).inputs.history.as_ref().expect("it has spoken")), expected);
    assert_eq!(conversation(&History::from_messages(app.log(2))), expected);
}
