//! One form of schemas that all providers take.
//!
//! Providers refuse a whole request because of one schema: Anthropic because of combinators at the top and of anything that
//! is not JSON Schema 2020-12, Google because of `$schema` and lists without `items`. So only known keywords with values of
//! their type are kept, local references are replaced by what they refer to, and no other reference is followed.

use serde_json::{Map, Value, json};

/// Deeper parts of a schema allow anything.
const MAX_DEPTH: usize = 24;
/// Further parts of a schema allow anything; references can make a small schema large.
const MAX_PARTS: usize = 2_000;
/// In bytes.
const MAX_LENGTH: usize = 64 << 10;
/// The names that Anthropic accepts: `^[a-zA-Z0-9_.-]{1,64}$`.
const MAX_NAME: usize = 64;

/// The schema of a tool's arguments, and what the description has to say because the schema cannot.
#[derive(Debug, PartialEq)]
pub struct Normal {
    /// As JSON.
    pub schema: String,
    /// For the description.
    pub note: Option<String>,
}

/// The normal form of a schema.
///
/// # Errors
/// Providers would refuse it, and why.
pub fn normalise(schema: &Value) -> Result<Normal, String> {
    let mut writer = Writer { root: schema, parts: 0, open: Vec::new() };
    let mut top = match writer.part(schema, 0) {
        Value::Object(top) => top,
        _ => Map::new(),
    };
    let note = flatten(&mut top);
    if top.get("type").is_some_and(|kind| kind != "object") {
        return Err("its arguments are not an object".into());
    }
    top.insert("type".into(), "object".into());
    let properties = top.entry("properties").or_insert_with(|| json!({}));
    let is_taken = |name: &str| {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_fine)
    };
    if properties.as_object().is_some_and(|properties| properties.keys().any(|name| !is_taken(name))) {
        return Err("an argument has a name that models cannot use".into());
    }
    keep_declared(&mut top);
    let schema = Value::Object(top).to_string();
    if schema.len() > MAX_LENGTH {
        return Err(format!("its schema has {} bytes (at most {MAX_LENGTH})", schema.len()));
    }
    Ok(Normal { schema, note })
}

/// Only arguments that are declared can be required.
fn keep_declared(part: &mut Map<String, Value>) {
    let declared: Vec<String> =
        part.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let Some(Value::Array(required)) = part.get_mut("required") else { return };
    let mut seen = Vec::new();
    required.retain(|name| {
        let is_new =
            name.as_str().is_some_and(|name| declared.iter().any(|known| known == name)) && !seen.contains(name);
        seen.push(name.clone());
        is_new
    });
    if required.is_empty() {
        part.remove("required");
    }
}

/// Moves the properties of combinators at the top into the top. Returns what else the combinators contain.
fn flatten(top: &mut Map<String, Value>) -> Option<String> {
    let mut forms = Vec::new();
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = top.remove(keyword) else { continue };
        for branch in branches {
            let Value::Object(branch) = branch else { continue };
            let required = branch.get("required").cloned().unwrap_or_else(|| json!([]));
            if let Some(Value::Object(properties)) = branch.get("properties") {
                let into = top.entry("properties").or_insert_with(|| json!({}));
                for (name, schema) in properties {
                    if let Some(into) = into.as_object_mut()
                        && !into.contains_key(name)
                    {
                        into.insert(name.clone(), schema.clone());
                    }
                }
            }
            if keyword == "allOf" {
                let into = top.entry("required").or_insert_with(|| json!([]));
                into.as_array_mut()
                    .into_iter()
                    .for_each(|into| into.extend(required.as_array().into_iter().flatten().cloned()));
            } else {
                let names: Vec<&str> = required.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                forms.push(if names.is_empty() { "nothing more".to_owned() } else { names.join(", ") });
            }
        }
    }
    forms.dedup();
    (forms.len() > 1).then(|| format!("Required, one of: {}.", forms.join(" | ")))
}

struct Writer<'a> {
    root: &'a Value,
    parts: usize,
    /// The references that are being replaced.
    open: Vec<String>,
}

