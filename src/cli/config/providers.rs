//! `[providers.NAME]` of a file.

use std::time::Duration;

use toml::de::DeValue;

use super::file::{self, Entry, FileReader, entries, value_of};
use super::layer::{NAME_EXPECTED, is_name};
use super::source::Location;
use crate::domain::endpoint::{HOSTS, ModelFacts, ModelSettings, Prices};
use crate::domain::http::is_token;
use crate::domain::parameters::{BODY, ParameterName, Parameters};
use crate::domain::reasoning::SendReasoning;
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
    pub send_reasoning: Option<SendReasoning>,
    /// The first one is the default.
    pub models: Vec<(String, ModelFacts)>,
    pub parameters: Parameters,
    /// `None` if it is not set.
    pub fallback: Option<Vec<String>>,
    /// Settings of single models.
    pub overrides: Vec<(String, ModelSettings)>,
    pub stall_timeout: Option<Duration>,
    pub auth: Auth,
    pub region: Option<String>,
}

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Auth {
    /// As is usual for the protocol.
    #[default]
    Usual,
    Bearer,
    /// Requests are signed.
    Aws,
}

pub const KEYS: &[(&str, &str)] = &[
    ("kind", "Protocol: see below"),
    ("base_url", "URL with the version segment, such as https://host/v1"),
    ("api_key_env", "Variable that holds the key"),
    ("api_key_command", "Command that prints the key"),
    ("auth", "bearer: send the key as a bearer token (Vertex AI); aws: sign requests with it (Bedrock)"),
    ("region", "Region of Bedrock, if the URL does not contain it"),
    ("headers", "Table of additional HTTP headers"),
    ("send_reasoning", "Field in which reasoning goes back (openai): auto, off, or its name"),
    ("models", "List of models; the first one is the default"),
    ("parameters", "Table of parameters of all requests: see polylogue help parameters"),
    ("fallback", "List of models that answer where one of this provider cannot"),
    ("stall_timeout", "Seconds without data after which a reply is aborted, instead of limits.stall_timeout"),
];
pub const MODEL_KEYS: &[(&str, &str)] = &[
    ("name", "Name of the model"),
    ("context", "Size of the context window in tokens"),
    ("max_output", "Maximum number of tokens of a reply, sent with each request"),
    ("tools", "Whether it can call tools; with false none are sent"),
    ("images", "Whether it can read images"),
    ("input_price", "US dollars per million input tokens"),
    ("cached_price", "The same for tokens read from the cache"),
    ("written_price", "The same for tokens written to the cache"),
    ("output_price", "The same for output tokens"),
    ("parameters", "As for the provider, for this model"),
    ("fallback", "As for the provider, for this model"),
];
/// US dollars per million tokens; a higher price is a mistake.
const MAX_DOLLARS: f64 = 1e6;
const MAX_TOKENS: f64 = 1e12;
const MAX_SECONDS: f64 = 86_400.0;

