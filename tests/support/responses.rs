//! What a server says while it streams a response of OpenAI's Responses protocol.
//!
//! The shapes are those of the streaming reference (`response.*` events). [`Script`] numbers the items.

use serde_json::{Value, json};

use super::peer::Exchange;

/// The answer to one request, played event by event.
pub struct Script<'a> {
    exchange: &'a Exchange,
    /// The index of the next item in the output.
    next: usize,
}

impl<'a> Script<'a> {
    /// 200, the head of an event stream, and the response has begun.
    pub fn start(exchange: &'a Exchange) -> Self {
        exchange.stream();
        let script = Self { exchange, next: 0 };
        script.event("response.created", json!({"response": response("in_progress")}));
        script
    }

    /// One event.
    pub fn event(&self, kind: &str, mut fields: Value) -> &Self {
        fields["type"] = kind.into();
        self.exchange.body(format!("event: {kind}\ndata: {fields}\n\n"));
        self
    }

    /// The beginning of a message.
    pub fn open_text(&mut self, piece: &str) -> &mut Self {
        let item = json!({"id": "msg", "type": "message", "role": "assistant", "content": []});
        self.event("response.output_item.added", json!({"output_index": self.next, "item": item}));
        self.event("response.output_text.delta", json!({"output_index": self.next, "delta": piece}));
        self
    }

    /// A whole message.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.open_text(text);
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        self.end_item(json!({"id": "msg", "type": "message", "role": "assistant", "content": content}))
    }

    /// The beginning of reasoning, of which a summary is shown.
    pub fn open_reasoning(&mut self, piece: &str) -> &mut Self {
        let item = json!({"id": "rs", "type": "reasoning", "summary": []});
        self.event("response.output_item.added", json!({"output_index": self.next, "item": item}));
        let delta = json!({"output_index": self.next, "summary_index": 0, "delta": piece});
        self.event("response.reasoning_summary_text.delta", delta);
        self
    }

    /// Whole reasoning: the item goes back as it is here.
    pub fn reasoning(&mut self, item: &Value) -> &mut Self {
        self.open_reasoning(item["summary"][0]["text"].as_str().expect("a summary"));
        self.end_item(item.clone())
    }

    /// The beginning of a call.
    pub fn open_call(&mut self, id: &str, name: &str, arguments: &str) -> &mut Self {
        let item = json!({"id": "fc", "type": "function_call", "call_id": id, "name": name, "arguments": ""});
        self.event("response.output_item.added", json!({"output_index": self.next, "item": item}));
        let delta = json!({"output_index": self.next, "delta": arguments});
        self.event("response.function_call_arguments.delta", delta);
        self
    }

    /// A whole call.
    pub fn call(&mut self, id: &str, name: &str, arguments: &str) -> &mut Self {
        self.open_call(id, name, arguments);
        let item = json!({"id": "fc", "type": "function_call", "call_id": id, "name": name, "arguments": arguments});
        self.end_item(item)
    }

    /// The response failed.
    pub fn fail(&self, code: &str, message: &str) {
        let mut failed = response("failed");
        failed["error"] = json!({"code": code, "message": message});
        self.event("response.failed", json!({"response": failed}));
        self.exchange.end();
    }

    /// The response is complete; the connection stays.
    pub fn complete(&self) {
        self.event("response.completed", json!({"response": response("completed")}));
        self.exchange.end();
    }

    fn end_item(&mut self, item: Value) -> &mut Self {
        self.event("response.output_item.done", json!({"output_index": self.next, "item": item}));
        self.next += 1;
        self
    }
}

/// Encrypted reasoning with this number.
pub fn reasoning(number: usize, summary: &str) -> Value {
    json!({
        "id": format!("rs_{number}"),
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": summary}],
        "encrypted_content": format!("gAAAA-{number}"),
    })
}

/// The items of a request, each by its kind; messages by their role.
pub fn kinds_in(request: &Value) -> Vec<&str> {
    let items = request["input"].as_array().expect("items");
    items.iter().filter_map(|item| item["role"].as_str().or_else(|| item["type"].as_str())).collect()
}

fn response(status: &str) -> Value {
    let usage = json!({"input_tokens": 20, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 5});
    json!({"id": "resp", "object": "response", "status": status, "error": null, "output": [], "usage": usage})
}
