//! Model providers: one row per wire protocol.
//!
//! A provider is two pure functions: from a conversation to a request (or a script that needs no network), and from the
//! bytes of the response to stream events. Nothing here does I/O, measures time or retries; the agent does. So every
//! protocol is tested with recorded bytes, cut at every position.
//!
//! To add one: a folder with `request`, `wire` and `reply`, a [`ProviderSpec`], and a row in [`PROVIDERS`].
//!
//! | module | holds |
//! |---|---|
//! | [`openai`] | Chat Completions: OpenAI and everything compatible |
//! | [`openai_responses`] | Responses: OpenAI's newer protocol, with reasoning that is sent back |
//! | [`anthropic`] | Messages: Anthropic and everything compatible |
//! | [`google`] | Gemini |
//! | [`echo`] | the built-in provider without a network |
//! | [`host`] | other agent programs, over the Agent Client Protocol |
//! | [`aws`] | signatures of requests to Bedrock |
//! | `turns` | from a log of messages to a conversation that strict servers accept |
//! | `response` | which kind of response the bytes are, and how it ends |
//! | `limits` | limits of a reply, and the end of a complete one |
//! | `partial_call` | a tool call that comes in pieces |
//! | `request` | URL, headers and JSON of a request |
//! | `sse` | the splitter of server-sent events |
//! | `surrogates` | halves of characters in that JSON |
//! | `text` | strings in the JSON of servers |
//! | `error_object` | the error objects of servers |
//! | [`list`] | the list of a server's models |
//! | [`presets`] | services that need nothing but their name |
//! | [`parameters`] | parameters that a person sets |
//! | [`credentials`] | checks for a key, and hints where to set it |
//! | `failure` | errors from HTTP statuses and untrusted texts |

pub use failure::context_length_in;

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::error::Result;
use crate::domain::endpoint::{Endpoint, Secret, has_server};
use crate::domain::http::{HttpHead, HttpRequest};
use crate::domain::message::Message;
use crate::domain::parameters::Parameter;
use crate::domain::stream::StreamEvent;
use crate::domain::thinking::Thinking;
use crate::domain::tool::ToolDeclaration;

pub mod anthropic;
pub mod aws;
pub mod credentials;
pub mod echo;
mod error_object;
mod failure;
pub mod google;
pub mod host;
mod limits;
pub mod list;
pub mod openai;
pub mod openai_responses;
pub mod parameters;
mod partial_call;
pub mod presets;
mod request;
mod response;
pub mod sse;
mod surrogates;
mod text;
mod turns;

/// The parts of a request.
#[derive(Debug, Clone, Copy)]
pub struct Conversation<'a> {
    pub endpoint: &'a Endpoint,
    /// The key, if there is one. Not taken from the endpoint, because it may come from a command.
    pub key: Option<&'a Secret>,
    /// How much the model is to think.
    pub thinking: Thinking,
    /// The system prompt; empty if there is none.
    pub system: &'a str,
    /// The messages, oldest first. Those that are not sent to a model are skipped.
    pub messages: &'a [&'a Message],
    /// The tools that the model may call; empty to disable tools.
    pub tools: &'a [ToolDeclaration<'a>],
}

/// How to carry out a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ProviderRequest {
    /// A request to send; its response goes to a decoder of the same provider.
    Http(HttpRequest),
    /// A reply that is already known, without network and decoder.
    Script(Script),
    /// A prompt for a host, whose component delivers the events of the reply.
    Prompt(Box<host::HostPrompt>),
}

/// A reply that is played by deadlines of the loop.
///
/// The steps run in order, each [`Step::wait`] after the one before. A script without [`StreamEvent::Done`] or
/// [`StreamEvent::Error`] at its end hangs: the reply stays open until it is interrupted or stalled.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// In the order in which they are played.
    pub steps: VecDeque<Step>,
}

/// An event of the built-in model after a pause.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Time since the previous step, or since the request for the first one.
    pub wait: Duration,
    /// The event; `None` only waits.
    pub event: Option<StreamEvent>,
}

/// A kind of provider: how requests are built and responses decoded.
pub struct ProviderSpec {
    /// The name of the protocol: `kind` in the configuration.
    pub kind: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// The service that needs no configuration, if there is one.
    pub service: Option<Service>,
    /// The parameters that it has, besides the thinking level.
    pub parameters: &'static [Parameter],
    /// Fields of the body that cannot be set as parameters.
    pub own_fields: &'static [&'static str],
    /// Checks that a model supports a thinking level, without a request.
    pub check_thinking: fn(model: &str, Thinking) -> Result<()>,
    /// Builds the request. No error repeats the value of a header.
    pub build_request: fn(&Conversation) -> Result<ProviderRequest>,
    /// A decoder for one response.
    pub decoder: fn() -> Box<dyn Decoder>,
}

