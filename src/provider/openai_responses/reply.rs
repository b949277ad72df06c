//! Items of one reply and their deltas become events: texts, calls with indexes of our own, reasoning; all of it bounded.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::base::error::Result;
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::provider::bounds::{self, Said};
use crate::provider::openai_responses::wire::{Item, WireUsage};

/// The most items of one reply.
const MAX_ITEMS: usize = 4096;

/// One reply, as far as it came.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// What is known of each item, by its place in the output.
    items: BTreeMap<u64, Progress>,
    /// The item that was last heard of.
    latest: u64,
    /// How many calls the agent has been told of.
    announced: usize,
    said: Said,
    /// The message that was last heard of.
    message: Option<u64>,
    /// The part of a summary that was last heard of: item and part.
    thought: Option<(u64, u64)>,
    finish: Option<Finish>,
    usage: Option<Usage>,
}

/// How far an item has come.
#[derive(Debug, Default)]
struct Progress {
    /// Its text, reasoning or arguments came in deltas, at least in part.
    is_heard: bool,
    is_over: bool,
    call: Option<Call>,
}

/// A call that has begun.
#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    /// Arguments that came before the name; empty once the call is announced.
    held: String,
    /// The index that the agent sees, once the call is announced.
    index: Option<usize>,
    /// Bytes of arguments so far.
    length: usize,
}

impl Reply {
    /// Whether any part of a reply came: text, reasoning or a call.
    pub fn has_begun(&self) -> bool {
        !self.said.is_nothing() || self.items.values().any(|item| item.call.is_some())
    }

    /// Whether the response has said how it ended.
    pub fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Which item an event is about: that of its index, or without one the last, unless it begins one.
    pub fn place(&mut self, index: Option<u64>, begins: bool) -> u64 {
        let next = || self.items.keys().next_back().map_or(0, |last| last.saturating_add(1));
        let is_over = self.items.get(&self.latest).is_some_and(|item| item.is_over);
        self.latest = match index {
            Some(index) => index,
            None if begins || is_over => next(),
            None => self.latest,
        };
        self.latest
    }

    /// More of a message. Two messages of one reply are one text, with an empty line between them.
    ///
    /// # Errors
    /// `Protocol` if a bound is passed.
    pub fn say(&mut self, at: u64, text: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.item(at)?.is_heard = true;
        let is_another = self.message.replace(at).is_some_and(|before| before != at);
        self.push(StreamEvent::Text, is_another, text, out)
    }

    /// More of the reasoning that is shown, by item and part of its summary.
    ///
    /// # Errors
    /// `Protocol` if a bound is passed.
    pub fn think(&mut self, part: (u64, u64), text: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.item(part.0)?.is_heard = true;
        let is_another = self.thought.replace(part).is_some_and(|before| before != part);
        self.push(StreamEvent::Thinking, is_another, text, out)
    }

    /// An item begins: a call has its name already.
    ///
    /// # Errors
    /// `Protocol` if a bound is passed.
    pub fn begin_item(&mut self, at: u64, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        self.item(at)?;
        if item.kind.0 == "function_call" {
            self.name_call(at, item, out)?;
            self.add_arguments(at, &item.arguments.0, out)?;
        }
        Ok(())
    }

    /// An item is whole: gives what its deltas have not said, and a signature for reasoning and phases.
    ///
    /// # Errors
    /// `Protocol` if a bound is passed.
    pub fn end_item(&mut self, at: u64, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        let progress = self.item(at)?;
        if std::mem::replace(&mut progress.is_over, true) {
            return Ok(());
        }
        let is_heard = progress.is_heard;
        match &*item.kind.0 {
            "function_call" => {
                self.name_call(at, item, out)?;
                self.complete_arguments(at, &item.arguments.0, out)
            }
            "message" => {
                if !is_heard {
                    self.say(at, &parts_of(item.content.as_ref()).concat(), out)?;
                }
                self.push_phase(item, out)
            }
            "reasoning" => {
                if !is_heard {
                    self.think_whole(at, item, out)?;
                }
                self.push_reasoning(item, out)
            }
            _ => Ok(()),
        }
    }

    /// More arguments of a call.
    ///
    /// # Errors
    /// `Protocol` if a bound is passed.
    pub fn add_arguments(&mut self, at: u64, more: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        let call = self.call(at)?;
        call.length += more.len();
        bounds::arguments(call.length)?;
        match call.index {
            Some(index) if !more.is_empty() => {
                let arguments = more.to_owned();
                out.push(StreamEvent::ToolCall { index, id: String::new(), name: String::new(), arguments });
            }
            Some(_) => {}
            None => call.held.push_str(more),
        }
        Ok(())
    }

