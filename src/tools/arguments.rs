//! Checks the arguments of a call against the tool's schema, and corrects what is clear: aliases, numbers and booleans
//! written as strings, a string where an array is expected.
//!
//! Supports the part of JSON Schema that the built-in tools use: an object of strings, integers, booleans and arrays of
//! strings or of such objects, with `required`, `minimum`, `maximum`, `maxItems` and `enum`.

use serde_json::{Map, Value};

use crate::domain::tool::ToolDeclaration;

/// Of the items of one array, in an error message.
const MOST_PROBLEMS: usize = 5;

/// Returns an object that fits the schema. Nulls are dropped (some providers send every optional argument as null), and
/// an empty text is an empty object.
///
/// # Errors
/// A message for the model that names every argument that does not fit, and the expected ones.
pub fn parse(text: &str, declaration: &ToolDeclaration, aliases: &[(&str, &str)]) -> Result<Value, String> {
    let schema: Value = serde_json::from_str(declaration.parameters).expect("a tool's schema is JSON");
    let mut object = parse_object(text).map_err(|problem| error_message(declaration, &schema, &[problem]))?;
    let problems = fit(&mut object, &schema, aliases, "");
    if problems.is_empty() { Ok(Value::Object(object)) } else { Err(error_message(declaration, &schema, &problems)) }
}

/// Corrects an object if its meaning is clear. Returns the problems; `place` precedes the names.
fn fit(object: &mut Map<String, Value>, schema: &Value, aliases: &[(&str, &str)], place: &str) -> Vec<String> {
    object.retain(|_, value| !value.is_null());
    resolve_aliases(object, schema, aliases);
    let mut problems: Vec<String> = missing_arguments(object, schema, place);
    for (name, value) in object {
        match schema["properties"].get(name) {
            None => problems.push(format!("unknown argument `{place}{name}`")),
            Some(expected) => {
                convert(value, expected);
                match check(value, expected) {
                    Err(problem) => problems.push(format!("`{place}{name}` must be {problem}")),
                    Ok(()) => problems.extend(fit_items(value, &expected["items"], aliases, &format!("{place}{name}"))),
                }
            }
        }
    }
    problems
}

/// The same for each object of an array.
fn fit_items(array: &mut Value, schema: &Value, aliases: &[(&str, &str)], place: &str) -> Vec<String> {
    let objects = array.as_array_mut().into_iter().flatten().enumerate();
    let fit_item = |(at, item): (usize, &mut Value)| match item {
        Value::Object(object) => fit(object, schema, aliases, &format!("{place}[{at}].")),
        _ => Vec::new(),
    };
    objects.flat_map(fit_item).take(MOST_PROBLEMS).collect()
}

pub(super) fn parse_object(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("the arguments are not a JSON object".into()),
        Err(error) => Err(format!("the arguments are not valid JSON ({error})")),
    }
}

/// An alias beside the declared name is dropped.
fn resolve_aliases(object: &mut Map<String, Value>, schema: &Value, aliases: &[(&str, &str)]) {
    let is_declared = |name: &str| schema["properties"].get(name).is_some();
    for (alias, name) in aliases.iter().filter(|(_, name)| name.is_empty() || is_declared(name)) {
        if let Some(value) = object.remove(*alias)
            && !name.is_empty()
        {
            object.entry(*name).or_insert(value);
        }
    }
}

/// The required arguments that are missing; `place` precedes the names.
pub(super) fn missing_arguments(object: &Map<String, Value>, schema: &Value, place: &str) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.filter(|name| !object.contains_key(*name)).map(|name| format!("`{place}{name}` is missing")).collect()
}

/// Converts a value to the expected type where its meaning is clear.
fn convert(value: &mut Value, expected: &Value) {
    let converted = match (expected["type"].as_str(), &*value) {
        (Some("integer"), Value::String(text)) => text.trim().parse().ok().and_then(whole_number),
        (Some("integer"), Value::Number(number)) => number.as_f64().and_then(whole_number),
        (Some("boolean"), Value::String(text)) => text.trim().to_ascii_lowercase().parse().ok().map(Value::Bool),
        (Some("array"), Value::String(text)) => Some(array_in(text)),
        (Some("array"), Value::Object(_)) if has_objects(expected) => Some(Value::Array(vec![value.clone()])),
        _ => None,
    };
    if let Some(converted) = converted {
        *value = converted;
    }
}

