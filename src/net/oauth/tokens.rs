//! Clients, and the tokens that they are granted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::discovery::{Access, AuthorizationServer};
use super::{LoginOptions, Reach, Refusal, TIMEOUT, device, json, post_form, refusal, secure, shown_host};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::percent;
use crate::net::fetch::{Response, request};

/// Only another login helps (RFC 6749, 5.2; RFC 8707, 2; RFC 8628, 3.5).
const FINAL: [&str; 9] = [
    "invalid_grant",
    "invalid_client",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "access_denied",
    "expired_token",
];
/// A token is renewed this long before its end.
const EARLY: Duration = Duration::from_secs(30);

/// How a client shows who it is (RFC 6749, 2.3.1; RFC 7591, 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

/// This program, as the one that grants access knows it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    secret: Option<String>,
    method: Method,
}

/// What the file of logins holds about one server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Login {
    client: Client,
    token_endpoint: String,
    resource: String,
    pub(super) scope: Option<String>,
    pub(super) access_token: String,
    refresh_token: Option<String>,
    /// In seconds since 1970, if the token has an end.
    expires_at: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Granted {
    access_token: String,
    token_type: String,
    /// In seconds. Some servers send a string.
    #[serde(default)]
    expires_in: Value,
    refresh_token: Option<String>,
    scope: Option<String>,
}

impl Client {
    /// Posts a form, in which or with which the client shows who it is.
    pub(super) fn post(&self, endpoint: &str, parameters: &[(&str, &str)]) -> Result<Response> {
        let mut parameters = parameters.to_vec();
        let mut headers = Vec::new();
        let secret = self.secret.as_deref().unwrap_or_default();
        match self.method {
            Method::ClientSecretBasic => {
                let pair = format!("{}:{}", percent::encode(&self.id), percent::encode(secret));
                headers.push(("Authorization", format!("Basic {}", BASE64_STANDARD.encode(pair))));
            }
            Method::ClientSecretPost => parameters.extend([("client_id", &*self.id), ("client_secret", secret)]),
            Method::None => parameters.push(("client_id", &self.id)),
        }
        post_form(endpoint, &headers, &parameters)
    }

    /// The one that the person has registered, or a new one for one login.
    pub(super) fn of(access: &Access, options: &LoginOptions, redirect_uri: Option<&str>) -> Result<Self> {
        let Some(id) = &options.client_id else { return Self::register(access, redirect_uri) };
        let secret = options.client_secret.clone();
        let method = if secret.is_some() { Method::with_secret(&access.server) } else { Method::None };
        Ok(Self { id: id.clone(), secret, method })
    }

    fn register(access: &Access, redirect_uri: Option<&str>) -> Result<Self> {
        let Some(endpoint) = &access.server.registration_endpoint else {
            let host = shown_host(&secure(&access.server.token_endpoint, Reach::ALL)?);
            let (redirect, port) = match redirect_uri {
                Some(uri) => {
                    let port = " (and --port, if the redirect has to be the same each time)";
                    (format!(" with the redirect {uri}"), port)
                }
                None => (String::new(), ""),
            };
            return Err(Error::usage(format!(
                "{host} takes registered clients only: register one there{redirect}, and add --client-id ID{port}"
            )));
        };
        let method = Method::to_register(&access.server);
        let grant = if redirect_uri.is_some() { "authorization_code" } else { device::GRANT };
        let mut wanted = json!({
            "client_name": "polylogue",
            "redirect_uris": redirect_uri.into_iter().collect::<Vec<_>>(),
            "grant_types": [grant, "refresh_token"],
            "response_types": redirect_uri.map(|_| "code").into_iter().collect::<Vec<_>>(),
            "token_endpoint_auth_method": method,
            "application_type": "native",
        });
        if let Some(scope) = &access.scope {
            wanted["scope"] = scope.as_str().into();
        }
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let endpoint = secure(endpoint, Reach::ALL)?.to_string();
        let response = request(&endpoint, &headers, Some(&wanted.to_string()), TIMEOUT)?;
        let registered = json(&response);
        let Some((registered, id)) =
            registered.and_then(|it| Some((it["client_id"].as_str()?.to_owned(), it))).map(|(id, it)| (it, id))
        else {
            let why = refusal(&response);
            return Err(Error::new(ErrorKind::Auth, format!("{endpoint} did not register this program: {why}")));
        };
        let secret = registered["client_secret"].as_str().filter(|secret| !secret.is_empty()).map(str::to_owned);
        let method = match &secret {
            None => Method::None,
            Some(_) => serde_json::from_value(registered["token_endpoint_auth_method"].clone())
                .unwrap_or_else(|_| Method::with_secret(&access.server)),
        };
        Ok(Self { id, secret, method })
    }
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
        }
    }

    fn is_supported(self, server: &AuthorizationServer) -> bool {
        server.token_endpoint_auth_methods_supported.iter().flatten().any(|method| method == self.name())
    }

    /// A program that everybody can read keeps no secret: none, unless that is not supported.
    fn to_register(server: &AuthorizationServer) -> Self {
        let is_unsaid = server.token_endpoint_auth_methods_supported.iter().flatten().next().is_none();
        if is_unsaid || Self::None.is_supported(server) { Self::None } else { Self::with_secret(server) }
    }

    fn with_secret(server: &AuthorizationServer) -> Self {
        let all = [Self::ClientSecretBasic, Self::ClientSecretPost, Self::None];
        all.into_iter().find(|method| method.is_supported(server)).unwrap_or(Self::ClientSecretBasic)
    }
}

