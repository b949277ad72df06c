//! Parameters that a person sets: whether a protocol has them, and the fields of a request's body that they become.

use serde_json::{Map, Value, json};

use crate::base::error::{Error, Result};
use crate::domain::endpoint::Endpoint;
use crate::domain::parameters::{Parameter, ParameterName, Parameters};
use crate::provider::{check_thinking, find};

/// Checks that requests to this endpoint can have a value, without a request.
pub fn check(endpoint: &Endpoint, name: &ParameterName, value: &Value) -> Result<()> {
    let Some(spec) = find(&endpoint.kind) else { return Ok(()) };
    match name {
        ParameterName::Known(Parameter::Thinking) => {
            check_thinking(endpoint, value.as_str().unwrap_or_default().parse()?)
        }
        ParameterName::Known(parameter) if !spec.parameters.contains(parameter) => {
            let known = spec.parameters.iter().map(|parameter| parameter.name()).collect::<Vec<_>>().join(", ");
            let (model, kind) = (endpoint.full_name(), spec.kind);
            let known = if known.is_empty() { "none".to_owned() } else { known };
            Err(Error::usage(format!("{name}: the protocol {kind} of {model} does not have it; it has {known}")))
        }
        ParameterName::Known(parameter) => check_value(spec.kind, *parameter, value),
        ParameterName::Body(field) if spec.kind == "echo" => {
            Err(Error::usage(format!("{field}: {} sends no requests", endpoint.full_name())))
        }
        ParameterName::Body(field) if spec.own_fields.contains(&field.as_str()) => {
            Err(Error::usage(format!("{name}: polylogue itself sets the field {field} of each request")))
        }
        ParameterName::Body(_) => Ok(()),
    }
}

fn check_value(kind: &str, parameter: Parameter, value: &Value) -> Result<()> {
    let expected = match (kind, parameter) {
        ("anthropic", Parameter::Temperature) if value.as_f64() > Some(1.0) => "a number from 0 to 1",
        ("anthropic", Parameter::ResponseFormat) if value == "json" => "a JSON schema",
        ("openai", Parameter::Stop) if value.as_array().is_some_and(|texts| texts.len() > 4) => "at most 4 texts",
        ("google", Parameter::Stop) if value.as_array().is_some_and(|texts| texts.len() > 5) => "at most 5 texts",
        _ => return Ok(()),
    };
    Err(Error::usage(format!("{}: expected {expected} for the protocol {kind}", parameter.name())))
}

/// The fields of a body that parameters become.
#[derive(Debug, Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Sets a field, if there is a value.
    pub fn set(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
    }

    /// Sets a field of an object that is itself a field.
    pub fn set_in(&mut self, object: &str, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            merge(&mut self.0, object, &json!({ name: value.into() }));
        }
    }

    /// Sets fields that have the names of their parameters.
    pub fn copy(&mut self, parameters: &Parameters, names: &[(Parameter, &str)]) {
        for (parameter, name) in names {
            self.set(name, parameters.get(*parameter).cloned());
        }
    }

    /// Appends all fields to a body, each after a comma, with those that are passed through as given.
    pub fn push_to(mut self, body: &mut String, parameters: &Parameters) {
        for (name, value) in parameters.fields() {
            merge(&mut self.0, name, value);
        }
        for (name, value) in self.0 {
            body.push_str(&format!(",{}:{value}", Value::from(name)));
        }
    }
}

/// Adds a field; objects with the same name are merged.
fn merge(into: &mut Map<String, Value>, name: &str, value: &Value) {
    match (into.get_mut(name), value) {
        (Some(Value::Object(before)), Value::Object(added)) => {
            added.iter().for_each(|(name, value)| merge(before, name, value));
        }
        _ => {
            into.insert(name.to_owned(), value.clone());
        }
    }
}

/// The format of replies as OpenAI's protocols have it. `name`, `strict` and `schema` are beside the type in Responses,
/// and in an object of their own in Chat Completions.
pub(super) fn openai_format(parameters: &Parameters, is_nested: bool) -> Option<Value> {
    let format = parameters.get(Parameter::ResponseFormat)?;
    if !format.is_object() {
        return Some(json!({"type": "json_object"}));
    }
    let mut schema = json!({"name": "answer", "strict": is_strict(format), "schema": format});
    if is_nested {
        return Some(json!({"type": "json_schema", "json_schema": schema}));
    }
    schema["type"] = "json_schema".into();
    Some(schema)
}

