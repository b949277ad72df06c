//! Parameters of requests that a person sets for a provider, a model, a run or an agent. Each provider decides which of
//! them it has, and how they are named in a request.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::base::error::{Error, Result};
use crate::base::text;
use crate::domain::thinking::Thinking;

/// A parameter that polylogue knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parameter {
    /// Randomness of the choice of tokens.
    Temperature,
    /// Share of the probability from which tokens are chosen.
    TopP,
    /// The most tokens of a reply.
    MaxOutput,
    /// Texts at which the reply ends.
    Stop,
    /// Makes replies repeatable, as far as the server can.
    Seed,
    /// How much the model thinks.
    Thinking,
    /// How long replies are.
    Verbosity,
    /// The price and priority of requests.
    ServiceTier,
    /// The form of replies.
    ResponseFormat,
}

impl Parameter {
    /// All, each with its name, and with its values to follow "expected".
    pub const ALL: [(Self, &'static str, &'static str); 9] = [
        (Self::Temperature, "temperature", "a number from 0 to 2"),
        (Self::TopP, "top_p", "a number from 0 to 1"),
        (Self::MaxOutput, "max_output", "a number of tokens from 1"),
        (Self::Stop, "stop", "a text, or a list of at most 16 texts"),
        (Self::Seed, "seed", "a whole number"),
        (Self::Thinking, "thinking", Thinking::EXPECTED),
        (Self::Verbosity, "verbosity", "low, medium, high or another word of the server"),
        (Self::ServiceTier, "service_tier", "a word of the server, such as auto, flex or priority"),
        (Self::ResponseFormat, "response_format", "json or a JSON schema"),
    ];

    /// The name in the configuration and in commands.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Its values, to follow "expected".
    pub fn expected(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// The value in its stored form; `None` if it is invalid.
    fn stored_form(self, value: &Value) -> Option<Value> {
        let within = |least: f64, most: f64| value.as_f64().filter(|number| (least..=most).contains(number));
        match self {
            Self::Temperature => within(0.0, 2.0).map(|_| value.clone()),
            Self::TopP => within(0.0, 1.0).map(|_| value.clone()),
            Self::MaxOutput => value.as_u64().filter(|tokens| (1..=MAX_TOKENS).contains(tokens)).map(Value::from),
            Self::Seed => value.as_i64().map(Value::from),
            Self::Stop => stop(value),
            Self::Thinking => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text.parse::<Thinking>().ok().map(|level| level.to_string().into())
            }
            Self::Verbosity | Self::ServiceTier => value.as_str().filter(|word| is_word(word)).map(Value::from),
            Self::ResponseFormat => (value == "json" || value.is_object()).then(|| value.clone()),
        }
    }
}

const MAX_TOKENS: u64 = 1_000_000_000;
const MAX_STOPS: usize = 16;

fn is_word(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// A list, also of one.
fn stop(value: &Value) -> Option<Value> {
    let texts = match value {
        Value::Array(texts) => texts.clone(),
        one => vec![one.clone()],
    };
    let is_text = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty());
    ((1..=MAX_STOPS).contains(&texts.len()) && texts.iter().all(is_text)).then_some(Value::Array(texts))
}

/// A known parameter, or a field of the request's body.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParameterName {
    /// One that polylogue knows.
    Known(Parameter),
    /// `body.NAME`: passed through as given.
    Body(String),
}

/// Prefix of the names of body fields.
pub const BODY: &str = "body.";

impl ParameterName {
    /// The value of this parameter as it was typed.
    pub fn read(&self, typed: &str) -> Result<Value> {
        let json = serde_json::from_str(typed);
        let value = match (self, json) {
            (Self::Known(Parameter::Stop), Ok(value @ Value::Array(_))) => value,
            (Self::Known(Parameter::Stop), _) => typed.into(),
            (_, Ok(value)) => value,
            (Self::Known(Parameter::ResponseFormat), Err(error)) if typed.starts_with('{') => {
                return Err(Error::usage(format!("invalid JSON: {error}")));
            }
            (Self::Body(_), Err(error)) if typed.starts_with(['{', '[', '"']) => {
                return Err(Error::usage(format!("invalid JSON: {error}")));
            }
            (_, Err(_)) => typed.into(),
        };
        self.check(&value).map_err(|expected| Error::usage(format!("invalid value {typed:?} for {self}: {expected}")))
    }

