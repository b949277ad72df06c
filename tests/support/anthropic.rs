//! What an Anthropic server says while it streams a message, in the shapes of the streaming reference
//! (platform.claude.com/docs/en/build-with-claude/streaming).

use std::cell::Cell;

use serde_json::{Value, json};

use super::peer::Exchange;

/// The script of one message: blocks follow each other.
pub struct Message<'a> {
    exchange: &'a Exchange,
    blocks: Cell<u64>,
}

impl<'a> Message<'a> {
    /// The head of a stream, and a message that begins.
    pub fn begin(exchange: &'a Exchange) -> Self {
        exchange.stream();
        let message = Self { exchange, blocks: Cell::new(0) };
        let usage = json!({"input_tokens": 3, "cache_read_input_tokens": 1000, "output_tokens": 1});
        message.event(json!({"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}}));
        message.event(json!({"type": "ping"}));
        message
    }

    /// Thinking, with the signature that seals it.
    pub fn thinking(&self, text: &str, signature: &str) -> &Self {
        self.open_thinking(text).delta(json!({"type": "signature_delta", "signature": signature})).stop()
    }

    /// Thinking without its end.
    pub fn open_thinking(&self, text: &str) -> &Self {
        self.start(json!({"type": "thinking", "thinking": "", "signature": ""}));
        self.delta(json!({"type": "thinking_delta", "thinking": text}))
    }

    /// A whole text.
    pub fn text(&self, text: &str) -> &Self {
        self.open_text(text).stop()
    }

    /// A text without its end.
    pub fn open_text(&self, text: &str) -> &Self {
        self.start(json!({"type": "text", "text": ""})).delta(json!({"type": "text_delta", "text": text}))
    }

    /// A whole call.
    pub fn call(&self, id: &str, name: &str, arguments: &str) -> &Self {
        self.open_call(id, name, arguments).stop()
    }

    /// A call whose arguments go on.
    pub fn open_call(&self, id: &str, name: &str, arguments: &str) -> &Self {
        self.start(json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
        self.delta(json!({"type": "input_json_delta", "partial_json": arguments}))
    }

    /// An error instead of what would follow.
    pub fn fail(&self, kind: &str, message: &str) {
        self.event(json!({"type": "error", "error": {"type": kind, "message": message}}));
        self.exchange.end();
    }

    /// The end, and why.
    pub fn end(&self, reason: &str) {
        let usage = json!({"output_tokens": 20});
        self.event(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}));
        self.event(json!({"type": "message_stop"}));
        self.exchange.end();
    }

    fn start(&self, block: Value) -> &Self {
        self.blocks.set(self.blocks.get() + 1);
        self.event(json!({"type": "content_block_start", "index": self.blocks.get() - 1, "content_block": block}))
    }

    fn delta(&self, delta: Value) -> &Self {
        self.event(json!({"type": "content_block_delta", "index": self.blocks.get() - 1, "delta": delta}))
    }

    fn stop(&self) -> &Self {
        self.event(json!({"type": "content_block_stop", "index": self.blocks.get() - 1}))
    }

    fn event(&self, data: Value) -> &Self {
        let name = data["type"].as_str().expect("an event has a type");
        self.exchange.body(format!("event: {name}\ndata: {data}\n\n"));
        self
    }
}
