//! The file of a scenario: who talks, what the provider sends and when, which keys are typed, and the expected outcome.
//! `polylogue help scenarios` describes it for people. All times are milliseconds.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::fault::Fault;
use crate::base::error::{Error, ErrorKind, Result};

/// The most bytes of a file that are sent.
const LONGEST: usize = 4 << 20;
/// A scenario without an end of its own ends after this time.
pub const LONGEST_RUN_MS: u64 = 600_000;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it demonstrates, in one line.
    pub about: String,
    /// A fault of the C program with which it fails.
    pub fault: Option<Fault>,
    /// What happens, in the words of the story that it tells.
    #[serde(default, rename = "story")]
    pub stories: Vec<StoryStep>,
    /// When it ends at the latest.
    #[serde(default = "longest_run")]
    pub end: u64,
    /// The policy of agents.
    pub approval: Option<String>,
    /// Columns and rows of the terminal.
    #[serde(default = "usual_size")]
    pub size: [u16; 2],
    /// For what is random.
    #[serde(default)]
    pub seed: u64,
    /// Retries of a request.
    pub retries: Option<u32>,
    /// The agents by name.
    pub agents: Vec<String>,
    /// The agent that the terminal shows first; `None` for the first one.
    pub shows: Option<String>,
    /// The models of agents by name, as `provider/model`.
    #[serde(default)]
    pub models: BTreeMap<String, String>,
    #[serde(default, rename = "input")]
    pub inputs: Vec<Input>,
    #[serde(default, rename = "reply")]
    pub replies: Vec<Reply>,
    #[serde(default, rename = "tool")]
    pub tools: Vec<Tool>,
    #[serde(default)]
    pub expect: Expect,
}

/// A step of the story, which is drawn above what happens at that time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoryStep {
    pub at: u64,
    pub text: String,
}

/// Something a person does at the terminal.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub at: u64,
    /// A line, then Enter.
    pub line: Option<String>,
    /// Bytes as a terminal sends them.
    pub keys: Option<String>,
    /// The new size of the terminal.
    pub size: Option<[u16; 2]>,
    /// The person leaves, and the scenario ends.
    #[serde(default)]
    pub leave: bool,
}

/// The answer to a request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// Whose request it answers.
    pub agent: String,
    /// Answers only requests of this agent, in the order of creation from 0, whatever its model is; -1 is any agent
    /// that is in no list.
    pub number: Option<i64>,
    /// Answers only a request whose newest message contains this.
    pub asked: Option<String>,
    /// The status of HTTP.
    #[serde(default = "usual_status")]
    pub status: u16,
    /// The header of this name, in seconds.
    pub retry_after: Option<u64>,
    /// When the head of the response is sent, after the request; that of an error is sent with its text.
    #[serde(default)]
    pub head: u64,
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// Data from the provider, this many milliseconds after the request. After the last step it stays silent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub after: u64,
    pub text: Option<String>,
    pub think: Option<String>,
    pub call: Option<Call>,
    /// Tokens of the request and of the reply.
    pub usage: Option<[u64; 2]>,
    /// Why the model stopped, with which the reply ends: `stop`, `tool_calls`, `length`, ...
    pub finish: Option<String>,
    /// Any bytes.
    pub raw: Option<String>,
    /// The connection is closed.
    #[serde(default)]
    pub cut: bool,
    /// The number of its call in the reply.
    #[serde(skip)]
    pub index: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub tool: String,
    /// JSON.
    pub arguments: String,
}

/// The result of a tool call. The tool itself does not run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    pub tool: String,
    /// Only a call whose arguments contain this.
    pub with: Option<String>,
    /// Whether the person is asked about the call; otherwise the policy says so.
    pub asks: Option<bool>,
    /// When the tool is done, after its start.
    #[serde(default)]
    pub after: u64,
    pub result: String,
    #[serde(default)]
    pub fails: bool,
}

/// The expected state at the end.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    #[serde(default)]
    pub agent: BTreeMap<String, AgentExpectation>,
    /// Events that happen in this order; others may happen between them.
    #[serde(default)]
    pub order: Vec<EventExpectation>,
    /// Texts on the screen.
    #[serde(default)]
    pub screen: Vec<String>,
    /// Texts that are not on the screen.
    #[serde(default)]
    pub not_on_screen: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentExpectation {
    /// The texts of all its replies, partial ones included.
    pub replies: Option<Vec<String>>,
    /// The results of all its tools.
    pub results: Option<Vec<String>>,
    /// `idle`, `waiting`, `tool` or `asking`.
    pub state: Option<String>,
    /// Tokens of all its requests and replies.
    pub usage: Option<[u64; 2]>,
    /// A part of its newest error; empty if there must be none.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventExpectation {
    pub at: Option<u64>,
    pub agent: String,
    /// As `polylogue trace show` draws it, without numbers.
    pub event: String,
}

fn longest_run() -> u64 {
    LONGEST_RUN_MS
}

fn usual_size() -> [u16; 2] {
    [80, 24]
}

fn usual_status() -> u16 {
    200
}

impl Scenario {
    /// Parses a file; `file` names it in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        if text.len() > LONGEST {
            return Err(Error::usage(format!("{file}: longer than {LONGEST} bytes")));
        }
        let mut scenario: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text[..at.min(text.len())].matches('\n').count();
            let key = text.lines().nth(line).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
            let key = key.filter(|key| !error.message().contains(&format!("`{key}`")));
            let key = key.map(|key| format!("{key}: ")).unwrap_or_default();
            Error::usage(format!("{file}:{}: {key}{}", line + 1, error.message()))
        })?;
        scenario.number_calls();
        scenario.check().map_err(|(key, message)| {
            let line = text.lines().position(|line| line.contains(&key)).map_or(1, |line| line + 1);
            Error::new(ErrorKind::Usage, format!("{file}:{line}: {message}"))
        })?;
        Ok(scenario)
    }

    fn number_calls(&mut self) {
        for reply in &mut self.replies {
            let calls = reply.steps.iter_mut().filter(|step| step.call.is_some());
            calls.enumerate().for_each(|(index, step)| step.index = index);
        }
    }

    /// Checks what the types do not; an error has a text of the line that it is about.
    fn check(&self) -> std::result::Result<(), (String, String)> {
        if self.agents.is_empty() {
            return Err(("agents".into(), "agents: at least one name is needed".into()));
        }
        let unknown = |name: &&String| !self.agents.contains(name);
        if let Some(name) = self.shows.iter().chain(self.models.keys()).find(unknown) {
            return Err((name.clone(), format!("shows, models: unknown agent {name:?}")));
        }
        let named = self.replies.iter().filter(|reply| reply.number.is_none()).map(|reply| &reply.agent);
        let named = named.chain(self.expect.agent.keys()).chain(self.expect.order.iter().map(|event| &event.agent));
        for name in named {
            let is_forked =
                self.inputs.iter().any(|input| input.line.as_deref().is_some_and(|line| line.contains(&**name)));
            if !self.agents.contains(name) && !is_forked && !name.starts_with("agent ") {
                return Err((name.clone(), format!("agent: unknown agent {name:?}")));
            }
        }
        for input in &self.inputs {
            let given = [input.line.is_some(), input.keys.is_some(), input.size.is_some(), input.leave];
            if given.iter().filter(|is_given| **is_given).count() != 1 {
                return Err((
                    format!("at = {}", input.at),
                    "input: exactly one of line, keys, size and leave is needed".into(),
                ));
            }
        }
        Ok(())
    }
}
