//! The Gemini API, streaming: `models.streamGenerateContent` over server-sent events.
//!
//! The protocol is Google's (ai.google.dev/api/generate-content). A model's state of mind comes as signatures on parts
//! of its reply; each is stored with its part and sent back on the same part.
//!
//! | module | holds |
//! |---|---|
//! | `request` | conversation -> request |
//! | `contents` | turns -> the contents of a request, signatures in their places |
//! | `thinking` | which model supports which thinking levels, and how they are sent |
//! | `decoder` | the pieces of an answer: events, or a whole answer |
//! | `wire` | the chunks of the stream |
//! | `reply` | chunks -> events: texts, calls, signatures, limits |
//! | `signature` | a signature with its part |
//! | `refusal` | Google's error objects |

use crate::domain::parameters::Parameter;
use crate::provider::response::ResponseDecoder;
use crate::provider::{ProviderSpec, Service};

mod contents;
mod decoder;
mod error_object;
mod reply;
mod request;
mod signature;
mod thinking;
mod wire;

/// The Gemini API.
pub const GOOGLE: ProviderSpec = ProviderSpec {
    kind: "google",
    about: "Gemini: streamGenerateContent of Google's Gemini API",
    service: Some(Service {
        name: "google",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        url_variable: "GEMINI_BASE_URL",
        model: "gemini-3.8-flash",
        models: "google",
    }),
    parameters: &[
        Parameter::Temperature,
        Parameter::TopP,
        Parameter::MaxOutput,
        Parameter::Stop,
        Parameter::Seed,
        Parameter::ResponseFormat,
    ],
    own_fields: &["contents", "systemInstruction", "tools", "toolConfig"],
    check_thinking: thinking::check,
    build_request: request::build,
    decoder: || Box::new(ResponseDecoder::<reply::Reply>::default()),
};
