//! Results of calls as text and images for a model.

use serde_json::Value;

/// Further images of a result are only named.
pub const MAX_IMAGES: usize = 8;

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text, or a placeholder for content that models do not get.
    Text(String),
    /// An image in base64, as the server sent it: its size and type are not checked.
    Image(String),
}

/// The parts of the answer to `tools/call`, and whether it is an error.
pub fn result(result: &Value) -> (Vec<Part>, bool) {
    let is_error = result["isError"] == true;
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut parts = parts(blocks);
    let structured = &result["structuredContent"];
    // Servers that send structured content send it as text too (MCP 2025-06-18, "Structured Content").
    let has_text = blocks.iter().any(|block| block["type"] == "text");
    if !structured.is_null() && !has_text {
        parts.push(Part::Text(structured.to_string()));
    }
    let is_empty = parts.iter().all(|part| matches!(part, Part::Text(text) if text.is_empty()));
    (if is_empty { vec![Part::Text("[no output]".into())] } else { parts }, is_error)
}

/// The parts of blocks of content, with at most [`MAX_IMAGES`] images.
pub fn parts(blocks: &[Value]) -> Vec<Part> {
    let mut images = 0;
    let part = |block: &Value| match image(block) {
        Some(data) if images < MAX_IMAGES => {
            images += 1;
            Part::Image(data.to_owned())
        }
        _ => Part::Text(text_of(block)),
    };
    blocks.iter().map(part).collect()
}

/// The base64 of an image, if it is one.
fn image(block: &Value) -> Option<&str> {
    let is_image = |kind: &Value| kind.as_str().is_some_and(|kind| kind.starts_with("image/"));
    let resource = &block["resource"];
    match block["type"].as_str()? {
        "image" => block["data"].as_str(),
        "resource" if is_image(&resource["mimeType"]) && resource["text"].is_null() => resource["blob"].as_str(),
        _ => None,
    }
}

fn text_of(block: &Value) -> String {
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    match text("type") {
        "text" => text("text").to_owned(),
        "image" | "audio" => {
            format!("[{} not shown: {}, {}]", text("type"), text("mimeType"), size_of_base64(text("data")))
        }
        "resource" => contents(&block["resource"]),
        "resource_link" => {
            let about = Some(text("description")).filter(|about| !about.is_empty());
            format!("[resource {}: {}]", text("uri"), about.unwrap_or_else(|| text("name")))
        }
        other => format!("[{other} not shown]"),
    }
}

/// The text of a resource.
fn contents(resource: &Value) -> String {
    let text = |name: &str| resource[name].as_str();
    match (text("text"), text("blob")) {
        (Some(text), _) => text.to_owned(),
        (None, Some(blob)) => {
            let kind = text("mimeType").unwrap_or("binary");
            format!("[resource {} not shown: {kind}, {}]", text("uri").unwrap_or_default(), size_of_base64(blob))
        }
        (None, None) => format!("[resource {} is empty]", text("uri").unwrap_or_default()),
    }
}

/// The parts of the answer to `resources/read`.
pub fn resource(result: &Value) -> Vec<Part> {
    let contents = result["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    let blocks: Vec<Value> =
        contents.iter().map(|resource| serde_json::json!({"type": "resource", "resource": resource})).collect();
    parts(&blocks)
}

/// The parts of the answer to `prompts/get`: one message after the other, those of a model marked.
pub fn prompt(result: &Value) -> Vec<Part> {
    let mut blocks = Vec::new();
    for message in result["messages"].as_array().into_iter().flatten() {
        if message["role"] == "assistant" {
            blocks.push(serde_json::json!({"type": "text", "text": "[assistant]"}));
        }
        match &message["content"] {
            Value::Array(several) => blocks.extend(several.iter().cloned()),
            one => blocks.push(one.clone()),
        }
    }
    parts(&blocks)
}

fn size_of_base64(data: &str) -> String {
    format!("{} bytes", data.trim_end_matches('=').len() * 3 / 4)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_content_has_a_text() {
        let cases = [
            (json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), "a\nb", false),
            (json!({"content": [{"type": "text", "text": "no"}], "isError": true}), "no", true),
            (json!({"content": [], "structuredContent": {"a": 1}}), r#"{"a":1}"#, false),
            (
                json!({"content": [{"type": "text", "text": "{\"a\": 1}"}], "structuredContent": {"a": 1}}),
                "{\"a\": 1}",
                false,
            ),
            (
                json!({"content": [{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]}),
                "[audio not shown: audio/wav, 3 bytes]",
                false,
            ),
            (json!({"content": [{"type": "resource", "resource": {"uri": "x:1", "text": "t"}}]}), "t", false),
            (
                json!({"content": [{"type": "resource", "resource": {"uri": "x:1", "blob": "AAAA"}}]}),
                "[resource x:1 not shown: binary, 3 bytes]",
                false,
            ),
            (json!({"content": [{"type": "resource_link", "uri": "x:1", "name": "n"}]}), "[resource x:1: n]", false),
            (json!({}), "[no output]", false),
            (json!(7), "[no output]", false),
        ];
        for (value, text, is_error) in cases {
            let (parts, found) = result(&value);
            let texts = parts.iter().map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Image(_) => panic!("an image: {value}"),
            });
            assert_eq!((texts.collect::<Vec<_>>().join("\n"), found), (text.to_owned(), is_error), "{value}");
        }
    }

    #[test]
    fn images_are_parts_of_their_own_up_to_a_number() {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
        let blob = json!({"type": "resource", "resource": {"uri": "x:1", "mimeType": "image/png", "blob": "BBBB"}});
        let (parts, _) = result(&json!({"content": [image.clone(), blob]}));
        assert_eq!(parts, [Part::Image("AAAA".into()), Part::Image("BBBB".into())]);
        let (many, _) = result(&json!({"content": vec![image; MAX_IMAGES + 1]}));
        assert_eq!(many[MAX_IMAGES], Part::Text("[image not shown: image/png, 3 bytes]".into()));
    }
}
