//! `[providers.NAME]` of a file.

use toml::de::DeValue;

use super::file::{Entry, Reading, entries, value_of};
use super::keys::{NO_NAME, is_name};
use super::source::Place;
use crate::domain::endpoint::{ModelFacts, Prices};
use crate::provider::PROVIDERS;

/// A provider as a file has it: what is not said there is not here.
#[derive(Debug, Clone)]
pub struct FileProvider {
    /// What people call it, before the slash.
    pub name: String,
    /// The line on which it begins.
    pub place: Place,
    /// Whether a project's file has it.
    pub is_project: bool,
    /// Whether nothing in it was refused: what is not here otherwise may well be said there, only wrong.
    pub is_sound: bool,
    /// Which wire protocol it speaks.
    pub kind: Option<String>,
    /// Up to and with the version segment, without a trailing slash; it looks like a URL.
    pub base_url: Option<String>,
    /// The variable that holds its key.
    pub key_variable: Option<String>,
    /// The command that prints its key.
    pub key_command: Option<String>,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// Models, the usual one first.
    pub models: Vec<(String, ModelFacts)>,
}

/// The keys of a provider.
pub const KEYS: [&str; 6] = ["kind", "base_url", "api_key_env", "api_key_command", "headers", "models"];
/// The keys of a model.
pub const MODEL: [&str; 7] =
    ["name", "context", "max_output", "input_price", "cached_price", "written_price", "output_price"];
/// Nobody charges more, in dollars for a million tokens.
const MOST_DOLLARS: f64 = 1e6;
/// No model takes more tokens.
const MOST_TOKENS: f64 = 1e12;

