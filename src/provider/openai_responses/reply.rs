//! From items of one reply and their deltas to events: text, calls with our own indexes, reasoning; all of it limited.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::base::error::Result;
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::provider::limits::{self, ReplySize};
use crate::provider::openai_responses::wire::{Item, WireUsage};
use crate::provider::partial_call::PartialCall;
use crate::provider::response::PartialReply;

const MAX_ITEMS: usize = 4096;

/// One reply, as far as it was received.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// The items so far, by their index in the output.
    items: BTreeMap<u64, Progress>,
    /// The item of the latest event.
    latest: u64,
    announced: usize,
    size: ReplySize,
    /// The message of the latest text.
    message: Option<u64>,
    /// The item and the part of its summary of the latest reasoning.
    thought: Option<(u64, u64)>,
    finish: Option<Finish>,
    usage: Option<Usage>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Whether text or reasoning came in deltas.
    has_deltas: bool,
    is_done: bool,
    call: Option<PartialCall>,
    /// The arguments of the call so far. The event at their end repeats them and takes precedence over the deltas,
    /// because some servers also send them when the call begins.
    arguments: String,
    /// Whether these came when the call began: deltas replace them.
    is_initial: bool,
    has_arguments: bool,
}

impl PartialReply for Reply {
    fn has_begun(&self) -> bool {
        !self.size.is_zero() || self.items.values().any(|item| item.call.is_some())
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        let mut has_calls = false;
        for item in self.items.values_mut() {
            let Some(call) = item.call.as_mut() else { continue };
            has_calls = true;
            // They were within the limit when they came.
            drop(call.add_arguments(&std::mem::take(&mut item.arguments), out));
            call.announce(&mut self.announced, out);
        }
        limits::close(self.finish, has_calls, out);
    }
}

impl Reply {
    /// The item of an event: by its index, or without one the latest, unless it begins one.
    pub fn index_of(&mut self, index: Option<u64>, begins: bool) -> u64 {
        let next = || self.items.keys().next_back().map_or(0, |last| last.saturating_add(1));
        let is_done = self.items.get(&self.latest).is_some_and(|item| item.is_done);
        self.latest = match index {
            Some(index) => index,
            None if begins || is_done => next(),
            None => self.latest,
        };
        self.latest
    }

    /// More text of a message. The messages of one reply become one text, with an empty line between them.
    pub fn push_text(&mut self, index: u64, text: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.item(index)?.has_deltas = true;
        let is_another = self.message.replace(index).is_some_and(|before| before != index);
        self.push(StreamEvent::Text, is_another, text, out)
    }

    /// More reasoning, by item and part of its summary.
    pub fn push_thinking(&mut self, part: (u64, u64), text: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.item(part.0)?.has_deltas = true;
        let is_another = self.thought.replace(part).is_some_and(|before| before != part);
        self.push(StreamEvent::Thinking, is_another, text, out)
    }

    /// An item begins. A call has its name already.
    pub fn begin_item(&mut self, index: u64, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        self.item(index)?;
        if item.kind.0 == "function_call" {
            self.name_call(index, item, out)?;
            self.add_arguments(index, &item.arguments.0)?;
            self.item(index)?.is_initial = true;
        }
        Ok(())
    }

    /// An item ends: appends what its deltas omitted, and a signature for reasoning and phases.
    pub fn end_item(&mut self, index: u64, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        let progress = self.item(index)?;
        if std::mem::replace(&mut progress.is_done, true) {
            return Ok(());
        }
        let has_deltas = progress.has_deltas;
        match &*item.kind.0 {
            "function_call" => {
                self.name_call(index, item, out)?;
                self.complete_arguments(index, &item.arguments.0, out)
            }
            "message" => {
                if !has_deltas {
                    self.push_text(index, &parts_of(item.content.as_ref()).concat(), out)?;
                }
                self.push_phase(item, out)
            }
            "reasoning" => {
                if !has_deltas {
                    self.push_whole_thinking(index, item, out)?;
                }
                self.push_reasoning(item, out)
            }
            _ => Ok(()),
        }
    }

    /// More arguments of a call.
    pub fn add_arguments(&mut self, index: u64, more: &str) -> Result<()> {
        self.call(index)?;
        let item = self.item(index)?;
        if std::mem::take(&mut item.is_initial) {
            item.arguments.clear();
        }
        limits::arguments(item.arguments.len() + more.len())?;
        item.arguments.push_str(more);
        Ok(())
    }

    /// The complete arguments of a call; if they are empty, its deltas count.
    pub fn complete_arguments(&mut self, index: u64, whole: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        self.call(index)?;
        let item = self.item(index)?;
        if item.has_arguments {
            return Ok(());
        }
        let deltas = std::mem::take(&mut item.arguments);
        let arguments = if whole.is_empty() { &deltas } else { whole };
        item.has_arguments = !arguments.is_empty();
        item.call.as_mut().map_or(Ok(()), |call| call.add_arguments(arguments, out))
    }

