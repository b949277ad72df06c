//! A server that limits requests per minute and at once, and a crowd of agents that all want more of it.
//!
//! The time is given with each step, so that the same scene runs in real time and with a manual clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polylogue::{AgentId, Change, Repl};

use super::internals::{Agent, Probe, State, Wait};
use super::openai::last_user_text;
use super::peer::{Exchange, Peer};
use super::random::Random;

/// What the server tells about its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// Nothing but the status 429.
    None,
    /// `retry-after` with a refusal.
    RetryAfter,
    /// As OpenAI does: `x-ratelimit-*-requests` with each answer, where the reset is that of the whole bucket, and
    /// `retry-after` with a refusal.
    OpenAi,
}

/// How long replies take, in turn.
const REPLIES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(8)];
/// How long the person reads an answer.
const READS: Duration = Duration::from_secs(5);

/// How long a server that plays for other processes waits for a request before it looks whether a reply is due.
const STEP: Duration = Duration::from_millis(5);

/// A token bucket of requests, into which so many come in a minute, and so many requests at once.
pub struct LimitedServer {
    peer: Peer,
    headers: Headers,
    per_minute: f64,
    at_once: usize,
    /// The size of the bucket.
    burst: f64,
    replies: [Duration; 3],
    /// The first requests are refused when so many have come.
    pub holds_first: usize,
    held: Vec<Exchange>,
    /// Of so many requests one is refused by chance; 0 is none.
    pub refuses_one_in: usize,
    random: Random,
    left: f64,
    replenished_at: Duration,
    under_way: Vec<(Duration, Exchange)>,
    pub accepted: usize,
    pub refused: usize,
}

impl LimitedServer {
    pub fn start(headers: Headers, per_minute: u32, at_once: usize) -> Self {
        let per_minute = per_minute.into();
        let peer = Peer::start();
        Self {
            peer,
            headers,
            per_minute,
            at_once,
            burst: per_minute,
            replies: REPLIES,
            holds_first: 0,
            held: Vec::new(),
            refuses_one_in: 0,
            random: Random(1),
            left: per_minute,
            replenished_at: Duration::ZERO,
            under_way: Vec::new(),
            accepted: 0,
            refused: 0,
        }
    }

    /// A bucket of so many requests, and replies that end at once.
    pub fn with_burst(self, burst: u32) -> Self {
        Self { burst: burst.into(), left: burst.into(), replies: [Duration::ZERO; 3], ..self }
    }

    /// Serves other processes until this is set. Returns when the last request was accepted.
    pub fn serve_until(&mut self, is_over: &AtomicBool) -> Duration {
        let (start, mut last) = (Instant::now(), Duration::ZERO);
        while !is_over.load(Ordering::Relaxed) {
            let accepted = self.accepted;
            if let Some(exchange) = self.peer.accept_within(STEP) {
                self.replenish(start.elapsed());
                self.take(exchange, start.elapsed());
            }
            self.serve(start.elapsed());
            if self.accepted > accepted {
                last = start.elapsed();
            }
        }
        last
    }

    pub fn url(&self) -> String {
        self.peer.url()
    }

    /// Ends the replies that are due and takes the requests that have come. Returns the texts of the accepted ones.
    fn serve(&mut self, now: Duration) -> Vec<String> {
        self.replenish(now);
        let (due, rest) = std::mem::take(&mut self.under_way).into_iter().partition(|(at, _)| *at <= now);
        self.under_way = rest;
        for (_, exchange) in due {
            exchange.text("fine").finish("stop").done();
        }
        std::iter::from_fn(|| self.peer.try_accept())
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|it| self.take(it, now))
            .collect()
    }

    fn replenish(&mut self, now: Duration) {
        let passed = now - std::mem::replace(&mut self.replenished_at, now);
        self.left = (self.left + passed.as_secs_f64() * self.per_minute / 60.0).min(self.burst);
    }

    fn take(&mut self, exchange: Exchange, now: Duration) -> Option<String> {
        if self.holds_first > 0 {
            self.held.push(exchange);
            if self.held.len() == self.holds_first {
                self.holds_first = 0;
                std::mem::take(&mut self.held).iter().for_each(|held| self.refuse(held, 1));
            }
            return None;
        }
        let is_allowed = self.left >= 1.0;
        let is_unlucky = self.refuses_one_in > 0 && self.random.below(self.refuses_one_in) == 0;
        if !is_allowed || is_unlucky || self.under_way.len() == self.at_once {
            // A full server does not know when it will not be.
            let wait = if is_allowed { 1.0 } else { (1.0 - self.left) * 60.0 / self.per_minute };
            self.refuse(&exchange, wait.ceil() as u64);
            return None;
        }
        (self.left, self.accepted) = (self.left - 1.0, self.accepted + 1);
        respond(&exchange, 200, &self.limit_headers(), ("transfer-encoding", "chunked"));
        let text = last_user_text(&exchange.request().json());
        self.under_way.push((now + self.replies[self.accepted % self.replies.len()], exchange));
        Some(text)
    }

    fn refuse(&mut self, exchange: &Exchange, wait: u64) {
        self.refused += 1;
        let mut headers = self.limit_headers();
        if self.headers != Headers::None {
            headers.push(("retry-after", wait.to_string()));
        }
        respond(exchange, 429, &headers, ("content-length", "0"));
    }

    fn limit_headers(&self) -> Vec<(&'static str, String)> {
        if self.headers != Headers::OpenAi {
            return Vec::new();
        }
        let reset = (self.burst - self.left) * 60.0 / self.per_minute;
        vec![
            ("x-ratelimit-limit-requests", self.per_minute.to_string()),
            ("x-ratelimit-remaining-requests", self.left.floor().to_string()),
            ("x-ratelimit-reset-requests", format!("{reset:.3}s")),
        ]
    }

    /// How many requests it could have accepted by now.
    pub fn allowed(&self, now: Duration) -> f64 {
        self.burst + self.per_minute * now.as_secs_f64() / 60.0
    }
}

