//! The lines of a trace: one JSON object for each thing that happens in the event loop. `polylogue help trace` describes
//! them for people.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The number of this schema, which the first line of each process has. It changes when a field changes its meaning.
pub const SCHEMA: u64 = 1;

/// A name that is fixed in the program, or was read from a file.
pub type Name = Cow<'static, str>;

/// One line. The fields are written in this order, and only those that the event has. All numbers are whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceLine {
    /// The turn of the loop, from 1; `None` outside of a turn and in the stable form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Microseconds since the trace was opened.
    pub at_us: u64,
    /// What happened: one of `EVENTS`.
    pub event: Name,
    /// The number of the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The name of an agent, or `agent N`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The agent that it was forked from, or that takes its children over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Name>,
    /// The terminal, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<u64>,
    /// How long the wait could last at most; none: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_us: Option<u64>,
    /// The reason for the end of the wait, or what an agent waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Name>,
    /// What the wait listened to, with the line of a turn; none: the same as in the turn before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched: Option<Vec<Watched>>,
    /// What could have ended the wait by its time, with the line of a turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// What a ready descriptor belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Name>,
    /// The number of the client, download, connection or server that a ready descriptor belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The ready descriptor, where a source may have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fd: Option<i32>,
    /// Whether it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<bool>,
    /// Whether it can be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<bool>,
    /// How many keys were handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// What a person, a client or a component asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Name>,
    /// What was delivered to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<Name>,
    /// The size of what was delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// What the agent asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Name>,
    /// The state before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Name>,
    /// The state after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Name>,
    /// The kinds of the messages that are written to the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Name>,
    /// How the turn of the agent ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Name>,
    /// How long the turn of the loop took after its wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// The step that took longest in a slow turn of the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Name>,
    /// How long that step took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_us: Option<u64>,
}

/// A descriptor that a wait listened to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watched {
    pub source: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The number of the client, download, connection or server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fd: Option<i32>,
    pub read: bool,
    pub write: bool,
}

/// A time limit of a wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Candidate {
    pub why: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    pub timeout_us: u64,
}

/// Every value of [`TraceLine::event`].
pub const EVENTS: [&str; 15] = [
    "start",
    "agent",
    "spawned",
    "removed",
    "turn",
    "ready",
    "keys",
    "change",
    "callback",
    "effect",
    "unfinished",
    "waits",
    "focus",
    "render",
    "end",
];

impl TraceLine {
    /// A line about this event.
    pub fn of(event: &'static str) -> Self {
        Self { event: event.into(), ..Self::default() }
    }

    /// The event in a word or two, as `polylogue trace show` draws it; `None` for the beginning and the end of a turn.
    pub fn word(&self) -> Option<String> {
        let named = |sign: &str, name: &Option<Name>| name.as_ref().map(|name| format!("{sign}{name}"));
        match &*self.event {
            "change" => named("/", &self.change),
            "callback" => named("", &self.callback),
            "effect" => match (&self.to, &self.outcome) {
                (Some(to), _) => Some(format!(">{}", short_state(to))),
                (_, outcome @ Some(_)) => named("=", outcome),
                _ => self.effect.as_ref().map(|effect| effect.replace('_', " ")),
            },
            "spawned" | "removed" | "keys" | "unfinished" => Some(self.event.to_string()),
            "render" => Some("frame".into()),
            "focus" => Some("shown".into()),
            "waits" => Some("waits".into()),
            _ => None,
        }
    }

    /// Reads a line of a trace.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match EVENTS.contains(&&*line.event) {
            true => Ok(line),
            false if line.event.is_empty() => Err("it has no event".into()),
            false => Err(format!("unknown event {:?}", line.event)),
        }
    }
}

/// The state of an agent, in a word.
pub fn short_state(state: &str) -> &str {
    match state {
        "waiting for the model" => "waiting",
        "running a tool" => "tool",
        "awaiting approval" => "asking",
        state => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_in_one_order_and_only_those_that_are_there() {
        let line = TraceLine {
            outcome: Some("completed".into()),
            agent: Some("agent-1".into()),
            at_us: 5,
            ..TraceLine::of("effect")
        };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(text, r#"{"at_us":5,"event":"effect","agent":"agent-1","outcome":"completed"}"#);
        assert_eq!(TraceLine::parse(&text), Ok(line));
    }

    #[test]
    fn what_is_no_line_of_a_trace_is_refused_with_the_reason() {
        assert!(TraceLine::parse("{\"at_us\":1.5,\"event\":\"turn\"}").unwrap_err().contains("floating point"));
        assert!(TraceLine::parse("{\"at_us\":1,\"event\":\"dance\"}").unwrap_err().contains("\"dance\""));
        assert!(TraceLine::parse("{\"turn\":1}").unwrap_err().contains("no event"));
        assert!(TraceLine::parse("not JSON").is_err());
    }
}
