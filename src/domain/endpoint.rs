//! Providers, models and credentials.

use std::fmt;
use std::rc::Rc;

use crate::base::error::{Error, Result};
use crate::domain::stream::Usage;

/// A secret: never shown, logged, traced or stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Rc<str>);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: &str) -> Self {
        Self(Rc::from(text))
    }

    /// The secret itself, for request headers only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The key itself.
    pub secret: Secret,
    /// The number of the run of the key command that printed it, from 1; 0 if it comes from the configuration.
    pub run: u64,
}

/// A model at a provider, with what is needed to send requests to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The protocol: the name of a row in the provider table.
    pub kind: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Includes the version segment, without a trailing slash (`https://host/v1`).
    pub base_url: String,
    /// The API key; local servers need none.
    pub key: Option<Secret>,
    /// A command that prints the API key.
    pub key_command: Option<String>,
    /// Additional request headers.
    pub headers: Vec<(String, String)>,
    /// Limits and prices of the model.
    pub facts: ModelFacts,
}

/// Known limits and prices of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelFacts {
    /// The most tokens of request and reply together.
    pub context: Option<u64>,
    /// The most tokens of one reply.
    pub max_output: Option<u64>,
    /// The prices of tokens.
    pub prices: Option<Prices>,
}

/// Prices in billionths of a US dollar per token, that is thousandths of a dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prices {
    /// Per token of the request.
    pub input: u64,
    /// Per token read from the cache.
    pub cached: u64,
    /// Per token written to the cache.
    pub written: u64,
    /// Per token of the reply.
    pub output: u64,
}

impl Prices {
    /// The cost of a request.
    pub fn cost(&self, usage: &Usage) -> u64 {
        let plain = usage.input.saturating_sub(usage.cached + usage.written);
        let priced = [(plain, self.input), (usage.cached, self.cached), (usage.written, self.written)];
        priced.iter().chain([&(usage.output, self.output)]).map(|(tokens, price)| tokens.saturating_mul(*price)).sum()
    }
}

impl Endpoint {
    /// The built-in provider for tests and demos, which needs no network.
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

    /// `provider/model`, as typed and as stored.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }
}

/// A configured provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderEntry {
    /// The name, used in `provider/model`.
    pub name: String,
    /// The protocol.
    pub kind: String,
    /// Includes the version segment, without a trailing slash.
    pub base_url: String,
    /// The API key.
    pub key: Option<Secret>,
    /// A command that prints the API key.
    pub key_command: Option<String>,
    /// Additional request headers.
    pub headers: Vec<(String, String)>,
    /// The configured models, the default one first. Other models can be used as well.
    pub models: Vec<(String, ModelFacts)>,
}

/// The configured providers. `echo` is always available.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog(pub Vec<ProviderEntry>);

impl Catalog {
    /// The endpoint for `provider/model`, or for the default model of `provider`.
    ///
    /// # Errors
    /// The provider is unknown, or no model is given and there is no default.
    pub fn find(&self, full_name: &str) -> Result<Endpoint> {
        let (provider, model) = full_name.split_once('/').unwrap_or((full_name, ""));
        if provider == "echo" {
            return Ok(Endpoint::echo());
        }
        let Some(entry) = self.0.iter().find(|entry| entry.name == provider) else {
            let known: Vec<&str> = self.0.iter().map(|entry| entry.name.as_str()).chain(["echo"]).collect();
            return Err(Error::usage(format!(
                "unknown provider {provider:?}: use PROVIDER/MODEL with one of {}",
                known.join(", ")
            )));
        };
        let default = entry.models.first().map_or("", |(name, _)| name);
        let model = if model.is_empty() { default } else { model };
        if model.is_empty() {
            return Err(Error::usage(format!("no model given: use {provider}/MODEL")));
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
    fn an_endpoint_has_the_key_of_its_provider_and_a_model_name_may_contain_slashes() {
        let endpoint = catalog().find("two/org/model").unwrap();
        assert_eq!(endpoint.model, "org/model");
        assert_eq!((endpoint.base_url.as_str(), endpoint.key), ("https://two.example/v1", Some(Secret::new("two"))));
    }

    #[test]
    fn an_unknown_provider_is_refused_with_the_list_of_known_ones() {
        assert!(catalog().find("three/x").unwrap_err().message.contains("one, two, echo"));
        assert!(catalog().find("one").is_err());
        assert_eq!(Catalog::default().find("echo"), Ok(Endpoint::echo()));
    }

    #[test]
    fn each_token_is_counted_once_at_its_own_price() {
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
