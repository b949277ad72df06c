//! Name resolution on a thread, because the system's resolver blocks and cannot be interrupted.

use std::net::ToSocketAddrs;
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::job::{Job, JobThread};

/// Addresses in libcurl's notation.
pub type Addresses = std::result::Result<Vec<String>, NoAddress>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAddress {
    /// The name does not exist.
    Unknown,
    /// No name server answered, or the name has no address at present.
    Unavailable,
}

pub struct Lookup {
    host: String,
    thread: JobThread<Addresses>,
}

impl Lookup {
    /// Looks up `host:port`. `wake` is called on the thread when the result is there.
    pub fn start(host: String, wake: Arc<dyn Fn() + Send + Sync>) -> Result<Self> {
        let name = host.clone();
        let thread = JobThread::spawn("name lookup".into(), move |_: &Job| Ok(addresses(&name)), wake);
        let thread = thread.map_err(|error| error.context(format!("cannot look up {host}")))?;
        Ok(Self { host, thread })
    }

    /// `host:port`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The addresses, once they are there. Returned once.
    pub fn take_result(&self) -> Option<Addresses> {
        Some(self.thread.take()?.unwrap_or(Err(NoAddress::Unavailable)))
    }
}

fn addresses(host: &str) -> Addresses {
    let mut found = Vec::new();
    for address in host.to_socket_addrs().map_err(|error| reason(&error))? {
        let text = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
        if !found.contains(&text) {
            found.push(text);
        }
    }
    if found.is_empty() { Err(NoAddress::Unavailable) } else { Ok(found) }
}

/// The messages of `getaddrinfo` for a name that does not exist: glibc, musl, macOS. The standard library gives no
/// code.
const UNKNOWN: &[&str] = &["Name or service not known", "Name does not resolve", "nodename nor servname provided"];

fn reason(error: &std::io::Error) -> NoAddress {
    let text = error.to_string();
    if UNKNOWN.iter().any(|mark| text.contains(mark)) { NoAddress::Unknown } else { NoAddress::Unavailable }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn look_up(host: &str) -> Addresses {
        let (woken, wakes) = mpsc::channel();
        let wake = Arc::new(move || woken.send(()).unwrap());
        let lookup = Lookup::start(host.into(), wake).unwrap();
        wakes.recv().unwrap();
        assert_eq!(lookup.host(), host);
        lookup.take_result().expect("the result is there before the loop is woken")
    }

    #[test]
    fn a_name_server_that_does_not_answer_says_nothing_of_the_name() {
        let failed =
            |text: &str| reason(&std::io::Error::other(format!("failed to lookup address information: {text}")));
        assert_eq!(failed("Temporary failure in name resolution"), NoAddress::Unavailable);
        assert_eq!(failed("Name or service not known"), NoAddress::Unknown);
    }

    #[test]
    fn addresses_are_in_libcurls_notation_and_an_unknown_name_is_known_as_such() {
        let found = look_up("localhost:80").expect("addresses");
        assert!(
            !found.is_empty() && found.iter().all(|address| address == "127.0.0.1" || address == "[::1]"),
            "{found:?}"
        );
        // A label of more than 63 bytes is invalid (RFC 1035, 2.3.4), so no name server is asked.
        assert_eq!(look_up(&format!("{}.invalid:80", "x".repeat(64))), Err(NoAddress::Unknown));
    }
}
