//! Line mode: the output of an agent is printed once, line by line with the name of the speaker, without control
//! sequences. For terminals without cursor addressing and for screen readers.

use crate::agent::{Agent, PendingQuestion};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::Decision;
use crate::domain::chunk::Chunk;
use crate::domain::rule::Scope;

/// Rows of the conversation that are printed when an agent is shown.
pub(super) const LAST_ROWS: u16 = 20;

/// The output of a terminal in line mode.
#[derive(Debug, Default)]
pub(super) struct LineOutput {
    agent: Option<AgentId>,
    /// How that agent was called last.
    label: String,
    /// The number of the next chunk.
    next: u64,
    /// The beginning of a line of the reply.
    partial: String,
    /// The reply has printed its first line.
    is_within_reply: bool,
    /// The question that was printed: only this one can be answered.
    asked: Option<u64>,
    /// The line that was typed here last, which is not printed again.
    typed: Option<String>,
}

impl LineOutput {
    /// The agent that is shown now, with the end of its conversation; nothing if it was shown already.
    pub fn show(&mut self, agent: &Agent, end: impl FnOnce() -> Vec<String>) -> String {
        if self.agent == Some(agent.id()) {
            return String::new();
        }
        let mut out = String::new();
        let left = std::mem::take(&mut self.label);
        self.end_reply(&mut out, &left);
        *self = Self { agent: Some(agent.id()), next: agent.output.next(), ..Self::default() };
        out += &line("polylogue", &format!("this is {}", agent.identity.label()));
        end().iter().for_each(|row| out += &format!("{}\n", text::sanitise(row)));
        out
    }

    /// The output of the agent since the last call.
    pub fn update(&mut self, agent: &Agent) -> String {
        let mut out = String::new();
        let label = agent.identity.label();
        self.next = self.next.max(agent.output.oldest());
        while self.next < agent.output.next() {
            if let Some((chunk, _)) = agent.output.get(self.next) {
                self.print(&mut out, &label, &chunk);
            }
            self.next += 1;
        }
        match agent.question() {
            Some(pending) if self.asked != Some(pending.number) => {
                self.end_reply(&mut out, &label);
                self.asked = Some(pending.number);
                out += &question(&label, pending);
            }
            Some(_) => {}
            None => self.asked = None,
        }
        self.label = label;
        out
    }

    /// A line was typed here.
    pub fn note_typed(&mut self, typed: &str) {
        self.typed = Some(typed.to_owned());
    }

    /// The answer in a typed line to the printed question: y, a, n, n and a reason, or e and another command.
    pub fn answer(&self, typed: &str, pending: &PendingQuestion) -> Option<Decision> {
        if self.asked != Some(pending.number) {
            return None;
        }
        let (letter, reason) = typed.trim().split_once(' ').unwrap_or((typed.trim(), ""));
        match letter {
            "y" | "yes" if reason.is_empty() => Some(Decision::Allow),
            "a" if reason.is_empty() && !pending.question.ways.rules.is_empty() => Some(Decision::Always(Scope::Agent)),
            "e" if !reason.is_empty() && pending.editable.is_some() => Some(Decision::Edit(reason.to_owned())),
            "n" | "no" | "r" => {
                Some(Decision::Deny(Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty())))
            }
            _ => None,
        }
    }

    fn print(&mut self, out: &mut String, label: &str, chunk: &Chunk) {
        if let Chunk::Text(text) = chunk {
            let mut lines = text.split('\n');
            self.partial += lines.next().unwrap_or_default();
            for next in lines {
                let whole = std::mem::replace(&mut self.partial, next.to_owned());
                self.print_reply(out, label, &whole);
            }
            return;
        }
        if !matches!(chunk, Chunk::Thinking(_) | Chunk::Usage(_)) {
            self.end_reply(out, label);
        }
        match chunk {
            Chunk::User(text) if self.typed.take().as_deref() == Some(text) => {}
            Chunk::User(text) => *out += &line("you", text),
            Chunk::ToolCall { title, .. } => *out += &line("tool", title),
            Chunk::ToolResult(result) => {
                let first = result.content.lines().next().unwrap_or_default();
                let how = if result.is_error { "failed" } else { "done" };
                *out += &line("tool", &format!("{how}: {first}"));
            }
            Chunk::Error { message, .. } => *out += &line("error", message),
            Chunk::Note(text) | Chunk::Mark(text) => *out += &line("polylogue", text),
            Chunk::Mail { .. } => *out += &line("polylogue", "mail has arrived: /read-mail shows it"),
            _ => {}
        }
    }

    fn print_reply(&mut self, out: &mut String, label: &str, text: &str) {
        if self.is_within_reply {
            *out += &format!("{}\n", text::sanitise(text));
        } else if !text.is_empty() {
            *out += &line(label, text);
            self.is_within_reply = true;
        }
    }

    fn end_reply(&mut self, out: &mut String, label: &str) {
        let partial = std::mem::take(&mut self.partial);
        if !partial.is_empty() {
            self.print_reply(out, label, &partial);
        }
        self.is_within_reply = false;
    }
}

/// Text with its speaker in the first line.
pub(super) fn line(speaker: &str, text: &str) -> String {
    format!("{}: {}\n", text::sanitise(speaker), text::sanitise(text.trim_end()))
}

fn question(label: &str, pending: &PendingQuestion) -> String {
    let question = &pending.question;
    let mut out = line(label, &format!("{}{}", question.answers.ask, question.title));
    question.detail.iter().for_each(|detail| out += &format!("  {}\n", text::sanitise(detail).replace('\n', "␊")));
    let rules: Vec<String> = question.ways.rules.iter().map(ToString::to_string).collect();
    let always = if rules.is_empty() { String::new() } else { format!("a (always: {}), ", rules.join(", ")) };
    let edit = if pending.editable.is_some() { ", e and the command to run instead" } else { "" };
    out += &line("polylogue", &format!("answer y, {always}n, n and a reason{edit}; then Enter"));
    out
}
