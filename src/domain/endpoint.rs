//! Providers, models and credentials.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text;
use crate::domain::attachment::Files;
use crate::domain::models;
use crate::domain::parameters::{Parameter, Parameters};
use crate::domain::reasoning::SendReasoning;
use crate::domain::stream::Usage;
use crate::domain::thinking::Efforts;

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
    /// The variable that is to hold the API key.
    pub key_variable: Option<String>,
    /// A command that prints the API key.
    pub key_command: Option<String>,
    /// Additional request headers.
    pub headers: Vec<(String, String)>,
    /// How reasoning is sent back over Chat Completions.
    pub send_reasoning: SendReasoning,
    /// Limits, prices and abilities of the model.
    pub facts: ModelFacts,
    /// Parameters of requests, as they are configured.
    pub parameters: Parameters,
    /// Models that answer where this one cannot, as `provider/model`.
    pub fallback: Vec<String>,
    /// Abort a reply after this long without data; `None`: as for all providers.
    pub stall_timeout: Option<Duration>,
    /// The key is sent as a bearer token, whatever is usual for the protocol.
    pub is_bearer: bool,
    /// Requests are signed for Amazon Bedrock in this region.
    pub aws_region: Option<String>,
    /// The files that the messages of the next request refer to.
    pub files: Files,
}

/// What is known of a model; `None` is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelFacts {
    /// The most tokens of request and reply together.
    pub context: Option<u64>,
    /// The most tokens of one reply, as configured: sent with each request.
    pub max_output: Option<u64>,
    /// The most tokens of one reply that the model can write.
    pub output_limit: Option<u64>,
    /// The prices of tokens.
    pub prices: Option<Prices>,
    /// Whether it can call tools.
    pub tools: Option<bool>,
    /// Whether it can read images.
    pub images: Option<bool>,
    /// Whether it can read PDF files.
    pub documents: Option<bool>,
    /// The efforts of thinking that its server lists.
    pub efforts: Efforts,
}

impl ModelFacts {
    /// These, and where they are unknown those of `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            context: self.context.or(other.context),
            max_output: self.max_output.or(other.max_output),
            output_limit: self.output_limit.or(other.output_limit),
            prices: self.prices.or(other.prices),
            tools: self.tools.or(other.tools),
            images: self.images.or(other.images),
            documents: self.documents.or(other.documents),
            efforts: if self.efforts == Efforts::default() { other.efforts } else { self.efforts },
        }
    }
}

/// Prices in trillionths of a US dollar per token, that is millionths of a dollar per million tokens.
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
    /// The cost of a request in billionths of a US dollar.
    pub fn cost(&self, usage: &Usage) -> u64 {
        let plain = usage.input.saturating_sub(usage.cached.saturating_add(usage.written));
        let priced = [(plain, self.input), (usage.cached, self.cached), (usage.written, self.written)];
        priced
            .iter()
            .chain([&(usage.output, self.output)])
            .map(|(tokens, price)| tokens.saturating_mul(*price))
            .fold(0, u64::saturating_add)
            / 1000
    }
}

/// The kind and the name of the provider whose models are hosts, which speak the Agent Client Protocol.
pub const HOSTS: &str = "acp";

/// The name of the provider and the model when none is configured.
const NONE: &str = "none";

impl Endpoint {
    /// The built-in provider for tests and demos, which needs no network.
    pub fn echo() -> Self {
        Self {
            provider: "echo".into(),
            kind: "echo".into(),
            model: "echo".into(),
            base_url: String::new(),
            key: None,
            key_variable: None,
            key_command: None,
            headers: Vec::new(),
            send_reasoning: SendReasoning::default(),
            facts: ModelFacts::default(),
            parameters: Parameters::default(),
            fallback: Vec::new(),
            stall_timeout: None,
            is_bearer: false,
            aws_region: None,
            files: Files::default(),
        }
    }

    /// Stands for the model when none is configured: every request to it fails and says what to do.
    pub fn none() -> Self {
        Self { provider: NONE.into(), kind: String::new(), model: NONE.into(), ..Self::echo() }
    }

    /// Whether no model is configured.
    pub fn is_none(&self) -> bool {
        self.kind.is_empty() && self.provider == NONE
    }

    /// Whether it is another agent program, which carries out its own calls.
    pub fn is_host(&self) -> bool {
        self.kind == HOSTS
    }

    /// Whether requests go to a server over HTTP.
    pub fn has_server(&self) -> bool {
        has_server(&self.kind)
    }

