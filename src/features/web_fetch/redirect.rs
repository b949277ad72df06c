//! What a redirect leads to.

use crate::domain::web_url::{WebUrl, encode_path, require_length};

impl WebUrl {
    /// The address that a redirect names.
    pub fn join(&self, location: &str) -> Result<Self, String> {
        let location = location.trim();
        require_length(location)?;
        let scheme = if self.is_https { "https" } else { "http" };
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{scheme}://{rest}"));
        }
        if location.split(['/', '?', '#']).next().is_some_and(|first| first.contains(':')) {
            return Self::parse(location);
        }
        let own = self.path.split('?').next().unwrap_or("/");
        let path = match location.chars().next() {
            Some('/') => location.to_owned(),
            Some('?') => format!("{own}{location}"),
            _ => format!("{}/{location}", own.rsplit_once('/').map_or("", |(directory, _)| directory)),
        };
        Ok(Self { path: encode_path(&path)?, ..self.clone() })
    }

    /// The host as a rule names it.
    pub fn pattern(&self) -> String {
        match self.target.port {
            80 | 443 => self.target.host.to_string(),
            _ => self.target.to_string(),
        }
    }

    /// Whether a redirect from here to there may be followed: to the same host, and not from `https` to `http`.
    pub fn leads_to(&self, other: &Self) -> bool {
        self.pattern() == other.pattern() && (other.is_https || !self.is_https)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::web_url::MAX_LENGTH;

    #[test]
    fn a_redirect_is_resolved_and_followed_to_the_same_host_only() {
        let from = WebUrl::parse("http://example.org/a/b?c").unwrap();
        for (location, expected, is_followed) in [
            ("/x", "http://example.org/x", true),
            ("x?y", "http://example.org/a/x?y", true),
            ("?y", "http://example.org/a/b?y", true),
            ("https://example.org/", "https://example.org/", true),
            ("http://example.org:8080/", "http://example.org:8080/", false),
            ("//other.org/x", "http://other.org/x", false),
            ("https://www.example.org/", "https://www.example.org/", false),
        ] {
            let to = from.join(location).unwrap();
            assert_eq!((to.to_string().as_str(), from.leads_to(&to)), (expected, is_followed), "{location}");
        }
        let secure = WebUrl::parse("https://example.org/").unwrap();
        assert!(!secure.leads_to(&secure.join("http://example.org/").unwrap()));
        assert!(from.join("javascript:alert(1)").is_err());
    }

    #[test]
    fn a_url_and_a_redirect_have_a_bounded_length() {
        let from = WebUrl::parse("http://example.org/a/b").unwrap();
        let (long, grows) = ("x".repeat(MAX_LENGTH), "ä".repeat(MAX_LENGTH / 4));
        for location in [&long, &grows] {
            for before in ["", "/", "?", "//example.org/", "http://example.org/"] {
                let problem = from.join(&format!("{before}{location}")).unwrap_err();
                assert_eq!(problem, "it is longer than 8192 bytes", "{before}");
            }
        }
        let near = from.join(&long[..MAX_LENGTH - "/a/".len()]).unwrap();
        assert_eq!(near.join("?").unwrap_err(), "it is longer than 8192 bytes");
    }
}
