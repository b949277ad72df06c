//! The options of libcurl's handles.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use curl::easy::{Easy2, HttpVersion, List};
use curl::multi::Multi;
use curl::{Error as CurlError, MultiError};

use super::connection::{Demands, lock};
use super::inbox::Inbox;
use super::network::Network;
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::http::HttpRequest;
use crate::domain::readiness::SocketRequest;

/// How long it may take to connect, including TLS.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const USER_AGENT: &str = concat!("polylogue/", env!("CARGO_PKG_VERSION"));
/// libcurl's minimum: every busy agent has one, and a request is sent in a few portions of it.
const UPLOAD_BUFFER: usize = 16 * 1024;

/// The curl crate panics if a multi handle gets no descriptors, so this checks first that there are some.
pub(super) fn require_descriptors() -> Result<()> {
    let free = [rustix::pipe::pipe(), rustix::pipe::pipe(), rustix::pipe::pipe()];
    match free.iter().all(std::result::Result::is_ok) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::System, "too many open files: raise the limit (ulimit -n)")),
    }
}

/// A multi handle that records its demands.
pub(super) fn new_multi(demands: &Arc<Mutex<Demands>>) -> std::result::Result<Multi, MultiError> {
    let mut multi = Multi::new();
    let shared = Arc::clone(demands);
    multi.socket_function(move |fd, events, _| {
        let request = if events.remove() {
            SocketRequest::Unwatch { fd }
        } else {
            let both = events.input_and_output();
            SocketRequest::Watch { fd, readable: events.input() || both, writable: events.output() || both }
        };
        lock(&shared).sockets.push(request);
    })?;
    let shared = Arc::clone(demands);
    multi.timer_function(move |after| {
        lock(&shared).timer = Some(after);
        true
    })?;
    // An agent has one conversation: a second idle connection would only cost a descriptor.
    multi.set_max_connects(1)?;
    Ok(multi)
}

/// How long a connection may be silent before it is looked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

pub(super) fn prepare(
    request: &HttpRequest,
    network: &Network,
    now: Moment,
) -> std::result::Result<Easy2<Inbox>, CurlError> {
    let mut easy = Easy2::new(Inbox::new(&request.url, request.body.clone()));
    easy.url(&request.url)?;
    if request.body.is_empty() {
        easy.get(true)?;
        // Such a response may say nothing for hours, and its connection may be forgotten on the way.
        easy.tcp_keepalive(true)?;
        easy.tcp_keepidle(KEEPALIVE)?;
        easy.tcp_keepintvl(KEEPALIVE)?;
    } else {
        easy.post(true)?;
        easy.post_field_size(request.body.len() as u64)?;
    }
    let mut headers = header_list(&request.headers)?;
    // Otherwise libcurl waits a second for "100 Continue" before a body of more than 1 MB.
    headers.append("Expect:")?;
    easy.http_headers(headers)?;
    easy.useragent(USER_AGENT)?;
    easy.http_version(HttpVersion::V2TLS)?;
    easy.upload_buffer_size(UPLOAD_BUFFER)?;
    easy.connect_timeout(CONNECT_TIMEOUT)?;
    easy.follow_location(false)?;
    network.apply(&mut easy, &request.url, now)?;
    Ok(easy)
}

pub(super) fn header_list(headers: &[(String, String)]) -> std::result::Result<List, CurlError> {
    let mut list = List::new();
    for (name, value) in headers {
        // With a colon, libcurl leaves a header without a value out.
        let line = if value.is_empty() { format!("{name};") } else { format!("{name}: {value}") };
        list.append(&line)?;
    }
    Ok(list)
}
