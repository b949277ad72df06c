//! Where an agent's requests go.

use std::fmt;
use std::rc::Rc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::stream::Usage;

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

/// What one request proves with who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The key itself.
    pub secret: Secret,
    /// Which run of the provider's key command has printed it, from 1; 0: none, it stands in the configuration.
    pub run: u64,
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
    /// A command that prints the credential, where there is one instead of a key.
    pub key_command: Option<String>,
    /// Additional headers of every request.
    pub headers: Vec<(String, String)>,
    /// What is known about the model.
    pub facts: ModelFacts,
}

/// What is known about a model besides its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelFacts {
    /// Tokens of request and reply together.
    pub context: Option<u64>,
    /// The most tokens of one reply.
    pub max_output: Option<u64>,
    /// What tokens cost.
    pub prices: Option<Prices>,
}

/// Billionths of a US dollar for one token (that is: thousandths of a dollar for a million of them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prices {
    /// For a token of the request.
    pub input: u64,
    /// For one that came from the cache.
    pub cached: u64,
    /// For one that was written to the cache.
    pub written: u64,
    /// For a token of the reply.
    pub output: u64,
}

impl Prices {
    /// What a request of this size costs.
    pub fn cost(&self, usage: &Usage) -> u64 {
        let plain = usage.input.saturating_sub(usage.cached + usage.written);
        let priced = [(plain, self.input), (usage.cached, self.cached), (usage.written, self.written)];
        priced.iter().chain([&(usage.output, self.output)]).map(|(tokens, price)| tokens.saturating_mul(*price)).sum()
    }
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
            key_command: None,
            headers: Vec::new(),
            facts: ModelFacts::default(),
        }
    }

    /// `provider/model`, as a person names it and as the store keeps it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }
}

/// A provider that is configured: an endpoint without its model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderEntry {
    /// What people call it, before the slash.
    pub name: String,
    /// Which wire protocol it speaks.
    pub kind: String,
    /// Up to and with the version segment, without a trailing slash.
    pub base_url: String,
    /// The credential, if there is one.
    pub key: Option<Secret>,
    /// A command that prints the credential, where there is one instead of a key.
    pub key_command: Option<String>,
    /// Additional headers of every request.
    pub headers: Vec<(String, String)>,
    /// Models that are known by name, the usual one first. Others can be asked for all the same.
    pub models: Vec<(String, ModelFacts)>,
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
        let usual = entry.models.first().map_or("", |(name, _)| name);
        let model = if model.is_empty() { usual } else { model };
        if model.is_empty() {
            return Err(Error::new(ErrorKind::Usage, format!("say which model: {provider}/NAME")));
        }
        Ok(Endpoint {
            provider: entry.name.clone(),
            kind: entry.kind.clone(),
            model: model.into(),
            base_url: entry.base_url.clone(),
            key: entry.key.clone(),
            key_command: entry.key_command.clone(),
            headers: entry.headers.clone(),
            facts: entry.models.iter().find(|(name, _)| name == model).map(|(_, facts)| *facts).unwrap_or_default(),
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
            ..ProviderEntry::default()
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
    fn each_token_is_paid_once_at_its_own_price() {
        let prices = Prices { input: 3000, cached: 300, written: 3750, output: 15000 };
        let usage = Usage { input: 1000, cached: 600, written: 300, output: 10, cost: None };
        assert_eq!(prices.cost(&usage), 100 * 3000 + 600 * 300 + 300 * 3750 + 10 * 15000);
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert!(!format!("{:?}", catalog()).contains("two\")"));
        assert_eq!(format!("{:?}", Secret::new("x")), "[secret]");
    }
}
