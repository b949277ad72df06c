//! From chunks of one reply to events: text, thoughts, calls, and signatures before their parts; all of it limited.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::provider::failure;
use crate::provider::google::signature::ThoughtSignature;
use crate::provider::google::wire::{Candidate, Chunk, Feedback, FunctionCall, Part, WireUsage};
use crate::provider::limits::{self, ReplySize};
use crate::provider::response::PartialReply;

/// One reply, as far as it was received.
#[derive(Debug, Default)]
pub(super) struct Reply {
    calls: usize,
    size: ReplySize,
    finish: Option<Finish>,
    usage: Option<Usage>,
}

impl PartialReply for Reply {
    fn has_begun(&self) -> bool {
        !self.size.is_zero() || self.calls > 0
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The reason is held back until here because some models send it with every chunk, and send `STOP` also with
    /// calls.
    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        limits::close(self.finish, self.calls > 0, out);
    }
}

impl Reply {
    /// Takes one chunk and appends the resulting events.
    ///
    /// # Errors
    /// `Protocol` if a limit is exceeded or a call is invalid, `Refused` if the request is blocked.
    pub fn take(&mut self, chunk: Chunk, out: &mut Vec<StreamEvent>) -> Result<()> {
        // Usage first: a refused request has a cost, too.
        if let Some(usage) = chunk.usage_metadata {
            self.take_usage(&usage, out);
        }
        if let Some(blocked) = chunk.prompt_feedback.and_then(|feedback| blocked(&feedback)) {
            return Err(blocked);
        }
        for candidate in chunk.candidates.unwrap_or_default() {
            if candidate.index.unwrap_or(0) == 0 {
                self.take_candidate(candidate, out)?;
            }
        }
        Ok(())
    }

    fn take_candidate(&mut self, candidate: Candidate, out: &mut Vec<StreamEvent>) -> Result<()> {
        let parts = candidate.content.and_then(|content| content.parts);
        for part in parts.unwrap_or_default() {
            self.take_part(part, out)?;
        }
        let reason = candidate.finish_reason.unwrap_or_default();
        match finish_of(&reason, self.has_begun(), candidate.finish_message.as_deref().unwrap_or_default())? {
            None => {}
            finish => self.finish = finish,
        }
        Ok(())
    }

    fn take_part(&mut self, part: Part, out: &mut Vec<StreamEvent>) -> Result<()> {
        let text = part.text.unwrap_or_default();
        let signature = part.thought_signature.unwrap_or_default();
        self.size.add(text.len() + signature.len())?;
        let is_thought = part.thought == Some(true);
        let signature = match &part.function_call {
            _ if signature.is_empty() => None,
            Some(_) => Some(ThoughtSignature::on_call(signature)),
            None if is_thought => Some(ThoughtSignature::on_thought(signature, text.clone())),
            None => Some(ThoughtSignature::on_text(signature, text.len())),
        };
        out.extend(signature.map(|signature| StreamEvent::Signature(signature.to_json())));
        if !text.is_empty() {
            out.push(if is_thought { StreamEvent::Thinking(text) } else { StreamEvent::Text(text) });
        }
        part.function_call.map_or(Ok(()), |call| self.take_call(call, out))
    }

    fn take_call(&mut self, call: FunctionCall, out: &mut Vec<StreamEvent>) -> Result<()> {
        limits::another_call(self.calls)?;
        let arguments = call.args.map_or_else(|| "{}".to_owned(), |args| args.to_string());
        limits::arguments(arguments.len())?;
        let (id, name) = (call.id.unwrap_or_default(), call.name.unwrap_or_default());
        self.size.add(id.len() + name.len())?;
        out.push(StreamEvent::ToolCall { index: self.calls, id, name, arguments });
        self.calls += 1;
        Ok(())
    }

    fn take_usage(&mut self, usage: &WireUsage, out: &mut Vec<StreamEvent>) {
        let sum = |left: Option<u64>, right: Option<u64>| left.unwrap_or(0).saturating_add(right.unwrap_or(0));
        let usage = Usage {
            input: sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
            cached: usage.cached_content_token_count.unwrap_or(0),
            output: sum(usage.candidates_token_count, usage.thoughts_token_count),
            reasoning: usage.thoughts_token_count.unwrap_or(0),
            ..Usage::default()
        };
        if usage != Usage::default() && self.usage.as_ref() != Some(&usage) {
            self.usage = Some(usage.clone());
            out.push(StreamEvent::Usage(usage));
        }
    }
}

fn blocked(feedback: &Feedback) -> Option<Error> {
    let reason = feedback.block_reason.as_deref().filter(|reason| !reason.is_empty())?;
    let message = format!("{reason} {}", feedback.block_reason_message.as_deref().unwrap_or_default());
    Some(failure::of_kind(ErrorKind::Refused, "refused by the provider's content filter", &message))
}

