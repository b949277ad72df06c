//! A login with a code that the person enters on any machine (RFC 8628), for machines without a browser.

use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::discovery::Access;
use super::tokens::{Client, Granted, grant};
use super::{Reach, json, refusal, secure, too_late};
use crate::base::error::{Error, ErrorKind, Result};

pub(super) const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Between two questions whether the person has agreed (RFC 8628, 3.2), and how much longer if that is too often (3.5).
const USUAL_INTERVAL: u64 = 5;
const LONGEST_INTERVAL: u64 = 60;
/// How long a code counts at most, in seconds.
const LONGEST: u64 = 3600;
const SLOWER: Duration = Duration::from_secs(5);

/// The answer of the server (RFC 8628, 3.2).
#[derive(Deserialize)]
pub(super) struct Device {
    device_code: String,
    pub(super) user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    /// In seconds.
    expires_in: u64,
    interval: Option<u64>,
}

/// Where such a login begins.
pub(super) fn endpoint(access: &Access) -> Result<&str> {
    let endpoint = access.server.device_authorization_endpoint.as_deref();
    endpoint.ok_or_else(|| Error::usage("the server offers no login by a code: leave out --device"))
}

impl Device {
    pub(super) fn begin(access: &Access, endpoint: &str, client: &Client) -> Result<Self> {
        let mut parameters = vec![("resource", &*access.resource)];
        parameters.extend(access.scope.iter().map(|scope| ("scope", &**scope)));
        let response = client.post(endpoint, &parameters)?;
        let device: Option<Self> = json(&response).and_then(|body| serde_json::from_value(body).ok());
        let device = device.ok_or_else(|| Error::new(ErrorKind::Auth, format!("no code: {}", refusal(&response))))?;
        secure(device.url(), Reach::ALL)?;
        Ok(device)
    }

    /// What the person opens.
    pub(super) fn url(&self) -> &str {
        self.verification_uri_complete.as_deref().unwrap_or(&self.verification_uri)
    }

    /// Asks until the person has agreed or declined.
    pub(super) fn wait(&self, access: &Access, client: &Client) -> Result<Granted> {
        let until = Instant::now() + Duration::from_secs(self.expires_in.min(LONGEST));
        let mut interval = Duration::from_secs(self.interval.unwrap_or(USUAL_INTERVAL).clamp(1, LONGEST_INTERVAL));
        let parameters = [("grant_type", GRANT), ("device_code", &self.device_code), ("resource", &access.resource)];
        loop {
            thread::sleep(interval);
            let refused = match grant(&access.server.token_endpoint, client, &parameters) {
                Ok(granted) => return Ok(granted),
                Err(refused) => refused,
            };
            match refused.code.as_deref() {
                _ if Instant::now() >= until => {
                    return Err(too_late());
                }
                Some("slow_down") => interval += SLOWER,
                Some("authorization_pending") => {}
                _ if refused.error.kind.is_transient() => {}
                _ => return Err(refused.error),
            }
        }
    }
}
