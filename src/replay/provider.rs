//! The provider of a scenario: a server on a Unix socket that speaks Chat Completions. It has no thread: [`Provider::poll`]
//! does what is due, and what it writes is at the reader before it returns, so that every run is the same.

use std::io::{ErrorKind as IoKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};

use super::scenario::{Reply, Step};
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::net::AGENT_HEADER;

/// The longest request that is accepted.
const LONGEST_REQUEST: usize = 64 << 20;

pub struct Provider {
    listener: UnixListener,
    connections: Vec<Connection>,
    /// The replies that were not sent yet, in order.
    replies: Vec<Reply>,
    /// Requests for which there was no reply, in words.
    pub unanswered: Vec<String>,
}

struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// The steps to send, with their times.
    steps: Vec<(Moment, Step)>,
    is_open: bool,
}

impl Provider {
    pub fn listen(path: &Path, replies: Vec<Reply>) -> Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, connections: Vec::new(), replies, unanswered: Vec::new() })
    }

    /// Accepts, reads and writes whatever is possible at this moment. Returns whether anything was.
    pub fn poll(&mut self, now: Moment) -> Result<bool> {
        let mut has_moved = false;
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            let (received, unsent, steps) = (Vec::new(), Vec::new(), Vec::new());
            self.connections.push(Connection { stream, received, unsent, steps, is_open: true });
            has_moved = true;
        }
        for connection in &mut self.connections {
            has_moved |= connection.receive();
            while let Some((number, request)) = connection.take_request() {
                connection.answer(number, &request, &mut self.replies, &mut self.unanswered, now);
                has_moved = true;
            }
            has_moved |= connection.send_due(now);
        }
        self.connections.retain(|connection| connection.is_open);
        Ok(has_moved)
    }

    /// When the next step of a reply is due.
    pub fn next_due(&self) -> Option<Moment> {
        self.connections.iter().filter_map(|connection| connection.steps.first()).map(|(at, _)| *at).min()
    }

    /// How many replies no request has asked for.
    pub fn unused(&self) -> usize {
        self.replies.len()
    }
}

impl Connection {
    fn receive(&mut self) -> bool {
        let mut portion = [0; 16 * 1024];
        let mut has_moved = false;
        loop {
            match self.stream.read(&mut portion) {
                Ok(0) => break self.is_open = false,
                Ok(count) => {
                    self.received.extend_from_slice(&portion[..count]);
                    has_moved = true;
                }
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) if error.kind() == IoKind::WouldBlock => return has_moved,
                Err(_) => break self.is_open = false,
            }
        }
        true
    }

    /// The body of the next request that is there as a whole, with the number of its agent.
    fn take_request(&mut self) -> Option<(Option<i64>, Value)> {
        let head = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
        let length = header(&self.received[..head], "content-length").unwrap_or(0).min(LONGEST_REQUEST);
        if self.received.len() < head + length {
            return None;
        }
        let number = header(&self.received[..head], AGENT_HEADER);
        let body = self.received[head..head + length].to_vec();
        self.received.drain(..head + length);
        Some((number, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// Begins the first reply for this request.
    fn answer(
        &mut self,
        number: Option<i64>,
        request: &Value,
        replies: &mut Vec<Reply>,
        unanswered: &mut Vec<String>,
        now: Moment,
    ) {
        let agent = request["model"].as_str().unwrap_or_default();
        let text = newest_text(request);
        let is_meant = |reply: &Reply| {
            let is_sender = if reply.number.is_some() { reply.number == number } else { reply.agent == agent };
            is_sender && reply.asked.as_ref().is_none_or(|asked| text.contains(asked.as_str()))
        };
        let Some(at) = replies.iter().position(is_meant) else {
            unanswered.push(format!("no reply is left for a request of {agent}, whose newest message is {text:?}"));
            let body = error_body("the scenario has no reply for this request");
            return self
                .unsent
                .extend(head(400, None, Some(body.len())).into_bytes().into_iter().chain(body.into_bytes()));
        };
        let reply = replies.remove(at);
        if reply.status >= 300 {
            let text: String = reply.steps.iter().filter_map(|step| step.text.as_deref()).collect();
            let body = error_body(&text);
            let head = head(reply.status, reply.retry_after, Some(body.len()));
            let raw = Some(head + &body);
            let after = reply.steps.first().map_or(0, |step| step.after);
            self.steps.push((now + Duration::from_millis(after), Step { after, raw, ..Step::default() }));
            return;
        }
        let head = Step { after: reply.head, raw: Some(head(200, None, None)), ..Step::default() };
        let due = |step: Step| (now + Duration::from_millis(step.after), step);
        self.steps.extend([head].into_iter().chain(reply.steps).map(due));
        self.steps.sort_by_key(|(due, _)| *due);
    }

    fn send_due(&mut self, now: Moment) -> bool {
        let mut has_moved = !self.unsent.is_empty();
        while let Some((_, step)) = self.steps.first().filter(|(at, _)| *at <= now).cloned() {
            self.steps.remove(0);
            self.unsent.extend(bytes_of(&step));
            self.flush();
            if step.cut {
                // A process that another thread starts has a copy of the descriptor until it runs its program.
                let _ = self.stream.shutdown(Shutdown::Both);
                self.is_open = false;
                return true;
            }
            has_moved = true;
        }
        self.flush();
        has_moved
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == IoKind::WouldBlock => return,
                Err(_) => {
                    self.is_open = false;
                    return self.unsent.clear();
                }
            }
        }
    }
}

