//! Which models there are, and which one new agents talk to: the services whose variables are set, and the providers of
//! the files.

use super::file::Complaints;
use super::providers::{FileProvider, URL_EXPECTED, checked_url};
use super::surroundings::Surroundings;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::endpoint::{Catalog, Endpoint, ProviderEntry, Secret};
use crate::provider::{PROVIDERS, Service};

/// Told where no model is configured.
pub const SET_UP: &str = "No model is configured, so echo answers. For a real one: export OPENAI_API_KEY=… (or \
                          OPENAI_BASE_URL=http://localhost:8080/v1 for a local server) and start again with \
                          -m openai/MODEL";

/// A provider that can be used, and how that came about.
#[derive(Debug, Clone)]
pub struct Known {
    /// What agents need.
    pub entry: ProviderEntry,
    /// Where its key comes from; never the key.
    pub key: KeySource,
    /// Where its URL comes from.
    pub url_source: String,
    /// Whether it is a service under its own name.
    pub is_service: bool,
    /// Whether a file has it.
    pub is_in_file: bool,
}

/// Where a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// It has none.
    None,
    /// From a variable, if that is set.
    Variable(String),
    /// From a command of the configuration.
    Command,
}

impl Known {
    /// Whether requests go with a key.
    pub fn has_key(&self) -> bool {
        self.entry.key.is_some() || self.entry.key_command.is_some()
    }

    fn usual(&self) -> Option<String> {
        self.entry.models.first().map(|(model, _)| format!("{}/{model}", self.entry.name))
    }
}

/// A service with the protocol that it speaks.
fn services() -> impl Iterator<Item = (&'static str, Service)> {
    PROVIDERS.iter().filter_map(|spec| Some((spec.kind, spec.service?)))
}

/// Everybody: services in the order of the provider table, then the others in the order of the files.
pub fn known(files: &[FileProvider], around: &Surroundings, complaints: &mut Complaints) -> Vec<Known> {
    let files: Vec<&FileProvider> = files.iter().filter(|file| is_admitted(file, files, complaints)).collect();
    let mut known = Vec::new();
    for (kind, service) in services() {
        let file = files.iter().find(|file| file.name == service.name).copied();
        let speaks_it = file.is_none_or(|file| file.kind.as_deref().is_none_or(|other| other == kind));
        let is_set = key_of(&service, around).is_some() || around.set(service.url_variable).is_some();
        if speaks_it && (file.is_some() || is_set && !is_key_elsewhere(&service, &files)) {
            known.extend(provider(file, Some((kind, service)), around, complaints));
        }
    }
    for file in files {
        if !known.iter().any(|known: &Known| known.entry.name == file.name) {
            known.extend(provider(Some(file), None, around, complaints));
        }
    }
    known
}

/// A project's file may add a provider. It may not stand in for one that the person has, nor take its key elsewhere.
fn is_admitted(file: &FileProvider, all: &[FileProvider], complaints: &mut Complaints) -> bool {
    if !file.is_project {
        return true;
    }
    let own = || all.iter().filter(|other| !other.is_project);
    let is_taken = own().any(|other| other.name == file.name) || services().any(|(_, other)| other.name == file.name);
    let place = format!("{}: providers.{}", file.place, file.name);
    if is_taken {
        complaints.refuse(format!("{place}: a project may not change where this provider is: choose another name"));
        return false;
    }
    let is_lent = file.key_variable.as_deref().is_some_and(|variable| {
        own().any(|other| other.key_variable.as_deref() == Some(variable))
            || services().any(|(_, other)| other.key_variables.contains(&variable))
    });
    if is_lent {
        complaints.refuse(format!("{place}.api_key_env: a project may not send another provider's key anywhere"));
    }
    !is_lent
}

/// Whether a file says that the key which this service shares with another one is meant for another place.
fn is_key_elsewhere(service: &Service, files: &[&FileProvider]) -> bool {
    let moved = files.iter().filter(|file| file.base_url.is_some());
    let mut moved = moved.filter_map(|file| services().find(|(_, other)| other.name == file.name));
    moved.any(|(_, other)| other.key_variables.iter().any(|variable| service.key_variables.contains(variable)))
}

fn key_of(service: &Service, around: &Surroundings) -> Option<(String, String)> {
    service.key_variables.iter().find_map(|name| Some(((*name).to_owned(), around.text(name)?)))
}

