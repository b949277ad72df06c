//! From chunks of one reply to events: text, calls with our own indexes, usage; all of it limited.

use crate::base::error::Result;
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::provider::limits::{self, ReplySize};
use crate::provider::openai::reasoning::{Object, Reasoning, call_fields};
use crate::provider::openai::think_tags::ThinkTags;
use crate::provider::openai::wire::{CallDelta, Choice, Chunk, Delta, WireUsage};
use crate::provider::partial_call::PartialCall;
use crate::provider::response::PartialReply;
use crate::provider::text::Text;

/// One reply, as far as it was received.
#[derive(Debug, Default)]
pub(super) struct Reply {
    calls: Vec<Call>,
    announced: usize,
    size: ReplySize,
    tags: ThinkTags,
    reasoning: Reasoning,
    finish: Option<Finish>,
    usage: Option<Usage>,
}

#[derive(Debug, Default)]
struct Call {
    wire_index: Option<u64>,
    partial: PartialCall,
    braces: Braces,
    /// The fields that are sent back with the call.
    fields: Object,
}

impl PartialReply for Reply {
    fn has_begun(&self) -> bool {
        !self.size.is_zero() || !self.calls.is_empty()
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The reason is held back until here because some servers continue after it, and some send a wrong one: Ollama and
    /// older llama.cpp send `stop` also with calls.
    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        self.tags.end(out);
        for call in &mut self.calls {
            call.partial.announce(&mut self.announced, out);
        }
        self.calls.sort_by_key(|call| call.partial.index());
        let fields = self.calls.iter_mut().map(|call| std::mem::take(&mut call.fields)).collect();
        self.reasoning.end(fields, out);
        limits::close(self.finish, !self.calls.is_empty(), out);
    }
}

