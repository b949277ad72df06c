//! Runs a task without agents: members behave as scripted, the clock is moved by hand, and slots are limited.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::*;
use crate::base::clock::Clock;
use crate::base::error::ErrorKind;
use crate::team::coordinator::health::Health;

pub(super) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(super) fn answers(after: u64, text: &str) -> Behaviour {
    Behaviour::Answer { after: ms(after), text: text.into() }
}

/// What a member does when it is started.
#[derive(Debug, Clone)]
pub(super) enum Behaviour {
    Answer {
        after: Duration,
        text: String,
    },
    Fail {
        after: Duration,
        is_retryable: bool,
    },
    /// Fails this often, then answers.
    FailFirst {
        times: u32,
        after: Duration,
        text: String,
    },
    /// Never responds.
    Hang,
    /// Answers even if it was cancelled.
    Late {
        after: Duration,
    },
    /// One for each attempt.
    Sequence(Vec<Behaviour>),
}

/// An answer, or whether the failure is retryable.
type Response = std::result::Result<String, bool>;

impl Behaviour {
    /// The response to an attempt and when it arrives.
    fn response(&self, attempt: u32) -> Option<(Duration, Response)> {
        match self {
            Self::Answer { after, text } => Some((*after, Ok(text.clone()))),
            Self::Fail { after, is_retryable } => Some((*after, Err(*is_retryable))),
            Self::FailFirst { times, after, text } => {
                Some((*after, if attempt <= *times { Err(true) } else { Ok(text.clone()) }))
            }
            Self::Hang => None,
            Self::Late { after } => Some((*after, Ok("late".into()))),
            Self::Sequence(behaviours) => behaviours.get(attempt as usize - 1)?.response(attempt),
        }
    }
}

/// A task before it runs.
pub(super) struct Setup {
    pub clock: Clock,
    pub started_at: Moment,
    pub health: Health,
    pub chance: f64,
    pub slots: usize,
    pub interrupt_at: Option<Duration>,
    pub judge: Behaviour,
    settings: Settings,
    behaviours: Vec<Behaviour>,
}

/// A task after it ran.
pub(super) struct Run {
    pub outcome: Rc<Outcome>,
    pub events: Vec<Event>,
    /// The steps with their times in milliseconds.
    pub log: Vec<String>,
    /// The prompts of first attempts, in order.
    pub prompts: Vec<String>,
    pub max_working: usize,
}

/// What is under way.
#[derive(Default)]
struct World {
    /// Attempts that wait for a slot.
    queue: VecDeque<(MemberId, u32)>,
    responses: BTreeMap<(Moment, MemberId), Response>,
    working: Vec<MemberId>,
    max_working: usize,
}

impl Setup {
    pub fn new(settings: Settings, behaviours: Vec<Behaviour>) -> Self {
        let clock = Clock::manual();
        clock.advance(ms(123_456));
        Self {
            started_at: clock.now(),
            clock,
            health: Health::default(),
            chance: 0.0,
            slots: usize::MAX,
            interrupt_at: None,
            judge: Behaviour::Hang,
            settings,
            behaviours,
        }
    }

    pub fn task(&self) -> Task {
        let members = (0..self.behaviours.len()).map(|at| Member::new(format!("m{at}"))).collect();
        Task::new("r", "the task", members, self.settings.clone(), self.started_at).expect("valid")
    }

