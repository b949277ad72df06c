//! The providers and models that can be used, and the model of new agents. Providers come from configuration files and from
//! services whose environment variables are set.

use super::environment::ProcessEnvironment;
use super::file::Diagnostics;
use super::providers::{Auth, FileProvider, URL_EXPECTED, checked_url};
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::endpoint::{Catalog, Endpoint, ModelFacts, ProviderEntry, Secret, provider_name};
use crate::domain::models;
use crate::domain::parameters::Parameters;
use crate::provider::credentials::no_model;
use crate::provider::parameters::check;
use crate::provider::presets::{self, PRESETS, Preset};
use crate::provider::{PROVIDERS, Service};

/// A provider that can be used, with the sources of its parts.
#[derive(Debug, Clone)]
pub struct KnownProvider {
    pub entry: ProviderEntry,
    pub key: KeySource,
    pub url_source: String,
    pub is_service: bool,
    pub is_in_file: bool,
    pub is_project: bool,
}

/// The source of a key; never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    None,
    /// A variable, which may not be set.
    Variable(String),
    Command,
}

impl KnownProvider {
    /// The variable that holds its key.
    pub fn key_variable(&self) -> Option<String> {
        if let KeySource::Variable(name) = &self.key { Some(name.clone()) } else { None }
    }

    pub fn has_key(&self) -> bool {
        self.entry.key.is_some() || self.entry.key_command.is_some()
    }

    /// Without a configured one it is empty: the first one of the server.
    fn default_model(&self) -> String {
        format!("{}/{}", self.entry.name, self.entry.models.first().map_or("", |(model, _)| model))
    }
}

fn services() -> impl Iterator<Item = (&'static str, Service)> {
    PROVIDERS.iter().filter_map(|spec| Some((spec.kind, spec.service?)))
}

/// All providers: services in the order of the provider table, then the others in the order of the files.
pub fn known_providers(
    files: &[FileProvider],
    env: &ProcessEnvironment,
    diagnostics: &mut Diagnostics,
) -> Vec<KnownProvider> {
    let files: Vec<&FileProvider> = files.iter().filter(|file| is_admitted(file, files, diagnostics)).collect();
    let mut known = Vec::new();
    for (kind, service) in services() {
        let file = files.iter().find(|file| file.name == service.name).copied();
        let has_protocol = file.is_none_or(|file| file.kind.as_deref().is_none_or(|other| other == kind));
        let is_set = key_of(&service, env).is_some() || env.set(service.url_variable).is_some();
        if has_protocol && (file.is_some() || is_set && !is_key_elsewhere(&service, &files)) {
            known.extend(provider(file, Some((kind, service)), env, diagnostics));
        }
    }
    for file in files {
        if !known.iter().any(|known: &KnownProvider| known.entry.name == file.name) {
            known.extend(provider(Some(file), None, env, diagnostics));
        }
    }
    let is_new = |preset: &&Preset| !known.iter().any(|known| known.entry.name == preset.name);
    let presets: Vec<_> = PRESETS.iter().filter(is_new).map(|preset| of_preset(preset, env)).collect();
    known.extend(presets);
    known
}

fn of_preset(preset: &Preset, env: &ProcessEnvironment) -> KnownProvider {
    let entry = preset.entry(&|variable| env.text(variable));
    let key = entry.key_variable.clone().filter(|_| entry.key.is_some());
    KnownProvider {
        entry,
        key: key.map_or(KeySource::None, KeySource::Variable),
        url_source: "default".to_owned(),
        is_service: false,
        is_in_file: false,
        is_project: false,
    }
}

/// The well-known service with this base URL.
fn service_at(base_url: &str) -> Option<&'static str> {
    let presets = PRESETS.iter().map(|preset| (preset.name, preset.base_url));
    // The protocols of one service have one table of models.
    let services = services().map(|(_, service)| (service.models, service.base_url));
    services.chain(presets).find(|(_, url)| *url == base_url).map(|(name, _)| name)
}

/// A project's file can add a provider, but neither replace one of the user's nor have the content of a variable sent to a
/// URL to which the user does not send it.
fn is_admitted(file: &FileProvider, all: &[FileProvider], diagnostics: &mut Diagnostics) -> bool {
    if !file.is_project {
        return true;
    }
    let users = || all.iter().filter(|other| !other.is_project);
    let is_taken = users().any(|other| other.name == file.name)
        || services().any(|(_, other)| other.name == file.name)
        || presets::preset(&file.name).is_some();
    let location = format!("{}: providers.{}", file.location, file.name);
    if is_taken {
        diagnostics.error(format!("{location}: a project cannot redefine this provider: choose another name"));
        return false;
    }
    let is_same = |other: &FileProvider| (&other.key_variable, &other.base_url) == (&file.key_variable, &file.base_url);
    let is_admitted = file.key_variable.is_none() || users().any(is_same);
    if !is_admitted {
        diagnostics.error(format!(
            "{location}.api_key_env: a project cannot choose which variable is sent: set it for this URL in your own \
             configuration"
        ));
    }
    is_admitted
}

