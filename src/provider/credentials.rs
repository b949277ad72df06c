//! Checks that a request has the key that its service requires, and says where to set it. Never shows the key itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::percent;
use crate::domain::endpoint::{Endpoint, Secret};
use crate::provider::{self, presets::PRESETS};

/// Checks that there is a key for a service that is known to require one.
///
/// # Errors
/// `Auth` if there is none; the message says how to set one. Also if the provider is not configured any more.
pub fn require(endpoint: &Endpoint, key: Option<&Secret>) -> Result<()> {
    if endpoint.is_none() {
        let is_set = |variable: &&str| std::env::var_os(variable).is_some_and(|key| !key.is_empty());
        let mut presets = PRESETS.iter().filter_map(|preset| Some((preset.name, preset.key_variable?)));
        return Err(Error::new(ErrorKind::Auth, no_model(presets.find(|(_, variable)| is_set(variable)))));
    }
    if endpoint.kind.is_empty() {
        let name = &endpoint.provider;
        let message =
            format!("{name} is not configured: add [providers.{name}] to the configuration, or choose another /model");
        return Err(Error::new(ErrorKind::Auth, message));
    }
    let service = provider::find(&endpoint.kind).and_then(|spec| spec.service).map(|service| service.base_url);
    let keyed = PRESETS.iter().filter(|preset| preset.key_variable.is_some()).map(|preset| preset.base_url);
    let is_service = service.into_iter().chain(keyed).any(|url| endpoint.base_url.trim_end_matches('/') == url);
    if key.is_some() || !is_service || own_credential(endpoint).is_some() {
        return Ok(());
    }
    let message = format!("no key for {}: {}", endpoint.provider, how_to_set(endpoint));
    Err(Error::new(ErrorKind::Auth, message))
}

/// What to do if no model is configured; `with_key` is a service whose variable is set.
pub fn no_model(with_key: Option<(&str, &str)>) -> String {
    match with_key {
        Some((name, variable)) => format!("no model is chosen: {variable} is set, use -m {name}/MODEL"),
        None => {
            "no model is configured: run polylogue setup, or export OPENAI_API_KEY=… (or OPENAI_BASE_URL=http://localhost:8080/v1 for a local \
                 server) and use -m openai/MODEL"
                .to_owned()
        }
    }
}

/// A hint for a rejected key: where it came from, or how to set one.
pub fn hint(endpoint: &Endpoint, has_key: bool) -> String {
    let name = &endpoint.provider;
    if let Some(header) = own_credential(endpoint).filter(|_| !has_key) {
        return format!("the {header} header came from [providers.{name}]");
    }
    match (&endpoint.key_command, has_key) {
        (Some(_), _) => format!("the key came from api_key_command of [providers.{name}]"),
        (None, false) => format!("no key was sent: {}", how_to_set(endpoint)),
        (None, true) => match &endpoint.key_variable {
            Some(variable) => format!("the key came from {variable} or [providers.{name}]"),
            None => format!("the key came from [providers.{name}]: check its api_key_env"),
        },
    }
}

fn how_to_set(endpoint: &Endpoint) -> String {
    let name = &endpoint.provider;
    match &endpoint.key_variable {
        Some(variable) => format!("export {variable}=… and start again"),
        None => format!("set api_key_env or api_key_command of [providers.{name}] in the configuration"),
    }
}

/// Shorter values of headers are not taken for secrets: they would be removed from unrelated words.
const SHORTEST_VALUE: usize = 6;
/// The shortest part of a value that is redacted, such as the second word of `Bearer KEY`.
const SHORTEST_PART: usize = 8;

/// Variables that name a proxy, perhaps with a password, as libcurl reads them.
const PROXIES: [&str; 5] = ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// The text of an error without the credentials that were sent to the provider: the key, the values of the configured
/// headers, and the passwords in the URL and in that of a proxy. Servers repeat what they refuse.
pub fn redact(text: &str, endpoint: &Endpoint, key: Option<&Secret>) -> String {
    let key = key.or(endpoint.key.as_ref()).map(Secret::reveal);
    let headers = endpoint.headers.iter().map(|(_, value)| value.as_str());
    let proxies = PROXIES.iter().filter_map(|name| std::env::var(name).ok());
    let users: Vec<String> = proxies.chain([endpoint.base_url.clone()]).filter_map(|url| user_in(&url)).collect();
    let users: Vec<String> = users.iter().flat_map(|user| forms_of(user)).collect();
    let users = users.iter().map(String::as_str);
    let values: Vec<&str> = key.into_iter().chain(headers).chain(users).map(str::trim).collect();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let parts = values.iter().flat_map(|value| value.split(|c| !is_part(c)));
    let parts = parts.filter(|part| part.len() >= SHORTEST_PART);
    let mut secrets: Vec<&str> = values.iter().copied().filter(|value| value.len() >= SHORTEST_VALUE).collect();
    secrets.extend(parts);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let redacted = secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[key]"));
    without_cut_secret(redacted, &secrets)
}

