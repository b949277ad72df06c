//! Who grants access to a server, and where.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::redirect::Issuer;
use super::{Reach, TIMEOUT, json, secure, shown_host};
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::mcp::{LEGACY, MODERN, shell_word};
use crate::net::fetch::{Response, request};

const RESOURCE: &str = "oauth-protected-resource";
const AUTHORIZATION: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";
/// How long the answer to a message may take that older servers do not know.
const PROBE: Duration = Duration::from_secs(8);
/// The only method of PKCE that is used.
const S256: &str = "S256";

/// What a login asks for, and where.
pub(super) struct Access {
    /// The server that the tokens are for (RFC 8707).
    pub(super) resource: String,
    /// `None`: whatever the other side finds right.
    pub(super) scope: Option<String>,
    pub(super) server: AuthorizationServer,
}

/// The metadata of a server that grants access (RFC 8414, 2).
#[derive(Debug, Clone, Deserialize)]
pub(super) struct AuthorizationServer {
    issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) device_authorization_endpoint: Option<String>,
    code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// The metadata of a server that needs access (RFC 9728, 2).
#[derive(Debug, Deserialize)]
struct Resource {
    resource: String,
    authorization_servers: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
}

/// What a server says when it refuses a request without a token.
#[derive(Debug, Default, PartialEq, Eq)]
struct Challenge {
    /// The URL of its metadata.
    metadata: Option<String>,
    scope: Option<String>,
}

impl AuthorizationServer {
    /// Who answers say that they come from, and whether they always do (RFC 9207).
    pub(super) fn issuer(&self) -> Issuer<'_> {
        (&self.issuer, self.authorization_response_iss_parameter_supported == Some(true))
    }

    /// Where the revision 2025-03-26 finds the endpoints of a server without metadata.
    fn usual(issuer: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            authorization_endpoint: format!("{issuer}/authorize"),
            token_endpoint: format!("{issuer}/token"),
            registration_endpoint: Some(format!("{issuer}/register")),
            device_authorization_endpoint: None,
            code_challenge_methods_supported: Some(vec![S256.into()]),
            token_endpoint_auth_methods_supported: None,
            scopes_supported: None,
            authorization_response_iss_parameter_supported: None,
        }
    }

    /// `trusted`: the issuer that a person expects, if it is not this one.
    fn checked(self, issuer: &str, trusted: Option<&str>, reach: Reach) -> Result<Self> {
        let trimmed = |url: &str| url.trim_end_matches('/').to_owned();
        if trimmed(&self.issuer) != trimmed(trusted.unwrap_or(issuer)) {
            let advice = format!("add --issuer {} if you trust that one", shell_word(&self.issuer));
            return Err(unusable(format!("{issuer} has the metadata of {:?}: {advice}", self.issuer)));
        }
        if !self.code_challenge_methods_supported.iter().flatten().any(|method| method == S256) {
            return Err(unusable(format!("{issuer} does not protect logins with PKCE (S256)")));
        }
        let endpoints = [Some(&self.authorization_endpoint), Some(&self.token_endpoint)];
        let more = [self.registration_endpoint.as_ref(), self.device_authorization_endpoint.as_ref()];
        let endpoints = endpoints.into_iter().chain(more).flatten();
        endpoints.map(|url| secure(url, reach)).collect::<Result<Vec<_>>>()?;
        Ok(self)
    }

    /// The same scope, and that the login may be renewed, where this has a name of its own (OpenID Connect Core 1.0, 11).
    pub(super) fn with_renewal(&self, scope: Option<String>) -> Option<String> {
        const OFFLINE: &str = "offline_access";
        let is_known = self.scopes_supported.iter().flatten().any(|known| known == OFFLINE);
        let is_there = |scope: &str| scope.split(' ').any(|word| word == OFFLINE);
        scope.map(|scope| if is_known && !is_there(&scope) { format!("{scope} {OFFLINE}") } else { scope })
    }
}

fn unusable(why: String) -> Error {
    Error::new(ErrorKind::Protocol, why)
}