/// Whether a file sets another URL for a service with which this one shares its key.
fn is_key_elsewhere(service: &Service, files: &[&FileProvider]) -> bool {
    let moved = files.iter().filter(|file| file.base_url.is_some());
    let mut moved = moved.filter_map(|file| services().find(|(_, other)| other.name == file.name));
    moved.any(|(_, other)| other.key_variables.iter().any(|variable| service.key_variables.contains(variable)))
}

fn key_of(service: &Service, env: &ProcessEnvironment) -> Option<(String, String)> {
    service.key_variables.iter().find_map(|name| Some(((*name).to_owned(), env.text(name)?)))
}

/// Combines the file, the variables and the defaults of the service.
fn provider(
    file: Option<&FileProvider>,
    service: Option<(&'static str, Service)>,
    env: &ProcessEnvironment,
    diagnostics: &mut Diagnostics,
) -> Option<KnownProvider> {
    let explicit_kind = file.and_then(|file| file.kind.clone());
    let kind = explicit_kind.clone().or(service.map(|(kind, _)| kind.to_owned())).unwrap_or_else(|| "openai".into());
    let (key_source, key) = key(file, service, env);
    // The URL of the service is the default only if the protocol is named and there is a key for it.
    let has_key = key_source != KeySource::None;
    let of_kind = || services().find(|(other, _)| *other == kind && explicit_kind.is_some() && has_key);
    let preset = file.filter(|_| kind == "openai").and_then(|file| presets::preset(&file.name));
    let default = service.or_else(of_kind).map(|(_, service)| service.base_url);
    let default = preset.map(|preset| preset.base_url).or(default);
    let usual_key = service.and_then(|(_, service)| service.key_variables.first().copied());
    let usual_key = usual_key.or(preset.and_then(|preset| preset.key_variable));
    let (base_url, url_source) = url(file, service, default, env, diagnostics)?;
    let name = file.map(|file| file.name.clone()).or(service.map(|(_, service)| service.name.to_owned()))?;
    let send_reasoning = file.and_then(|file| file.send_reasoning);
    let aws_region = file.filter(|file| file.auth == Auth::Aws).and_then(|file| region(file, &base_url));
    let entry = ProviderEntry {
        name,
        kind,
        service: service_at(&base_url),
        send_reasoning: send_reasoning.unwrap_or_else(|| presets::send_reasoning(&base_url)),
        models: models(file, service, &base_url),
        base_url,
        key,
        key_variable: match &key_source {
            KeySource::Variable(name) => Some(name.clone()),
            _ => usual_key.map(str::to_owned),
        },
        aws_region,
        ..file.map(settings).unwrap_or_default()
    };
    check_parameters(&entry, diagnostics);
    check_auth(file, &entry, diagnostics);
    Some(KnownProvider {
        entry,
        key: key_source,
        url_source,
        is_service: service.is_some(),
        is_in_file: file.is_some(),
        is_project: file.is_some_and(|file| file.is_project),
    })
}

/// The settings of a provider in a file, unchanged.
fn settings(file: &FileProvider) -> ProviderEntry {
    ProviderEntry {
        key_command: file.key_command.clone(),
        headers: file.headers.clone(),
        parameters: file.parameters.clone(),
        fallback: file.fallback.clone().unwrap_or_default(),
        overrides: file.overrides.clone(),
        stall_timeout: file.stall_timeout,
        is_bearer: file.auth == Auth::Bearer,
        ..ProviderEntry::default()
    }
}

/// The configured models, or else the usual one of the service.
fn models(
    file: Option<&FileProvider>,
    service: Option<(&'static str, Service)>,
    base_url: &str,
) -> Vec<(String, ModelFacts)> {
    let mut models = file.map(|file| file.models.clone()).unwrap_or_default();
    let has_usual = service.is_some_and(|(kind, service)| base_url == service.base_url || !kind.starts_with("openai"));
    if let (true, Some((_, service))) = (models.is_empty() && has_usual, service) {
        models.push((service.model.to_owned(), ModelFacts::default()));
    }
    models
}

/// The region of Bedrock: as it is set, or that of `bedrock-runtime.REGION.amazonaws.com`.
fn region(file: &FileProvider, base_url: &str) -> Option<String> {
    let of_url = || base_url.split_once("bedrock-runtime.")?.1.split_once(".amazonaws.com").map(|(region, _)| region);
    file.region.clone().or_else(|| of_url().map(str::to_owned))
}

fn check_auth(file: Option<&FileProvider>, entry: &ProviderEntry, diagnostics: &mut Diagnostics) {
    let Some(file) = file.filter(|file| file.auth == Auth::Aws) else { return };
    let key = format!("{}: providers.{}.auth", file.location, file.name);
    if entry.kind != "anthropic" {
        diagnostics.error(format!("{key}: aws is for kind = \"anthropic\""));
    }
    if entry.aws_region.is_none() {
        diagnostics.error(format!("{key}: set region, such as us-east-1"));
    }
}

/// The access key of Amazon's own variables, as one text.
fn aws_key(env: &ProcessEnvironment) -> Option<Secret> {
    let (id, secret) = (env.text("AWS_ACCESS_KEY_ID")?, env.text("AWS_SECRET_ACCESS_KEY")?);
    let token = env.text("AWS_SESSION_TOKEN").map(|token| format!(":{token}")).unwrap_or_default();
    Some(Secret::new(&format!("{id}:{secret}{token}")))
}

/// Parameters that the protocol or a model does not have are errors, as in a command.
fn check_parameters(entry: &ProviderEntry, diagnostics: &mut Diagnostics) {
    let of_models = entry.overrides.iter().map(|(model, settings)| (model.as_str(), &settings.parameters));
    for (model, parameters) in std::iter::once(("", &entry.parameters)).chain(of_models) {
        let endpoint = Endpoint { model: model.to_owned(), ..entry.endpoint("") };
        for (name, set) in parameters.iter() {
            if let Err(error) = check(&endpoint, name, &set.value) {
                diagnostics.error(format!("{}: {}", set.source, error.message));
            }
        }
    }
}

/// Gives all providers the parameters of this run that their protocols have, and the models that reply where a provider
/// without such a list cannot.
pub fn set_for_run(
    known: &mut [KnownProvider],
    run: &Parameters,
    fallback: &[String],
    chosen: &Endpoint,
    files: &[FileProvider],
) -> Result<()> {
    for (name, set) in run.iter() {
        check(chosen, name, &set.value).map_err(|error| error.context(&set.source))?;
    }
    for KnownProvider { entry, .. } in known {
        let endpoint = entry.endpoint("");
        entry.run_parameters = run.clone();
        entry.run_parameters.retain(|name, value| check(&endpoint, name, value).is_ok());
        let is_set = files.iter().any(|file| file.name == entry.name && file.fallback.is_some());
        if !is_set {
            entry.fallback = fallback.to_vec();
        }
    }
    Ok(())
}

/// The models of `fallback` that are not configured, each with its message.
pub fn unknown_fallbacks(catalog: &Catalog) -> Vec<String> {
    let lists = catalog.0.iter().flat_map(|entry| {
        let of_models = entry.overrides.iter().filter_map(|(_, settings)| settings.fallback.as_deref());
        std::iter::once(entry.fallback.as_slice()).chain(of_models)
    });
    let mut messages: Vec<String> = Vec::new();
    for name in lists.flatten() {
        let message = match catalog.find(name) {
            Ok(endpoint) if endpoint.model.is_empty() => "expected PROVIDER/MODEL".to_owned(),
            Ok(_) => continue,
            Err(error) => error.message,
        };
        let message = format!("fallback: {name:?}: {message}");
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    messages
}

fn key(
    file: Option<&FileProvider>,
    service: Option<(&'static str, Service)>,
    env: &ProcessEnvironment,
) -> (KeySource, Option<Secret>) {
    if file.is_some_and(|file| file.key_command.is_some()) {
        return (KeySource::Command, None);
    }
    if let Some(name) = file.and_then(|file| file.key_variable.clone()) {
        let key = env.text(&name).map(|key| Secret::new(&key));
        return (KeySource::Variable(name), key);
    }
    if file.is_some_and(|file| file.auth == Auth::Aws && !file.is_project) {
        return (KeySource::Variable("AWS_SECRET_ACCESS_KEY".to_owned()), aws_key(env));
    }
    let preset = file.and_then(|file| presets::preset(&file.name)?.key_variable);
    let of_preset = || preset.and_then(|variable| Some((variable.to_owned(), env.text(variable)?)));
    match service.and_then(|(_, service)| key_of(&service, env)).or_else(of_preset) {
        Some((name, key)) => (KeySource::Variable(name), Some(Secret::new(&key))),
        None => (KeySource::None, None),
    }
}

/// The URL and its source; `None`, with an error, if there is none.
fn url(
    file: Option<&FileProvider>,
    service: Option<(&'static str, Service)>,
    default: Option<&'static str>,
    env: &ProcessEnvironment,
    diagnostics: &mut Diagnostics,
) -> Option<(String, String)> {
    if let Some((variable, value)) =
        service.and_then(|(_, service)| Some((service.url_variable, env.set(service.url_variable)?)))
    {
        let checked = value.to_str().and_then(checked_url);
        if checked.is_none() {
            diagnostics.error(format!("{variable}: {URL_EXPECTED}"));
        }
        return checked.map(|url| (url, variable.to_owned()));
    }
    if let Some((file, url)) = file.and_then(|file| Some((file, file.base_url.clone()?))) {
        return Some((url, file.location.to_string()));
    }
    if let Some(url) = default {
        return Some((url.to_owned(), "default".to_owned()));
    }
    if let Some(file) = file.filter(|file| file.is_valid) {
        diagnostics.error(format!("{}: providers.{}.base_url is missing: {URL_EXPECTED}", file.location, file.name));
    }
    None
}

/// The model of new agents, with a hint for the user if none is configured.
pub fn choose(name: Option<&str>, known: &[KnownProvider]) -> Result<(Endpoint, Option<String>)> {
    let catalog = Catalog(known.iter().map(|known| known.entry.clone()).collect());
    let Some(name) = name else {
        return match default_model(known) {
            Some(name) => Ok((catalog.find(&name)?, None)),
            None => Ok((Endpoint::none(), Some(setup_hint(known)))),
        };
    };
    let provider = provider_name(name.split('/').next().unwrap_or(name));
    if let Some(preset) = known.iter().find(|known| known.entry.name == provider && known.entry.is_assumed)
        && let Some(variable) = &preset.entry.key_variable
    {
        return Err(no_key_of_preset(provider, variable));
    }
    catalog.find(name).map(|endpoint| (endpoint, None)).map_err(|error| {
        let named = (error.kind == ErrorKind::Usage).then_some(provider);
        let services_with_it = || models::services_of(name).into_iter();
        let mut missing = named.into_iter().chain(services_with_it().filter(|_| error.kind == ErrorKind::Auth));
        let missing = missing.find_map(|name| missing_key(name, known));
        match catalog.configured().next() {
            None if missing.is_none() => {
                let names: Vec<String> = services().map(|(_, service)| format!("{}/MODEL", service.name)).collect();
                Error::usage(format!("unknown provider {provider:?}: use one of {}, echo", names.join(", ")))
            }
            _ => missing.unwrap_or(error),
        }
    })
}

/// What to do about a service that is not configured.
fn missing_key(name: &str, known: &[KnownProvider]) -> Option<Error> {
    let service = services().find(|(_, service)| service.name == name).map(|(_, service)| no_key(&service, known));
    service.or_else(|| Some(no_key_of_preset(name, presets::preset(name)?.key_variable?)))
}

fn no_key_of_preset(name: &str, variable: &str) -> Error {
    Error::new(ErrorKind::Auth, format!("no key for {name}: export {variable}=…"))
}

/// What to do if no model is configured.
fn setup_hint(known: &[KnownProvider]) -> String {
    let entries = known.iter().map(|known| &known.entry).filter(|entry| entry.key.is_some());
    let mut presets = entries.filter(|entry| presets::preset(&entry.name).is_some());
    no_model(presets.find_map(|entry| Some((entry.name.as_str(), entry.key_variable.as_deref()?))))
}

/// The provider of new agents if no model is set.
pub fn default_provider(known: &[KnownProvider]) -> &str {
    default_of(known).map_or("echo", |known| &known.entry.name)
}

fn default_model(known: &[KnownProvider]) -> Option<String> {
    default_of(known).map(KnownProvider::default_model)
}

/// Services with a key come first, then providers of the user's file, then servers that need no key. A provider of a
/// project is used only if the user names it.
fn default_of(known: &[KnownProvider]) -> Option<&KnownProvider> {
    let with_key = known.iter().filter(|known| known.is_service && known.has_key());
    let in_files = known.iter().filter(|known| known.is_in_file && !known.is_project);
    let rest = known.iter().filter(|known| known.is_service);
    let has_default = |known: &&KnownProvider| !known.entry.models.is_empty() || known.is_service;
    with_key.chain(in_files).chain(rest).find(has_default)
}

fn no_key(service: &Service, known: &[KnownProvider]) -> Error {
    let (name, variable) = (service.name, service.key_variables.first().copied().unwrap_or_default());
    let shares_key = |other: &&KnownProvider| {
        let mut services = services().filter(|(_, service)| service.name == other.entry.name);
        services.any(|(_, service)| service.key_variables.contains(&variable))
    };
    let mut moved = known.iter().filter(|known| known.is_in_file && known.entry.base_url != service.base_url);
    let message = match moved.find(shares_key) {
        Some(KnownProvider { entry: other, .. }) => format!(
            "{name} shares the key {variable} with [providers.{}], whose base_url is {}: set base_url in \
             [providers.{name}] as well",
            other.name, other.base_url,
        ),
        None => {
            format!("no key for {name}: export {variable}=…, or {} for a server that needs none", service.url_variable)
        }
    };
    Error::new(ErrorKind::Auth, message)
}
