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

    fn refusal(status: u16, body: &str) -> Error {
        refusal::of_response(status, body)
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
