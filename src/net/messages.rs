//! Error messages for libcurl's errors. They name the host and what to do, and never a path or a credential.

use std::time::Duration;

use super::lookup::NoAddress;
use super::network::is_behind_proxy;
use super::url::host_of;
use crate::base::error::{Error, ErrorKind};

/// `timeout` is how long the caller waited.
pub(super) fn curl_error(error: &curl::Error, url: &str, timeout: Duration) -> Error {
    let host = host_of(url);
    if error.is_couldnt_resolve_host() {
        return unresolved(url, NoAddress::Unavailable);
    }
    let (kind, message) = if error.is_couldnt_resolve_proxy() {
        (ErrorKind::Network, "cannot resolve the proxy: check HTTPS_PROXY".to_owned())
    } else if error.is_couldnt_connect() {
        (ErrorKind::Network, refusal_message(host, is_behind_proxy()))
    } else if error.is_operation_timedout() {
        (ErrorKind::Timeout, format!("no response from {host} within {} s", timeout.as_secs()))
    } else if error.is_peer_failed_verification() || error.is_ssl_cacert() || error.is_ssl_cacert_badfile() {
        let detail = detail(error);
        (ErrorKind::BadRequest, format!("the certificate of {host} is not trusted ({detail}): see SSL_CERT_FILE"))
    } else if error.is_ssl_connect_error() {
        // The handshake of a server of plain HTTP fails again. A connection that was lost in the handshake may not.
        let is_plain = ["wrong version number", "InvalidContentType", "packet length too long", "http request"];
        let is_plain = is_plain.iter().any(|mark| detail(error).contains(mark));
        (
            if is_plain { ErrorKind::BadRequest } else { ErrorKind::Network },
            format!(
                "cannot establish a TLS connection to {host}: check whether the base URL begins with https or http"
            ),
        )
    } else if error.is_url_malformed() || error.is_unsupported_protocol() {
        (ErrorKind::BadRequest, format!("invalid base URL ({host}): it must look like https://host/v1"))
    } else if error.is_got_nothing() {
        (ErrorKind::Network, format!("{host} closed the connection without a response"))
    } else if error.is_partial_file() || error.is_recv_error() || error.is_send_error() {
        (ErrorKind::Network, format!("the connection to {host} was lost"))
    } else {
        (ErrorKind::Network, format!("{host}: {}", detail(error)))
    };
    Error::new(kind, message)
}

/// libcurl's message for this failure, or else its general one for the code.
fn detail(error: &curl::Error) -> &str {
    error.extra_description().unwrap_or_else(|| error.description())
}

/// libcurl does not say which of the two it could not connect to.
fn refusal_message(host: &str, is_behind_proxy: bool) -> String {
    if is_behind_proxy {
        return format!("{host} or its proxy refused the connection: check HTTPS_PROXY and NO_PROXY");
    }
    format!("{host} refused the connection: is the server running?")
}

/// The name of the host has no address. A name that does not exist is not looked up again.
pub(super) fn unresolved(url: &str, reason: NoAddress) -> Error {
    let (kind, what) = match reason {
        NoAddress::Unknown => (ErrorKind::BadRequest, "there is no such host; check the base URL"),
        NoAddress::Unavailable => (ErrorKind::Network, "check the base URL and the network"),
    };
    Error::new(kind, format!("cannot resolve {}: {what}", host_of(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_libcurls_own_message_or_that_of_its_code() {
        let message = |code, extra: Option<&str>| {
            let mut error = curl::Error::new(code);
            extra.into_iter().for_each(|text| error.set_extra(text.to_owned()));
            curl_error(&error, "https://host/v1", Duration::ZERO).to_string()
        };
        assert_eq!(message(8, Some("Invalid status line")), "host: Invalid status line");
        assert_eq!(message(8, None), "host: Weird server reply");
        assert_eq!(message(16, None), "host: Error in the HTTP2 framing layer");
    }
}