    /// The value in its stored form.
    pub fn check(&self, value: &Value) -> std::result::Result<Value, String> {
        match self {
            Self::Known(parameter) => {
                parameter.stored_form(value).ok_or_else(|| format!("expected {}", parameter.expected()))
            }
            Self::Body(_) => Ok(value.clone()),
        }
    }
}

impl fmt::Display for ParameterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(parameter) => f.write_str(parameter.name()),
            Self::Body(field) => write!(f, "{BODY}{field}"),
        }
    }
}

impl FromStr for ParameterName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some(field) = name.strip_prefix(BODY).filter(|field| is_word(field)) {
            return Ok(Self::Body(field.to_owned()));
        }
        let known = if name == "reasoning_effort" { Parameter::Thinking.name() } else { name };
        if let Some((parameter, ..)) = Parameter::ALL.iter().find(|(_, other, _)| *other == known) {
            return Ok(Self::Known(*parameter));
        }
        let names = Parameter::ALL.map(|(_, name, _)| name);
        let hint = match text::nearest(name, names.into_iter()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("use {} or {BODY}FIELD", names.join(", ")),
        };
        Err(Error::usage(format!("unknown parameter {name:?}: {hint}")))
    }
}

/// A value, and where it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetValue {
    /// In its stored form.
    pub value: Value,
    /// For a person: a line of a file, an option or a command.
    pub source: String,
}

/// Parameters that were set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parameters(BTreeMap<ParameterName, SetValue>);

impl Parameters {
    /// Sets a checked value.
    pub fn set(&mut self, name: ParameterName, value: Value, source: &str) {
        self.0.insert(name, SetValue { value, source: source.to_owned() });
    }

    /// Removes a value.
    pub fn remove(&mut self, name: &ParameterName) {
        self.0.remove(name);
    }

    /// Replaces what `over` sets.
    #[must_use]
    pub fn with(mut self, over: &Self) -> Self {
        self.0.extend(over.0.clone());
        self
    }

    /// Removes what does not pass.
    pub fn retain(&mut self, mut passes: impl FnMut(&ParameterName, &Value) -> bool) {
        self.0.retain(|name, set| passes(name, &set.value));
    }

    /// The parameters with another source.
    pub fn without_source(&self, source: &str) -> Self {
        let others = self.0.iter().filter(|(_, set)| set.source != source);
        Self(others.map(|(name, set)| (name.clone(), set.clone())).collect())
    }

