//! Resources that a person names in a message as `@SERVER:URI`, and prompts of servers: they are read before the
//! message is sent, which waits without delaying anything else.
//!
//! The answer of a server is data: paths and names in it are not read in turn.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use serde_json::Value;

use super::results::{Preparing, Shape};
use super::server::{Asked, Call};
use crate::base::id::AgentId;
use crate::domain::change::PromptRequest;
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::features::mcp::protocol::content;
use crate::repl::component::{HeldText, TextOutcome};
use crate::repl::core::Core;
use crate::repl::core::files::disarmed;
use crate::store::input_line;

/// The most resources of one message.
const MAX_RESOURCES: usize = 10;
/// The middle of longer resources is cut out, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// A prompt with more characters or lines is shown in the draft before it is sent.
const SHORT: usize = 300;
const SHORT_LINES: usize = 3;

/// A resource in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mention {
    range: Range<usize>,
    pub(super) server: String,
    uri: String,
}

pub(super) struct Item {
    pub(super) tag: u64,
    server: String,
    pub(super) uri: String,
    /// Its place in the message.
    range: Range<usize>,
    state: ItemState,
}

enum ItemState {
    Wanted,
    Preparing(Preparing),
    Read(String),
}

impl Item {
    pub(super) fn resource(mention: &Mention, tag: u64) -> Self {
        let Mention { range, server, uri } = mention;
        Self { tag, server: server.clone(), uri: uri.clone(), range: range.clone(), state: ItemState::Wanted }
    }
}

/// A message that waits for what it names.
struct Reading {
    origin: Origin,
    agent: AgentId,
    /// The text as typed.
    text: String,
    is_prompt: bool,
    items: Vec<Item>,
    failure: Option<String>,
}

#[derive(Default)]
pub(super) struct Readings {
    open: Vec<Reading>,
    completed: Vec<HeldText>,
}

impl Readings {
    pub(super) fn begin(&mut self, origin: Origin, agent: AgentId, text: &str, items: Vec<Item>) {
        let text = text.to_owned();
        self.open.push(Reading { origin, agent, text, is_prompt: false, items, failure: None });
    }

    pub(super) fn begin_prompt(&mut self, origin: Origin, agent: AgentId, prompt: &PromptRequest, tag: u64) {
        let (server, uri) = (prompt.server.clone(), prompt.name.clone());
        let items = vec![Item { tag, server, uri, range: 0..0, state: ItemState::Wanted }];
        let text = prompt.line.clone();
        self.open.push(Reading { origin, agent, text, is_prompt: true, items, failure: None });
    }

    /// Whether the answer to this request is awaited.
    pub(super) fn awaits(&self, tag: u64) -> bool {
        self.open.iter().flat_map(|reading| &reading.items).any(|item| item.tag == tag)
    }

    pub(super) fn is_preparing(&self) -> bool {
        let is_it = |item: &Item| matches!(item.state, ItemState::Preparing(_));
        self.open.iter().flat_map(|reading| &reading.items).any(is_it)
    }

    /// A server has answered.
    pub(super) fn on_answer(&mut self, core: &Core, call: &Call, result: Result<Value, String>, directory: PathBuf) {
        let found = self.open.iter_mut().find_map(|reading| {
            let at = reading.items.iter().position(|item| item.tag == call.tag)?;
            Some((reading, at))
        });
        let Some((reading, at)) = found else { return };
        let parts = result.map(|result| match call.asked {
            Asked::Prompt(..) => content::prompt(&result),
            _ => content::resource(&result),
        });
        let item = &mut reading.items[at];
        let name = item.uri.rsplit('/').next().unwrap_or_default().to_owned();
        let shape = Shape { name, is_error: false, cap: MAX_TEXT, directory, watch: None };
        let prepared = parts
            .and_then(|parts| if parts.is_empty() { Err("the server sent nothing".into()) } else { Ok(parts) })
            .and_then(|parts| Preparing::start(parts, shape, core));
        match prepared {
            Ok(preparing) => item.state = ItemState::Preparing(preparing),
            Err(why) => reading.failure = Some(format!("@{}:{}: {why}", item.server, item.uri)),
        }
    }

    /// The person has interrupted the agent: its messages return to the draft. Whether there were any.
    pub(super) fn interrupt(&mut self, agent: AgentId) -> bool {
        let mut is_any = false;
        for reading in self.open.iter_mut().filter(|reading| reading.agent == agent) {
            reading.failure = Some("interrupted: the message was not sent".into());
            is_any = true;
        }
        is_any
    }

    pub(super) fn forget(&mut self, agent: AgentId) {
        self.open.retain(|reading| reading.agent != agent);
    }

