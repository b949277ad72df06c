//! How models are spoken to: one row per wire protocol.
//!
//! A provider is a pure pair: a conversation becomes an opening (a request, or a script that needs no
//! network), and the bytes of the answer become stream events. Nothing here does I/O, keeps time or
//! retries: the agent does that, with what it is told here. So every protocol is tested on recorded
//! bytes, cut at every position.
//!
//! | module | holds |
//! |---|---|
//! | [`openai`] | Chat Completions: OpenAI and everything compatible |
//! | [`openai_responses`] | Responses: OpenAI's newer protocol, with reasoning that goes back |
//! | [`anthropic`] | Messages: Anthropic and everything compatible |
//! | [`google`] | Gemini |
//! | [`echo`] | the built-in provider without a network |
//! | `turns` | a log of messages made into a conversation that strict servers accept |
//! | `answer` | which kind of answer the bytes are, and how it ends |
//! | `bounds` | what no reply may pass, and how one that is whole ends |
//! | `request` | address, headers and JSON texts of a request |
//! | `sse` | the splitter of server-sent events |
//! | `text` | texts in the JSON of servers |
//! | `refusal` | the error objects of servers |
//! | [`credentials`] | whether a key is there, and where a person finds it |
//! | `failure` | HTTP statuses and untrusted error texts in plain words |

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::error::Result;
use crate::domain::endpoint::{Endpoint, Secret};
use crate::domain::http::{HttpHead, HttpRequest};
use crate::domain::message::Message;
use crate::domain::stream::StreamEvent;
use crate::domain::thinking::Thinking;
use crate::domain::tool::ToolDeclaration;

mod answer;
pub mod anthropic;
mod bounds;
pub mod credentials;
pub mod echo;
mod failure;
pub mod google;
pub mod openai;
pub mod openai_responses;
mod refusal;
mod request;
mod sse;
mod text;
mod turns;

/// What a model is to answer.
#[derive(Debug, Clone, Copy)]
pub struct Conversation<'a> {
    /// Where the request goes.
    pub endpoint: &'a Endpoint,
    /// The credential that it goes with, if there is one: never taken from the endpoint, because it may come from a
    /// command.
    pub key: Option<&'a Secret>,
    /// How much the model is to think.
    pub thinking: Thinking,
    /// The system prompt; empty if there is none.
    pub system: &'a str,
    /// The conversation messages, oldest first. Rows that are no conversation are skipped.
    pub messages: &'a [&'a Message],
    /// What the model may call; with none, tools are disabled.
    pub tools: &'a [ToolDeclaration],
}

/// How a reply begins.
#[derive(Debug, Clone, PartialEq)]
pub enum ProviderRequest {
    /// A request to send; its answer is fed to a decoder of the same provider.
    Http(HttpRequest),
    /// A reply that is already known; no network and no decoder.
    Script(Script),
}

/// A reply that is played by the loop's own deadlines.
///
/// The steps run in order, each [`Step::wait`] after the one before it. A script that runs out before
/// it has given [`StreamEvent::Done`] or [`StreamEvent::Error`] hangs: the reply stays open, without
/// events, until it is interrupted or found stalled. Nothing stands after a `Done` or an `Error`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// What is left to play.
    pub steps: VecDeque<Step>,
}

/// One step of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// How long after the previous step (for the first one: after the opening) this one is due.
    pub wait: Duration,
    /// What happens then; `None` only lets the time pass. A last step with `None` still leaves the
    /// script hanging: only `Done` and `Error` end it.
    pub event: Option<StreamEvent>,
}

/// One row of the provider table.
pub struct ProviderSpec {
    /// The name of the protocol, as `kind` in the configuration has it.
    pub kind: &'static str,
    /// What it covers, in a line for a person.
    pub about: &'static str,
    /// The service that speaks this protocol under its own name, if there is one.
    pub service: Option<Service>,
    /// Looks whether a model can be told to think so much, without asking it.
    ///
    /// # Errors
    /// It would reject that; the words say what it takes.
    pub check_thinking: fn(model: &str, Thinking) -> Result<()>,
    /// Makes a conversation into an opening.
    ///
    /// # Errors
    /// The endpoint or the conversation cannot be made into a request; nothing was sent.
    pub build_request: fn(&Conversation) -> Result<ProviderRequest>,
    /// A decoder for the answer to one request.
    pub decoder: fn() -> Box<dyn Decoder>,
}

/// A service that needs no entry in the configuration: a key in its usual variable is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// What people call it, before the slash.
    pub name: &'static str,
    /// Where it is, up to and with the version segment.
    pub base_url: &'static str,
    /// The variables that may hold its key, the usual one first.
    pub key_variables: &'static [&'static str],
    /// The variable that may hold another base URL.
    pub url_variable: &'static str,
    /// What is asked for where no model is named.
    pub model: &'static str,
}

/// Makes the bytes of one answer into events.
///
/// Exactly one [`StreamEvent::Done`] is given for a whole reply, exactly one [`StreamEvent::Error`] for
/// a failed one, and nothing after either. How the bytes were cut on their way makes no difference
/// beyond where a text is split. Every size is bounded; what goes beyond fails this reply alone.
pub trait Decoder {
    /// The status line and headers of the final response. Called once, before the bytes.
    fn head(&mut self, head: &HttpHead);
    /// More bytes of the body; their events are appended to `out`.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>);
    /// The transfer ended cleanly. Not called after one that broke: the network knows better words for that.
    fn end(&mut self, out: &mut Vec<StreamEvent>);
}

/// All providers.
pub const PROVIDERS: &[&ProviderSpec] =
    &[&openai::OPENAI, &openai_responses::OPENAI_RESPONSES, &anthropic::ANTHROPIC, &google::GOOGLE, &echo::ECHO];

/// Looks whether the model at this endpoint can be told to think so much, without asking it.
///
/// # Errors
/// It would reject that; the words say what it takes.
pub fn check_thinking(endpoint: &Endpoint, thinking: Thinking) -> Result<()> {
    find(&endpoint.kind).map_or(Ok(()), |spec| (spec.check_thinking)(&endpoint.model, thinking))
}

/// As much as it was told to think, where the model at this endpoint takes that; else what is usual for it.
pub fn thinking_for(endpoint: &Endpoint, wanted: Thinking) -> Thinking {
    check_thinking(endpoint, wanted).map_or(Thinking::default(), |()| wanted)
}

/// The provider that speaks this protocol.
pub fn find(kind: &str) -> Option<&'static ProviderSpec> {
    PROVIDERS.iter().find(|spec| spec.kind == kind).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_is_found_by_its_kind_and_no_kind_stands_twice() {
        for (place, spec) in PROVIDERS.iter().enumerate() {
            let first = PROVIDERS.iter().position(|other| other.kind == spec.kind);
            assert_eq!(first, Some(place), "{}", spec.kind);
            assert!(find(spec.kind).is_some());
        }
        assert!(find("carrier pigeon").is_none());
    }
}