/// A service that needs no configuration but a key in its usual variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// Its name, before the slash of an endpoint.
    pub name: &'static str,
    /// Its base URL, including the version segment.
    pub base_url: &'static str,
    /// The variables that may hold its key, the usual one first.
    pub key_variables: &'static [&'static str],
    /// The variable that may hold another base URL.
    pub url_variable: &'static str,
    /// The default model.
    pub model: &'static str,
    /// Its name in the built-in table of models.
    pub models: &'static str,
}

impl ProviderSpec {
    /// Whether requests go to a server over HTTP.
    pub fn has_server(&self) -> bool {
        has_server(self.kind)
    }
}

/// Turns the bytes of one response into events.
///
/// There is exactly one [`StreamEvent::Done`] for a complete reply, or one [`StreamEvent::Error`] for a failed one, and
/// nothing after it. How the bytes are cut only affects how text is split. Every size is limited; exceeding a limit
/// fails this reply alone.
pub trait Decoder {
    /// The status line and headers of the final response. Called once, before the bytes.
    fn head(&mut self, head: &HttpHead);
    /// More bytes of the body; their events are appended to `out`.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>);
    /// The transfer ended without an error. Not called after a failed one, whose error is reported elsewhere.
    fn end(&mut self, out: &mut Vec<StreamEvent>);
}

/// The decoder of a provider that sends nothing over HTTP.
struct NoBytes;

impl Decoder for NoBytes {
    fn head(&mut self, _: &HttpHead) {}
    fn feed(&mut self, _: &[u8], _: &mut Vec<StreamEvent>) {}
    fn end(&mut self, out: &mut Vec<StreamEvent>) {
        out.push(StreamEvent::Done);
    }
}

/// All kinds of providers, as the configuration names them.
pub const PROVIDERS: &[&ProviderSpec] = &[
    &openai::OPENAI,
    &openai_responses::OPENAI_RESPONSES,
    &anthropic::ANTHROPIC,
    &google::GOOGLE,
    &echo::ECHO,
    &host::HOST,
];

/// Checks that the model of this endpoint supports a thinking level, without a request.
pub fn check_thinking(endpoint: &Endpoint, thinking: Thinking) -> Result<()> {
    thinking.check_effort(&endpoint.facts.efforts)?;
    find(&endpoint.kind).map_or(Ok(()), |spec| (spec.check_thinking)(&endpoint.model, thinking))
}

/// The wanted thinking level if the model of this endpoint supports it, else the default.
pub fn thinking_for(endpoint: &Endpoint, wanted: Thinking) -> Thinking {
    check_thinking(endpoint, wanted).map_or(Thinking::default(), |()| wanted)
}

/// The endpoint of a model whose provider is not configured here, or has no key: requests to it fail, and say what is
/// missing.
pub fn unavailable(full_name: &str) -> Endpoint {
    let (provider, model) = full_name.split_once('/').unwrap_or((full_name, ""));
    let services = PROVIDERS.iter().filter_map(|spec| Some((spec.kind, spec.service?)));
    let service = services.into_iter().find(|(_, service)| service.name == provider);
    Endpoint {
        provider: provider.to_owned(),
        kind: service.map_or_else(String::new, |(kind, _)| kind.to_owned()),
        model: model.to_owned(),
        base_url: service.map_or_else(String::new, |(_, service)| service.base_url.to_owned()),
        key_variable: service.and_then(|(_, service)| service.key_variables.first().map(|name| (*name).to_owned())),
        ..Endpoint::echo()
    }
}

/// The kind with this name.
pub fn find(kind: &str) -> Option<&'static ProviderSpec> {
    PROVIDERS.iter().find(|spec| spec.kind == kind).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_is_found_by_its_unique_kind() {
        for (index, spec) in PROVIDERS.iter().enumerate() {
            let first = PROVIDERS.iter().position(|other| other.kind == spec.kind);
            assert_eq!(first, Some(index), "{}", spec.kind);
            assert!(find(spec.kind).is_some());
        }
        assert!(find("carrier pigeon").is_none());
    }
}
