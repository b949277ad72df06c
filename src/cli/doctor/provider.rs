//! Checks each provider: whether it has a key, answers and accepts the key.
//!
//! The check is a request for the list of models, which is free of charge. It has the headers of a conversation, because every
//! protocol sends its key in its own way.

use std::time::Duration;

use super::{Report, Verdict};
use crate::base::error::Result;
use crate::cli::config::Loaded;
use crate::cli::config::catalog::{KeySource, KnownProvider};
use crate::cli::config::show::public_url;
use crate::domain::endpoint::Catalog;
use crate::net::{self, Fetched};
use crate::provider::list::{self, ListRequest};

const TIMEOUT: Duration = Duration::from_secs(10);

pub fn check(report: &mut Report, loaded: &Loaded, is_offline: bool) {
    let providers: Vec<&KnownProvider> = loaded.providers_in_use().collect();
    if providers.is_empty() {
        report.warn("providers", loaded.config().hint.clone().unwrap_or_else(|| "only the built-in echo".into()));
    }
    let requests: Vec<Result<ListRequest>> = providers.iter().copied().map(models_request).collect();
    let sent: Vec<&ListRequest> = requests.iter().flatten().filter(|_| !is_offline).collect();
    let responses = responses(&sent);
    for (known, request) in providers.iter().zip(&requests) {
        key(report, known);
        let name = format!("{} ({})", known.entry.name, public_url(&known.entry.base_url));
        let response = request.as_ref().map(|request| responses.iter().find(|(sent, _)| *sent == request));
        match response {
            Err(error) => report.fail("provider", format!("{name}: {error}")),
            Ok(None) => report.ok("provider", format!("{name}: not contacted (--offline)")),
            Ok(Some((_, Err(error)))) => report.fail("provider", format!("{name}: {error}")),
            Ok(Some((_, Ok((status, body))))) => {
                let (verdict, message) = verdict_of(*status, known);
                report.add(verdict, "provider", format!("{name}: {message}"));
                model(report, known, loaded, body);
            }
        }
    }
}

/// Sends all requests at the same time; equal ones are sent once.
fn responses<'a>(requests: &[&'a ListRequest]) -> Vec<(&'a ListRequest, Result<Fetched>)> {
    let is_first = |(index, request): &(usize, &&ListRequest)| !requests[..*index].contains(request);
    let different = requests.iter().enumerate().filter(is_first).map(|(_, request)| *request);
    std::thread::scope(|scope| {
        let send = |request: &'a ListRequest| {
            scope.spawn(|| net::fetch(&request.url, &request.headers, request.body.as_deref(), TIMEOUT))
        };
        let threads: Vec<_> = different.map(|request| (request, send(request))).collect();
        threads.into_iter().filter_map(|(request, thread)| Some((request, thread.join().ok()?))).collect()
    })
}

fn key(report: &mut Report, known: &KnownProvider) {
    let name = &known.entry.name;
    match &known.key {
        KeySource::Variable(variable) if known.has_key() => {
            report.ok("key", format!("{name}: from {variable}"));
        }
        KeySource::Variable(variable) => report.fail("key", format!("{name}: {variable} is not set: export it")),
        KeySource::Command => {
            report.ok("key", format!("{name}: from api_key_command, which runs when a key is needed"))
        }
        KeySource::None => report.ok("key", format!("{name}: none (for a server without keys)")),
    }
}

fn models_request(known: &KnownProvider) -> Result<ListRequest> {
    let model = known.entry.models.first().map_or("any", |(model, _)| model);
    let endpoint = Catalog(vec![known.entry.clone()]).find(&format!("{}/{model}", known.entry.name))?;
    list::request(&endpoint, endpoint.key.as_ref())
}

/// The model of new agents, what is known of its context, and models that the server does not have.
fn model(report: &mut Report, known: &KnownProvider, loaded: &Loaded, body: &[u8]) {
    let missing = unlisted_models(known, loaded, body);
    for model in &missing {
        report.warn("model", format!("{}/{model}: the server does not list it", known.entry.name));
    }
    let used = &loaded.config().endpoint;
    let Ok(listed) = list::read(200, body) else { return };
    if used.provider != known.entry.name || missing.contains(&used.model.as_str()) {
        return;
    }
    let count = listed.len();
    let (model, which) = match (used.model.as_str(), list::first_chat(&listed)) {
        ("", None) => return report.warn("model", format!("{}: the server lists no models", used.provider)),
        ("", Some((first, _))) if count == 1 => (first.as_str(), ", the only model of the server".to_owned()),
        ("", Some((first, _))) => (first.as_str(), format!(", the first of {count} models of the server")),
        (named, _) => (named, String::new()),
    };
    let mut catalog = Catalog(vec![known.entry.clone()]);
    catalog.learn(&used.provider, listed.clone());
    let full_name = format!("{}/{model}", used.provider);
    let context = catalog.find(&full_name).ok().and_then(|endpoint| endpoint.facts.context);
    let context = context.map_or_else(|| "context unknown".into(), |tokens| format!("context of {tokens} tokens"));
    report.ok("model", format!("{full_name}{which}: {context}"));
}

/// Models that are configured or used and that the server does not list.
fn unlisted_models<'a>(known: &'a KnownProvider, loaded: &'a Loaded, body: &[u8]) -> Vec<&'a str> {
    // Azure lists what can be deployed, and not the deployments.
    if known.entry.base_url.contains(".azure.com") {
        return Vec::new();
    }
    let Ok(listed) = list::read(200, body) else { return Vec::new() };
    let used = &loaded.config().endpoint;
    let used = (used.provider == known.entry.name && !used.model.is_empty()).then_some(used.model.as_str());
    let mut models: Vec<&str> = known.entry.models.iter().map(|(model, _)| model.as_str()).chain(used).collect();
    models.sort_unstable();
    models.dedup();
    // Ollama takes a name without its tag, and some servers list only a name for the newest of a date.
    let is_listed =
        |model: &&str| listed.iter().any(|(name, _)| name == *model || name.starts_with(&format!("{model}:")));
    models.retain(|model| !listed.is_empty() && !is_listed(model));
    models
}

/// What a status says about key and URL.
fn verdict_of(status: u16, known: &KnownProvider) -> (Verdict, String) {
    let source = match &known.key {
        KeySource::Variable(variable) => variable.clone(),
        KeySource::Command => "api_key_command".into(),
        KeySource::None => "api_key_env".into(),
    };
    let is_keyed = known.entry.key.is_some();
    match status {
        200..=299 if is_keyed => (Verdict::Ok, "accepts the key".into()),
        200..=299 => (Verdict::Ok, "answers".into()),
        401 | 403 if is_keyed => (Verdict::Fail, format!("rejects the key (HTTP {status}): check {source}")),
        401 | 403 if known.has_key() => (Verdict::Ok, format!("answers and requires the key from {source}")),
        401 | 403 => (Verdict::Fail, format!("requires a key (HTTP {status}): set api_key_env in the configuration")),
        // Google responds like this to an invalid key.
        400 if is_keyed => (Verdict::Fail, format!("rejects the key or the base URL (HTTP 400): check {source}")),
        404 | 405 => (Verdict::Warn, format!("has no list of models (HTTP {status}): check the base URL")),
        429 => (Verdict::Warn, "rate limit reached (HTTP 429)".into()),
        500.. => (Verdict::Warn, format!("server error (HTTP {status}): try again later")),
        _ => (Verdict::Warn, format!("unexpected response (HTTP {status}): check the base URL")),
    }
}
