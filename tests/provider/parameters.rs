//! Parameters that a person sets, as each protocol calls them.

use polylogue::config::{Endpoint, Parameters, Thinking};
use serde_json::{Value, json};

use super::assert_golden;
use super::requests::user;
use crate::support::harness;
use crate::support::internals::provider::{Conversation, ProviderRequest, find};
use crate::support::internals::{Message, MessageId};

fn parameters(values: &[(&str, &str)]) -> Parameters {
    let mut parameters = Parameters::default();
    for (name, typed) in values {
        let name: polylogue::config::ParameterName = name.parse().unwrap();
        let value = name.read(typed).unwrap();
        parameters.set(name, value, "test");
    }
    parameters
}

/// The body of a request with these parameters.
fn text(kind: &str, model: &str, thinking: Thinking, values: &[(&str, &str)]) -> String {
    let endpoint: Endpoint = harness::endpoint(kind, model, "http://host/v1").with(&parameters(values));
    let log = Message { id: MessageId(0), body: user("hi"), created_at: 0 };
    let conversation =
        Conversation { endpoint: &endpoint, key: None, thinking, system: "", messages: &[&log], tools: &[] };
    match (find(kind).unwrap().build_request)(&conversation).unwrap() {
        ProviderRequest::Http(request) => String::from_utf8(request.body.to_vec()).unwrap(),
        other => panic!("no request: {other:?}"),
    }
}

fn body(kind: &str, model: &str, thinking: Thinking, values: &[(&str, &str)]) -> Value {
    serde_json::from_str(&text(kind, model, thinking, values)).unwrap()
}

/// The fields of the body besides the conversation.
fn fields(kind: &str, model: &str, thinking: Thinking, values: &[(&str, &str)]) -> Value {
    let (with, without) = (body(kind, model, thinking, values), body(kind, model, Thinking::Unspecified, &[]));
    let object = with.as_object().unwrap().clone().into_iter();
    Value::Object(object.filter(|(name, value)| without.get(name) != Some(value)).collect())
}

const COMMON: [(&str, &str); 4] =
    [("temperature", "0.5"), ("top_p", "0.9"), ("max_output", "300"), ("body.top_k", "4")];
const SCHEMA: &str =
    r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#;

#[test]
fn chat_completions() {
    let more = [("stop", "END"), ("seed", "7"), ("verbosity", "low"), ("service_tier", "flex")];
    let all = [&COMMON[..], &more, &[("response_format", SCHEMA)]].concat();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let expected = json!({
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 300, "top_k": 4, "stop": ["END"], "seed": 7,
        "verbosity": "low", "service_tier": "flex", "reasoning_effort": "xhigh",
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}},
    });
    assert_eq!(fields("openai", "gpt-5.1", "xhigh".parse().unwrap(), &all), expected);
    let json = fields("openai", "m", Thinking::Unspecified, &[("response_format", "json")]);
    assert_eq!(json, json!({"response_format": {"type": "json_object"}}));
}

#[test]
fn responses() {
    let all = [&COMMON[..], &[("verbosity", "high"), ("service_tier", "auto"), ("response_format", SCHEMA)]].concat();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let format = json!({"type": "json_schema", "name": "answer", "strict": true, "schema": schema});
    let expected = json!({
        "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 300, "top_k": 4, "service_tier": "auto",
        "text": {"verbosity": "high", "format": format}, "reasoning": {"effort": "minimal", "summary": "auto"},
    });
    assert_eq!(fields("openai-responses", "gpt-5.1", "minimal".parse().unwrap(), &all), expected);
}

#[test]
fn messages() {
    let more = [("stop", r#"["a","b"]"#), ("service_tier", "standard_only"), ("response_format", SCHEMA)];
    let all = [&COMMON[..], &more].concat();
    let found = fields("anthropic", "claude-opus-4-8", "xhigh".parse().unwrap(), &all);
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let expected = json!({
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 300, "top_k": 4, "stop_sequences": ["a", "b"],
        "service_tier": "standard_only", "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "xhigh", "format": {"type": "json_schema", "schema": schema}},
    });
    assert_eq!(found, expected);
}

#[test]
fn gemini() {
    let more = [("stop", "END"), ("seed", "7"), ("response_format", SCHEMA)];
    let nested = [("body.generationConfig", r#"{"topK":40}"#)];
    let all = [&COMMON[..3], &more, &nested].concat();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let expected = json!({"generationConfig": {
        "temperature": 0.5, "topP": 0.9, "maxOutputTokens": 300, "topK": 40, "stopSequences": ["END"], "seed": 7,
        "responseMimeType": "application/json", "responseJsonSchema": schema,
        "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "high"},
    }});
    assert_eq!(fields("google", "gemini-3.8-flash", Thinking::High, &all), expected);
}

#[test]
fn bodies_with_parameters_are_the_golden_ones() {
    let (low, high) = (Thinking::Low, Thinking::High);
    let sampled = &[&COMMON[..3], &[("response_format", SCHEMA)]].concat()[..];
    for (kind, model, thinking, common, more) in [
        ("openai", "gpt-5.1", low, sampled, &[("stop", "END"), ("seed", "7"), ("verbosity", "low")][..]),
        ("openai-responses", "gpt-5.1", low, sampled, &[("verbosity", "high"), ("service_tier", "auto")]),
        ("anthropic", "claude-opus-4-8", high, &sampled[2..], &[("stop", r#"["a"]"#), ("service_tier", "auto")]),
        ("google", "gemini-3.8-flash", high, sampled, &[("stop", "END"), ("seed", "7")]),
    ] {
        assert_golden(kind, [("parameters", text(kind, model, thinking, &[common, more].concat()))]);
    }
}
