//! The body of a message as columns, and back.
//!
//! `kind` is a stable name, `content` the text that a person would search for, `data` JSON with the rest. A row that
//! cannot be read gives a message, so that the caller can skip and report it.

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};

use crate::base::id::MessageId;
use crate::domain::compaction::Compaction;
use crate::domain::message::{Body, Message, Reply, Signature};
use crate::domain::stream::Usage;
use crate::domain::tool::{ToolCall, ToolResult};

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct ReplyData<'a> {
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    thinking: Cow<'a, str>,
    is_partial: bool,
    #[serde(rename = "seals", skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<SignatureData>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    by: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct SignatureData {
    text: usize,
    calls: usize,
    json: String,
}

#[derive(Serialize, Deserialize)]
struct CallData<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct ResultData<'a> {
    #[serde(borrow)]
    call_id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    is_error: bool,
    /// Nanoseconds.
    #[serde(default)]
    duration_ns: u64,
}

/// The common columns of calls and results.
#[derive(Deserialize)]
struct ToolData<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct RewindData {
    to: i64,
}

#[derive(Serialize, Deserialize)]
struct UsageData<'a> {
    input: u64,
    cached: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    written: u64,
    output: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    reasoning: u64,
    /// Billionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    /// Empty in rows of earlier versions.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    model: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct CompactionData {
    from: i64,
    up_to: i64,
    messages: usize,
    /// Tokens before and after.
    before: u64,
    after: u64,
    #[serde(default)]
    task: String,
    #[serde(default)]
    request: String,
    #[serde(default)]
    files: Vec<String>,
}

impl CompactionData {
    fn of(compaction: &Compaction) -> Self {
        let Compaction { from, up_to, messages, before, after, task, request, files, .. } = compaction.clone();
        Self { from: from.0, up_to: up_to.0, messages, before, after, task, request, files }
    }

    fn with(self, summary: String) -> Compaction {
        let Self { from, up_to, messages, before, after, task, request, files } = self;
        let (from, up_to) = (MessageId(from), MessageId(up_to));
        Compaction { from, up_to, summary, messages, before, after, task, request, files }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The tool of a call or result.
pub(super) fn tool_of(kind: &str, data: Option<&str>) -> Option<String> {
    let is_of_tool = matches!(kind, "tool_call" | "tool_result");
    let data: ToolData = serde_json::from_str(data.filter(|_| is_of_tool)?).ok()?;
    Some(data.name.into_owned())
}

/// The text column of a body.
pub(super) fn content(body: &Body) -> &str {
    match body {
        Body::Assistant(reply) => &reply.text,
        Body::ToolCall(call) => &call.arguments,
        Body::ToolResult(result) => &result.content,
        Body::System(text)
        | Body::User(text)
        | Body::Mark(text)
        | Body::Fork(text)
        | Body::Replaced(text)
        | Body::Interrupted(text)
        | Body::Command(text)
        | Body::Error(text) => text,
        Body::Compaction(compaction) => &compaction.summary,
        Body::Clear
        | Body::ClearUndone(_)
        | Body::CompactionUndone(_)
        | Body::Rewind(_)
        | Body::Exited
        | Body::AgentKilled
        | Body::Usage(_) => "",
    }
}

/// The JSON column of a body, if its kind has one and it is not empty.
pub(super) fn data(body: &Body) -> Option<String> {
    match body {
        Body::Assistant(Reply { thinking, is_partial, signatures, by, .. })
            if !thinking.is_empty() || *is_partial || !signatures.is_empty() || !by.is_empty() =>
        {
            let signatures = signatures.iter().map(|Signature { text, calls, json }| SignatureData {
                text: *text,
                calls: *calls,
                json: json.clone(),
            });
            let (thinking, by) = (thinking.into(), by.into());
            Some(json(&ReplyData { thinking, is_partial: *is_partial, signatures: signatures.collect(), by }))
        }
        Body::ToolCall(call) => Some(json(&CallData { id: (&call.id).into(), name: (&call.name).into() })),
        Body::ToolResult(result) => Some(json(&ResultData {
            call_id: (&result.call_id).into(),
            name: (&result.name).into(),
            is_error: result.is_error,
            duration_ns: u64::try_from(result.duration.as_nanos()).unwrap_or(u64::MAX),
        })),
        Body::Rewind(MessageId(to)) | Body::ClearUndone(MessageId(to)) | Body::CompactionUndone(MessageId(to)) => {
            Some(json(&RewindData { to: *to }))
        }
        Body::Compaction(compaction) => Some(json(&CompactionData::of(compaction))),
        Body::Usage(usage) => Some(write_usage(usage)),
        _ => None,
    }
}

pub(super) fn write_usage(usage: &Usage) -> String {
    json(&UsageData {
        input: usage.input,
        cached: usage.cached,
        written: usage.written,
        output: usage.output,
        reasoning: usage.reasoning,
        cost: usage.cost,
        model: (&usage.model).into(),
    })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a struct of texts and numbers is always JSON")
}

/// A text column; of a damaged one, as much as can be read.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Null => String::new(),
    })
}

