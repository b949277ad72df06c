//! The built-in provider: no key, no network. It repeats what a person says, or plays a part.
//!
//! Its replies are scripts that run through the same state machine as real ones, so everything that can
//! happen to a chat can be tried, and tested, without a model. The last user message is the script: lines
//! that begin with `!` and a word direct it, all others are text to say.
//!
//! | directive | does |
//! |---|---|
//! | `!slow MS` | waits MS milliseconds before each piece of what follows |
//! | `!repeat N` | says the text that follows N times, a line break between |
//! | `!think TEXT` | shows TEXT as reasoning |
//! | `!tool NAME JSON` | calls a tool; several in one segment are parallel calls of one reply |
//! | `!next` | ends the segment: what follows is the reply to the next round of tool results |
//! | `!fail KIND-or-STATUS [retry-after=S] [MESSAGE]` | fails here; what stands before is said first |
//! | `!hang` | stops here without an end; what stands before is said first |
//! | `!cut` | the reply breaks off after its text, as if the network had failed |
//! | `!length` | the reply ends at the length limit |
//!
//! Reply *k* is segment *k*, counted by the rounds of tool results since that message. When the segments
//! have run out, the reply tells what the last round brought. Text comes word by word, at once unless
//! `!slow`; a token is a word. A directive that cannot be read is said to be so, in place of a reply.

use std::time::Duration;

use crate::base::error;
use crate::domain::http::HttpHead;
use crate::domain::message::{Body, Message};
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::domain::tool::ToolResult;
use crate::provider::{Conversation, Decoder, ProviderRequest, ProviderSpec, Script, Step};

mod directive;

use directive::{Act, Ending};

/// The built-in provider.
pub const ECHO: ProviderSpec = ProviderSpec {
    kind: "echo",
    about: "built in, no key, no network: repeats what you say; lines such as !slow MS, !repeat N, !think TEXT, \
            !tool NAME JSON, !next, !fail KIND, !hang, !cut and !length direct it",
    service: None,
    check_thinking: |_, _| Ok(()),
    build_request,
    decoder: || Box::new(Deaf),
};

/// The most pieces of one reply.
const MAX_PIECES: usize = 100_000;

/// No bytes ever come, because nothing is sent.
struct Deaf;

impl Decoder for Deaf {
    fn head(&mut self, _: &HttpHead) {}
    fn feed(&mut self, _: &[u8], _: &mut Vec<StreamEvent>) {}
    fn end(&mut self, out: &mut Vec<StreamEvent>) {
        out.push(StreamEvent::Done);
    }
}

/// Never fails: what cannot be done is said in the reply.
fn build_request(conversation: &Conversation<'_>) -> error::Result<ProviderRequest> {
    let mut player = Player::default();
    let ending = player.play(conversation).unwrap_or_else(|complaint| {
        player = Player::default();
        player.say(&complaint);
        Ending::Stop
    });
    Ok(ProviderRequest::Script(player.finish(ending, words_in(conversation))))
}

/// Why a script cannot be played, in words that are said instead.
type Complaint = String;

/// Writes a script.
#[derive(Default)]
struct Player {
    script: Script,
    wait: Duration,
    repeat: usize,
    /// Text lines that are said as one when something else comes.
    lines: Vec<String>,
    has_spoken: bool,
    may_call: bool,
    /// Calls of the conversation before this reply.
    earlier_calls: usize,
    calls: usize,
    words: u64,
}

impl Player {
    /// Plays the segment that is due, and says how the reply ends.
    fn play(&mut self, conversation: &Conversation<'_>) -> Result<Ending, Complaint> {
        let asked = Asked::of(conversation.messages);
        let Some(segment) = directive::segments(asked.text).into_iter().nth(asked.rounds) else {
            self.tell(&asked.last_round);
            return Ok(Ending::Stop);
        };
        self.may_call = !conversation.tools.is_empty();
        self.earlier_calls = asked.earlier_calls;
        let mut ending = Ending::Stop;
        for act in segment? {
            match self.perform(act)? {
                None => {}
                Some(soft @ (Ending::Cut | Ending::Length)) => ending = soft,
                Some(here) => return Ok(here),
            }
        }
        self.flush()?;
        Ok(ending)
    }

    fn perform(&mut self, act: Act) -> Result<Option<Ending>, Complaint> {
        if let Act::Say(line) = act {
            self.lines.push(line);
            return Ok(None);
        }
        self.flush()?;
        match act {
            Act::Say(_) => {}
            Act::Slow(wait) => self.wait = wait,
            Act::Repeat(times) => self.repeat = times,
            Act::Think(text) => self.pieces(&text, StreamEvent::Thinking),
            Act::Tool { name, arguments } => self.call(name, arguments)?,
            Act::Ending(ending) => return Ok(Some(ending)),
        }
        Ok(None)
    }

