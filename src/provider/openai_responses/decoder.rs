//! A Responses response: events of a stream until it is completed, incomplete or failed, or a complete object.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::stream::StreamEvent;
use crate::provider::error_object;
use crate::provider::openai_responses::reply::Reply;
use crate::provider::openai_responses::wire::{Event, Response};
use crate::provider::response::{IsComplete, PartialReply as _, ReplyParser, incomplete, is_done_marker};

impl ReplyParser for Reply {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsComplete> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(false);
        }
        // Proxies send the marker, OpenAI does not.
        if is_done_marker(self, data)? {
            return Ok(true);
        }
        match serde_json::from_str::<Event>(data) {
            Ok(event) if name != "error" && is_event(&event) => self.take_event(event, data, out),
            _ => Err(error_object::of_event(data)),
        }
    }

    fn body(&mut self, body: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        match serde_json::from_str::<Response>(body) {
            Ok(response) if response.output.is_some() || response.object.0 == "response" => {
                self.conclude(response, body, out)
            }
            Err(error) if error.is_eof() && body.starts_with('{') => Err(incomplete()),
            _ => Err(error_object::of_body(body)),
        }
    }
}

/// Whether it is an event and not an error. Unknown kinds are skipped.
fn is_event(event: &Event<'_>) -> bool {
    !matches!(&*event.kind.0, "" | "error")
}

impl Reply {
    fn take_event(&mut self, event: Event<'_>, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsComplete> {
        let index = self.index_of(event.output_index, event.kind.0 == "response.output_item.added");
        match &*event.kind.0 {
            "response.output_item.added" => self.begin_item(index, &event.item.unwrap_or_default(), out)?,
            "response.output_item.done" => self.end_item(index, &event.item.unwrap_or_default(), out)?,
            "response.output_text.delta" | "response.refusal.delta" => self.push_text(index, &event.delta.0, out)?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.push_thinking((index, event.summary_index.unwrap_or(0)), &event.delta.0, out)?;
            }
            "response.function_call_arguments.delta" => self.add_arguments(index, &event.delta.0)?,
            "response.function_call_arguments.done" => self.complete_arguments(index, &event.arguments.0, out)?,
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let mut response = event.response.unwrap_or_default();
                let status = event.kind.0.trim_start_matches("response.");
                if matches!(&*response.status.0, "" | "in_progress" | "queued") {
                    response.status.0 = status.to_owned().into();
                }
                return self.conclude(response, data, out).map(|()| true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// Takes the final response. Its items count only if they were not streamed.
    fn conclude(&mut self, response: Response<'_>, data: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        match &*response.status.0 {
            "failed" if response.error.is_some() => return Err(error_object::of_event(data)),
            "failed" => {
                let what = "the provider reported a failure without a reason";
                return Err(Error::new(ErrorKind::BadRequest, what));
            }
            "cancelled" => return Err(incomplete()),
            _ => {}
        }
        if !self.has_begun() {
            for (at, item) in response.output.unwrap_or_default().into_iter().enumerate() {
                self.end_item(at as u64, &item, out)?;
            }
        }
        let reason = response.incomplete_details.map(|details| details.reason.0.into_owned());
        self.finish(&response.status.0, reason.as_deref());
        if let Some(usage) = response.usage {
            self.take_usage(&usage, out);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::http::HttpHead;
    use crate::provider::Decoder;
    use crate::provider::response::ResponseDecoder;

    fn decode(pieces: impl IntoIterator<Item = String>) -> Vec<StreamEvent> {
        let (mut decoder, mut out) = (ResponseDecoder::<Reply>::default(), Vec::new());
        decoder.head(&HttpHead { status: 200, content_type: "text/event-stream".into(), ..HttpHead::default() });
        for piece in pieces {
            decoder.feed(format!("data: {piece}\n\n").as_bytes(), &mut out);
        }
        decoder.end(&mut out);
        out
    }

    fn added(at: usize) -> String {
        format!(
            r#"{{"type":"response.output_item.added","output_index":{at},"item":{{"type":"function_call","name":"f"}}}}"#
        )
    }

    fn delta(kind: &str, at: usize, text: &str) -> String {
        format!(r#"{{"type":"response.{kind}.delta","output_index":{at},"delta":"{text}"}}"#)
    }

    fn is_refused(events: &[StreamEvent], message: &str) -> bool {
        let last = events.last();
        matches!(last, Some(StreamEvent::Error(error)) if error.kind == ErrorKind::Protocol && error.message.contains(message))
    }

    #[test]
    fn exceeding_a_limit_fails_the_reply() {
        let mebibyte = "x".repeat(1 << 20);
        assert!(is_refused(&decode((0..=128).map(added)), "128 tool calls"));
        assert!(!is_refused(&decode((0..128).map(added)), "128 tool calls"));
        assert!(is_refused(&decode((0..=4096).map(|at| delta("output_text", at, "x"))), "4096 items"));
        assert!(is_refused(&decode((0..17).map(|_| delta("output_text", 0, &mebibyte))), "16 MiB"));
        assert!(is_refused(&decode((0..17).map(|_| delta("reasoning_text", 0, &mebibyte))), "16 MiB"));
        assert!(is_refused(&decode((0..5).map(|_| delta("function_call_arguments", 0, &mebibyte))), "4 MiB"));
    }

    #[test]
    fn encrypted_reasoning_counts_for_the_limit() {
        let reasoning = |at| {
            let content = "x".repeat(6 << 20);
            format!(
                r#"{{"type":"response.output_item.done","output_index":{at},"item":{{"type":"reasoning","encrypted_content":"{content}"}}}}"#
            )
        };
        assert!(is_refused(&decode((0..3).map(reasoning)), "16 MiB"));
    }

    #[test]
    fn an_item_that_ends_twice_is_given_once() {
        let done = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"a"}]}}"#;
        let texts = decode([done.to_owned(), done.to_owned()]).into_iter();
        assert_eq!(texts.filter(|event| *event == StreamEvent::Text("a".into())).count(), 1);
    }

    #[test]
    fn fields_of_an_unexpected_type_never_panic() {
        let values = ["null", "7", "-1", "true", "[]", "{}", "\"x\"", "[{}]", "1e400", "18446744073709551615"];
        for value in values {
            for field in ["type", "output_index", "summary_index", "item", "delta", "arguments", "response"] {
                for kind in ["response.output_item.done", "response.output_text.delta", "response.completed"] {
                    decode([format!(r#"{{"type":"{kind}","output_index":0,"{field}":{value}}}"#), added(0)]);
                }
            }
            for field in ["type", "id", "call_id", "name", "arguments", "content", "summary", "encrypted_content"] {
                for kind in ["message", "function_call", "reasoning"] {
                    let item = format!(r#"{{"type":"{kind}","{field}":{value}}}"#);
                    decode([format!(r#"{{"type":"response.output_item.done","item":{item}}}"#)]);
                }
            }
        }
    }
}