/// A message from the columns `id, kind, content, data, created_at`, or why it cannot be read.
pub(super) fn message(row: &Row<'_>) -> Result<Message, String> {
    let id = MessageId(row.get_ref(0).and_then(|id| Ok(id.as_i64()?)).unwrap_or(0));
    match body(row) {
        Ok(body) => Ok(Message { id, body, created_at: row.get(4).unwrap_or(0) }),
        Err(why) => Err(format!("message {} is damaged and left out: {why}", id.0)),
    }
}

fn body(row: &Row<'_>) -> Result<Body, String> {
    let text = |column: usize, name: &str| {
        let value = row.get_ref(column).map_err(|error| error.to_string())?;
        value.as_str_or_null().map_err(|_| format!("its {name} is not text"))
    };
    let kind = text(1, "kind")?.unwrap_or_default();
    let content = text(2, "content")?.unwrap_or_default();
    read(kind, content, text(3, "data")?)
}

fn read(kind: &str, content: &str, data: Option<&str>) -> Result<Body, String> {
    let text = || content.to_owned();
    Ok(match kind {
        "system" => Body::System(text()),
        "user" => Body::User(text()),
        "assistant" => Body::Assistant(read_reply(content, data)?),
        "tool_call" => Body::ToolCall(read_call(content, data)?),
        "tool_result" => Body::ToolResult(read_result(content, data)?),
        "clear" => Body::Clear,
        "clear_undone" => Body::ClearUndone(MessageId(parse::<RewindData>(data)?.to)),
        "compaction" => Body::Compaction(Box::new(parse::<CompactionData>(data)?.with(text()))),
        "compaction_undone" => Body::CompactionUndone(MessageId(parse::<RewindData>(data)?.to)),
        "mark" => Body::Mark(text()),
        "rewind" => Body::Rewind(MessageId(parse::<RewindData>(data)?.to)),
        "fork" => Body::Fork(text()),
        "replaced" => Body::Replaced(text()),
        "interrupted" => Body::Interrupted(text()),
        "exited" => Body::Exited,
        "agent_killed" => Body::AgentKilled,
        "command" => Body::Command(text()),
        "usage" => Body::Usage(read_usage(data)?),
        "error" => Body::Error(text()),
        other => return Err(format!("unknown kind `{}`", other.escape_debug())),
    })
}

fn read_reply(content: &str, data: Option<&str>) -> Result<Reply, String> {
    let stored = data.map_or_else(|| Ok(ReplyData::default()), |data| parse(Some(data)))?;
    let signatures =
        stored.signatures.into_iter().map(|SignatureData { text, calls, json }| Signature { text, calls, json });
    Ok(Reply {
        text: content.to_owned(),
        thinking: stored.thinking.into_owned(),
        is_partial: stored.is_partial,
        signatures: signatures.collect(),
        by: stored.by.into_owned(),
    })
}

