//! The built-in provider `echo`: no key, no network. It repeats the user's message or follows the directives in it.
//!
//! Its replies are scripts that run through the same state machine as real ones, so that everything that can happen to
//! a chat can be tried without a model. The last user message is the script: lines that begin with `%` and a word are
//! directives, all others are text of the reply.
//!
//! | directive | does |
//! |---|---|
//! | `%slow MS` | waits MS milliseconds before each piece of what follows |
//! | `%repeat N` | repeats the text that follows N times, with a line break between |
//! | `%think TEXT` | sends TEXT as reasoning |
//! | `%tool NAME JSON` | calls a tool; several in one segment are parallel calls of one reply |
//! | `%next` | ends the segment: what follows is the reply to the next round of tool results |
//! | `%fail KIND-or-STATUS [retry-after=S] [MESSAGE]` | fails here, after the text before it |
//! | `%hang` | stops here without an end, after the text before it |
//! | `%cut` | ends the reply after its text with a network error |
//! | `%length` | ends the reply at the length limit |
//!
//! Reply *k* is segment *k*, counted by the rounds of tool results since that message. After the last segment the reply
//! repeats the results of the last round. Text comes word by word, at once unless `%slow`; a token is a word. An
//! invalid directive gives a reply that says so.

use std::time::Duration;

use crate::base::error;
use crate::domain::message::{Body, Message};
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::domain::tool::ToolResult;
use crate::provider::{Conversation, NoBytes, ProviderRequest, ProviderSpec, Script, Step};

mod directive;

use directive::{Directive, Ending};

/// The built-in model, which repeats its input.
pub const ECHO: ProviderSpec = ProviderSpec {
    kind: "echo",
    about: "built in, no key, no network: repeats your message; lines such as %slow MS, %repeat N, %think TEXT, \
            %tool NAME JSON, %next, %fail KIND, %hang, %cut and %length direct it",
    service: None,
    parameters: &[],
    own_fields: &[],
    check_thinking: |_, _| Ok(()),
    build_request,
    decoder: || Box::new(NoBytes),
};

const MAX_PIECES: usize = 100_000;

/// Never fails: an invalid directive gives a reply that says so.
fn build_request(conversation: &Conversation<'_>) -> error::Result<ProviderRequest> {
    let mut writer = ScriptWriter::default();
    let ending = writer.write(conversation).unwrap_or_else(|message| {
        writer = ScriptWriter::default();
        writer.push_text(&message);
        Ending::Stop
    });
    Ok(ProviderRequest::Script(writer.finish(ending, words_in(conversation))))
}

/// Why a script is invalid, which becomes the reply.
type Invalid = String;

#[derive(Default)]
struct ScriptWriter {
    script: Script,
    wait: Duration,
    repeat: usize,
    /// Text lines up to the next directive.
    lines: Vec<String>,
    has_text: bool,
    has_tools: bool,
    /// Calls of the conversation before this reply.
    earlier_calls: usize,
    calls: usize,
    output_tokens: u64,
}

impl ScriptWriter {
    /// Writes the segment that is due, and returns how the reply ends.
    fn write(&mut self, conversation: &Conversation<'_>) -> Result<Ending, Invalid> {
        let prompt = Prompt::of(conversation.messages);
        let Some(segment) = directive::segments(prompt.text).into_iter().nth(prompt.rounds) else {
            self.push_results(&prompt.last_round);
            return Ok(Ending::Stop);
        };
        self.has_tools = !conversation.tools.is_empty();
        self.earlier_calls = prompt.earlier_calls;
        let mut ending = Ending::Stop;
        for directive in segment? {
            match self.follow(directive)? {
                None => {}
                Some(later @ (Ending::Cut | Ending::Length)) => ending = later,
                Some(now) => return Ok(now),
            }
        }
        self.flush()?;
        Ok(ending)
    }

    fn follow(&mut self, directive: Directive) -> Result<Option<Ending>, Invalid> {
        if let Directive::Text(line) = directive {
            self.lines.push(line);
            return Ok(None);
        }
        self.flush()?;
        match directive {
            Directive::Text(_) => {}
            Directive::Slow(wait) => self.wait = wait,
            Directive::Repeat(times) => self.repeat = times,
            Directive::Think(text) => self.push_words(&text, StreamEvent::Thinking),
            Directive::Tool { name, arguments } => self.call(name, arguments)?,
            Directive::Ending(ending) => return Ok(Some(ending)),
        }
        Ok(None)
    }

