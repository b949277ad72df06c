//! From a conversation to a Chat Completions request.
//!
//! The messages come before everything that may change between requests (the tools), so that the body of a longer
//! conversation begins with that of a shorter one, because providers cache by prefix.

use std::borrow::Cow;
use std::rc::Rc;

use serde::Serialize;

use crate::base::error::{Error, Result};
use crate::domain::attachment::{Files, PDF, Piece, pieces, readable_text};
use crate::domain::endpoint::Endpoint;
use crate::domain::http::HttpRequest;
use crate::domain::parameters::Parameter;
use crate::domain::reasoning::SendReasoning;
use crate::domain::thinking::Thinking;
use crate::domain::tool::ToolDeclaration;
use crate::provider::openai::reasoning::{Object, Reasoning};
use crate::provider::parameters::{self, Fields};
use crate::provider::request::{self, json};
use crate::provider::turns::{Call, Turn, turns};
use crate::provider::{Conversation, ProviderRequest};

pub(super) fn build(conversation: &Conversation<'_>) -> Result<ProviderRequest> {
    let endpoint = conversation.endpoint;
    let headers = request::with_bearer(endpoint, conversation.key)?;
    Ok(ProviderRequest::Http(HttpRequest { url: url(endpoint)?, headers, body: body(conversation)? }))
}

/// Checks a thinking level for `reasoning_effort` (platform.openai.com/docs/guides/reasoning).
pub(super) fn check_thinking(model: &str, thinking: Thinking) -> Result<()> {
    if thinking.effort().is_some_and(|effort| effort != "none") && thinks_over_responses_only(model) {
        let message =
            format!("{model} supports thinking with tools only over Responses: try /model openai-responses/{model}");
        return Err(Error::usage(message));
    }
    request::check_effort(model, thinking)
}

/// Whether OpenAI's model supports tools in this protocol only without thinking: "Function tools with reasoning_effort
/// are not supported for gpt-5.6 in /v1/chat/completions. To use function tools, use /v1/responses or set
/// reasoning_effort to 'none'", from 5.4 on. Models with a vendor before the name are at gateways, which handle this.
fn thinks_over_responses_only(model: &str) -> bool {
    let version = model.strip_prefix("gpt-").and_then(|rest| rest.split('-').next()).unwrap_or_default();
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let version = major.parse::<u32>().ok().zip(minor.parse::<u32>().ok());
    version.is_some_and(|version| version >= (5, 4))
}

/// The reasoning effort, if any.
fn effort(conversation: &Conversation<'_>) -> Result<Option<String>> {
    let model = &conversation.endpoint.model;
    if conversation.tools.is_empty() || !thinks_over_responses_only(model) {
        return Ok(request::effort(model, conversation.thinking));
    }
    check_thinking(model, conversation.thinking).map(|()| Some("none".to_owned()))
}

fn url(endpoint: &Endpoint) -> Result<String> {
    request::url(endpoint, |address| {
        let path = if address.ends_with("/chat/completions") { "" } else { "/chat/completions" };
        format!("{address}{path}")
    })
}

const PARAMETERS: &[(Parameter, &str)] = &[
    (Parameter::Temperature, "temperature"),
    (Parameter::TopP, "top_p"),
    (Parameter::Stop, "stop"),
    (Parameter::Seed, "seed"),
    (Parameter::Verbosity, "verbosity"),
    (Parameter::ServiceTier, "service_tier"),
];

/// A text, or parts that may include files.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<serde_json::Value>),
}

#[derive(Serialize)]
struct Row<'a> {
    role: &'static str,
    /// `null` for a reply that has only calls.
    content: Option<Content<'a>>,
    #[serde(flatten)]
    reasoning: Object,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct CallRow<'a> {
    id: &'a str,
    r#type: &'static str,
    function: FunctionRow<'a>,
    #[serde(flatten)]
    fields: Object,
}

#[derive(Serialize)]
struct FunctionRow<'a> {
    name: &'a str,
    arguments: &'a str,
}

fn body(conversation: &Conversation<'_>) -> Result<Rc<[u8]>> {
    let turns = turns(conversation.messages, &conversation.endpoint.full_name());
    if turns.is_empty() {
        return Err(request::empty_conversation());
    }
    let mut body = String::from("{\"model\":");
    body.push_str(&json(&conversation.endpoint.model));
    body.push_str(",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"messages\":[");
    let system = (!conversation.system.trim().is_empty()).then(|| row("system", conversation.system));
    let rows =
        system.into_iter().chain(rows(&turns, &conversation.endpoint.files, conversation.endpoint.send_reasoning));
    body.push_str(&rows.map(|row| json(&row)).collect::<Vec<_>>().join(","));
    body.push(']');
    push_tools(&mut body, conversation.tools)?;
    let (parameters, mut fields) = (&conversation.endpoint.parameters, Fields::default());
    fields.copy(parameters, PARAMETERS);
    fields.set(limit_field(conversation.endpoint), conversation.endpoint.facts.max_output);
    fields.set("reasoning_effort", effort(conversation)?);
    fields.set("prompt_cache_key", request::cache_key(conversation));
    fields.set("response_format", parameters::openai_format(parameters, true));
    fields.push_to(&mut body, parameters);
    body.push('}');
    Ok(body.into_bytes().into())
}

/// The field for the limit of a reply. OpenAI's models that reason refuse `max_tokens` and other servers do not know
/// `max_completion_tokens` (platform.openai.com/docs/api-reference/chat/create).
fn limit_field(endpoint: &Endpoint) -> &'static str {
    let is_of_openai = endpoint.base_url.contains("api.openai.com") || endpoint.base_url.contains("azure.com");
    if is_of_openai { "max_completion_tokens" } else { "max_tokens" }
}

