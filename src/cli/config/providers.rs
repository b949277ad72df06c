//! `[providers.NAME]` of a file.

use toml::de::DeValue;

use super::file::{Entry, FileReader, entries, value_of};
use super::keys::{NAME_EXPECTED, is_name};
use super::source::Location;
use crate::domain::endpoint::{ModelFacts, Prices};
use crate::provider::PROVIDERS;

#[derive(Debug, Clone)]
pub struct FileProvider {
    pub name: String,
    pub location: Location,
    pub is_project: bool,
    /// Whether it has no errors. Otherwise a missing field may be an invalid one.
    pub is_valid: bool,
    pub kind: Option<String>,
    /// A valid URL, with the version segment and without a trailing slash.
    pub base_url: Option<String>,
    pub key_variable: Option<String>,
    pub key_command: Option<String>,
    pub headers: Vec<(String, String)>,
    /// The first one is the default.
    pub models: Vec<(String, ModelFacts)>,
}

pub const KEYS: &[(&str, &str)] = &[
    ("kind", "Protocol: see below"),
    ("base_url", "URL with the version segment, such as https://host/v1"),
    ("api_key_env", "Variable that holds the key"),
    ("api_key_command", "Command that prints the key"),
    ("headers", "Table of additional HTTP headers"),
    ("models", "List of models; the first one is the default"),
];
pub const MODEL_KEYS: &[(&str, &str)] = &[
    ("name", "Name of the model"),
    ("context", "Size of the context window in tokens"),
    ("max_output", "Maximum number of tokens of a reply"),
    ("input_price", "US dollars per million input tokens"),
    ("cached_price", "The same for tokens read from the cache"),
    ("written_price", "The same for tokens written to the cache"),
    ("output_price", "The same for output tokens"),
];
/// US dollars per million tokens; a higher price is a mistake.
const MAX_DOLLARS: f64 = 1e6;
const MAX_TOKENS: f64 = 1e12;

