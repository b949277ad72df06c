//! An agent of the C program: the fields of its struct that the loop reads and writes.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::json;

use super::response::{Part, Response};
use crate::base::error::Result;
use crate::net::AGENT_HEADER;
use crate::replay::outcome::AgentOutcome;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Idle,
    WaitingForLlm,
    ExecutingTool,
}

impl State {
    /// As traces name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::WaitingForLlm => "waiting for the model",
            Self::ExecutingTool => "running a tool",
        }
    }
}

#[derive(Default)]
pub struct Agent {
    pub name: String,
    /// Its place in `repl->agents`.
    number: usize,
    pub state: State,
    /// What is typed while it is on the screen.
    pub input_buffer: String,
    /// The reply, as far as it has arrived.
    pub assistant_response: String,
    /// The arguments of the call that the model asked for.
    pub pending_tool_call: Option<String>,
    pub curl_still_running: bool,
    pub tool_thread_complete: bool,
    pub tool_thread_result: String,
    pub http_error_message: Option<String>,
    /// Tokens of requests and replies.
    pub usage: [u64; 2],
    /// The newest message of the person.
    question: String,
    transfer: Option<Transfer>,
    replies: Vec<String>,
    results: Vec<String>,
    error: String,
    scrollback: Vec<String>,
}

struct Transfer {
    /// `None`: the request is still to be sent.
    socket: Option<UnixStream>,
    response: Response,
}

impl Agent {
    pub fn new(number: usize, name: &str) -> Self {
        Self { number, name: name.to_owned(), ..Self::default() }
    }

    /// The socket of its transfer.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.transfer.as_ref()?.socket.as_ref().map(|socket| socket.as_raw_fd())
    }

    pub fn has_unsent_request(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.socket.is_none())
    }

    pub fn ask(&mut self, question: &str) {
        question.clone_into(&mut self.question);
        self.scrollback.push(format!("> {question}"));
    }

    pub fn add_request(&mut self) {
        self.transfer = Some(Transfer { socket: None, response: Response::default() });
        self.curl_still_running = true;
    }

    /// Sends the request, if it was not sent yet, to the provider at this address.
    pub fn send_request(&mut self, address: &Path) -> Result<()> {
        let Some(transfer) = self.transfer.as_mut().filter(|transfer| transfer.socket.is_none()) else { return Ok(()) };
        let messages = json!([{"role": "user", "content": self.question}]);
        let body = json!({"model": self.name, "messages": messages}).to_string();
        let mut socket = UnixStream::connect(address)?;
        let (number, length) = (self.number, body.len());
        write!(socket, "POST / HTTP/1.1\r\n{AGENT_HEADER}: {number}\r\ncontent-length: {length}\r\n\r\n{body}")?;
        socket.set_nonblocking(true)?;
        transfer.socket = Some(socket);
        Ok(())
    }

    /// Reads what has arrived. [`Self::curl_still_running`] is false after the last of it.
    pub fn receive(&mut self) -> Vec<Part> {
        let Some(transfer) = &mut self.transfer else { return Vec::new() };
        let Some(socket) = &mut transfer.socket else { return Vec::new() };
        let (mut bytes, mut portion) = (Vec::new(), [0; 4096]);
        let mut is_closed = false;
        while let Ok(count) = socket.read(&mut portion) {
            bytes.extend_from_slice(&portion[..count]);
            if count == 0 {
                is_closed = true;
                break;
            }
        }
        let parts = transfer.response.feed(&bytes);
        self.curl_still_running = !is_closed && !transfer.response.is_complete;
        parts
    }

    /// Ends the transfer, and returns why it failed, if it did.
    pub fn take_transfer_error(&mut self) -> Option<String> {
        self.transfer.take()?.response.error()
    }

    /// `handle_request_error` or `handle_request_success`: after an error, the part of a reply that has arrived is lost.
    pub fn finish_reply(&mut self) {
        let text = std::mem::take(&mut self.assistant_response);
        if let Some(message) = self.http_error_message.take() {
            self.scrollback.push(format!("Error: {message}"));
            self.error = message;
        } else if !text.is_empty() {
            self.scrollback.push(text.clone());
            self.replies.push(text);
        }
    }

    /// Returns the size of the result.
    pub fn collect_tool_result(&mut self) -> usize {
        self.tool_thread_complete = false;
        let result = std::mem::take(&mut self.tool_thread_result);
        self.scrollback.push(result.clone());
        self.results.push(result);
        self.results.last().map_or(0, String::len)
    }

    /// What the terminal shows while this agent is on the screen: its scrollback, its spinner and its name.
    pub fn screen(&self) -> Vec<String> {
        let mut lines = self.scrollback.clone();
        lines.extend(Some(self.assistant_response.clone()).filter(|text| !text.is_empty()));
        lines.extend((self.state != State::Idle).then(|| "...".to_owned()));
        lines.push(format!("--- {} ---", self.name));
        lines
    }

    pub fn outcome(self) -> AgentOutcome {
        let state = crate::domain::trace::short_state(self.state.name()).to_owned();
        let partial = Some(self.assistant_response).filter(|text| !text.is_empty());
        let replies = self.replies.into_iter().chain(partial).collect();
        let error = self.http_error_message.unwrap_or(self.error);
        AgentOutcome { replies, results: self.results, state, usage: self.usage, error }
    }
}