fn rows<'a>(turns: &'a [Turn<'a>], files: &'a Files, setting: SendReasoning) -> impl Iterator<Item = Row<'a>> {
    // DeepSeek requires it also of the replies of other models.
    let is_required = match setting {
        SendReasoning::Auto => turns.iter().any(|turn| {
            let Turn::Assistant { calls, signatures, .. } = turn else { return false };
            !calls.is_empty() && Reasoning::of(signatures).field() == SendReasoning::ReasoningContent
        }),
        chosen => chosen == SendReasoning::ReasoningContent,
    };
    turns.iter().enumerate().flat_map(move |(index, turn)| {
        let is_after_calls = index > 0 && matches!(turns[index - 1], Turn::Assistant { .. });
        let mut rows = rows_of(turn, files, |reasoning, has_calls| {
            reasoning.in_request(setting, has_calls || is_after_calls, is_required)
        });
        let images = |turn: Option<&'a Turn<'a>>| turn.map(|turn| images_of_results(turn, files)).unwrap_or_default();
        let mut before = images(index.checked_sub(1).map(|before| &turns[before]));
        match turn {
            // Two messages of the user in a row are refused.
            Turn::User(text) if !before.is_empty() => {
                before.extend(pieces(text, files).into_iter().map(part));
                rows[0].content = Some(Content::Parts(before));
            }
            Turn::Assistant { .. } if !matches!(turns.get(index + 1), Some(Turn::User(_))) => {
                let images = images(Some(turn));
                let row = || Row { content: Some(Content::Parts(images.clone())), ..row("user", "") };
                rows.extend((!images.is_empty()).then(row));
            }
            _ => {}
        }
        rows
    })
}

/// The message of a user (platform.openai.com/docs/guides/images-vision, .../pdf-files).
fn user_content<'a>(text: &'a str, files: &'a Files) -> Content<'a> {
    let pieces = pieces(text, files);
    if !pieces.iter().any(|piece| matches!(piece, Piece::File(..))) {
        return Content::Text(readable_text(text));
    }
    Content::Parts(pieces.into_iter().map(part).collect())
}

fn part(piece: Piece<'_>) -> serde_json::Value {
    match piece {
        Piece::Text(text) => serde_json::json!({"type": "text", "text": text}),
        Piece::File(name, file) => {
            let data = format!("data:{};base64,{}", file.media_type, file.base64);
            match file.media_type.as_str() {
                PDF => serde_json::json!({"type": "file", "file": {"filename": name, "file_data": data}}),
                _ => serde_json::json!({"type": "image_url", "image_url": {"url": data}}),
            }
        }
    }
}

/// The images of results for a message of the user: results are text (platform.openai.com/docs/api-reference/chat/create).
fn images_of_results(turn: &Turn<'_>, files: &Files) -> Vec<serde_json::Value> {
    let Turn::Assistant { calls, .. } = turn else { return Vec::new() };
    let pieces = calls.iter().filter_map(|call| call.result_pieces(files)).flatten();
    let labelled = pieces.filter_map(|piece| match piece {
        Piece::File(name, _) => {
            Some([part(Piece::Text(format!("[{name}, from the tool results above]"))), part(piece)])
        }
        Piece::Text(_) => None,
    });
    labelled.flatten().collect()
}

fn rows_of<'a>(turn: &'a Turn<'a>, files: &'a Files, field: impl FnOnce(&Reasoning, bool) -> Object) -> Vec<Row<'a>> {
    match turn {
        Turn::User(text) => vec![Row { content: Some(user_content(text, files)), ..row("user", text) }],
        Turn::Assistant { text, calls, signatures } => {
            let content = (!text.is_empty()).then_some(Content::Text(text.into()));
            let stored = Reasoning::of(signatures);
            let tool_calls = calls.iter().enumerate().map(|(at, call)| call_row(call, stored.of_call(at))).collect();
            let reasoning = field(&stored, !calls.is_empty());
            let reply = Row { role: "assistant", content, reasoning, tool_calls, tool_call_id: None };
            let results = calls.iter().map(|call| {
                let content = Some(Content::Text(call.result_text()));
                Row { tool_call_id: Some(&call.id), content, ..row("tool", "") }
            });
            std::iter::once(reply).chain(results).collect()
        }
    }
}

fn row<'a>(role: &'static str, content: &'a str) -> Row<'a> {
    Row {
        role,
        content: Some(Content::Text(content.into())),
        reasoning: Object::new(),
        tool_calls: Vec::new(),
        tool_call_id: None,
    }
}

fn call_row<'a>(call: &'a Call<'a>, fields: Object) -> CallRow<'a> {
    let function = FunctionRow { name: &call.name, arguments: call.arguments };
    CallRow { id: &call.id, r#type: "function", function, fields }
}

fn push_tools(body: &mut String, tools: &[ToolDeclaration]) -> Result<()> {
    for (index, tool) in tools.iter().enumerate() {
        body.push_str(if index == 0 { ",\"tools\":[" } else { "," });
        body.push_str("{\"type\":\"function\",\"function\":{\"name\":");
        body.push_str(&json(tool.name));
        body.push_str(",\"description\":");
        body.push_str(&json(tool.description));
        body.push_str(",\"parameters\":");
        body.push_str(request::schema(tool)?);
        body.push_str("}}");
    }
    if !tools.is_empty() {
        body.push(']');
    }
    Ok(())
}
