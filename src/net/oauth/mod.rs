//! Logins at MCP servers over HTTP: OAuth 2.1 with PKCE, as MCP 2025-11-25, "Authorization", has it.
//!
//! ```text
//!   server ──401──▶ metadata of the server ─▶ metadata of who grants access ─▶ registration
//!                   (RFC 9728)                (RFC 8414)                        (RFC 7591)
//!   browser ─▶ the person agrees ─▶ redirect to this machine ─▶ tokens ─▶ file, readable by its owner only
//! ```
//!
//! A person starts a login in a shell, where waiting is no harm. The loop only asks [`Logins::token`] on a thread, which
//! renews a token that has expired. A token is sent to the server that it was granted for and to nothing else.

mod device;
mod discovery;
mod logins;
mod redirect;
mod tokens;

use std::io::Read;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::base::digest::{Digest as _, Sha256};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::percent;
use crate::domain::mcp::{is_http, without_secrets};
use crate::domain::web_url::WebUrl;

use super::fetch::{Response, request};
use device::Device;
use discovery::Access;
pub use discovery::scope_in;
pub use logins::Logins;
use redirect::Redirect;
use tokens::{Client, Login};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long the person has for the login in the browser.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a person may want to say about a login.
#[derive(Default)]
pub struct LoginOptions {
    /// What is asked for besides what the present login may do, instead of what the server says.
    pub scope: Option<String>,
    /// A client that is registered already, instead of a new one.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<String>,
    /// Who grants access, if its metadata name another one than the server does.
    pub issuer: Option<String>,
    /// Whether the person has a browser; otherwise a code is entered on another machine.
    pub has_browser: bool,
    /// The port of the redirect, which the registration of a client may name; 0: any.
    pub port: u16,
}

/// A login that waits for the person.
pub struct PendingLogin {
    access: Access,
    client: Client,
    way: Way,
    /// What the person opens in a browser.
    pub url: String,
    /// What is entered there, on any machine; `None` if the browser comes back to this one.
    pub code: Option<String>,
    /// Who grants access, and who gives the tokens if that is another host.
    pub hosts: Vec<String>,
    pub scope: Option<String>,
}

enum Way {
    Browser { redirect: Redirect, state: String, verifier: String },
    Device(Device),
}

impl PendingLogin {
    /// Finds out who grants access to the server with this URL, and registers there. `None` if no login is needed.
    ///
    /// # Errors
    /// The server or the other one does not answer as the standards say, or offers nothing that this program can do.
    pub fn begin(url: &str, options: &LoginOptions, logins: &Logins) -> Result<Option<Self>> {
        let Some(mut access) = discovery::find(url, options.issuer.as_deref())? else { return Ok(None) };
        // Before the person has gone through it in vain.
        logins.require_usable()?;
        if let Some(wanted) = &options.scope {
            // Servers name only what is missing.
            let earlier = logins.scope(url).unwrap_or_default();
            let more = wanted.split(' ').filter(|word| !earlier.split(' ').any(|known| known == *word));
            let words: Vec<&str> = earlier.split(' ').chain(more).filter(|word| !word.is_empty()).collect();
            access.scope = access.server.with_renewal(Some(words.join(" ")));
        }
        let (client, way, url) = match options.has_browser {
            true => in_browser(&access, options)?,
            false => on_device(&access, options)?,
        };
        let mut hosts = vec![shown_host(&secure(&url, Reach::ALL)?)];
        hosts.push(shown_host(&secure(&access.server.token_endpoint, Reach::ALL)?));
        hosts.dedup();
        let (scope, code) = (access.scope.clone(), way.user_code());
        Ok(Some(Self { access, client, way, url, code, hosts, scope }))
    }

    /// Waits until the person has agreed, and gets the tokens. The address that the browser ends at can also come from `input`.
    ///
    /// # Errors
    /// The person declined, did not come in time, or the tokens were refused.
    pub fn finish(self, logins: &Logins, server: &str, input: impl Read + AsFd) -> Result<()> {
        let Self { access, client, way, .. } = self;
        let granted = match way {
            Way::Device(device) => device.wait(&access, &client)?,
            Way::Browser { redirect, state, verifier } => {
                let issuer = access.server.issuer();
                let code = redirect.wait(&state, issuer, Instant::now() + PATIENCE, input)?;
                tokens::exchange(&access, &client, (&code, &redirect.uri(), &verifier))?
            }
        };
        logins.store(server, Some(Login::new(access, client, granted)))
    }
}