    /// The endpoint with more parameters, which replace the configured ones.
    #[must_use]
    pub fn with(&self, parameters: &Parameters) -> Self {
        let parameters = self.parameters.clone().with(parameters);
        let max_output = parameters.get(Parameter::MaxOutput).and_then(Value::as_u64);
        let facts = ModelFacts { max_output: max_output.or(self.facts.max_output), ..self.facts };
        Self { parameters, facts, ..self.clone() }
    }

    /// `provider/model`, as typed and as stored.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }

    /// The name for a person: before the first request, the model may be unknown.
    pub fn shown_name(&self) -> String {
        if self.is_none() {
            return "no model".to_owned();
        }
        if self.model.is_empty() { self.provider.to_string() } else { self.full_name() }
    }

    /// Its name without the provider, if the model is known.
    pub fn own_name(&self) -> String {
        if self.model.is_empty() || self.is_none() { self.shown_name() } else { self.model.clone() }
    }
}

/// What is configured for one model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelSettings {
    /// Parameters of requests.
    pub parameters: Parameters,
    /// Models that answer where this one cannot; `None`: those of its provider.
    pub fallback: Option<Vec<String>>,
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
    /// The well-known service whose URL this is, for the built-in table of models.
    pub service: Option<&'static str>,
    /// The API key.
    pub key: Option<Secret>,
    /// The variable that is to hold the API key.
    pub key_variable: Option<String>,
    /// A command that prints the API key.
    pub key_command: Option<String>,
    /// Additional request headers.
    pub headers: Vec<(String, String)>,
    /// How reasoning is sent back over Chat Completions.
    pub send_reasoning: SendReasoning,
    /// The configured models, the default one first. Other models can be used as well.
    pub models: Vec<(String, ModelFacts)>,
    /// Parameters of requests to all of its models.
    pub parameters: Parameters,
    /// Models that answer where one of these cannot, as `provider/model`.
    pub fallback: Vec<String>,
    /// Settings of single models.
    pub overrides: Vec<(String, ModelSettings)>,
    /// Abort a reply after this long without data; `None`: as for all providers.
    pub stall_timeout: Option<Duration>,
    /// The key is sent as a bearer token, whatever is usual for the protocol.
    pub is_bearer: bool,
    /// Requests are signed for Amazon Bedrock in this region.
    pub aws_region: Option<String>,
    /// Parameters of this run of the program, which replace the configured ones.
    pub run_parameters: Parameters,
    /// The models that the server has listed.
    pub listed: Vec<(String, ModelFacts)>,
    /// The context lengths that the server has reported in errors.
    pub learned: Vec<(String, u64)>,
    /// The context lengths that the server has listed in earlier runs.
    pub kept: Vec<(String, u64)>,
    /// A preset with neither key nor configuration, which is used if it is named.
    pub is_assumed: bool,
}

impl ProviderEntry {
    /// Whether requests go to a server over HTTP.
    pub fn has_server(&self) -> bool {
        has_server(&self.kind)
    }

    /// The facts about a model: from an error, else the configuration, else the server's list, else its list of an
    /// earlier run, else the built-in table.
    fn facts_of(&self, model: &str) -> ModelFacts {
        let within =
            |list: &[(String, ModelFacts)]| list.iter().find(|(name, _)| name == model).map(|(_, facts)| *facts);
        let table = self.service.map(|service| models::facts(service, model));
        let [configured, listed] = [&self.models, &self.listed].map(|list| within(list).unwrap_or_default());
        let [learned, kept] = [&self.learned, &self.kept].map(|list| {
            let context = list.iter().find(|(name, _)| name == model).map(|(_, limit)| *limit);
            ModelFacts { context, ..ModelFacts::default() }
        });
        learned.or(configured).or(listed).or(kept).or(table.unwrap_or_default())
    }

