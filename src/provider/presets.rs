//! Well-known services and local servers that are used by name alone: `groq/MODEL`, `ollama/MODEL`.
//!
//! All of them have the protocol `openai`. URLs and variables are those of each service's documentation.

use crate::domain::endpoint::{ModelFacts, ProviderEntry, Secret};
use crate::domain::reasoning::SendReasoning;
use crate::provider::{PROVIDERS, Service};

/// A service that is known by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name, before the slash of an endpoint.
    pub name: &'static str,
    /// Its base URL, including the version segment.
    pub base_url: &'static str,
    /// The variable that holds its key; `None` for a local server without keys.
    pub key_variable: Option<&'static str>,
}

const fn service(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Preset {
    Preset { name, base_url, key_variable: Some(key_variable) }
}

const fn local(name: &'static str, base_url: &'static str) -> Preset {
    Preset { name, base_url, key_variable: None }
}

/// All of them: the services, then the local servers at their usual ports.
pub const PRESETS: &[Preset] = &[
    service("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    service("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    service("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    service("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    service("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    service("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    service("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    service("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    service("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    service("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    service("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    local("llamacpp", "http://localhost:8080/v1"),
    local("lmstudio", "http://localhost:1234/v1"),
    local("ollama", "http://localhost:11434/v1"),
    local("vllm", "http://localhost:8000/v1"),
];

/// How the service at this URL expects reasoning back. These models refuse a call without it, even if another model
/// made the call (api-docs.deepseek.com/guides/thinking_mode,
/// platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model).
pub fn send_reasoning(base_url: &str) -> SendReasoning {
    let is_strict = [".deepseek.com", ".moonshot.ai", ".moonshot.cn"].iter().any(|host| base_url.contains(host));
    if is_strict { SendReasoning::ReasoningContent } else { SendReasoning::Auto }
}

/// All services and local servers as providers, each with the key of its variable if that is set. The protocols of one
/// server are one provider.
pub fn entries(variable: &dyn Fn(&str) -> Option<String>) -> Vec<ProviderEntry> {
    let services = PROVIDERS.iter().filter_map(|spec| Some((spec.kind, spec.service?)));
    let mut entries: Vec<ProviderEntry> =
        services.map(|(kind, service)| of_service(kind, &service, variable)).collect();
    entries.dedup_by(|later, first| later.base_url == first.base_url);
    entries.extend(PRESETS.iter().map(|preset| preset.entry(variable)));
    entries
}

fn of_service(kind: &str, service: &Service, variable: &dyn Fn(&str) -> Option<String>) -> ProviderEntry {
    let key = service.key_variables.iter().find_map(|name| Some((*name, variable(name)?)));
    ProviderEntry {
        name: service.name.to_owned(),
        kind: kind.to_owned(),
        base_url: service.base_url.to_owned(),
        service: Some(service.models),
        key: key.as_ref().map(|(_, key)| Secret::new(key)),
        key_variable: key.map(|(name, _)| name).or(service.key_variables.first().copied()).map(str::to_owned),
        models: vec![(service.model.to_owned(), ModelFacts::default())],
        ..ProviderEntry::default()
    }
}

impl Preset {
    /// The provider, which is assumed unless its variable is set.
    pub fn entry(&self, variable: &dyn Fn(&str) -> Option<String>) -> ProviderEntry {
        let key = self.key_variable.and_then(variable);
        ProviderEntry {
            name: self.name.to_owned(),
            kind: "openai".to_owned(),
            base_url: self.base_url.to_owned(),
            service: Some(self.name),
            key: key.as_deref().map(Secret::new),
            key_variable: self.key_variable.map(str::to_owned),
            send_reasoning: send_reasoning(self.base_url),
            is_assumed: key.is_none(),
            ..ProviderEntry::default()
        }
    }
}

/// The preset with this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
