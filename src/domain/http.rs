//! An HTTP request and the head of its response, as plain data between providers and the network.

use std::rc::Rc;

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
}