fn whole_number(number: f64) -> Option<Value> {
    (number.fract() == 0.0 && number.abs() < 9e15).then(|| Value::from(number as i64))
}

/// The array that a string contains as JSON, else its parts between commas.
fn array_in(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(array @ Value::Array(_)) => array,
        _ => text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect(),
    }
}

fn check(value: &Value, expected: &Value) -> Result<(), String> {
    let kind = expected["type"].as_str().unwrap_or_default();
    let fits = match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        "array" if has_objects(expected) => value.as_array().is_some_and(|items| items.iter().all(Value::is_object)),
        "array" => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
        _ => true,
    };
    if !fits {
        return Err(format!("{} (got {})", described_type(expected), describe(value)));
    }
    let count = value.as_array().map_or(0, Vec::len) as u64;
    if let Some(most) = expected["maxItems"].as_u64().filter(|most| count > *most) {
        return Err(format!("an array of at most {most} items (got {count})"));
    }
    let number = value.as_i64();
    if let (Some(number), Some(least)) = (number, expected["minimum"].as_i64().filter(|least| number < Some(*least))) {
        return Err(format!("at least {least} (got {number})"));
    }
    if let (Some(number), Some(most)) = (number, expected["maximum"].as_i64().filter(|most| number > Some(*most))) {
        return Err(format!("at most {most} (got {number})"));
    }
    match expected["enum"].as_array() {
        Some(allowed) if !allowed.contains(value) => {
            let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
            Err(format!("one of {} (got {value})", allowed.join(", ")))
        }
        _ => Ok(()),
    }
}

fn has_objects(expected: &Value) -> bool {
    expected["items"]["type"] == "object"
}

fn described_type(expected: &Value) -> &'static str {
    match expected["type"].as_str().unwrap_or_default() {
        "string" => "a string",
        "boolean" => "true or false",
        "integer" => "an integer",
        _ if has_objects(expected) => "an array of objects",
        _ => "an array of strings",
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "an array".into(),
        Value::String(text) if text.chars().count() > 40 => "a string".into(),
        value => value.to_string(),
    }
}

fn error_message(declaration: &ToolDeclaration, schema: &Value, problems: &[String]) -> String {
    let known = properties(schema);
    let expected = if known.is_empty() { "no arguments".into() } else { known };
    format!("invalid arguments for {}: {}; expected: {expected}", declaration.name, problems.join("; "))
}