/// Puts together what the file says, what the variables say, and what is known about the service.
fn provider(
    file: Option<&FileProvider>,
    service: Option<(&'static str, Service)>,
    around: &Surroundings,
    complaints: &mut Complaints,
) -> Option<Known> {
    let said_kind = file.and_then(|file| file.kind.clone());
    let kind = said_kind.clone().or(service.map(|(kind, _)| kind.to_owned())).unwrap_or_else(|| "openai".into());
    let (key_source, key) = key(file, service, around);
    // The service's own address is only meant where the protocol was named, and a key is there to go with it.
    let has_key = key_source != KeySource::None;
    let usual = service.or_else(|| services().find(|(other, _)| *other == kind && said_kind.is_some() && has_key));
    let (base_url, url_source) = url(file, service, usual, around, complaints)?;
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
    Some(Known { entry, key: key_source, url_source, is_service: service.is_some(), is_in_file: file.is_some() })
}

fn key(
    file: Option<&FileProvider>,
    service: Option<(&'static str, Service)>,
    around: &Surroundings,
) -> (KeySource, Option<Secret>) {
    if file.is_some_and(|file| file.key_command.is_some()) {
        return (KeySource::Command, None);
    }
    if let Some(name) = file.and_then(|file| file.key_variable.clone()) {
        let key = around.text(&name).map(|key| Secret::new(&key));
        return (KeySource::Variable(name), key);
    }
    match service.and_then(|(_, service)| key_of(&service, around)) {
        Some((name, key)) => (KeySource::Variable(name), Some(Secret::new(&key))),
        None => (KeySource::None, None),
    }
}

/// The URL and where it comes from; nothing, and a complaint, if there is none.
fn url(
    file: Option<&FileProvider>,
    service: Option<(&'static str, Service)>,
    usual: Option<(&'static str, Service)>,
    around: &Surroundings,
    complaints: &mut Complaints,
) -> Option<(String, String)> {
    if let Some((variable, told)) =
        service.and_then(|(_, service)| Some((service.url_variable, around.set(service.url_variable)?)))
    {
        let checked = told.to_str().and_then(checked_url);
        if checked.is_none() {
            complaints.refuse(format!("{variable}: {URL_EXPECTED}"));
        }
        return checked.map(|url| (url, variable.to_owned()));
    }
    if let Some((file, url)) = file.and_then(|file| Some((file, file.base_url.clone()?))) {
        return Some((url, file.place.to_string()));
    }
    if let Some((_, service)) = usual {
        return Some((service.base_url.to_owned(), "default".to_owned()));
    }
    if let Some(file) = file.filter(|file| file.is_sound) {
        complaints.refuse(format!("{}: providers.{}.base_url: is missing: {URL_EXPECTED}", file.place, file.name));
    }
    None
}

/// What new agents talk to, and what a person should be told about it.
///
/// # Errors
/// The name cannot be meant.
pub fn choose(name: Option<&str>, known: &[Known]) -> Result<(Endpoint, Option<String>)> {
    let catalog = Catalog(known.iter().map(|known| known.entry.clone()).collect());
    let Some(name) = name else {
        return match usual(known) {
            Some(usual) => Ok((catalog.find(&usual)?, None)),
            None => Ok((Endpoint::echo(), Some(SET_UP.to_owned()))),
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
            Error::new(
                ErrorKind::Usage,
                format!("there is no provider {provider:?}: there are {}, echo", all.join(", ")),
            )
        },
        |(_, service)| no_key(&service, known),
    ))
}

fn example(name: &str) -> String {
    format!("{name}/MODEL")
}

/// Services with a key come first: their owner has made a choice. A server that needs none is the last before echo.
fn usual(known: &[Known]) -> Option<String> {
    let with_key = known.iter().filter(|known| known.is_service && known.has_key());
    let in_files = known.iter().filter(|known| known.is_in_file);
    let rest = known.iter().filter(|known| known.is_service);
    with_key.chain(in_files).chain(rest).find_map(Known::usual)
}

fn no_key(service: &Service, known: &[Known]) -> Error {
    let (name, variable) = (service.name, service.key_variables.first().copied().unwrap_or_default());
    let shares_key = |other: &&Known| {
        let mut services = services().filter(|(_, service)| service.name == other.entry.name);
        services.any(|(_, service)| service.key_variables.contains(&variable))
    };
    let mut moved = known.iter().filter(|known| known.is_in_file && known.entry.base_url != service.base_url);
    let words = match moved.find(shares_key) {
        Some(Known { entry: other, .. }) => format!(
            "{name} would take the key of {variable} elsewhere than [providers.{}] does, to {}: say base_url in \
             [providers.{name}] if that is meant",
            other.name, other.base_url,
        ),
        None => {
            format!("no key for {name}: export {variable}=…, or {} for a server that needs none", service.url_variable)
        }
    };
    Error::new(ErrorKind::Auth, words)
}
