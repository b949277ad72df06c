//! `--schema`: the JSON schema that the answer has to conform to.

use std::path::Path;

use serde_json::Value;

use crate::base::error::{Error, Result, system_message};

/// Larger schemas are refused by all services.
const MAX_BYTES: u64 = 1024 * 1024;

pub struct Schema {
    pub value: Value,
    #[cfg(feature = "json-schema")]
    validator: jsonschema::Validator,
}

impl Schema {
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let size = std::fs::metadata(path).map(|file| file.len());
        if size.is_ok_and(|size| size > MAX_BYTES) {
            return Err(Error::usage(format!("--schema {shown}: is larger than {} MiB", MAX_BYTES >> 20)));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::usage(format!("--schema {shown}: cannot be read: {}", system_message(&error))))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| Error::usage(format!("--schema {shown}: is not JSON: {error}")))?;
        if !value.is_object() {
            return Err(Error::usage(format!("--schema {shown}: expected a JSON schema that is an object")));
        }
        Self::compiled(value).map_err(|error| error.context(format!("--schema {shown}")))
    }

    #[cfg(feature = "json-schema")]
    fn compiled(value: Value) -> Result<Self> {
        let validator = jsonschema::validator_for(&value)
            .map_err(|error| Error::usage(format!("is not a valid JSON schema: {error}")))?;
        Ok(Self { value, validator })
    }

    #[cfg(not(feature = "json-schema"))]
    fn compiled(_: Value) -> Result<Self> {
        Err(Error::not_built_in("json-schema"))
    }

    /// Why an answer does not conform; `None` if it does.
    pub fn objection(&self, answer: &str) -> Option<String> {
        let value: Value = match serde_json::from_str(answer.trim()) {
            Ok(value) => value,
            Err(error) => return Some(format!("the answer is not JSON: {error}")),
        };
        self.first_error(&value).map(|error| format!("the answer does not conform to the schema: {error}"))
    }

    #[cfg(feature = "json-schema")]
    fn first_error(&self, value: &Value) -> Option<String> {
        self.validator.iter_errors(value).next().map(|error| {
            let place = error.instance_path().to_string();
            if place.is_empty() { error.to_string() } else { format!("{error} (at {place})") }
        })
    }

    #[cfg(not(feature = "json-schema"))]
    #[expect(clippy::unused_self, reason = "there is no such schema")]
    fn first_error(&self, _: &Value) -> Option<String> {
        None
    }

    /// The prompt for a model whose protocol cannot enforce a schema.
    pub fn in_prompt(&self, prompt: &str) -> String {
        format!(
            "{prompt}\n\nAnswer with JSON only, without any other text, that conforms to this JSON schema:\n{}",
            self.value
        )
    }
}

#[cfg(all(test, feature = "json-schema"))]
mod tests {
    use super::*;

    fn schema(text: &str) -> Result<Schema> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("schema.json");
        std::fs::write(&path, text).unwrap();
        Schema::read(&path)
    }

    #[test]
    fn an_invalid_schema_is_refused_with_its_file() {
        for (text, expected) in [
            ("{", "is not JSON"),
            ("[]", "an object"),
            (r#"{"type": "number of"}"#, "is not a valid JSON schema"),
            (r#"{"$ref": "http://127.0.0.1:9/other.json"}"#, "is not a valid JSON schema"),
        ] {
            let message = schema(text).err().unwrap().message;
            assert!(message.contains("schema.json: ") && message.contains(expected), "{message}");
        }
        assert!(Schema::read(Path::new("/none.json")).err().unwrap().message.contains("No such file"));
    }

    #[test]
    fn an_answer_that_does_not_conform_is_refused_with_the_place() {
        let schema =
            schema(r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#).unwrap();
        assert_eq!(schema.objection(" {\"n\": 1}\n"), None);
        for (answer, expected) in [
            ("{\"n\": \"1\"}", "(at /n)"),
            ("{}", "\"n\" is a required property"),
            ("```json\n{\"n\": 1}\n```", "the answer is not JSON"),
            ("", "the answer is not JSON"),
        ] {
            let objection = schema.objection(answer).unwrap();
            assert!(objection.contains(expected), "{objection}");
        }
    }
}
