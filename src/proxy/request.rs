//! The head of a request to the proxy: `CONNECT host:port`, or a plain one with a whole URL, which is rewritten for the
//! server (RFC 9112, 3.2). Requests that another program could read differently are refused.

use super::body::Body;
use super::head::{Head, Header};
use crate::domain::host::Target;

/// In bytes.
const MAX_HEAD: usize = 64 << 10;

const HTTP_PORT: u16 = 80;

/// Not for the server: about this connection (RFC 9110, 7.6.1), or written again.
const DROPPED: [&str; 8] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "upgrade",
    "proxy-authorization",
    "proxy-authenticate",
    "host",
];

/// A request with the host that it is for.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub target: Target,
    /// `CONNECT`: the data after the head is not inspected.
    pub is_tunnel: bool,
    /// The head for the server, and what of the body came with it.
    pub first: Vec<u8>,
    /// The part of the body that is not yet received.
    pub body: Body,
}

/// The error response to a client that is not served.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: &'static str,
    pub message: String,
}

impl Refusal {
    pub fn forbidden(message: String) -> Self {
        Self { status: "403 Forbidden", message }
    }

    pub fn unreachable(message: String) -> Self {
        Self { status: "502 Bad Gateway", message }
    }

    fn bad(message: &str) -> Self {
        Self { status: "400 Bad Request", message: message.to_owned() }
    }

    pub fn response(&self) -> Vec<u8> {
        let body = format!("polylogue: {}\n", self.message);
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.status,
            body.len()
        );
        (head + &body).into_bytes()
    }
}

impl Request {
    /// Whether [`Request::read`] can find more than before, when everything from `before` on is new.
    pub fn may_be_whole(bytes: &[u8], before: usize) -> bool {
        let new = &bytes[before.saturating_sub(3)..];
        bytes.len() > MAX_HEAD || new.windows(4).any(|four| four == b"\r\n\r\n")
    }

    /// Reads the bytes that a client has sent so far; `None` if the head is not complete.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, Refusal> {
        if bytes.first().is_some_and(|byte| !byte.is_ascii_alphabetic()) {
            return Err(Refusal::bad("this is an HTTP proxy"));
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n").filter(|end| *end <= MAX_HEAD) else {
            let is_too_long = bytes.len() > MAX_HEAD;
            let status = "431 Request Header Fields Too Large";
            let refusal = || Refusal { status, message: format!("the head of the request exceeds {MAX_HEAD} bytes") };
            return if is_too_long { Err(refusal()) } else { Ok(None) };
        };
        let (head, rest) = (&bytes[..end], &bytes[end + 4..]);
        Self::of(&Head::parse(head).map_err(Refusal::bad)?, rest).map(Some)
    }

    fn of(head: &Head<'_>, rest: &[u8]) -> Result<Self, Refusal> {
        let Head { method, target: url, version, headers } = head;
        let (method, url) = (*method, *url);
        if method == "CONNECT" {
            let target = Target::parse(url, None).ok_or_else(|| Refusal::bad("CONNECT needs HOST:PORT"))?;
            return Ok(Self { target, is_tunnel: true, first: rest.to_vec(), body: Body::Endless });
        }
        let (target, path) = parts_of(url)?;
        let mut body = head.body().map_err(Refusal::bad)?;
        let path = if method == "OPTIONS" && path == "/" && !url.ends_with('/') { "*" } else { &path };
        let mut first = head_for_server(method, path, version, &target, headers).into_bytes();
        let count = body.take(rest);
        first.extend_from_slice(&rest[..count]);
        if body == Body::Malformed {
            return Err(Refusal::bad("a chunk of the body is malformed"));
        }
        Ok(Self { target, is_tunnel: false, first, body })
    }
}

/// The host, and the path with the query.
fn parts_of(url: &str) -> Result<(Target, String), Refusal> {
    let scheme = url.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let Some(rest) = scheme.map(|_| &url[7..]) else {
        return Err(Refusal::bad(
            "this is an HTTP proxy: it takes CONNECT, and requests with a URL that begins with http://",
        ));
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let target = Target::parse(authority, Some(HTTP_PORT)).ok_or_else(|| Refusal::bad("the URL has no valid host"))?;
    let path = path.split('#').next().unwrap_or_default();
    Ok((target, if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }))
}