impl Login {
    pub(super) fn new(access: Access, client: Client, granted: Granted) -> Self {
        Self {
            client,
            token_endpoint: access.server.token_endpoint,
            resource: access.resource,
            // Unsaid, it is what was asked for (RFC 6749, 5.1).
            scope: granted.scope.clone().or(access.scope),
            expires_at: granted.expires_at(),
            access_token: granted.access_token,
            refresh_token: granted.refresh_token,
        }
    }

    /// Whether the token should be renewed before it is used.
    pub(super) fn is_stale(&self) -> bool {
        self.refresh_token.is_some() && self.ends_within(EARLY)
    }

    pub(super) fn has_expired(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    fn ends_within(&self, span: Duration) -> bool {
        self.expires_at.is_some_and(|end| end <= now() + span.as_secs())
    }

    /// Gets a new token (RFC 6749, 6).
    pub(super) fn renewed(&self) -> Result<Self> {
        let Some(refresh) = &self.refresh_token else {
            return Err(Error::new(ErrorKind::Auth, "it cannot be renewed"));
        };
        let parameters = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("resource", &self.resource)];
        let granted = grant(&self.token_endpoint, &self.client, &parameters)?;
        Ok(Self {
            expires_at: granted.expires_at(),
            access_token: granted.access_token,
            refresh_token: granted.refresh_token.or_else(|| Some(refresh.clone())),
            ..self.clone()
        })
    }
}

impl Granted {
    fn expires_at(&self) -> Option<u64> {
        let of_text = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        self.expires_in.as_u64().or_else(|| of_text(&self.expires_in)).map(|seconds: u64| now().saturating_add(seconds))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Gets the tokens for the code of a redirect.
pub(super) fn exchange(access: &Access, client: &Client, (code, uri, verifier): (&str, &str, &str)) -> Result<Granted> {
    let parameters = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", uri),
        ("code_verifier", verifier),
        ("resource", &access.resource),
    ];
    Ok(grant(&access.server.token_endpoint, client, &parameters)?)
}

/// Why no token was granted.
pub(super) struct Refused {
    /// In the words of the standard (RFC 6749, 5.2; RFC 8628, 3.5), if the server knows them.
    pub(super) code: Option<String>,
    pub(super) error: Error,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { code: None, error }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

pub(super) fn grant(
    endpoint: &str,
    client: &Client,
    parameters: &[(&str, &str)],
) -> std::result::Result<Granted, Refused> {
    let response = client.post(endpoint, parameters)?;
    let granted = json(&response).and_then(|body| serde_json::from_value::<Granted>(body).ok());
    let is_usable = |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let granted =
        granted.filter(|granted| granted.token_type.eq_ignore_ascii_case("bearer") && is_usable(&granted.access_token));
    granted.ok_or_else(|| {
        let code = Refusal::read(&response).map(|refusal| refusal.error);
        // Anything else may be over soon.
        let is_final = code.as_deref().is_some_and(|code| FINAL.contains(&code));
        let kind = if is_final { ErrorKind::Auth } else { ErrorKind::Overloaded };
        Refused { code, error: Error::new(kind, format!("no token was granted: {}", refusal(&response))) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_when_the_server_says() {
        let granted = |expires_in: Value| Granted {
            access_token: "a".into(),
            token_type: "bearer".into(),
            expires_in,
            refresh_token: None,
            scope: None,
        };
        assert_eq!(granted(Value::Null).expires_at(), None);
        for expires_in in [json!(3600), json!("3600")] {
            let left = granted(expires_in).expires_at().unwrap() - now();
            assert!((3590..=3600).contains(&left), "{left}");
        }
    }
}
