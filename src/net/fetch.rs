//! A small document that belongs to no agent, such as the list of a server's models. libcurl waits for it on a thread.

use std::sync::Arc;
use std::time::Duration;

use curl::easy::{Easy2, Handler, WriteError};

use super::inbox::read_header;
use super::messages::curl_error;
use super::setup::{USER_AGENT, header_list};
use super::trust::Trust;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::job::{Job, JobThread};
use crate::domain::http::HttpHead;

/// The largest document; the longest known list of models has a megabyte.
const MAX_BYTES: usize = 8 << 20;

/// The status and the body of a response.
pub type Fetched = (u16, Vec<u8>);

/// A response, for those who need more of it.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// `WWW-Authenticate`; empty if absent.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code))]
    pub(super) challenge: String,
}

/// A request that is on its way.
pub struct Fetch(JobThread<Result<Fetched>>);

impl Fetch {
    /// Begins to get a URL, or to post JSON to it. `wake` is called on the thread when the result is there.
    pub fn start(
        url: String,
        headers: Vec<(String, String)>,
        body: Option<String>,
        timeout: Duration,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self> {
        let work = move |_: &Job| Ok(fetch(&url, &headers, body.as_deref(), timeout));
        JobThread::spawn("fetch".into(), work, wake).map(Self)
    }

    /// The result, once it is there. Returned once.
    pub fn take_result(&self) -> Option<Result<Fetched>> {
        Some(self.0.take()?.unwrap_or_else(|why| Err(Error::new(ErrorKind::System, why))))
    }
}

/// Gets a URL, or posts JSON to it. Blocks for at most `timeout`.
///
/// # Errors
/// There was no response in time, or it is too large. The message names the host and never a credential.
pub fn fetch(url: &str, headers: &[(String, String)], json: Option<&str>, timeout: Duration) -> Result<Fetched> {
    request(url, headers, json, timeout).map(|response| (response.status, response.body))
}

/// The same, with any kind of body.
pub(super) fn request(
    url: &str,
    headers: &[(String, String)],
    body: Option<&str>,
    timeout: Duration,
) -> Result<Response> {
    let (status, body) = get(url, headers, body, timeout).map_err(|error| curl_error(&error, url, timeout))?;
    if body.is_cut {
        return Err(Error::new(ErrorKind::Protocol, "the server's answer is too large"));
    }
    Ok(Response { status, body: body.bytes, challenge: body.head.challenge })
}

fn get(
    url: &str,
    headers: &[(String, String)],
    body: Option<&str>,
    timeout: Duration,
) -> std::result::Result<(u16, Body), curl::Error> {
    let mut easy = Easy2::new(Body::default());
    easy.url(url)?;
    if let Some(body) = body {
        easy.post_fields_copy(body.as_bytes())?;
    }
    easy.http_headers(header_list(headers)?)?;
    easy.useragent(USER_AGENT)?;
    easy.timeout(timeout)?;
    // A key must not be sent to the target of a redirect.
    easy.follow_location(false)?;
    // libcurl must not use signals for its timeout in a program with threads.
    easy.signal(false)?;
    Trust::probe().apply(&mut easy)?;
    easy.perform()?;
    let status = u16::try_from(easy.response_code()?).unwrap_or_default();
    Ok((status, std::mem::take(easy.get_mut())))
}

#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    is_cut: bool,
    head: HttpHead,
}

impl Handler for Body {
    fn header(&mut self, line: &[u8]) -> bool {
        read_header(&mut self.head, &String::from_utf8_lossy(line));
        true
    }

    fn write(&mut self, bytes: &[u8]) -> std::result::Result<usize, WriteError> {
        self.is_cut |= self.bytes.len() + bytes.len() > MAX_BYTES;
        if !self.is_cut {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }
}
