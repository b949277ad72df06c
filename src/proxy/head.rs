//! The head of an HTTP request (RFC 9112). What another program could read differently is refused.

use super::body::Body;
use crate::domain::http::is_token;

/// The lines before the body.
pub struct Head<'a> {
    pub method: &'a str,
    pub target: &'a str,
    /// `HTTP/1.0` or `HTTP/1.1`.
    pub version: &'a str,
    pub headers: Vec<Header<'a>>,
}

pub struct Header<'a> {
    /// In lower case.
    pub name: String,
    pub value: &'a str,
    pub line: &'a str,
}

impl<'a> Head<'a> {
    /// Reads a head without the empty line after it. An error says what is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let head = std::str::from_utf8(bytes).map_err(|_| "the head of the request is not UTF-8")?;
        let mut lines = head.split("\r\n");
        let is_clean = |line: &str| !line.chars().any(|c| c.is_control() && c != '\t');
        if !lines.clone().all(is_clean) {
            return Err("the head of the request has a control character");
        }
        let mut words = lines.next().unwrap_or_default().split(' ');
        let headers = lines.map(header).collect::<Option<Vec<_>>>().ok_or("a header is malformed")?;
        let (Some(method), Some(target), Some(version @ ("HTTP/1.0" | "HTTP/1.1")), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err("the first line is not METHOD URL HTTP/1.1");
        };
        if !is_token(method) {
            return Err("the method is malformed");
        }
        Ok(Self { method, target, version, headers })
    }

    /// Where the body ends. Two answers to that are one too many: another program might take the other one.
    pub fn body(&self) -> Result<Body, &'static str> {
        let of_name = |name: &'static str| self.headers.iter().filter(move |header| header.name == name);
        let lengths: Vec<&str> = of_name("content-length").map(|header| header.value).collect();
        let codings: Vec<&str> = of_name("transfer-encoding").map(|header| header.value).collect();
        match (&lengths[..], &codings[..]) {
            ([], []) => Ok(Body::Length(0)),
            ([length], []) if length.chars().all(|c| c.is_ascii_digit()) => {
                length.parse().map(Body::Length).map_err(|_| "Content-Length is not a number")
            }
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") && self.version == "HTTP/1.1" => Ok(Body::CHUNKED),
            _ => Err("Content-Length and Transfer-Encoding are repeated, conflicting or not supported"),
        }
    }
}

fn header(line: &str) -> Option<Header<'_>> {
    let (name, value) = line.split_once(':').filter(|(name, _)| is_token(name))?;
    Some(Header { name: name.to_ascii_lowercase(), value: value.trim_matches([' ', '\t']), line })
}
