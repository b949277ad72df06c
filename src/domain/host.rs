//! Hosts: what programs connect to, and what rules, settings and tool calls name.
//!
//! ```text
//!   example.org         its ports 80 and 443
//!   example.org:8080    this port
//!   *.example.org       every host below it
//!   *                   every host
//!   192.0.2.1, [::1]    addresses, with or without a port
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base::error::{Error, ErrorKind};

/// The ports of a pattern without ports: HTTP and HTTPS.
const USUAL_PORTS: [u16; 2] = [80, 443];
/// RFC 1035, 2.3.4.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A name in lower case without a dot at its end, or an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name that has to be looked up.
    Name(String),
    /// IPv4 if the address can be written in both ways.
    Address(IpAddr),
}

/// A host with a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub host: Host,
    /// Its TCP port.
    pub port: u16,
}

/// One or more hosts, with their ports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Hosts {
    Any,
    /// All hosts below this name.
    Below(String),
    One(Host),
}

impl Host {
    /// A name or an address; one of IPv6 may be in brackets.
    pub fn parse(text: &str) -> Option<Self> {
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(address) =
            inner.map_or_else(|| text.parse().ok(), |inner| inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6))
        {
            return Some(Self::Address(address.to_canonical()));
        }
        name(text).map(Self::Name)
    }

    /// Whether it is a name of this machine by definition (RFC 6761, 6.3).
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || name.ends_with(".localhost"))
    }
}

/// Without what the system would read as an address in another notation: `0x7f.1`, `2130706433`.
fn name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_label = |label: &str| (1..=MAX_LABEL).contains(&label.len()) && label.chars().all(is_fine);
    let last = text.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let hexadecimal = last.strip_prefix("0x").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit()));
    let is_number = last.chars().all(|c| c.is_ascii_digit()) || hexadecimal;
    (text.len() <= MAX_NAME && text.split('.').all(is_label) && !is_number).then(|| text.to_ascii_lowercase())
}

/// The host, and the text behind the colon if there is one.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        // The colon is part of an address of IPv6.
        Some((host, port)) if !port.contains(']') && (!host.contains(':') || host.ends_with(']')) => (host, Some(port)),
        _ => (text, None),
    }
}

fn port(text: &str) -> Option<u16> {
    let is_plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|port| is_plain && *port > 0)
}

impl Target {
    /// `HOST:PORT`, or `HOST` with the usual port of a scheme.
    pub fn parse(text: &str, usual_port: Option<u16>) -> Option<Self> {
        let (host, written) = split(text);
        let port = written.map_or(usual_port, port)?;
        Some(Self { host: Host::parse(host)?, port })
    }

    /// Whether only this machine can be reached there.
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Address(address) => address.is_loopback(),
            name @ Host::Name(_) => name.is_localhost(),
        }
    }
}

impl Hosts {
    fn cover(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Below(above), Host::Name(name)) => is_below(name, above),
            (Self::Below(_), Host::Address(_)) => false,
            (Self::One(own), host) => own == host,
        }
    }

    fn cover_all(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Any, _) => true,
            (_, Self::Any) => false,
            (Self::Below(above), Self::Below(name)) => name == above || is_below(name, above),
            (Self::One(_), Self::Below(_)) => false,
            (own, Self::One(host)) => own.cover(host),
        }
    }
}

fn is_below(name: &str, above: &str) -> bool {
    name.strip_suffix(above).is_some_and(|rest| rest.ends_with('.'))
}

impl HostPattern {
    /// Every host, with the usual ports.
    pub const ANY: Self = Self { hosts: Hosts::Any, port: None };

    /// Whether something allowed by this pattern may be this target. Without a port it means the usual ones.
    pub fn allows(&self, target: &Target) -> bool {
        self.hosts.cover(&target.host) && self.has_port(target.port)
    }

