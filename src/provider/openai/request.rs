//! A conversation becomes a Chat Completions request.
//!
//! The keys stand in a fixed order with the messages before everything that may vary from one request
//! of a conversation to the next (the tools), so that a longer conversation's body begins with the bytes
//! of a shorter one's: providers cache by prefix.

use std::rc::Rc;

use serde::Serialize;

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::endpoint::Endpoint;
use crate::domain::http::HttpRequest;
use crate::domain::thinking::Thinking;
use crate::domain::tool::ToolDeclaration;
use crate::provider::request::{self, json};
use crate::provider::turns::{Call, Turn, turns};
use crate::provider::{Conversation, ProviderRequest};

/// Makes the request.
///
/// # Errors
/// `BadRequest` if nothing was said, `Auth` if the key cannot stand in a header, `Usage` if the base URL
/// or a header of the endpoint cannot be sent. No error repeats the value of a header.
pub(super) fn build(conversation: &Conversation<'_>) -> Result<ProviderRequest> {
    let endpoint = conversation.endpoint;
    let headers = request::with_bearer(endpoint, conversation.key)?;
    Ok(ProviderRequest::Http(HttpRequest { url: url(endpoint)?, headers, body: body(conversation)? }))
}

/// `reasoning_effort` is a word (platform.openai.com/docs/guides/reasoning).
///
/// # Errors
/// A number of tokens was named, or the model is known not to reason, or not here.
pub(super) fn check_thinking(model: &str, thinking: Thinking) -> Result<()> {
    if matches!(thinking, Thinking::Low | Thinking::Medium | Thinking::High) && thinks_elsewhere(model) {
        let words =
            format!("{model} thinks only over Responses where there are tools: try /model openai-responses/{model}");
        return Err(Error::new(ErrorKind::Usage, words));
    }
    request::check_effort(model, thinking)
}

/// Whether OpenAI's model takes tools here only if it does not think: "Function tools with reasoning_effort are not supported
/// for gpt-5.6 in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'", from 5.4
/// on. A gateway has the maker before the name, and finds a way.
fn thinks_elsewhere(model: &str) -> bool {
    let version = model.strip_prefix("gpt-").and_then(|rest| rest.split('-').next()).unwrap_or_default();
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let version = major.parse::<u32>().ok().zip(minor.parse::<u32>().ok());
    version.is_some_and(|version| version >= (5, 4))
}

/// What is said of thinking.
///
/// # Errors
/// The model does not take it together with tools.
fn effort(conversation: &Conversation<'_>) -> Result<Option<&'static str>> {
    let model = &conversation.endpoint.model;
    if conversation.tools.is_empty() || !thinks_elsewhere(model) {
        return Ok(request::effort(model, conversation.thinking));
    }
    check_thinking(model, conversation.thinking).map(|()| Some("none"))
}

fn url(endpoint: &Endpoint) -> Result<String> {
    request::url(endpoint, |address| {
        let path = if address.ends_with("/chat/completions") { "" } else { "/chat/completions" };
        format!("{address}{path}")
    })
}

/// One message as the protocol has it.
#[derive(Serialize)]
struct Row<'a> {
    role: &'static str,
    /// `null` for a reply that has only calls.
    content: Option<&'a str>,
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
}

#[derive(Serialize)]
struct FunctionRow<'a> {
    name: &'a str,
    arguments: &'a str,
}

fn body(conversation: &Conversation<'_>) -> Result<Rc<[u8]>> {
    let turns = turns(conversation.messages, &conversation.endpoint.full_name());
    if turns.is_empty() {
        return Err(request::nothing_said());
    }
    let mut body = String::from("{\"model\":");
    body.push_str(&json(&conversation.endpoint.model));
    body.push_str(",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"messages\":[");
    let system = (!conversation.system.trim().is_empty()).then(|| row("system", conversation.system));
    let rows = system.into_iter().chain(turns.iter().flat_map(rows_of));
    body.push_str(&rows.map(|row| json(&row)).collect::<Vec<_>>().join(","));
    body.push(']');
    push_tools(&mut body, conversation.tools)?;
    if let Some(effort) = effort(conversation)? {
        body.push_str(&format!(",\"reasoning_effort\":{effort:?}"));
    }
    body.push('}');
    Ok(body.into_bytes().into())
}

fn rows_of<'a>(turn: &'a Turn<'a>) -> Vec<Row<'a>> {
    match turn {
        Turn::User(text) => vec![row("user", text)],
        Turn::Assistant { text, calls, .. } => {
            let content = (!text.is_empty()).then_some(text.as_str());
            let tool_calls = calls.iter().map(call_row).collect();
            let reply = Row { role: "assistant", content, tool_calls, tool_call_id: None };
            let answers = calls.iter().map(|call| Row { tool_call_id: Some(&call.id), ..row("tool", call.answer()) });
            std::iter::once(reply).chain(answers).collect()
        }
    }
}

fn row<'a>(role: &'static str, content: &'a str) -> Row<'a> {
    Row { role, content: Some(content), tool_calls: Vec::new(), tool_call_id: None }
}

fn call_row<'a>(call: &'a Call<'a>) -> CallRow<'a> {
    let function = FunctionRow { name: &call.name, arguments: call.arguments };
    CallRow { id: &call.id, r#type: "function", function }
}

fn push_tools(body: &mut String, tools: &[ToolDeclaration]) -> Result<()> {
    for (place, tool) in tools.iter().enumerate() {
        body.push_str(if place == 0 { ",\"tools\":[" } else { "," });
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
