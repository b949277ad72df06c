//! Chat Completions, streaming: OpenAI and every server that speaks the same protocol.
//!
//! The protocol is OpenAI's (platform.openai.com/docs/api-reference/chat), the tolerance is for
//! llama.cpp, Ollama, vLLM, LiteLLM, OpenRouter and others, each of which differs from it somewhere.
//!
//! | module | holds |
//! |---|---|
//! | `request` | conversation -> request |
//! | `decoder` | the pieces of an answer, and which of them is the last |
//! | `wire` | the chunks of the stream |
//! | `reply` | chunks -> events: texts, calls, limits |
//! | `reasoning` | reasoning that is sent back |
//! | `think_tags` | reasoning between tags in the text |

use crate::domain::parameters::Parameter;
use crate::provider::response::ResponseDecoder;
use crate::provider::{ProviderSpec, Service};

mod decoder;
mod reasoning;
mod reply;
mod request;
mod think_tags;
mod wire;

/// Chat Completions.
pub const OPENAI: ProviderSpec = ProviderSpec {
    kind: "openai",
    about: "Chat Completions: OpenAI and compatible servers (llama.cpp, Ollama, vLLM, LiteLLM, OpenRouter, ...)",
    service: Some(Service {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        key_variables: &["OPENAI_API_KEY"],
        url_variable: "OPENAI_BASE_URL",
        model: "gpt-5-mini",
        models: "openai",
    }),
    parameters: &[
        Parameter::Temperature,
        Parameter::TopP,
        Parameter::MaxOutput,
        Parameter::Stop,
        Parameter::Seed,
        Parameter::Verbosity,
        Parameter::ServiceTier,
        Parameter::ResponseFormat,
    ],
    own_fields: &["model", "messages", "stream", "stream_options", "tools", "n"],
    check_thinking: request::check_thinking,
    build_request: request::build,
    decoder: || Box::new(ResponseDecoder::<reply::Reply>::default()),
};
