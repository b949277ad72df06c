//! What libcurl says went wrong, in words that name the host and the way out, and never the path or a credential.

use std::time::Duration;

use super::network::is_behind_proxy;
use crate::base::error::{Error, ErrorKind};

/// Puts a libcurl error into words that name the host and the way out, and never the path or a credential. `patience` is
/// how long was waited.
pub fn explain(error: &curl::Error, url: &str, patience: Duration) -> Error {
    let host = host_of(url);
    if error.is_couldnt_resolve_host() {
        return unresolved(url);
    }
    let (kind, words) = if error.is_couldnt_resolve_proxy() {
        (ErrorKind::Network, "the proxy's name cannot be resolved: check HTTPS_PROXY".to_owned())
    } else if error.is_couldnt_connect() {
        (ErrorKind::Network, refused(host, is_behind_proxy()))
    } else if error.is_operation_timedout() {
        (ErrorKind::Timeout, format!("{host} did not answer in {} s", patience.as_secs()))
    } else if error.is_peer_failed_verification() || error.is_ssl_cacert() || error.is_ssl_cacert_badfile() {
        let detail = detail(error);
        (ErrorKind::BadRequest, format!("the certificate of {host} is not trusted ({detail}): see SSL_CERT_FILE"))
    } else if error.is_ssl_connect_error() {
        (ErrorKind::Network, format!("no TLS connection to {host}: is its base URL https, or is it plain http?"))
    } else if error.is_url_malformed() || error.is_unsupported_protocol() {
        (ErrorKind::BadRequest, format!("the base URL is not one ({host}): it must look like https://host/v1"))
    } else if error.is_got_nothing() {
        (ErrorKind::Network, format!("{host} closed the connection without an answer"))
    } else if error.is_partial_file() || error.is_recv_error() || error.is_send_error() {
        (ErrorKind::Network, format!("the connection to {host} broke in the middle"))
    } else {
        (ErrorKind::Network, format!("{host}: {}", detail(error)))
    };
    Error::new(kind, words)
}

/// What libcurl says of this one failure. Its general words for each code are not in the program (see
/// `.cargo/config.toml`), so the codes that may come alone have words here; their numbers are those of `curl.h`.
fn detail(error: &curl::Error) -> String {
    match (error.extra_description(), error.code()) {
        (Some(words), _) => words.to_owned(),
        (None, 8) => "its answer is not HTTP".to_owned(),
        (None, 16 | 92) => "it broke off in the middle of HTTP/2".to_owned(),
        (None, 27) => "there is not enough memory for the connection".to_owned(),
        (None, code) => format!("libcurl ended with error {code}"),
    }
}

/// libcurl does not tell which of the two it could not connect to.
fn refused(host: &str, is_behind_proxy: bool) -> String {
    if is_behind_proxy {
        return format!("{host} or the proxy before it refuses the connection: see HTTPS_PROXY and NO_PROXY");
    }
    format!("{host} refuses the connection: is the server running?")
}

/// The name of the host has no address.
pub fn unresolved(url: &str) -> Error {
    let words = format!("the name {} cannot be resolved: check the base URL and the network", host_of(url));
    Error::new(ErrorKind::Network, words)
}

/// Host and port of a URL, without anything that could be a credential.
pub fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_in_words_holds_no_credential_and_no_path() {
        assert_eq!(host_of("https://user:secret@host:8080/v1/chat?key=secret"), "host:8080");
        assert_eq!(host_of("http://[::1]:80/x"), "[::1]:80");
        assert_eq!(host_of("nonsense"), "nonsense");
    }
    #[test]
    fn what_libcurl_says_is_told_and_where_it_says_nothing_its_code_has_words() {
        let told = |code, extra: Option<&str>| {
            let mut error = curl::Error::new(code);
            extra.into_iter().for_each(|words| error.set_extra(words.to_owned()));
            explain(&error, "https://host/v1", Duration::ZERO).to_string()
        };
        assert_eq!(told(8, Some("Invalid status line")), "host: Invalid status line");
        assert_eq!(told(8, None), "host: its answer is not HTTP");
        assert_eq!(told(16, None), "host: it broke off in the middle of HTTP/2");
        assert_eq!(told(61, None), "host: libcurl ended with error 61");
    }
}
