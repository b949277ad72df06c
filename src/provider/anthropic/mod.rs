//! Messages, streaming: Anthropic and every server that speaks the same protocol.
//!
//! The protocol is Anthropic's (platform.claude.com/docs/en/api/messages).
//!
//! | module | holds |
//! |---|---|
//! | `request` | conversation -> request |
//! | `blocks` | turns -> messages of content blocks, as the API takes them |
//! | `thinking` | which model supports which thinking levels, and how they are sent |
//! | `wire` | the events of the stream |
//! | `reply` | events -> ours: texts, signatures, calls, usage, limits |

use crate::domain::parameters::Parameter;
use crate::provider::response::ResponseDecoder;
use crate::provider::{ProviderSpec, Service};

mod blocks;
mod framed;
mod reply;
mod request;
mod thinking;
mod wire;

/// The Messages API.
pub const ANTHROPIC: ProviderSpec = ProviderSpec {
    kind: "anthropic",
    about: "Messages: Anthropic and compatible servers, with signed thinking and cached prefixes",
    service: Some(Service {
        name: "anthropic",
        base_url: "https://api.anthropic.com/v1",
        key_variables: &["ANTHROPIC_API_KEY"],
        url_variable: "ANTHROPIC_BASE_URL",
        model: "claude-sonnet-5",
        models: "anthropic",
    }),
    parameters: &[
        Parameter::Temperature,
        Parameter::TopP,
        Parameter::MaxOutput,
        Parameter::Stop,
        Parameter::ServiceTier,
        Parameter::ResponseFormat,
    ],
    own_fields: &["model", "messages", "system", "stream", "tools", "anthropic_version"],
    check_thinking: thinking::check,
    build_request: request::build,
    decoder: || Box::new(framed::FramedDecoder::new(Box::new(ResponseDecoder::<reply::Reply>::default()))),
};
