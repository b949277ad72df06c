//! What all connections share: whose certificates are trusted, and the addresses of hosts that were reached before.
//!
//! libcurl resolves names in a thread of each multi handle; with a handle an agent, five hundred agents that start on
//! one host would start a thousand threads. So an address that one agent has reached is handed to the others.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use curl::easy::{Easy2, List};

use super::{Inbox, Trust};
use crate::base::clock::Moment;

/// How long an address is believed. The system's resolver does not tell a record's own time to live.
const BELIEVED: Duration = Duration::from_secs(60);

/// What all connections share.
#[derive(Default)]
pub struct Network {
    trust: OnceCell<Trust>,
    is_behind_proxy: OnceCell<bool>,
    /// By `host:port`: the address and until when it is believed.
    addresses: RefCell<HashMap<String, (String, Moment)>>,
}

impl Network {
    pub(super) fn apply(&self, easy: &mut Easy2<Inbox>, url: &str, now: Moment) -> Result<(), curl::Error> {
        self.trust.get_or_init(Trust::probe).apply(easy)?;
        let host = authority_with_port(url);
        let addresses = self.addresses.borrow();
        let Some((address, _)) = host.as_ref().and_then(|host| addresses.get(host)).filter(|(_, until)| now < *until)
        else {
            return Ok(());
        };
        let mut known = List::new();
        // With a plus the entry expires like one that libcurl has resolved itself.
        known.append(&format!("+{}:{address}", host.unwrap_or_default()))?;
        easy.resolve(known)
    }

    /// A connection to this URL's host came about at this address.
    pub(super) fn learn(&self, url: &str, address: &str, now: Moment) {
        // The proxy's address is not the host's.
        if *self.is_behind_proxy.get_or_init(is_behind_proxy) {
            return;
        }
        if let Some(host) = authority_with_port(url) {
            let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            self.addresses.borrow_mut().insert(host, (address, now + BELIEVED));
        }
    }

    #[cfg(test)]
    pub(super) fn knows(&self, host: &str) -> bool {
        self.addresses.borrow().contains_key(host)
    }

    /// No connection to this URL's host came about: its name is resolved anew.
    pub(super) fn forget(&self, url: &str) {
        if let Some(host) = authority_with_port(url) {
            self.addresses.borrow_mut().remove(&host);
        }
    }
}

fn is_behind_proxy() -> bool {
    ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}

/// `host:port` of a URL whose host is a name; none for an address.
fn authority_with_port(url: &str) -> Option<String> {
    let authority = super::host_of(url);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, if url.starts_with("https:") { "443" } else { "80" }),
    };
    let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
    (!is_address && !host.is_empty()).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_remembered_and_with_the_port_of_their_scheme() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(authority_with_port("https://api.example/v1"), some("api.example:443"));
        assert_eq!(authority_with_port("http://local:8080/v1"), some("local:8080"));
        assert_eq!(authority_with_port("http://127.0.0.1:8080/v1"), None);
        assert_eq!(authority_with_port("https://[::1]/v1"), None);
    }
}