    /// Whether something forbidden by this pattern is this target. Without a port it means every one.
    pub fn forbids(&self, target: &Target) -> bool {
        self.hosts.cover(&target.host) && self.port.is_none_or(|port| port == target.port)
    }

    /// Whether it allows everything that the other one allows.
    pub fn allows_all_of(&self, other: &Self) -> bool {
        let has_ports = other.port.map_or(self.port.is_none(), |port| self.has_port(port));
        self.hosts.cover_all(&other.hosts) && has_ports
    }

    /// Whether it forbids everything that the other one allows.
    pub fn forbids_all_of(&self, other: &Self) -> bool {
        self.hosts.cover_all(&other.hosts) && (self.port.is_none() || self.port == other.port)
    }

    /// Whether it forbids something that the other one allows.
    pub fn forbids_some_of(&self, other: &Self) -> bool {
        let has_ports = self.port.is_none_or(|port| other.has_port(port));
        has_ports && (self.hosts.cover_all(&other.hosts) || other.hosts.cover_all(&self.hosts))
    }

    /// Whether it is this address, or a name that can only mean an address of this machine.
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let is_named = match &self.hosts {
            Hosts::One(Host::Address(own)) => *own == address,
            Hosts::One(name) => name.is_localhost() && address.is_loopback(),
            Hosts::Any | Hosts::Below(_) => false,
        };
        is_named && self.has_port(port)
    }

    /// Whether it is a single host that is known not to be public: an address, or a name of this machine.
    pub fn is_private(&self) -> bool {
        match &self.hosts {
            Hosts::One(Host::Address(address)) => !is_public(*address),
            Hosts::One(name) => name.is_localhost(),
            Hosts::Any | Hosts::Below(_) => false,
        }
    }

    /// The host, if it is a single one.
    pub fn host(&self) -> Option<&Host> {
        if let Hosts::One(host) = &self.hosts { Some(host) } else { None }
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.map_or_else(|| USUAL_PORTS.contains(&port), |own| own == port)
    }
}

