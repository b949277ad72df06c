//! Members that do what a script says, a clock that is moved by hand, and as many places as the house has: what the
//! loop will be to a task, without agents.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::*;
use crate::base::clock::Clock;
use crate::team::coordinator::health::Health;

pub(super) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(super) fn answers(after: u64, text: &str) -> Play {
    Play::Answer { after: ms(after), text: text.into() }
}

/// What a member does when it is asked.
#[derive(Debug, Clone)]
pub(super) enum Play {
    Answer {
        after: Duration,
        text: String,
    },
    Fail {
        after: Duration,
        is_retryable: bool,
    },
    /// Fails so many times, then answers.
    FailFirst {
        times: u32,
        after: Duration,
        text: String,
    },
    /// Is never heard of.
    Hang,
    /// Answers then, whether or not it was cancelled.
    Late {
        after: Duration,
    },
    /// One after the other, one for each attempt.
    Script(Vec<Play>),
}

/// What is heard of an attempt, and after which time.
type News = (Duration, std::result::Result<String, bool>);

impl Play {
    fn news(&self, attempt: u32) -> Option<News> {
        match self {
            Self::Answer { after, text } => Some((*after, Ok(text.clone()))),
            Self::Fail { after, is_retryable } => Some((*after, Err(*is_retryable))),
            Self::FailFirst { times, after, text } => {
                Some((*after, if attempt <= *times { Err(true) } else { Ok(text.clone()) }))
            }
            Self::Hang => None,
            Self::Late { after } => Some((*after, Ok("late".into()))),
            Self::Script(plays) => plays.get(attempt as usize - 1).and_then(|play| play.news(attempt)),
        }
    }
}

/// A task before it runs.
pub(super) struct Scene {
    pub clock: Clock,
    pub began: Moment,
    pub health: Health,
    pub chance: f64,
    pub places: usize,
    pub interrupt_at: Option<Duration>,
    pub judge: Play,
    settings: Settings,
    plays: Vec<Play>,
}

/// A task after it ran.
pub(super) struct Run {
    pub outcome: Rc<Outcome>,
    pub events: Vec<Event>,
    /// Milliseconds and what was to be done.
    pub log: Vec<String>,
    /// What was asked first of each member, in the order in which they were asked, and at last of the judge.
    pub prompts: Vec<String>,
    /// The most that were under way at once.
    pub most_at_once: usize,
}

/// What is under way.
#[derive(Default)]
struct World {
    /// Who was asked and has no place yet.
    line: VecDeque<(Who, u32)>,
    /// Who holds a place, and whether it is heard of although it was cancelled.
    news: BTreeMap<(Moment, Who), std::result::Result<String, bool>>,
    working: Vec<Who>,
    most_at_once: usize,
}

impl Scene {
    pub fn new(settings: Settings, plays: Vec<Play>) -> Self {
        let clock = Clock::manual();
        clock.advance(ms(123_456));
        Self {
            began: clock.now(),
            clock,
            health: Health::default(),
            chance: 0.0,
            places: usize::MAX,
            interrupt_at: None,
            judge: Play::Hang,
            settings,
            plays,
        }
    }

    pub fn task(&self) -> Task {
        let members = (0..self.plays.len()).map(|at| Member::new(format!("m{at}"))).collect();
        Task::new("r", "the task", members, self.settings.clone(), self.began).expect("it can be run")
    }

