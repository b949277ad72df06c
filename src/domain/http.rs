//! An HTTP request and the head of its response, as plain data between providers and the network.

use std::rc::Rc;
use std::time::Duration;

/// A `POST` with a JSON body and a streamed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Absolute URL, `http` or `https`.
    pub url: String,
    /// Header names and values. May hold credentials: never logged, traced or shown.
    pub headers: Vec<(String, String)>,
    /// The body; shared, so that a retry does not copy it.
    pub body: Rc<[u8]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpHead {
    /// The status code of the final response; 0 before it is received.
    pub status: u16,
    /// `content-type`, lower case, empty if absent.
    pub content_type: String,
    /// `retry-after` in whole seconds (a date is converted), or `retry-after-ms` rounded up.
    pub retry_after: Option<u32>,
    /// `x-ratelimit-remaining-requests` and the like: how many more requests the server would take now.
    pub requests_left: Option<u64>,
    /// `x-ratelimit-reset-requests` and the like: when it takes more.
    pub reset_in: Option<Duration>,
}

impl HttpHead {
    /// How long the server would refuse requests, if it takes no other now.
    pub fn exhausted_for(&self) -> Option<Duration> {
        self.reset_in.filter(|_| self.requests_left == Some(0))
    }
}
