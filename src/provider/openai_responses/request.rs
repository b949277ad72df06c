//! A conversation becomes a Responses request.
//!
//! As for Chat Completions the keys stand in a fixed order, with everything that varies from one request of a
//! conversation to the next (the tools, the effort) behind the items: a longer conversation's body begins with the bytes
//! of a shorter one's.

use std::rc::Rc;

use crate::base::error::Result;
use crate::domain::endpoint::Endpoint;
use crate::domain::http::HttpRequest;
use crate::domain::thinking::Thinking;
use crate::domain::tool::ToolDeclaration;
use crate::provider::openai_responses::items::Items;
use crate::provider::request::{self, effort, json, reasons};
use crate::provider::turns::turns;
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

/// `reasoning.effort` is a word (platform.openai.com/docs/guides/reasoning).
///
/// # Errors
/// A number of tokens was named, or the model is known not to reason.
pub(super) fn check_thinking(model: &str, thinking: Thinking) -> Result<()> {
    request::check_effort(model, thinking)
}

fn url(endpoint: &Endpoint) -> Result<String> {
    request::url(endpoint, |address| {
        let path = if address.ends_with("/responses") { "" } else { "/responses" };
        format!("{address}{path}")
    })
}

fn body(conversation: &Conversation<'_>) -> Result<Rc<[u8]>> {
    let model = &conversation.endpoint.model;
    let turns = turns(conversation.messages, &conversation.endpoint.full_name());
    if turns.is_empty() {
        return Err(request::nothing_said());
    }
    let mut body = format!("{{\"model\":{},\"stream\":true,\"store\":false", json(model));
    // Where nothing is stored, this is how reasoning survives; other models refuse it ("Encrypted content is not
    // supported with this model").
    if reasons(model) {
        body.push_str(",\"include\":[\"reasoning.encrypted_content\"]");
    }
    if !conversation.system.trim().is_empty() {
        body.push_str(&format!(",\"instructions\":{}", json(conversation.system)));
    }
    let mut items = Items::default();
    turns.iter().for_each(|turn| items.turn(turn));
    body.push_str(&format!(",\"input\":[{}]", items.join()));
    push_tools(&mut body, conversation.tools)?;
    push_reasoning(&mut body, model, conversation.thinking);
    body.push('}');
    Ok(body.into_bytes().into())
}

/// `strict` is true unless said otherwise, and would refuse schemas with optional properties.
fn push_tools(body: &mut String, tools: &[ToolDeclaration]) -> Result<()> {
    for (place, tool) in tools.iter().enumerate() {
        body.push_str(if place == 0 { ",\"tools\":[" } else { "," });
        let (name, about, schema) = (json(tool.name), json(tool.description), request::schema(tool)?);
        body.push_str(&format!(
            "{{\"type\":\"function\",\"name\":{name},\"description\":{about},\"parameters\":{schema},\"strict\":false}}"
        ));
    }
    if !tools.is_empty() {
        body.push(']');
    }
    Ok(())
}

/// A summary is asked for only by who asks for thinking: OpenAI gives none to organizations that it has not verified, and
/// refuses the request.
fn push_reasoning(body: &mut String, model: &str, thinking: Thinking) {
    let Some(effort) = effort(model, thinking) else { return };
    let summary = if thinking == Thinking::Off { "" } else { ",\"summary\":\"auto\"" };
    body.push_str(&format!(",\"reasoning\":{{\"effort\":{effort:?}{summary}}}"));
}
