//! A Gemini response: chunks until the transfer ends, or a list of them.
//!
//! There is no last event. The stream is complete if the reason for its end was received.

use crate::base::error::{Error, Result};
use crate::domain::stream::StreamEvent;
use crate::provider::google::error_object;
use crate::provider::google::reply::Reply;
use crate::provider::google::wire::Chunk;
use crate::provider::response::{IsComplete, ReplyParser, incomplete};

impl ReplyParser for Reply {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsComplete> {
        let data = data.trim();
        if data.is_empty() || data == "[DONE]" {
            // Gateways send `[DONE]`, Google does not; the end of the transfer decides.
            return Ok(false);
        }
        match serde_json::from_str::<Chunk>(data) {
            Ok(chunk) if chunk.error.is_none() && name != "error" => self.take(chunk, out).map(|()| false),
            _ => Err(error_object::of_event(data)),
        }
    }

    /// Some gateways drop `alt=sse`; then the chunks come as one list.
    fn body(&mut self, body: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        let chunks = match body.starts_with('[') {
            true => serde_json::from_str::<Vec<Chunk>>(body),
            false => serde_json::from_str::<Chunk>(body).map(|chunk| vec![chunk]),
        };
        let chunks = match chunks {
            Ok(chunks) => chunks,
            Err(error) if error.is_eof() && body.starts_with(['{', '[']) => return Err(incomplete()),
            Err(_) => return Err(error_object::of_body(body)),
        };
        for chunk in chunks {
            match chunk.error {
                None => self.take(chunk, out)?,
                Some(_) => return Err(error_object::of_body(body)),
            }
        }
        match (self.is_finished(), self.has_begun()) {
            (true, _) => Ok(()),
            (false, true) => Err(incomplete()),
            (false, false) => Err(error_object::of_body(body)),
        }
    }

    fn error(status: u16, body: &str) -> Error {
        error_object::of_response(status, body)
    }

    fn has_begun(&self) -> bool {
        self.has_begun()
    }

    fn is_finished(&self) -> bool {
        self.is_finished()
    }

    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        self.close(out);
    }
}