    /// The names of its models: the configured ones, and the others that the server has listed.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let is_configured = |model: &str| self.models.iter().any(|(name, _)| name == model);
        let listed = self.listed.iter().map(|(name, _)| name.as_str()).filter(move |name| !is_configured(name));
        self.models.iter().map(|(name, _)| name.as_str()).chain(listed)
    }

    /// The same as `provider/model`.
    pub fn full_names(&self) -> impl Iterator<Item = String> {
        self.names().map(|model| format!("{}/{model}", self.name))
    }

    /// Whether the model is configured, listed by the server or in the built-in table.
    fn has(&self, model: &str) -> bool {
        self.names().any(|name| name == model)
            || self.service.is_some_and(|service| models::facts(service, model) != ModelFacts::default())
    }

    /// The endpoint of one of its models.
    pub fn endpoint(&self, model: &str) -> Endpoint {
        let own = self.overrides.iter().find(|(name, _)| name == model).map(|(_, settings)| settings);
        let endpoint = Endpoint {
            provider: self.name.clone(),
            kind: self.kind.clone(),
            model: model.into(),
            base_url: self.base_url.clone(),
            key: self.key.clone(),
            key_variable: self.key_variable.clone(),
            key_command: self.key_command.clone(),
            headers: self.headers.clone(),
            send_reasoning: self.send_reasoning,
            facts: self.facts_of(model),
            parameters: self.parameters.clone(),
            fallback: own.and_then(|own| own.fallback.clone()).unwrap_or_else(|| self.fallback.clone()),
            stall_timeout: self.stall_timeout,
            is_bearer: self.is_bearer,
            aws_region: self.aws_region.clone(),
            files: Files::default(),
        };
        let configured = own.map(|own| own.parameters.clone()).unwrap_or_default();
        endpoint.with(&configured.with(&self.run_parameters))
    }
}

/// Whether requests of this kind go to a server over HTTP.
pub fn has_server(kind: &str) -> bool {
    kind != "echo" && kind != HOSTS
}

/// The configured providers. `echo` is always available.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog(pub Vec<ProviderEntry>);

impl Catalog {
    /// The providers that are configured or have a key.
    pub fn configured(&self) -> impl Iterator<Item = &ProviderEntry> {
        self.0.iter().filter(|entry| !entry.is_assumed)
    }

    /// Whether the name of a model is ambiguous: another provider has it too, or it is not configured.
    pub fn needs_provider(&self, endpoint: &Endpoint) -> bool {
        let (own, others): (Vec<_>, Vec<_>) = self.configured().partition(|entry| entry.name == endpoint.provider);
        let is_known = !own.is_empty() || endpoint.provider == endpoint.model;
        !is_known || others.iter().any(|entry| entry.names().any(|name| name == endpoint.model))
    }

    /// Adds a provider, or replaces the one with its name.
    pub fn put(&mut self, entry: ProviderEntry) {
        self.0.retain(|known| known.name != entry.name);
        self.0.push(entry);
    }

