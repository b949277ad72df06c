//! From a conversation to a Responses request.
//!
//! The items come before everything that may change between requests (the tools, the effort), so that the body of a
//! longer conversation begins with that of a shorter one, because providers cache by prefix.

use std::rc::Rc;

use crate::base::error::Result;
use crate::domain::endpoint::Endpoint;
use crate::domain::http::HttpRequest;
use crate::domain::parameters::Parameter;
use crate::domain::thinking::Thinking;
use crate::domain::tool::ToolDeclaration;
use crate::provider::openai_responses::items::Items;
use crate::provider::parameters::{self, Fields};
use crate::provider::request::{self, effort, json, reasons};
use crate::provider::turns::turns;
use crate::provider::{Conversation, ProviderRequest};

pub(super) fn build(conversation: &Conversation<'_>) -> Result<ProviderRequest> {
    let endpoint = conversation.endpoint;
    let headers = request::with_bearer(endpoint, conversation.key)?;
    Ok(ProviderRequest::Http(HttpRequest { url: url(endpoint)?, headers, body: body(conversation)? }))
}

/// Checks a thinking level for `reasoning.effort` (platform.openai.com/docs/guides/reasoning).
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
        return Err(request::empty_conversation());
    }
    let mut body = format!("{{\"model\":{},\"stream\":true,\"store\":false", json(model));
    // Needed to send reasoning back when nothing is stored. Models without reasoning reject it ("Encrypted content is
    // not supported with this model").
    if reasons(model) {
        body.push_str(",\"include\":[\"reasoning.encrypted_content\"]");
    }
    if !conversation.system.trim().is_empty() {
        body.push_str(&format!(",\"instructions\":{}", json(conversation.system)));
    }
    let mut items = Items::default();
    turns.iter().for_each(|turn| items.turn(turn, &conversation.endpoint.files));
    body.push_str(&format!(",\"input\":[{}]", items.join()));
    push_tools(&mut body, conversation.tools)?;
    let (parameters, mut fields) = (&conversation.endpoint.parameters, Fields::default());
    fields.copy(parameters, PARAMETERS);
    fields.set("max_output_tokens", conversation.endpoint.facts.max_output);
    fields.set_in("text", "format", parameters::openai_format(parameters, false));
    fields.set_in("text", "verbosity", parameters.get(Parameter::Verbosity).cloned());
    set_reasoning(&mut fields, model, conversation.thinking);
    fields.set("prompt_cache_key", request::cache_key(conversation));
    fields.push_to(&mut body, parameters);
    body.push('}');
    Ok(body.into_bytes().into())
}

/// `strict` is true by default and rejects schemas with optional properties.
fn push_tools(body: &mut String, tools: &[ToolDeclaration]) -> Result<()> {
    for (index, tool) in tools.iter().enumerate() {
        body.push_str(if index == 0 { ",\"tools\":[" } else { "," });
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

/// A summary is requested only with a thinking level, because OpenAI rejects the request of an unverified organization.
fn set_reasoning(fields: &mut Fields, model: &str, thinking: Thinking) {
    let Some(effort) = effort(model, thinking) else { return };
    fields.set_in("reasoning", "effort", Some(effort));
    fields.set_in("reasoning", "summary", (thinking != Thinking::Off).then_some("auto"));
}

const PARAMETERS: &[(Parameter, &str)] =
    &[(Parameter::Temperature, "temperature"), (Parameter::TopP, "top_p"), (Parameter::ServiceTier, "service_tier")];
