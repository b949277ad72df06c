//! Whether a call's arguments fit the tool's schema, and words for the model where they do not.
//!
//! Covers the part of JSON Schema that the built-in tools use: an object of strings, integers and booleans, some of them
//! required, integers with a least and a greatest value. What a tool's arguments mean is the tool's own affair.

use serde_json::{Map, Value};

use crate::domain::tool::ToolDeclaration;

/// The arguments as an object that fits the declared schema. Nulls are dropped (some providers write every optional
/// argument as null), integers written as `5.0` become `5`, and no text at all is an empty object.
///
/// # Errors
/// Words for the model that name every argument that does not fit and what is expected.
pub fn read(text: &str, declaration: &ToolDeclaration) -> Result<Value, String> {
    let schema: Value = serde_json::from_str(declaration.parameters).expect("a tool's schema is JSON");
    let mut object = read_object(text).map_err(|wrong| complaint(declaration, &schema, &[wrong]))?;
    object.retain(|_, value| !value.is_null());
    let mut wrong: Vec<String> = missing(&object, &schema);
    for (name, value) in &mut object {
        match schema["properties"].get(name) {
            None => wrong.push(format!("there is no argument `{name}`")),
            Some(expected) => wrong.extend(mend(name, value, expected).err()),
        }
    }
    if wrong.is_empty() { Ok(Value::Object(object)) } else { Err(complaint(declaration, &schema, &wrong)) }
}

fn read_object(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("the arguments are JSON, but not an object".into()),
        Err(error) => Err(format!("the arguments are not valid JSON ({error})")),
    }
}

fn missing(object: &Map<String, Value>, schema: &Value) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.filter(|name| !object.contains_key(*name)).map(|name| format!("`{name}` is missing")).collect()
}

/// Checks one value; a whole number that came as a float is made an integer.
fn mend(name: &str, value: &mut Value, expected: &Value) -> Result<(), String> {
    let kind = expected["type"].as_str().unwrap_or_default();
    if kind == "integer"
        && let Some(whole) = value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15)
    {
        *value = Value::from(whole as i64);
    }
    let fits = match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        _ => true,
    };
    if !fits {
        let is_whole = kind == "integer" && value.as_f64().is_some_and(|number| number.fract() == 0.0);
        let found = if is_whole { "one so large" } else { describe(value) };
        return Err(format!("`{name}` must be {}, not {found}", article(kind)));
    }
    within_bounds(name, value, expected)
}

fn within_bounds(name: &str, value: &Value, expected: &Value) -> Result<(), String> {
    let Some(number) = value.as_i64() else { return Ok(()) };
    if let Some(least) = expected["minimum"].as_i64().filter(|least| number < *least) {
        return Err(format!("`{name}` must be at least {least}, not {number}"));
    }
    if let Some(greatest) = expected["maximum"].as_i64().filter(|greatest| number > *greatest) {
        return Err(format!("`{name}` must be at most {greatest}, not {number}"));
    }
    Ok(())
}

fn article(kind: &str) -> String {
    format!("{} {kind}", if kind.starts_with('i') { "an" } else { "a" })
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// What does not fit, and a reminder of what would.
fn complaint(declaration: &ToolDeclaration, schema: &Value, wrong: &[String]) -> String {
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let known = schema["properties"].as_object().into_iter().flatten().map(|(name, expected)| {
        let kind = expected["type"].as_str().unwrap_or("value");
        format!("{name} ({kind}{})", if required(name) { "" } else { ", optional" })
    });
    let known = known.collect::<Vec<_>>().join(", ");
    format!("The call of `{}` was not run: {}. Its arguments are: {known}.", declaration.name, wrong.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PROBE: ToolDeclaration = ToolDeclaration {
        name: "probe",
        description: "",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"deep":{"type":"boolean"},
            "limit":{"type":"integer","minimum":1,"maximum":9}},"required":["path"],"additionalProperties":false}"#,
    };

    #[test]
    fn arguments_that_fit_come_back_as_they_are() {
        let fitting = r#"{"path":"a","limit":3,"deep":true}"#;
        assert_eq!(read(fitting, &PROBE), Ok(json!({"path": "a", "limit": 3, "deep": true})));
    }

    #[test]
    fn nulls_are_absent_and_whole_floats_are_integers() {
        assert_eq!(read(r#"{"path":"a","limit":3.0,"deep":null}"#, &PROBE), Ok(json!({"path": "a", "limit": 3})));
    }

    #[test]
    fn what_does_not_fit_names_the_argument_and_what_is_expected() {
        for (text, expected) in [
            ("", "`path` is missing"),
            ("{}", "`path` is missing"),
            (r#"{"path":null}"#, "`path` is missing"),
            (r#"{"path":5}"#, "`path` must be a string, not a number"),
            (r#"{"path":"a","limit":"3"}"#, "`limit` must be an integer, not a string"),
            (r#"{"path":"a","limit":3.5}"#, "`limit` must be an integer, not a fraction"),
            (r#"{"path":"a","limit":1e300}"#, "`limit` must be an integer, not one so large"),
            (r#"{"path":"a","limit":1e20}"#, "`limit` must be an integer, not one so large"),
            (r#"{"path":"a","limit":0}"#, "`limit` must be at least 1, not 0"),
            (r#"{"path":"a","limit":10}"#, "`limit` must be at most 9, not 10"),
            (r#"{"path":"a","deep":"yes"}"#, "`deep` must be a boolean, not a string"),
            (r#"{"path":"a","file":"b"}"#, "there is no argument `file`"),
            (r#"["a"]"#, "not an object"),
            (r#"{"path":"a"#, "not valid JSON"),
        ] {
            let words = read(text, &PROBE).unwrap_err();
            assert!(words.contains(expected), "{text}: {words}");
            assert!(words.contains("path (string)") && words.contains("limit (integer, optional)"), "{words}");
        }
    }

    #[test]
    fn every_argument_that_does_not_fit_is_named_at_once() {
        let words = read(r#"{"deep":1,"what":2}"#, &PROBE).unwrap_err();
        assert!(words.contains("`path` is missing") && words.contains("`deep`") && words.contains("`what`"), "{words}");
    }
}