    /// All, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&ParameterName, &SetValue)> {
        self.0.iter()
    }

    /// The value of a known parameter.
    pub fn get(&self, parameter: Parameter) -> Option<&Value> {
        self.0.get(&ParameterName::Known(parameter)).map(|set| &set.value)
    }

    /// How much the model thinks, if that is set.
    pub fn thinking(&self) -> Option<Thinking> {
        self.get(Parameter::Thinking)?.as_str()?.parse().ok()
    }

    /// The fields that are passed through as given.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().filter_map(|(name, set)| match name {
            ParameterName::Body(field) => Some((field.as_str(), &set.value)),
            ParameterName::Known(_) => None,
        })
    }

    /// As stored: a JSON object; `None` if there is nothing to store. The thinking level is stored elsewhere.
    pub fn to_stored(&self) -> Option<String> {
        let stored = self.0.iter().filter(|(name, _)| **name != ParameterName::Known(Parameter::Thinking));
        let object: Map<String, Value> = stored.map(|(name, set)| (name.to_string(), set.value.clone())).collect();
        (!object.is_empty()).then(|| Value::Object(object).to_string())
    }

    /// Parameters from the store. Those of another version that this one does not know are left out.
    pub fn of_stored(stored: &str, source: &str) -> Self {
        let mut parameters = Self::default();
        let Ok(Value::Object(object)) = serde_json::from_str(stored) else { return parameters };
        for (name, value) in object {
            let Ok(name) = name.parse::<ParameterName>() else { continue };
            if let Ok(value) = name.check(&value) {
                parameters.set(name, value, source);
            }
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_as_they_are_typed() {
        let cases = [
            ("temperature", "0.5", json!(0.5)),
            ("top_p", "1", json!(1)),
            ("max_output", "800", json!(800)),
            ("stop", "END", json!(["END"])),
            ("stop", "12", json!(["12"])),
            ("stop", r#"["a","b"]"#, json!(["a", "b"])),
            ("seed", "-7", json!(-7)),
            ("thinking", "xhigh", json!("xhigh")),
            ("reasoning_effort", "2000", json!("2000")),
            ("service_tier", "flex", json!("flex")),
            ("response_format", "json", json!("json")),
            ("response_format", r#"{"type":"object"}"#, json!({"type": "object"})),
            ("body.top_k", "40", json!(40)),
            ("body.metadata", r#"{"a":1}"#, json!({"a": 1})),
            ("body.user", "ann", json!("ann")),
        ];
        for (name, typed, expected) in cases {
            let name: ParameterName = name.parse().unwrap();
            assert_eq!(name.read(typed), Ok(expected), "{name} {typed}");
        }
    }

    #[test]
    fn an_invalid_value_is_refused_with_what_is_expected() {
        let cases = [
            ("temperature", "hot", "a number from 0 to 2"),
            ("temperature", "2.1", "a number from 0 to 2"),
            ("top_p", "-0.1", "from 0 to 1"),
            ("max_output", "0", "tokens from 1"),
            ("max_output", "1.5", "tokens from 1"),
            ("stop", "[]", "a list of at most 16"),
            ("seed", "x", "a whole number"),
            ("thinking", "very high", "another effort"),
            ("verbosity", "a b", "word"),
            ("response_format", "xml", "a JSON schema"),
            ("response_format", "{", "invalid JSON"),
            ("body.x", "[1,", "invalid JSON"),
        ];
        for (name, typed, expected) in cases {
            let error = name.parse::<ParameterName>().unwrap().read(typed).unwrap_err();
            assert!(error.message.contains(expected), "{}", error.message);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest() {
        let message = |name: &str| name.parse::<ParameterName>().unwrap_err().message;
        assert!(message("temprature").ends_with("did you mean temperature?"));
        assert!(message("zzz").contains("response_format or body.FIELD"));
        assert!(message("body.").contains("unknown parameter"));
    }

    #[test]
    fn what_is_stored_is_read_again_without_the_thinking_level() {
        let mut parameters = Parameters::default();
        for (name, typed) in [("seed", "7"), ("body.top_k", "40"), ("stop", "END"), ("thinking", "high")] {
            let name: ParameterName = name.parse().unwrap();
            let value = name.read(typed).unwrap();
            parameters.set(name, value, "/set");
        }
        let stored = parameters.to_stored().unwrap();
        assert_eq!(stored, r#"{"body.top_k":40,"seed":7,"stop":["END"]}"#);
        parameters.remove(&ParameterName::Known(Parameter::Thinking));
        assert_eq!(Parameters::of_stored(&stored, "/set"), parameters);
        assert_eq!(Parameters::default().to_stored(), None);
        assert_eq!(Parameters::of_stored(r#"{"new":1,"seed":"x"}"#, "/set"), Parameters::default());
    }

    #[test]
    fn every_parameter_is_at_its_place() {
        for (parameter, name, _) in Parameter::ALL {
            assert_eq!(parameter.name(), name);
        }
    }
}
