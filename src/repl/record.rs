//! Records a session as a scenario for `polylogue replay`: what was typed, the replies and failures of the provider,
//! and the results of tools, with their times. What was typed is recorded as the bytes of the terminal, because only
//! they mean the same again. Texts are replaced by filler of the same length unless the person wants to keep them; what is
//! typed where a key of a provider may be is never recorded.

mod filler;
mod reply;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::agent::{Agent, RecordedEvent};
use crate::base::clock::{Clock, Moment};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::domain::config::Config;
use crate::domain::flow::Origin;
use crate::domain::key::{TypedInput, TypedKind};
use crate::domain::tool::{ToolCall, ToolResult};
use crate::repl::event::Event;
use filler::{Filler, fill, redacted};
use reply::Reply;

/// A recorded scenario ends where the session did, and no later than after a year.
const LONGEST_MS: u128 = 365 * 24 * 60 * 60 * 1000;
/// Seeds are integers of TOML.
const MAX_SEED: u64 = 1 << 32;
/// The number of all agents that are in no list, such as those that write a summary.
const UNLISTED: i64 = -1;
/// The most characters of the arguments by which a call is recognized.
const MAX_ARGUMENTS: usize = 200;

/// Writes the scenario, if one was asked for.
#[derive(Default)]
pub struct Record(Option<Writer>);

struct Writer {
    file: File,
    clock: Clock,
    start: Moment,
    /// The keys of the whole file, until they are written.
    head: Option<String>,
    filler: Filler,
    /// The beginning of a character whose other bytes were not received yet.
    cut_character: Vec<u8>,
    /// The terminal that is recorded, and its size.
    terminal: Option<(TerminalId, (u16, u16))>,
    /// The agent that it showed first.
    shown: Option<AgentId>,
    /// The names of agents in the scenario, with their numbers in the order of creation.
    names: BTreeMap<AgentId, (usize, String)>,
    /// All names that agents have had.
    known: BTreeSet<String>,
    /// The models of the agents that were there first.
    models: BTreeMap<AgentId, String>,
    replies: BTreeMap<AgentId, Reply>,
    /// The calls that tools are carrying out.
    calls: BTreeMap<(AgentId, String), RunningCall>,
    error: Option<io::Error>,
}

struct RunningCall {
    start: Moment,
    call: ToolCall,
    /// A person has allowed it.
    is_asked: bool,
}