    pub fn context(&mut self) -> Context<'_> {
        Context { now: self.clock.now(), chance: self.chance, health: &mut self.health }
    }

    pub fn elapsed(&self) -> u128 {
        (self.clock.now() - self.started_at).as_millis()
    }

    pub fn run(self) -> Run {
        let mut health = self.health.clone();
        self.run_with(&mut health)
    }

    pub fn run_with(self, health: &mut Health) -> Run {
        let task = self.task();
        self.drive(task, health)
    }

    /// Carries out the steps of the task until it is finished.
    pub fn drive(mut self, mut task: Task, health: &mut Health) -> Run {
        std::mem::swap(&mut self.health, health);
        let (mut world, mut log, mut prompts) = (World::default(), Vec::new(), Vec::new());
        let outcome = loop {
            let elapsed = self.elapsed();
            match task.step(&mut self.context()) {
                Step::Start { member_id, prompt, attempt } => {
                    log.push(format!("{elapsed} start {}", name(member_id)));
                    if attempt == 1 {
                        prompts.push(prompt.to_string());
                    }
                    world.queue.push_back((member_id, attempt));
                }
                Step::Cancel { member_id } => {
                    log.push(format!("{elapsed} cancel {}", name(member_id)));
                    self.cancel(member_id, &mut world);
                }
                Step::Wait(until) => self.wait(until, &mut task, &mut world),
                Step::Finished(outcome) => {
                    log.push(format!("{elapsed} finished"));
                    break outcome;
                }
            }
            self.fill_slots(&mut task, &mut world);
        };
        assert!(world.queue.is_empty() && world.working.is_empty(), "still working: {:?}", world.working);
        self.deliver_late(&mut task, world.responses, &outcome);
        std::mem::swap(&mut self.health, health);
        Run { outcome, events: task.take_events(), log, prompts, max_working: world.max_working }
    }

    fn behaviour(&self, member_id: MemberId) -> &Behaviour {
        match member_id {
            MemberId::Member(at) => &self.behaviours[at],
            MemberId::Judge => &self.judge,
        }
    }

    fn fill_slots(&self, task: &mut Task, world: &mut World) {
        while world.working.len() < self.slots
            && let Some((member_id, attempt)) = world.queue.pop_front()
        {
            let now = self.clock.now();
            task.on_started(member_id, now);
            world.working.push(member_id);
            world.max_working = world.max_working.max(world.working.len());
            if let Some((after, response)) = self.behaviour(member_id).response(attempt) {
                world.responses.insert((now + after, member_id), response);
            }
        }
    }

    fn cancel(&self, member_id: MemberId, world: &mut World) {
        world.queue.retain(|(waiting, _)| *waiting != member_id);
        world.working.retain(|working| *working != member_id);
        if !matches!(self.behaviour(member_id), Behaviour::Late { .. }) {
            world.responses.retain(|(_, from), _| *from != member_id);
        }
    }

    /// Moves the clock to whatever comes first: the moment that the task named, a response, or the interrupt.
    fn wait(&mut self, until: Option<Moment>, task: &mut Task, world: &mut World) {
        let response = world.responses.keys().next().copied();
        let interrupt = self.interrupt_at.map(|after| self.started_at + after);
        let next = [until, response.map(|(at, _)| at), interrupt].into_iter().flatten().min();
        let next = next.expect("the task waits for nothing");
        assert!(next >= self.clock.now() && until != Some(self.clock.now()), "it does not wait");
        self.clock.advance(next - self.clock.now());
        if interrupt == Some(next) {
            self.interrupt_at = None;
            return task.on_interrupt(&mut self.context());
        }
        if let Some((at, member_id)) = response.filter(|(at, _)| *at == next) {
            let response = world.responses.remove(&(at, member_id)).expect("just seen");
            world.working.retain(|working| *working != member_id);
            self.deliver(task, member_id, &response);
        }
    }

    fn deliver(&mut self, task: &mut Task, member_id: MemberId, response: &Response) {
        match response {
            Ok(text) => task.on_answer(member_id, text, &mut self.context()),
            Err(is_retryable) => {
                let error = Error::new(ErrorKind::Network, "broken");
                task.on_failure(member_id, &error, *is_retryable, &mut self.context());
            }
        }
    }

    /// Responses after the end change nothing.
    fn deliver_late(
        &mut self,
        task: &mut Task,
        responses: BTreeMap<(Moment, MemberId), Response>,
        outcome: &Rc<Outcome>,
    ) {
        let (health, events) = (self.health.clone(), task.take_events());
        for ((_, member_id), response) in responses {
            self.deliver(task, member_id, &response);
        }
        assert_eq!(task.step(&mut self.context()), Step::Finished(Rc::clone(outcome)));
        assert!(self.health == health && task.take_events().is_empty(), "a late response changed something");
        task.events = events;
    }
}

fn name(member_id: MemberId) -> String {
    match member_id {
        MemberId::Member(at) => at.to_string(),
        MemberId::Judge => "judge".into(),
    }
}
