//! What all connections share: trusted certificates, and a cache of addresses.
//!
//! libcurl resolves names in a thread of each multi handle. With one handle per agent, five hundred agents that start
//! on one host would start a thousand threads. So a name is looked up once for all ([`Network::host_to_look_up`]), and the
//! addresses are passed to each transfer.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use curl::easy::{Easy2, List};

use super::inbox::Inbox;
use super::lookup::{Addresses, NoAddress};
use super::trust::Trust;
use super::url::name_and_port;
use crate::base::clock::Moment;

/// How long an address is cached. The system's resolver does not report the time to live.
const CACHED: Duration = Duration::from_secs(60);
/// How long a failed look-up is cached: just long enough for all requests that wait for it.
const MISSING: Duration = Duration::from_millis(500);

/// The number of the agent that asks, in the order of creation from 0; only in a replay.
pub const AGENT_HEADER: &str = "x-agent";

#[derive(Default)]
pub struct Network {
    trust: OnceCell<Trust>,
    is_behind_proxy: OnceCell<bool>,
    /// By `host:port`: the addresses, and until when they are valid.
    addresses: RefCell<HashMap<String, (Addresses, Moment)>>,
    /// All requests go to this Unix socket.
    socket: Option<PathBuf>,
}

impl Network {
    /// Sends all requests to this Unix socket, if there is one, and none to a proxy.
    pub fn through(socket: Option<PathBuf>) -> Self {
        Self { socket, ..Self::default() }
    }

    /// In a replay, tells the scripted provider which agent asks: several agents may have one model.
    pub fn name_sender(&self, headers: &mut Vec<(String, String)>, number: i64) {
        if self.socket.is_some() {
            headers.push((AGENT_HEADER.into(), number.to_string()));
        }
    }

    pub(super) fn apply(&self, easy: &mut Easy2<Inbox>, url: &str, now: Moment) -> Result<(), curl::Error> {
        if let Some(socket) = &self.socket {
            easy.proxy("")?;
            return easy.unix_socket_path(Some(socket));
        }
        self.trust(easy)?;
        let host = name_and_port(url);
        let addresses = self.addresses.borrow();
        let known = host.as_ref().and_then(|host| addresses.get(host));
        let Some((Ok(found), _)) = known.filter(|(_, until)| now < *until) else { return Ok(()) };
        let mut known = List::new();
        // With the plus sign the entry expires like one that libcurl resolved itself.
        known.append(&format!("+{}:{}", host.unwrap_or_default(), found.join(",")))?;
        easy.resolve(known)
    }

    /// Sets the trusted certificates.
    pub(super) fn trust<H>(&self, easy: &mut Easy2<H>) -> Result<(), curl::Error> {
        self.trust.get_or_init(Trust::probe).apply(easy)
    }

    /// The `host:port` of this URL, if its addresses must be looked up before a request is sent. `None` if they are
    /// cached, if the URL contains an address, or if a proxy resolves the name.
    pub fn host_to_look_up(&self, url: &str, now: Moment) -> Option<String> {
        let host = name_and_port(url).filter(|_| !*self.is_behind_proxy.get_or_init(is_behind_proxy))?;
        let is_known = self.addresses.borrow().get(&host).is_some_and(|(_, until)| now < *until);
        (!is_known).then_some(host)
    }

    /// Caches the result of a lookup of `host:port`.
    pub fn on_looked_up(&self, host: &str, found: Addresses, now: Moment) {
        let until = now + if found.is_ok() { CACHED } else { MISSING };
        self.addresses.borrow_mut().insert(host.to_owned(), (found, until));
    }

    /// The cached addresses of the host of this URL.
    pub fn known_addresses(&self, url: &str, now: Moment) -> Vec<IpAddr> {
        let addresses = self.addresses.borrow();
        let known = name_and_port(url).and_then(|host| addresses.get(&host)).filter(|(_, until)| now < *until);
        let found = known.and_then(|(found, _)| found.as_ref().ok()).into_iter().flatten();
        found.filter_map(|text| text.trim_matches(['[', ']']).parse().ok()).collect()
    }

    /// Why the name in this URL has no address, if that is cached.
    pub(super) fn no_address(&self, url: &str, now: Moment) -> Option<NoAddress> {
        let addresses = self.addresses.borrow();
        let (found, _) = addresses.get(&name_and_port(url)?).filter(|(_, until)| now < *until)?;
        found.as_ref().err().copied()
    }

    /// Caches the address of a successful connection to this URL.
    pub(super) fn on_connected(&self, url: &str, address: &str, now: Moment) {
        // The proxy's address is not the host's.
        if *self.is_behind_proxy.get_or_init(is_behind_proxy) {
            return;
        }
        if let Some(host) = name_and_port(url) {
            let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            self.addresses.borrow_mut().insert(host, (Ok(vec![address]), now + CACHED));
        }
    }

    #[cfg(test)]
    pub(super) fn knows(&self, host: &str) -> bool {
        self.addresses.borrow().contains_key(host)
    }

    /// Removes the addresses of this URL's host after a failed transfer.
    pub(super) fn on_failed(&self, url: &str) {
        if let Some(host) = name_and_port(url) {
            self.addresses.borrow_mut().remove(&host);
        }
    }
}

pub(super) fn is_behind_proxy() -> bool {
    ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_once_a_minute_and_one_without_addresses_again_soon() {
        let network = Network { is_behind_proxy: OnceCell::from(false), ..Network::default() };
        let (url, host, start) = ("http://name.example/v1", "name.example:80", Moment::default());
        assert_eq!(network.host_to_look_up(url, start).as_deref(), Some(host));
        network.on_looked_up(host, Ok(vec!["192.0.2.1".into()]), start);
        assert_eq!((network.host_to_look_up(url, start), network.no_address(url, start)), (None, None));
        assert!(network.host_to_look_up(url, start + CACHED).is_some());
        network.on_looked_up(host, Err(NoAddress::Unavailable), start);
        assert_eq!(network.no_address(url, start), Some(NoAddress::Unavailable));
        assert_eq!(network.host_to_look_up(url, start), None);
        assert_eq!(network.no_address(url, start + MISSING), None);
        assert!(network.host_to_look_up(url, start + MISSING).is_some());
        assert_eq!(network.host_to_look_up("http://192.0.2.1/v1", start), None);
        let proxied = Network { is_behind_proxy: OnceCell::from(true), ..Network::default() };
        assert_eq!(proxied.host_to_look_up(url, start), None);
    }
}
