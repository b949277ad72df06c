//! The providers and models that can be used, and the model of new agents. Providers come from configuration files and from
//! services whose environment variables are set.

use super::environment::ProcessEnvironment;
use super::file::Diagnostics;
use super::providers::{FileProvider, URL_EXPECTED, checked_url};
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::endpoint::{Catalog, Endpoint, ProviderEntry, Secret};
use crate::provider::{PROVIDERS, Service};

const SETUP_HINT: &str = "no model is configured, so the built-in echo answers: export OPENAI_API_KEY=… (or \
                          OPENAI_BASE_URL=http://localhost:8080/v1 for a local server) and restart with -m openai/MODEL";

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

    fn default_model(&self) -> Option<String> {
        self.entry.models.first().map(|(model, _)| format!("{}/{model}", self.entry.name))
    }
}

fn services() -> impl Iterator<Item = (&'static str, Service)> {
    PROVIDERS.iter().filter_map(|spec| Some((spec.kind, spec.service?)))
}

/// All providers: services in the order of the provider table, then the others in the order of the files.
pub fn known(files: &[FileProvider], env: &ProcessEnvironment, diagnostics: &mut Diagnostics) -> Vec<KnownProvider> {
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
    known
}

/// A project's file can add a provider, but neither replace one of the user's nor have the content of a variable sent to a
/// URL to which the user does not send it.
fn is_admitted(file: &FileProvider, all: &[FileProvider], diagnostics: &mut Diagnostics) -> bool {
    if !file.is_project {
        return true;
    }
    let users = || all.iter().filter(|other| !other.is_project);
    let is_taken = users().any(|other| other.name == file.name) || services().any(|(_, other)| other.name == file.name);
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
    let default =
        service.or_else(|| services().find(|(other, _)| *other == kind && explicit_kind.is_some() && has_key));
    let (base_url, url_source) = url(file, service, default, env, diagnostics)?;
    let name = file.map(|file| file.name.clone()).or(service.map(|(_, service)| service.name.to_owned()))?;
    let mut models = file.map(|file| file.models.clone()).unwrap_or_default();
    if let (true, Some((_, service))) = (models.is_empty(), service) {
        models.push((service.model.to_owned(), Default::default()));
    }
    let entry = ProviderEntry {
        name,
        kind,
        base_url,
        key,
        key_command: file.and_then(|file| file.key_command.clone()),
        headers: file.map(|file| file.headers.clone()).unwrap_or_default(),
        models,
    };
    Some(KnownProvider {
        entry,
        key: key_source,
        url_source,
        is_service: service.is_some(),
        is_in_file: file.is_some(),
        is_project: file.is_some_and(|file| file.is_project),
    })
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
    match service.and_then(|(_, service)| key_of(&service, env)) {
        Some((name, key)) => (KeySource::Variable(name), Some(Secret::new(&key))),
        None => (KeySource::None, None),
    }
}

/// The URL and its source; `None`, with an error, if there is none.
fn url(
    file: Option<&FileProvider>,
    service: Option<(&'static str, Service)>,
    default: Option<(&'static str, Service)>,
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
    if let Some((_, service)) = default {
        return Some((service.base_url.to_owned(), "default".to_owned()));
    }
    if let Some(file) = file.filter(|file| file.is_valid) {
        diagnostics.error(format!("{}: providers.{}.base_url is missing: {URL_EXPECTED}", file.location, file.name));
    }
    None
}

/// The model of new agents, with a hint for the user if none is configured.
///
/// # Errors
/// The provider is unknown or has no key.
pub fn choose(name: Option<&str>, known: &[KnownProvider]) -> Result<(Endpoint, Option<String>)> {
    let catalog = Catalog(known.iter().map(|known| known.entry.clone()).collect());
    let Some(name) = name else {
        return match default_model(known) {
            Some(name) => Ok((catalog.find(&name)?, None)),
            None => Ok((Endpoint::echo(), Some(SETUP_HINT.to_owned()))),
        };
    };
    let provider = name.split('/').next().unwrap_or(name);
    if provider == "echo" || known.iter().any(|known| known.entry.name == provider) {
        return Ok((catalog.find(name)?, None));
    }
    Err(services().find(|(_, service)| service.name == provider).map_or_else(
        || {
            let named = known.iter().filter(|known| !known.is_service).map(|known| known.entry.name.as_str());
            let all: Vec<String> = services().map(|(_, service)| service.name).chain(named).map(example).collect();
            Error::usage(format!("unknown provider {provider:?}: use one of {}, echo", all.join(", ")))
        },
        |(_, service)| no_key(&service, known),
    ))
}

fn example(name: &str) -> String {
    format!("{name}/MODEL")
}

/// The provider of new agents if no model is set.
pub fn default_provider(known: &[KnownProvider]) -> &str {
    default_of(known).map_or("echo", |known| &known.entry.name)
}

fn default_model(known: &[KnownProvider]) -> Option<String> {
    default_of(known).and_then(KnownProvider::default_model)
}

/// Services with a key come first, then providers of the user's file, then servers that need no key. A provider of a
/// project is used only if the user names it.
fn default_of(known: &[KnownProvider]) -> Option<&KnownProvider> {
    let with_key = known.iter().filter(|known| known.is_service && known.has_key());
    let in_files = known.iter().filter(|known| known.is_in_file && !known.is_project);
    let rest = known.iter().filter(|known| known.is_service);
    with_key.chain(in_files).chain(rest).find(|known| !known.entry.models.is_empty())
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
