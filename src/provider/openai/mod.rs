//! Chat Completions, streaming: OpenAI and every server that speaks the same protocol.
//!
//! The protocol is OpenAI's (platform.openai.com/docs/api-reference/chat), the tolerance is owed to
//! llama.cpp, Ollama, vLLM, LiteLLM, OpenRouter and others, each of which bends it somewhere.
//!
//! | module | holds |
//! |---|---|
//! | `request` | conversation -> request |
//! | `decoder` | bytes -> events: which kind of answer this is, and its end |
//! | `wire` | the chunks as they stand in the stream |
//! | `reply` | chunks -> events: texts, calls, bounds |
//! | `refusal` | the error objects of the various servers |

use crate::provider::ProviderSpec;

mod decoder;
mod refusal;
mod reply;
mod request;
mod wire;

/// Chat Completions.
pub const OPENAI: ProviderSpec = ProviderSpec {
    kind: "openai",
    about: "Chat Completions: OpenAI and compatible servers (llama.cpp, Ollama, vLLM, LiteLLM, OpenRouter, ...)",
    open: request::open,
    decoder: || Box::new(decoder::ChatDecoder::default()),
};