/// The properties of an object, with their types.
fn properties(schema: &Value) -> String {
    let is_required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|item| item == name));
    let known = schema["properties"].as_object().into_iter().flatten().map(|(name, expected)| {
        let kind = match expected["type"].as_str().unwrap_or("value") {
            "array" if has_objects(expected) => format!("array of {{{}}}", properties(&expected["items"])),
            kind => kind.to_owned(),
        };
        format!("{name} ({kind}{})", if is_required(name) { "" } else { ", optional" })
    });
    known.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PROBE: ToolDeclaration = ToolDeclaration {
        name: "probe",
        description: "",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"deep":{"type":"boolean"},
            "limit":{"type":"integer","minimum":1,"maximum":9},"mode":{"type":"string","enum":["a","b"]},
            "names":{"type":"array","items":{"type":"string"}},
            "parts":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"path":{"type":"string"},
                "deep":{"type":"boolean"}},"required":["path"],"additionalProperties":false}}},
            "required":["path"],"additionalProperties":false}"#,
    };

    const ALIASES: [(&str, &str); 3] = [("file", "path"), ("filePath", "path"), ("note", "")];

    fn parse(text: &str) -> Result<Value, String> {
        super::parse(text, &PROBE, &ALIASES)
    }

    #[test]
    fn valid_arguments_are_returned_unchanged() {
        let arguments = json!({"path": "a", "limit": 3, "deep": true, "mode": "b", "names": ["x", "y"]});
        assert_eq!(parse(&arguments.to_string()), Ok(arguments));
    }

    #[test]
    fn nulls_are_absent_and_whole_floats_are_integers() {
        assert_eq!(parse(r#"{"path":"a","limit":3.0,"deep":null}"#), Ok(json!({"path": "a", "limit": 3})));
    }

    #[test]
    fn strings_are_converted_where_another_type_is_expected() {
        for (text, expected) in [
            (r#"{"path":"a","limit":" 3 "}"#, json!({"path": "a", "limit": 3})),
            (r#"{"path":"a","deep":"True"}"#, json!({"path": "a", "deep": true})),
            (r#"{"path":"a","names":"[\"x\",\"y\"]"}"#, json!({"path": "a", "names": ["x", "y"]})),
            (r#"{"path":"a","names":" x, y,"}"#, json!({"path": "a", "names": ["x", "y"]})),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn aliases_are_renamed_and_the_declared_name_takes_precedence() {
        for (text, expected) in [
            (r#"{"file":"a"}"#, json!({"path": "a"})),
            (r#"{"filePath":"a","note":5}"#, json!({"path": "a"})),
            (r#"{"file":"a","path":"b"}"#, json!({"path": "b"})),
            (r#"{"file":"a","path":null}"#, json!({"path": "a"})),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_argument_and_what_is_expected() {
        for (text, expected) in [
            ("", "`path` is missing"),
            ("{}", "`path` is missing"),
            (r#"{"path":null}"#, "`path` is missing"),
            (r#"{"path":5}"#, "`path` must be a string (got 5)"),
            (r#"{"path":"a","limit":"three"}"#, "`limit` must be an integer (got \"three\")"),
            (r#"{"path":"a","limit":3.5}"#, "`limit` must be an integer (got 3.5)"),
            (r#"{"path":"a","limit":1e300}"#, "`limit` must be an integer (got 1e+300)"),
            (r#"{"path":"a","limit":1e20}"#, "`limit` must be an integer (got 1e+20)"),
            (r#"{"path":"a","limit":0}"#, "`limit` must be at least 1 (got 0)"),
            (r#"{"path":"a","limit":10}"#, "`limit` must be at most 9 (got 10)"),
            (r#"{"path":"a","deep":"yes"}"#, "`deep` must be true or false (got \"yes\")"),
            (r#"{"path":"a","mode":"c"}"#, "`mode` must be one of \"a\", \"b\" (got \"c\")"),
            (r#"{"path":"a","names":[1]}"#, "`names` must be an array of strings (got an array)"),
            (r#"{"path":"a","fil":"b"}"#, "unknown argument `fil`"),
            (r#"["a"]"#, "not a JSON object"),
            (r#"{"path":"a"#, "not valid JSON"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
            assert!(message.contains("path (string)") && message.contains("limit (integer, optional)"), "{message}");
        }
    }

    #[test]
    fn objects_of_an_array_are_corrected_and_checked_like_the_arguments() {
        let corrected = json!({"path": "a", "parts": [{"path": "b", "deep": true}]});
        for text in [
            r#"{"path":"a","parts":[{"file":"b","deep":"true","note":1}]}"#,
            r#"{"path":"a","parts":"[{\"path\":\"b\",\"deep\":true}]"}"#,
            r#"{"path":"a","parts":{"path":"b","deep":true}}"#,
        ] {
            assert_eq!(parse(text), Ok(corrected.clone()), "{text}");
        }
        for (parts, expected) in [
            (
                json!([{"path": "b"}, {"deep": 1}]),
                "`parts[1].path` is missing; `parts[1].deep` must be true or false (got 1)",
            ),
            (json!([{"path": "b", "more": 1}]), "unknown argument `parts[0].more`"),
            (json!(["b"]), "`parts` must be an array of objects (got an array)"),
            (json!([{}, {}, {}, {}]), "`parts` must be an array of at most 3 items (got 4)"),
        ] {
            let message = parse(&json!({"path": "a", "parts": parts}).to_string()).unwrap_err();
            assert!(message.contains(expected), "{message}");
            assert!(
                message.contains("parts (array of {deep (boolean, optional), path (string)}, optional)"),
                "{message}"
            );
        }
    }

    #[test]
    fn all_arguments_that_do_not_fit_are_named_together() {
        let message = parse(r#"{"deep":1,"what":2}"#).unwrap_err();
        assert!(message.contains("`path` is missing") && message.contains("`deep`") && message.contains("`what`"));
    }
}