impl Record {
    /// Creates the file, which must not exist.
    pub fn open<'a>(config: &Config, clock: &Clock, agents: impl Iterator<Item = &'a Agent>) -> Result<Self> {
        let Some(path) = &config.record else { return Ok(Self::default()) };
        let file = File::options().create_new(true).write(true).mode(0o600).open(path);
        let file = file.map_err(|error| Error::from(error).context(format!("--record {}", path.display())))?;
        let mut writer = Writer {
            file,
            clock: clock.clone(),
            start: clock.now(),
            head: None,
            filler: Filler::new(config.records_texts),
            known: BTreeSet::new(),
            cut_character: Vec::new(),
            terminal: None,
            shown: None,
            names: BTreeMap::new(),
            models: BTreeMap::new(),
            replies: BTreeMap::new(),
            calls: BTreeMap::new(),
            error: None,
        };
        for agent in agents {
            writer.add(agent.id(), &agent.identity.label());
            let endpoint = &agent.inputs.endpoint;
            // A replay has another provider in place of these.
            if endpoint.kind != "echo" && !endpoint.is_none() {
                writer.models.insert(agent.id(), endpoint.full_name());
            }
        }
        let retries = config.settings.retry.retries.map(|most| format!("retries = {most}\n")).unwrap_or_default();
        let (about, approval) = ("about = \"A recorded session\"", config.policy.name());
        let seed = fastrand::u64(..MAX_SEED);
        fastrand::seed(seed);
        let head = format!("{about}\napproval = \"{approval}\"\n{retries}end = {LONGEST_MS}\nseed = {seed}\n");
        writer.head = Some(head);
        Ok(Self(Some(writer)))
    }

    pub const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// A terminal is about to handle its input.
    pub fn input(&mut self, input: &TypedInput) {
        let Some(writer) = &mut self.0 else { return };
        let (terminal, size) = *writer.terminal.get_or_insert((input.terminal, input.size));
        writer.shown.get_or_insert(input.shown);
        if terminal != input.terminal {
            return writer.not_replayed("what another terminal sent", input.bytes.is_empty());
        }
        if size != input.size {
            writer.terminal = Some((terminal, input.size));
            let now = writer.now_ms();
            writer.input(now, &format!("size = [{}, {}]", input.size.0, input.size.1));
        }
        writer.typed(input);
    }

    /// A change that was not typed at a terminal is about to be made.
    pub fn change(&mut self, origin: Origin, name: &str) {
        let Some(writer) = &mut self.0 else { return };
        writer.not_replayed(name, !matches!(origin, Origin::Client(_) | Origin::Library));
    }

    pub fn event(&mut self, event: &Event, label: &impl Fn(AgentId) -> String) {
        let Some(writer) = &mut self.0 else { return };
        match event {
            Event::Spawned { child, .. } => writer.add(*child, &label(*child)),
            Event::RequestSent { agent } => {
                writer.end(*agent);
                writer.replies.insert(*agent, Reply::new(writer.clock.now()));
            }
            Event::Interrupted { agent, .. } => writer.end_reply(*agent),
            Event::Removed { agent, .. } => writer.end(*agent),
            _ => {}
        }
    }

    pub fn on_delivered(&mut self, events: Vec<(AgentId, RecordedEvent)>) {
        let Some(writer) = &mut self.0 else { return };
        let (now, has_texts) = (writer.clock.now(), writer.filler.keeps_texts());
        for (agent, event) in events {
            match event {
                RecordedEvent::Head => {
                    writer.replies.get_mut(&agent).into_iter().for_each(|reply| reply.begin(now));
                }
                RecordedEvent::Stream(event) => {
                    let reply = writer.replies.get_mut(&agent);
                    if reply.is_some_and(|reply| reply.add(event, now, has_texts)) {
                        writer.end_reply(agent);
                    }
                }
                RecordedEvent::Failed { status, error } => {
                    if let Some(reply) = writer.replies.get_mut(&agent) {
                        reply.fail(status, &error, now, has_texts);
                    }
                    writer.end_reply(agent);
                }
                RecordedEvent::ToolStarted { call, is_asked } => {
                    let id = call.id.clone();
                    writer.calls.insert((agent, id), RunningCall { start: now, call, is_asked });
                }
                RecordedEvent::Tool(result) => writer.end_call(agent, &result),
            }
        }
    }

    /// An agent has another name. Later names are typed again.
    pub fn rename(&mut self, agent: AgentId, label: &str) {
        let Some(writer) = &mut self.0 else { return };
        writer.known.insert(label.to_owned());
        if let Some((_, name)) = writer.names.get_mut(&agent).filter(|_| writer.head.is_some()) {
            label.clone_into(name);
        }
    }

    /// Why the record can no longer be written; it ends then.
    pub fn take_error(&mut self) -> Option<io::Error> {
        let error = self.0.as_mut()?.error.take();
        if error.is_some() {
            self.0 = None;
        }
        error
    }
}

impl Writer {
    fn add(&mut self, agent: AgentId, label: &str) {
        let number = self.names.len();
        let is_used = |name: &str| self.names.values().any(|(_, used)| used == name);
        let mut name = label.to_owned();
        while is_used(&name) {
            name.push('+');
        }
        self.known.insert(name.clone());
        // An agent that was archived is not new when it comes back.
        self.names.entry(agent).or_insert((number, name));
    }

    fn now_ms(&self) -> u128 {
        (self.clock.now() - self.start).as_millis()
    }

    fn write(&mut self, text: &str) {
        let head = self.head.take().map(|head| head + &self.known_at_start()).unwrap_or_default();
        if let Err(error) = self.file.write_all((head + text).as_bytes()) {
            self.error.get_or_insert(error);
        }
    }

    /// The agents that were there before anything was typed, and the size of the terminal.
    fn known_at_start(&self) -> String {
        let mut names: Vec<&(usize, String)> = self.names.values().collect();
        names.sort();
        let names: Vec<String> = names.into_iter().map(|(_, name)| toml_string(name)).collect();
        let size = self.terminal.map(|(_, (columns, rows))| format!("size = [{columns}, {rows}]\n"));
        let name = |agent| self.names.get(agent).map(|(_, name)| toml_string(name));
        let models = self.models.iter().filter_map(|(agent, model)| Some((name(agent)?, toml_string(model))));
        let models: Vec<String> = models.map(|(name, model)| format!("{name} = {model}")).collect();
        let (agents, models) = (names.join(", "), models.join(", "));
        let shown = self.shown.and_then(|shown| self.names.get(&shown)).filter(|(number, _)| *number > 0);
        let shows = shown.map(|(_, name)| format!("shows = {}\n", toml_string(name))).unwrap_or_default();
        let models = if models.is_empty() { models } else { format!("models = {{ {models} }}\n") };
        format!("agents = [{agents}]\n{shows}{models}{}", size.unwrap_or_default())
    }