    /// Writes the collected text lines.
    fn flush(&mut self) -> Result<(), Invalid> {
        let text = std::mem::take(&mut self.lines).join("\n");
        let text = if self.has_text { text.trim_end() } else { text.trim() };
        if text.trim().is_empty() {
            return Ok(());
        }
        let times = self.repeat.max(1);
        let pieces = text.split_whitespace().count().saturating_mul(times) + self.script.steps.len();
        if pieces > MAX_PIECES {
            return Err(format!("%repeat {times} is too much: a reply has at most {MAX_PIECES} words."));
        }
        for _ in 0..times {
            self.push_text(text);
        }
        Ok(())
    }

    fn push_text(&mut self, text: &str) {
        let text = if self.has_text { format!("\n{text}") } else { text.to_owned() };
        self.has_text = true;
        self.push_words(&text, StreamEvent::Text);
    }

    fn push_words(&mut self, text: &str, event: fn(String) -> StreamEvent) {
        self.output_tokens += count_words(text);
        for piece in text.split_inclusive(char::is_whitespace) {
            self.push(event(piece.to_owned()));
        }
    }

    fn call(&mut self, name: String, arguments: String) -> Result<(), Invalid> {
        if !self.has_tools {
            return Err(format!("Tools are disabled in this request: cannot call {name}."));
        }
        self.output_tokens += count_words(&arguments) + 1;
        let id = format!("echo-{}", self.earlier_calls + self.calls + 1);
        self.push(StreamEvent::ToolCall { index: self.calls, id, name, arguments });
        self.calls += 1;
        Ok(())
    }

    fn push_results(&mut self, results: &[&ToolResult]) {
        if results.is_empty() {
            self.push_text("(empty message)");
        }
        for result in results {
            self.push_text(&format!("{}: {}", result.name, result.content));
        }
    }

    fn push(&mut self, event: StreamEvent) {
        self.script.steps.push_back(Step { wait: self.wait, event: Some(event) });
    }

    fn finish(mut self, ending: Ending, input: u64) -> Script {
        let usage = StreamEvent::Usage(Usage { input, output: self.output_tokens, ..Usage::default() });
        let stop = if self.calls > 0 { Finish::ToolCalls } else { Finish::Stop };
        let tail = match ending {
            Ending::Stop => vec![usage, StreamEvent::Finish(stop), StreamEvent::Done],
            Ending::Length => vec![usage, StreamEvent::Finish(Finish::Length), StreamEvent::Done],
            Ending::Cut => vec![StreamEvent::Error(directive::incomplete())],
            Ending::Fail(error) => vec![StreamEvent::Error(error)],
            Ending::Hang => Vec::new(),
        };
        self.script.steps.extend(tail.into_iter().map(|event| Step { wait: Duration::ZERO, event: Some(event) }));
        self.script
    }
}

/// The script, and where in it the conversation is.
struct Prompt<'a> {
    /// The last user message, empty if there is none.
    text: &'a str,
    /// Rounds of tool results since it.
    rounds: usize,
    last_round: Vec<&'a ToolResult>,
    /// Calls of the whole conversation, so that new ones get new ids.
    earlier_calls: usize,
}

impl<'a> Prompt<'a> {
    fn of(messages: &[&'a Message]) -> Self {
        let mut prompt = Self { text: "", rounds: 0, last_round: Vec::new(), earlier_calls: 0 };
        let mut in_round = false;
        for message in messages {
            match &message.body {
                Body::User(text) => prompt = Self { text, rounds: 0, last_round: Vec::new(), ..prompt },
                Body::ToolCall(_) => prompt.earlier_calls += 1,
                Body::ToolResult(result) => {
                    if !in_round {
                        prompt.rounds += 1;
                        prompt.last_round.clear();
                    }
                    prompt.last_round.push(result);
                }
                _ => {}
            }
            in_round = matches!(message.body, Body::ToolResult(_));
        }
        prompt
    }
}

fn words_in(conversation: &Conversation<'_>) -> u64 {
    let counts = conversation.messages.iter().map(|message| match &message.body {
        Body::System(text) | Body::User(text) => count_words(text),
        Body::Assistant(reply) => count_words(&reply.text),
        Body::ToolCall(call) => count_words(&call.arguments) + 1,
        Body::ToolResult(result) => count_words(&result.content),
        _ => 0,
    });
    counts.sum::<u64>() + count_words(conversation.system)
}

fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

#[cfg(test)]
mod tests;