/// Whether OpenAI can enforce a schema: every object closed, and every property required
/// (platform.openai.com/docs/guides/structured-outputs, "supported schemas").
fn is_strict(schema: &Value) -> bool {
    let Value::Object(object) = schema else {
        return schema.as_array().is_none_or(|parts| parts.iter().all(is_strict));
    };
    let properties = object.get("properties").and_then(Value::as_object);
    let is_object = object.get("type").is_some_and(|kind| kind == "object") || properties.is_some();
    let required = object.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|other| other == name));
    let is_closed = object.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_none_or(|properties| properties.keys().all(is_required));
    (!is_object || is_closed) && object.values().all(is_strict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(kind: &str, model: &str) -> Endpoint {
        Endpoint { provider: "x".into(), kind: kind.into(), model: model.into(), ..Endpoint::echo() }
    }

    fn checked(kind: &str, name: &str, typed: &str) -> Result<()> {
        let name: ParameterName = name.parse()?;
        let model = if kind == "anthropic" { "claude-opus-4-8" } else { "m" };
        check(&endpoint(kind, model), &name, &name.read(typed)?)
    }

    #[test]
    fn a_parameter_that_a_protocol_does_not_have_is_refused() {
        let refused = [
            ("anthropic", "seed", "1", "seed: the protocol anthropic of x/claude-opus-4-8 does not have it"),
            ("anthropic", "verbosity", "low", "it has temperature"),
            ("anthropic", "temperature", "1.5", "expected a number from 0 to 1"),
            ("anthropic", "response_format", "json", "expected a JSON schema"),
            ("openai-responses", "stop", "END", "the protocol openai-responses"),
            ("openai-responses", "seed", "1", "does not have it"),
            ("google", "verbosity", "low", "does not have it"),
            ("openai", "stop", r#"["a","b","c","d","e"]"#, "at most 4 texts"),
            ("openai", "body.messages", "[]", "polylogue itself sets the field messages"),
            ("google", "body.contents", "[]", "polylogue itself"),
            ("openai", "thinking", "2000", "not a number of tokens"),
            ("echo", "temperature", "0", "it has none"),
            ("echo", "body.x", "0", "sends no requests"),
        ];
        for (kind, name, typed, expected) in refused {
            let message = checked(kind, name, typed).unwrap_err().message;
            assert!(message.contains(expected), "{message}");
        }
        for kind in ["openai", "openai-responses", "anthropic", "google"] {
            for (name, typed) in [("temperature", "1"), ("top_p", "0.5"), ("max_output", "9"), ("body.top_k", "4")] {
                assert_eq!(checked(kind, name, typed), Ok(()), "{kind} {name}");
            }
            assert_eq!(checked(kind, "response_format", r#"{"type":"object"}"#), Ok(()), "{kind}");
            assert_eq!(checked(kind, "thinking", "xhigh"), Ok(()), "{kind}");
        }
    }

    #[test]
    fn objects_that_are_passed_through_are_merged() {
        let mut fields = Fields::default();
        fields.set_in("generationConfig", "seed", Some(7));
        let mut parameters = Parameters::default();
        parameters.set(ParameterName::Body("generationConfig".into()), json!({"topK": 40}), "");
        parameters.set(ParameterName::Body("labels".into()), json!({"a": "b"}), "");
        let mut body = String::new();
        fields.push_to(&mut body, &parameters);
        assert_eq!(body, r#","generationConfig":{"seed":7,"topK":40},"labels":{"a":"b"}"#);
    }

    #[test]
    fn a_schema_is_strict_if_openai_can_enforce_it() {
        let strict = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
            "additionalProperties": false});
        assert!(is_strict(&strict));
        assert!(is_strict(&json!({"type": "array", "items": strict})));
        let open = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        assert!(!is_strict(&open));
        assert!(!is_strict(&json!({"anyOf": [strict, open]})));
        let optional = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
        assert!(!is_strict(&optional));
    }
}