/// Finds who grants access to the server with this URL. `None` if it answers without a login and offers none.
pub(super) fn find(url: &str, trusted: Option<&str>) -> Result<Option<Access>> {
    let parsed = secure(url, Reach::ALL)?;
    let reach = Reach { includes_this_machine: parsed.target.is_loopback() };
    // A path may contain a key, too.
    let shown = shown_host(&parsed);
    // A server knows one of these, may not answer the other, and may want the login for one of them only.
    let discovered = say(url, ("server/discover", MODERN), PROBE).ok().filter(|response| response.status == 401);
    let response = discovered.map_or_else(|| say(url, ("initialize", LEGACY), TIMEOUT), Ok)?;
    let is_refused = response.status == 401;
    let challenge = Challenge::parse(&response.challenge).filter(|_| is_refused).unwrap_or_default();
    let Some(resource) = resource_at(url, challenge.metadata.as_deref(), reach)? else {
        return match response.status {
            401 => of_older_revision(url, challenge.scope, trusted, reach).map(Some),
            200..=299 => Ok(None),
            status => Err(unusable(format!("{shown} answers with HTTP {status}: is that an MCP server?"))),
        };
    };
    if !covers(&resource.resource, url) {
        return Err(unusable(format!("{shown} has the metadata of {:?}", resource.resource)));
    }
    let issuer = resource.authorization_servers.into_iter().flatten().next();
    let issuer = issuer.ok_or_else(|| unusable(format!("{shown} does not say who grants access to it")))?;
    let server = server_of(&issuer, trusted, reach)?;
    let server = server.ok_or_else(|| unusable(format!("{issuer} has no metadata of its endpoints")))?;
    let supported = resource.scopes_supported.filter(|scopes| !scopes.is_empty()).map(|scopes| scopes.join(" "));
    let scope = server.with_renewal(challenge.scope.or(supported));
    Ok(Some(Access { resource: resource.resource, scope, server }))
}

/// The revision 2025-03-26: the server itself grants access, at its root.
fn of_older_revision(url: &str, scope: Option<String>, trusted: Option<&str>, reach: Reach) -> Result<Access> {
    let parsed = secure(url, reach)?;
    let root = parsed.to_string();
    let issuer = root.strip_suffix(&*parsed.path).unwrap_or(&root).to_owned();
    let server = server_of(&issuer, trusted, reach)?.unwrap_or_else(|| AuthorizationServer::usual(&issuer));
    // A query may contain a key.
    let resource = root.split('?').next().unwrap_or_default().to_owned();
    Ok(Access { resource, scope: server.with_renewal(scope), server })
}

/// The first message of a session, without a login.
fn say(url: &str, (method, revision): (&str, &str), limit: Duration) -> Result<Response> {
    let client = json!({"name": "polylogue", "version": env!("CARGO_PKG_VERSION")});
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientInfo": client,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", revision),
        ("Mcp-Method", method),
    ];
    request(url, &headers.map(|(name, value)| (name.into(), value.into())), Some(&message), limit)
}

/// The metadata of a server (RFC 9728, 3).
fn resource_at(url: &str, said: Option<&str>, reach: Reach) -> Result<Option<Resource>> {
    let places = match said {
        Some(place) => vec![place.to_owned()],
        None => vec![well_known(url, RESOURCE, true)?, well_known(url, RESOURCE, false)?],
    };
    first(&places, reach)
}

/// The metadata of who grants access (RFC 8414, 3; OpenID Connect Discovery 1.0, 4).
fn server_of(issuer: &str, trusted: Option<&str>, reach: Reach) -> Result<Option<AuthorizationServer>> {
    let behind = format!("{}/.well-known/{OPENID}", issuer.trim_end_matches('/'));
    let places = [well_known(issuer, AUTHORIZATION, true)?, well_known(issuer, OPENID, true)?, behind];
    let found: Option<AuthorizationServer> = first(&places, reach)?;
    found.map(|server| server.checked(issuer, trusted, reach)).transpose()
}

/// The first of these documents that is there.
fn first<T: DeserializeOwned>(places: &[String], reach: Reach) -> Result<Option<T>> {
    for place in places {
        let place = secure(place, reach)?.to_string();
        let response = request(&place, &[("Accept".into(), "application/json".into())], None, TIMEOUT)?;
        if let Some(found) = json(&response) {
            let read = serde_json::from_value(found);
            return read.map(Some).map_err(|error| unusable(format!("{place} cannot be used: {error}")));
        }
    }
    Ok(None)
}