fn respond(exchange: &Exchange, status: u16, headers: &[(&'static str, String)], framing: (&str, &str)) {
    let mut all = vec![("content-type", "text/event-stream"), framing];
    all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    exchange.head(status, &all);
}

/// Agents that ask again as soon as they are answered. The first is on the screen, where a person reads each answer.
pub struct Crowd {
    pub server: LimitedServer,
    members: Vec<Member>,
}

#[derive(Default)]
struct Member {
    /// When it asked what is not accepted yet.
    asked_at: Option<Duration>,
    /// When it was answered.
    idle_since: Option<Duration>,
    /// How long each of its questions waited to be accepted.
    waits: Vec<Duration>,
    failures: usize,
}

impl Member {
    /// With the wait that has not ended.
    fn waits(&self, now: Duration) -> impl Iterator<Item = Duration> {
        self.waits.iter().copied().chain(self.asked_at.map(|at| now - at))
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub answered: usize,
    pub failed: usize,
    pub refused: usize,
    /// The share of the requests that the server would have accepted.
    pub rate: f64,
    /// The longest and the mean wait on the screen.
    pub on_screen: (Duration, Duration),
    /// The shortest mean wait of another agent, and the median of all waits of the others.
    pub others: (Duration, Duration),
}

impl Crowd {
    pub fn new(server: LimitedServer, count: usize) -> Self {
        Self { server, members: std::iter::repeat_with(Member::default).take(count).collect() }
    }

    /// Lets the agents that have nothing to wait for ask, and the server do what is due.
    pub fn step(&mut self, repl: &mut Repl, now: Duration) {
        for (number, (id, member)) in repl.roster().ids().into_iter().zip(&mut self.members).enumerate() {
            let agent = repl.roster().get(id).expect("it lives");
            if agent.state() == State::Idle && member.asked_at.take().is_some() {
                // It ended without having been accepted.
                member.failures += 1;
            }
            let rests = if number == 0 { READS } else { Duration::ZERO };
            let idle_since = (agent.state() == State::Idle).then(|| *member.idle_since.get_or_insert(now));
            if idle_since.is_some_and(|since| member.waits.is_empty() || since + rests <= now) {
                ask(repl, id, number);
                (member.asked_at, member.idle_since) = (Some(now), None);
            }
        }
        for text in self.server.serve(now) {
            let number: usize = text.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number");
            let member = &mut self.members[number];
            let asked_at = member.asked_at.take().expect("it has asked");
            member.waits.push(now - asked_at);
        }
    }

    /// Whether client and server agree on which requests are under way: then nothing is on its way between them.
    pub fn is_quiet(&self, repl: &Repl) -> bool {
        let is_sent = |agent: &Agent| matches!(agent.wait(), Wait::Transfer);
        repl.roster().iter().filter(|agent| is_sent(agent)).count() == self.server.under_way.len()
    }

    /// When the next reply ends.
    pub fn due(&self) -> Option<Duration> {
        let rests = self.members[0].idle_since.map(|since| since + READS);
        self.server.under_way.iter().map(|(at, _)| *at).chain(rests).min()
    }

    pub fn outcome(&self, now: Duration) -> Outcome {
        let mean = |member: &Member| {
            let (count, sum) =
                member.waits(now).fold((0, Duration::ZERO), |(count, sum), wait| (count + 1, sum + wait));
            sum / count
        };
        let (person, others) = self.members.split_first().expect("an agent on the screen");
        let mut waits: Vec<Duration> = others.iter().flat_map(|member| member.waits(now)).collect();
        waits.sort_unstable();
        Outcome {
            answered: self.server.accepted,
            failed: self.members.iter().map(|member| member.failures).sum(),
            refused: self.server.refused,
            rate: self.server.accepted as f64 / self.server.allowed(now),
            on_screen: (person.waits(now).max().unwrap_or_default(), mean(person)),
            others: (others.iter().map(mean).min().unwrap_or_default(), waits[waits.len() / 2]),
        }
    }
}

fn ask(repl: &mut Repl, id: AgentId, number: usize) {
    repl.apply(id, Change::Submit(format!("from {number}"))).expect("a text can be sent");
}
