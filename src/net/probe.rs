//! One blocking request, which checks a server and a key. Never used by the event loop.

use std::time::Duration;

use curl::easy::{Easy2, Handler, WriteError};

use super::messages::curl_error;
use super::setup::{USER_AGENT, header_list};
use super::trust::Trust;
use crate::base::error::Result;

/// Gets a URL, discards the body and returns the status. Blocks for at most `timeout`.
///
/// # Errors
/// There was no response in time. The message names the host and never a credential.
pub fn probe(url: &str, headers: &[(String, String)], timeout: Duration) -> Result<u32> {
    get(url, headers, timeout).map_err(|error| curl_error(&error, url, timeout))
}

fn get(url: &str, headers: &[(String, String)], timeout: Duration) -> std::result::Result<u32, curl::Error> {
    let mut easy = Easy2::new(Discard);
    easy.url(url)?;
    easy.http_headers(header_list(headers)?)?;
    easy.useragent(USER_AGENT)?;
    easy.timeout(timeout)?;
    // A key must not be sent to the target of a redirect.
    easy.follow_location(false)?;
    // libcurl must not use signals for its timeout in a program with threads.
    easy.signal(false)?;
    Trust::probe().apply(&mut easy)?;
    easy.perform()?;
    easy.response_code()
}

struct Discard;

impl Handler for Discard {
    fn write(&mut self, bytes: &[u8]) -> std::result::Result<usize, WriteError> {
        Ok(bytes.len())
    }
}