/// A well-known place of a URL (RFC 8615), with its path behind or without.
fn well_known(url: &str, name: &str, has_path: bool) -> Result<String> {
    let mut parsed = secure(url, Reach::ALL)?;
    let path = parsed.path.split('?').next().unwrap_or_default().trim_end_matches('/');
    parsed.path = format!("/.well-known/{name}{}", if has_path { path } else { "" });
    Ok(parsed.to_string())
}

/// Whether the URL lies in this resource.
fn covers(resource: &str, url: &str) -> bool {
    let (Ok(resource), Ok(url)) = (secure(resource, Reach::ALL), secure(url, Reach::ALL)) else { return false };
    let above = resource.path.trim_end_matches('/');
    let rest = url.path.strip_prefix(above);
    let is_same_host = (resource.is_https, &resource.target) == (url.is_https, &url.target);
    is_same_host && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}

impl Challenge {
    /// The challenge `Bearer` of a header `WWW-Authenticate` (RFC 9110, 11.6.1).
    fn parse(header: &str) -> Option<Self> {
        let lower = header.to_ascii_lowercase();
        let is_scheme = |at: &usize| {
            let before = lower[..*at].chars().next_back();
            let is_quoted = lower[..*at].matches('"').count() % 2 == 1;
            let is_word =
                before.is_none_or(|c| " ,\t".contains(c)) && lower[at + 6..].chars().next().is_none_or(|c| c == ' ');
            is_word && !is_quoted
        };
        let at = lower.match_indices("bearer").map(|(at, _)| at).find(is_scheme)?;
        let (mut challenge, mut rest) = (Self::default(), &header[at + 6..]);
        while let Some((name, value, behind)) = parameter(rest.trim_start_matches([' ', ',', '\t'])) {
            match &*name.to_ascii_lowercase() {
                "resource_metadata" => challenge.metadata = Some(value),
                "scope" => challenge.scope = Some(value).filter(|scope| !scope.is_empty()),
                _ => {}
            }
            rest = behind;
        }
        Some(challenge)
    }
}

/// What a refused request would have needed (RFC 6750, 3.1).
pub fn scope_in(challenge: &str) -> Option<String> {
    Challenge::parse(challenge)?.scope
}

/// `NAME=VALUE` or `NAME="VALUE"` at the beginning of a text, and what follows.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.split_once('=')?;
    let name = name.trim_end();
    let is_token = !name.is_empty() && !name.contains([' ', ',', '"']);
    let rest = Some(rest.trim_start()).filter(|_| is_token)?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([',', ' ']).unwrap_or(rest.len());
        return Some((name, rest[..end].to_owned(), &rest[end..]));
    };
    let (mut value, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((name, value, &quoted[at + 1..])),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_says_where_the_metadata_is() {
        let parse = |text: &str| Challenge::parse(text).map(|challenge| (challenge.metadata, challenge.scope));
        let some = |text: &str| Some(text.to_owned());
        for (text, expected) in [
            (
                "Bearer resource_metadata=\"https://a.example/x\", scope=\"a b\"",
                Some((some("https://a.example/x"), some("a b"))),
            ),
            ("Basic realm=\"a, bearer b\", bearer Scope=read,error=\"a \\\"b\"", Some((None, some("read")))),
            ("Bearer", Some((None, None))),
            ("Bearer scope=\"never closed", Some((None, None))),
            ("Basic realm=x", None),
            ("Bearers x=y", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn metadata_is_in_well_known_places() {
        let place = |url: &str, has_path: bool| well_known(url, RESOURCE, has_path).unwrap();
        assert_eq!(
            place("https://a.example/mcp/?x", true),
            "https://a.example/.well-known/oauth-protected-resource/mcp"
        );
        assert_eq!(place("https://a.example/mcp", false), "https://a.example/.well-known/oauth-protected-resource");
        assert!(well_known("http://a.example", RESOURCE, true).is_err());
    }

    #[test]
    fn a_resource_covers_what_is_below_it() {
        for (resource, url, expected) in [
            ("https://a.example", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example/mcp/", "https://a.example/mcp/x?y", true),
            ("https://a.example/mcp", "https://a.example/mcpx", false),
            ("https://a.example/", "https://b.example/", false),
            ("https://a.example/", "http://a.example/", false),
        ] {
            assert_eq!(covers(resource, url), expected, "{resource} {url}");
        }
    }
}