    fn not_replayed(&mut self, what: &str, is_nothing: bool) {
        if !is_nothing {
            self.write(&format!("\n# at {}: {what} is not replayed\n", self.now_ms()));
        }
    }

    fn input(&mut self, at: u128, what: &str) {
        self.write(&format!("\n[[input]]\nat = {at}\n{what}\n"));
    }

    fn typed(&mut self, input: &TypedInput) {
        if input.bytes.is_empty() {
            return;
        }
        let now = self.now_ms();
        let mut bytes = std::mem::take(&mut self.cut_character);
        bytes.extend_from_slice(&input.bytes);
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
        {
            self.cut_character = bytes.split_off(error.valid_up_to());
        }
        let typed = String::from_utf8_lossy(&bytes).into_owned();
        if input.kind == TypedKind::Secret {
            self.not_replayed("what was typed in /setup", false);
        }
        let known = &self.known;
        let pieces = self.filler.feed(now, &typed, input.kind, &|word: &str| known.contains(word));
        for (at, piece) in pieces {
            let line = piece.strip_suffix('\r').filter(|line| !line.contains(char::is_control));
            let what = match line {
                Some(line) => format!("line = {}", toml_string(line)),
                None => format!("keys = {}", toml_string(&piece)),
            };
            self.input(at, &what);
        }
    }

    /// The reply and the calls of an agent get no further.
    fn end(&mut self, agent: AgentId) {
        self.end_reply(agent);
        let cut = self.calls.extract_if(.., |(of, _), _| *of == agent).collect::<Vec<_>>();
        for (_, call) in cut {
            self.write_tool(&call, LONGEST_MS, "", false);
        }
    }

    /// Writes the reply of an agent that is being received, if any, as far as it came.
    fn end_reply(&mut self, agent: AgentId) {
        let Some(reply) = self.replies.remove(&agent) else { return };
        let known = self.names.get(&agent).map(|(number, name)| (number.to_string(), name.as_str()));
        let (number, name) = known.unwrap_or((UNLISTED.to_string(), "a job"));
        self.write(&format!("\n[[reply]]\nagent = {}\nnumber = {number}\n{}", toml_string(name), reply.text()));
    }

    fn end_call(&mut self, agent: AgentId, result: &ToolResult) {
        let Some(call) = self.calls.remove(&(agent, result.call_id.clone())) else { return };
        let after = (self.clock.now() - call.start).as_millis();
        self.write_tool(&call, after, &result.content, result.is_error);
    }

    fn write_tool(&mut self, running: &RunningCall, after: u128, result: &str, fails: bool) {
        let (RunningCall { call, is_asked, .. }, has_texts) = (running, self.filler.keeps_texts());
        let arguments = if has_texts { call.arguments.clone() } else { redacted(&call.arguments) };
        let with: String = arguments.chars().take(MAX_ARGUMENTS).collect();
        let result = if has_texts { result.to_owned() } else { fill(result) };
        let (name, with, result) = (toml_string(&call.name), toml_string(&with), toml_string(&result));
        let fails = if fails { "fails = true\n" } else { "" };
        let what = format!("tool = {name}\nwith = {with}\nasks = {is_asked}\nafter = {after}\nresult = {result}");
        self.write(&format!("\n[[tool]]\n{what}\n{fails}"));
    }
}

impl Drop for Writer {
    /// Writes what has not ended, and the end of the session.
    fn drop(&mut self) {
        let agents: Vec<AgentId> = self.names.keys().copied().collect();
        agents.into_iter().for_each(|agent| self.end(agent));
        let rest = self.filler.take_held();
        rest.into_iter().for_each(|(at, piece)| self.input(at, &format!("keys = {}", toml_string(&piece))));
        // Not before anything else of this millisecond.
        let now = self.now_ms() + 1;
        self.input(now, "leave = true");
    }
}

/// A string of TOML.
fn toml_string(text: &str) -> String {
    // JSON escapes as TOML does, but for DEL.
    serde_json::Value::from(text).to_string().replace('\x7f', "\\u007f")
}