    pub fn context(&mut self) -> Context<'_> {
        Context { now: self.clock.now(), chance: self.chance, health: &mut self.health }
    }

    pub fn elapsed(&self) -> u128 {
        (self.clock.now() - self.began).as_millis()
    }

    pub fn run(self) -> Run {
        let mut health = self.health.clone();
        self.run_with(&mut health)
    }

    pub fn run_with(self, health: &mut Health) -> Run {
        let task = self.task();
        self.drive(task, health)
    }

    /// Does what the task says until it is over.
    pub fn drive(mut self, mut task: Task, health: &mut Health) -> Run {
        std::mem::swap(&mut self.health, health);
        let (mut world, mut log, mut prompts) = (World::default(), Vec::new(), Vec::new());
        let outcome = loop {
            let elapsed = self.elapsed();
            match task.step(&mut self.context()) {
                Step::Start { agent_id, prompt, attempt } => {
                    log.push(format!("{elapsed} start {}", name(agent_id)));
                    if attempt == 1 {
                        prompts.push(prompt.to_string());
                    }
                    world.line.push_back((agent_id, attempt));
                }
                Step::Cancel { agent_id } => {
                    log.push(format!("{elapsed} cancel {}", name(agent_id)));
                    self.cancel(agent_id, &mut world);
                }
                Step::Wait(until) => self.wait(until, &mut task, &mut world),
                Step::Finished(outcome) => {
                    log.push(format!("{elapsed} over"));
                    break outcome;
                }
            }
            self.give_slots(&mut task, &mut world);
        };
        assert!(world.line.is_empty() && world.working.is_empty(), "somebody still works: {:?}", world.working);
        self.deliver_rest(&mut task, world.news, &outcome);
        std::mem::swap(&mut self.health, health);
        Run { outcome, events: task.take_events(), log, prompts, most_at_once: world.most_at_once }
    }

    fn play(&self, agent_id: Who) -> &Play {
        match agent_id {
            Who::Member(at) => &self.plays[at],
            Who::Judge => &self.judge,
        }
    }

    fn give_slots(&self, task: &mut Task, world: &mut World) {
        while world.working.len() < self.places
            && let Some((agent_id, attempt)) = world.line.pop_front()
        {
            let now = self.clock.now();
            task.on_begun(agent_id, now);
            world.working.push(agent_id);
            world.most_at_once = world.most_at_once.max(world.working.len());
            if let Some((after, news)) = self.play(agent_id).news(attempt) {
                world.news.insert((now + after, agent_id), news);
            }
        }
    }

    fn cancel(&self, agent_id: Who, world: &mut World) {
        world.line.retain(|(waiting, _)| *waiting != agent_id);
        world.working.retain(|working| *working != agent_id);
        if !matches!(self.play(agent_id), Play::Late { .. }) {
            world.news.retain(|(_, from), _| *from != agent_id);
        }
    }

    /// Moves the clock to what comes first: the moment that the task named, a piece of news, a person.
    fn wait(&mut self, until: Option<Moment>, task: &mut Task, world: &mut World) {
        let heard = world.news.keys().next().copied();
        let interrupt = self.interrupt_at.map(|after| self.began + after);
        let next = [until, heard.map(|(at, _)| at), interrupt].into_iter().flatten().min();
        let next = next.expect("the task waits for nothing at all");
        assert!(next >= self.clock.now() && until != Some(self.clock.now()), "it does not wait");
        self.clock.advance(next - self.clock.now());
        if interrupt == Some(next) {
            self.interrupt_at = None;
            return task.on_interrupt(&mut self.context());
        }
        if let Some((at, agent_id)) = heard.filter(|(at, _)| *at == next) {
            let news = world.news.remove(&(at, agent_id)).expect("it was just seen");
            world.working.retain(|working| *working != agent_id);
            self.deliver(task, agent_id, &news);
        }
    }

    fn deliver(&mut self, task: &mut Task, agent_id: Who, news: &std::result::Result<String, bool>) {
        match news {
            Ok(text) => task.on_answer(agent_id, text, &mut self.context()),
            Err(is_retryable) => {
                let error = Error::new(ErrorKind::Network, "broken");
                task.on_failure(agent_id, &error, *is_retryable, &mut self.context());
            }
        }
    }

    /// What is heard after the end changes nothing.
    fn deliver_rest(
        &mut self,
        task: &mut Task,
        news: BTreeMap<(Moment, Who), std::result::Result<String, bool>>,
        outcome: &Rc<Outcome>,
    ) {
        let (health, events) = (self.health.clone(), task.take_events());
        for ((_, agent_id), news) in news {
            self.deliver(task, agent_id, &news);
        }
        assert_eq!(task.step(&mut self.context()), Step::Finished(Rc::clone(outcome)));
        assert!(self.health == health && task.take_events().is_empty(), "something was heard after the end");
        task.events = events;
    }
}

fn name(agent_id: Who) -> String {
    match agent_id {
        Who::Member(at) => at.to_string(),
        Who::Judge => "judge".into(),
    }
}