fn read_call(content: &str, data: Option<&str>) -> Result<ToolCall, String> {
    let stored: CallData = parse(data)?;
    Ok(ToolCall { id: stored.id.into_owned(), name: stored.name.into_owned(), arguments: content.to_owned() })
}

fn read_result(content: &str, data: Option<&str>) -> Result<ToolResult, String> {
    let stored: ResultData = parse(data)?;
    Ok(ToolResult {
        call_id: stored.call_id.into_owned(),
        name: stored.name.into_owned(),
        content: content.to_owned(),
        is_error: stored.is_error,
        duration: Duration::from_nanos(stored.duration_ns),
    })
}

pub(super) fn read_usage(data: Option<&str>) -> Result<Usage, String> {
    let UsageData { input, cached, written, output, reasoning, cost, model } = parse(data)?;
    Ok(Usage { input, cached, written, output, reasoning, cost, model: model.into_owned() })
}

fn parse<'a, T: Deserialize<'a>>(data: Option<&'a str>) -> Result<T, String> {
    serde_json::from_str(data.unwrap_or("null")).map_err(|error| format!("its data cannot be read ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compaction(text: &str) -> Compaction {
        Compaction {
            from: MessageId(3),
            up_to: MessageId(9),
            summary: text.to_owned(),
            messages: 4,
            before: 5,
            after: 6,
            task: text.to_owned(),
            request: text.to_owned(),
            files: vec![text.to_owned()],
        }
    }

    fn one_of_each() -> Vec<Body> {
        let odd = "a\0b\u{1b}[31m\"\\\r\n\u{7f} \u{202e} 👩‍👩‍👧".to_owned();
        let signatures = vec![Signature { text: 1, calls: 2, json: odd.clone() }];
        let reply = Reply { text: odd.clone(), thinking: odd.clone(), is_partial: true, signatures, by: odd.clone() };
        let call = ToolCall { id: odd.clone(), name: odd.clone(), arguments: "{broken".into() };
        let result = ToolResult {
            call_id: odd.clone(),
            name: odd.clone(),
            content: odd.clone(),
            is_error: true,
            duration: Duration::from_nanos(1_234_567_891),
        };
        vec![
            Body::System(odd.clone()),
            Body::User(odd.clone()),
            Body::Assistant(reply),
            Body::Assistant(Reply { text: "plain".into(), ..Reply::default() }),
            Body::ToolCall(call),
            Body::ToolResult(result),
            Body::Clear,
            Body::ClearUndone(MessageId(7)),
            Body::Compaction(Box::new(compaction(&odd))),
            Body::CompactionUndone(MessageId(10)),
            Body::Mark(odd.clone()),
            Body::Rewind(MessageId(i64::MAX)),
            Body::Fork(odd.clone()),
            Body::Replaced(odd.clone()),
            Body::Interrupted(odd.clone()),
            Body::Exited,
            Body::AgentKilled,
            Body::Command(odd.clone()),
            Body::Usage(Usage {
                input: u64::MAX,
                cached: 1,
                written: 2,
                output: 5,
                reasoning: 4,
                cost: Some(3),
                model: odd.clone(),
            }),
            Body::Error(odd),
        ]
    }

    #[test]
    fn every_body_reads_back_unchanged_whatever_bytes_it_holds() {
        for body in one_of_each() {
            let back = read(body.kind(), content(&body), data(&body).as_deref());
            assert_eq!(back, Ok(body));
        }
    }

    #[test]
    fn a_damaged_row_is_reported_and_never_guessed() {
        assert!(read("prophecy", "", None).unwrap_err().contains("unknown kind `prophecy`"));
        for kind in ["tool_call", "tool_result", "clear_undone", "compaction", "compaction_undone", "rewind", "usage"] {
            assert!(read(kind, "", None).is_err(), "{kind} without data");
            assert!(read(kind, "", Some("{")).unwrap_err().contains("cannot be read"), "{kind} with half of it");
        }
        assert!(read("assistant", "", Some("[7]")).is_err());
    }
}
