//! Each provider: is there a key, is somebody there, and does he take the key?
//!
//! A real request for the list of models, which all services have beside their conversations and which costs nothing.
//! Its headers are those of a real conversation, so that every protocol shows its key in its own way.

use std::time::Duration;

use super::{Report, Verdict};
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::cli::config::Loaded;
use crate::cli::config::catalog::{KeySource, Known};
use crate::cli::config::show::public_url;
use crate::domain::endpoint::Catalog;
use crate::domain::message::{Body, Message};
use crate::domain::thinking::Thinking;
use crate::net;
use crate::provider::{self, Conversation, ProviderRequest};

/// How long one provider may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request that can be made on a thread of its own: nothing in it is shared.
#[derive(PartialEq)]
struct Question {
    url: String,
    headers: Vec<(String, String)>,
}

/// Looks at all of them at once.
pub fn look(report: &mut Report, loaded: &Loaded, is_offline: bool) {
    if loaded.providers.is_empty() {
        report.warn("providers", loaded.config().hint.clone().unwrap_or_else(|| "there are none but echo".into()));
    }
    let questions: Vec<Result<Question>> = loaded.providers.iter().map(question).collect();
    let asked: Vec<&Question> = questions.iter().flatten().filter(|_| !is_offline).collect();
    let answers = answers(&asked);
    for (known, question) in loaded.providers.iter().zip(&questions) {
        key(report, known);
        let place = format!("{} ({})", known.entry.name, public_url(&known.entry.base_url));
        let answer = question.as_ref().map(|question| answers.iter().find(|(asked, _)| *asked == question));
        match answer {
            Err(error) => report.fail("provider", format!("{place}: {error}")),
            Ok(None) => report.ok("provider", format!("{place}: not asked (--offline)")),
            Ok(Some((_, Err(error)))) => report.fail("provider", format!("{place}: {error}")),
            Ok(Some((_, Ok(status)))) => {
                let (verdict, words) = meaning(*status, known);
                report.add(verdict, "provider", format!("{place}: {words}"));
            }
        }
    }
}

/// Asks all of them at once, and who speaks two protocols once.
fn answers<'a>(questions: &[&'a Question]) -> Vec<(&'a Question, Result<u32>)> {
    let is_first = |(at, question): &(usize, &&Question)| !questions[..*at].contains(question);
    let different = questions.iter().enumerate().filter(is_first).map(|(_, question)| *question);
    std::thread::scope(|scope| {
        let ask = |question: &'a Question| scope.spawn(|| net::probe(&question.url, &question.headers, PATIENCE));
        let asked: Vec<_> = different.map(|question| (question, ask(question))).collect();
        let answer =
            |(question, asked): (_, std::thread::ScopedJoinHandle<Result<u32>>)| Some((question, asked.join().ok()?));
        asked.into_iter().filter_map(answer).collect()
    })
}

fn key(report: &mut Report, known: &Known) {
    let name = &known.entry.name;
    match &known.key {
        KeySource::Variable(variable) if known.has_key() => {
            report.ok("key", format!("{name}: from {variable}"));
        }
        KeySource::Variable(variable) => report.fail("key", format!("{name}: {variable} is not set: export it")),
        KeySource::Command => report.ok("key", format!("{name}: from a command, which is run when a key is needed")),
        KeySource::None => report.ok("key", format!("{name}: none, as for a server that needs none")),
    }
}

fn question(known: &Known) -> Result<Question> {
    let model = known.entry.models.first().map_or("any", |(model, _)| model);
    let endpoint = Catalog(vec![known.entry.clone()]).find(&format!("{}/{model}", known.entry.name))?;
    let said = Message { id: MessageId(1), body: Body::User("hello".into()), created_at: 0 };
    let conversation = Conversation {
        endpoint: &endpoint,
        key: endpoint.key.as_ref(),
        thinking: Thinking::Unspecified,
        system: "",
        messages: &[&said],
        tools: &[],
    };
    let opening = provider::find(&endpoint.kind).map(|spec| (spec.build_request)(&conversation)).transpose()?;
    let Some(ProviderRequest::Http(request)) = opening else {
        return Ok(Question { url: endpoint.base_url.clone(), headers: Vec::new() });
    };
    let mut headers = request.headers;
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type") && !name.eq_ignore_ascii_case("accept"));
    Ok(Question { url: list_of_models(&endpoint.base_url), headers })
}

/// The list stands beside the conversations; a query stays at the end.
fn list_of_models(base_url: &str) -> String {
    let (address, query) = base_url.split_at(base_url.find('?').unwrap_or(base_url.len()));
    let address = address.trim_end_matches('/');
    format!("{}/models{query}", address.strip_suffix("/chat/completions").unwrap_or(address))
}

/// What a status says about key and URL.
fn meaning(status: u32, known: &Known) -> (Verdict, String) {
    let from = match &known.key {
        KeySource::Variable(variable) => variable.clone(),
        KeySource::Command => "its command".into(),
        KeySource::None => "api_key_env".into(),
    };
    let is_keyed = known.entry.key.is_some();
    match status {
        200..=299 if is_keyed => (Verdict::Ok, "answers and takes the key".into()),
        200..=299 => (Verdict::Ok, "answers".into()),
        401 | 403 if is_keyed => (Verdict::Fail, format!("the key is wrong or expired (HTTP {status}): see {from}")),
        401 | 403 if known.has_key() => (Verdict::Ok, format!("answers, and wants the key of {from}")),
        401 | 403 => (Verdict::Fail, format!("wants a key (HTTP {status}): see api_key_env in the configuration")),
        // This is how Google puts it.
        400 if is_keyed => (Verdict::Fail, format!("the key or the base URL is wrong (HTTP 400): see {from}")),
        404 | 405 => {
            (Verdict::Warn, format!("answers, but has no list of models (HTTP {status}): is the base URL right?"))
        }
        429 => (Verdict::Warn, "asks to slow down (HTTP 429)".into()),
        500.. => (Verdict::Warn, format!("is there, but not well (HTTP {status}): try again later")),
        _ => (Verdict::Warn, format!("answers with HTTP {status}: is the base URL right?")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_models_stands_beside_the_conversations() {
        for (base, list) in [
            ("https://host/v1", "https://host/v1/models"),
            ("https://host/v1/chat/completions?a=b", "https://host/v1/models?a=b"),
            ("http://host", "http://host/models"),
        ] {
            assert_eq!(list_of_models(base), list);
        }
    }
}