fn header<T: FromStr>(head: &[u8], name: &str) -> Option<T> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let value = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value?.trim().parse().ok()
}

fn head(status: u16, retry_after: Option<u64>, length: Option<usize>) -> String {
    let kind = if length.is_some() { "application/json" } else { "text/event-stream" };
    let framing = length.map_or("transfer-encoding: chunked".into(), |length| format!("content-length: {length}"));
    let retry_after = retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    format!("HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\n{retry_after}{framing}\r\n\r\n")
}

fn error_body(message: &str) -> String {
    json!({"error": {"message": message, "type": "scripted", "param": null, "code": null}}).to_string()
}

/// The text of the newest message from the user.
fn newest_text(request: &Value) -> String {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let newest = messages.iter().rfind(|message| message["role"] == "user");
    match newest.map(|message| &message["content"]) {
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Some(content) => content.as_str().unwrap_or_default().to_owned(),
        None => String::new(),
    }
}

fn bytes_of(step: &Step) -> Vec<u8> {
    let mut bytes = step.raw.clone().unwrap_or_default().into_bytes();
    let mut events: Vec<String> = Vec::new();
    let mut delta = |delta: Value, finish: Value| {
        events.push(chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]), Value::Null));
    };
    if let Some(text) = &step.text {
        delta(json!({"content": text}), Value::Null);
    }
    if let Some(text) = &step.think {
        delta(json!({"reasoning_content": text}), Value::Null);
    }
    if let Some(call) = &step.call {
        let function = json!({"name": call.tool, "arguments": call.arguments});
        let (index, id) = (step.index, format!("call-{}", step.index));
        let call = json!({"index": index, "id": id, "type": "function", "function": function});
        delta(json!({"tool_calls": [call]}), Value::Null);
    }
    if let Some([input, output]) = step.usage {
        let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
        events.push(chunk(json!([]), usage));
    }
    if let Some(finish) = &step.finish {
        events.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), Value::Null));
        events.push("[DONE]".into());
    }
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    if !stream.is_empty() {
        bytes.extend(format!("{:x}\r\n{stream}\r\n", stream.len()).into_bytes());
    }
    if step.finish.is_some() {
        bytes.extend(b"0\r\n\r\n");
    }
    bytes
}

fn chunk(choices: Value, usage: Value) -> String {
    json!({
        "id": "scripted",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "scripted",
        "choices": choices,
        "usage": usage,
    })
    .to_string()
}
