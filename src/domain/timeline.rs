//! Everything that happened in a conversation, in order: messages, tool calls with their changes of files, and forks.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use crate::base::id::{AgentId, MessageId};
use crate::domain::call_title::title_of;
use crate::domain::file_change::StoredStep;
use crate::domain::message::{Body, Message, fork_mark, is_of_child, replaced_mark};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kind {
    Prompt,
    Reply,
    Tool {
        name: String,
        has_failed: bool,
    },
    /// Something that happened to the conversation: a mark, a compaction, an error.
    Event,
    /// A child, if it still exists.
    Fork(Option<AgentId>),
}

/// A row of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    pub message: MessageId,
    /// The message before it.
    pub previous: MessageId,
    /// A child that inherits it inherits up to this message; `None` while tools run.
    pub last: Option<MessageId>,
    /// In milliseconds since 1970.
    pub at: i64,
    pub kind: Kind,
    /// All of it, the most important first.
    pub text: String,
    /// The files that the call, or the turn of a host that it began, changed, and whether that was undone.
    pub files: Vec<(PathBuf, bool)>,
    /// Why these changes are not known.
    pub flaw: Option<String>,
    /// Tokens of the context after it, if the provider has counted them.
    pub context: Option<u64>,
    /// The model still knows it.
    pub is_known: bool,
}

impl Entry {
    /// Without what becomes known later.
    fn new(message: MessageId, at: i64, kind: Kind, text: String) -> Self {
        Self {
            message,
            previous: message,
            last: Some(message),
            at,
            kind,
            text,
            files: Vec::new(),
            flaw: None,
            context: None,
            is_known: true,
        }
    }
}

/// A child, and the last message that it inherits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    pub agent: AgentId,
    pub point: MessageId,
    /// Name and state.
    pub text: String,
}

/// The entries of a conversation. `known` contains what is sent to the model.
pub fn timeline<'a>(
    messages: impl Iterator<Item = &'a Message>,
    known: &HashSet<MessageId>,
    steps: &[StoredStep],
    children: &[Child],
) -> Vec<Entry> {
    let mut builder = Builder { entries: Vec::new(), previous: MessageId(0), group: Vec::new(), open: Vec::new() };
    let mut children: Vec<&Child> = children.iter().collect();
    children.sort_by_key(|child| child.point);
    let mut children = children.into_iter().peekable();
    for message in messages {
        while let Some(child) = children.next_if(|child| child.point < message.id) {
            builder.add_child(child);
        }
        builder.add(message, known.contains(&message.id));
        builder.previous = message.id;
    }
    children.for_each(|child| builder.add_child(child));
    let mut entries = builder.entries;
    let mut changed: BTreeMap<MessageId, Vec<&StoredStep>> = BTreeMap::new();
    steps.iter().filter(|step| step.is_of_tool()).for_each(|step| changed.entry(step.message).or_default().push(step));
    for entry in entries.iter_mut().filter(|entry| !matches!(entry.kind, Kind::Fork(_))) {
        for stored in changed.remove(&entry.message).unwrap_or_default() {
            let files = stored.step.changes.iter();
            entry.files.extend(files.map(|change| (change.path.clone(), stored.undone.contains(&change.path))));
            entry.flaw = entry.flaw.take().or_else(|| stored.step.flaw.clone());
        }
    }
    entries
}

/// The files that the calls from a message on changed and that were not undone, and how many calls changed each.
pub fn changed_since(entries: &[Entry], from: MessageId) -> BTreeMap<&Path, usize> {
    let mut files = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.message >= from) {
        for (path, _) in entry.files.iter().filter(|(_, is_undone)| !is_undone) {
            *files.entry(path.as_path()).or_insert(0) += 1;
        }
    }
    files
}

struct Builder {
    entries: Vec<Entry>,
    previous: MessageId,
    /// The entries of the reply whose calls have no result yet.
    group: Vec<usize>,
    /// The open calls: their ids and entries.
    open: Vec<(String, usize)>,
}

impl Builder {
    fn add(&mut self, message: &Message, is_known: bool) {
        match &message.body {
            Body::User(text) => self.push(message, Kind::Prompt, text.clone(), is_known),
            Body::Assistant(reply) if reply.text.trim().is_empty() => {}
            Body::Assistant(reply) => self.push(message, Kind::Reply, reply.text.clone(), is_known),
            Body::ToolCall(call) => {
                let title = title_of(&call.name, &call.arguments);
                let rest = title.strip_prefix(&call.name).map(|rest| rest.trim_start_matches([':', ' ']));
                let title = rest.filter(|rest| !rest.is_empty()).unwrap_or(&title).to_owned();
                self.begin_call(
                    message,
                    &call.id,
                    Kind::Tool { name: call.name.clone(), has_failed: false },
                    title,
                    is_known,
                );
            }
            Body::ToolResult(result) => self.end_call(message.id, &result.call_id, result.is_error, &result.content),
            Body::Usage(usage) => {
                let counted = self.entries.iter_mut().rev().find(|entry| !matches!(entry.kind, Kind::Fork(_)));
                if let Some(entry) = counted {
                    entry.context = Some(usage.tokens());
                }
            }
            Body::Fork(stored) if is_of_child(stored) => {
                self.push(message, Kind::Event, fork_mark(stored), is_known);
            }
            Body::Command(_) | Body::Fork(_) => {}
            other => {
                if let Some(text) = event(other) {
                    self.push(message, Kind::Event, text, is_known);
                }
            }
        }
    }