    /// Says the lines that were gathered.
    fn flush(&mut self) -> Result<(), Complaint> {
        let text = std::mem::take(&mut self.lines).join("\n");
        let text = if self.has_spoken { text.trim_end() } else { text.trim() };
        if text.trim().is_empty() {
            return Ok(());
        }
        let times = self.repeat.max(1);
        let pieces = text.split_whitespace().count().saturating_mul(times) + self.script.steps.len();
        if pieces > MAX_PIECES {
            return Err(format!("!repeat {times} is too much: a reply has at most {MAX_PIECES} words."));
        }
        for _ in 0..times {
            self.say(text);
        }
        Ok(())
    }

    fn say(&mut self, text: &str) {
        let text = if self.has_spoken { format!("\n{text}") } else { text.to_owned() };
        self.has_spoken = true;
        self.pieces(&text, StreamEvent::Text);
    }

    fn pieces(&mut self, text: &str, event: fn(String) -> StreamEvent) {
        self.words += count_words(text);
        for piece in text.split_inclusive(char::is_whitespace) {
            self.push(event(piece.to_owned()));
        }
    }

    fn call(&mut self, name: String, arguments: String) -> Result<(), Complaint> {
        if !self.may_call {
            return Err(format!("Tools are disabled in this request, so I cannot call {name}."));
        }
        self.words += count_words(&arguments) + 1;
        let id = format!("echo-{}", self.earlier_calls + self.calls + 1);
        self.push(StreamEvent::ToolCall { index: self.calls, id, name, arguments });
        self.calls += 1;
        Ok(())
    }

    fn tell(&mut self, results: &[&ToolResult]) {
        if results.is_empty() {
            self.say("(nothing was said)");
        }
        for result in results {
            self.say(&format!("{}: {}", result.name, result.content));
        }
    }

    fn push(&mut self, event: StreamEvent) {
        self.script.steps.push_back(Step { wait: self.wait, event: Some(event) });
    }

    fn finish(mut self, ending: Ending, input: u64) -> Script {
        let usage = StreamEvent::Usage(Usage { input, output: self.words, ..Usage::default() });
        let stop = if self.calls > 0 { Finish::ToolCalls } else { Finish::Stop };
        let tail = match ending {
            Ending::Stop => vec![usage, StreamEvent::Finish(stop), StreamEvent::Done],
            Ending::Length => vec![usage, StreamEvent::Finish(Finish::Length), StreamEvent::Done],
            Ending::Cut => vec![StreamEvent::Error(directive::cut())],
            Ending::Fail(error) => vec![StreamEvent::Error(error)],
            Ending::Hang => Vec::new(),
        };
        self.script.steps.extend(tail.into_iter().map(|event| Step { wait: Duration::ZERO, event: Some(event) }));
        self.script
    }
}

/// What the conversation asks of echo.
struct Asked<'a> {
    /// The last user message, empty if there is none.
    text: &'a str,
    /// Rounds of tool results since it.
    rounds: usize,
    last_round: Vec<&'a ToolResult>,
    /// Calls of the whole conversation, so that new ones get new identifiers.
    earlier_calls: usize,
}

impl<'a> Asked<'a> {
    fn of(messages: &[&'a Message]) -> Self {
        let mut asked = Self { text: "", rounds: 0, last_round: Vec::new(), earlier_calls: 0 };
        let mut in_round = false;
        for message in messages {
            match &message.body {
                Body::User(text) => asked = Self { text, rounds: 0, last_round: Vec::new(), ..asked },
                Body::ToolCall(_) => asked.earlier_calls += 1,
                Body::ToolResult(result) => {
                    if !in_round {
                        asked.rounds += 1;
                        asked.last_round.clear();
                    }
                    asked.last_round.push(result);
                }
                _ => {}
            }
            in_round = matches!(message.body, Body::ToolResult(_));
        }
        asked
    }
}

fn words_in(conversation: &Conversation<'_>) -> u64 {
    let said = conversation.messages.iter().map(|message| match &message.body {
        Body::System(text) | Body::User(text) => count_words(text),
        Body::Assistant(reply) => count_words(&reply.text),
        Body::ToolCall(call) => count_words(&call.arguments) + 1,
        Body::ToolResult(result) => count_words(&result.content),
        _ => 0,
    });
    said.sum::<u64>() + count_words(conversation.system)
}

fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

#[cfg(test)]
mod tests;