pub fn read(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<FileProvider> {
    let mut providers = Vec::new();
    for inner in reader.table(entry) {
        match inner.name {
            "echo" | HOSTS => reader.error(&inner, &format!("{} is built in: choose another name", inner.name)),
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
        send_reasoning: None,
        models: Vec::new(),
        parameters: Parameters::default(),
        fallback: None,
        overrides: Vec::new(),
        stall_timeout: None,
        auth: Auth::default(),
        region: None,
    };
    for inner in reader.table(entry) {
        match inner.name {
            "kind" => provider.kind = kind(reader, &inner),
            "base_url" => provider.base_url = base_url(reader, &inner),
            "api_key_env" => provider.key_variable = key_variable(reader, &inner),
            "api_key_command" => provider.key_command = key_command(reader, &inner),
            "headers" => provider.headers = headers(reader, &inner),
            "send_reasoning" => provider.send_reasoning = send_reasoning(reader, &inner),
            "models" => (provider.models, provider.overrides) = models(reader, &inner),
            "parameters" => provider.parameters = parameters(reader, &inner),
            "fallback" => provider.fallback = fallback(reader, &inner),
            "auth" => provider.auth = auth(reader, &inner),
            "region" => provider.region = region(reader, &inner),
            "stall_timeout" => provider.stall_timeout = stall_timeout(reader, &inner),
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
    PROVIDERS.iter().any(|spec| spec.has_server() && spec.kind == kind)
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
        let is_name = is_token(inner.name);
        match inner.value.get_ref() {
            DeValue::String(text) if is_name && !text.chars().any(|c| c.is_control() && c != '\t') => {
                headers.push((inner.name.to_owned(), text.clone().into_owned()));
            }
            _ => reader.error(&inner, "expected a header: a name, and a string of one line"),
        }
    }
    headers
}

fn send_reasoning(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<SendReasoning> {
    let name = reader.text(entry)?;
    let setting = SendReasoning::from_name(&name);
    if setting.is_none() {
        let names: Vec<&str> = SendReasoning::ALL.iter().map(|setting| setting.name()).collect();
        reader.error(entry, &format!("expected one of {}", names.join(", ")));
    }
    setting
}

/// `[providers.NAME.parameters]`. Whether the protocol has them is checked when it is known.
fn parameters(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Parameters {
    let mut parameters = Parameters::default();
    for inner in reader.table(entry) {
        let source = format!("{}: {}", reader.location(&inner.value.span()), inner.key);
        if inner.name == "body" {
            for field in reader.table(&inner) {
                let name = format!("{BODY}{}", field.name).parse();
                match name.ok().zip(file::json_of(field.value.get_ref())) {
                    Some((name, value)) => {
                        let source = format!("{}: {}", reader.location(&field.value.span()), field.key);
                        parameters.set(name, value, &source);
                    }
                    None => {
                        reader.error(&field, "expected a value that JSON has, and a name of letters, digits, - and _")
                    }
                }
            }
            continue;
        }
        let name = match inner.name.parse::<ParameterName>() {
            Ok(name) => name,
            Err(error) => {
                reader.error(&inner, &error.message);
                continue;
            }
        };
        let value = file::json_of(inner.value.get_ref()).ok_or_else(|| "expected a value that JSON has".to_owned());
        match value.and_then(|value| name.check(&value)) {
            Ok(value) => parameters.set(name, value, &source),
            Err(expected) => reader.error(&inner, &expected),
        }
    }
    parameters
}

/// The models as they were given; a project cannot choose where a conversation is sent.
pub fn fallback(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<Vec<String>> {
    if reader.is_project() {
        reader.warn(entry, "ignored: a project cannot choose another model; set it in your own configuration");
        return None;
    }
    Some(reader.texts(entry))
}

fn auth(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Auth {
    match entry.value.get_ref().as_str() {
        Some("bearer") => Auth::Bearer,
        Some("aws") => Auth::Aws,
        _ => {
            reader.error(entry, "expected \"bearer\" or \"aws\"");
            Auth::Usual
        }
    }
}

fn region(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<String> {
    let is_region = |text: &String| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let region = reader.text(entry)?;
    if !is_region(&region) {
        reader.error(entry, "expected a region such as us-east-1");
    }
    Some(region).filter(is_region)
}

fn stall_timeout(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<Duration> {
    let seconds = value_of(entry.value.get_ref()).number().filter(|seconds| (1.0..=MAX_SECONDS).contains(seconds));
    if seconds.is_none() {
        reader.error(entry, &format!("expected a number of seconds from 1 to {MAX_SECONDS}"));
    }
    seconds.map(Duration::from_secs_f64)
}

type Models = (Vec<(String, ModelFacts)>, Vec<(String, ModelSettings)>);

fn models(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Models {
    let Some(list) = entry.value.get_ref().as_array() else {
        reader.error(entry, "expected a list of names or of tables with a name");
        return Models::default();
    };
    let (mut models, mut overrides): Models = Models::default();
    for (number, value) in list.iter().enumerate() {
        let key = format!("{}[{number}]", entry.key);
        let inner = Entry { key, name: entry.name, value, span: value.span() };
        let model = match value.get_ref() {
            DeValue::String(name) => Some((name.clone().into_owned(), ModelFacts::default(), ModelSettings::default())),
            _ => model(reader, &inner),
        };
        match model {
            Some((name, ..)) if models.iter().any(|(other, _)| *other == name) => {
                reader.error(&inner, "duplicate model");
            }
            Some((name, facts, settings)) if !name.is_empty() && !name.contains(|c: char| c.is_control()) => {
                if settings != ModelSettings::default() {
                    overrides.push((name.clone(), settings));
                }
                models.push((name, facts));
            }
            _ => reader.error(&inner, "expected the name of a model"),
        }
    }
    (models, overrides)
}

fn model(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<(String, ModelFacts, ModelSettings)> {
    let (mut name, mut facts, mut settings) = (None, ModelFacts::default(), ModelSettings::default());
    let (mut input, mut cached, mut written, mut output) = (None, None, None, None);
    for inner in entries(&entry.key, entry.value.get_ref().as_table()?) {
        match inner.name {
            "name" => name = reader.text(&inner),
            "context" => facts.context = tokens(reader, &inner),
            "max_output" => facts.max_output = tokens(reader, &inner),
            "tools" => facts.tools = reader.boolean(&inner),
            "images" => facts.images = reader.boolean(&inner),
            "parameters" => settings.parameters = parameters(reader, &inner),
            "fallback" => settings.fallback = fallback(reader, &inner),
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
    Some((name?, facts, settings))
}

fn tokens(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<u64> {
    let number = value_of(entry.value.get_ref()).number();
    let tokens = number.filter(|number| (1.0..=MAX_TOKENS).contains(number) && number.fract() == 0.0);
    if tokens.is_none() {
        reader.error(entry, "expected a whole number of tokens");
    }
    tokens.map(|number| number as u64)
}

/// Trillionths of a dollar per token, from dollars per million tokens.
fn dollars(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<u64> {
    let number = value_of(entry.value.get_ref()).number();
    let dollars = number.filter(|number| (0.0..=MAX_DOLLARS).contains(number));
    if dollars.is_none() {
        reader.error(entry, "expected a price: US dollars per million tokens");
    }
    dollars.map(|dollars| (dollars * 1e6).round() as u64)
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