fn head_for_server(method: &str, path: &str, version: &str, target: &Target, headers: &[Header<'_>]) -> String {
    let host = if target.port == HTTP_PORT { target.host.to_string() } else { target.to_string() };
    let mut head = format!("{method} {path} {version}\r\nHost: {host}\r\n");
    let options =
        headers.iter().filter(|header| header.name == "connection").flat_map(|header| header.value.split(','));
    let mut dropped: Vec<String> = options.map(|name| name.trim().to_ascii_lowercase()).collect();
    dropped.extend(DROPPED.map(str::to_owned));
    let is_kept = |header: &&Header<'_>| is_about_body(header) || !dropped.contains(&header.name);
    for header in headers.iter().filter(is_kept) {
        head += header.line;
        head += "\r\n";
    }
    head + "Connection: close\r\n\r\n"
}

fn is_about_body(header: &Header<'_>) -> bool {
    matches!(header.name.as_str(), "content-length" | "transfer-encoding")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Request {
        Request::read(text.as_bytes()).unwrap().expect("a whole head")
    }

    #[test]
    fn connect_is_a_tunnel_to_a_host_and_a_port() {
        let request = read("CONNECT Example.org:443 HTTP/1.1\r\nHost: other\r\n\r\nearly");
        assert_eq!((request.target.to_string().as_str(), request.is_tunnel), ("example.org:443", true));
        assert_eq!((&*request.first, request.body), (&b"early"[..], Body::Endless));
    }

    #[test]
    fn a_plain_request_goes_to_the_host_of_its_url_and_ends_its_connection() {
        let text = "POST http://Example.org:8080?q=1#f HTTP/1.1\r\nHost: other\r\nAccept: */*\r\nConnection: Keep-Alive, x-a\r\n\
                    X-A: 1\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nUpgrade: h2c\r\n\
                    Content-Length: 4\r\n\r\nbodyGET http://other/ HTTP/1.1\r\n\r\n";
        let request = read(text);
        let expected = "POST /?q=1 HTTP/1.1\r\nHost: example.org:8080\r\nAccept: */*\r\nContent-Length: 4\r\n\
                        Connection: close\r\n\r\nbody";
        assert_eq!(String::from_utf8_lossy(&request.first), expected);
        assert_eq!((request.target.to_string().as_str(), request.body), ("example.org:8080", Body::Length(0)));
        let first = |text: &str| String::from_utf8(read(text).first).unwrap();
        assert!(first("GET HTTP://h HTTP/1.0\r\n\r\n").starts_with("GET / HTTP/1.0\r\nHost: h\r\n"));
        assert!(first("OPTIONS http://h HTTP/1.1\r\n\r\n").starts_with("OPTIONS * HTTP/1.1"));
        assert!(first("GET http://[::1]:80/ HTTP/1.1\r\n\r\n").contains("\r\nHost: [::1]\r\n"));
        let kept = first("PUT http://h/ HTTP/1.1\r\nConnection: content-length\r\nContent-Length: 9\r\n\r\n");
        assert!(kept.contains("\r\nContent-Length: 9\r\n"), "{kept}");
        assert_eq!(read("PUT http://h/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n").body, Body::CHUNKED);
    }

    #[test]
    fn a_head_is_read_wherever_it_is_cut() {
        let text = b"CONNECT h:443 HTTP/1.1\r\nA: b\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(Request::read(&text[..end]), Ok(None), "{end}");
        }
        assert!(Request::read(text).unwrap().is_some());
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in [
            "\x16\x03\x01",
            "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET https://h/ HTTP/1.1\r\n\r\n",
            "GET ftp://h/ HTTP/1.1\r\n\r\n",
            "GET http://user@h/ HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET http://h:1:2/ HTTP/1.1\r\n\r\n",
            "GET http://2130706433/ HTTP/1.1\r\n\r\n",
            "GET http://h/ a HTTP/1.1\r\n\r\n",
            "GET http://h/ HTTP/2\r\n\r\n",
            "G(T http://h/ HTTP/1.1\r\n\r\n",
            "CONNECT h HTTP/1.1\r\n\r\n",
            "CONNECT http://h:80 HTTP/1.1\r\n\r\n",
            "GET http://h/ HTTP/1.1\r\nA : b\r\n\r\n",
            "GET http://h/ HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
            "GET http://h/ HTTP/1.1\r\nA: b\nB: c\r\n\r\n",
            "GET http://h/ HTTP/1.1\r\nA: b\rB: c\r\n\r\n",
            "GET http://h/ HTTP/1.1\r\nA: \0\r\n\r\n",
            "PUT http://h/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "PUT http://h/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "PUT http://h/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "PUT http://h/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "PUT http://h/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "PUT http://h/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nnonsense",
        ] {
            let refusal = Request::read(text.as_bytes()).expect_err(text);
            assert_eq!(refusal.status, "400 Bad Request", "{text:?}");
        }
        let long = format!("GET http://h/ HTTP/1.1\r\nA: {}", "a".repeat(MAX_HEAD));
        assert!(Request::read(long.as_bytes()).unwrap_err().status.starts_with("431"));
    }
}
