//! Whether a request has the key that its service wants, and where a person sets it. Never the key itself.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::endpoint::{Endpoint, Secret};
use crate::provider;

/// Looks whether a service that is known to want a key is asked without one.
///
/// # Errors
/// It is; the words say how to set one. Nothing was sent.
pub fn require(endpoint: &Endpoint, key: Option<&Secret>) -> Result<()> {
    let service = provider::find(&endpoint.kind).and_then(|spec| spec.service);
    let is_service = service.is_some_and(|service| endpoint.base_url.trim_end_matches('/') == service.base_url);
    if key.is_some() || !is_service || endpoint.headers.iter().any(|(name, _)| may_be_credential(name)) {
        return Ok(());
    }
    let words = format!("no key for {}: {}", endpoint.provider, way_out(endpoint));
    Err(Error::new(ErrorKind::Auth, words))
}

/// What stands behind the provider's own words when it refuses: where the key came from, or where one could.
pub fn hint(endpoint: &Endpoint, has_key: bool) -> String {
    let name = &endpoint.provider;
    match (&endpoint.key_command, has_key) {
        (Some(_), _) => format!("the key is printed by api_key_command of [providers.{name}]"),
        (None, false) => format!("no key was sent: {}", way_out(endpoint)),
        (None, true) => match variable(endpoint) {
            Some(variable) => format!("the key is that of {variable} or [providers.{name}]"),
            None => format!("the key is that of [providers.{name}]: see its api_key_env"),
        },
    }
}

fn way_out(endpoint: &Endpoint) -> String {
    let name = &endpoint.provider;
    match variable(endpoint) {
        Some(variable) => format!("export {variable}=… and start again"),
        None => format!("set api_key_env or api_key_command of [providers.{name}] in the configuration"),
    }
}

/// The usual variable, where the provider is the service under its own name.
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
    fn a_service_is_not_asked_without_a_key_and_the_words_name_the_variable() {
        let service = openai("openai", "https://api.openai.com/v1/");
        let error = require(&service, None).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Auth);
        assert!(error.message.contains("OPENAI_API_KEY"), "{}", error.message);
        assert!(require(&service, Some(&Secret::new("k"))).is_ok());
        let other = require(&openai("mine", "https://api.openai.com/v1"), None).unwrap_err();
        assert!(other.message.contains("[providers.mine]"), "{}", other.message);
    }

    #[test]
    fn other_servers_may_need_none_and_a_header_may_be_one() {
        assert!(require(&openai("openai", "http://localhost:8080/v1"), None).is_ok());
        assert!(require(&Endpoint::echo(), None).is_ok());
        let mut own = openai("openai", "https://api.openai.com/v1");
        own.headers.push(("X-Api-Key".into(), "k".into()));
        assert!(require(&own, None).is_ok());
    }

    #[test]
    fn a_refused_key_is_named_by_where_it_came_from() {
        let mut endpoint = openai("openai", "http://x/v1");
        assert!(hint(&endpoint, true).contains("OPENAI_API_KEY"));
        assert!(hint(&openai("mine", "http://x/v1"), true).contains("[providers.mine]"));
        assert!(hint(&endpoint, false).contains("no key was sent: export OPENAI_API_KEY"));
        endpoint.key_command = Some("secret-tool lookup x y".into());
        assert!(hint(&endpoint, true).contains("api_key_command of [providers.openai]"));
    }
}
