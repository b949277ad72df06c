//! What all connections share: whose certificates are trusted, and the addresses of hosts that were reached before.
//!
//! libcurl resolves names in a thread of each multi handle; with a handle an agent, five hundred agents that start on
//! one host would start a thousand threads. So a name is looked up once for all ([`Network::wants_lookup`]), and who
//! sends is handed the addresses.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use curl::easy::{Easy2, List};

use super::{Addresses, Inbox, Trust};
use crate::base::clock::Moment;

/// How long an address is believed. The system's resolver does not tell a record's own time to live.
const BELIEVED: Duration = Duration::from_secs(60);
/// How long it is believed that a name has no address: as long as those who wait for it need to be told.
const MISSED: Duration = Duration::from_millis(500);

/// What all connections share.
#[derive(Default)]
pub struct Network {
    trust: OnceCell<Trust>,
    is_behind_proxy: OnceCell<bool>,
    /// By `host:port`: the addresses and until when they are believed.
    addresses: RefCell<HashMap<String, (Addresses, Moment)>>,
}

impl Network {
    pub(super) fn apply(&self, easy: &mut Easy2<Inbox>, url: &str, now: Moment) -> Result<(), curl::Error> {
        self.trust.get_or_init(Trust::probe).apply(easy)?;
        let host = authority_with_port(url);
        let addresses = self.addresses.borrow();
        let known = host.as_ref().and_then(|host| addresses.get(host));
        let Some((found, _)) = known.filter(|(found, until)| now < *until && !found.is_empty()) else { return Ok(()) };
        let mut known = List::new();
        // With a plus the entry expires like one that libcurl has resolved itself.
        known.append(&format!("+{}:{}", host.unwrap_or_default(), found.join(",")))?;
        easy.resolve(known)
    }

    /// The `host:port` of this URL whose addresses have to be looked up before a request is sent there. None where they
    /// are known, or known not to be there; where the URL has an address itself; and where a proxy looks it up.
    pub fn wants_lookup(&self, url: &str, now: Moment) -> Option<String> {
        let host = authority_with_port(url).filter(|_| !*self.is_behind_proxy.get_or_init(is_behind_proxy))?;
        let is_known = self.addresses.borrow().get(&host).is_some_and(|(_, until)| now < *until);
        (!is_known).then_some(host)
    }

    /// What a lookup of `host:port` has found.
    pub fn on_looked_up(&self, host: &str, found: Addresses, now: Moment) {
        let until = now + if found.is_empty() { MISSED } else { BELIEVED };
        self.addresses.borrow_mut().insert(host.to_owned(), (found, until));
    }

    /// Whether the name in this URL is known to have no address.
    pub(super) fn is_missing(&self, url: &str, now: Moment) -> bool {
        let Some(host) = authority_with_port(url) else { return false };
        self.addresses.borrow().get(&host).is_some_and(|(found, until)| found.is_empty() && now < *until)
    }

    /// A connection to this URL's host came about at this address.
    pub(super) fn learn(&self, url: &str, address: &str, now: Moment) {
        // The proxy's address is not the host's.
        if *self.is_behind_proxy.get_or_init(is_behind_proxy) {
            return;
        }
        if let Some(host) = authority_with_port(url) {
            let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            self.addresses.borrow_mut().insert(host, (vec![address], now + BELIEVED));
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

/// Whether requests may go through a proxy, as far as its variables tell.
pub(super) fn is_behind_proxy() -> bool {
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
    fn a_name_is_looked_up_once_a_minute_and_one_without_addresses_is_asked_for_again_soon() {
        let network = Network { is_behind_proxy: OnceCell::from(false), ..Network::default() };
        let (url, host, start) = ("http://name.example/v1", "name.example:80", Moment::default());
        assert_eq!(network.wants_lookup(url, start).as_deref(), Some(host));
        network.on_looked_up(host, vec!["192.0.2.1".into()], start);
        assert_eq!((network.wants_lookup(url, start), network.is_missing(url, start)), (None, false));
        assert!(network.wants_lookup(url, start + BELIEVED).is_some());
        network.on_looked_up(host, Addresses::new(), start);
        assert!(network.is_missing(url, start) && network.wants_lookup(url, start).is_none());
        assert!(!network.is_missing(url, start + MISSED) && network.wants_lookup(url, start + MISSED).is_some());
        assert_eq!(network.wants_lookup("http://192.0.2.1/v1", start), None);
        let behind = Network { is_behind_proxy: OnceCell::from(true), ..Network::default() };
        assert_eq!(behind.wants_lookup(url, start), None);
    }

    #[test]
    fn only_names_are_remembered_and_with_the_port_of_their_scheme() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(authority_with_port("https://api.example/v1"), some("api.example:443"));
        assert_eq!(authority_with_port("http://local:8080/v1"), some("local:8080"));
        assert_eq!(authority_with_port("http://127.0.0.1:8080/v1"), None);
        assert_eq!(authority_with_port("https://[::1]/v1"), None);
    }
}