/// The user and the password of a URL. A proxy may be named without a scheme.
fn user_in(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    Some(rest.split('/').next()?.rsplit_once('@')?.0.to_owned())
}

/// A user with a password as in a URL, with its percent escapes decoded (RFC 3986, 2.1), and as sent (RFC 7617); also
/// the password alone.
fn forms_of(user: &str) -> Vec<String> {
    let decoded = percent::decode(user);
    let sent = BASE64.encode(&decoded);
    let decoded = String::from_utf8_lossy(&decoded).into_owned();
    let passwords = [user, &decoded].map(|text| text.split_once(':').map_or("", |(_, password)| password).to_owned());
    passwords.into_iter().chain([user.to_owned(), decoded, sent]).collect()
}

/// The text of a server was cut off at `…`, perhaps within a secret.
fn without_cut_secret(text: String, secrets: &[&str]) -> String {
    let Some((before, after)) = text.split_once('…') else { return text };
    let ends_in = |secret: &&str| {
        let lengths = (SHORTEST_VALUE..secret.len()).rev().filter(|length| secret.is_char_boundary(*length));
        lengths.map(|length| &secret[..length]).find(|start| before.ends_with(start)).map(str::len)
    };
    match secrets.iter().filter_map(ends_in).max() {
        Some(length) => format!("{}[key]…{after}", &before[..before.len() - length]),
        None => text,
    }
}

/// The configured header that may hold the key.
fn own_credential(endpoint: &Endpoint) -> Option<&str> {
    endpoint.headers.iter().map(|(name, _)| name.as_str()).find(|name| may_be_credential(name))
}

fn may_be_credential(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["auth", "key", "token", "cookie"].iter().any(|mark| header.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn openai(provider: &str, base_url: &str) -> Endpoint {
        let key_variable = (provider == "openai").then(|| "OPENAI_API_KEY".to_owned());
        let (provider, kind, base_url) = (provider.into(), "openai".into(), base_url.into());
        Endpoint { provider, kind, base_url, key_variable, ..Endpoint::echo() }
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
    fn what_was_sent_as_a_credential_is_removed_from_a_text() {
        let mut endpoint = openai("mine", "https://me:password@host/v1");
        endpoint.headers = vec![("X-Auth".into(), "Basic dXNlcjpwYXNz".into()), ("X-Team".into(), "blue".into())];
        let key = Secret::new("short-key");
        let shown = |text: &str| redact(text, &endpoint, Some(&key));
        assert_eq!(shown("a short-key, Basic dXNlcjpwYXNz or dXNlcjpwYXNz"), "a [key], [key] or [key]");
        assert_eq!(shown("me:password and password"), "[key] and [key]");
        assert_eq!(shown("Authorization: Basic bWU6cGFzc3dvcmQ="), "Authorization: Basic [key]");
        assert_eq!(shown("blue basics"), "blue basics");
        assert_eq!(shown("the header is Basic dXNlc… (tried 3 times)"), "the header is [key]… (tried 3 times)");
        assert_eq!(redact("short-key", &Endpoint { key: Some(key), ..Endpoint::echo() }, None), "[key]");
    }

    #[test]
    fn a_password_with_percent_escapes_is_removed_in_every_form() {
        let endpoint = openai("mine", "https://me%40corp:p%40ss%3Aw%2g@host/v1");
        let shown = |text: &str| redact(text, &endpoint, None);
        for form in ["me%40corp:p%40ss%3Aw%2g", "p%40ss%3Aw%2g", "me@corp:p@ss:w%2g", "p@ss:w%2g"] {
            assert_eq!(shown(&format!("sent {form}, refused")), "sent [key], refused");
        }
        assert_eq!(shown(&format!("Basic {}", BASE64.encode("me@corp:p@ss:w%2g"))), "Basic [key]");
    }

    #[test]
    fn the_hint_says_where_a_rejected_key_came_from() {
        let mut endpoint = openai("openai", "http://x/v1");
        assert!(hint(&endpoint, true).contains("OPENAI_API_KEY"));
        assert!(hint(&openai("mine", "http://x/v1"), true).contains("[providers.mine]"));
        assert!(hint(&endpoint, false).contains("no key was sent: export OPENAI_API_KEY"));
        let mut own = openai("mine", "http://x/v1");
        own.headers.push(("Authorization".into(), "Bearer k".into()));
        assert_eq!(hint(&own, false), "the Authorization header came from [providers.mine]");
        own.key_variable = Some("MINE".into());
        own.headers.clear();
        assert_eq!(hint(&own, false), "no key was sent: export MINE=… and start again");
        endpoint.key_command = Some("secret-tool lookup x y".into());
        assert!(hint(&endpoint, true).contains("api_key_command of [providers.openai]"));
    }
}
