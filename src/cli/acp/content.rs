//! The content of a prompt: text, links to files, files and images that the editor includes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::base::json_rpc::Fault;

/// A prompt as it is sent to the agent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub text: String,
    /// Images, which are stored first.
    pub images: Vec<Vec<u8>>,
}

impl Content {
    /// Reads the blocks of a prompt. Text and links keep their order; included files follow all text.
    pub fn read(blocks: &Value) -> Result<Self, Fault> {
        let blocks = blocks.as_array().ok_or_else(|| Fault::params("`prompt` must be a list of content blocks"))?;
        let (mut content, mut included) = (Self::default(), Vec::new());
        for (at, block) in blocks.iter().enumerate() {
            let malformed = |what: &str| Fault::params(format!("prompt[{at}]: {what}"));
            let text_of = |value: &Value, name: &str| {
                value[name].as_str().map(str::to_owned).ok_or_else(|| malformed(&format!("`{name}` must be a string")))
            };
            match block["type"].as_str() {
                Some("text") => content.text.push_str(&text_of(block, "text")?),
                Some("resource_link") => content.add_link(&text_of(block, "uri")?),
                Some("resource") => {
                    let resource = &block["resource"];
                    let uri = text_of(resource, "uri")?;
                    match resource["text"].as_str() {
                        Some(text) => {
                            content.add_link(&uri);
                            included.push(format!("<file path=\"{}\">\n{text}\n</file>", path_or_uri(&uri)));
                        }
                        None => return Err(malformed("only text can be included; link other files")),
                    }
                }
                Some("image") => {
                    let bytes = BASE64.decode(text_of(block, "data")?);
                    content.images.push(bytes.map_err(|_| malformed("`data` is not base64"))?);
                }
                Some("audio") => return Err(malformed("audio is not supported")),
                _ => return Err(malformed("unknown type: expected text, resource_link, resource or image")),
            }
        }
        included.iter().for_each(|file| content.text.push_str(&format!("\n\n{file}")));
        if content.text.trim().is_empty() && content.images.is_empty() {
            return Err(Fault::params("nothing to send: the prompt is empty"));
        }
        Ok(content)
    }

    /// Adds a link as a word of its own: the path of a file with `@`, as a person would type it, or a URL.
    fn add_link(&mut self, uri: &str) {
        if !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
            self.text.push(' ');
        }
        let (path, is_file) = (path_or_uri(uri), uri.starts_with(FILE));
        match (is_file, path.contains(char::is_whitespace)) {
            (false, _) => self.text.push_str(&path),
            (true, false) => self.text.push_str(&format!("@{path}")),
            (true, true) => self.text.push_str(&format!("@\"{path}\"")),
        }
        self.text.push(' ');
    }
}

const FILE: &str = "file://";

/// The path of a file, or the URI of anything else.
fn path_or_uri(uri: &str) -> String {
    match uri.strip_prefix(FILE) {
        Some(path) => percent_decode_str(path).decode_utf8_lossy().into_owned(),
        None => uri.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_stand_in_the_text_and_included_files_after_it() {
        let read = Content::read(&json!([
            {"type": "text", "text": "compare"},
            {"type": "resource_link", "name": "a b", "uri": "file:///p/a%20b.rs"},
            {"type": "text", "text": "with"},
            {"type": "resource", "resource": {"uri": "file:///p/c.rs", "text": "fn c() {}"}},
            {"type": "resource_link", "name": "w", "uri": "https://example.org/w"},
            {"type": "image", "mimeType": "image/png", "data": "AQI="}
        ]));
        let text = "compare @\"/p/a b.rs\" with @/p/c.rs https://example.org/w \n\n<file path=\"/p/c.rs\">\nfn c() {}\n</file>";
        assert_eq!(read, Ok(Content { text: text.into(), images: vec![vec![1, 2]] }));
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        for (blocks, expected) in [
            (json!("text"), "must be a list"),
            (json!([]), "the prompt is empty"),
            (json!([{"type": "text", "text": " \n"}]), "the prompt is empty"),
            (json!([{"type": "text"}]), "prompt[0]: `text` must be a string"),
            (json!([{"type": "image", "data": "?"}]), "not base64"),
            (json!([{"type": "audio", "data": ""}]), "audio is not supported"),
            (json!([{"type": "resource", "resource": {"uri": "file:///x", "blob": "AA=="}}]), "only text"),
            (json!([{"type": "poem"}]), "unknown type"),
        ] {
            let message = Content::read(&blocks).expect_err("refused").message;
            assert!(message.contains(expected), "{blocks}: {message}");
        }
    }
}
