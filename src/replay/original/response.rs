//! Reads the responses of the scripted provider, for the copy of the C program.

use serde_json::Value;

/// A response, as far as it has arrived.
#[derive(Default)]
pub struct Response {
    unread: Vec<u8>,
    head: Option<String>,
    /// The decoded part of the body without a complete event; for an error, the whole body.
    body: String,
    pub is_complete: bool,
}

pub enum Part {
    Text(String),
    Usage([u64; 2]),
    /// The arguments of a tool call.
    Call(String),
}

impl Response {
    /// Takes bytes, and returns the parts of the reply that are complete now.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Part> {
        self.unread.extend_from_slice(bytes);
        if self.head.is_none() {
            let Some(end) = position(&self.unread, b"\r\n\r\n") else { return Vec::new() };
            let head: Vec<u8> = self.unread.drain(..end + 4).collect();
            self.head = Some(String::from_utf8_lossy(&head).to_ascii_lowercase());
        }
        match self.header("content-length:") {
            Some(length) if self.unread.len() as u64 >= length => {
                self.body = String::from_utf8_lossy(&std::mem::take(&mut self.unread)).into_owned();
                self.is_complete = true;
                Vec::new()
            }
            Some(_) => Vec::new(),
            None => {
                self.take_chunks();
                self.take_events()
            }
        }
    }

    /// The message of a response that is an error.
    pub fn error(&self) -> Option<String> {
        let is_error = !self.head.as_ref()?.starts_with("http/1.1 200");
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        is_error.then(|| body["error"]["message"].as_str().unwrap_or_default().to_owned())
    }

    fn header(&self, name: &str) -> Option<u64> {
        self.head.as_ref()?.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    }

    fn take_chunks(&mut self) {
        while let Some(end) = position(&self.unread, b"\r\n") {
            let size = String::from_utf8_lossy(&self.unread[..end]).into_owned();
            let size = usize::from_str_radix(&size, 16).unwrap_or(0);
            if self.unread.len() < end + 2 + size + 2 {
                return;
            }
            self.body += &String::from_utf8_lossy(&self.unread[end + 2..end + 2 + size]);
            self.unread.drain(..end + 2 + size + 2);
            self.is_complete |= size == 0;
        }
    }

    fn take_events(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        while let Some(end) = self.body.find("\n\n") {
            let event: String = self.body.drain(..end + 2).collect();
            let event: Value = serde_json::from_str(event.trim_start_matches("data: ")).unwrap_or_default();
            let delta = &event["choices"][0]["delta"];
            parts.extend(delta["content"].as_str().map(|text| Part::Text(text.to_owned())));
            let call = delta["tool_calls"][0]["function"]["arguments"].as_str();
            parts.extend(call.map(|arguments| Part::Call(arguments.to_owned())));
            let tokens = |name: &str| event["usage"][name].as_u64();
            let usage = tokens("prompt_tokens").zip(tokens("completion_tokens"));
            parts.extend(usage.map(|(input, output)| Part::Usage([input, output])));
        }
        parts
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
