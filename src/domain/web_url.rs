//! The address of a page. Only URLs with a single reading are accepted, so that the host that is judged is the host
//! that is reached.

use std::fmt;

use crate::domain::host::Target;

/// Of a URL as written, and of its path and query when encoded; in bytes.
pub const MAX_LENGTH: usize = 8 << 10;

/// A URL of `http` or `https`, without a user name and without a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebUrl {
    pub is_https: bool,
    pub target: Target,
    /// Path and query; begins with `/`.
    pub path: String,
}

impl WebUrl {
    /// Parses a URL; without a scheme it is `https`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        require_length(text)?;
        let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("only http and https can be fetched".into()),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        if host.contains('@') {
            return Err("it must not contain a user name or password".into());
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        let target = Target::parse(host, Some(if is_https { 443 } else { 80 })).filter(|_| host.chars().all(is_plain));
        let target = target.ok_or("expected a URL such as https://example.org/page, with the host in ASCII")?;
        Ok(Self { is_https, target, path: encode_path(path)? })
    }
}

/// Fails if a URL is too long.
pub fn require_length(text: &str) -> Result<(), String> {
    if text.len() > MAX_LENGTH { Err(format!("it is longer than {MAX_LENGTH} bytes")) } else { Ok(()) }
}

/// Path and query without the fragment; characters that a URL cannot have are encoded (RFC 3986, 2.1).
pub fn encode_path(path: &str) -> Result<String, String> {
    let path = path.split('#').next().unwrap_or_default();
    let mut encoded = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        encoded.push('/');
    }
    for byte in path.bytes() {
        match byte {
            0..=0x1f | 0x7f => return Err("it contains control characters".into()),
            b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => {
                encoded.push_str(&format!("%{byte:02X}"));
            }
            byte => encoded.push(byte.into()),
        }
    }
    require_length(&encoded)?;
    Ok(encoded)
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.is_https { ("https", 443) } else { ("http", 80) };
        match self.target.port == usual {
            true => write!(f, "{scheme}://{}{}", self.target.host, self.path),
            false => write!(f, "{scheme}://{}{}", self.target, self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        WebUrl::parse(text).map_or_else(|error| error, |url| url.to_string())
    }

    #[test]
    fn a_url_has_one_meaning() {
        for (text, expected) in [
            ("https://Example.org", "https://example.org/"),
            ("example.org/a?b=c#d", "https://example.org/a?b=c"),
            ("http://example.org:80/a b", "http://example.org/a%20b"),
            ("http://example.org:443?x", "http://example.org:443/?x"),
            ("https://[::1]:8080/ä", "https://[::1]:8080/%C3%A4"),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
        for (text, expected) in [
            ("ftp://example.org/", "only http and https"),
            ("file:///etc/passwd", "only http and https"),
            ("https://user:pass@example.org/", "user name"),
            ("https://good.org\\@evil.org/", "user name"),
            ("https://good.org\\.evil.org/", "expected a URL"),
            ("https://0x7f.1/", "expected a URL"),
            ("https://exämple.org/", "expected a URL"),
            ("https:///x", "expected a URL"),
            ("https://example.org/a\nb", "control characters"),
        ] {
            assert!(parsed(text).contains(expected), "{text}: {}", parsed(text));
        }
    }
}