impl Way {
    fn user_code(&self) -> Option<String> {
        match self {
            Self::Browser { .. } => None,
            Self::Device(device) => Some(device.user_code.clone()),
        }
    }
}

/// The client of a login, how it goes on, and the address for the person.
type Begun = (Client, Way, String);

fn in_browser(access: &Access, options: &LoginOptions) -> Result<Begun> {
    let redirect = Redirect::listen(options.port)?;
    let redirect_uri = redirect.uri();
    let client = Client::of(access, options, Some(&redirect_uri))?;
    let (state, verifier) = (random(), random());
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let mut query = vec![
        ("response_type", "code"),
        ("client_id", &client.id),
        ("redirect_uri", &redirect_uri),
        ("state", &state),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", &access.resource),
    ];
    query.extend(access.scope.iter().map(|scope| ("scope", &**scope)));
    let endpoint = secure(&access.server.authorization_endpoint, Reach::ALL)?;
    let separator = if endpoint.path.contains('?') { '&' } else { '?' };
    let url = format!("{endpoint}{separator}{}", form(&query));
    Ok((client, Way::Browser { redirect, state, verifier }, url))
}

fn on_device(access: &Access, options: &LoginOptions) -> Result<Begun> {
    let endpoint = device::endpoint(access)?;
    let client = Client::of(access, options, None)?;
    let device = Device::begin(access, endpoint, &client)?;
    let url = device.url().to_owned();
    Ok((client, Way::Device(device), url))
}

/// 64 hexadecimal digits, of which 244 bits are random.
fn random() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// A query or a form.
fn form(parameters: &[(&str, &str)]) -> String {
    let pairs = parameters.iter().map(|(name, value)| format!("{name}={}", percent::encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// A host, without the usual port.
fn shown_host(url: &WebUrl) -> String {
    let shown = WebUrl { path: String::new(), ..url.clone() }.to_string();
    shown.split_once("://").map_or("", |(_, host)| host).to_owned()
}

/// What may be connected for a login.
#[derive(Clone, Copy)]
struct Reach {
    /// Another machine must not aim requests at this one.
    includes_this_machine: bool,
}

impl Reach {
    const ALL: Self = Self { includes_this_machine: true };
}

/// The URL, if it may be connected and nobody else can read what is sent there.
fn secure(url: &str, reach: Reach) -> Result<WebUrl> {
    let refused = |why: &str| {
        Error::new(ErrorKind::Protocol, format!("{:?} cannot be used for a login: {why}", without_secrets(url)))
    };
    let parsed = WebUrl::parse(url).map_err(|why| refused(&why))?;
    let is_local = parsed.target.is_loopback();
    match parsed.is_https || is_local {
        // A URL without a scheme means something else to libcurl.
        _ if !is_http(url) => Err(refused("it does not begin with https://")),
        _ if is_local && !reach.includes_this_machine => Err(refused("it is a place of this machine")),
        false => Err(refused("it is not https")),
        true => Ok(parsed),
    }
}

/// The JSON of a successful response.
fn json(response: &Response) -> Option<Value> {
    let is_success = (200..300).contains(&response.status);
    is_success.then(|| serde_json::from_slice(&response.body).ok()).flatten()
}

/// Why a request was refused, in the words of the standard (RFC 6749, 5.2).
#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
}

impl Refusal {
    fn read(response: &Response) -> Option<Self> {
        serde_json::from_slice(&response.body).ok()
    }
}

fn refusal(response: &Response) -> String {
    let status = response.status;
    let Some(Refusal { error, error_description }) = Refusal::read(response) else { return format!("HTTP {status}") };
    let more = error_description.map(|more| format!(": {more}")).unwrap_or_default();
    format!("{error}{more} (HTTP {status})")
}

fn too_late() -> Error {
    Error::new(ErrorKind::Timeout, "the login was not completed in time: try again")
}

fn post_form(url: &str, headers: &[(&str, String)], parameters: &[(&str, &str)]) -> Result<Response> {
    let url = secure(url, Reach::ALL)?.to_string();
    let fixed = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")];
    let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    request(&url, &headers.chain(fixed).collect::<Vec<_>>(), Some(&form(parameters)), TIMEOUT)
}
