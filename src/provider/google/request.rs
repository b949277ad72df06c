//! From a conversation to a `streamGenerateContent` request.
//!
//! The contents come before everything that may change between requests, so that the body of a longer conversation
//! begins with that of a shorter one, because the provider caches by prefix.

use std::rc::Rc;

use crate::base::error::{Error, Result};
use crate::base::percent;
use crate::domain::endpoint::Endpoint;
use crate::domain::http::HttpRequest;
use crate::domain::parameters::Parameter;
use crate::domain::tool::ToolDeclaration;
use crate::provider::google::contents::{called_tools, contents};
use crate::provider::google::thinking;
use crate::provider::parameters::Fields;
use crate::provider::request::{self, json};
use crate::provider::turns::turns;
use crate::provider::{Conversation, ProviderRequest};

pub(super) fn build(conversation: &Conversation<'_>) -> Result<ProviderRequest> {
    let endpoint = conversation.endpoint;
    let mut headers = vec![("Content-Type", "application/json".to_owned()), ("Accept", "text/event-stream".to_owned())];
    headers.extend(request::key_header(endpoint, conversation.key, "x-goog-api-key")?);
    let headers = request::headers(endpoint, headers)?;
    Ok(ProviderRequest::Http(HttpRequest { url: url(endpoint)?, headers, body: body(conversation)? }))
}

/// `models/NAME:streamGenerateContent`, as server-sent events. The key is never in the URL, because URLs are logged.
fn url(endpoint: &Endpoint) -> Result<String> {
    let model = endpoint.model.strip_prefix("models/").unwrap_or(&endpoint.model);
    if model.is_empty() {
        return Err(Error::usage(format!("no model given: use {}/NAME", endpoint.provider)));
    }
    let model = percent::encode(model);
    let url = request::url(endpoint, |base| format!("{base}/models/{model}:streamGenerateContent"))?;
    let separator = if url.contains('?') { '&' } else { '?' };
    Ok(format!("{url}{separator}alt=sse"))
}

fn body(conversation: &Conversation<'_>) -> Result<Rc<[u8]>> {
    let model = &conversation.endpoint.model;
    let turns = turns(conversation.messages, &conversation.endpoint.full_name());
    if turns.is_empty() {
        return Err(request::empty_conversation());
    }
    let mut body = String::from("{");
    if !conversation.system.trim().is_empty() {
        let text = json(conversation.system);
        body.push_str(&format!("\"systemInstruction\":{{\"parts\":[{{\"text\":{text}}}]}},"));
    }
    body.push_str("\"contents\":");
    body.push_str(&json(&contents(&turns, &conversation.endpoint.files, thinking::requires_signatures(model))));
    if conversation.tools.is_empty() {
        push_forbidden(&mut body, &called_tools(&turns));
    } else {
        push_tools(&mut body, conversation.tools)?;
    }
    let thinking = thinking::config(model, conversation.thinking)?;
    let mut fields = generation_config(conversation.endpoint);
    fields.set_in(CONFIG, "thinkingConfig", thinking.and_then(|config| serde_json::to_value(config).ok()));
    fields.push_to(&mut body, &conversation.endpoint.parameters);
    body.push('}');
    Ok(body.into_bytes().into())
}

const CONFIG: &str = "generationConfig";

fn generation_config(endpoint: &Endpoint) -> Fields {
    let (parameters, mut fields) = (&endpoint.parameters, Fields::default());
    fields.set_in(CONFIG, "maxOutputTokens", endpoint.facts.max_output);
    for (parameter, name) in [
        (Parameter::Temperature, "temperature"),
        (Parameter::TopP, "topP"),
        (Parameter::Stop, "stopSequences"),
        (Parameter::Seed, "seed"),
    ] {
        fields.set_in(CONFIG, name, parameters.get(parameter).cloned());
    }
    let format = parameters.get(Parameter::ResponseFormat);
    fields.set_in(CONFIG, "responseMimeType", format.map(|_| "application/json"));
    fields.set_in(CONFIG, "responseJsonSchema", format.filter(|format| format.is_object()).cloned());
    fields
}

/// `parametersJsonSchema` takes any JSON schema, unlike `parameters` (ai.google.dev/api/caching).
fn push_tools(body: &mut String, tools: &[ToolDeclaration]) -> Result<()> {
    let mut declarations = Vec::new();
    for tool in tools {
        let (name, description, schema) = (json(tool.name), json(tool.description), request::schema(tool)?);
        declarations
            .push(format!("{{\"name\":{name},\"description\":{description},\"parametersJsonSchema\":{schema}}}"));
    }
    push_declarations(body, &declarations);
    Ok(())
}

/// Forbids calls in a conversation with earlier calls but no tools. A mode without declarations is rejected ("Function
/// calling config is set without function_declarations"), so the tools that were called stay declared.
fn push_forbidden(body: &mut String, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let declare = |name: &String| format!("{{\"name\":{},\"description\":\"Not available now.\"}}", json(name));
    push_declarations(body, &names.iter().map(declare).collect::<Vec<_>>());
    body.push_str(",\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"NONE\"}}");
}

fn push_declarations(body: &mut String, declarations: &[String]) {
    body.push_str(&format!(",\"tools\":[{{\"functionDeclarations\":[{}]}}]", declarations.join(",")));
}
