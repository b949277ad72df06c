//! An HTTP request and the head of its response, as plain data between providers and the network.

use std::rc::Rc;
use std::time::Duration;

/// A `POST` with a JSON body, or a `GET` if the body is empty; the response is streamed.
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
    /// `x-ratelimit-limit-requests` and the like: how many requests are accepted after a pause.
    pub requests_limit: Option<u32>,
    /// `mcp-session-id`: the session that an MCP server has begun.
    pub mcp_session: Option<String>,
    /// `www-authenticate`: what a request needs that was refused; empty if absent.
    pub challenge: String,
    /// `x-ratelimit-reset-requests` and the like: when it would take that many again.
    pub reset_in: Option<Duration>,
}

impl HttpHead {
    /// How long the server refuses requests, if it takes no other now. After it has accepted one this is the time until the
    /// next one of a limit that is replenished steadily (OpenAI, Groq); after a refusal, all of the time.
    pub fn exhausted_for(&self) -> Option<Duration> {
        let reset_in = self.reset_in.filter(|_| self.requests_left == Some(0))?;
        let limit = if self.status < 300 { self.requests_limit } else { None };
        Some(reset_in / limit.unwrap_or(1).max(1))
    }
}

/// Whether it is a token of RFC 9110, section 5.6.2, such as the name of a header.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_limit_is_replenished_steadily_until_the_server_refuses() {
        let head = |status, requests_left, requests_limit| HttpHead {
            status,
            requests_left,
            requests_limit,
            reset_in: Some(Duration::from_secs(60)),
            ..HttpHead::default()
        };
        assert_eq!(head(200, Some(0), Some(20)).exhausted_for(), Some(Duration::from_secs(3)));
        assert_eq!(head(200, Some(0), Some(0)).exhausted_for(), Some(Duration::from_secs(60)));
        assert_eq!(head(200, Some(0), None).exhausted_for(), Some(Duration::from_secs(60)));
        assert_eq!(head(429, Some(0), Some(20)).exhausted_for(), Some(Duration::from_secs(60)));
        assert_eq!(head(200, Some(1), Some(20)).exhausted_for(), None);
    }
}
