//! Values of settings, from their form in a file or a variable. `None`: the value is invalid.

use super::source::Value;
use crate::domain::display::StatusField;
use crate::domain::limits::LimitName;
use crate::domain::sandbox::Network;
use crate::domain::theme::Paint;
use crate::domain::thinking::Thinking;

pub const MAX_COUNT: u32 = 1_000_000_000;

pub fn model(value: &Value) -> Option<String> {
    value.text().filter(|text| !text.chars().any(|c| c.is_control() || c.is_whitespace())).map(str::to_owned)
}

/// The provider of `provider/model`.
pub fn provider_of(model: &str) -> &str {
    model.split('/').next().unwrap_or(model)
}

pub fn thinking(value: &Value) -> Option<Thinking> {
    match value {
        Value::Number(_) => whole(value, 0).and_then(|tokens| tokens.to_string().parse().ok()),
        other => other.text()?.parse().ok(),
    }
}

pub fn network(value: &Value) -> Option<Network> {
    match value {
        Value::Texts(hosts) => Network::of_hosts(hosts.iter().map(String::as_str)),
        other => Network::from_text(other.text()?),
    }
}

pub fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Texts(words) => Some(words.clone()).filter(|words| words.first().is_some_and(|word| !word.is_empty())),
        other => other.text().filter(|text| !text.contains(' ')).map(|text| vec![text.to_owned()]),
    }
}

pub fn paint(value: &Value) -> Option<Paint> {
    match value {
        Value::Number(_) => whole(value, 0)?.to_string().parse().ok(),
        other => other.text()?.parse().ok(),
    }
}

/// A list in a file; names with commas between them in a variable.
pub fn fields(value: &Value) -> Option<Vec<StatusField>> {
    match value {
        Value::Texts(names) => names.iter().map(|name| StatusField::from_name(name)).collect(),
        other => other.text()?.split(',').map(|name| StatusField::from_name(name.trim())).collect(),
    }
}

/// A hyphen is accepted for an underscore, as on the command line.
pub fn name(value: &Value, names: &[&'static str]) -> Option<&'static str> {
    let typed = value.text()?.replace('-', "_");
    names.iter().copied().find(|name| *name == typed)
}

/// The value of a limit that does not limit.
pub const NO_LIMIT: &str = "none";

pub fn most(value: &Value, name: LimitName) -> Option<Option<u64>> {
    if value.text() == Some(NO_LIMIT) {
        return Some(None);
    }
    value.number().and_then(|number| name.value_of(number)).map(Some)
}

pub fn whole(value: &Value, min: u32) -> Option<u32> {
    let number = value.number().filter(|number| number.fract() == 0.0)?;
    (f64::from(min)..=f64::from(MAX_COUNT)).contains(&number).then_some(number as u32)
}