    /// A context length from an error of a server takes precedence over everything else.
    pub fn learn_context(&mut self, full_name: &str, limit: u64) {
        let Some((provider, model)) = full_name.split_once('/') else { return };
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.name == provider) {
            entry.learned.retain(|(known, _)| known != model);
            entry.learned.push((model.into(), limit));
        }
    }

    /// A context length that the list of a server had in an earlier run counts until the list is there. True if it
    /// is new.
    pub fn restore_listed(&mut self, full_name: &str, limit: u64) -> bool {
        let Some((provider, model)) = full_name.split_once('/') else { return false };
        let Some(entry) = self.0.iter_mut().find(|entry| entry.name == provider) else { return false };
        let is_known = entry.kept.iter().any(|(known, kept)| known == model && *kept == limit);
        entry.kept.retain(|(known, _)| known != model);
        entry.kept.push((model.into(), limit));
        !is_known
    }

    /// Adds facts about one model from the server, besides its list.
    pub fn learn_details(&mut self, provider: &str, model: &str, facts: ModelFacts) {
        let entry = self.0.iter_mut().find(|entry| entry.name == provider);
        let listed = entry.and_then(|entry| entry.listed.iter_mut().find(|(name, _)| name == model));
        if let Some((_, known)) = listed {
            *known = facts.or(*known);
        }
    }

    /// Replaces the list of models from the server of a provider.
    pub fn learn(&mut self, provider: &str, models: Vec<(String, ModelFacts)>) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.name == provider) {
            entry.listed = models;
        }
    }

    /// The provider that has a model which is named without one.
    fn provider_of(&self, model: &str) -> Result<Option<&ProviderEntry>> {
        let mut found: Vec<&ProviderEntry> = self.configured().filter(|entry| entry.has(model)).collect();
        // The protocols of one server are not different places.
        found.dedup_by(|later, first| later.base_url == first.base_url);
        if let [_, _, ..] = found[..] {
            let names: Vec<String> = found.iter().map(|entry| format!("{}/{model}", entry.name)).collect();
            return Err(Error::usage(format!("several providers have {model:?}: use {}", names.join(" or "))));
        }
        Ok(found.first().copied())
    }

    /// The endpoint for `provider/model`, for the default model of `provider`, or for a model alone: that of the
    /// provider that has it, else of the only configured one. Its model is empty if `provider` has no default; then the
    /// first one of the server is used.
    ///
    /// # Errors
    /// The provider is unknown, or several have the model.
    pub fn find(&self, full_name: &str) -> Result<Endpoint> {
        let (provider, model) = full_name.split_once('/').unwrap_or((full_name, ""));
        match provider {
            "echo" => return Ok(Endpoint::echo()),
            NONE if model == NONE && self.entry(NONE).is_none() => return Ok(Endpoint::none()),
            _ => {}
        }
        let Some(entry) = self.entry(provider) else { return self.find_model(full_name) };
        let default = entry.models.first().map_or("", |(name, _)| name);
        let model = if model.is_empty() { default } else { model };
        Ok(entry.endpoint(model))
    }

    /// The provider with this name or alias.
    pub fn entry(&self, name: &str) -> Option<&ProviderEntry> {
        let named = |name: &str| self.0.iter().find(|entry| entry.name == name);
        named(name).or_else(|| named(provider_name(name)))
    }

    /// The endpoint for a model that is named without a provider.
    fn find_model(&self, name: &str) -> Result<Endpoint> {
        if let Some(entry) = self.provider_of(name)? {
            return Ok(entry.endpoint(name));
        }
        let known: Vec<&str> = self.configured().map(|entry| entry.name.as_str()).chain(["echo"]).collect();
        if let Some((provider, _)) = name.split_once('/') {
            let known = known.join(", ");
            return Err(Error::usage(format!("unknown provider {provider:?}: use PROVIDER/MODEL with one of {known}")));
        }
        if let Some(nearest) = text::nearest(name, known.iter().copied()) {
            return Err(Error::usage(format!("unknown provider {name:?}: did you mean {nearest}?")));
        }
        let mut places: Vec<&ProviderEntry> = self.configured().collect();
        places.dedup_by(|later, first| later.base_url == first.base_url);
        let services = models::services_of(name);
        // A server that replaces a service is asked for the models of that service.
        let mut standing_in = places.iter().filter(|entry| services.contains(&entry.name.as_str()));
        match (standing_in.next(), &places[..], &services[..]) {
            (Some(entry), ..) | (_, [entry], []) => Ok(entry.endpoint(name)),
            (_, _, [service, ..]) => Err(Error::new(
                ErrorKind::Auth,
                format!(
                    "{name} is a model of {service}, for which there is no key: use PROVIDER/MODEL for another provider"
                ),
            )),
            _ => Err(Error::usage(format!(
                "unknown provider {name:?}: use PROVIDER/MODEL with one of {}",
                known.join(", ")
            ))),
        }
    }
}

/// Other names of providers.
const ALIASES: [(&str, &str); 1] = [("gemini", "google")];

/// The name of a provider that may be known by another one.
pub fn provider_name(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
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
        assert_eq!(catalog().find("one").unwrap().full_name(), "one/");
        assert_eq!(Catalog::default().find("echo"), Ok(Endpoint::echo()));
    }

    #[test]
    fn a_model_without_a_provider_is_that_of_the_one_that_has_it() {
        let mut catalog = catalog();
        let context = |tokens| ModelFacts { context: Some(tokens), ..ModelFacts::default() };
        catalog.learn("one", vec![("big".into(), context(9)), ("org/small".into(), context(3))]);
        assert_eq!(catalog.find("big").unwrap().full_name(), "one/big");
        assert_eq!(catalog.find("org/small").unwrap().facts.context, Some(3));
        catalog.0[0].models.push(("big".into(), context(7)));
        assert_eq!(catalog.find("one/big").unwrap().facts.context, Some(7), "the configuration overrides the list");
        catalog.learn("two", vec![("big".into(), context(9))]);
        assert!(catalog.find("big").unwrap_err().message.ends_with("use one/big or two/big"));
    }

    #[test]
    fn each_token_is_counted_once_at_its_own_price() {
        let prices = Prices { input: 3_000_000, cached: 300_000, written: 3_750_000, output: 15_000_000 };
        let usage = Usage { input: 1000, cached: 600, written: 300, output: 10, ..Usage::default() };
        assert_eq!(prices.cost(&usage), 100 * 3000 + 600 * 300 + 300 * 3750 + 10 * 15000);
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert!(!format!("{:?}", catalog()).contains("two\")"));
        assert_eq!(format!("{:?}", Secret::new("x")), "[secret]");
    }
}
