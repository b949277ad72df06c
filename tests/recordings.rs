//! Random sessions of several agents are recorded and replayed: the logs, what was delivered when, and the screen are
//! the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polylogue::config::Rules;
use polylogue::{AgentId, Repl};

use crate::scenarios::delivered;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Message, MessageId, Probe, Scenario, Stage};
use crate::support::peer::{Exchange, Peer};
use crate::support::random::Random;

/// Has many long sessions recorded: this many, of 2,000 actions each.
const SESSIONS: &str = "POLYLOGUE_TEST_RECORDINGS";

/// The time between what a test does.
const APART: Duration = Duration::from_millis(10);

/// What there is to see of a session.
#[derive(Debug, PartialEq)]
struct Seen {
    /// By agent: its messages.
    logs: BTreeMap<String, Vec<(MessageId, String)>>,
    delivered: Vec<(u64, String, String, u64)>,
    screen: Vec<String>,
}

fn play(mut stage: Stage) -> Seen {
    let mut agents = BTreeMap::new();
    while stage.step().expect("the loop turns") {
        for agent in stage.repl.roster().iter() {
            agents.entry(agent.id()).or_insert_with(|| agent.identity.label());
        }
    }
    let logs = agents.iter().map(|(id, label)| {
        let (messages, _) = stage.repl.store().replay(*id).expect("the log can be read");
        let bodies = messages.iter().map(|message| (message.id, format!("{:?}", message.body)));
        (format!("{id} {label}"), bodies.collect())
    });
    let logs = logs.collect();
    let trace = std::fs::read_to_string(stage.trace()).expect("a trace");
    // The working directory has another name in each replay, and its path may take two lines.
    let has_directory = |line: &String| line.contains("polylogue-replay-") || line.trim_end().ends_with("/work");
    let screen = stage.screen().into_iter().filter(|line| !has_directory(line)).collect();
    Seen { logs, delivered: delivered(&trace), screen }
}

/// Plays a scenario and the recording of that, which must be equal.
fn check(seed: u64, scenario: &str) -> Seen {
    let directory = tempfile::tempdir().expect("a directory");
    let parse = |name: &str, text: &str| Scenario::parse(name, text).expect("a scenario");
    let file = directory.path().join("it.toml");
    let session = Stage::open_recorded(&parse("session", scenario), false, Some(file.clone()));
    let session = play(session.expect("the program opens"));
    let recorded = std::fs::read_to_string(&file).expect("a record");
    let replayed = play(Stage::open(&parse("record", &recorded), false).expect("the program opens"));
    if session != replayed {
        for (name, text) in [("session", scenario), ("record", &recorded)] {
            std::fs::write(std::env::temp_dir().join(format!("recording-{seed}-{name}.toml")), text).expect("a file");
        }
        fail_with_first_difference(seed, &session, &replayed);
    }
    session
}

/// Fails with the first difference: of what was delivered, which has times, then of the logs, then of the screens.
fn fail_with_first_difference(seed: u64, session: &Seen, replayed: &Seen) -> ! {
    let (one, other) = (&session.delivered, &replayed.delivered);
    let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    assert_eq!(one.get(at), other.get(at), "seed {seed}: delivery {at}, after {:?}", one[..at].last());
    let messages = |seen: &Seen| {
        let of_agent = |(agent, log): (&String, &Vec<(MessageId, String)>)| {
            log.iter().map(|(id, body)| (*id, agent.clone(), body.clone())).collect::<Vec<_>>()
        };
        let mut messages: Vec<(MessageId, String, String)> = seen.logs.iter().flat_map(of_agent).collect();
        messages.sort();
        messages
    };
    let (one, other) = (messages(session), messages(replayed));
    let at = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    assert_eq!(one.get(at), other.get(at), "seed {seed}: message {at}, after {:?}", one[..at].last());
    let (one, other) = (session.screen.join("\n"), replayed.screen.join("\n"));
    panic!("seed {seed}: the screen was\n{one}\nand is\n{other}");
}

/// Writes a random session.
struct Generator {
    random: Random,
    text: String,
    now: usize,
    agents: Vec<String>,
    /// How many agents were there at the beginning.
    first: usize,
    calls: usize,
}

