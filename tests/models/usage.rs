//! Tokens and cost of a day: whatever is done with agents, the sums are those of what the servers said.

use std::collections::BTreeMap;
use std::path::Path;

use polylogue::config::{Endpoint, ModelFacts, Prices, ProviderEntry, Secret};
use polylogue::{AgentId, Change, HistoryEdit, Setting};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::internals::{Probe, State};
use crate::support::peer::{Exchange, Peer};
use crate::support::program::{Home, Response};
use crate::support::random::Random;

/// Its server says at the beginning of a reply what the request had.
const STREAMING: &str = "anthropic/claude-haiku-4-5";

/// What a server said of one request.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub requests: u64,
    pub input: u64,
    pub cached: u64,
    pub written: u64,
    pub output: u64,
    pub reasoning: u64,
    /// Billionths of a dollar, and how many requests they are of.
    pub cost: u64,
    pub priced: u64,
}

impl Said {
    fn random(random: &mut Random) -> Self {
        let [cached, written, plain, output] = [900, 300, 4_000, 700].map(|most| random.below(most) as u64);
        let reasoning = random.below(output as usize + 1) as u64;
        Self { requests: 1, input: plain + cached + written, cached, written, output, reasoning, ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        let [mine, more] = [&*self, &other].map(|said| said.columns());
        let sum = |at: usize| mine[at].1 + more[at].1;
        *self = Self {
            requests: sum(0),
            input: sum(1),
            cached: sum(2),
            written: sum(3),
            output: sum(4),
            reasoning: sum(5),
            cost: sum(6),
            priced: sum(7),
        };
    }

    fn columns(&self) -> [(&'static str, u64); 8] {
        [
            ("requests", self.requests),
            ("input", self.input),
            ("cached", self.cached),
            ("written", self.written),
            ("output", self.output),
            ("reasoning", self.reasoning),
            ("cost", self.cost),
            ("priced", self.priced),
        ]
    }

    fn of_row(row: &Value) -> Self {
        let number = |column: &str| row[column].as_u64().unwrap_or(0);
        // An unknown cost is null.
        assert_eq!(row["cost"].is_null(), number("priced") == 0, "{row}");
        Self {
            requests: number("requests"),
            input: number("input"),
            cached: number("cached"),
            written: number("written"),
            output: number("output"),
            reasoning: number("reasoning"),
            cost: number("cost"),
            priced: number("priced"),
        }
    }
}

/// The models, and their prices in billionths of a dollar per token of input, cached input, written input and output: two
/// of the built-in table, one of the configuration, and one without.
const MODELS: [(&str, Option<[u64; 4]>); 4] = [
    ("openai/gpt-5-mini", Some([250, 25, 250, 2_000])),
    ("anthropic/claude-haiku-4-5", Some([1_000, 100, 1_250, 5_000])),
    ("openai-responses/mine", Some([3_000, 700, 3_000, 11_000])),
    ("google/unheard-of", None),
];

/// What the protocol can say of this, with its cost.
fn told(model: &str, said: Said) -> Said {
    let said = match model.split('/').next() {
        // The thinking is not counted apart.
        Some("anthropic") => Said { reasoning: 0, ..said },
        Some("google") => Said { written: 0, ..said },
        _ => said,
    };
    let Some((_, Some([input, cached, written, output]))) = MODELS.into_iter().find(|(name, _)| *name == model) else {
        return said;
    };
    let plain = said.input - said.cached - said.written;
    let cost = plain * input + said.cached * cached + said.written * written + said.output * output;
    Said { cost, priced: 1, ..said }
}

/// A reply of this text or with one call, with the usage as the protocol has it.
pub(crate) fn reply(exchange: &Exchange, text: &str, call: bool, said: Said) {
    exchange.stream();
    let path = exchange.request().path.clone();
    match path.rsplit('/').next() {
        Some("completions") => openai_reply(exchange, text, call, said),
        Some("messages") => anthropic_reply(exchange, text, call, said),
        Some("responses") => responses_reply(exchange, text, call, said),
        _ => google_reply(exchange, text, call, said),
    }
}

fn openai_reply(exchange: &Exchange, text: &str, call: bool, said: Said) {
    match call {
        true => exchange.tool_call(0, "c1", "read_file", "{\"path\":\"none\"}").finish("tool_calls"),
        false => exchange.text(text).finish("stop"),
    };
    let usage = json!({
        "prompt_tokens": said.input, "completion_tokens": said.output,
        "prompt_tokens_details": {"cached_tokens": said.cached, "cache_write_tokens": said.written},
        "completion_tokens_details": {"reasoning_tokens": said.reasoning},
    });
    exchange.event(&json!({"choices": [], "usage": usage})).done();
}

fn anthropic_reply(exchange: &Exchange, text: &str, call: bool, said: Said) {
    let usage = json!({
        "input_tokens": said.input - said.cached - said.written, "cache_read_input_tokens": said.cached,
        "cache_creation_input_tokens": said.written, "output_tokens": said.output.min(1),
    });
    let block = match call {
        true => json!({"type": "tool_use", "id": "c1", "name": "read_file", "input": {}}),
        false => json!({"type": "text", "text": text}),
    };
    let reason = if call { "tool_use" } else { "end_turn" };
    for event in [
        json!({"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": said.output}}),
        json!({"type": "message_stop"}),
    ] {
        exchange.event(&event);
    }
    exchange.end();
}

fn responses_reply(exchange: &Exchange, text: &str, call: bool, said: Said) {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    let item = match call {
        true => json!({"id": "f1", "type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "{}"}),
        false => json!({"id": "m1", "type": "message", "role": "assistant", "content": content}),
    };
    let usage = json!({
        "input_tokens": said.input, "output_tokens": said.output,
        "input_tokens_details": {"cached_tokens": said.cached, "cache_write_tokens": said.written},
        "output_tokens_details": {"reasoning_tokens": said.reasoning},
    });
    let response = json!({"id": "r", "status": "completed", "error": null, "output": [], "usage": usage});
    for event in [
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": response}),
    ] {
        exchange.event(&event);
    }
    exchange.end();
}

fn google_reply(exchange: &Exchange, text: &str, call: bool, said: Said) {
    let part = match call {
        true => json!({"functionCall": {"id": "c1", "name": "read_file", "args": {}}, "thoughtSignature": "c2ln"}),
        false => json!({"text": text}),
    };
    let usage = json!({
        "promptTokenCount": said.input, "cachedContentTokenCount": said.cached,
        "candidatesTokenCount": said.output - said.reasoning, "thoughtsTokenCount": said.reasoning,
    });
    let content = json!({"parts": [part], "role": "model"});
    let candidates = json!([{"content": content, "finishReason": "STOP"}]);
    exchange.event(&json!({"candidates": candidates, "usageMetadata": usage})).end();
}

struct Day {
    app: Option<Harness>,
    peer: Peer,
    random: Random,
    /// What was said for each agent and of each model.
    by_agent: BTreeMap<AgentId, Said>,
    by_model: BTreeMap<String, Said>,
    /// How often each thing was done.
    done: BTreeMap<&'static str, usize>,
    /// Replies that have not ended.
    open: Vec<Exchange>,
}

impl Day {
    fn begin(seed: u64) -> Self {
        let peer = Peer::start();
        let address = peer.address();
        let entry = |kind: &str, base: &str, service, models| ProviderEntry {
            name: kind.into(),
            kind: kind.into(),
            base_url: format!("http://{address}/{base}"),
            service,
            key: Some(Secret::new("key")),
            models,
            ..ProviderEntry::default()
        };
        let prices = Prices { input: 3_000_000, cached: 700_000, written: 3_000_000, output: 11_000_000 };
        let mine = ("mine".to_owned(), ModelFacts { prices: Some(prices), ..ModelFacts::default() });
        let providers = vec![
            entry("openai", "v1", Some("openai"), Vec::new()),
            entry("anthropic", "v1", Some("anthropic"), Vec::new()),
            entry("openai-responses", "v1", None, vec![mine]),
            entry("google", "v1beta", None, Vec::new()),
        ];
        let endpoint = Endpoint { provider: "unused".into(), ..endpoint("openai", "test", &peer.url()) };
        let app = Some(Harness::new(Plan { endpoint, providers, real_time: true, ..Plan::default() }));
        let (by_agent, by_model, done) = Default::default();
        Self { app, peer, random: Random(seed), by_agent, by_model, done, open: Vec::new() }
    }

    fn app(&mut self) -> &mut Harness {
        self.app.as_mut().expect("a program")
    }

    /// The next request, which is answered for this agent.
    fn answer(&mut self, agent: AgentId, text: &str, calls: bool) {
        let exchange = self.app.as_mut().expect("a program").accept(&self.peer);
        let request = exchange.request();
        let body = request.json();
        let is = |name: &str| body["model"] == *name || request.path.contains(name);
        let model = MODELS.iter().map(|(model, _)| *model).find(|model| is(model.split_once('/').expect("a name").1));
        let model = model.expect("one of the models");
        let said = Said::random(&mut self.random);
        let said = if model.starts_with("google") { Said { input: said.input - said.written, ..said } } else { said };
        reply(&exchange, text, calls, said);
        self.count(agent, model, said);
    }

    fn count(&mut self, agent: AgentId, model: &str, said: Said) {
        let said = told(model, said);
        self.by_agent.entry(agent).or_default().add(said);
        self.by_model.entry(model.to_owned()).or_default().add(said);
    }

    fn turn(&mut self, n: usize) {
        let (model, _) = MODELS[self.random.below(MODELS.len())];
        let calls = self.random.below(3);
        let app = self.app();
        app.ask(n, Change::Setting(Setting::Model(model.into())));
        app.say(n, &format!("question {}", "word ".repeat(40)));
        let id = app.id(n);
        for _ in 0..calls {
            self.answer(id, "", true);
        }
        self.answer(id, &format!("answer {}", "word ".repeat(30)), false);
        self.app().turn_until("the end of the turn", |app| app.state(n) == State::Idle);
    }

    /// A reply of Anthropic's protocol, which says at its beginning what the request had, is interrupted.
    fn interrupted(&mut self, n: usize) {
        let app = self.app();
        app.ask(n, Change::Setting(Setting::Model(STREAMING.into())));
        app.say(n, "too long");
        let _half = self.half_answer(n);
        let app = self.app();
        app.turn_until("the half", |app| app.agent(n).partial_text() == "half");
        app.ask(n, Change::Interrupt);
        app.turn_until("it is idle", |app| app.state(n) == State::Idle);
    }

    /// The process dies within a reply, once it has stored the usage that the beginning of the reply said.
    fn crash_in_a_reply(&mut self, n: usize) {
        let app = self.app();
        app.ask(n, Change::Setting(Setting::Model(STREAMING.into())));
        app.say(n, "too long");
        let _half = self.half_answer(n);
        let app = self.app();
        let store = rusqlite::Connection::open(app.data().join("polylogue.db")).expect("the store");
        app.turn_until("the half is stored", |_| {
            let sql = "SELECT 1 FROM partials WHERE content = 'half' AND usage IS NOT NULL";
            store.prepare(sql).and_then(|mut statement| statement.exists([])).expect("an answer")
        });
        drop(store);
        let app = self.app.take().expect("a program");
        self.app = Some(app.crash_and_restart());
    }

    /// The same, but the agent is killed, with one below it that is at work too.
    fn killed_at_work(&mut self, n: usize) {
        self.app().fork(n);
        let child = self.app().repl.roster().len() - 1;
        let app = self.app();
        let victim = app.id(n);
        for at in [n, child] {
            let app = self.app();
            app.ask(at, Change::Setting(Setting::Model(STREAMING.into())));
            app.say(at, "too long");
            let half = self.half_answer(at);
            self.app().turn_until("the half", |app| app.agent(at).partial_text() == "half");
            self.open.push(half);
        }
        self.app().ask(0, Change::Kill { agent_id: victim, cascade: true });
        self.open.clear();
    }

    /// An agent is killed while a summary for it is written.
    fn killed_in_compaction(&mut self, n: usize) {
        let victim = self.app().id(n);
        self.app().ask(n, Change::Setting(Setting::Model(STREAMING.into())));
        // A conversation may be too short.
        while self.app().repl.apply(victim, Change::EditHistory(HistoryEdit::Compact(None))).is_err() {
            self.turn(n);
            self.app().ask(n, Change::Setting(Setting::Model(STREAMING.into())));
        }
        let _half = self.half_answer(n);
        let writer = self.app().agent(n).helper.expect("an agent writes the summary");
        let has_half = |app: &mut Harness| app.repl.roster().get(writer).expect("it writes").partial_text() == "half";
        self.app().turn_until("the half", has_half);
        self.app().ask(0, Change::Kill { agent_id: victim, cascade: false });
    }

    /// The next request is half answered for this agent.
    fn half_answer(&mut self, n: usize) -> Exchange {
        let exchange = self.app.as_mut().expect("a program").accept(&self.peer);
        let usage = json!({"input_tokens": 70, "cache_read_input_tokens": 30, "output_tokens": 2});
        let start = json!({"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}});
        let text =
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "half"}});
        exchange.stream().event(&start).event(&text);
        let id = self.app().id(n);
        let said = Said { requests: 1, input: 100, cached: 30, output: 2, ..Said::default() };
        self.count(id, STREAMING, said);
        exchange
    }

    fn compact(&mut self, n: usize) -> bool {
        let id = self.app().id(n);
        if self.app().repl.apply(id, Change::EditHistory(HistoryEdit::Compact(None))).is_err() {
            return false;
        }
        if self.app().agent(n).is_compacting() {
            self.answer(id, "They talked.", false);
            self.app().turn_until("the compaction", |app| !app.agent(n).is_compacting());
        }
        true
    }

    fn step(&mut self) {
        let count = self.app().repl.roster().len();
        let (n, action) = (self.random.below(count), self.random.below(15));
        let id = self.app().id(n);
        let what = match action {
            0 if count < 6 => {
                self.app().fork(n);
                "fork"
            }
            1 if count > 3 && n > 0 => {
                self.app().ask(0, Change::Kill { agent_id: id, cascade: false });
                "kill"
            }
            2 => {
                let app = self.app.take().expect("a program");
                self.app = Some(app.crash_and_restart());
                "restart"
            }
            3 if self.compact(n) => "compaction",
            4 if self.app().repl.apply(id, Change::EditHistory(HistoryEdit::Mark("here".into()))).is_ok() => "mark",
            5 if self.app().repl.apply(id, Change::EditHistory(HistoryEdit::Rewind(None))).is_ok() => "rewind",
            6 => {
                self.interrupted(n);
                "interrupt"
            }
            7 if n > 0 => {
                self.killed_at_work(n);
                "kill at work"
            }
            8 if n > 0 => {
                self.killed_in_compaction(n);
                "kill in a compaction"
            }
            9 => {
                self.crash_in_a_reply(n);
                "crash in a reply"
            }
            _ => {
                self.turn(n);
                "turn"
            }
        };
        *self.done.entry(what).or_default() += 1;
    }
}

fn run_on(directory: &Path, arguments: &[&str]) -> Response {
    let variables = vec![("POLYLOGUE_DATA_DIR".into(), directory.display().to_string())];
    Home { variables, ..Home::new() }.run(arguments)
}

fn rows(directory: &Path, by: &str) -> Vec<Value> {
    let output = run_on(directory, &["usage", "--by", by, "--json"]);
    assert_eq!(output.code, 0, "{output:?}");
    output.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn the_sums_of_a_day_are_what_the_servers_said() {
    let mut day = Day::begin(0x5eed_u64);
    (0..200).for_each(|_| day.step());
    let kinds = ["turn", "fork", "kill", "restart", "compaction", "mark", "rewind", "interrupt"];
    let kinds = kinds.iter().chain(&["kill at work", "kill in a compaction", "crash in a reply"]);
    assert!(kinds.clone().all(|kind| day.done.contains_key(kind)), "{:?}", day.done);
    assert_eq!(day.by_model.len(), MODELS.len());
    let directory = day.app.take().expect("a program").close();
    let mut all = Said::default();
    day.by_model.values().for_each(|said| all.add(*said));
    let mut days = Said::default();
    rows(directory.path(), "day").iter().for_each(|row| days.add(Said::of_row(row)));
    assert_eq!(days, all);
    let models = rows(directory.path(), "model");
    let models: BTreeMap<String, Said> =
        models.iter().map(|row| (row["model"].as_str().expect("a model").to_owned(), Said::of_row(row))).collect();
    assert_eq!(models, day.by_model);
    let agents = rows(directory.path(), "agent");
    for row in &agents {
        let id: AgentId = row["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        assert_eq!(Said::of_row(row), day.by_agent.remove(&id).unwrap_or_default(), "{row}");
        let below = |row: &Value| agents.iter().filter(|child| child["parent"] == row["id"]).cloned().collect();
        let (mut open, mut tree): (Vec<Value>, _) = (vec![row.clone()], Said::default());
        while let Some(next) = open.pop() {
            tree.add(Said::of_row(&next));
            open.extend::<Vec<Value>>(below(&next));
        }
        assert_eq!(row["tree_tokens"].as_u64(), Some(tree.input + tree.output), "{row}");
        assert_eq!(row["tree_cost"].as_u64().unwrap_or(0), tree.cost, "{row}");
    }
    assert!(day.by_agent.is_empty(), "{:?}", day.by_agent);
    let table = run_on(directory.path(), &["usage", "--by", "model"]).out;
    let unknown = table.lines().find(|line| line.starts_with("google/unheard-of")).expect("a line");
    assert!(unknown.contains(" - ") && !unknown.contains('$'), "{table}");
}