/// Reads the whole table.
pub fn read(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Vec<FileProvider> {
    let mut providers = Vec::new();
    for inner in reading.table(entry) {
        match inner.name {
            "echo" => reading.refuse(&inner, "echo is built in: choose another name"),
            name if !is_name(name) => reading.refuse(&inner, NO_NAME),
            _ => providers.push(provider(reading, &inner)),
        }
    }
    providers
}

fn provider(reading: &mut Reading<'_>, entry: &Entry<'_>) -> FileProvider {
    let refused_before = reading.complaints.errors.len();
    let mut provider = FileProvider {
        name: entry.name.to_owned(),
        place: reading.place(&entry.span),
        is_project: reading.is_project,
        is_sound: true,
        kind: None,
        base_url: None,
        key_variable: None,
        key_command: None,
        headers: Vec::new(),
        models: Vec::new(),
    };
    for inner in reading.table(entry) {
        match inner.name {
            "kind" => provider.kind = kind(reading, &inner),
            "base_url" => provider.base_url = base_url(reading, &inner),
            "api_key_env" => provider.key_variable = key_variable(reading, &inner),
            "api_key_command" => provider.key_command = key_command(reading, &inner),
            "headers" => provider.headers = headers(reading, &inner),
            "models" => provider.models = models(reading, &inner),
            "api_key" | "key" | "token" => reading.refuse(&inner, LITERAL_KEY),
            _ => reading.unknown(&inner, KEYS.into_iter()),
        }
    }
    if provider.key_variable.is_some() && provider.key_command.is_some() {
        reading.refuse(entry, "api_key_env and api_key_command exclude each other: keep one of them");
    }
    provider.is_sound = reading.complaints.errors.len() == refused_before;
    provider
}

const LITERAL_KEY: &str = "a key is not written down here: name the variable that holds it with api_key_env, or a \
                           command that prints it with api_key_command";

/// Whether people may name this protocol: the built-in one needs no provider.
fn is_kind(kind: &str) -> bool {
    kind != "echo" && PROVIDERS.iter().any(|spec| spec.kind == kind)
}

fn kind(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Option<String> {
    let kind = reading.text(entry)?;
    if is_kind(&kind) {
        return Some(kind);
    }
    let kinds: Vec<&str> = PROVIDERS.iter().map(|spec| spec.kind).filter(|kind| is_kind(kind)).collect();
    reading.refuse(entry, &format!("expected one of {}", kinds.join(", ")));
    None
}

fn base_url(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Option<String> {
    let url = reading.text(entry)?;
    let fitting = checked_url(&url);
    if fitting.is_none() {
        reading.refuse(entry, URL_EXPECTED);
    }
    fitting
}

/// Behind the name of what holds another.
pub const URL_EXPECTED: &str = "expected a URL such as https://host/v1 or http://localhost:8080/v1";

/// The URL without spaces around it and slashes behind it, if requests can be sent there.
pub fn checked_url(url: &str) -> Option<String> {
    let url = url.trim().trim_end_matches('/');
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let has_host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok()),
        None => host.split(':').next().is_some_and(|name| !name.is_empty()),
    };
    let port = host.rsplit(']').next().unwrap_or_default().split_once(':').map(|(_, port)| port);
    let is_clean = !url.chars().any(|c| c.is_control() || c.is_whitespace() || c == '#');
    (has_host && is_clean && port.is_none_or(|port| port.parse::<u16>().is_ok())).then(|| url.to_owned())
}

/// Capital letters only: a key that was pasted here has others, and is not taken for a name and shown.
fn key_variable(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Option<String> {
    let name = reading.text(entry)?;
    let is_fine = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_') && name.chars().all(is_fine) {
        return Some(name);
    }
    reading.refuse(entry, "expected the name of a variable in capital letters, such as WORK_API_KEY, not a key");
    None
}

/// A project's file names no command: it would run at a moment when nobody looks.
fn key_command(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Option<String> {
    if reading.is_project {
        reading.refuse(entry, "a project may not name a command here: it belongs into your own configuration");
        return None;
    }
    reading.text(entry)
}

fn headers(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for inner in reading.table(entry) {
        // A token of RFC 9110, and what may stand behind it.
        let is_name = !inner.name.is_empty()
            && inner.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        match inner.value.get_ref() {
            DeValue::String(text) if is_name && !text.chars().any(|c| c.is_control() && c != '\t') => {
                headers.push((inner.name.to_owned(), text.clone().into_owned()));
            }
            _ => reading.refuse(&inner, "expected a header: its name, and a text in quotes on one line"),
        }
    }
    headers
}

fn models(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Vec<(String, ModelFacts)> {
    let Some(list) = entry.value.get_ref().as_array() else {
        reading.refuse(entry, "expected a list of names or of tables with a name");
        return Vec::new();
    };
    let mut models: Vec<(String, ModelFacts)> = Vec::new();
    for (number, value) in list.iter().enumerate() {
        let key = format!("{}[{number}]", entry.key);
        let inner = Entry { key, name: entry.name, value, span: value.span() };
        let model = match value.get_ref() {
            DeValue::String(name) => Some((name.clone().into_owned(), ModelFacts::default())),
            _ => model(reading, &inner),
        };
        match model {
            Some((name, _)) if models.iter().any(|(other, _)| *other == name) => {
                reading.refuse(&inner, "this model stands in the list twice");
            }
            Some((name, facts)) if !name.is_empty() && !name.contains(|c: char| c.is_control()) => {
                models.push((name, facts));
            }
            _ => reading.refuse(&inner, "expected a model's name"),
        }
    }
    models
}

fn model(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Option<(String, ModelFacts)> {
    let (mut name, mut facts) = (None, ModelFacts::default());
    let (mut input, mut cached, mut written, mut output) = (None, None, None, None);
    for inner in entries(&entry.key, entry.value.get_ref().as_table()?) {
        match inner.name {
            "name" => name = reading.text(&inner),
            "context" => facts.context = tokens(reading, &inner),
            "max_output" => facts.max_output = tokens(reading, &inner),
            "input_price" => input = dollars(reading, &inner),
            "cached_price" => cached = dollars(reading, &inner),
            "written_price" => written = dollars(reading, &inner),
            "output_price" => output = dollars(reading, &inner),
            _ => reading.unknown(&inner, MODEL.into_iter()),
        }
    }
    let is_priced = [input, cached, written, output].iter().any(Option::is_some);
    let input = input.unwrap_or_default();
    // Where nothing is said about the cache, its tokens cost what all others do.
    let (cached, written) = (cached.unwrap_or(input), written.unwrap_or(input));
    facts.prices = is_priced.then(|| Prices { input, cached, written, output: output.unwrap_or_default() });
    Some((name?, facts))
}

fn tokens(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Option<u64> {
    let number = value_of(entry.value.get_ref()).number();
    let tokens = number.filter(|number| (1.0..=MOST_TOKENS).contains(number) && number.fract() == 0.0);
    if tokens.is_none() {
        reading.refuse(entry, "expected a whole number of tokens");
    }
    tokens.map(|number| number as u64)
}

/// Dollars for a million tokens are thousands of billionths for one.
fn dollars(reading: &mut Reading<'_>, entry: &Entry<'_>) -> Option<u64> {
    let number = value_of(entry.value.get_ref()).number();
    let dollars = number.filter(|number| (0.0..=MOST_DOLLARS).contains(number));
    if dollars.is_none() {
        reading.refuse(entry, "expected a price: US dollars for a million tokens");
    }
    dollars.map(|dollars| (dollars * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_a_host_and_at_most_a_port_and_a_path() {
        let fine = [
            ("https://host/v1/", "https://host/v1"),
            (" http://localhost:8080/v1 ", "http://localhost:8080/v1"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("https://user:word@host/x?a=b", "https://user:word@host/x?a=b"),
        ];
        for (given, kept) in fine {
            assert_eq!(checked_url(given).as_deref(), Some(kept));
        }
        for wrong in [
            "",
            "host/v1",
            "ftp://host",
            "https://",
            "https:///v1",
            "http://host:port/",
            "http://host:99999",
            "http://a b/",
            "http://[::g]/",
            "http://host/#part",
            "http://:80",
            "file:///etc/passwd",
        ] {
            assert_eq!(checked_url(wrong), None, "{wrong}");
        }
    }
}
