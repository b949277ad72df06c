//! Results of calls as text for a model.

use serde_json::Value;

/// The text of the answer to `tools/call`, and whether it is an error.
pub fn result(result: &Value) -> (String, bool) {
    let is_error = result["isError"] == true;
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut parts: Vec<String> = blocks.iter().map(block).collect();
    let structured = &result["structuredContent"];
    // Servers that send structured content send it as text too (MCP 2025-06-18, "Structured Content").
    let has_text = blocks.iter().any(|block| block["type"] == "text");
    if !structured.is_null() && !has_text {
        parts.push(structured.to_string());
    }
    let text = parts.join("\n");
    (if text.is_empty() { "[no output]".into() } else { text }, is_error)
}

fn block(block: &Value) -> String {
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

/// The text of an embedded resource.
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
                json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}),
                "[image not shown: image/png, 3 bytes]",
                false,
            ),
            (json!({"content": [{"type": "resource", "resource": {"uri": "x:1", "text": "t"}}]}), "t", false),
            (json!({"content": [{"type": "resource_link", "uri": "x:1", "name": "n"}]}), "[resource x:1: n]", false),
            (json!({}), "[no output]", false),
            (json!(7), "[no output]", false),
        ];
        for (value, text, is_error) in cases {
            assert_eq!(result(&value), (text.to_owned(), is_error), "{value}");
        }
    }
}
