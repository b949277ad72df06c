//! Which hosts and addresses a call may reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::domain::host::{Host, HostPattern, Target};

/// The hosts of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    pub allowed: Vec<HostPattern>,
    /// Wins over `allowed`.
    pub denied: Vec<HostPattern>,
}

impl AllowedHosts {
    /// # Errors
    /// The target may not be reached; the message is for who runs the command.
    pub fn check(&self, target: &Target) -> Result<(), String> {
        self.check_denied(target)?;
        if self.allowed.iter().any(|pattern| pattern.allows(target)) {
            return Ok(());
        }
        let listed: Vec<String> = self.allowed.iter().map(ToString::to_string).collect();
        Err(format!(
            "the command may not connect to {target}, only to {}: if it is meant, add {} to `network` of the bash call",
            listed.join(", "),
            named(target)
        ))
    }

    /// # Errors
    /// A rule denies the target.
    pub fn check_denied(&self, target: &Target) -> Result<(), String> {
        match self.denied.iter().find(|pattern| pattern.forbids(target)) {
            Some(pattern) => Err(format!("{target} is refused by the rule deny net({pattern})")),
            None => Ok(()),
        }
    }

    /// # Errors
    /// A rule denies this address of the target.
    pub fn check_denied_address(&self, target: &Target, address: IpAddr) -> Result<(), String> {
        let address = address.to_canonical();
        let reached = Target { host: Host::Address(address), port: target.port };
        match self.denied.iter().find(|pattern| pattern.forbids(&reached)) {
            Some(pattern) => {
                Err(format!("{target} has the address {address}, which is refused by the rule deny net({pattern})"))
            }
            None => Ok(()),
        }
    }

    /// Whether a connection may be made to this address, which a look-up of the target gave or which is the target itself.
    ///
    /// # Errors
    /// It is an address of this machine or of a private network, and the list does not name it.
    pub fn check_address(&self, target: &Target, address: IpAddr) -> Result<(), String> {
        self.check_denied_address(target, address)?;
        let address = address.to_canonical();
        let reached = Target { host: Host::Address(address), port: target.port };
        if is_public(address) || self.allowed.iter().any(|pattern| pattern.names_address(address, target.port)) {
            return Ok(());
        }
        let named = named(&reached);
        Err(format!(
            "{target} has the address {address}, which is not public: if it is meant, add {named} to `network` of the bash call"
        ))
    }
}

/// As a pattern would name it.
fn named(target: &Target) -> String {
    match target.port {
        80 | 443 => target.host.to_string(),
        _ => target.to_string(),
    }
}

/// Whether an address is one of the public Internet: not of this machine, its link, a private network, or reserved (the
/// IANA registries of special-purpose addresses, RFC 6890).
fn is_public(address: IpAddr) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(allowed: &[&str], denied: &[&str]) -> AllowedHosts {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        AllowedHosts { allowed: parse(allowed), denied: parse(denied) }
    }

    fn target(text: &str) -> Target {
        Target::parse(text, None).unwrap()
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
    fn a_host_is_reached_if_it_is_listed_and_no_rule_denies_it() {
        let hosts = hosts(&["*.example.org", "example.org:8080"], &["bad.example.org"]);
        for text in ["a.example.org:443", "example.org:8080"] {
            assert_eq!(hosts.check(&target(text)), Ok(()), "{text}");
        }
        let refused = hosts.check(&target("example.org:443")).unwrap_err();
        assert!(
            refused.contains("only to *.example.org, example.org:8080: if it is meant, add example.org to"),
            "{refused}"
        );
        assert!(hosts.check(&target("bad.example.org:443")).unwrap_err().contains("deny net(bad.example.org)"));
    }

    #[test]
    fn a_private_address_has_to_be_named_itself() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let some = target("db.example.org:80");
        assert!(hosts(&["*"], &[]).check_address(&some, address("8.8.8.8")).is_ok());
        let refused =
            hosts(&["*", "db.example.org"], &[]).check_address(&some, address("::ffff:10.0.0.7")).unwrap_err();
        assert!(
            refused.contains("address 10.0.0.7, which is not public: if it is meant, add 10.0.0.7 to"),
            "{refused}"
        );
        assert!(hosts(&["*", "10.0.0.7"], &[]).check_address(&some, address("10.0.0.7")).is_ok());
        assert!(hosts(&["*", "10.0.0.7:81"], &[]).check_address(&some, address("10.0.0.7")).is_err());
        assert!(hosts(&["localhost"], &[]).check_address(&target("localhost:80"), address("::1")).is_ok());
        assert!(hosts(&["*"], &["8.8.8.8"]).check_address(&some, address("8.8.8.8")).is_err());
    }
}
