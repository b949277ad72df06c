//! From a conversation to a Messages request.
//!
//! The keys are in the order in which the API caches (tools, system, messages), with the messages last, so that the
//! body of a longer conversation begins with that of a shorter one. The end of the cached prefix is marked on the
//! system prompt and on the last two messages of the user: the second to last had the last mark of the previous
//! request, or of the parent. Marks do not count in the comparison
//! (platform.claude.com/docs/en/build-with-claude/prompt-caching).

use std::rc::Rc;

use crate::base::error::Result;
use crate::domain::endpoint::{Endpoint, Secret};
use crate::domain::http::HttpRequest;
use crate::domain::tool::ToolDeclaration;
use crate::provider::anthropic::blocks::{self, CACHED};
use crate::provider::anthropic::thinking::{self, Mode};
use crate::provider::request::{self, json};
use crate::provider::turns::{Turn, turns};
use crate::provider::{Conversation, ProviderRequest};

const VERSION: &str = "2023-06-01";

/// Allows a request to say what happens to thinking that does not match its prefix any more
/// (platform.claude.com/docs/en/build-with-claude/preserved-thinking).
const BINDING: &str = "thinking-binding-controls-2026-08-01";

/// # Errors
/// `BadRequest` for an empty conversation, `Auth` for an invalid key, `Usage` for an invalid base URL or header. No
/// error repeats the value of a header.
pub(super) fn build(conversation: &Conversation<'_>) -> Result<ProviderRequest> {
    let endpoint = conversation.endpoint;
    let headers = headers(endpoint, conversation.key)?;
    Ok(ProviderRequest::Http(HttpRequest { url: url(endpoint)?, headers, body: body(conversation)? }))
}

/// The base URL may end with a version segment or without, because other clients require one or the other.
fn url(endpoint: &Endpoint) -> Result<String> {
    request::url(endpoint, |address| match address.rsplit('/').next() {
        Some("messages") => address.to_owned(),
        Some(last) if is_version(last) => format!("{address}/messages"),
        _ => format!("{address}/v1/messages"),
    })
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
    if let Some(key) = request::key(endpoint, key)? {
        headers.push(("x-api-key", key.to_owned()));
    }
    request::headers(endpoint, headers)
}

/// Whether the request says what happens to thinking that does not match its prefix any more. A configured header
/// replaces ours, and without the beta in it the API rejects the field.
fn controls_binding(endpoint: &Endpoint) -> bool {
    let mut own = endpoint.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("anthropic-beta"));
    thinking::binds(&endpoint.model) && own.all(|(_, value)| value.contains(BINDING))
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
    let mut body = format!("{{\"model\":{},\"max_tokens\":{}", json(&endpoint.model), plan.max_tokens);
    body.push_str(",\"stream\":true");
    body.push_str(&plan.mode.fields(controls_binding(endpoint)));
    let has_system = !conversation.system.trim().is_empty();
    push_tools(&mut body, conversation.tools, &turns, !has_system)?;
    if has_system {
        let system = json(conversation.system);
        body.push_str(&format!(",\"system\":[{{\"type\":\"text\",\"text\":{system}{CACHED}}}]"));
    }
    body.push_str(",\"messages\":[");
    body.push_str(&blocks::messages(&turns, plan.mode.thinks()).join(","));
    body.push_str("]}");
    Ok(body.into_bytes().into())
}

/// The tools, marked as the end of the cached prefix if nothing else is. Without tools those that were called earlier
/// are declared and forbidden: "Requests which include `tool_use` or `tool_result` blocks must define tools".
fn push_tools(body: &mut String, tools: &[ToolDeclaration], turns: &[Turn<'_>], is_marked: bool) -> Result<()> {
    let mut rows = Vec::new();
    for tool in tools {
        let (name, description, schema) = (json(tool.name), json(tool.description), request::schema(tool)?);
        rows.push(format!("{{\"name\":{name},\"description\":{description},\"input_schema\":{schema}"));
    }
    if tools.is_empty() {
        let called = blocks::called(turns).into_iter();
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