/// Whether an address is one of the public Internet: not of this machine, its link, a private network, or reserved (the
/// IANA registries of special-purpose addresses, RFC 6890).
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match (a, b, c) {
        // "This network", loopback, multicast and everything above it, with broadcast.
        (0 | 127 | 224.., ..) => true,
        (100, 64..=127, _) | (198, 18 | 19, _) => true,
        // Protocol assignments, and relays to networks of IPv6.
        (192, 0, 0) | (192, 88, 99) => true,
        _ => address.is_private() || address.is_link_local() || address.is_documentation(),
    };
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // An address of IPv4 behind a translator (RFC 6052), or behind a relay (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, ORCHID, documentation and others with a special purpose.
        [0x2001, 0x0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Everything outside of global unicast (RFC 4291, 2.4): loopback, link-local, unique local, multicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

impl FromStr for HostPattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let expected = || {
            Error::new(
                ErrorKind::Usage,
                "expected a host such as example.org or *.example.org, without scheme and path",
            )
        };
        let (host, written) = split(text);
        let port = written.map(|text| port(text).ok_or_else(expected)).transpose()?;
        let hosts = match (host, host.strip_prefix("*.")) {
            ("*", _) => Hosts::Any,
            (_, Some(above)) => Hosts::Below(name(above).ok_or_else(expected)?),
            (_, None) => Hosts::One(Host::parse(host).ok_or_else(expected)?),
        };
        Ok(Self { hosts, port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("*")?,
            Hosts::Below(above) => write!(f, "*.{above}")?,
            Hosts::One(host) => host.fmt(f)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: Error| serde::de::Error::custom(error.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    fn target(text: &str) -> Target {
        Target::parse(text, None).unwrap()
    }

    #[test]
    fn a_pattern_is_read_as_it_is_written() {
        for text in
            ["*", "*:22", "*.example.org", "example.org", "example.org:8080", "192.0.2.1:80", "[::1]:80", "[::1]"]
        {
            assert_eq!(pattern(text).to_string(), text);
        }
        for (text, plain) in
            [("Example.ORG.", "example.org"), ("::1", "[::1]"), ("[::ffff:192.0.2.1]:1", "192.0.2.1:1")]
        {
            assert_eq!(pattern(text).to_string(), plain);
        }
        for text in [
            "",
            ".",
            "*.",
            "*a",
            "a.*",
            "a b",
            "a/b",
            "http://a",
            "a:",
            "a:0",
            "a:+1",
            "a:65536",
            "a:1:2",
            "user@a",
            "a..b",
            "127.1",
            "0x7f.0.0.1",
            "2130706433",
            "a.0x1",
            "[a]",
            "[127.0.0.1]",
            "ä.example",
        ] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pattern_without_a_port_allows_the_usual_ones_and_forbids_all() {
        for (text, reached, allowed, forbidden) in [
            ("example.org", "example.org:443", true, true),
            ("example.org", "example.org:80", true, true),
            ("example.org", "example.org:22", false, true),
            ("example.org:22", "example.org:22", true, true),
            ("example.org:22", "example.org:443", false, false),
            ("example.org", "a.example.org:443", false, false),
            ("*.example.org", "a.b.example.org:443", true, true),
            ("*.example.org", "example.org:443", false, false),
            ("*.example.org", "badexample.org:443", false, false),
            ("*", "192.0.2.1:443", true, true),
            ("[::1]:80", "[0:0::1]:80", true, true),
        ] {
            let (pattern, target) = (pattern(text), target(reached));
            assert_eq!((pattern.allows(&target), pattern.forbids(&target)), (allowed, forbidden), "{text} {reached}");
        }
    }

    #[test]
    fn patterns_are_compared_with_their_ports() {
        for (one, other, allows, forbids_all, forbids_some) in [
            ("*", "*.example.org", true, true, true),
            ("*.example.org", "*", false, false, true),
            ("*.org", "*.example.org", true, true, true),
            ("a.example.org", "*.example.org", false, false, true),
            ("a.example.org:443", "*.example.org", false, false, true),
            ("a.example.org:22", "*.example.org", false, false, false),
            ("example.org", "example.org:443", true, true, true),
            ("example.org", "example.org:22", false, true, true),
            ("example.org:443", "example.org", false, false, true),
            ("example.org", "example.com", false, false, false),
        ] {
            let (a, b) = (pattern(one), pattern(other));
            let found = (a.allows_all_of(&b), a.forbids_all_of(&b), a.forbids_some_of(&b));
            assert_eq!(found, (allows, forbids_all, forbids_some), "{one} {other}");
        }
    }

    const NOT_PUBLIC: &[&str] = &[
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.9.9.9",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "2001:10::1",
        "3fff::1",
        "100::1",
        "5f00::1",
    ];
    const PUBLIC: &[&str] = &[
        "1.1.1.1",
        "8.8.8.8",
        "100.63.0.1",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "64:ff9b::808:808",
        "2002:808:808::",
        "::ffff:8.8.8.8",
    ];

    #[test]
    fn addresses_of_machines_and_private_networks_are_not_public() {
        for text in NOT_PUBLIC {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in PUBLIC {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn an_address_is_named_by_itself_or_as_localhost() {
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        for (text, port, expected) in [
            ("127.0.0.1:8080", 8080, true),
            ("127.0.0.1", 80, true),
            ("127.0.0.1", 8080, false),
            ("localhost:8080", 8080, true),
            ("a.localhost", 443, true),
            ("*", 80, false),
            ("example.org", 80, false),
            ("127.0.0.2", 80, false),
        ] {
            assert_eq!(pattern(text).names_address(loopback, port), expected, "{text} {port}");
        }
        assert!(!pattern("localhost").names_address("10.0.0.1".parse().unwrap(), 80));
    }
}
