//! The host in a URL.

/// Host and port of a URL, without anything that could be a credential.
pub(super) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

/// `host:port` of a URL whose host is a name; `None` for an address.
pub(super) fn name_and_port(url: &str) -> Option<String> {
    let authority = host_of(url);
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
    fn a_host_holds_no_credential_and_no_path() {
        assert_eq!(host_of("https://user:secret@host:8080/v1/chat?key=secret"), "host:8080");
        assert_eq!(host_of("http://[::1]:80/x"), "[::1]:80");
        assert_eq!(host_of("nonsense"), "nonsense");
    }

    #[test]
    fn only_names_are_looked_up_with_the_port_of_their_scheme() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(name_and_port("https://api.example/v1"), some("api.example:443"));
        assert_eq!(name_and_port("http://local:8080/v1"), some("local:8080"));
        assert_eq!(name_and_port("http://127.0.0.1:8080/v1"), None);
        assert_eq!(name_and_port("https://[::1]/v1"), None);
    }
}