impl Generator {
    fn session(seed: u64, actions: usize) -> String {
        let mut random = Random(seed * 2 + 1);
        let first = 2 + random.below(4);
        let names = ["main", "scout", "clerk", "judge", "guard"];
        let agents: Vec<String> = names[..first].iter().map(|name| (*name).into()).collect();
        let mut it = Self { random, text: String::new(), now: 0, agents, first, calls: 0 };
        let names: Vec<String> = it.agents.iter().map(|name| format!("{name:?}")).collect();
        let retries = ["", "retries = 1\n", "retries = 3\n"][it.random.below(3)];
        let _ = writeln!(it.text, "about = \"random\"\nend = 100000000\n{retries}agents = [{}]", names.join(", "));
        (0..actions).for_each(|_| it.act());
        for agent in 0..first {
            (0..actions).for_each(|_| it.reply(agent));
        }
        it.text
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.random.below(choices.len())]
    }

    fn agent(&mut self) -> String {
        let number = self.random.below(self.agents.len());
        self.agents[number].clone()
    }

    fn input(&mut self, what: &str) {
        let _ = writeln!(self.text, "\n[[input]]\nat = {}\n{what}", self.now);
    }

    fn keys(&mut self, keys: &str) {
        self.input(&format!("keys = {keys:?}").replace("\\u{1b}", "\\u001b").replace("\\u{15}", "\\u0015"));
    }

    fn line(&mut self, line: &str) {
        // An earlier line may be left in the draft.
        self.keys(&format!("\u{15}{line}\r"));
    }

    fn act(&mut self) {
        let wait = [1, 3, 20, 90, 400, 1500, 6000][self.random.below(7)];
        self.now += 1 + self.random.below(wait);
        let (agent, number) = (self.agent(), self.random.below(1000));
        match self.random.below(20) {
            0..=4 => self.line(&format!("question {number}")),
            5..=7 => self.line(&format!("/switch {agent}")),
            8 => self.fork(number),
            9 => self.line(&format!("/tell {agent} told {number}")),
            10 => self.line(&format!("/send {agent} sent {number}")),
            11 => self.kill(),
            12 => self.line(&format!("/interrupt {agent}")),
            13 | 14 => self.keys("\u{1b}"),
            15 | 16 => self.keys("y"),
            17 if number < 900 => self.keys("n"),
            17 => self.input(&format!("size = [{}, {}]", 40 + number % 80, 10 + number % 30)),
            18 => {
                let keys = self.one_of(&[
                    "\u{1b}[A",
                    "\u{1b}\r",
                    "draft",
                    "\u{15}",
                    "\t",
                    "\u{1b}[5~",
                    "a",
                    "\u{1b}[200~two\nlines\u{1b}[201~",
                    "\r",
                    "r",
                ]);
                self.keys(keys);
            }
            _ => {
                let lines = [
                    "/queue",
                    "/queue drop 1",
                    "/queue up 2",
                    "/queue edit 1",
                    "/queue clear",
                    "/stop",
                    "/retry",
                    "/agents",
                    "/mark here",
                    "/rewind",
                    "/clear",
                    "/usage",
                    "/name other",
                    "/name --none",
                    "/approval yolo",
                    "/approval ask",
                    "/inbox",
                    "/wall",
                    "/timeline",
                    "/search piece",
                    "/check_mail",
                    "/read_mail",
                    "/undo",
                    "/new --name fresh a question",
                    "/raw",
                    "/help",
                    "/compact",
                    "/slice",
                ];
                let line = self.one_of(&lines);
                self.line(line);
            }
        }
    }

    fn fork(&mut self, number: usize) {
        if self.agents.len() > self.first + 6 {
            return;
        }
        let name = format!("fork{number}");
        let options = self.one_of(&["", "a task", "--stay another task", "--stay", "--include-current a third task"]);
        self.line(&format!("/fork --name {name} {options}"));
        self.agents.push(name);
    }

    /// Kills an agent, but for the root, and confirms it.
    fn kill(&mut self) {
        let number = 1 + self.random.below(self.agents.len() - 1);
        // Agents of the beginning are seldom killed: the provider knows only them.
        if number >= self.first || self.random.below(20) == 0 {
            let name = if number < self.first { self.agents[number].clone() } else { self.agents.remove(number) };
            self.line(&format!("/kill {name}"));
            self.now += 400;
            self.keys("\r");
        }
    }

    fn reply(&mut self, agent: usize) {
        let name = self.agents[agent].clone();
        let _ = writeln!(self.text, "\n[[reply]]\nagent = {name:?}");
        let mut after = self.random.below(700);
        match self.random.below(14) {
            0 => self.text += "status = 429\nretry_after = 2\n",
            1 => self.text += "status = 500\n",
            2 => self.text += "status = 400\n",
            _ => {}
        }
        self.text += "steps = [\n";
        for piece in 0..1 + self.random.below(4) {
            let _ = writeln!(self.text, "  {{ after = {after}, text = \"piece {piece} of {name} \" }},");
            after += self.random.below(300);
        }
        let end = self.random.below(10);
        let tool = (end < 3).then(|| self.call(after));
        match end {
            0..3 => {}
            3 => drop(writeln!(self.text, "  {{ after = {after}, cut = true }},")),
            4 if self.random.below(3) == 0 => {
                let event = "data: {\"error\": {\"message\": \"busy\", \"type\": \"overloaded_error\"}}\n\n";
                let raw = format!("{:?}", format!("{:x}\r\n{event}\r\n", event.len()));
                let _ = writeln!(self.text, "  {{ after = {after}, raw = {raw} }},");
            }
            // It stays silent.
            4 if self.random.below(4) == 0 => {}
            _ => drop(writeln!(self.text, "  {{ after = {after}, usage = [9, {after}], finish = \"stop\" }},")),
        }
        self.text += "]\n";
        self.text += &tool.unwrap_or_default();
    }

    /// Ends a reply with calls of tools, and returns their results.
    fn call(&mut self, after: usize) -> String {
        let mut tools = String::new();
        let count = 1 + self.random.below(2);
        for number in 0..count {
            self.calls += 1;
            let (call, takes) = (self.calls, self.random.below(3000));
            let command = format!("make {call}");
            let end = if number + 1 == count { ", finish = \"tool_calls\"" } else { "" };
            let arguments = format!("'{{\"command\": \"{command}\"}}'");
            let _ = writeln!(
                self.text,
                "  {{ after = {after}, call = {{ tool = \"bash\", arguments = {arguments} }}{end} }},"
            );
            let _ = writeln!(
                tools,
                "\n[[tool]]\ntool = \"bash\"\nwith = '\"{command}\"'\nafter = {takes}\nresult = \"made {call}\""
            );
        }
        tools
    }
}

