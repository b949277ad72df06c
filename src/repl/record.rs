//! Records a session as a scenario for `polylogue replay`: the requests, the replies of the provider and the tools,
//! with their times. Texts are replaced by filler of the same length unless the person wants to keep them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};

use crate::agent::{Agent, RecordedEvent};
use crate::base::clock::{Clock, Moment};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::change::Change;
use crate::domain::config::Config;
use crate::domain::flow::Origin;
use crate::domain::stream::{Finish, StreamEvent};
use crate::domain::tool::ToolCall;
use crate::repl::event::Event;

/// Writes the scenario, if one was asked for.
#[derive(Default)]
pub struct Record(Option<Writer>);

struct Writer {
    file: File,
    clock: Clock,
    start: Moment,
    has_texts: bool,
    /// The names of agents in the scenario.
    names: BTreeMap<AgentId, String>,
    used: BTreeSet<String>,
    replies: BTreeMap<AgentId, Reply>,
    /// The prompt of a fork that was asked for and has no child yet.
    fork_prompt: Option<String>,
    error: Option<io::Error>,
}

/// A reply that is being received.
struct Reply {
    sent: Moment,
    steps: Vec<String>,
    calls: Vec<ToolCall>,
}

impl Record {
    /// Creates the file, which must not exist.
    pub fn open<'a>(config: &Config, clock: &Clock, agents: impl Iterator<Item = &'a Agent>) -> Result<Self> {
        let Some(path) = &config.record else { return Ok(Self::default()) };
        let file = File::options().create_new(true).write(true).open(path);
        let file = file.map_err(|error| Error::from(error).context(format!("--record {}", path.display())))?;
        let mut writer = Writer {
            file,
            clock: clock.clone(),
            start: clock.now(),
            has_texts: config.records_texts,
            names: BTreeMap::new(),
            used: BTreeSet::new(),
            replies: BTreeMap::new(),
            fork_prompt: None,
            error: None,
        };
        let names: Vec<String> =
            agents.map(|agent| toml_string(&writer.add(agent.id(), &agent.identity.label()))).collect();
        let about = "about = \"A recorded session\"\napproval = \"yolo\"";
        writer.write(&format!("{about}\nagents = [{}]\n", names.join(", ")));
        Ok(Self(Some(writer)))
    }

    /// A change is about to be made to an agent, perhaps one that its terminal does not show.
    pub fn change(&mut self, origin: Origin, (agent, is_shown): (AgentId, bool), change: &Change) {
        let Some(writer) = self.0.as_mut().filter(|_| origin.terminal().is_some()) else { return };
        match change {
            Change::Submit(text) => writer.line(&writer.line_or_filler(text)),
            Change::Tell { to, text } => {
                writer.line(&format!("/tell {} {}", writer.name(*to), writer.line_or_filler(text)))
            }
            Change::Switch(to) => writer.line(&format!("/switch {}", writer.name(*to))),
            Change::Interrupt if !is_shown => writer.line(&format!("/interrupt {}", writer.name(agent))),
            Change::Interrupt => writer.input("keys = \"\\u001b\""),
            Change::Fork(fork) if fork.place.is_none() => {
                writer.fork_prompt = Some(fork.prompt.clone().unwrap_or_default())
            }
            // A replay asks nothing.
            Change::Answer { .. } | Change::Show(_) => {}
            change => writer.write(&format!("\n# at {}: {} is not replayed\n", writer.now_ms(), change.name())),
        }
    }

    pub fn event(&mut self, event: &Event, label: &impl Fn(AgentId) -> String) {
        let Some(writer) = &mut self.0 else { return };
        match event {
            Event::Spawned { child, origin, .. } => {
                let name = writer.add(*child, &label(*child));
                if let Some(prompt) = writer.fork_prompt.take().filter(|_| origin.terminal().is_some()) {
                    let prompt =
                        if prompt.is_empty() { prompt } else { format!("\"{}\" ", writer.line_or_filler(&prompt)) };
                    writer.line(&format!("/fork {prompt}--name {name} --model scripted/{name}"));
                }
            }
            Event::RequestSent { agent } => {
                writer.end_reply(*agent, "cut = true");
                let reply = Reply { sent: writer.clock.now(), steps: Vec::new(), calls: Vec::new() };
                writer.replies.insert(*agent, reply);
            }
            Event::Interrupted { agent, .. } => writer.end_reply(*agent, ""),
            _ => {}
        }
    }

    pub fn on_delivered(&mut self, events: Vec<(AgentId, RecordedEvent)>) {
        let Some(writer) = &mut self.0 else { return };
        for (agent, event) in events {
            match event {
                RecordedEvent::Stream(event) => writer.stream_event(agent, event),
                RecordedEvent::Tool(result) => {
                    let (name, after) = (toml_string(&result.name), result.duration.as_millis());
                    let text = toml_string(&writer.line_or_filler(&result.content));
                    let fails = if result.is_error { "fails = true\n" } else { "" };
                    writer.write(&format!("\n[[tool]]\ntool = {name}\nafter = {after}\nresult = {text}\n{fails}"));
                }
            }
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
    fn add(&mut self, agent: AgentId, label: &str) -> String {
        let mut name = label.replace(' ', "-");
        while !self.used.insert(name.clone()) {
            name.push('+');
        }
        self.names.insert(agent, name.clone());
        name
    }

    fn name(&self, agent: AgentId) -> String {
        self.names.get(&agent).cloned().unwrap_or_default()
    }

    fn now_ms(&self) -> u128 {
        (self.clock.now() - self.start).as_millis()
    }

    fn write(&mut self, text: &str) {
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            self.error.get_or_insert(error);
        }
    }

    fn input(&mut self, what: &str) {
        self.write(&format!("\n[[input]]\nat = {}\n{what}\n", self.now_ms()));
    }

    fn line(&mut self, line: &str) {
        self.input(&format!("line = {}", toml_string(line)));
    }

    /// The text in one line, or filler in its place.
    fn line_or_filler(&self, text: &str) -> String {
        let letter = |c: char| match c {
            '\n' | '\r' | '\t' => ' ',
            c if self.has_texts || c == ' ' => c,
            _ => 'x',
        };
        let filled: String = text.chars().map(letter).collect();
        // At the beginning of a line these would be commands.
        if filled.starts_with(['/', '!', '#', '?']) { format!(" {filled}") } else { filled }
    }

    fn stream_event(&mut self, agent: AgentId, event: StreamEvent) {
        match event {
            StreamEvent::Text(text) => {
                self.step(agent, &format!("text = {}", toml_string(&self.text_or_filler(&text))))
            }
            StreamEvent::Thinking(text) => {
                self.step(agent, &format!("think = {}", toml_string(&self.text_or_filler(&text))))
            }
            StreamEvent::ToolCall { index, name, arguments, id } => {
                let Some(reply) = self.replies.get_mut(&agent) else { return };
                if reply.calls.len() <= index {
                    reply.calls.push(ToolCall { id, name, arguments });
                } else {
                    reply.calls[index].arguments += &arguments;
                }
            }
            StreamEvent::Usage(usage) => self.step(agent, &format!("usage = [{}, {}]", usage.input, usage.output)),
            StreamEvent::Finish(finish) => self.finish(agent, finish),
            StreamEvent::Error(_) => self.end_reply(agent, "cut = true"),
            StreamEvent::Done => self.end_reply(agent, ""),
            StreamEvent::Signature(_) => {}
        }
    }

    /// A part of a reply, with its line breaks.
    fn text_or_filler(&self, text: &str) -> String {
        if self.has_texts { text.to_owned() } else { self.line_or_filler(text) }
    }

    fn finish(&mut self, agent: AgentId, finish: Finish) {
        let calls = self.replies.get_mut(&agent).map(|reply| std::mem::take(&mut reply.calls)).unwrap_or_default();
        for call in calls {
            let arguments = if self.has_texts { call.arguments } else { redacted(&call.arguments) };
            let (tool, arguments) = (toml_string(&call.name), toml_string(&arguments));
            self.step(agent, &format!("call = {{ tool = {tool}, arguments = {arguments} }}"));
        }
        let reason = match finish {
            Finish::Stop => "stop",
            Finish::ToolCalls => "tool_calls",
            Finish::Length => "length",
            Finish::ContentFilter => "content_filter",
        };
        self.step(agent, &format!("finish = \"{reason}\""));
    }

    fn step(&mut self, agent: AgentId, what: &str) {
        let now = self.clock.now();
        if let Some(reply) = self.replies.get_mut(&agent) {
            let after = (now - reply.sent).as_millis();
            reply.steps.push(format!("  {{ after = {after}, {what} }},\n"));
        }
    }

    /// Writes the reply of an agent that is being received, if any, with a last step.
    fn end_reply(&mut self, agent: AgentId, last: &str) {
        if !last.is_empty() {
            self.step(agent, last);
        }
        let Some(reply) = self.replies.remove(&agent) else { return };
        // Everything after the end of a reply is sent before it.
        let (ends, others): (Vec<String>, Vec<String>) = reply
            .steps
            .into_iter()
            .partition(|step| step.split_once(", ").is_some_and(|(_, what)| what.starts_with("finish = ")));
        let mut text = format!("\n[[reply]]\nagent = {}\nsteps = [\n", toml_string(&self.name(agent)));
        // Writing into a `String` cannot fail.
        let _ = writeln!(text, "{}{}]", others.concat(), ends.concat());
        self.write(&text);
    }
}

/// A string of TOML.
fn toml_string(text: &str) -> String {
    // JSON escapes as TOML does, but for DEL.
    serde_json::Value::from(text).to_string().replace('\x7f', "\\u007f")
}

/// The arguments of a call with filler in place of its texts.
fn redacted(arguments: &str) -> String {
    fn fill(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => *text = "x".repeat(text.chars().count()),
            serde_json::Value::Array(items) => items.iter_mut().for_each(fill),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(fill),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(arguments).unwrap_or(serde_json::Value::Null);
    fill(&mut value);
    value.to_string()
}
