//! Checks that a request has the key that its service requires, and says where to set it. Never shows the key itself.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::endpoint::{Endpoint, Secret};
use crate::provider;

/// Checks that there is a key for a service that is known to require one.
///
/// # Errors
/// `Auth` if there is none; the message says how to set one.
pub fn require(endpoint: &Endpoint, key: Option<&Secret>) -> Result<()> {
    let service = provider::find(&endpoint.kind).and_then(|spec| spec.service);
    let is_service = service.is_some_and(|service| endpoint.base_url.trim_end_matches('/') == service.base_url);
    if key.is_some() || !is_service || endpoint.headers.iter().any(|(name, _)| may_be_credential(name)) {
        return Ok(());
    }
    let message = format!("no key for {}: {}", endpoint.provider, how_to_set(endpoint));
    Err(Error::new(ErrorKind::Auth, message))
}

/// A hint for a rejected key: where it came from, or how to set one.
pub fn hint(endpoint: &Endpoint, has_key: bool) -> String {
    let name = &endpoint.provider;
    match (&endpoint.key_command, has_key) {
        (Some(_), _) => format!("the key came from api_key_command of [providers.{name}]"),
        (None, false) => format!("no key was sent: {}", how_to_set(endpoint)),
        (None, true) => match variable(endpoint) {
            Some(variable) => format!("the key came from {variable} or [providers.{name}]"),
            None => format!("the key came from [providers.{name}]: check its api_key_env"),
        },
    }
}

fn how_to_set(endpoint: &Endpoint) -> String {
    let name = &endpoint.provider;
    match variable(endpoint) {
        Some(variable) => format!("export {variable}=… and start again"),
        None => format!("set api_key_env or api_key_command of [providers.{name}] in the configuration"),
    }
}

/// The service's usual variable, if the provider is configured under the service's name.
fn variable(endpoint: &Endpoint) -> Option<&'static str> {
    let service = provider::find(&endpoint.kind)?.service.filter(|service| service.name == endpoint.provider)?;
    service.key_variables.first().copied()
}

fn may_be_credential(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["auth", "key", "token", "cookie"].iter().any(|mark| header.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn openai(provider: &str, base_url: &str) -> Endpoint {
        let (provider, kind, base_url) = (provider.into(), "openai".into(), base_url.into());
        Endpoint { provider, kind, base_url, ..Endpoint::echo() }
    }

    #[test]
    fn a_service_requires_a_key_and_the_message_names_the_variable() {
        let service = openai("openai", "https://api.openai.com/v1/");
        let error = require(&service, None).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Auth);
        assert!(error.message.contains("OPENAI_API_KEY"), "{}", error.message);
        assert!(require(&service, Some(&Secret::new("k"))).is_ok());
        let other = require(&openai("mine", "https://api.openai.com/v1"), None).unwrap_err();
        assert!(other.message.contains("[providers.mine]"), "{}", other.message);
    }

    #[test]
    fn other_servers_require_none_and_a_header_may_hold_one() {
        assert!(require(&openai("openai", "http://localhost:8080/v1"), None).is_ok());
        assert!(require(&Endpoint::echo(), None).is_ok());
        let mut own = openai("openai", "https://api.openai.com/v1");
        own.headers.push(("X-Api-Key".into(), "k".into()));
        assert!(require(&own, None).is_ok());
    }

    #[test]
    fn the_hint_says_where_a_rejected_key_came_from() {
        let mut endpoint = openai("openai", "http://x/v1");
        assert!(hint(&endpoint, true).contains("OPENAI_API_KEY"));
        assert!(hint(&openai("mine", "http://x/v1"), true).contains("[providers.mine]"));
        assert!(hint(&endpoint, false).contains("no key was sent: export OPENAI_API_KEY"));
        endpoint.key_command = Some("secret-tool lookup x y".into());
        assert!(hint(&endpoint, true).contains("api_key_command of [providers.openai]"));
    }
}