/// The messages of agents by label: the kinds, with the texts of replies and results.
fn messages_of(repl: &Repl, agents: &[AgentId]) -> Vec<Vec<String>> {
    let words = |message: Message| match message.body {
        Body::Assistant(reply) => format!("assistant {} {}", reply.text, reply.is_partial),
        Body::User(text) => format!("user {text}"),
        Body::ToolResult(result) => format!("result {}", result.content),
        body => body.kind().to_owned(),
    };
    let log = |agent: &AgentId| repl.store().replay(*agent).expect("the log can be read").0;
    agents.iter().map(|agent| log(agent).into_iter().map(words).collect()).collect()
}

/// Types a line, later than what was before it: a scenario knows no order within a millisecond.
fn enter(app: &mut Harness, line: &str) {
    app.advance(APART);
    app.enter(line);
}

/// The request comes when the wait for it has passed.
fn accept_after_wait(app: &mut Harness, peer: &Peer) -> Exchange {
    let mut exchange = None;
    app.turn_until("a request", |app| {
        app.clock.advance(Duration::from_millis(50));
        exchange = peer.try_accept();
        exchange.is_some()
    });
    exchange.expect("a request came")
}

/// What a server, a person and a tool did, in one session, recorded.
fn session_with_server(directory: &Path) -> (Vec<Vec<String>>, Vec<String>) {
    let (record, trace) = (Some(directory.join("it.toml")), Some(directory.join("session")));
    let peer = Peer::start();
    let rules = Rules::default();
    let plan = Plan { record, records_texts: true, trace, rules, ..Plan::peer(&peer.url()) };
    let mut app = Harness::new(plan);
    enter(&mut app, "a question");
    let limited = app.accept(&peer);
    let headers = [("Retry-After", "3"), ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")];
    limited.head(429, &headers).body(r#"{"error": {"message": "slow down"}}"#).end();
    app.turn_until("the pause", |app| app.agent(0).retries() == 1);
    accept_after_wait(&mut app, &peer).error(500, "server_error", "broken");
    app.turn_until("the pause", |app| app.agent(0).retries() == 2);
    accept_after_wait(&mut app, &peer).stream().text("a part").hang_up();
    app.turn_until_idle();
    enter(&mut app, "another question");
    let calls = app.accept(&peer);
    calls.stream().tool_call(0, "c1", "bash", r#"{"command": "make it"}"#).finish("tool_calls").done().end();
    app.turn_until_asked(0);
    app.press_at_question(b"n");
    app.advance(APART);
    app.accept(&peer).stream().text("then not").finish("stop").done().end();
    app.turn_until_idle();
    enter(&mut app, "/fork --name scout");
    enter(&mut app, "a third question");
    let cut = app.accept(&peer);
    cut.stream().text("not all");
    app.turn_until("a part", |app| app.agent(1).partial_text() == "not all");
    app.advance(APART);
    app.escape();
    app.turn_until_idle();
    let agents = [app.id(0), app.id(1)];
    enter(&mut app, "/switch 0");
    app.advance(APART);
    app.enter_and_confirm("/kill scout");
    app.turn();
    let screen = app.screen_text().lines().map(str::to_owned).collect();
    (messages_of(&app.repl, &agents), screen)
}

#[test]
fn what_a_server_and_a_person_refused_cut_and_ended_replays() {
    let directory = tempfile::tempdir().expect("a directory");
    let (messages, screen) = session_with_server(directory.path());
    let text = std::fs::read_to_string(directory.path().join("it.toml")).expect("a record");
    for wanted in ["status = 429\nretry_after = 3", "\"slow down\"", "status = 500", "cut = true", "openai/test"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let mut stage = Stage::open(&Scenario::parse("it", &text).expect("a scenario"), false).expect("it opens");
    let mut agents = Vec::new();
    while stage.step().expect("the loop turns") {
        let new = stage.repl.roster().ids().into_iter().filter(|id| !agents.contains(id)).collect::<Vec<_>>();
        agents.extend(new);
    }
    assert_eq!(messages_of(&stage.repl, &agents), messages, "{text}");
    assert!(messages[0].iter().any(|message| message.starts_with("result") && message.contains("denied")));
    // The address of the server and the directory have other names.
    let is_same = |line: &&String| !line.contains("127.0.0.1") && !line.contains("ctx");
    let shown = |screen: &[String]| -> Vec<String> {
        screen.iter().filter(is_same).map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    assert_eq!(shown(&stage.screen()), shown(&screen), "{text}");
}

#[test]
fn random_sessions_replay_equal() {
    let wanted = std::env::var(SESSIONS).ok().map(|number| number.parse().expect("a number"));
    let actions = std::env::var("POLYLOGUE_TEST_ACTIONS").ok().map(|number| number.parse().expect("a number"));
    let (sessions, actions) = (wanted.unwrap_or(4), actions.unwrap_or(if wanted.is_some() { 2_000 } else { 60 }));
    let from = std::env::var("POLYLOGUE_TEST_SEED").ok().map_or(0, |number| number.parse().expect("a number"));
    for seed in from..from + sessions {
        let begin = std::time::Instant::now();
        let seen = check(seed, &Generator::session(seed, actions));
        if wanted.is_some() {
            let messages = seen.logs.values().map(Vec::len).sum::<usize>();
            let (agents, pieces) = (seen.logs.len(), seen.delivered.len());
            println!("seed {seed}: {agents} agents, {messages} messages, {pieces} pieces, {:?}", begin.elapsed());
        }
    }
}

#[test]
fn a_reply_that_is_cut_ends_at_once_while_other_threads_start_processes() {
    const CUTS: u64 = 40;
    let mut text = "about = \"cuts\"\nend = 100000\nretries = 0\nagents = [\"main\"]\n".to_owned();
    for number in 0..CUTS {
        let _ = writeln!(text, "\n[[input]]\nat = {}\nkeys = \"question\\r\"", 1000 * number);
        let steps = "{ after = 10, text = \"a part\" }, { after = 20, cut = true }";
        let _ = writeln!(text, "\n[[reply]]\nagent = \"main\"\nsteps = [{steps}]");
    }
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(Command::new("true").status().expect("a program").success());
                }
            });
        }
        let seen = Stage::open(&Scenario::parse("cuts", &text).expect("a scenario"), false).map(play);
        is_over.store(true, Ordering::Relaxed);
        seen.expect("it opens")
    });
    let errors = seen.delivered.iter().filter(|(_, _, kind, _)| kind == "error").map(|(at, ..)| *at);
    assert_eq!(errors.collect::<Vec<_>>(), (0..CUTS).map(|number| 1000 * number + 20).collect::<Vec<_>>());
}