impl Writer<'_> {
    /// A part of the schema in the normal form.
    fn part(&mut self, schema: &Value, depth: usize) -> Value {
        self.parts += 1;
        let Value::Object(schema) = schema else { return json!({}) };
        if depth > MAX_DEPTH || self.parts > MAX_PARTS {
            return json!({});
        }
        let mut normal = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.referred(reference, depth),
            None => Map::new(),
        };
        for (keyword, value) in schema {
            if let Some(value) = self.keyword(keyword, value, depth) {
                normal.insert(keyword.clone(), value);
            }
        }
        if let Some(value) = schema.get("const") {
            normal.insert("enum".into(), json!([value]));
        }
        let is_list = normal.get("type").is_some_and(|kind| kind == "array" || is_one_of(kind, "array"));
        if is_list && !normal.contains_key("items") {
            normal.insert("items".into(), json!({}));
        }
        if !normal.contains_key("type") && normal.contains_key("properties") {
            normal.insert("type".into(), "object".into());
        }
        keep_declared(&mut normal);
        Value::Object(normal)
    }

    /// The target of a reference. One to itself allows any object, one to elsewhere anything.
    fn referred(&mut self, reference: &str, depth: usize) -> Map<String, Value> {
        let any_object = || Map::from_iter([("type".to_owned(), Value::from("object"))]);
        if self.open.iter().any(|open| open == reference) {
            return any_object();
        }
        let root = self.root;
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else {
            return Map::new();
        };
        self.open.push(reference.to_owned());
        let part = self.part(target, depth + 1);
        self.open.pop();
        if let Value::Object(part) = part { part } else { Map::new() }
    }

    /// The value of a keyword in the normal form; `None` if it is left out.
    fn keyword(&mut self, keyword: &str, value: &Value, depth: usize) -> Option<Value> {
        match keyword {
            "description" | "format" | "pattern" => value.is_string().then(|| value.clone()),
            "type" => is_type(value).then(|| value.clone()),
            "enum" => value.as_array().is_some_and(|list| !list.is_empty()).then(|| value.clone()),
            "default" => Some(value.clone()),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                value.is_number().then(|| value.clone())
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                value.is_u64().then(|| value.clone())
            }
            "uniqueItems" => value.is_boolean().then(|| value.clone()),
            "required" => value.as_array().map(|list| list.iter().filter(|name| name.is_string()).cloned().collect()),
            "properties" => value.as_object().map(|properties| {
                let part = |(name, schema): (&String, &Value)| (name.clone(), self.part(schema, depth + 1));
                Value::Object(properties.iter().map(part).collect())
            }),
            "additionalProperties" if value.is_boolean() => Some(value.clone()),
            "additionalProperties" => value.is_object().then(|| self.part(value, depth + 1)),
            "items" => Some(self.part(value, depth + 1)),
            "anyOf" | "oneOf" | "allOf" => value
                .as_array()
                .filter(|list| !list.is_empty())
                .map(|list| list.iter().map(|schema| self.part(schema, depth + 1)).collect()),
            _ => None,
        }
    }
}

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

fn is_type(value: &Value) -> bool {
    let is_known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    is_known(value) || value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is_known))
}

fn is_one_of(kinds: &Value, kind: &str) -> bool {
    kinds.as_array().is_some_and(|list| list.iter().any(|entry| entry == kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(schema: Value) -> Value {
        serde_json::from_str(&normalise(&schema).unwrap().schema).unwrap()
    }

    #[test]
    fn local_references_are_replaced_and_no_other_is_followed() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "at": {"$ref": "#/$defs/Point", "description": "where"},
                "tree": {"$ref": "#/$defs/Tree"},
                "remote": {"$ref": "https://example.org/schema.json"}
            },
            "$defs": {
                "Point": {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x", "y"]},
                "Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}
            }
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "at": {"type": "object", "description": "where", "properties": {"x": {"enum": [1]}}, "required": ["x"]},
                "tree": {"type": "object", "properties": {"left": {"type": "object"}}},
                "remote": {}
            }
        });
        assert_eq!(normal(schema), expected);
    }

    #[test]
    fn what_is_no_valid_schema_is_left_out() {
        let schema = json!({
            "properties": {
                "list": {"type": "array"},
                "old": {"type": "number", "exclusiveMinimum": true, "required": true},
                "wrong": {"type": "text"},
                "title": {"title": "Title", "type": ["string", "null"]}
            },
            "required": "list"
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {}},
                "old": {"type": "number"},
                "wrong": {},
                "title": {"type": ["string", "null"]}
            }
        });
        assert_eq!(normal(schema), expected);
        for nothing in [json!(null), json!([]), json!("x"), json!({})] {
            assert_eq!(normal(nothing), json!({"type": "object", "properties": {}}));
        }
    }

    #[test]
    fn combinators_at_the_top_become_properties_and_a_note() {
        let form = |name: &str| json!({"properties": {name: {"type": "string"}}, "required": [name]});
        let schema = json!({"type": "object", "oneOf": [form("a"), form("b")], "allOf": [form("c")]});
        let Normal { schema, note } = normalise(&schema).unwrap();
        assert_eq!(note.as_deref(), Some("Required, one of: a | b."));
        let schema: Value = serde_json::from_str(&schema).unwrap();
        assert_eq!(schema["required"], json!(["c"]));
        assert_eq!(schema["properties"].as_object().unwrap().len(), 3);
    }

    #[test]
    fn what_no_model_can_call_is_refused_and_what_grows_is_bounded() {
        assert!(normalise(&json!({"type": "string"})).is_err());
        assert!(normalise(&json!({"type": "object", "properties": {"a b": {}}})).is_err());
        let wide = json!({"$ref": "#/$defs/a"});
        let level = |next: &str| json!({"properties": {"x": {"$ref": next}, "y": {"$ref": next}, "z": {"$ref": next}}});
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
        let defs: Map<String, Value> =
            names.windows(2).map(|pair| (pair[0].to_owned(), level(&format!("#/$defs/{}", pair[1])))).collect();
        let mut schema = wide;
        schema["$defs"] = Value::Object(defs);
        assert!(normalise(&schema).is_ok_and(|normal| normal.schema.len() < MAX_LENGTH) || normalise(&schema).is_err());
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({"type": "object", "properties": {"x": deep}});
        }
        assert!(normalise(&deep).is_ok());
    }
}