impl Reply {
    /// Takes one chunk and appends the resulting events.
    pub fn take(&mut self, chunk: Chunk<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) == 0 {
                self.take_choice(choice, out)?;
            }
        }
        if let Some(usage) = chunk.usage {
            self.take_usage(&usage, out);
        }
        Ok(())
    }

    fn take_choice(&mut self, choice: Choice<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        // A complete message at the end of a stream repeats the deltas.
        let has_delta = choice.delta.is_some();
        let message = choice.message.filter(|_| !has_delta && !self.has_begun());
        if let Some(delta) = choice.delta.or(message) {
            self.take_delta(delta, out)?;
        }
        if let Some(finish) = finish_of(&choice.finish_reason.0) {
            self.finish = Some(finish);
        }
        Ok(())
    }

    fn take_delta(&mut self, mut delta: Delta<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        let shown = self.reasoning.take(&mut delta, &mut self.size)?;
        if !shown.is_empty() {
            out.push(StreamEvent::Thinking(shown));
        }
        self.push(delta.content, out, ThinkTags::push)?;
        self.push(delta.refusal, out, ThinkTags::push)?;
        if delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty()) {
            self.tags.end(out);
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.take_call(call, out)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        text: Text<'_>,
        out: &mut Vec<StreamEvent>,
        push: fn(&mut ThinkTags, String, &mut Vec<StreamEvent>),
    ) -> Result<()> {
        if text.0.is_empty() {
            return Ok(());
        }
        self.size.add(text.0.len())?;
        push(&mut self.tags, text.0.into_owned(), out);
        Ok(())
    }

    fn take_call(&mut self, mut delta: CallDelta<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        let fields = call_fields(&mut delta);
        self.size.add(fields.values().map(|value| value.to_string().len()).sum())?;
        let function = delta.function.unwrap_or_default();
        let (id, name, arguments) = (&*delta.id.0, &*function.name.0, &*function.arguments.0);
        let position = match self.find_call(delta.index, id, name) {
            Some(position) => position,
            None => {
                limits::another_call(self.calls.len())?;
                self.calls.push(Call { wire_index: delta.index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        self.calls[position].fields.extend(fields);
        self.calls[position].take((id, name, arguments), &mut self.announced, out)
    }

    /// The call that a delta continues; `None` if it begins one.
    ///
    /// By its index, or without one the last call. A delta with a name begins another call if its id differs, or if
    /// there is no id and the arguments so far are complete, because some servers give index 0 to every call. A
    /// different id alone does not: older vLLM sends a new id with every delta.
    fn find_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let position = match index {
            Some(_) => self.calls.iter().rposition(|call| call.wire_index == index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[position];
        let is_new = if index.is_none() && !id.is_empty() && !call.partial.id.is_empty() {
            id != call.partial.id
        } else if name.is_empty() || call.partial.name.is_empty() {
            false
        } else if id.is_empty() {
            call.braces.are_closed()
        } else {
            id != call.partial.id
        };
        if !is_new {
            return Some(position);
        }
        // The id may be that of an earlier call.
        self.calls.iter().position(|call| !id.is_empty() && call.partial.id == id && call.wire_index == index)
    }

    fn take_usage(&mut self, usage: &WireUsage, out: &mut Vec<StreamEvent>) {
        let details = usage.prompt_tokens_details.as_ref();
        let cached = details.and_then(|details| details.cached_tokens);
        let usage = Usage {
            input: usage.prompt_tokens.unwrap_or(0),
            cached: cached.or(usage.prompt_cache_hit_tokens).unwrap_or(0),
            written: details.and_then(|details| details.cache_write_tokens).unwrap_or(0),
            output: usage.completion_tokens.unwrap_or(0),
            reasoning: usage.completion_tokens_details.as_ref().and_then(|it| it.reasoning_tokens).unwrap_or(0),
            cost: usage.cost.filter(|dollars| *dollars >= 0.0).map(|dollars| (dollars * 1e9).round() as u64),
            ..Usage::default()
        };
        // Some servers repeat the usage in every chunk, or send zeros at first.
        if usage != Usage::default() && self.usage.as_ref() != Some(&usage) {
            self.usage = Some(usage.clone());
            out.push(StreamEvent::Usage(usage));
        }
    }
}

impl Call {
    fn take(
        &mut self,
        (id, name, arguments): (&str, &str, &str),
        announced: &mut usize,
        out: &mut Vec<StreamEvent>,
    ) -> Result<()> {
        let call = &mut self.partial;
        if call.id.is_empty() && !call.is_announced() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        self.braces.follow(arguments);
        call.add_arguments(arguments, out)?;
        if !call.name.is_empty() {
            call.announce(announced, out);
        }
        Ok(())
    }
}

/// Tells whether a JSON object that comes in pieces is complete. Each byte is read once.
#[derive(Debug, Default)]
struct Braces {
    depth: usize,
    has_begun: bool,
    in_string: bool,
    after_backslash: bool,
}

impl Braces {
    fn follow(&mut self, more: &str) {
        for byte in more.bytes() {
            match byte {
                _ if std::mem::take(&mut self.after_backslash) => {}
                b'\\' if self.in_string => self.after_backslash = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' => {
                    self.depth += 1;
                    self.has_begun = true;
                }
                b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn are_closed(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.in_string
    }
}

/// `None` while the model has not stopped. Unknown reasons count as a plain stop.
fn finish_of(reason: &str) -> Option<Finish> {
    match reason {
        "" => None,
        "length" | "max_tokens" | "model_length" => Some(Finish::Length),
        "content_filter" | "safety" => Some(Finish::ContentFilter),
        "tool_calls" | "function_call" => Some(Finish::ToolCalls),
        _ => Some(Finish::Stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    fn events(deltas: &[&str]) -> Result<Vec<StreamEvent>> {
        let (mut reply, mut out) = (Reply::default(), Vec::new());
        for delta in deltas {
            let json = format!("{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{delta}]}}}}]}}");
            reply.take(serde_json::from_str(&json).unwrap(), &mut out)?;
        }
        reply.close(&mut out);
        Ok(out)
    }

    /// The calls as `name(arguments)#id`. Indexes must not skip a number.
    fn calls(deltas: &[&str]) -> Vec<String> {
        let mut calls: Vec<(String, String, String)> = Vec::new();
        for event in events(deltas).unwrap() {
            if let StreamEvent::ToolCall { index, id, name, arguments } = event {
                assert!(index <= calls.len(), "call {index} comes when there are {}", calls.len());
                match calls.get_mut(index) {
                    Some(call) => call.1.push_str(&arguments),
                    None => calls.push((name, arguments, id)),
                }
            }
        }
        calls.into_iter().map(|(name, arguments, id)| format!("{name}({arguments})#{id}")).collect()
    }

    #[test]
    fn calls_that_all_have_index_zero_are_distinguished_by_their_ids() {
        let deltas = [
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#,
            r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{"}}"#,
            r#"{"index":0,"function":{"arguments":"}"}}"#,
        ];
        assert_eq!(calls(&deltas), ["f({})#a", "f({})#b"]);
    }

    #[test]
    fn a_new_id_with_every_delta_begins_no_new_call() {
        let deltas = [
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}"#,
            r#"{"index":0,"id":"b","function":{"arguments":"}"}}"#,
        ];
        assert_eq!(calls(&deltas), ["f({})#a"]);
    }

    #[test]
    fn calls_without_index_and_id_are_distinguished_by_complete_arguments() {
        let deltas = [
            r#"{"function":{"name":"f","arguments":"{\"a\":\"}\""}}"#,
            r#"{"function":{"name":"f","arguments":"}"}}"#,
            r#"{"function":{"name":"f","arguments":"{}"}}"#,
        ];
        assert_eq!(calls(&deltas), [r#"f({"a":"}"})#"#, "f({})#"]);
    }

    #[test]
    fn a_name_that_comes_late_is_waited_for() {
        let deltas = [r#"{"index":3,"id":"a"}"#, r#"{"index":3,"function":{"name":"f","arguments":"{}"}}"#];
        assert_eq!(calls(&deltas), ["f({})#a"]);
        assert_eq!(calls(&deltas[..1]), ["()#a"]);
    }

    #[test]
    fn a_call_without_a_name_comes_after_those_with_one() {
        let deltas = [
            r#"{"index":0,"id":"a","function":{"name":"","arguments":"[]"}}"#,
            r#"{"index":1,"id":"b","function":{"name":"f","arguments":"{"}}"#,
            r#"{"index":1,"function":{"arguments":"}"}}"#,
        ];
        assert_eq!(calls(&deltas), ["f({})#b", "([])#a"]);
    }

    #[test]
    fn more_than_128_calls_or_4_mebibytes_of_arguments_are_an_error() {
        let many: Vec<String> =
            (0..=limits::MAX_CALLS).map(|i| format!(r#"{{"index":{i},"function":{{"name":"f"}}}}"#)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(events(&many[..limits::MAX_CALLS]).is_ok());
        assert_eq!(events(&many).unwrap_err().kind, ErrorKind::Protocol);
        let piece = format!(
            r#"{{"index":0,"function":{{"name":"f","arguments":"{}"}}}}"#,
            "x".repeat(limits::MAX_ARGUMENTS / 2 + 1)
        );
        assert_eq!(events(&[&piece, &piece]).unwrap_err().kind, ErrorKind::Protocol);
    }

    #[test]
    fn a_reply_of_more_than_16_mebibytes_is_an_error() {
        let (mut reply, mut out) = (Reply::default(), Vec::new());
        let text = "x".repeat(1 << 20);
        let mut push = || reply.push(Text(text.as_str().into()), &mut out, ThinkTags::push);
        assert!((0..16).all(|_| push().is_ok()));
        assert_eq!(push().unwrap_err().kind, ErrorKind::Protocol);
    }
}