    fn push(&mut self, message: &Message, kind: Kind, text: String, is_known: bool) {
        let entry = Entry::new(message.id, message.created_at, kind, text);
        self.entries.push(Entry { previous: self.previous, is_known, ..entry });
    }

    fn begin_call(&mut self, message: &Message, id: &str, kind: Kind, title: String, is_known: bool) {
        let replies = self.entries.iter().rposition(|entry| matches!(entry.kind, Kind::Reply | Kind::Prompt));
        if self.group.is_empty()
            && let Some(reply) =
                replies.filter(|at| self.entries[*at].kind == Kind::Reply && at + 1 == self.entries.len())
        {
            self.group.push(reply);
        }
        self.push(message, kind, title, is_known);
        let at = self.entries.len() - 1;
        self.group.push(at);
        self.open.push((id.to_owned(), at));
        self.group.iter().for_each(|at| self.entries[*at].last = None);
    }

    fn end_call(&mut self, message: MessageId, id: &str, is_error: bool, content: &str) {
        let Some(open) = self.open.iter().position(|(open, _)| open == id) else { return };
        let (_, at) = self.open.remove(open);
        let entry = &mut self.entries[at];
        if let Kind::Tool { has_failed, .. } = &mut entry.kind {
            *has_failed = is_error;
        }
        entry.text.push('\n');
        entry.text.push_str(content);
        if self.open.is_empty() {
            self.group.drain(..).for_each(|at| self.entries[at].last = Some(message));
        }
    }

    fn add_child(&mut self, child: &Child) {
        let at = self.entries.last().map_or(0, |entry| entry.at);
        let kind = Kind::Fork(Some(child.agent));
        self.entries.push(Entry::new(child.point, at, kind, child.text.clone()));
    }
}

fn event(body: &Body) -> Option<String> {
    Some(match body {
        Body::System(text) => text.clone(),
        Body::Clear => "cleared: the model knows nothing from before".into(),
        Body::ClearUndone(_) => "/clear was undone".into(),
        Body::Compaction(compaction) => format!("compacted {} messages\n{}", compaction.messages, compaction.summary),
        Body::CompactionUndone(_) => "/compact was undone".into(),
        Body::Mark(label) => format!("mark {label}"),
        Body::Rewind(to) => format!("rewound to message {}", to.0),
        Body::Replaced(why) => replaced_mark(why),
        Body::Interrupted(why) => format!("interrupted: {why}"),
        Body::Exited => "polylogue exited".into(),
        Body::AgentKilled => "killed".into(),
        Body::Error(text) => format!("error: {text}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::Reply;
    use crate::domain::tool::{ToolCall, ToolResult};

    fn messages() -> Vec<Message> {
        let call = |id: &str| Body::ToolCall(ToolCall { id: id.into(), name: "bash".into(), arguments: "{}".into() });
        let result = |id: &str| {
            Body::ToolResult(ToolResult {
                call_id: id.into(),
                name: "bash".into(),
                content: "done".into(),
                is_error: id == "b",
                duration: std::time::Duration::ZERO,
            })
        };
        let reply = Body::Assistant(Reply { text: "I look".into(), ..Reply::default() });
        let bodies = vec![Body::User("go".into()), reply, call("a"), call("b"), result("a"), result("b")];
        let message = |(n, body)| Message { id: MessageId(n), body, created_at: n };
        (1..).zip(bodies).map(message).collect()
    }

    #[test]
    fn a_child_inherits_a_reply_with_all_of_its_results_or_not_at_all() {
        let messages = messages();
        let known = HashSet::from([MessageId(1)]);
        let last = |count: usize| -> Vec<Option<i64>> {
            let entries = timeline(messages[..count].iter(), &known, &[], &[]);
            entries.iter().map(|entry| entry.last.map(|id| id.0)).collect()
        };
        assert_eq!(last(6), [Some(1), Some(6), Some(6), Some(6)]);
        assert_eq!(last(5), [Some(1), None, None, None]);
        let entries = timeline(messages.iter(), &known, &[], &[]);
        let failed = |entry: &Entry| matches!(entry.kind, Kind::Tool { has_failed: true, .. });
        assert_eq!(entries.iter().map(failed).collect::<Vec<_>>(), [false, false, false, true]);
        assert_eq!(entries.iter().map(|entry| entry.is_known).collect::<Vec<_>>(), [true, false, false, false]);
    }

    #[test]
    fn forks_are_where_they_left() {
        let child = |point, text: &str| Child {
            agent: AgentId::from_bytes([7; 16]),
            point: MessageId(point),
            text: text.into(),
        };
        let children = [child(6, "late"), child(1, "early")];
        let entries = timeline(messages().iter(), &HashSet::new(), &[], &children);
        let texts: Vec<&str> = entries.iter().map(|entry| entry.text.lines().next().unwrap()).collect();
        assert_eq!(texts, ["go", "early", "I look", "{}", "{}", "late"]);
    }
}