    pub fn take_usage(&mut self, usage: &WireUsage, out: &mut Vec<StreamEvent>) {
        let details = usage.input_tokens_details.as_ref();
        let usage = Usage {
            input: usage.input_tokens.unwrap_or(0),
            cached: details.and_then(|details| details.cached_tokens).unwrap_or(0),
            written: details.and_then(|details| details.cache_write_tokens).unwrap_or(0),
            output: usage.output_tokens.unwrap_or(0),
            reasoning: usage.output_tokens_details.as_ref().and_then(|it| it.reasoning_tokens).unwrap_or(0),
            cost: usage.cost.filter(|dollars| *dollars >= 0.0).map(|dollars| (dollars * 1e9).round() as u64),
            ..Usage::default()
        };
        if usage != Usage::default() && self.usage.as_ref() != Some(&usage) {
            self.usage = Some(usage.clone());
            out.push(StreamEvent::Usage(usage));
        }
    }

    /// The final status. Incomplete for an unknown reason counts as cut off.
    pub fn finish(&mut self, status: &str, reason: Option<&str>) {
        self.finish = Some(match (status, reason) {
            ("incomplete", Some("content_filter")) => Finish::ContentFilter,
            ("incomplete", _) => Finish::Length,
            _ => Finish::Stop,
        });
    }

    fn item(&mut self, index: u64) -> Result<&mut Progress> {
        if self.items.len() == MAX_ITEMS && !self.items.contains_key(&index) {
            return Err(limits::exceeded("more than 4096 items in one reply"));
        }
        Ok(self.items.entry(index).or_default())
    }

    fn call(&mut self, index: u64) -> Result<&mut PartialCall> {
        if self.item(index)?.call.is_none() {
            limits::another_call(self.items.values().filter(|item| item.call.is_some()).count())?;
        }
        Ok(self.item(index)?.call.get_or_insert_default())
    }

    fn name_call(&mut self, index: u64, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        self.call(index)?;
        let announced = &mut self.announced;
        let Some(call) = self.items.get_mut(&index).and_then(|item| item.call.as_mut()) else { return Ok(()) };
        if !call.is_announced() && !item.name.0.is_empty() {
            let id = if item.call_id.0.is_empty() { &item.id.0 } else { &item.call_id.0 };
            (call.id, call.name) = ((**id).to_owned(), (*item.name.0).to_owned());
            call.announce(announced, out);
        }
        Ok(())
    }

    fn push(
        &mut self,
        event: fn(String) -> StreamEvent,
        is_another: bool,
        text: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<()> {
        self.size.add(text.len())?;
        if is_another {
            out.push(event("\n\n".to_owned()));
        }
        out.push(event(text.to_owned()));
        Ok(())
    }

    /// Reasoning that was not streamed: its summary, or else the reasoning itself.
    fn push_whole_thinking(&mut self, index: u64, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        let summary = parts_of(item.summary.as_ref());
        let parts = if summary.is_empty() { parts_of(item.content.as_ref()) } else { summary };
        (0..).zip(parts).try_for_each(|(part, text)| self.push_thinking((index, part), text, out))
    }

    /// The phase of a message. Without it a model takes an interim message for its answer and stops early
    /// ("preserve and resend phase on all assistant messages").
    fn push_phase(&mut self, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        if item.phase.0.is_empty() {
            return Ok(());
        }
        self.push_signature(&json!({"phase": *item.phase.0}), out)
    }

    /// Reasoning in the form that is sent back: encrypted, or in clear text if the server sends that instead. With
    /// neither there is nothing to send, because the server does not store it. The `status` is left out: OpenAI sends
    /// it and rejects it (`Unknown parameter: 'input[1].status'`).
    fn push_reasoning(&mut self, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        let content = item.content.as_ref().filter(|content| content.as_array().is_some_and(|list| !list.is_empty()));
        if item.encrypted_content.0.is_empty() && content.is_none() {
            return Ok(());
        }
        let summary = item.summary.as_ref().filter(|summary| summary.is_array());
        let mut item_json = json!({"type": "reasoning", "summary": summary.unwrap_or(&Value::Array(Vec::new()))});
        let texts = [("id", &item.id), ("encrypted_content", &item.encrypted_content)];
        for (key, text) in texts.iter().filter(|(_, text)| !text.0.is_empty()) {
            item_json[*key] = (*text.0).into();
        }
        if let Some(content) = content {
            item_json["content"] = content.clone();
        }
        self.push_signature(&item_json, out)
    }

    fn push_signature(&mut self, item_json: &Value, out: &mut Vec<StreamEvent>) -> Result<()> {
        let item_json = item_json.to_string();
        self.size.add(item_json.len())?;
        out.push(StreamEvent::Signature(item_json));
        Ok(())
    }
}

/// The texts of a list of parts: text, refusals or reasoning.
fn parts_of(list: Option<&Value>) -> Vec<&str> {
    let parts = list.and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| part.get("text").or_else(|| part.get("refusal"))?.as_str()).collect()
}
