//! The proxy that the environment names for a page, by the rules of libcurl (libcurl-env(3), CURLOPT_NOPROXY(3)).

use std::net::IpAddr;

use crate::domain::host::Host;
use crate::domain::web_url::WebUrl;

/// The URL of the proxy for this page; `None` if the host is reached directly.
pub fn proxy_for(url: &WebUrl) -> Option<String> {
    proxy_from(url, |name| std::env::var(name).ok())
}

fn proxy_from(url: &WebUrl, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let first = |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
    // There is no HTTP_PROXY: a CGI server would set it from a header of a request.
    let own: &[&str] = if url.is_https { &["https_proxy", "HTTPS_PROXY"] } else { &["http_proxy"] };
    let proxy = first(own).or_else(|| first(&["all_proxy", "ALL_PROXY"]))?;
    let excluded = first(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
    (!is_listed(&url.target.host, &excluded)).then_some(proxy)
}

/// Whether a list of hosts, domains and networks has this host.
fn is_listed(host: &Host, list: &str) -> bool {
    let has = |entry: &str| match host {
        Host::Name(name) => {
            let domain = entry.trim_matches('.').to_ascii_lowercase();
            let is_below = |rest: &str| rest.is_empty() || rest.ends_with('.');
            !domain.is_empty() && name.strip_suffix(&domain).is_some_and(is_below)
        }
        Host::Address(address) => is_in(*address, entry),
    };
    list.trim() == "*" || list.split([',', ' ', '\t']).any(has)
}

/// Whether a network, such as `192.0.2.0/24`, or a single address is one with this address.
fn is_in(address: IpAddr, network: &str) -> bool {
    let (start, length) = network.split_once('/').map_or((network, None), |(start, length)| (start, Some(length)));
    let Some(Host::Address(start)) = Host::parse(start) else { return false };
    let (start, address, bits) = match (start, address) {
        (IpAddr::V4(start), IpAddr::V4(address)) => (u32::from(start).into(), u32::from(address).into(), 32),
        (IpAddr::V6(start), IpAddr::V6(address)) => (u128::from(start), u128::from(address), 128),
        _ => return false,
    };
    let length = length.map_or(Some(bits), |length| length.parse().ok().filter(|length| *length <= bits));
    length.is_some_and(|length: u32| (start ^ address).checked_shr(bits - length).unwrap_or(0) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        proxy_from(&WebUrl::parse(url).unwrap(), value)
    }

    #[test]
    fn a_proxy_applies_to_its_scheme_unless_it_is_empty() {
        let (http, https) = ("http://example.org/", "https://example.org/");
        for (url, variables, expected) in [
            (http, &[][..], None),
            (http, &[("https_proxy", "p"), ("HTTPS_PROXY", "p"), ("HTTP_PROXY", "p")], None),
            (http, &[("http_proxy", "p"), ("all_proxy", "q")], Some("p")),
            (http, &[("http_proxy", ""), ("all_proxy", ""), ("ALL_PROXY", "q")], Some("q")),
            (https, &[("http_proxy", "p")], None),
            (https, &[("https_proxy", "")], None),
            (https, &[("https_proxy", ""), ("HTTPS_PROXY", "p")], Some("p")),
            (https, &[("all_proxy", "p"), ("no_proxy", "example.org")], None),
            (https, &[("all_proxy", "p"), ("no_proxy", ""), ("NO_PROXY", "*")], None),
        ] {
            assert_eq!(proxy(url, variables).as_deref(), expected, "{url} {variables:?}");
        }
    }

    #[test]
    fn a_host_is_listed_by_its_name_its_domain_or_its_network() {
        for (host, list, expected) in [
            ("a.example.org", "x.org, .Example.org", true),
            ("a.example.org", "example.org.", true),
            ("badexample.org", "example.org", false),
            ("example.org", "a.example.org,,. ,", false),
            ("example.org", "*,x.org", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "example.org 192.0.2.0/24", true),
            ("192.0.3.7", "192.0.2.0/24,192.0.3.7/33,192.0.3.7/x", false),
            ("192.0.2.7", "0.0.0.0/0", true),
            ("192.0.2.7", "::/0", false),
            ("::1", "[::1]", true),
            ("2001:db8::7", "2001:db8::/32", true),
            ("2001:db9::7", "2001:db8::/32", false),
        ] {
            assert_eq!(is_listed(&Host::parse(host).unwrap(), list), expected, "{host} {list}");
        }
    }
}
