//! From a conversation to a Messages request.
//!
//! The keys are in the order in which the API caches (tools, system, messages), with the messages last, so that the
//! body of a longer conversation begins with that of a shorter one. The end of the cached prefix is marked on the
//! system prompt and on the last two messages of the user: the second to last had the last mark of the previous
//! request, or of the parent. Marks do not count in the comparison
//! (platform.claude.com/docs/en/build-with-claude/prompt-caching).

use std::rc::Rc;

use crate::base::error::Result;
use crate::base::percent;
use crate::domain::endpoint::{Endpoint, Secret};
use crate::domain::http::HttpRequest;
use crate::domain::parameters::Parameter;
use crate::domain::tool::ToolDeclaration;
use crate::provider::anthropic::blocks::{self, CACHED};
use crate::provider::anthropic::thinking::{self, Mode};
use crate::provider::parameters::Fields;
use crate::provider::request::{self, json};
use crate::provider::turns::{Turn, turns};
use crate::provider::{Conversation, ProviderRequest};

const VERSION: &str = "2023-06-01";

/// Allows a request to say what happens to thinking that does not match its prefix any more
/// (platform.claude.com/docs/en/build-with-claude/preserved-thinking).
const BINDING: &str = "thinking-binding-controls-2026-08-01";

pub(super) fn build(conversation: &Conversation<'_>) -> Result<ProviderRequest> {
    let endpoint = conversation.endpoint;
    let headers = headers(endpoint, conversation.key)?;
    Ok(ProviderRequest::Http(HttpRequest { url: url(endpoint)?, headers, body: body(conversation)? }))
}

/// The base URL may end with a version segment or without, because other clients require one or the other.
fn url(endpoint: &Endpoint) -> Result<String> {
    let model = percent::encode(&endpoint.model);
    request::url(endpoint, |address| match host_of(endpoint) {
        Host::Vertex => format!("{address}/models/{model}:streamRawPredict"),
        Host::Bedrock => format!("{address}/model/{model}/invoke-with-response-stream"),
        Host::Usual => usual_url(address),
    })
}

/// Where the models of Anthropic are, which decides the URL and a part of the body.
#[derive(PartialEq, Eq)]
enum Host {
    Usual,
    /// Google's Vertex AI (docs.cloud.google.com, "request predictions with Claude models").
    Vertex,
    /// Amazon Bedrock (docs.aws.amazon.com, "InvokeModelWithResponseStream").
    Bedrock,
}

impl Host {
    /// The field that names the version of the API there; the model is in the URL.
    fn version(&self) -> Option<&'static str> {
        match self {
            Self::Usual => None,
            Self::Vertex => Some("vertex-2023-10-16"),
            Self::Bedrock => Some("bedrock-2023-05-31"),
        }
    }
}

fn host_of(endpoint: &Endpoint) -> Host {
    if endpoint.aws_region.is_some() || endpoint.base_url.contains("://bedrock-runtime.") {
        Host::Bedrock
    } else if endpoint.base_url.contains("/publishers/anthropic") {
        Host::Vertex
    } else {
        Host::Usual
    }
}

fn usual_url(address: &str) -> String {
    match address.rsplit('/').next() {
        Some("messages") => address.to_owned(),
        Some(last) if is_version(last) => format!("{address}/messages"),
        _ => format!("{address}/v1/messages"),
    }
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn headers(endpoint: &Endpoint, key: Option<&Secret>) -> Result<Vec<(String, String)>> {
    let mut headers = vec![
        ("Content-Type", "application/json".to_owned()),
        ("Accept", "text/event-stream".to_owned()),
        ("anthropic-version", VERSION.to_owned()),
    ];
    if controls_binding(endpoint) {
        headers.push(("anthropic-beta", BINDING.to_owned()));
    }
    headers.extend(request::key_header(endpoint, key, "x-api-key")?);
    request::headers(endpoint, headers)
}

/// Whether the request says what happens to thinking that does not match its prefix any more. A configured header
/// replaces ours, and without the beta in it the API rejects the field.
fn controls_binding(endpoint: &Endpoint) -> bool {
    let mut own = endpoint.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("anthropic-beta"));
    thinking::binds(&endpoint.model)
        && host_of(endpoint) == Host::Usual
        && own.all(|(_, value)| value.contains(BINDING))
}

fn body(conversation: &Conversation<'_>) -> Result<Rc<[u8]>> {
    let endpoint = conversation.endpoint;
    let turns = turns(conversation.messages, &endpoint.full_name());
    if turns.is_empty() {
        return Err(request::empty_conversation());
    }
    let mut plan = thinking::plan(endpoint, conversation.thinking);
    if matches!(plan.mode, Mode::Budget(_)) && !blocks::may_think(&turns) {
        plan.mode = Mode::Silent { thinks: false };
    }
    let host = host_of(endpoint);
    let first = match host.version() {
        Some(version) => format!("\"anthropic_version\":{version:?}"),
        None => format!("\"model\":{}", json(&endpoint.model)),
    };
    let mut body = format!("{{{first},\"max_tokens\":{}", plan.max_tokens);
    if host != Host::Bedrock {
        body.push_str(",\"stream\":true");
    }
    let (parameters, mut fields) = (&endpoint.parameters, Fields::default());
    fields.copy(parameters, PARAMETERS);
    plan.mode.set_in(&mut fields, controls_binding(endpoint));
    let schema = parameters.get(Parameter::ResponseFormat);
    let format = schema.map(|schema| serde_json::json!({"type": "json_schema", "schema": schema}));
    fields.set_in("output_config", "format", format);
    fields.push_to(&mut body, parameters);
    let has_system = !conversation.system.trim().is_empty();
    push_tools(&mut body, conversation.tools, &turns, !has_system)?;
    if has_system {
        let system = json(conversation.system);
        body.push_str(&format!(",\"system\":[{{\"type\":\"text\",\"text\":{system}{CACHED}}}]"));
    }
    body.push_str(",\"messages\":[");
    body.push_str(&blocks::messages(&turns, &endpoint.files, plan.mode.thinks()).join(","));
    body.push_str("]}");
    Ok(body.into_bytes().into())
}

const PARAMETERS: &[(Parameter, &str)] = &[
    (Parameter::Temperature, "temperature"),
    (Parameter::TopP, "top_p"),
    (Parameter::Stop, "stop_sequences"),
    (Parameter::ServiceTier, "service_tier"),
];

/// The tools, marked as the end of the cached prefix if nothing else is. Without tools those that were called earlier
/// are declared and forbidden: "Requests which include `tool_use` or `tool_result` blocks must define tools".
fn push_tools(body: &mut String, tools: &[ToolDeclaration], turns: &[Turn<'_>], is_marked: bool) -> Result<()> {
    let mut rows = Vec::new();
    for tool in tools {
        let (name, description, schema) = (json(tool.name), json(tool.description), request::schema(tool)?);
        rows.push(format!("{{\"name\":{name},\"description\":{description},\"input_schema\":{schema}"));
    }
    if tools.is_empty() {
        let called = blocks::called_tools(turns).into_iter();
        rows.extend(called.map(|name| format!("{{\"name\":{},\"input_schema\":{{\"type\":\"object\"}}", json(name))));
        if !rows.is_empty() {
            body.push_str(",\"tool_choice\":{\"type\":\"none\"}");
        }
    }
    let Some(last) = rows.last_mut() else { return Ok(()) };
    if is_marked {
        last.push_str(CACHED);
    }
    body.push_str(&format!(",\"tools\":[{}}}]", rows.join("},")));
    Ok(())
}
