//! An HTTP request and the news about its answer, as plain data between providers and the network.

use std::rc::Rc;

/// A `POST` with a JSON body whose answer is read as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Absolute URL, `http` or `https`.
    pub url: String,
    /// Header names and values. May hold credentials: never logged, traced or shown.
    pub headers: Vec<(String, String)>,
    /// The body; shared, so that a retry costs nothing.
    pub body: Rc<[u8]>,
}

/// The status line and the headers that matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpHead {
    /// Status code of the final response; 0 before one came.
    pub status: u16,
    /// `content-type`, lower case, empty if absent.
    pub content_type: String,
    /// `retry-after` in whole seconds (a date is turned into seconds from now), `retry-after-ms` rounded up.
    pub retry_after: Option<u32>,
}
