//! Receives one web page, driven by the loop. Its size and the time for it are bounded.

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curl::MultiError;
use curl::easy::{Easy2, Handler, HttpVersion, List, WriteError};
use curl::multi::{Easy2Handle, Events, Multi};

use super::connection::{Demands, lock};
use super::messages::curl_error;
use super::network::Network;
use super::setup::{USER_AGENT, new_multi, require_descriptors};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::readiness::{Readiness, SocketRequest};

/// A response, as far as received.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    /// `content-type`; empty if absent.
    pub content_type: String,
    /// `location`, of a redirect.
    pub location: Option<String>,
    /// The body, decompressed.
    pub body: Vec<u8>,
    /// There was more, or it did not come in time.
    pub is_cut: bool,
    most: usize,
}

/// How a page is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Through the proxy with this URL. It decides what may be reached.
    Proxy(String),
    /// By connecting to one of these addresses of the host, at least one.
    Direct(Vec<IpAddr>),
}

/// A transfer. After each call, its socket requests have to be carried out.
pub struct Download {
    // Fields are dropped in this order: a transfer must not outlive its multi handle.
    live: Option<Easy2Handle<Page>>,
    multi: Option<Multi>,
    demands: Arc<Mutex<Demands>>,
    timer: Option<Moment>,
    outcome: Option<Result<Page>>,
    url: String,
    timeout: Duration,
}

impl Download {
    /// Begins to get a URL by this route and no other: libcurl reads no proxy from the environment, and does not look up a
    /// host that is reached directly. `host` is `HOST:PORT` of the URL.
    pub fn start(
        url: &str,
        (host, route): (&str, &Route),
        (most, timeout): (usize, Duration),
        network: &Network,
        now: Moment,
    ) -> Result<Self> {
        require_descriptors()?;
        let easy = prepare(url, (host, route), (most, timeout), network);
        let easy = easy.map_err(|error| curl_error(&error, url, timeout))?;
        let demands = Arc::default();
        let multi = new_multi(&demands).map_err(system_error)?;
        let live = Some(multi.add2(easy).map_err(system_error)?);
        let (multi, url) = (Some(multi), url.to_owned());
        let mut download = Self { live, multi, demands, timer: None, outcome: None, url, timeout };
        download.update(now);
        Ok(download)
    }

    /// A socket is ready.
    pub fn on_socket(&mut self, fd: RawFd, readiness: Readiness, now: Moment) {
        let mut events = Events::new();
        events.input(readiness.readable).output(readiness.writable).error(readiness.error);
        // An error means that the descriptor is not this handle's any more: the event is stale.
        self.multi.iter().for_each(|multi| drop(multi.action(fd, &events)));
        self.update(now);
    }

    /// Must be called at the time of [`Download::timer`].
    pub fn on_timer(&mut self, now: Moment) {
        if self.timer.is_some_and(|due| due <= now) {
            self.timer = None;
            self.multi.iter().for_each(|multi| drop(multi.timeout()));
            self.update(now);
        }
    }

    /// When [`Download::on_timer`] must be called.
    pub fn timer(&self) -> Option<Moment> {
        self.timer
    }

    /// Changes to the watched descriptors, to be carried out in order.
    pub fn take_socket_requests(&mut self) -> Vec<SocketRequest> {
        std::mem::take(&mut lock(&self.demands).sockets)
    }

    /// The page, once the transfer has ended. Returned once.
    pub fn take_outcome(&mut self) -> Option<Result<Page>> {
        self.outcome.take()
    }

    /// Ends the transfer and closes its connection.
    pub fn close(&mut self) {
        if let (Some(live), Some(multi)) = (self.live.take(), &self.multi) {
            drop(multi.remove2(live));
        }
        self.multi = None;
        self.timer = None;
    }

    fn update(&mut self, now: Moment) {
        self.check_end();
        if let Some(timer) = lock(&self.demands).timer.take() {
            self.timer = timer.map(|after| now + after);
        }
    }

    fn check_end(&mut self) {
        let (Some(multi), Some(live)) = (&self.multi, &self.live) else { return };
        let mut outcome = None;
        multi.messages(|message| outcome = message.result_for2(live).or(outcome.take()));
        let Some(outcome) = outcome else { return };
        let Some(Ok(mut easy)) = self.live.take().map(|live| multi.remove2(live)) else { return };
        let mut page = std::mem::take(easy.get_mut());
        self.outcome = Some(match outcome {
            Ok(()) => Ok(page),
            Err(_) if page.is_cut => Ok(page),
            Err(error) if error.is_operation_timedout() && !page.body.is_empty() => {
                page.is_cut = true;
                Ok(page)
            }
            Err(error) => Err(curl_error(&error, &self.url, self.timeout)),
        });
    }
}

fn prepare(
    url: &str,
    (host, route): (&str, &Route),
    (most, timeout): (usize, Duration),
    network: &Network,
) -> std::result::Result<Easy2<Page>, curl::Error> {
    let mut easy = Easy2::new(Page { most, ..Page::default() });
    easy.url(url)?;
    easy.useragent(USER_AGENT)?;
    let mut headers = List::new();
    headers.append("Accept: text/markdown, text/html;q=0.9, text/plain;q=0.9, */*;q=0.5")?;
    easy.http_headers(headers)?;
    // Everything that this libcurl can decompress. The limits count the decompressed data.
    easy.accept_encoding("")?;
    easy.http_version(HttpVersion::V2TLS)?;
    easy.timeout(timeout)?;
    easy.follow_location(false)?;
    network.trust(&mut easy)?;
    match route {
        Route::Proxy(proxy) => {
            easy.proxy(proxy)?;
            // An empty text is not the same as none: without one, libcurl reads the environment. The same below.
            easy.noproxy("")?;
        }
        Route::Direct(addresses) => {
            easy.proxy("")?;
            let written = addresses.iter().map(|address| match address {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            });
            let mut known = List::new();
            known.append(&format!("{host}:{}", written.collect::<Vec<_>>().join(",")))?;
            easy.resolve(known)?;
        }
    }
    Ok(easy)
}

impl Handler for Page {
    fn write(&mut self, data: &[u8]) -> std::result::Result<usize, WriteError> {
        let count = data.len().min(self.most - self.body.len());
        self.body.extend_from_slice(&data[..count]);
        // A smaller number than was given ends the transfer (CURLOPT_WRITEFUNCTION(3)).
        self.is_cut |= count < data.len();
        Ok(count)
    }

    fn header(&mut self, data: &[u8]) -> bool {
        let line = String::from_utf8_lossy(data);
        if line.starts_with("HTTP/") {
            // The last head counts: others are of a proxy, or of 100 Continue.
            let status = line.split_ascii_whitespace().nth(1).and_then(|code| code.parse().ok());
            *self = Self { status: status.unwrap_or(0), most: self.most, ..Self::default() };
        } else if let Some((name, value)) = line.split_once(':') {
            match name.trim().to_ascii_lowercase().as_str() {
                "content-type" => self.content_type = value.trim().to_owned(),
                "location" => self.location = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        true
    }
}

fn system_error(error: MultiError) -> Error {
    Error::new(ErrorKind::System, error.to_string())
}