/// The meaning of a `FinishReason`; `None` while the model has not stopped.
fn finish_of(reason: &str, has_begun: bool, message: &str) -> Result<Option<Finish>> {
    let what = match reason {
        "" | "FINISH_REASON_UNSPECIFIED" => return Ok(None),
        "STOP" => return Ok(Some(Finish::Stop)),
        "MAX_TOKENS" => return Ok(Some(Finish::Length)),
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
            return Ok(Some(Finish::ContentFilter));
        }
        reason if reason.starts_with("IMAGE_") => return Ok(Some(Finish::ContentFilter)),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => "the model made an invalid tool call; try again",
        "TOO_MANY_TOOL_CALLS" => "the model made too many consecutive tool calls",
        "MISSING_THOUGHT_SIGNATURE" => "the provider reports that the signature of a tool call is missing",
        _ if has_begun => return Ok(Some(Finish::Stop)),
        _ => "the provider ended the reply for an unknown reason",
    };
    Err(failure::of_kind(ErrorKind::Protocol, &format!("{what} ({})", failure::excerpt(reason)), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&str]) -> Result<Vec<StreamEvent>> {
        let (mut reply, mut out) = (Reply::default(), Vec::new());
        for chunk in chunks {
            reply.take(serde_json::from_str(chunk).unwrap(), &mut out)?;
        }
        reply.close(&mut out);
        Ok(out)
    }

    fn parts(parts: &str) -> String {
        format!("{{\"candidates\":[{{\"content\":{{\"parts\":[{parts}]}}}}]}}")
    }

    fn finished(reason: &str) -> Result<Vec<StreamEvent>> {
        events(&[&format!("{{\"candidates\":[{{\"finishReason\":{reason:?},\"finishMessage\":\"why\"}}]}}")])
    }

    #[test]
    fn a_signature_comes_before_its_part() {
        let chunk = parts(
            r#"{"text":"é","thoughtSignature":"a"},{"thought":true,"text":"hm","thoughtSignature":"b"},
               {"functionCall":{"name":"f"},"thoughtSignature":"c"},{"text":"","thoughtSignature":"d"}"#,
        );
        let signature = |json: &str| StreamEvent::Signature(json.into());
        let call = StreamEvent::ToolCall { index: 0, id: String::new(), name: "f".into(), arguments: "{}".into() };
        let expected = [
            signature(r#"{"thoughtSignature":"a","bytes":2}"#),
            StreamEvent::Text("é".into()),
            signature(r#"{"thoughtSignature":"b","thought":"hm"}"#),
            StreamEvent::Thinking("hm".into()),
            signature(r#"{"thoughtSignature":"c"}"#),
            call,
            signature(r#"{"thoughtSignature":"d","bytes":0}"#),
            StreamEvent::Finish(Finish::ToolCalls),
            StreamEvent::Done,
        ];
        assert_eq!(events(&[&chunk]).unwrap(), expected);
    }

    #[test]
    fn every_reason_to_stop_has_a_meaning() {
        let finish = |reason: &str| finished(reason).unwrap()[0].clone();
        assert_eq!(finish("STOP"), StreamEvent::Finish(Finish::Stop));
        assert_eq!(finish("MAX_TOKENS"), StreamEvent::Finish(Finish::Length));
        for reason in ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"] {
            assert_eq!(finish(reason), StreamEvent::Finish(Finish::ContentFilter), "{reason}");
        }
        for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "SOMETHING_NEW"] {
            let error = finished(reason).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Protocol, "{reason}");
            assert!(error.message.contains(reason) && error.message.contains("why"), "{}", error.message);
        }
    }

    #[test]
    fn more_than_128_calls_or_16_mebibytes_are_an_error() {
        let call = r#"{"functionCall":{"name":"f","args":{}}}"#;
        assert!(events(&[&parts(&vec![call; limits::MAX_CALLS].join(","))]).is_ok());
        assert_eq!(
            events(&[&parts(&vec![call; limits::MAX_CALLS + 1].join(","))]).unwrap_err().kind,
            ErrorKind::Protocol
        );
        let text = parts(&format!("{{\"thought\":true,\"text\":\"{}\"}}", "x".repeat(1 << 20)));
        assert!(events(&vec![text.as_str(); 16]).is_ok());
        assert_eq!(events(&vec![text.as_str(); 17]).unwrap_err().kind, ErrorKind::Protocol);
        let long =
            parts(&format!("{{\"functionCall\":{{\"args\":{{\"a\":\"{}\"}}}}}}", "x".repeat(limits::MAX_ARGUMENTS)));
        assert_eq!(events(&[&long]).unwrap_err().kind, ErrorKind::Protocol);
    }
}
