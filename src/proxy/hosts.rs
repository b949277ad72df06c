//! Which hosts and addresses a call may reach.

use std::net::IpAddr;

use crate::domain::host::{Host, HostPattern, Target, is_public};

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
            pattern_for(target)
        ))
    }

    pub fn check_denied(&self, target: &Target) -> Result<(), String> {
        match self.denied.iter().find(|pattern| pattern.forbids(target)) {
            Some(pattern) => Err(format!("{target} is refused by the rule deny net({pattern})")),
            None => Ok(()),
        }
    }

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
    pub fn check_address(&self, target: &Target, address: IpAddr) -> Result<(), String> {
        self.check_denied_address(target, address)?;
        let address = address.to_canonical();
        let reached = Target { host: Host::Address(address), port: target.port };
        if is_public(address) || self.allowed.iter().any(|pattern| pattern.names_address(address, target.port)) {
            return Ok(());
        }
        let named = pattern_for(&reached);
        Err(format!(
            "{target} has the address {address}, which is not public: if it is meant, add {named} to `network` of the bash call"
        ))
    }
}

/// As a pattern would name it.
fn pattern_for(target: &Target) -> String {
    match target.port {
        80 | 443 => target.host.to_string(),
        _ => target.to_string(),
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
