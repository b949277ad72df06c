//! Parts of HTTP requests that all providers share: URL, headers, JSON. The configuration of an endpoint and the key
//! are validated here; bodies are built by each protocol.

use serde::Serialize;
use serde::de::IgnoredAny;

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::endpoint::{Endpoint, Secret};
use crate::domain::http::is_token;
use crate::domain::thinking::Thinking;
use crate::domain::tool::ToolDeclaration;
use crate::provider::Conversation;

/// The base URL, extended by `extend`, which gets it without a trailing slash. A query (Azure's `?api-version=`) stays
/// at the end.
pub(super) fn url(endpoint: &Endpoint, extend: impl FnOnce(&str) -> String) -> Result<String> {
    let base = endpoint.base_url.trim();
    if !base.starts_with("http://") && !base.starts_with("https://") {
        return Err(Error::usage(format!("the base URL of {} must begin with http:// or https://", endpoint.provider)));
    }
    let (address, query) = base.split_at(base.find('?').unwrap_or(base.len()));
    Ok(format!("{}{query}", extend(address.trim_end_matches('/'))))
}

/// The key as text of a header, if there is one.
pub(super) fn key<'a>(endpoint: &Endpoint, key: Option<&'a Secret>) -> Result<Option<&'a str>> {
    let Some(key) = key.map(|key| key.reveal().trim()) else { return Ok(None) };
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("the key of {} is empty or contains invalid characters", endpoint.provider);
        return Err(Error::new(ErrorKind::Auth, message));
    }
    Ok(Some(key))
}

/// The protocol's headers and the endpoint's own, which replace those of the same name.
pub(super) fn headers(endpoint: &Endpoint, protocol: Vec<(&str, String)>) -> Result<Vec<(String, String)>> {
    let is_replaced = |name: &str| endpoint.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let remaining = protocol.into_iter().filter(|(name, _)| !is_replaced(name));
    let mut headers: Vec<_> = remaining.map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, value) in &endpoint.headers {
        if !is_token(name) || !value.chars().all(|c| c == '\t' || !c.is_control()) {
            return Err(Error::usage(format!("invalid header {name:?} of {}", endpoint.provider)));
        }
        headers.push((name.clone(), value.clone()));
    }
    Ok(headers)
}

/// The header with the key: `usual` is its default name. A signed request has none.
pub(super) fn key_header<'a>(
    endpoint: &Endpoint,
    secret: Option<&Secret>,
    usual: &'a str,
) -> Result<Option<(&'a str, String)>> {
    if endpoint.aws_region.is_some() {
        return Ok(None);
    }
    let header = |key: &str| match endpoint.is_bearer {
        true => ("Authorization", format!("Bearer {key}")),
        false => (usual, key.to_owned()),
    };
    Ok(key(endpoint, secret)?.map(header))
}

/// The headers of OpenAI's protocols: JSON, a stream, and the key as a bearer token.
pub(super) fn with_bearer(endpoint: &Endpoint, secret: Option<&Secret>) -> Result<Vec<(String, String)>> {
    let mut protocol =
        vec![("Content-Type", "application/json".to_owned()), ("Accept", "text/event-stream".to_owned())];
    if let Some(key) = key(endpoint, secret)? {
        protocol.push(("Authorization", format!("Bearer {key}")));
    }
    headers(endpoint, protocol)
}

/// Services that send requests with the same key to the same cache (developers.openai.com/api/docs/guides/prompt-caching,
/// docs.mistral.ai/inference/conversations/advanced/prompt-caching). Others refuse the field, also models at Azure.
const TAKES_CACHE_KEY: &[&str] = &["://api.openai.com/", "://api.mistral.ai/"];

/// The `prompt_cache_key`, where the service has it: the same for all conversations that begin with the same message, as forks
/// do.
pub(super) fn cache_key(conversation: &Conversation<'_>) -> Option<String> {
    let address = &conversation.endpoint.base_url;
    let first = conversation.messages.first().filter(|_| TAKES_CACHE_KEY.iter().any(|host| address.contains(host)))?;
    Some(format!("polylogue-{:x}-{:x}", first.created_at, first.id.0))
}

/// The thinking level as OpenAI's reasoning effort; `None` if the request must not have one.
pub(super) fn effort(model: &str, thinking: Thinking) -> Option<String> {
    match thinking {
        Thinking::Off if !reasons(model) => None,
        Thinking::Off => no_effort(model).map(str::to_owned),
        _ => thinking.effort().map(str::to_owned),
    }
}