pub fn read(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<FileProvider> {
    let mut providers = Vec::new();
    for inner in reader.table(entry) {
        match inner.name {
            "echo" => reader.error(&inner, "echo is built in: choose another name"),
            name if !is_name(name) => reader.error(&inner, NAME_EXPECTED),
            _ => providers.push(provider(reader, &inner)),
        }
    }
    providers
}

fn provider(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> FileProvider {
    let errors_before = reader.diagnostics.errors.len();
    let mut provider = FileProvider {
        name: entry.name.to_owned(),
        location: reader.location(&entry.span),
        is_project: reader.is_project(),
        is_valid: true,
        kind: None,
        base_url: None,
        key_variable: None,
        key_command: None,
        headers: Vec::new(),
        models: Vec::new(),
    };
    for inner in reader.table(entry) {
        match inner.name {
            "kind" => provider.kind = kind(reader, &inner),
            "base_url" => provider.base_url = base_url(reader, &inner),
            "api_key_env" => provider.key_variable = key_variable(reader, &inner),
            "api_key_command" => provider.key_command = key_command(reader, &inner),
            "headers" => provider.headers = headers(reader, &inner),
            "models" => provider.models = models(reader, &inner),
            "api_key" | "key" | "token" => reader.error(&inner, LITERAL_KEY),
            _ => reader.unknown(&inner, KEYS.iter().map(|(key, _)| *key)),
        }
    }
    if provider.key_variable.is_some() && provider.key_command.is_some() {
        reader.error(entry, "api_key_env and api_key_command cannot be used together: remove one of them");
    }
    provider.is_valid = reader.diagnostics.errors.len() == errors_before;
    provider
}

const LITERAL_KEY: &str = "keys are not stored here: use api_key_env with the name of a variable, or \
                           api_key_command with a command that prints the key";

/// Whether a provider can have this protocol.
fn is_kind(kind: &str) -> bool {
    kind != "echo" && PROVIDERS.iter().any(|spec| spec.kind == kind)
}

fn kind(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<String> {
    let kind = reader.text(entry)?;
    if is_kind(&kind) {
        return Some(kind);
    }
    let kinds: Vec<&str> = PROVIDERS.iter().map(|spec| spec.kind).filter(|kind| is_kind(kind)).collect();
    reader.error(entry, &format!("expected one of {}", kinds.join(", ")));
    None
}

fn base_url(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<String> {
    let url = reader.text(entry)?;
    let valid = checked_url(&url);
    if valid.is_none() {
        reader.error(entry, URL_EXPECTED);
    }
    valid
}

pub const URL_EXPECTED: &str = "expected a URL such as https://host/v1 or http://localhost:8080/v1";

/// A valid http or https URL, without surrounding spaces and trailing slashes.
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

/// Upper-case letters only: a key pasted here by mistake is not taken for a name and shown.
fn key_variable(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<String> {
    let name = reader.text(entry)?;
    let is_fine = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_') && name.chars().all(is_fine) {
        return Some(name);
    }
    reader.error(entry, "expected the name of a variable in upper-case letters, such as WORK_API_KEY, not a key");
    None
}

/// Not from a project's file: the command would run without being shown.
fn key_command(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<String> {
    if reader.is_project() {
        reader.error(entry, "a project cannot set this: set it in your own configuration");
        return None;
    }
    reader.text(entry)
}

fn headers(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for inner in reader.table(entry) {
        // A token of RFC 9110.
        let is_name = !inner.name.is_empty()
            && inner.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        match inner.value.get_ref() {
            DeValue::String(text) if is_name && !text.chars().any(|c| c.is_control() && c != '\t') => {
                headers.push((inner.name.to_owned(), text.clone().into_owned()));
            }
            _ => reader.error(&inner, "expected a header: a name, and a string of one line"),
        }
    }
    headers
}

fn models(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<(String, ModelFacts)> {
    let Some(list) = entry.value.get_ref().as_array() else {
        reader.error(entry, "expected a list of names or of tables with a name");
        return Vec::new();
    };
    let mut models: Vec<(String, ModelFacts)> = Vec::new();
    for (number, value) in list.iter().enumerate() {
        let key = format!("{}[{number}]", entry.key);
        let inner = Entry { key, name: entry.name, value, span: value.span() };
        let model = match value.get_ref() {
            DeValue::String(name) => Some((name.clone().into_owned(), ModelFacts::default())),
            _ => model(reader, &inner),
        };
        match model {
            Some((name, _)) if models.iter().any(|(other, _)| *other == name) => {
                reader.error(&inner, "duplicate model");
            }
            Some((name, facts)) if !name.is_empty() && !name.contains(|c: char| c.is_control()) => {
                models.push((name, facts));
            }
            _ => reader.error(&inner, "expected the name of a model"),
        }
    }
    models
}

fn model(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<(String, ModelFacts)> {
    let (mut name, mut facts) = (None, ModelFacts::default());
    let (mut input, mut cached, mut written, mut output) = (None, None, None, None);
    for inner in entries(&entry.key, entry.value.get_ref().as_table()?) {
        match inner.name {
            "name" => name = reader.text(&inner),
            "context" => facts.context = tokens(reader, &inner),
            "max_output" => facts.max_output = tokens(reader, &inner),
            "input_price" => input = dollars(reader, &inner),
            "cached_price" => cached = dollars(reader, &inner),
            "written_price" => written = dollars(reader, &inner),
            "output_price" => output = dollars(reader, &inner),
            _ => reader.unknown(&inner, MODEL_KEYS.iter().map(|(key, _)| *key)),
        }
    }
    let is_priced = [input, cached, written, output].iter().any(Option::is_some);
    let input = input.unwrap_or_default();
    // Tokens of the cache have the input price by default.
    let (cached, written) = (cached.unwrap_or(input), written.unwrap_or(input));
    facts.prices = is_priced.then(|| Prices { input, cached, written, output: output.unwrap_or_default() });
    Some((name?, facts))
}

fn tokens(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<u64> {
    let number = value_of(entry.value.get_ref()).number();
    let tokens = number.filter(|number| (1.0..=MAX_TOKENS).contains(number) && number.fract() == 0.0);
    if tokens.is_none() {
        reader.error(entry, "expected a whole number of tokens");
    }
    tokens.map(|number| number as u64)
}

/// Billionths of a dollar per token, from dollars per million tokens.
fn dollars(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<u64> {
    let number = value_of(entry.value.get_ref()).number();
    let dollars = number.filter(|number| (0.0..=MAX_DOLLARS).contains(number));
    if dollars.is_none() {
        reader.error(entry, "expected a price: US dollars per million tokens");
    }
    dollars.map(|dollars| (dollars * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_and_a_host() {
        let valid = [
            ("https://host/v1/", "https://host/v1"),
            (" http://localhost:8080/v1 ", "http://localhost:8080/v1"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("https://user:word@host/x?a=b", "https://user:word@host/x?a=b"),
        ];
        for (given, expected) in valid {
            assert_eq!(checked_url(given).as_deref(), Some(expected));
        }
        for invalid in [
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
            assert_eq!(checked_url(invalid), None, "{invalid}");
        }
    }
}
