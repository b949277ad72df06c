//! The pieces of a Responses answer: events of a stream until the response is completed, incomplete or failed, or a whole
//! response.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::stream::StreamEvent;
use crate::provider::answer::{Answer, IsWhole, Read, cut, silence};
use crate::provider::openai_responses::reply::Reply;
use crate::provider::openai_responses::wire::{Event, Response};
use crate::provider::refusal;

/// Decodes one answer of a Responses server.
pub(super) type ResponseDecoder = Answer<Reply>;

impl Read for Reply {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsWhole> {
        let data = data.trim();
        match data {
            "" => return Ok(false),
            // OpenAI does not send it, proxies do.
            "[DONE]" if self.has_begun() || self.is_finished() => return Ok(true),
            "[DONE]" => return Err(silence()),
            _ => {}
        }
        match serde_json::from_str::<Event>(data) {
            Ok(event) if name != "error" && is_event(&event) => self.take_event(event, data, out),
            _ => Err(refusal::of_event(data)),
        }
    }

    fn whole(&mut self, body: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        match serde_json::from_str::<Response>(body) {
            Ok(response) if response.output.is_some() || response.object.0 == "response" => {
                self.conclude(response, body, out)
            }
            Err(error) if error.is_eof() && body.starts_with('{') => Err(cut()),
            _ => Err(refusal::of_body(body)),
        }
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

/// Everything with a kind that is no error. Kinds that are not known are signs of life.
fn is_event(event: &Event<'_>) -> bool {
    !matches!(&*event.kind.0, "" | "error")
}

impl Reply {
    fn take_event(&mut self, event: Event<'_>, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsWhole> {
        let at = self.place(event.output_index, event.kind.0 == "response.output_item.added");
        match &*event.kind.0 {
            "response.output_item.added" => self.begin_item(at, &event.item.unwrap_or_default(), out)?,
            "response.output_item.done" => self.end_item(at, &event.item.unwrap_or_default(), out)?,
            "response.output_text.delta" | "response.refusal.delta" => self.say(at, &event.delta.0, out)?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.think((at, event.summary_index.unwrap_or(0)), &event.delta.0, out)?;
            }
            "response.function_call_arguments.delta" => self.add_arguments(at, &event.delta.0, out)?,
            "response.function_call_arguments.done" => self.complete_arguments(at, &event.arguments.0, out)?,
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let mut response = event.response.unwrap_or_default();
                let said = event.kind.0.trim_start_matches("response.");
                if matches!(&*response.status.0, "" | "in_progress" | "queued") {
                    response.status.0 = said.to_owned().into();
                }
                return self.conclude(response, data, out).map(|()| true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// The response as it is at its end. Its items were streamed already, unless the server does not stream them.
    fn conclude(&mut self, response: Response<'_>, data: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        match &*response.status.0 {
            "failed" if response.error.is_some() => return Err(refusal::of_event(data)),
            "failed" => {
                let what = "the provider reports that the reply failed, and not why";
                return Err(Error::new(ErrorKind::BadRequest, what));
            }
            "cancelled" => return Err(cut()),
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

    /// The events of these pieces of a stream.
    fn decode(pieces: impl IntoIterator<Item = String>) -> Vec<StreamEvent> {
        let (mut decoder, mut out) = (ResponseDecoder::default(), Vec::new());
        decoder.head(&HttpHead { status: 200, content_type: "text/event-stream".into(), retry_after: None });
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

    fn is_refused(events: &[StreamEvent], words: &str) -> bool {
        let last = events.last();
        matches!(last, Some(StreamEvent::Error(error)) if error.kind == ErrorKind::Protocol && error.message.contains(words))
    }

    #[test]
    fn what_passes_a_bound_fails_this_reply_alone() {
        let mebibyte = "x".repeat(1 << 20);
        assert!(is_refused(&decode((0..=128).map(added)), "128 calls"));
        assert!(!is_refused(&decode((0..128).map(added)), "128 calls"));
        assert!(is_refused(&decode((0..=4096).map(|at| delta("output_text", at, "x"))), "4096 items"));
        assert!(is_refused(&decode((0..17).map(|_| delta("output_text", 0, &mebibyte))), "16 MiB"));
        assert!(is_refused(&decode((0..17).map(|_| delta("reasoning_text", 0, &mebibyte))), "16 MiB"));
        assert!(is_refused(&decode((0..5).map(|_| delta("function_call_arguments", 0, &mebibyte))), "4 MiB"));
    }

    #[test]
    fn sealed_reasoning_counts_as_what_was_said() {
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
    fn fields_of_an_unexpected_type_are_as_good_as_absent_or_an_error_but_never_a_panic() {
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