/// Checks a thinking level for OpenAI's protocols.
pub(super) fn check_effort(model: &str, thinking: Thinking) -> Result<()> {
    let refuse = |message: String| Err(Error::usage(message));
    match thinking {
        Thinking::Budget(_) => {
            refuse("models of this provider support off, low, medium or high, not a number of tokens".to_owned())
        }
        _ if thinking.effort().is_some() && !reasons(model) => {
            refuse(format!("{model} does not support thinking: use off or default"))
        }
        Thinking::Off if reasons(model) && no_effort(model).is_none() => {
            refuse(format!("{model} always thinks: use low, medium, high or default"))
        }
        _ => Ok(()),
    }
}

/// The smallest effort of a model, which is the closest to off; `None` if it always thinks. "All models before
/// gpt-5.1 do not support `none`" (platform.openai.com/docs/api-reference/responses/create, reasoning.effort).
fn no_effort(model: &str) -> Option<&'static str> {
    let name = bare(model);
    let is_of = |family: &str| name == family || name.starts_with(&format!("{family}-"));
    let is_gpt = name.starts_with("gpt-");
    match () {
        () if is_of("o1") || is_of("o3") || is_of("o4") => None,
        () if is_gpt && (name.contains("-pro") || name.contains("-codex")) => None,
        () if is_of("gpt-5") => Some("minimal"),
        () => Some("none"),
    }
}

/// The name of a model without the vendor before it and the prefix of a fine-tuned one.
fn bare(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.strip_prefix("ft:").unwrap_or(name)
}

/// Whether a model may reason. False only for OpenAI's models that are known not to, also at resellers; unknown ones
/// may, because every newer model does (platform.openai.com/docs/models).
pub(super) fn reasons(model: &str) -> bool {
    let name = bare(model);
    !["gpt-3", "gpt-4", "gpt-5-chat", "chatgpt-"].iter().any(|family| name.starts_with(family))
}

/// The schema of a tool, unchanged: the order of its properties matters to a model.
pub(super) fn schema<'a>(tool: &ToolDeclaration<'a>) -> Result<&'a str> {
    if serde_json::from_str::<IgnoredAny>(tool.parameters).is_err() {
        return Err(Error::new(ErrorKind::Tool, format!("the schema of tool {} is not valid JSON", tool.name)));
    }
    Ok(tool.parameters)
}

/// JSON text of plain data; serializing strings, lists and structs cannot fail.
pub(super) fn json(data: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(data).expect("plain data can be serialized")
}

pub(super) fn empty_conversation() -> Error {
    Error::new(ErrorKind::BadRequest, "nothing to send: the conversation is empty")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thinking_level_has_an_effort_except_the_default() {
        let efforts = [
            (Thinking::Unspecified, None),
            (Thinking::Off, Some("minimal")),
            (Thinking::Low, Some("low")),
            (Thinking::Medium, Some("medium")),
            (Thinking::High, Some("high")),
        ];
        for (thinking, expected) in efforts {
            assert_eq!(effort("gpt-5", thinking).as_deref(), expected);
            assert!(check_effort("gpt-5", thinking).is_ok());
        }
        assert_eq!(check_effort("gpt-5", Thinking::Budget(1000)).unwrap_err().kind, ErrorKind::Usage);
    }

    #[test]
    fn off_is_the_smallest_effort_of_the_model_or_refused() {
        for model in ["gpt-5.1", "gpt-5.6-terra", "openai/gpt-5.4-mini", "qwen3", "o1000"] {
            assert_eq!(
                (effort(model, Thinking::Off).as_deref(), check_effort(model, Thinking::Off)),
                (Some("none"), Ok(())),
                "{model}"
            );
        }
        for model in ["gpt-5", "gpt-5-nano", "openai/gpt-5-mini-2025-08-07"] {
            assert_eq!(effort(model, Thinking::Off).as_deref(), Some("minimal"), "{model}");
        }
        for model in ["o1", "o3-mini", "openai/o4-mini", "gpt-5-pro", "gpt-5.2-pro", "gpt-5.3-codex"] {
            assert!(check_effort(model, Thinking::Off).unwrap_err().message.contains("always thinks"), "{model}");
            assert_eq!(effort(model, Thinking::Off), None, "what was chosen for another model");
        }
    }

    #[test]
    fn a_model_without_thinking_is_known_by_its_name_also_at_resellers() {
        for model in
            ["gpt-4o-mini", "openai/gpt-4.1", "ft:gpt-3.5-turbo:me::1", "gpt-5-chat-latest", "chatgpt-4o-latest"]
        {
            assert!(
                check_effort(model, Thinking::Low).unwrap_err().message.contains("does not support thinking"),
                "{model}"
            );
            assert!(check_effort(model, Thinking::Off).is_ok());
            assert_eq!(effort(model, Thinking::Off), None);
        }
        for model in ["gpt-5", "gpt-5.1", "o3-mini", "openai/gpt-oss-20b", "qwen3", "deployments/mine", ""] {
            assert!(reasons(model), "{model}");
        }
    }
}
