//! Checks each provider: whether it has a key, answers and accepts the key.
//!
//! The check is a request for the list of models, which is free of charge. It has the headers of a conversation, because every
//! protocol sends its key in its own way.

use std::time::Duration;

use super::{Report, Verdict};
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::cli::config::Loaded;
use crate::cli::config::catalog::{KeySource, KnownProvider};
use crate::cli::config::show::public_url;
use crate::domain::endpoint::Catalog;
use crate::domain::message::{Body, Message};
use crate::domain::thinking::Thinking;
use crate::net;
use crate::provider::{self, Conversation, ProviderRequest};

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(PartialEq)]
struct ModelsRequest {
    url: String,
    headers: Vec<(String, String)>,
}

pub fn check(report: &mut Report, loaded: &Loaded, is_offline: bool) {
    if loaded.providers.is_empty() {
        report.warn("providers", loaded.config().hint.clone().unwrap_or_else(|| "only the built-in echo".into()));
    }
    let requests: Vec<Result<ModelsRequest>> = loaded.providers.iter().map(models_request).collect();
    let sent: Vec<&ModelsRequest> = requests.iter().flatten().filter(|_| !is_offline).collect();
    let responses = responses(&sent);
    for (known, request) in loaded.providers.iter().zip(&requests) {
        key(report, known);
        let name = format!("{} ({})", known.entry.name, public_url(&known.entry.base_url));
        let response = request.as_ref().map(|request| responses.iter().find(|(sent, _)| *sent == request));
        match response {
            Err(error) => report.fail("provider", format!("{name}: {error}")),
            Ok(None) => report.ok("provider", format!("{name}: not contacted (--offline)")),
            Ok(Some((_, Err(error)))) => report.fail("provider", format!("{name}: {error}")),
            Ok(Some((_, Ok(status)))) => {
                let (verdict, message) = verdict_of(*status, known);
                report.add(verdict, "provider", format!("{name}: {message}"));
            }
        }
    }
}

/// Sends all requests at the same time; equal ones are sent once.
fn responses<'a>(requests: &[&'a ModelsRequest]) -> Vec<(&'a ModelsRequest, Result<u32>)> {
    let is_first = |(index, request): &(usize, &&ModelsRequest)| !requests[..*index].contains(request);
    let different = requests.iter().enumerate().filter(is_first).map(|(_, request)| *request);
    std::thread::scope(|scope| {
        let send = |request: &'a ModelsRequest| scope.spawn(|| net::probe(&request.url, &request.headers, TIMEOUT));
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

fn models_request(known: &KnownProvider) -> Result<ModelsRequest> {
    let model = known.entry.models.first().map_or("any", |(model, _)| model);
    let endpoint = Catalog(vec![known.entry.clone()]).find(&format!("{}/{model}", known.entry.name))?;
    let message = Message { id: MessageId(1), body: Body::User("hello".into()), created_at: 0 };
    let conversation = Conversation {
        endpoint: &endpoint,
        key: endpoint.key.as_ref(),
        thinking: Thinking::Unspecified,
        system: "",
        messages: &[&message],
        tools: &[],
    };
    let request = provider::find(&endpoint.kind).map(|spec| (spec.build_request)(&conversation)).transpose()?;
    let Some(ProviderRequest::Http(request)) = request else {
        return Ok(ModelsRequest { url: endpoint.base_url.clone(), headers: Vec::new() });
    };
    let mut headers = request.headers;
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type") && !name.eq_ignore_ascii_case("accept"));
    Ok(ModelsRequest { url: models_url(&endpoint.base_url), headers })
}

/// The URL of the list of models, with the query of the base URL.
fn models_url(base_url: &str) -> String {
    let (address, query) = base_url.split_at(base_url.find('?').unwrap_or(base_url.len()));
    let address = address.trim_end_matches('/');
    format!("{}/models{query}", address.strip_suffix("/chat/completions").unwrap_or(address))
}

/// What a status means for key and URL.
fn verdict_of(status: u32, known: &KnownProvider) -> (Verdict, String) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_models_is_beside_the_conversations() {
        for (base, list) in [
            ("https://host/v1", "https://host/v1/models"),
            ("https://host/v1/chat/completions?a=b", "https://host/v1/models?a=b"),
            ("http://host", "http://host/models"),
        ] {
            assert_eq!(models_url(base), list);
        }
    }
}
