//! Where an agent's requests go.

use std::fmt;
use std::rc::Rc;

use crate::base::error::{Error, ErrorKind, Result};

/// A text that must never be shown, logged, traced or stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Rc<str>);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: &str) -> Self {
        Self(Rc::from(text))
    }

    /// The text itself, for a request header and for nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// One model at one provider, with what is needed to reach it. Agents share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The provider's name in the configuration (`openai`, `echo`, or a user's own).
    pub provider: String,
    /// Which wire protocol it speaks: the name of a row in the provider table.
    pub kind: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Up to and with the version segment, without a trailing slash (`https://host/v1`).
    pub base_url: String,
    /// The credential, if there is one; local servers need none.
    pub key: Option<Secret>,
    /// Additional headers of every request.
    pub headers: Vec<(String, String)>,
}

impl Endpoint {
    /// The built-in provider that needs no network.
    pub fn echo() -> Self {
        Self {
            provider: "echo".into(),
            kind: "echo".into(),
            model: "echo".into(),
            base_url: String::new(),
            key: None,
            headers: Vec::new(),
        }
    }

    /// `provider/model`, as a person names it and as the store keeps it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }
}

/// A provider that is configured: an endpoint without its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderEntry {
    /// What people call it, before the slash.
    pub name: String,
    /// Which wire protocol it speaks.
    pub kind: String,
    /// Up to and with the version segment, without a trailing slash.
    pub base_url: String,
    /// The credential, if there is one.
    pub key: Option<Secret>,
    /// Additional headers of every request.
    pub headers: Vec<(String, String)>,
}

/// All providers that are configured. `echo` always is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog(pub Vec<ProviderEntry>);

impl Catalog {
    /// The endpoint that `provider/model` names.
    ///
    /// # Errors
    /// There is no such provider, or no model is named.
    pub fn find(&self, full_name: &str) -> Result<Endpoint> {
        let (provider, model) = full_name.split_once('/').unwrap_or((full_name, ""));
        if provider == "echo" {
            return Ok(Endpoint::echo());
        }
        let Some(entry) = self.0.iter().find(|entry| entry.name == provider) else {
            let known: Vec<&str> = self.0.iter().map(|entry| entry.name.as_str()).chain(["echo"]).collect();
            let words =
                format!("there is no provider {provider:?} (say provider/model): there are {}", known.join(", "));
            return Err(Error::new(ErrorKind::Usage, words));
        };
        if model.is_empty() {
            return Err(Error::new(ErrorKind::Usage, format!("say which model: {provider}/NAME")));
        }
        Ok(Endpoint {
            provider: entry.name.clone(),
            kind: entry.kind.clone(),
            model: model.into(),
            base_url: entry.base_url.clone(),
            key: entry.key.clone(),
            headers: entry.headers.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let entry = |name: &str| ProviderEntry {
            name: name.into(),
            kind: "openai".into(),
            base_url: format!("https://{name}.example/v1"),
            key: Some(Secret::new(name)),
            headers: Vec::new(),
        };
        Catalog(vec![entry("one"), entry("two")])
    }

    #[test]
    fn a_key_and_a_url_belong_to_their_provider_and_a_model_may_hold_slashes() {
        let endpoint = catalog().find("two/org/model").unwrap();
        assert_eq!(endpoint.model, "org/model");
        assert_eq!((endpoint.base_url.as_str(), endpoint.key), ("https://two.example/v1", Some(Secret::new("two"))));
    }

    #[test]
    fn who_is_not_configured_is_refused_with_those_who_are() {
        assert!(catalog().find("three/x").unwrap_err().message.contains("one, two, echo"));
        assert!(catalog().find("one").is_err());
        assert_eq!(Catalog::default().find("echo"), Ok(Endpoint::echo()));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert!(!format!("{:?}", catalog()).contains("two\")"));
        assert_eq!(format!("{:?}", Secret::new("x")), "[secret]");
    }
}