    /// Finishes what is complete.
    pub(super) fn step(&mut self, core: &mut Core) {
        for item in self.open.iter_mut().flat_map(|reading| &mut reading.items) {
            if !matches!(&item.state, ItemState::Preparing(preparing) if preparing.is_complete()) {
                continue;
            }
            if let ItemState::Preparing(preparing) = std::mem::replace(&mut item.state, ItemState::Wanted) {
                item.state = ItemState::Read(preparing.finish(core).unwrap_or_else(|why| why));
            }
        }
        let is_over = |reading: &mut Reading| {
            reading.failure.is_some() || reading.items.iter().all(|item| matches!(item.state, ItemState::Read(_)))
        };
        let readers: BTreeSet<AgentId> = self.open.iter().map(|reading| reading.agent).collect();
        let over: Vec<Reading> = self.open.extract_if(.., is_over).collect();
        for agent in readers {
            let is_reading = self.open.iter().any(|reading| reading.agent == agent);
            core.edit(agent, |agent| agent.view.is_reading = is_reading);
        }
        for reading in over {
            if let TextOutcome::Draft(_) = reading.outcome() {
                let note = "the prompt of the server is in the input: Enter sends it";
                core.note(reading.agent, LineKind::Note, note);
            }
            self.completed.push(HeldText { origin: reading.origin, agent: reading.agent, outcome: reading.outcome() });
        }
    }

    pub(super) fn take_completed(&mut self) -> Vec<HeldText> {
        std::mem::take(&mut self.completed)
    }
}

impl Reading {
    fn outcome(&self) -> TextOutcome {
        if let Some(why) = &self.failure {
            let line = if self.is_prompt { self.text.clone() } else { input_line(&self.text) };
            return TextOutcome::Failed { line, why: why.clone() };
        }
        if !self.is_prompt {
            return TextOutcome::Send(self.message());
        }
        let text = self.items.first().map(Item::text).unwrap_or_default().trim();
        let is_short = text.chars().count() <= SHORT && text.lines().count() <= SHORT_LINES;
        if is_short { TextOutcome::Send(text.to_owned()) } else { TextOutcome::Draft(input_line(&disarmed(text))) }
    }

    /// The message, followed by what was read.
    fn message(&self) -> String {
        let mut message = self.text.clone();
        for item in self.items.iter().rev() {
            message.replace_range(item.range.clone(), &format!("[resource {}:{}]", item.server, item.uri));
        }
        for item in &self.items {
            let Item { server, uri, .. } = item;
            message.push_str(&format!("\n\n<resource server={server:?} uri={uri:?}>\n{}\n</resource>", item.text()));
        }
        message
    }
}

impl Item {
    fn text(&self) -> &str {
        if let ItemState::Read(text) = &self.state { text } else { "" }
    }
}

/// The resources that a text names, of servers that are declared.
pub(super) fn mentions(text: &str, core: &Core) -> Vec<Mention> {
    let names: Vec<&str> = core.config().mcp.iter().map(|server| server.name.as_str()).collect();
    let is_known = |server: &str, uri: &str| {
        let mut known = core.roster().iter().flat_map(|agent| agent.inputs.environment.mcp_resources.iter());
        known.any(|known| known.server == server && known.uri == uri)
    };
    mentions_of(text, &names, &is_known)
}

fn mentions_of(text: &str, names: &[&str], is_known: &dyn Fn(&str, &str) -> bool) -> Vec<Mention> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('@') {
        let is_start = text[..at].chars().next_back().is_none_or(char::is_whitespace);
        let word = text[at + 1..].split(char::is_whitespace).next().unwrap_or_default();
        let Some((server, uri)) = word.split_once(':').filter(|(server, _)| is_start && names.contains(server)) else {
            continue;
        };
        // A sentence may end after it.
        let uri = if is_known(server, uri) { uri } else { uri.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']) };
        if !uri.is_empty() && found.len() < MAX_RESOURCES {
            let range = at..at + 1 + server.len() + 1 + uri.len();
            found.push(Mention { range, server: server.to_owned(), uri: uri.to_owned() });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_named_by_a_declared_server_at_the_start_of_a_word() {
        let found = |text: &str| {
            let found = mentions_of(text, &["docs", "time"], &|_, uri| uri == "x:1.");
            found.into_iter().map(|mention| (mention.server, mention.uri)).collect::<Vec<_>>()
        };
        let of = |server: &str, uri: &str| (server.to_owned(), uri.to_owned());
        assert_eq!(
            found("see @docs:file:///a/b.md, and @time:x:1."),
            [of("docs", "file:///a/b.md"), of("time", "x:1.")]
        );
        assert!(found("me@docs:a @other:a @docs: @docs x").is_empty());
        assert_eq!(found(&"@docs:a ".repeat(20)).len(), MAX_RESOURCES);
    }
}