    /// All arguments of a call, of which the deltas may have said nothing.
    ///
    /// # Errors
    /// `Protocol` if a bound is passed.
    pub fn complete_arguments(&mut self, at: u64, whole: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        if self.call(at)?.length == 0 { self.add_arguments(at, whole, out) } else { Ok(()) }
    }

    /// What the request cost.
    pub fn take_usage(&mut self, usage: &WireUsage, out: &mut Vec<StreamEvent>) {
        let details = usage.input_tokens_details.as_ref();
        let usage = Usage {
            input: usage.input_tokens.unwrap_or(0),
            cached: details.and_then(|details| details.cached_tokens).unwrap_or(0),
            written: details.and_then(|details| details.cache_write_tokens).unwrap_or(0),
            output: usage.output_tokens.unwrap_or(0),
            cost: usage.cost.filter(|dollars| *dollars >= 0.0).map(|dollars| (dollars * 1e9) as u64),
        };
        if usage != Usage::default() && self.usage.replace(usage) != Some(usage) {
            out.push(StreamEvent::Usage(usage));
        }
    }

    /// How the response ended. What is incomplete for a reason that no one has written down was cut.
    pub fn finish(&mut self, status: &str, reason: Option<&str>) {
        self.finish = Some(match (status, reason) {
            ("incomplete", Some("content_filter")) => Finish::ContentFilter,
            ("incomplete", _) => Finish::Length,
            _ => Finish::Stop,
        });
    }

    /// The reply is whole: gives the calls that never got a name, why the model stopped, and `Done`.
    pub fn close(&mut self, out: &mut Vec<StreamEvent>) {
        let mut has_calls = false;
        for call in self.items.values_mut().filter_map(|item| item.call.as_mut()) {
            has_calls = true;
            call.announce(&mut self.announced, out);
        }
        bounds::close(self.finish, has_calls, out);
    }

    fn item(&mut self, at: u64) -> Result<&mut Progress> {
        if self.items.len() == MAX_ITEMS && !self.items.contains_key(&at) {
            return Err(bounds::too_much("more than 4096 items in one reply"));
        }
        Ok(self.items.entry(at).or_default())
    }

    fn call(&mut self, at: u64) -> Result<&mut Call> {
        if self.item(at)?.call.is_none() {
            bounds::another_call(self.items.values().filter(|item| item.call.is_some()).count())?;
        }
        Ok(self.item(at)?.call.get_or_insert_default())
    }

    fn name_call(&mut self, at: u64, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        self.call(at)?;
        let announced = &mut self.announced;
        let Some(call) = self.items.get_mut(&at).and_then(|item| item.call.as_mut()) else { return Ok(()) };
        if call.index.is_none() && !item.name.0.is_empty() {
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
        self.said.count(text.len())?;
        if is_another {
            out.push(event("\n\n".to_owned()));
        }
        out.push(event(text.to_owned()));
        Ok(())
    }

    /// Reasoning that was not streamed: its summary, or where there is none the reasoning itself.
    fn think_whole(&mut self, at: u64, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        let summary = parts_of(item.summary.as_ref());
        let parts = if summary.is_empty() { parts_of(item.content.as_ref()) } else { summary };
        (0..).zip(parts).try_for_each(|(part, text)| self.think((at, part), text, out))
    }

    /// The phase of the message that ends here. Without it a model takes what it has said on its way for its answer, and
    /// stops early ("preserve and resend phase on all assistant messages").
    fn push_phase(&mut self, item: &Item<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        if item.phase.0.is_empty() {
            return Ok(());
        }
        self.push_signature(&json!({"phase": *item.phase.0}), out)
    }

    /// Reasoning as it goes back: with its encrypted form, or in clear text where a server gives that instead. Without
    /// either there is nothing to give back: by its id alone nobody finds it, as nothing is stored. Its `status` is left
    /// out: OpenAI sends it and does not take it (`Unknown parameter: 'input[1].status'`).
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
        self.said.count(item_json.len())?;
        out.push(StreamEvent::Signature(item_json));
        Ok(())
    }
}

impl Call {
    /// The first piece, with id and name; nothing if it was given before.
    fn announce(&mut self, announced: &mut usize, out: &mut Vec<StreamEvent>) {
        if self.index.is_none() {
            let index = *announced;
            *announced += 1;
            self.index = Some(index);
            let arguments = std::mem::take(&mut self.held);
            out.push(StreamEvent::ToolCall { index, id: self.id.clone(), name: self.name.clone(), arguments });
        }
    }
}

/// The texts of a list of parts: what was said, declined, or thought.
fn parts_of(list: Option<&Value>) -> Vec<&str> {
    let parts = list.and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| part.get("text").or_else(|| part.get("refusal"))?.as_str()).collect()
}
