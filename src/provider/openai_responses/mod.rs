//! Responses, streaming: OpenAI's newer protocol, with reasoning that goes back to the model that made it.
//!
//! The protocol is OpenAI's (platform.openai.com/docs/api-reference/responses); llama.cpp, vLLM, OpenRouter, LiteLLM
//! and others speak it too. Nothing is stored at the provider (`store: false`): each request has the whole conversation,
//! with the reasoning in encrypted form.
//!
//! | module | holds |
//! |---|---|
//! | `request` | conversation -> request |
//! | `items` | turns -> the items of `input`, with reasoning in its place |
//! | `decoder` | events of the stream, or a whole response -> what the reply makes of them |
//! | `wire` | the objects of the stream |
//! | `reply` | items and deltas -> events: texts, calls, reasoning, limits |

use crate::domain::parameters::Parameter;
use crate::provider::response::ResponseDecoder;
use crate::provider::{ProviderSpec, Service};

mod decoder;
mod items;
mod reply;
mod request;
mod wire;

/// The Responses API.
pub const OPENAI_RESPONSES: ProviderSpec = ProviderSpec {
    kind: "openai-responses",
    about: "Responses: OpenAI and compatible servers, with reasoning preserved between requests",
    service: Some(Service {
        name: "openai-responses",
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
        Parameter::Verbosity,
        Parameter::ServiceTier,
        Parameter::ResponseFormat,
    ],
    own_fields: &["model", "input", "instructions", "stream", "store", "tools", "include", "background"],
    check_thinking: request::check_thinking,
    build_request: request::build,
    decoder: || Box::new(ResponseDecoder::<reply::Reply>::default()),
};
